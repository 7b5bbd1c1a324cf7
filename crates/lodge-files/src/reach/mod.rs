//! Files that clients read and write, each opened beneath its allowed root (see `beneath`).

mod allowed;
mod open;
mod private;
mod read;
#[cfg(test)]
mod tests;
mod tree;
mod write;

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{FileType, Mode, OFlags, Stat},
    io::Errno,
};

pub(crate) use self::tree::{names_in, open_directory};
pub use self::{
    allowed::Reach,
    private::Private,
    read::Pieces,
    tree::Entry,
    write::{How, Write},
};
use self::{
    allowed::is_project,
    open::{directory, open_beneath, real_path},
};
use crate::Links;

/// Why it did not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FileError {
    #[error("not found")]
    NotFound,
    #[error("parent directory not found")]
    NoParent,
    #[error("this is outside the directories that clients may reach")]
    Denied,
    #[error("this belongs to the host, and no client may reach it")]
    Private,
    #[error("the host does not have permission")]
    Forbidden,
    #[error("it already exists")]
    Exists,
    #[error("it already exists and is not a directory")]
    ExistsAsFile,
    #[error("ifMatch precondition failed: it was changed by somebody else")]
    Changed,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("it is not a directory")]
    NotADirectory,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is too large to handle in one piece")]
    TooLarge,
    #[error("the name is too long")]
    NameTooLong,
    #[error("a directory cannot be moved into itself or replace its parent")]
    IntoItself,
    #[error("it could not be done: {0}")]
    Other(Errno),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotFound,
            Errno::XDEV | Errno::LOOP => Self::Denied,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::Forbidden,
            Errno::EXIST => Self::Exists,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::NOTDIR => Self::NotADirectory,
            Errno::ISDIR => Self::NotAFile,
            Errno::NAMETOOLONG => Self::NameTooLong,
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

pub(crate) type Result<T> = std::result::Result<T, FileError>;

/// Something that may be reached, with everything beneath it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it may be read.
    pub read: bool,
    /// Whether it may be written.
    pub write: bool,
    /// Named by a person exactly so: links on the way to it, or in its place, are not followed.
    pub exact: bool,
    /// A directory that a session works in: it counts unless it holds a home.
    pub project: bool,
}

impl Root {
    /// A directory where everything may be done.
    pub fn whole(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            read: true,
            write: true,
            exact: false,
            project: false,
        }
    }

    /// A directory that a session works in.
    pub fn project(path: impl Into<PathBuf>) -> Self {
        Self {
            project: true,
            ..Self::whole(path)
        }
    }

    /// Whether it counts, when this is where it is without links.
    fn counts(&self, real: &Path, homes: &[PathBuf]) -> bool {
        !self.project || is_project(real, homes)
    }
}

/// The directories that clients may reach.
pub struct Files {
    roots: Vec<Root>,
    homes: Vec<PathBuf>,
    private: Private,
}

/// A path beneath a root that is open.
struct Place {
    root: OwnedFd,
    below: PathBuf,
    links: Links,
}

/// What can be watched: a directory, or one name in it.
pub(crate) struct Watchable {
    pub(crate) directory: OwnedFd,
    pub(crate) only: Option<OsString>,
    pub(crate) private: Private,
}

/// What is known about a file.
pub struct Facts {
    /// Where it really is.
    pub path: PathBuf,
    /// `file`, `directory` or `symlink`.
    pub kind: &'static str,
    /// What the system says of it.
    pub stat: Stat,
}

impl Files {
    /// What nobody reaches.
    pub fn private(&self) -> &Private {
        &self.private
    }

    /// Whether nothing but a grant leads to a path.
    pub fn is_only_granted(&self, path: &Path) -> bool {
        let others = self.roots.iter().filter(|root| !root.exact);
        let others = Self {
            roots: others.cloned().collect(),
            homes: self.homes.clone(),
            private: Private::default(),
        };
        !others.allows(path, false)
    }

    /// Whether a path is beneath a root by its words; links are the kernel's matter.
    pub fn allows(&self, path: &Path, write: bool) -> bool {
        self.root_of(path, write).is_some()
    }

    /// The root that a path is beneath, and the way from there. Of several the outermost, where most links lead inside.
    fn root_of(&self, path: &Path, write: bool) -> Option<(&Root, PathBuf)> {
        if path
            .components()
            .any(|part| matches!(part, Component::ParentDir | Component::CurDir))
        {
            return None;
        }
        let fitting = || {
            let fits = |root: &&Root| if write { root.write } else { root.read };
            self.roots.iter().filter(fits)
        };
        let by_name = fitting().filter_map(|root| {
            let below = path.strip_prefix(&root.path).ok()?.to_owned();
            // What is not there gives nothing away.
            let real = || root.path.canonicalize().unwrap_or_else(|_| root.path.clone());
            (!root.project || root.counts(&real(), &self.homes)).then_some((root, below))
        });
        let by_place = || {
            // A client that knows where a link leads names its target.
            fitting().filter_map(|root| {
                let real = root.path.canonicalize().ok()?;
                let below = path.strip_prefix(&real).ok()?.to_owned();
                root.counts(&real, &self.homes).then_some((root, below))
            })
        };
        let depth = |found: &(&Root, PathBuf)| found.1.components().count();
        let granted = || {
            // A grant is for a place without links; the client may know it by another name.
            let real = settled(path)?;
            let exact = fitting().filter(|root| root.exact);
            exact
                .filter_map(|root| Some((root, real.strip_prefix(&root.path).ok()?.to_owned())))
                .max_by_key(depth)
        };
        by_name
            .max_by_key(depth)
            .or_else(|| by_place().max_by_key(depth))
            .or_else(granted)
    }

    fn place(&self, path: &Path, write: bool) -> Result<Place> {
        let (root, below) = self.root_of(path, write).ok_or(FileError::Denied)?;
        let whole = below.as_os_str().is_empty();
        if root.exact && whole {
            return Self::exact(&root.path);
        }
        let fd = if root.exact {
            let slash = directory(Path::new("/"))?;
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            open_beneath(slash.as_fd(), below_slash(&root.path), flags, Links::Refused)?
        } else {
            directory(&root.path)?
        };
        Ok(Place {
            root: fd,
            below: if whole { ".".into() } else { below },
            links: Links::Beneath,
        })
    }

    /// A single file or directory that was named by a person: beneath the directory it is in, links refused.
    fn exact(path: &Path) -> Result<Place> {
        let slash = directory(Path::new("/"))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Place {
                root: slash,
                below: ".".into(),
                links: Links::Refused,
            });
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = open_beneath(slash.as_fd(), below_slash(parent), flags, Links::Refused)?;
        Ok(Place {
            root,
            below: name.into(),
            links: Links::Refused,
        })
    }

    /// Opens what a path means, only to look at it.
    fn look(&self, path: &Path, write: bool, follow: bool) -> Result<(OwnedFd, Stat)> {
        let place = self.place(path, write)?;
        let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let fd = match open_beneath(place.root.as_fd(), &place.below, OFlags::PATH | nofollow, place.links) {
            // Not even what is not there is told about what is the host's own.
            Err(_) if settled(path).is_some_and(|path| self.private.covers(&path)) => return Err(FileError::Private),
            // There is nothing beneath a file.
            Err(FileError::NotADirectory) => return Err(FileError::NotFound),
            other => other?,
        };
        self.private.refuse(&fd)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok((fd, stat))
    }

    /// The directory that a path is in, opened, and its name there. What has this name may be replaced or removed.
    fn parent(&self, path: &Path) -> Result<(OwnedFd, OsString)> {
        let (parent, name) = self.opened_parent(path)?;
        self.private.refuse_in(&parent, &name)?;
        Ok((parent, name))
    }

    fn opened_parent(&self, path: &Path) -> Result<(OwnedFd, OsString)> {
        let name = path.file_name().ok_or(FileError::Denied)?.to_owned();
        // A root itself is not for clients to remove or replace.
        let (root, below) = self.root_of(path, true).ok_or(FileError::Denied)?;
        if below.as_os_str().is_empty() {
            if !root.exact || root.path.is_dir() {
                return Err(FileError::Denied);
            }
            let name = root.path.file_name().ok_or(FileError::Denied)?;
            return Ok((Self::exact(&root.path)?.root, name.to_owned()));
        }
        let parent = path.parent().ok_or(FileError::Denied)?;
        let place = self.place(parent, true)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match open_beneath(place.root.as_fd(), &place.below, flags, place.links) {
            Err(_) if settled(parent).is_some_and(|path| self.private.covers(&path)) => Err(FileError::Private),
            Err(FileError::NotFound | FileError::NotADirectory) => Err(FileError::NoParent),
            opened => Ok((opened?, name)),
        }
    }

    /// What there is to watch at a path.
    pub(crate) fn watchable(&self, path: &Path) -> Result<Watchable> {
        let (fd, stat) = self.look(path, false, true)?;
        if kind_of(&stat) == FileType::Directory {
            return Ok(Watchable {
                directory: fd,
                only: None,
                private: self.private.clone(),
            });
        }
        // A file that is replaced is another file of the same name: its directory knows.
        let real = real_path(&fd)?;
        let place = self.place(&real, false)?;
        let parent = place.below.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok(Watchable {
            directory: open_beneath(place.root.as_fd(), parent.unwrap_or(Path::new(".")), flags, place.links)?,
            only: real.file_name().map(OsStr::to_owned),
            private: self.private.clone(),
        })
    }

    /// What is known about a file, or about a link itself.
    pub fn facts(&self, path: &Path, follow: bool) -> Result<Facts> {
        let (fd, stat) = self.look(path, false, follow)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => "directory",
            FileType::Symlink => "symlink",
            _ => "file",
        };
        let real = real_path(&fd).ok().filter(|_| follow);
        Ok(Facts {
            path: real.unwrap_or_else(|| path.to_owned()),
            kind,
            stat,
        })
    }
}

/// The way from `/`.
fn below_slash(path: &Path) -> &Path {
    let below = path.strip_prefix("/").unwrap_or(path);
    if below.as_os_str().is_empty() {
        Path::new(".")
    } else {
        below
    }
}

/// The place that a person means who allows a path: what exists of it without links, the rest as it is written.
pub fn settled(path: &Path) -> Option<PathBuf> {
    if path.components().any(|part| matches!(part, Component::ParentDir)) {
        return None;
    }
    let mut rest = Vec::new();
    for above in path.ancestors() {
        if let Ok(mut real) = above.canonicalize() {
            real.extend(rest.iter().rev());
            return Some(real);
        }
        rest.push(above.file_name()?);
    }
    None
}

/// What changes when a file does.
pub fn etag(stat: &Stat) -> String {
    format!(
        "{:x}-{:x}-{:x}-{:x}",
        stat.st_ino, stat.st_mtime, stat.st_mtime_nsec, stat.st_size
    )
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

const TEMPORARY: &str = ".lodge-";

/// A name that no client chose, for what is not finished yet.
pub(crate) fn temporary_name() -> String {
    format!("{TEMPORARY}{}", uuid::Uuid::new_v4().simple())
}

/// Whether something has such a name.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
    name.is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Permissions of what is new; the umask takes its part.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);
