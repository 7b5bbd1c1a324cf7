//! Files that clients read and write. A path is opened beneath its allowed root by the kernel (`openat2`), never looked at
//! first and opened later, so a symbolic link that changes meanwhile leads nowhere else.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat},
    io::Errno,
};

/// Why it did not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    #[error("there is nothing there")]
    NotFound,
    #[error("this is outside of what clients may reach")]
    Denied,
    #[error("there is something there already")]
    Exists,
    #[error("it has changed meanwhile")]
    Changed,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("this is not a directory")]
    NotADirectory,
    #[error("this is not a file")]
    NotAFile,
    #[error("this is larger than is read in one piece")]
    TooLarge,
    #[error("it could not be done: {0}")]
    Other(Errno),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP | Errno::ROFS => Self::Denied,
            Errno::EXIST => Self::Exists,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::NOTDIR => Self::NotADirectory,
            Errno::ISDIR => Self::NotAFile,
            other => Self::Other(other),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        error
            .raw_os_error()
            .map_or(Self::Other(Errno::IO), |code| Errno::from_raw_os_error(code).into())
    }
}

type Result<T> = std::result::Result<T, FileError>;

/// The directories that clients may reach.
pub(crate) struct Files {
    roots: Vec<PathBuf>,
}

/// A path beneath a root.
struct Place {
    root: OwnedFd,
    below: PathBuf,
}

/// What is known about a file.
pub(crate) struct Facts {
    pub(crate) path: PathBuf,
    pub(crate) kind: &'static str,
    pub(crate) stat: Stat,
}

/// How a file is written.
pub(crate) enum How {
    Replace,
    Append,
    Insert(u64),
}

impl Files {
    pub(crate) fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots }
    }

    /// Whether a path is beneath a root by its words; links are the kernel's matter.
    pub(crate) fn allows(&self, path: &Path) -> bool {
        self.root_of(path).is_some()
    }

    fn root_of<'a>(&'a self, path: &'a Path) -> Option<(&'a Path, &'a Path)> {
        if path
            .components()
            .any(|part| matches!(part, Component::ParentDir | Component::CurDir))
        {
            return None;
        }
        let fitting = self
            .roots
            .iter()
            .filter_map(|root| Some((root.as_path(), path.strip_prefix(root).ok()?)));
        fitting.min_by_key(|(_, below)| below.components().count())
    }

    fn place(&self, path: &Path) -> Result<Place> {
        let (root, below) = self.root_of(path).ok_or(FileError::Denied)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let below = if below.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            below.to_owned()
        };
        Ok(Place { root, below })
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let place = self.place(path)?;
        beneath(place.root.as_fd(), &place.below, flags, Mode::empty())
    }

    /// The directory that a path is in, opened, and its name there.
    fn parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr)> {
        let name = path.file_name().ok_or(FileError::Denied)?;
        // A root itself is not for clients to remove or replace.
        if self.roots.iter().any(|root| root == path) {
            return Err(FileError::Denied);
        }
        let parent = path.parent().ok_or(FileError::Denied)?;
        Ok((self.open(parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    pub(crate) fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NotAFile);
        }
        if u64::try_from(stat.st_size).unwrap_or(0) > limit {
            return Err(FileError::TooLarge);
        }
        let mut bytes = Vec::new();
        File::from(file).take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes, after checking that the file is new (`create_only`) or still the one the client knows (`if_match`).
    pub(crate) fn write(
        &self,
        path: &Path,
        data: &[u8],
        how: &How,
        create_only: bool,
        if_match: Option<&str>,
    ) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let existing = match beneath(
            parent.as_fd(),
            Path::new(name),
            OFlags::RDWR | OFlags::NONBLOCK,
            Mode::empty(),
        ) {
            Ok(_) if create_only => return Err(FileError::Exists),
            Ok(file) => Some(file),
            Err(FileError::NotFound) => None,
            Err(error) => return Err(error),
        };
        if let Some(wanted) = if_match {
            let now = existing.as_ref().map(rustix::fs::fstat).transpose()?;
            if now.is_none_or(|stat| etag(&stat) != wanted) {
                return Err(FileError::Changed);
            }
        }
        let mut file = match (existing, how) {
            (Some(_), How::Append) => File::from(beneath(
                parent.as_fd(),
                Path::new(name),
                OFlags::WRONLY | OFlags::APPEND,
                Mode::empty(),
            )?),
            (Some(file), _) => File::from(file),
            (None, _) => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
                let mode = Mode::from_raw_mode(0o644);
                File::from(beneath(parent.as_fd(), Path::new(name), flags, mode)?)
            }
        };
        match how {
            How::Append => file.write_all(data)?,
            How::Replace => {
                file.set_len(0)?;
                file.write_all(data)?;
            }
            How::Insert(position) => {
                let end = file.metadata()?.len();
                file.seek(SeekFrom::Start((*position).min(end)))?;
                let mut rest = Vec::new();
                file.read_to_end(&mut rest)?;
                file.seek(SeekFrom::Start((*position).min(end)))?;
                file.write_all(data)?;
                file.write_all(&rest)?;
            }
        }
        Ok(())
    }

    /// The names in a directory, and whether each is a directory.
    pub(crate) fn list(&self, path: &Path) -> Result<Vec<(String, bool)>> {
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let is_dir = match entry.file_type() {
                FileType::Directory => true,
                FileType::RegularFile => false,
                _ => {
                    let target = beneath(directory.as_fd(), Path::new(&name), OFlags::PATH, Mode::empty());
                    let stat = target.and_then(|target| Ok(rustix::fs::fstat(&target)?));
                    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
                }
            };
            entries.push((name, is_dir));
        }
        entries.sort();
        Ok(entries)
    }

    pub(crate) fn copy(&self, from: &Path, to: &Path, fail_if_exists: bool, limit: u64) -> Result<()> {
        let data = self.read(from, limit)?;
        self.write(to, &data, &How::Replace, fail_if_exists, None)
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path, fail_if_exists: bool) -> Result<()> {
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        let flags = if fail_if_exists {
            RenameFlags::NOREPLACE
        } else {
            RenameFlags::empty()
        };
        Ok(rustix::fs::renameat_with(
            &from_parent,
            from_name,
            &to_parent,
            to_name,
            flags,
        )?)
    }

    pub(crate) fn delete(&self, path: &Path, recursive: bool) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?);
        }
        if recursive {
            remove_tree(parent.as_fd(), name)
        } else {
            Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
        }
    }

    /// Makes a directory and those above it, beneath the root.
    pub(crate) fn mkdir(&self, path: &Path) -> Result<()> {
        let place = self.place(path)?;
        let mut directory = place.root;
        for part in place
            .below
            .components()
            .filter(|part| !matches!(part, Component::CurDir))
        {
            let name = Path::new(part.as_os_str());
            match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            directory = match beneath(directory.as_fd(), name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
                Err(FileError::NotADirectory) => return Err(FileError::Exists),
                other => other?,
            };
        }
        Ok(())
    }

    pub(crate) fn facts(&self, path: &Path, follow: bool) -> Result<Facts> {
        let place = self.place(path)?;
        let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let file = beneath(place.root.as_fd(), &place.below, OFlags::PATH | nofollow, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => "directory",
            FileType::Symlink => "symlink",
            _ => "file",
        };
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        let real = std::fs::read_link(format!("/proc/self/fd/{number}"))
            .ok()
            .filter(|_| follow);
        Ok(Facts {
            path: real.unwrap_or_else(|| path.to_owned()),
            kind,
            stat,
        })
    }
}

/// What changes when a file does.
pub(crate) fn etag(stat: &Stat) -> String {
    format!("{:x}-{:x}-{:x}", stat.st_mtime, stat.st_mtime_nsec, stat.st_size)
}

/// Opens a path beneath a directory. Where the kernel has no `openat2`, links are not followed at all.
fn beneath(root: BorrowedFd<'_>, below: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, below, flags, mode, resolve) {
        Err(Errno::NOSYS) => step_by_step(root, below, flags, mode),
        other => Ok(other?),
    }
}

fn step_by_step(root: BorrowedFd<'_>, below: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
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
        return Ok(rustix::fs::openat(&directory, ".", flags, mode)?);
    };
    for part in before {
        directory = rustix::fs::openat(&directory, part.as_os_str(), open_directory, Mode::empty())?;
    }
    Ok(rustix::fs::openat(
        &directory,
        last.as_os_str(),
        flags | OFlags::NOFOLLOW,
        mode,
    )?)
}

fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::ISDIR | Errno::PERM) => {
                use std::os::unix::ffi::OsStrExt as _;
                remove_tree(directory.as_fd(), OsStr::from_bytes(name.to_bytes()))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> (tempfile::TempDir, Files, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        (dir, Files::new(vec![root.clone()]), root)
    }

    #[test]
    fn nothing_outside_the_roots_can_be_reached() {
        let (dir, files, root) = setup();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../secret", root.join("relative")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        for path in ["absolute", "relative", "up/secret", "../secret"] {
            let path = root.join(path);
            assert_eq!(files.read(&path, 100), Err(FileError::Denied), "{path:?}");
            assert_eq!(
                files.write(&path, b"x", &How::Replace, false, None),
                Err(FileError::Denied),
                "{path:?}"
            );
        }
        assert_eq!(files.read(Path::new("/etc/passwd"), 100), Err(FileError::Denied));
        assert_eq!(files.delete(&root, true), Err(FileError::Denied));
        assert_eq!(files.mkdir(&root.join("up/new")), Err(FileError::Denied));
        assert_eq!(std::fs::read_to_string(dir.path().join("secret")).unwrap(), "secret");
        // Removing a link removes the link.
        files.delete(&root.join("relative"), false).unwrap();
        assert!(dir.path().join("secret").exists());
    }

    #[test]
    fn files_are_written_in_every_way() {
        let (_dir, files, root) = setup();
        let file = root.join("file");
        let text = || std::fs::read_to_string(&file).unwrap();
        files.write(&file, b"hello", &How::Replace, true, None).unwrap();
        assert_eq!(
            files.write(&file, b"x", &How::Replace, true, None),
            Err(FileError::Exists)
        );
        files.write(&file, b" world", &How::Append, false, None).unwrap();
        assert_eq!(text(), "hello world");
        files.write(&file, b", dear", &How::Insert(5), false, None).unwrap();
        assert_eq!(text(), "hello, dear world");
        let tag = etag(&files.facts(&file, true).unwrap().stat);
        files.write(&file, b"new", &How::Replace, false, Some(&tag)).unwrap();
        assert_eq!(
            files.write(&file, b"newer", &How::Replace, false, Some(&tag)),
            Err(FileError::Changed)
        );
        assert_eq!(text(), "new");
        assert_eq!(
            files.write(&root.join("no/file"), b"x", &How::Replace, false, None),
            Err(FileError::NotFound)
        );
        assert_eq!(files.read(&file, 2), Err(FileError::TooLarge));
        assert_eq!(files.read(&root, 100), Err(FileError::NotAFile));
    }

    #[test]
    fn directories_are_made_listed_moved_and_removed() {
        let (_dir, files, root) = setup();
        files.mkdir(&root.join("a/b")).unwrap();
        files.mkdir(&root.join("a/b")).unwrap();
        std::fs::write(root.join("a/file"), "x").unwrap();
        assert_eq!(files.mkdir(&root.join("a/file")), Err(FileError::Exists));
        assert_eq!(
            files.list(&root.join("a")).unwrap(),
            [("b".to_owned(), true), ("file".to_owned(), false)]
        );
        assert_eq!(files.list(&root.join("a/file")), Err(FileError::NotADirectory));
        assert_eq!(files.list(&root.join("none")), Err(FileError::NotFound));
        assert_eq!(files.delete(&root.join("a"), false), Err(FileError::NotEmpty));
        files
            .copy(&root.join("a/file"), &root.join("a/copy"), true, 100)
            .unwrap();
        assert_eq!(
            files.copy(&root.join("a/file"), &root.join("a/copy"), true, 100),
            Err(FileError::Exists)
        );
        assert_eq!(
            files.rename(&root.join("a/file"), &root.join("a/copy"), true),
            Err(FileError::Exists)
        );
        files.rename(&root.join("a/file"), &root.join("a/copy"), false).unwrap();
        files.delete(&root.join("a"), true).unwrap();
        assert_eq!(files.list(&root).unwrap(), []);
    }
}
