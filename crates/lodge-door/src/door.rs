//! Access to one home: its token, its devices and its pairing tickets.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    Admission, Device, Role,
    ancestry::Terminals,
    devices::{self, Record},
    disk_full, secret,
    tickets::{Invalid, TICKET_LIFE, Tickets},
};

/// The file with the token, in the home.
const TOKEN: &str = "token";
/// Nobody has so many; it limits what the holder of a stolen ticket, or a script, can fill.
const MOST_DEVICES: usize = 256;
const LONGEST_NAME: usize = 80;

/// Why the access data of a home cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The token file has no valid token.
    #[error("{0} does not contain a valid token (16 or more of 0-9 A-Z a-z _ -). Delete the file to get a new one.")]
    Token(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot use {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A ticket, to be given to a device.
#[derive(Debug)]
pub struct Ticket {
    /// What the device shows.
    pub text: String,
    /// Until when.
    pub expires: Timestamp,
}

/// What a new device gets. The secrets are not stored here and cannot be retrieved again.
#[derive(Debug)]
pub struct Paired {
    /// The device.
    pub device: Device,
    /// For where scripts cannot read it: a cookie.
    pub cookie: String,
    /// For where other servers of the same machine cannot read it: the page's storage.
    pub key: String,
}

/// Why a device is not paired.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// It was never issued, was used, or has expired.
    #[error("this pairing ticket was used, has expired or is unknown; create a new one with `lodge pair`")]
    Ticket,
    /// Somebody is guessing.
    #[error("too many wrong tickets; wait a minute")]
    TooManyWrong,
    /// A name that cannot be shown.
    #[error("a device's name must have 1 to 80 characters and no control characters")]
    Name,
    /// There are too many devices.
    #[error("there are already {MOST_DEVICES} devices; revoke some with `lodge devices revoke`")]
    TooManyDevices,
    /// The device could not be saved.
    #[error("cannot save the device: {0}")]
    Storage(#[from] io::Error),
}

/// Decides who may connect.
pub struct Door {
    /// Without one, everybody who can connect is admitted.
    token: Option<Arc<str>>,
    /// Where devices are stored; without it, in memory only.
    home: Option<PathBuf>,
    tickets: Mutex<Tickets>,
    devices: Mutex<Devices>,
    /// Held while the file of devices is changed, so that changes are serialised.
    changing: Mutex<()>,
    pub(crate) terminals: Arc<Terminals>,
}

#[derive(Default)]
struct Devices {
    records: Vec<Record>,
    /// Whether somebody was seen since the file was written.
    seen: bool,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("home", &self.home).finish_non_exhaustive()
    }
}

impl Door {
    /// The door of a home: its token, made when there is none, and its devices.
    pub fn open(home: &Path) -> Result<Self, DoorError> {
        let token = token(home)?;
        let records = devices::load(home).map_err(|error| DoorError::File {
            path: home.join(devices::FILE),
            error,
        })?;
        Ok(Self::new(Some(token.into()), Some(home.to_owned()), records))
    }

    /// A door that stores nothing.
    pub fn with_token(token: impl Into<Arc<str>>) -> Self {
        Self::new(Some(token.into()), None, Vec::new())
    }

    /// A door that admits everybody who can connect.
    pub fn unlocked() -> Self {
        Self::new(None, None, Vec::new())
    }

    fn new(token: Option<Arc<str>>, home: Option<PathBuf>, records: Vec<Record>) -> Self {
        Self {
            token,
            home,
            tickets: Mutex::default(),
            devices: Mutex::new(Devices { records, seen: false }),
            changing: Mutex::default(),
            terminals: Arc::default(),
        }
    }

    /// Distinguishes the hosts that one browser knows; not a secret.
    pub fn id(&self) -> String {
        let mut id = secret::hash(&format!("id of {}", self.token.as_deref().unwrap_or_default()));
        id.retain(|c| c.is_ascii_alphanumeric());
        id.truncate(8);
        id
    }

    /// The owner's token.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Admits a client without credentials, where none are required.
    pub fn admit_anybody(&self) -> Option<Admission> {
        self.token.is_none().then(Admission::owner)
    }

    /// Admits a client with the owner's token, or with both secrets of a device as `cookie.key`.
    pub fn admit_token(&self, given: &str) -> Option<Admission> {
        match &self.token {
            None => Some(Admission::owner()),
            Some(token) if secret::same(given, token) => Some(Admission::owner()),
            Some(_) => {
                let (cookie, key) = given.rsplit_once('.')?;
                self.admit_device(cookie, key)
            }
        }
    }

    /// Admits a device with both its secrets.
    pub fn admit_device(&self, cookie: &str, key: &str) -> Option<Admission> {
        let mut devices = self.devices.lock();
        let record = devices.records.iter_mut().find(|record| record.knows(cookie, key))?;
        record.device.last_seen = Timestamp::now();
        let admission = record.admission();
        devices.seen = true;
        Some(admission)
    }

    /// A ticket for a new device. A name given here takes precedence over the device's own.
    pub fn ticket(&self, role: Role, name: Option<String>) -> Result<Ticket, PairError> {
        if name.as_deref().is_some_and(|name| !is_name(name)) {
            return Err(PairError::Name);
        }
        let text = self.tickets.lock().add(role.min(Role::Full), name, Instant::now());
        let expires = Timestamp::now() + jiff::SignedDuration::from_secs(TICKET_LIFE.as_secs().cast_signed());
        Ok(Ticket { text, expires })
    }

    /// Pairs a device with a ticket. Writes a file, so do not call it where blocking matters.
    pub fn pair(&self, ticket: &str, name: Option<&str>) -> Result<Paired, PairError> {
        if name.is_some_and(|name| !is_name(name)) {
            return Err(PairError::Name);
        }
        let _changing = self.changing.lock();
        let wanted = self
            .tickets
            .lock()
            .redeem(ticket, Instant::now())
            .map_err(|why| match why {
                Invalid::Unknown => PairError::Ticket,
                Invalid::TooManyWrong => PairError::TooManyWrong,
            })?;
        let mut records = self.devices.lock().records.clone();
        if records.len() >= MOST_DEVICES {
            self.tickets.lock().restore(ticket, wanted);
            return Err(PairError::TooManyDevices);
        }
        let given = wanted.name.as_deref().or(name).unwrap_or("a browser").to_owned();
        let (record, secrets) = Record::new(given, wanted.role, Timestamp::now());
        let device = record.device.clone();
        records.push(record);
        if let Err(error) = self.save(&records) {
            self.tickets.lock().restore(ticket, wanted);
            return Err(error.into());
        }
        self.devices.lock().records = records;
        tracing::info!(device = device.id, name = device.name, role = %device.role, "a device was paired");
        Ok(Paired {
            device,
            cookie: secrets.cookie,
            key: secrets.key,
        })
    }

    /// The devices.
    pub fn devices(&self) -> Vec<Device> {
        let devices = self.devices.lock();
        devices.records.iter().map(|record| record.device.clone()).collect()
    }

    /// Revokes a device and ends its connections. False if there is none with this id. Writes a file.
    pub fn revoke(&self, id: &str) -> io::Result<bool> {
        let _changing = self.changing.lock();
        let mut records = self.devices.lock().records.clone();
        let Some(at) = records.iter().position(|record| record.device.id == id) else {
            return Ok(false);
        };
        let revoked = records.remove(at).revoked;
        // Out first: should the file not be written, the device is at least out until the host restarts, and the caller
        // is told.
        self.devices.lock().records = records.clone();
        revoked.cancel();
        tracing::info!(device = id, "a device was revoked");
        self.save(&records)?;
        Ok(true)
    }

    /// [`Door::pair`] for where others wait for the thread.
    pub async fn pair_beside(self: &Arc<Self>, ticket: String, name: Option<String>) -> Result<Paired, PairError> {
        let door = self.clone();
        let pair = move || door.pair(&ticket, name.as_deref());
        tokio::task::spawn_blocking(pair).await.map_err(io::Error::other)?
    }

    /// [`Door::revoke`] for where others wait for the thread.
    pub async fn revoke_beside(self: &Arc<Self>, id: String) -> io::Result<bool> {
        let door = self.clone();
        let revoke = move || door.revoke(&id);
        tokio::task::spawn_blocking(revoke).await.map_err(io::Error::other)?
    }

    /// Restores files that were deleted while the host runs, and saves when devices were last seen.
    pub fn keep_files(&self) -> io::Result<()> {
        let (Some(home), Some(token)) = (&self.home, &self.token) else {
            return Ok(());
        };
        let _changing = self.changing.lock();
        let path = home.join(TOKEN);
        if !path.try_exists()? {
            std::fs::create_dir_all(home)?;
            lodge_files::replace(&path, token.as_bytes())?;
            tracing::warn!(
                "{} was deleted; it has been restored with the token of the running host",
                path.display()
            );
        }
        let (records, seen) = {
            let mut devices = self.devices.lock();
            (devices.records.clone(), std::mem::take(&mut devices.seen))
        };
        if seen || (!records.is_empty() && !home.join(devices::FILE).try_exists()?) {
            self.save(&records)?;
        }
        Ok(())
    }

    fn save(&self, records: &[Record]) -> io::Result<()> {
        match &self.home {
            Some(home) => devices::save(home, records),
            None => Ok(()),
        }
    }
}

/// The token of a home, made when there is none. Only its owner can read it.
fn token(home: &Path) -> Result<String, DoorError> {
    let path = home.join(TOKEN);
    match std::fs::read_to_string(&path) {
        Ok(text) if is_token(text.trim()) => return Ok(text.trim().to_owned()),
        Ok(_) => return Err(DoorError::Token(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(DoorError::File { path, error }),
    }
    let token = secret::random::<32>();
    match lodge_files::replace(&path, token.as_bytes()) {
        Ok(()) => Ok(token),
        // The host goes on without the file, so that what is there can be read; the file is written once there is room.
        Err(error) if disk_full::lacks_room(&error) => {
            tracing::warn!(%error, "cannot write {}", path.display());
            Ok(token)
        }
        Err(error) => Err(DoorError::File { path, error }),
    }
}

fn is_token(text: &str) -> bool {
    text.len() >= 16
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn is_name(name: &str) -> bool {
    // Those that turn the direction of text around would let a device look like another.
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.chars().any(|c| c.is_control() || turns(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(door: &Door, role: Role) -> Paired {
        let ticket = door.ticket(role, None).unwrap();
        door.pair(&ticket.text, Some("phone")).unwrap()
    }

    #[test]
    fn a_token_is_made_once_and_is_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let made = token(home.path()).unwrap();
        assert!(is_token(&made));
        assert_eq!(token(home.path()).unwrap(), made);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(home.path().join(TOKEN)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        for bad in ["", "short", "with space and more text", "sixteen+plus/chars=="] {
            std::fs::write(home.path().join(TOKEN), bad).unwrap();
            assert!(token(home.path()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_device_comes_in_with_both_its_secrets_and_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let door = Door::open(home.path()).unwrap();
        let phone = paired(&door, Role::Approve);
        let other = paired(&door, Role::Full);
        for door in [door, Door::open(home.path()).unwrap()] {
            let admission = door.admit_device(&phone.cookie, &phone.key).unwrap();
            assert_eq!(admission.role(), Role::Approve);
            assert_eq!(admission.identity.device(), Some(phone.device.id.as_str()));
            let bearer = format!("{}.{}", phone.cookie, phone.key);
            assert_eq!(door.admit_token(&bearer).unwrap().role(), Role::Approve);
            for (cookie, key) in [
                (phone.cookie.as_str(), ""),
                ("", phone.key.as_str()),
                (&phone.cookie, &other.key),
                (&phone.key, &phone.cookie),
            ] {
                assert!(door.admit_device(cookie, key).is_none(), "{cookie} {key}");
            }
            assert!(door.admit_token(&phone.cookie).is_none());
            assert!(door.admit_token("").is_none());
        }
        let kept = std::fs::read_to_string(home.path().join(devices::FILE)).unwrap();
        assert!(!kept.contains(&phone.cookie) && !kept.contains(&phone.key));
    }

    #[test]
    fn a_revoked_device_is_out_at_once_and_for_good() {
        let home = tempfile::tempdir().unwrap();
        let door = Door::open(home.path()).unwrap();
        let phone = paired(&door, Role::Full);
        let admission = door.admit_device(&phone.cookie, &phone.key).unwrap();
        assert!(door.revoke(&phone.device.id).unwrap());
        assert!(admission.is_revoked());
        assert!(!door.revoke(&phone.device.id).unwrap());
        for door in [door, Door::open(home.path()).unwrap()] {
            assert!(door.admit_device(&phone.cookie, &phone.key).is_none());
        }
    }

    #[test]
    fn a_ticket_is_not_lost_when_its_device_cannot_be_kept() {
        let home = tempfile::tempdir().unwrap();
        let door = Door::open(home.path()).unwrap();
        let ticket = door.ticket(Role::Full, None).unwrap();
        // A directory in the place of the file.
        std::fs::create_dir(home.path().join(devices::FILE)).unwrap();
        assert!(matches!(door.pair(&ticket.text, None), Err(PairError::Storage(_))));
        assert!(door.devices().is_empty());
        std::fs::remove_dir(home.path().join(devices::FILE)).unwrap();
        assert!(door.pair(&ticket.text, None).is_ok());
    }

    #[test]
    fn a_damaged_list_of_devices_is_set_aside_and_makes_no_owner() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(devices::FILE), "{nonsense").unwrap();
        let door = Door::open(home.path()).unwrap();
        assert!(door.devices().is_empty());
        let phone = paired(&door, Role::Full);
        let names: Vec<String> = std::fs::read_dir(home.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        assert!(names.iter().any(|name| name.contains(".damaged-")), "{names:?}");
        let file = home.path().join(devices::FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"full\"", "\"owner\"")).unwrap();
        let admission = Door::open(home.path()).unwrap().admit_device(&phone.cookie, &phone.key);
        assert_eq!(admission.unwrap().role(), Role::Full);
    }

    #[test]
    fn what_is_deleted_while_the_host_runs_comes_back() {
        let parent = tempfile::tempdir().unwrap();
        let home = parent.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let door = Door::open(&home).unwrap();
        let phone = paired(&door, Role::View);
        std::fs::remove_dir_all(&home).unwrap();
        door.keep_files().unwrap();
        let again = Door::open(&home).unwrap();
        assert_eq!(again.token(), door.token());
        assert!(again.admit_device(&phone.cookie, &phone.key).is_some());
    }

    #[test]
    fn names_that_cannot_be_shown_are_refused_without_using_up_the_ticket() {
        let door = Door::with_token("a-token-for-tests");
        let ticket = door.ticket(Role::Full, None).unwrap();
        for bad in ["", "two\nlines", "\u{1b}[31m", "a\u{202e}b", &"x".repeat(81)] {
            assert!(
                matches!(door.pair(&ticket.text, Some(bad)), Err(PairError::Name)),
                "{bad:?}"
            );
            assert!(door.ticket(Role::Full, Some(bad.to_owned())).is_err(), "{bad:?}");
        }
        assert_eq!(
            door.pair(&ticket.text, Some("Über-Phone")).unwrap().device.name,
            "Über-Phone"
        );
    }
}
