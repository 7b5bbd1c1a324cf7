//! Sessions whose files a client stores. The client's files are authoritative; the session's directory here is a copy.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use lodge_events::Event;
use lodge_log::{LogError, Store, without_rewound};

use crate::{Host, HostError, fork::goes_along};

/// The log's name in a session's directory.
pub const LOG_FILE: &str = "events.jsonl";
/// What of a session is worth keeping elsewhere. The rest is derived, or means something on this machine only.
pub const STORED_FILES: [&str; 3] = [LOG_FILE, "plan.md", "workspace.yaml"];
/// Folders of which the same holds.
pub const STORED_FOLDERS: [&str; 3] = ["checkpoints", "files", "temp"];
/// What else goes with a session that another host continues: to-do lists, and what a rewind took back.
const MOVING_FILES: [&str; 3] = ["session.db", "rewound.jsonl", "rewound-files"];
/// What the session's turns did to files.
const CHANGES: &str = "changes";
/// Deeper folders are not followed.
pub const STORED_DEPTH: usize = 16;

/// Every file in a session's directory that is worth keeping elsewhere, by its way from there, with `/` between names.
pub fn stored_files(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for name in STORED_FILES {
        let path = dir.join(name);
        if path.is_file() {
            found.insert(name.to_owned(), path);
        }
    }
    for name in STORED_FOLDERS {
        look(&dir.join(name), name, STORED_DEPTH, &mut found);
    }
    found
}

/// Every file in a session's directory that goes with the session to another host of a fleet, by its way from there. The log goes
/// by itself; what is missing here is derived from it, or means something on this machine only.
pub fn moving_files(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = stored_files(dir);
    found.remove(LOG_FILE);
    for name in MOVING_FILES {
        let path = dir.join(name);
        if path.is_file() {
            found.insert(name.to_owned(), path);
        }
    }
    look(&dir.join(CHANGES), CHANGES, STORED_DEPTH, &mut found);
    found
}

fn look(dir: &Path, way: &str, depth: usize, found: &mut BTreeMap<String, PathBuf>) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
            continue;
        };
        let way = format!("{way}/{name}");
        if kind.is_file() {
            found.insert(way, entry.path());
        } else if kind.is_dir() && depth > 0 {
            look(&entry.path(), &way, depth - 1, found);
        }
    }
}

impl Host {
    /// Makes the copy of a session what its client has, unless the session is in memory. The files are named by their way
    /// from the session's directory; [`LOG_FILE`] is one of them.
    pub async fn take_in(&self, id: &str, files: BTreeMap<String, String>) -> Result<(), HostError> {
        let gate = self.inner().gate(id);
        let _open = gate.lock().await;
        if self.live(id).is_some() {
            return Ok(());
        }
        let (host, name) = (self.clone(), id.to_owned());
        tokio::task::spawn_blocking(move || host.replace(&name, &files))
            .await
            .map_err(|_| HostError::Invalid(format!("The session {id} could not be imported.")))?
    }

    fn replace(&self, id: &str, files: &BTreeMap<String, String>) -> Result<(), HostError> {
        self.home().ensure()?;
        let store = self.home().sessions();
        let log = files.get(LOG_FILE).map(String::as_str).unwrap_or_default();
        let dir = store.dir(id)?;
        if fs::read_to_string(dir.join(LOG_FILE)).ok().as_deref() != Some(log) {
            match store.delete(id) {
                Ok(()) | Err(LogError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let events = log
                .lines()
                .filter_map(|line| Event::parse(line.as_bytes().to_vec().into()).ok())
                .filter(|event| !event.is_ephemeral());
            let mut events = without_rewound(events);
            events.retain(goes_along);
            let mut copy = store.create(id)?;
            copy.append_all(&events)?;
        }
        let dir = store.dir(id)?;
        let failed = |error: io::Error| HostError::Invalid(format!("The session {id} could not be imported: {error}"));
        for (way, path) in stored_files(&dir) {
            if !files.contains_key(&way) {
                fs::remove_file(path).map_err(failed)?;
            }
        }
        for (way, text) in files.iter().filter(|(way, _)| *way != LOG_FILE) {
            let path = dir.join(way);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            fs::write(path, text).map_err(failed)?;
        }
        Ok(())
    }
}
