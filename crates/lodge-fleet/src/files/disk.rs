//! The files of a session in its directory: which there are, what they look like, and how they get there. Links are not followed:
//! whatever a session's directory holds, nothing outside of it is read, written or removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use bytes::Bytes;
use ring::digest::{SHA256, digest};

use super::Recorded;
use crate::{bodies, record::hex};

/// The longest file that is stored. Longer ones stay where they are.
const LONGEST: u64 = 64 << 20;

/// Which files of a session's directory belong to the session wherever it is, by their way from there, with `/` between names.
#[derive(Debug, Clone, Copy)]
pub struct MovingFiles {
    /// Those in a directory, links left out.
    pub list: fn(&Path) -> BTreeMap<String, PathBuf>,
    /// Those of them that are enough to look at: after any other one came or went, one of these changes.
    pub list_telling: fn(&Path) -> BTreeMap<String, PathBuf>,
    /// Whether one of this way would be among them. Others, which hosts of other versions may have, are left alone.
    pub belongs: fn(&str) -> bool,
}

impl MovingFiles {
    pub(super) fn takes(&self, path: &str) -> bool {
        is_inside(path) && (self.belongs)(path)
    }
}

/// How a file looks without being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) size: u64,
    modified: Option<SystemTime>,
}

impl Look {
    /// Like no file.
    pub(super) const UNSEEN: Self = Self {
        size: u64::MAX,
        modified: None,
    };

    fn of(file: &Path) -> Option<Self> {
        let about = fs::symlink_metadata(file).ok()?;
        Some(Self {
            size: about.len(),
            modified: about.modified().ok(),
        })
    }

    fn is_too_long(&self) -> bool {
        self.size > LONGEST
    }
}

/// A file that was read.
pub(super) struct Read {
    pub(super) path: String,
    pub(super) look: Look,
    pub(super) bytes: Bytes,
}

/// What is different from what was looked at last.
#[derive(Default)]
pub(super) struct Difference {
    pub(super) changed: Vec<(String, PathBuf, Look)>,
    pub(super) gone: Vec<String>,
}

/// The files that are missing or different in a directory. Files that the log does not speak of are removed, but for those that are
/// too long for it.
pub(super) fn missing(dir: &Path, files: MovingFiles, recorded: &Recorded) -> io::Result<Vec<String>> {
    let here = (files.list)(dir);
    for (path, file) in &here {
        if !recorded.contains_key(path) && !Look::of(file).is_some_and(|look| look.is_too_long()) {
            fs::remove_file(file)?;
        }
    }
    let is_same = |path: &String, body: &str| {
        let file = here.get(path);
        let file = file.filter(|file| Look::of(file).is_some_and(|look| !look.is_too_long()));
        let bytes = file.and_then(|file| fs::read(file).ok());
        bytes.is_some_and(|bytes| bodies::hash_in(body) == Some(hash(&bytes).as_str()))
    };
    let missing = recorded
        .iter()
        .filter(|(path, body)| files.takes(path) && !is_same(path, body));
    Ok(missing.map(|(path, _)| path.clone()).collect())
}

pub(super) fn looks(files: &BTreeMap<String, PathBuf>) -> BTreeMap<String, Look> {
    let looks = files
        .iter()
        .filter_map(|(path, file)| Some((path.clone(), Look::of(file)?)));
    looks.collect()
}

/// What has changed since the files looked like this. One that became too long to be stored is gone from what is stored.
pub(super) fn differences(files: &BTreeMap<String, PathBuf>, looked: &BTreeMap<String, Look>) -> Difference {
    let mut changed = Vec::new();
    let mut stored = BTreeSet::new();
    for (path, file) in files {
        let Some(look) = Look::of(file).filter(|look| !look.is_too_long()) else {
            continue;
        };
        stored.insert(path);
        if looked.get(path) != Some(&look) {
            changed.push((path.clone(), file.clone(), look));
        }
    }
    let gone = looked.keys().filter(|path| !stored.contains(path));
    let gone = gone.cloned().collect();
    Difference { changed, gone }
}

/// Reads a file that looks like this. Nothing when it is being written: then it is read the next time.
pub(super) fn read(path: String, from: &Path, look: Look) -> Option<Read> {
    let bytes = fs::read(from).ok()?;
    // A database has a journal as long as something is written to it.
    let mut journal = from.as_os_str().to_owned();
    journal.push("-journal");
    let is_whole = Look::of(from)? == look && !Path::new(&journal).exists();
    is_whole.then(|| Read {
        path,
        look,
        bytes: bytes.into(),
    })
}

/// Writes a file of a session. Whatever is in its way, such as a link or a directory of its name, is removed.
pub(super) fn write(dir: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut to = dir.to_owned();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        to.push(part);
        let is_directory = fs::symlink_metadata(&to).ok().map(|there| there.is_dir());
        match (parts.peek().is_some(), is_directory) {
            (true, Some(true)) => {}
            (true, Some(false)) => {
                fs::remove_file(&to)?;
                fs::create_dir(&to)?;
            }
            (true, None) => fs::create_dir(&to)?,
            (false, Some(true)) => fs::remove_dir_all(&to)?,
            (false, _) => {}
        }
    }
    lodge_files::replace(&to, bytes)
}

pub(super) fn hash(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Whether a way leads into the directory that it is taken from.
fn is_inside(path: &str) -> bool {
    let mut parts = path
        .split('/')
        .map(|part| Path::new(part).components().collect::<Vec<_>>());
    parts.all(|parts| matches!(parts[..], [Component::Normal(_)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_that_lead_out_of_the_directory_are_none() {
        for inside in ["plan.md", "files/a b/c", "files/..."] {
            assert!(is_inside(inside), "{inside}");
        }
        for outside in ["", "/", "/etc", "..", "files/../../x", "files//x", "files/", "./x"] {
            assert!(!is_inside(outside), "{outside}");
        }
    }
}
