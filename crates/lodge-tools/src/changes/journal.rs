//! The journal of a restoration: what is to become of which file, on the disk before the first file changes.
//!
//! A journal that is found when nobody works on it belongs to a process that died. Its file's name says what is to be
//! done with it: `.forward` is carried on, `.back` is rolled back. Turning round is a rename, which needs no room on a
//! full disk.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{entry::Entry, entry::path_text, faults::Faults};

const FORWARD: &str = ".forward";
const BACK: &str = ".back";

/// One path: from what is there to what is to be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    #[serde(with = "path_text")]
    pub(super) path: PathBuf,
    pub(super) now: Entry,
    pub(super) then: Entry,
}

impl Step {
    /// The step that undoes this one.
    pub(super) fn reversed(&self) -> Self {
        Self {
            path: self.path.clone(),
            now: self.then.clone(),
            then: self.now.clone(),
        }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.now.is_shown() || self.then.is_shown()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The restoration's id: restoring that undoes it.
    pub(super) id: String,
    /// A note for the code that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// Which way a journal goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
}

/// The directory of a host that holds the journals of all its sessions, so that a host finds at its start what the last
/// one left.
pub(super) fn directory(host_dir: &Path) -> PathBuf {
    host_dir.join("restoring")
}

/// The names of the session directories that have a journal.
pub(super) fn left_behind(host_dir: &Path) -> io::Result<Vec<OsString>> {
    let entries = match std::fs::read_dir(directory(host_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let stem = name
            .to_str()
            .and_then(|name| name.strip_suffix(FORWARD).or_else(|| name.strip_suffix(BACK)));
        names.extend(stem.map(OsString::from));
    }
    Ok(names)
}

/// Where the journal of one session is.
pub(super) struct Place {
    dir: PathBuf,
    name: OsString,
}

impl Place {
    pub(super) fn new(session_dir: &Path, host_dir: &Path) -> Self {
        Self {
            dir: directory(host_dir),
            name: session_dir.file_name().unwrap_or_default().to_owned(),
        }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        let mut name = self.name.clone();
        name.push(suffix);
        self.dir.join(name)
    }

    /// Writes a journal; when this returns, it is on the disk.
    pub(super) fn write(&self, journal: &Journal, faults: &Faults) -> io::Result<()> {
        crate::spill::make_private_dir(&self.dir)?;
        let new = self.path(".new");
        let text = serde_json::to_vec(journal)?;
        faults.point()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = (|| {
            let mut file = options.open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            faults.point()?;
            std::fs::rename(&new, self.path(FORWARD))?;
            faults.point()?;
            self.sync()
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
            let _ = std::fs::remove_file(self.path(FORWARD));
        }
        written
    }

    pub(super) fn exists(&self) -> bool {
        [FORWARD, BACK].iter().any(|suffix| self.path(suffix).exists())
    }

    /// The journal that is there, and which way it goes.
    pub(super) fn read(&self) -> Result<Option<(Journal, Direction)>, ReadError> {
        for (suffix, direction) in [(BACK, Direction::Back), (FORWARD, Direction::Forward)] {
            let path = self.path(suffix);
            let text = match std::fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            match serde_json::from_slice(&text) {
                Ok(journal) => return Ok(Some((journal, direction))),
                Err(error) => {
                    let aside = self.path(&format!(".damaged-{}", uuid::Uuid::new_v4().simple()));
                    std::fs::rename(&path, &aside)?;
                    return Err(ReadError::Damaged(aside, error.to_string()));
                }
            }
        }
        Ok(None)
    }

    /// From here on the journal is rolled back, whatever happens.
    pub(super) fn turn_round(&self, faults: &Faults) -> io::Result<()> {
        faults.point()?;
        match std::fs::rename(self.path(FORWARD), self.path(BACK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        self.sync()
    }

    /// There is nothing more to do.
    pub(super) fn remove(&self, faults: &Faults) -> io::Result<()> {
        faults.point()?;
        for suffix in [FORWARD, BACK] {
            match std::fs::remove_file(self.path(suffix)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

pub(super) enum ReadError {
    Io(io::Error),
    /// Where the journal was put that cannot be read, and what is wrong with it.
    Damaged(PathBuf, String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
