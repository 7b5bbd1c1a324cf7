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
/// The record of that, which names contents in the same folder.
const CHANGES_RECORD: &str = "changes/changes.jsonl";
/// Deeper folders are not followed.
pub const STORED_DEPTH: usize = 16;

/// Every file in a session's directory that is worth keeping elsewhere, by its way from there, with `/` between names. Links are
/// left out: what they lead to is not the session's.
pub fn stored_files(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    add_files(dir, &STORED_FILES, &mut found);
    add_folders(dir, &STORED_FOLDERS, &mut found);
    found
}

/// Every file in a session's directory that goes with the session to another host of a fleet, by its way from there. The log goes
/// by itself; what is missing here is derived from it, or means something on this machine only.
pub fn moving_files(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = telling_files(dir);
    add_folders(dir, &[CHANGES], &mut found);
    found
}

/// Those of [`moving_files`] by which it shows that another one came: the record of changes names contents that were kept before.
pub fn telling_files(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = stored_files(dir);
    found.remove(LOG_FILE);
    add_files(dir, &MOVING_FILES, &mut found);
    add_files(dir, &[CHANGES_RECORD], &mut found);
    found
}

/// Whether a file of this way would go with its session.
pub fn is_moving_file(way: &str) -> bool {
    match way.split_once('/') {
        Some((folder, _)) => folder == CHANGES || STORED_FOLDERS.contains(&folder),
        None => way != LOG_FILE && (STORED_FILES.contains(&way) || MOVING_FILES.contains(&way)),
    }
}

fn add_files(dir: &Path, names: &[&str], found: &mut BTreeMap<String, PathBuf>) {
    for name in names {
        let path = dir.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|about| about.is_file()) {
            found.insert((*name).to_owned(), path);
        }
    }
}

fn add_folders(dir: &Path, names: &[&str], found: &mut BTreeMap<String, PathBuf>) {
    for name in names {
        let path = dir.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir()) {
            look(&path, name, STORED_DEPTH, found);
        }
    }
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
            lodge_files::replace(&path, text.as_bytes()).map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_links_lead_to_is_not_the_sessions() {
        use std::os::unix::fs::symlink;

        let (session, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("theirs"), "x").unwrap();
        symlink(elsewhere.path(), session.path().join("files")).unwrap();
        symlink(elsewhere.path().join("theirs"), session.path().join("plan.md")).unwrap();
        fs::create_dir(session.path().join("temp")).unwrap();
        symlink(elsewhere.path(), session.path().join("temp/link")).unwrap();
        for name in ["temp/ours", LOG_FILE, "session.db", "events.idx"] {
            fs::write(session.path().join(name), "x").unwrap();
        }
        let moving: Vec<String> = moving_files(session.path()).into_keys().collect();
        assert_eq!(moving, ["session.db", "temp/ours"]);
        let stored: Vec<String> = stored_files(session.path()).into_keys().collect();
        assert_eq!(stored, [LOG_FILE, "temp/ours"]);
        assert!(moving.iter().all(|way| is_moving_file(way)));
        for other in [LOG_FILE, "events.idx", "fleet.joined", "elsewhere/x", "plan.md/x"] {
            assert!(!is_moving_file(other), "{other}");
        }
    }
}
