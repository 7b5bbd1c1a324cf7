//! Files of a folder, with fingerprints of exactly the bytes that were read.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ring::digest::{SHA256, digest};

use crate::gate::{Origin, Startable};

/// The most files beside a definition that are read.
const MOST_BESIDE: usize = 500;
/// The deepest level that is read.
const DEEPEST: usize = 8;
/// A file beside a definition with more than this cannot be accepted.
const LONGEST_BESIDE: u64 = 4 << 20;

/// A file and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// The file: the folder without links, then its name in the folder.
    pub path: PathBuf,
    /// SHA-256 of its contents; `None` if they cannot be read, and such a file is never accepted.
    pub sha256: Option<String>,
}

impl Fingerprint {
    fn new(path: PathBuf, contents: Option<&[u8]>) -> Self {
        let hex = |contents: &[u8]| -> String {
            let digest = digest(&SHA256, contents);
            digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        Self {
            path,
            sha256: contents.map(hex),
        }
    }
}

/// A folder's file that defines something that can be started.
#[derive(Debug, Clone)]
pub struct FolderFile {
    folder: PathBuf,
    text: String,
    fingerprints: Vec<Fingerprint>,
}

impl FolderFile {
    /// Reads a file of a folder; nothing where there is none. `name` is relative to the folder.
    pub fn read(folder: &Path, name: impl AsRef<Path>, most_bytes: u64) -> Result<Option<Self>, String> {
        let bytes = match lodge_files::read_in_folder(folder, &name, most_bytes) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let real = fs::canonicalize(folder).map_err(|error| error.to_string())?;
        let fingerprint = Fingerprint::new(real.join(&name), Some(&bytes));
        Ok(Some(Self {
            folder: folder.to_owned(),
            text: String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?,
            fingerprints: vec![fingerprint],
        }))
    }

    /// Counts everything else beneath a directory of the folder to what must be accepted: scripts lie beside what names them.
    /// Files that `is_other` says yes to are definitions of their own.
    #[must_use]
    pub fn with_all_beneath(mut self, name: impl AsRef<Path>, is_other: impl Fn(&Path) -> bool) -> Self {
        let real = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let mut found = Vec::new();
        beneath(&real.join(name), DEEPEST, &mut found);
        found.retain(|path| !is_other(path));
        found.sort();
        let too_many = found.len() > MOST_BESIDE;
        for path in found.into_iter().take(MOST_BESIDE) {
            let contents = lodge_files::read_regular(&path, LONGEST_BESIDE)
                .ok()
                .filter(|_| !too_many);
            self.fingerprints.push(Fingerprint::new(path, contents.as_deref()));
        }
        self
    }

    /// What is in it, for reading it. What is read from it goes through [`FolderFile::startable`].
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Something that the file defines.
    pub fn startable<T>(&self, what: T) -> Startable<T> {
        Startable::new(
            Origin::Folder {
                folder: self.folder.clone(),
                fingerprints: self.fingerprints.clone(),
            },
            what,
        )
    }
}

/// Files beneath a directory. Links to directories are not followed.
fn beneath(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if found.len() > MOST_BESIDE {
            return;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match depth.checked_sub(1) {
            Some(depth) if is_dir => beneath(&entry.path(), depth, found),
            _ => found.push(entry.path()),
        }
    }
}
