//! Keeps clients out of the host's home, with the token, the logins and the logs of every session, even where a
//! directory that clients can reach contains it. The check is made on the open file, so no other name and no link gets
//! around it.

use std::{
    ffi::OsStr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use super::{FileError, Result, open::real_path};

/// The home, and what in it is for clients.
#[derive(Debug, Clone, Default)]
pub struct Private {
    home: Option<PathBuf>,
    open: Vec<PathBuf>,
}

impl Private {
    /// A home except for these directories in it. None of the paths contains links.
    pub fn new(home: PathBuf, open: Vec<PathBuf>) -> Self {
        Self { home: Some(home), open }
    }

    /// Whether a place, named without links, is the host's own.
    pub fn covers(&self, real: &Path) -> bool {
        let within = self.home.as_ref().is_some_and(|home| real.starts_with(home));
        within && !self.open.iter().any(|open| real.starts_with(open))
    }

    /// Whether it is, or has the home somewhere within.
    fn concerns(&self, real: &Path) -> bool {
        self.covers(real) || self.home.as_ref().is_some_and(|home| home.starts_with(real))
    }

    /// Refuses what is open and the host's own.
    pub(super) fn refuse(&self, fd: &OwnedFd) -> Result<()> {
        match self.home.is_some() && self.covers(&real_path(fd)?) {
            true => Err(FileError::Private),
            false => Ok(()),
        }
    }

    /// Refuses a tree that holds something of the host's own.
    pub(super) fn refuse_tree(&self, fd: &OwnedFd) -> Result<()> {
        match self.home.is_some() && self.concerns(&real_path(fd)?) {
            true => Err(FileError::Private),
            false => Ok(()),
        }
    }

    /// The same for what has a name in a directory, whether it is there or not.
    pub(super) fn refuse_in(&self, parent: &OwnedFd, name: &OsStr) -> Result<()> {
        match self.home.is_some() && self.concerns(&real_path(parent)?.join(name)) {
            true => Err(FileError::Private),
            false => Ok(()),
        }
    }

    /// Whether an open directory is the host's own.
    pub fn holds(&self, directory: &OwnedFd) -> bool {
        self.refuse(directory).is_err()
    }
}
