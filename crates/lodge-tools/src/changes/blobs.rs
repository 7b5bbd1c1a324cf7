//! File contents, stored once each under their hash.

use std::{
    collections::HashSet,
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::Limits;

/// The name of contents: their SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(String);

impl Hash {
    fn of_bytes(bytes: &[u8]) -> Self {
        let hex = digest(&SHA256, bytes)
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self(hex)
    }

    /// The hash that a text names, if it names one.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 64 && text.bytes().all(hex)).then(|| Self(text.to_owned()))
    }

    /// The hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kept contents of one session.
pub(super) struct Blobs {
    dir: PathBuf,
    limits: Limits,
    /// Bytes kept since it was opened.
    kept: AtomicU64,
}

impl Blobs {
    pub(super) fn new(dir: PathBuf, limits: Limits) -> Self {
        Self {
            dir,
            limits,
            kept: AtomicU64::new(0),
        }
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        self.dir.join(&hash.0[..2]).join(&hash.0[2..])
    }

    /// Keeps what a file holds. No hash when it is too large.
    pub(super) fn keep_file(&self, file: File, size: u64) -> io::Result<(Option<Hash>, u64)> {
        if size > self.limits.file_bytes {
            return Ok((None, size));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(self.limits.file_bytes + 1).read_to_end(&mut bytes)?;
        let size = bytes.len() as u64;
        if size > self.limits.file_bytes {
            return Ok((None, size));
        }
        Ok((self.keep(&bytes)?, size))
    }

    /// Stores contents. No hash if there is no room left.
    pub(super) fn keep(&self, bytes: &[u8]) -> io::Result<Option<Hash>> {
        let hash = Hash::of_bytes(bytes);
        let path = self.path(&hash);
        if path.metadata().is_ok_and(|kept| kept.len() == bytes.len() as u64) {
            return Ok(Some(hash));
        }
        let size = bytes.len() as u64;
        if self.kept.fetch_add(size, Ordering::Relaxed) + size > self.limits.total_bytes {
            self.kept.fetch_sub(size, Ordering::Relaxed);
            return Ok(None);
        }
        let dir = path.parent().expect("it has one: the first two digits");
        crate::spill::make_private_dir(dir)?;
        let temporary = dir.join(format!("new-{}", uuid::Uuid::new_v4().simple()));
        std::fs::write(&temporary, bytes)?;
        std::fs::rename(&temporary, &path)?;
        Ok(Some(hash))
    }

    /// Kept contents. Those that a failing disk has changed count as lost.
    pub(super) fn read(&self, hash: &Hash) -> io::Result<Vec<u8>> {
        let bytes = std::fs::read(self.path(hash))?;
        if Hash::of_bytes(&bytes) != *hash {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the saved contents are damaged",
            ));
        }
        Ok(bytes)
    }

    /// Brings kept contents to the disk.
    pub(super) fn sync<'a>(&self, hashes: impl Iterator<Item = &'a Hash>) -> io::Result<()> {
        let mut dirs = HashSet::new();
        for hash in hashes {
            let path = self.path(hash);
            File::open(&path)?.sync_all()?;
            dirs.extend(path.parent().map(Path::to_owned));
        }
        dirs.iter().try_for_each(|dir| File::open(dir)?.sync_all())
    }

    /// Gives another session these contents without copying them.
    pub(super) fn link(&self, to: &Path, wanted: &HashSet<&Hash>) -> io::Result<()> {
        let other = Self::new(to.to_owned(), self.limits.clone());
        for hash in wanted {
            let path = other.path(hash);
            crate::spill::make_private_dir(path.parent().expect("it has one: the first two digits"))?;
            // Where links cannot be made, it is a copy.
            if std::fs::hard_link(self.path(hash), &path).is_err() {
                std::fs::copy(self.path(hash), &path)?;
            }
        }
        Ok(())
    }

    /// Removes what nobody refers to.
    pub(super) fn retain(&self, wanted: impl Fn(&Hash) -> bool) {
        let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
        for dir in entries(&self.dir) {
            for file in entries(&dir.path()) {
                let name = [dir.file_name(), file.file_name()].map(|name| name.to_string_lossy().into_owned());
                if Hash::parse(&name.concat()).is_none_or(|hash| !wanted(&hash)) {
                    let _ = std::fs::remove_file(file.path());
                }
            }
        }
        self.kept.store(0, Ordering::Relaxed);
    }
}
