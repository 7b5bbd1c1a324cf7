//! Files below a directory, opened so that no link can lead out of it.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Component, Path},
};

use lodge_files::{Links, open_beneath};
use rustix::{
    fs::{Mode, OFlags, mkdirat},
    io::Errno,
};

/// Opens a file for reading.
pub(crate) fn open(root: &Path, path: &Path) -> io::Result<File> {
    beneath(&directory(root)?, path, OFlags::RDONLY)
}

/// Opens a file for writing from its beginning, making it and the directories above it. Says whether it was there.
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

/// Step by step, each from the one before, so that a link in between is not followed out.
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
        assert!(!dir.path().join("new").exists());
    }
}
