//! Files below a directory, opened so that no link can lead out of it: the check and the opening are one step of the
//! system, not a path that is looked at first and opened afterwards.

use std::{
    fs::File,
    io,
    path::{Component, Path},
};

/// Opens a file for reading.
pub(crate) fn open(root: &Path, path: &Path) -> io::Result<File> {
    imp::open(root, path)
}

/// Opens a file for writing from its beginning, making it and the directories above it. Says whether it was there.
pub(crate) fn create(root: &Path, path: &Path) -> io::Result<(File, bool)> {
    std::fs::create_dir_all(root)?;
    imp::create(root, path)
}

#[cfg(target_os = "linux")]
mod imp {
    use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat2};

    use super::*;

    fn directory(root: &Path) -> io::Result<rustix::fd::OwnedFd> {
        Ok(rustix::fs::open(
            root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    fn beneath(root: &rustix::fd::OwnedFd, path: &Path, flags: OFlags) -> io::Result<File> {
        let mode = if flags.contains(OFlags::CREATE) {
            Mode::from_raw_mode(0o600)
        } else {
            Mode::empty()
        };
        Ok(openat2(root, path, flags | OFlags::CLOEXEC, mode, ResolveFlags::BENEATH)?.into())
    }

    pub(super) fn open(root: &Path, path: &Path) -> io::Result<File> {
        beneath(&directory(root)?, path, OFlags::RDONLY)
    }

    pub(super) fn create(root: &Path, path: &Path) -> io::Result<(File, bool)> {
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

    /// Step by step, each from the one before, so that a link in between is not followed out.
    fn make_parents(root: &rustix::fd::OwnedFd, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        let mut at: rustix::fd::OwnedFd = root.try_clone()?;
        for part in parent.components() {
            let Component::Normal(name) = part else { continue };
            match mkdirat(&at, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            at = openat2(&at, name, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH)?;
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::*;

    /// Without `openat2` every part is looked at; a link anywhere is refused.
    fn no_links(root: &Path, path: &Path) -> io::Result<std::path::PathBuf> {
        let mut at = root.to_owned();
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            at.push(name);
            if std::fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_symlink()) {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "the path leads through a link",
                ));
            }
        }
        Ok(at)
    }

    pub(super) fn open(root: &Path, path: &Path) -> io::Result<File> {
        File::open(no_links(root, path)?)
    }

    pub(super) fn create(root: &Path, path: &Path) -> io::Result<(File, bool)> {
        let path = no_links(root, path)?;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let existed = path.exists();
        Ok((File::create(path)?, existed))
    }
}

#[cfg(all(test, unix))]
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
