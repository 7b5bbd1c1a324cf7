//! Removes directories that programs filled as they liked.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a directory of this program with everything in it, however deep it is and whatever its permissions are. Needs no stack
/// and few open files. No link is followed. Blocks for as long as it takes.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let parent = rustix::fs::open(parent, DIRECTORY | OFlags::RDONLY, Mode::empty())?;
    let top = open(&parent, name)?;
    // Each pass removes at least one directory, or finds none.
    while flatten(&top, &top)? {}
    Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

/// Removes everything in a directory but the directories below it: those are emptied in the same way when they are in `top`, and
/// moved there otherwise. So none is ever far from the top. Answers whether there was anything.
fn flatten(directory: &OwnedFd, top: &OwnedFd) -> io::Result<bool> {
    let is_top = std::ptr::eq(directory, top);
    let mut found = false;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        found = true;
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            }
            kind => kind == FileType::Directory,
        };
        if !is_directory {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            continue;
        }
        let inner = open(directory, name)?;
        if is_top {
            flatten(&inner, top)?;
            rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR)?;
        } else {
            let new = uuid::Uuid::new_v4().simple().to_string();
            rustix::fs::renameat(directory, name, top, new.as_str())?;
        }
    }
    Ok(found)
}

/// Opens a directory to read and change it, also where its permissions do not allow that.
fn open(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let found = rustix::fs::openat(parent, name, DIRECTORY | OFlags::PATH, Mode::empty())?;
    if !Mode::from_raw_mode(rustix::fs::fstat(&found)?.st_mode).contains(Mode::RWXU) {
        rustix::fs::chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::RWXU)?;
    }
    Ok(rustix::fs::openat(
        &found,
        ".",
        DIRECTORY | OFlags::RDONLY,
        Mode::empty(),
    )?)
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_directory_goes_however_deep_it_is_and_whatever_its_permissions_are() {
        let dir = tempfile::tempdir().unwrap();
        let (top, kept) = (dir.path().join("top"), dir.path().join("kept"));
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        for path in ["a/b/c", "a/d", "closed/in", "e"] {
            std::fs::create_dir_all(top.join(path)).unwrap();
            std::fs::write(top.join(path).join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink(&kept, top.join("a/link")).unwrap();
        for (path, mode) in [("closed/in", 0o000), ("closed", 0o300), ("e", 0o500)] {
            std::fs::set_permissions(top.join(path), Permissions::from_mode(mode)).unwrap();
        }
        // Deeper than a path can be long, than there are open files, and than the stack of a thread.
        let mut at = open(rustix::fs::CWD, top.as_os_str()).unwrap();
        for _ in 0..30_000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open(&at, OsStr::new("d")).unwrap();
        }
        remove_directory(&top).unwrap();
        assert!(!top.exists());
        assert!(kept.join("file").exists(), "a link is not followed");
        assert_eq!(remove_directory(&top).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
