//! Paired devices, stored in `devices.json`.

use std::{io, path::Path};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{Admission, Role, secret};

/// The file, in the home.
pub(crate) const FILE: &str = "devices.json";

/// A paired device, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was paired.
    pub created: Timestamp,
    /// When it connected last.
    pub last_seen: Timestamp,
}

/// A device with the hashes of its two secrets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) device: Device,
    cookie_hash: String,
    key_hash: String,
    /// Cancelled when the device is revoked.
    #[serde(skip)]
    pub(crate) revoked: CancellationToken,
}

/// The two secrets of a new device. Neither is stored here.
pub(crate) struct Secrets {
    pub(crate) cookie: String,
    pub(crate) key: String,
}

impl Record {
    pub(crate) fn new(name: String, role: Role, now: Timestamp) -> (Self, Secrets) {
        let id = secret::hash(&secret::random::<16>());
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        let cookie = format!("{id}.{}", secret::random::<32>());
        let key = secret::random::<24>();
        let record = Self {
            cookie_hash: secret::hash(&cookie),
            key_hash: secret::hash(&key),
            device: Device {
                id,
                name,
                role,
                created: now,
                last_seen: now,
            },
            revoked: CancellationToken::new(),
        };
        (record, Secrets { cookie, key })
    }

    /// Whether both secrets are this device's.
    pub(crate) fn knows(&self, cookie: &str, key: &str) -> bool {
        secret::same(&secret::hash(cookie), &self.cookie_hash) & secret::same(&secret::hash(key), &self.key_hash)
    }

    pub(crate) fn admission(&self) -> Admission {
        let device = &self.device;
        // A file that somebody edited makes no owners.
        let role = device.role.min(Role::Full);
        Admission::device(device.id.clone(), device.name.clone(), role, self.revoked.clone())
    }
}

/// Reads the devices of a home. A file that cannot be understood is set aside: its devices have to be paired anew, and the
/// host says so.
pub(crate) fn load(home: &Path) -> io::Result<Vec<Record>> {
    let path = home.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice(&text) {
        Ok(records) => Ok(records),
        Err(error) => {
            let aside = home.join(format!("{FILE}.damaged-{}", Timestamp::now().as_second()));
            std::fs::rename(&path, &aside)?;
            tracing::error!(
                "cannot read {} ({error}); it was renamed to {}. Pair your devices again",
                path.display(),
                aside.display()
            );
            Ok(Vec::new())
        }
    }
}

pub(crate) fn save(home: &Path, records: &[Record]) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(records).map_err(io::Error::other)?;
    lodge_files::replace(&home.join(FILE), &text)
}
