//! Reads git's index to learn which files are unchanged in git: their contents need not be stored a second time.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::git::Git;
use crate::git_files::GitFiles;

/// The longest index that is read, in bytes: some millions of files.
const LONGEST: u64 = 256 << 20;
/// The longest name of a file in it. Where each name continues the last one, a short index could hold names without end.
const LONGEST_NAME: usize = 4096;

/// Which files of which repositories are not in git byte for byte, by the time of the index that says so.
pub(super) type Conversions = HashMap<PathBuf, ((u32, u32), Arc<HashSet<PathBuf>>)>;

/// What git last saw of a file.
#[derive(Debug, Clone)]
pub(super) struct Tracked {
    /// Seconds and nanoseconds.
    pub(super) mtime: (u32, u32),
    pub(super) inode: u32,
    pub(super) mode: u32,
    pub(super) size: u32,
    /// The name of the contents in git's store.
    pub(super) oid: String,
}

/// A repository's index.
pub(super) struct Index {
    pub(super) root: PathBuf,
    pub(super) files: HashMap<PathBuf, Tracked>,
    /// When it was written. Files of that second or later may have changed without git's seeing it.
    written: (u32, u32),
    /// Files that are not in git byte for byte.
    converted: Arc<HashSet<PathBuf>>,
}

impl Index {
    /// Reads the index of the repository whose worktree is `root`. `None`: there is none that can be read.
    pub(super) fn read(root: &Path, known: &mut Conversions) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let git = GitFiles::of(root);
        let file = git.index()?;
        let written = file.metadata().ok()?;
        let bytes = lodge_files::read_opened(&file, LONGEST).ok()?;
        let config = git.config();
        let oid_len = if config.to_lowercase().contains("objectformat = sha256") {
            32
        } else {
            20
        };
        let files = parse(root, &bytes, oid_len)?;
        let written = (written.mtime() as u32, written.mtime_nsec() as u32);
        let converted = match known.get(root) {
            Some((then, converted)) if *then == written => converted.clone(),
            _ => Arc::new(Git::at(root).converted(&files)),
        };
        known.insert(root.to_owned(), (written, converted.clone()));
        Some(Self {
            root: root.to_owned(),
            files,
            written,
            converted,
        })
    }

    /// Git's name for a file's contents, if the file is surely as git saw it.
    pub(super) fn clean(&self, path: &Path, stat: &super::scan::Stat) -> Option<&str> {
        let seen = self.files.get(path)?;
        let same = stat.mtime_parts() == seen.mtime
            && stat.size as u32 == seen.size
            && stat.inode as u32 == seen.inode
            && (stat.mode & 0o100 != 0) == (seen.mode & 0o100 != 0)
            && stat.is_file()
            && seen.mode & 0o170_000 == 0o100_000;
        (same && seen.mtime < self.written && !self.converted.contains(path)).then_some(seen.oid.as_str())
    }
}

/// The entries of an index file. What is not understood is left out: its files count as changed.
fn parse(root: &Path, bytes: &[u8], oid_len: usize) -> Option<HashMap<PathBuf, Tracked>> {
    let u32_at = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (u32_at(4)?, u32_at(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut files = HashMap::new();
    let mut at = 12;
    let mut name: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = at;
        let oid = bytes.get(at + 40..at + 40 + oid_len)?;
        let tracked = Tracked {
            mtime: (u32_at(at + 8)?, u32_at(at + 12)?),
            inode: u32_at(at + 20)?,
            mode: u32_at(at + 24)?,
            size: u32_at(at + 36)?,
            oid: oid.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        at += 40 + oid_len;
        let flags = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
        at += 2;
        if version >= 3 && flags & 0x4000 != 0 {
            at += 2;
        }
        if version == 4 {
            let dropped = offset(bytes, &mut at)?;
            name.truncate(name.len().checked_sub(dropped)?);
        } else {
            name.clear();
        }
        let end = at + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&bytes[at..end]);
        if name.len() > LONGEST_NAME {
            return None;
        }
        at = end + 1;
        if version < 4 {
            at = start + (at - start).next_multiple_of(8);
        }
        // A file in several stages is a merge that is not done.
        if flags & 0x3000 == 0 {
            files.insert(root.join(OsStr::from_bytes(&name)), tracked);
        }
    }
    Some(files)
}

/// Git's number of variable length.
fn offset(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}
