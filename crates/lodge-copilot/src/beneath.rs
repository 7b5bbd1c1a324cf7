//! Files below a directory, opened so that no link can lead out of it.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path},
};

use lodge_files::{Links, open_beneath};
use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, mkdirat, renameat, unlinkat},
    io::Errno,
};

/// Opens a file for reading.
pub(crate) fn open(root: &Path, path: &Path) -> io::Result<File> {
    beneath(&directory(root)?, path, OFlags::RDONLY)
}

/// Opens a file for writing from its beginning, and creates it and its parent directories if needed. Returns whether it
/// existed.
pub(crate) fn create(root: &Path, path: &Path) -> io::Result<(File, bool)> {
    std::fs::create_dir_all(root)?;
    let root = directory(root)?;
    make_parents(&root, path)?;
    match beneath(&root, path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL) {
        Ok(file) => Ok((file, false)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((beneath(&root, path, OFlags::WRONLY | OFlags::TRUNC)?, true))
        }
        Err(error) => Err(error),
    }
}

/// Metadata of a file or a directory.
pub(crate) fn metadata(root: &Path, path: &Path) -> io::Result<Metadata> {
    beneath(&directory(root)?, path, OFlags::PATH)?.metadata()
}

/// Creates a directory, with `all` also its parents. An existing one is an error unless `all` is set.
pub(crate) fn make_directory(root: &Path, path: &Path, all: bool) -> io::Result<()> {
    std::fs::create_dir_all(root)?;
    let root = directory(root)?;
    if all {
        make_parents(&root, path)?;
    }
    let (parent, name) = parent(&root, path)?;
    match mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
        Err(Errno::EXIST) if all && beneath(&root, path, OFlags::RDONLY | OFlags::DIRECTORY).is_ok() => Ok(()),
        made => Ok(made?),
    }
}

/// Removes a file or an empty directory, with `all` also a directory with its contents.
pub(crate) fn remove(root: &Path, path: &Path, all: bool) -> io::Result<()> {
    let (parent, name) = parent(&directory(root)?, path)?;
    remove_at(&parent, name, all)
}

/// Renames a file or a directory. A file that already has the new name is replaced if the system does that.
pub(crate) fn rename(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let root = directory(root)?;
    let ((old, from), (new, to)) = (parent(&root, from)?, parent(&root, to)?);
    Ok(renameat(&old, from, &new, to)?)
}

/// The directory that contains a path, and the name in it.
fn parent<'a>(root: &OwnedFd, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = match path.parent() {
        Some(above) if above.file_name().is_some() => above,
        _ => return Ok((root.try_clone()?, name)),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    Ok((open_beneath(root, above, flags, Mode::empty(), Links::Beneath)?, name))
}

/// Goes from directory to directory, so that a link is removed and never followed.
fn remove_at(parent: &OwnedFd, name: &OsStr, all: bool) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        removed => return Ok(removed?),
    }
    if all {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        for entry in Dir::read_from(&inner)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                remove_at(&inner, name, true)?;
            }
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

fn directory(root: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

fn beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<File> {
    let mode = match flags.contains(OFlags::CREATE) {
        true => Mode::from_raw_mode(0o600),
        false => Mode::empty(),
    };
    Ok(open_beneath(root, path, flags, mode, Links::Beneath)?.into())
}

/// Step by step from directory to directory, so that no link leads outside.
fn make_parents(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let mut at = root.try_clone()?;
    for part in parent.components() {
        let Component::Normal(name) = part else { continue };
        match mkdirat(&at, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        at = open_beneath(&at, Path::new(name), flags, Mode::empty(), Links::Beneath)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn files_are_made_and_read_below_the_root_and_links_do_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let (mut file, existed) = create(&root, Path::new("a/b.txt")).unwrap();
        assert!(!existed);
        file.write_all(b"one").unwrap();
        let (_, existed) = create(&root, Path::new("a/b.txt")).unwrap();
        assert!(existed);
        create(&root, Path::new("a/b.txt"))
            .unwrap()
            .0
            .write_all(b"two")
            .unwrap();
        let mut text = String::new();
        open(&root, Path::new("a/b.txt"))
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "two");

        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        assert!(open(&root, Path::new("link")).is_err());
        assert!(open(&root, Path::new("up/secret")).is_err());
        assert!(create(&root, Path::new("link")).is_err());
        assert!(create(&root, Path::new("up/new")).is_err());
        assert!(metadata(&root, Path::new("up/secret")).is_err());
        assert!(make_directory(&root, Path::new("up/new"), true).is_err());
        assert!(rename(&root, Path::new("a/b.txt"), Path::new("up/b.txt")).is_err());
        assert!(remove(&root, Path::new("up/secret"), true).is_err());
        // Removing a link removes nothing else.
        std::os::unix::fs::symlink("../..", root.join("a/up")).unwrap();
        assert!(remove(&root, Path::new("a"), false).is_err());
        remove(&root, Path::new("a"), true).unwrap();
        assert!(!root.join("a").exists() && dir.path().join("secret").exists());
        assert!(!dir.path().join("new").exists());
    }
}
