//! Opening beneath a directory, by the kernel.

use std::{
    fs::File,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::{FileError, Result};

/// What is done about symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// Followed where they lead to something beneath the directory.
    Beneath,
    /// Not followed at all.
    Refused,
}

/// Opens a directory by its path.
pub(super) fn directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens something that exists. Where the kernel has no `openat2`, links are not followed at all.
pub(super) fn open_beneath(root: BorrowedFd<'_>, below: &Path, flags: OFlags, links: Links) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refused && !flags.contains(OFlags::NOFOLLOW) {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let fd = match rustix::fs::openat2(root, below, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS) => step_by_step(root, below, flags)?,
        // A rename beside it made the kernel unsure whether this is still beneath; asking again settles it.
        Err(Errno::AGAIN) => rustix::fs::openat2(root, below, flags, Mode::empty(), resolve)?,
        other => other?,
    };
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

fn step_by_step(root: BorrowedFd<'_>, below: &Path, flags: OFlags) -> Result<OwnedFd> {
    let open_directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = rustix::fs::openat(
        root,
        ".",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let parts: Vec<_> = below
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect();
    let Some((last, before)) = parts.split_last() else {
        return Ok(rustix::fs::openat(&directory, ".", flags, Mode::empty())?);
    };
    for part in before {
        directory = rustix::fs::openat(&directory, part.as_os_str(), open_directory, Mode::empty())?;
    }
    let flags = flags | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(&directory, last.as_os_str(), flags, Mode::empty())?)
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
