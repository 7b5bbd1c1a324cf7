//! Opens files for clients.

use std::{
    fs::File,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags};

use super::{FileError, Result};
use crate::Links;

/// Opens a directory by its path.
pub(super) fn directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens something that exists.
pub(super) fn open_beneath(root: BorrowedFd<'_>, below: &Path, flags: OFlags, links: Links) -> Result<OwnedFd> {
    let fd = crate::open_beneath(root, below, flags, Mode::empty(), links)?;
    refuse_proc(&fd)?;
    Ok(fd)
}

/// What processes have in their memory and environment is not for clients, whatever they may reach.
fn refuse_proc(fd: &OwnedFd) -> Result<()> {
    match rustix::fs::fstatfs(fd) {
        Ok(system) if system.f_type == rustix::fs::PROC_SUPER_MAGIC => Err(FileError::Denied),
        _ => Ok(()),
    }
}

/// Opens for real what was opened only to be looked at. So a device or a pipe is seen for what it is before it is touched.
pub(super) fn reopen(fd: &OwnedFd, flags: OFlags) -> Result<File> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    Ok(file.into())
}

/// The same for regular files alone.
pub(super) fn reopen_file(fd: &OwnedFd, flags: OFlags) -> Result<File> {
    match super::kind_of(&rustix::fs::fstat(fd)?) {
        FileType::RegularFile => reopen(fd, flags),
        _ => Err(FileError::NotAFile),
    }
}

/// Where something that is open is now.
pub(super) fn real_path(fd: &OwnedFd) -> Result<PathBuf> {
    Ok(std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?)
}
