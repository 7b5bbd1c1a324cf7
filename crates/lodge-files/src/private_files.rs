//! Private files of a program.

use std::{
    fs::{DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crate::blocking::run_blocking;

/// What is in a file, if it is there. An error names the file.
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Makes a directory for its owner alone, also if it is there already.
pub fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// How long a file is now, and a text that is another one when it has changed. A link is not followed.
pub fn stamp(path: &Path) -> Option<(u64, String)> {
    let found = path.symlink_metadata().ok()?;
    let stamp = format!("{}-{}-{}", found.mtime(), found.mtime_nsec(), found.len());
    Some((found.len(), stamp))
}

/// A file for what is too much for memory. It has no name: it goes with whoever holds this.
#[derive(Debug)]
pub struct Overflow {
    file: File,
    end: u64,
}

impl Overflow {
    /// A new one on the disk of a directory.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let path = dir.join(format!("overflow-{}", uuid::Uuid::new_v4()));
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(Self { file, end: 0 })
    }

    /// Adds bytes. Where they are.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.end;
        self.file.write_all_at(bytes, at)?;
        self.end += bytes.len() as u64;
        Ok(at)
    }

    /// What was added there.
    pub fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}

/// A directory that goes, with all that is in it, when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new one in a directory, which is made if need be.
    pub async fn new(within: &Path) -> io::Result<Self> {
        let path = within.join(uuid::Uuid::new_v4().simple().to_string());
        let made = Self(path.clone());
        run_blocking(move || std::fs::create_dir_all(path)).await??;
        Ok(made)
    }

    /// Removes what a program that was killed left in a directory.
    pub fn clear(within: &Path) {
        let _ = std::fs::remove_dir_all(within);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether there is something below it.
    pub async fn has(&self, below: &Path) -> bool {
        let path = self.0.join(below);
        run_blocking(move || path.exists()).await.unwrap_or(false)
    }

    /// Makes a directory below it.
    pub async fn make_directory(&self, below: &Path) -> io::Result<()> {
        let path = self.0.join(below);
        run_blocking(move || std::fs::create_dir_all(path)).await?
    }

    /// Writes a file below it, and makes the directories on the way. A script can be run.
    pub async fn write(&self, below: &Path, content: Vec<u8>) -> io::Result<()> {
        let path = self.0.join(below);
        let write = move || -> io::Result<()> {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(&path, &content)?;
            match content.starts_with(b"#!") {
                true => std::fs::set_permissions(&path, Permissions::from_mode(0o700)),
                false => Ok(()),
            }
        };
        run_blocking(write).await?
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        let remove = move || drop(std::fs::remove_dir_all(path));
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
