//! Paths, resolved once and then opened without following links.
//!
//! A path that a model names is resolved (`locate`): absolute, without links. Approval is requested for that resolved
//! path, and exactly that path is opened later, beneath its root, refusing every link on the way. Swapping a directory
//! for a link in between gives an error, not another file.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use lodge_files::Links;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

/// Links followed before a path is taken for a circle, as many as Linux follows.
const MAX_LINKS: usize = 40;

/// A path and the place it means.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// Absolute, without links and without `..`. It need not exist.
    pub path: PathBuf,
    /// The allowed directory that holds it, also without links; `None` when it is outside all of them.
    pub root: Option<PathBuf>,
}

/// The absolute form of what a model wrote: `~`, `.` and `..` resolved in the text, links not followed.
pub fn absolute(cwd: &Path, text: &str) -> PathBuf {
    normal(&in_directory(cwd, text))
}

/// The path as seen from a directory, with `~` resolved and nothing else.
pub(crate) fn in_directory(cwd: &Path, text: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let path = match text.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => home().map(|home| home.join(&rest[1..])),
        _ => None,
    };
    cwd.join(path.unwrap_or_else(|| PathBuf::from(text)))
}

/// `.` and `..` resolved in the text.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Follows all links, also those that lead nowhere: what does not exist is kept as it is written.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    let mut done = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(&name);
        let Ok(target) = std::fs::read_link(&done) else {
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        done.pop();
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(name);
        }
    }
    Ok(done)
}

/// Links of the system's own, such as `/tmp` on macOS: only its owner can make them lead elsewhere.
const SYSTEM: &[&str] = &["tmp", "var", "etc", "bin", "sbin", "lib", "lib64"];

/// A normal path where the system's own link that it begins with is what it leads to.
pub(crate) fn without_system_link(path: &Path) -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let first = names(path)
        .next()
        .filter(|name| SYSTEM.iter().any(|system| name == system));
    let found = first.and_then(|name| {
        let top = Path::new("/").join(name);
        let link = top.symlink_metadata().ok()?;
        let is_system = link.is_symlink() && link.uid() == 0;
        Some((
            is_system.then(|| real(&top).ok()).flatten()?,
            path.strip_prefix(&top).ok()?,
        ))
    });
    found.map_or_else(
        || path.to_owned(),
        |(place, rest)| match rest == Path::new("") {
            true => place,
            false => place.join(rest),
        },
    )
}

/// Names of a path, `..` among them.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// Resolves what a model wrote, and finds the root it is in.
pub fn locate<'a>(cwd: &Path, roots: impl IntoIterator<Item = &'a Path>, text: &str) -> io::Result<Located> {
    if text.is_empty() || text.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path"));
    }
    let path = real(&absolute(cwd, text))?;
    let root = roots
        .into_iter()
        .filter_map(|root| real(root).ok())
        .find(|root| path.starts_with(root));
    Ok(Located { path, root })
}

impl Located {
    /// The directory everything is opened beneath, and the way from there.
    fn base(&self) -> io::Result<(OwnedFd, PathBuf)> {
        let base = self.root.as_deref().unwrap_or(Path::new("/"));
        let fd = rustix::fs::open(base, DIRECTORY, Mode::empty())?;
        Ok((fd, self.path.strip_prefix(base).unwrap_or(&self.path).to_owned()))
    }

    /// The directory that holds it, opened, and its name there.
    pub(crate) fn parent(&self, make: bool) -> io::Result<(OwnedFd, OsString)> {
        let (mut directory, way) = self.base()?;
        let name = way.file_name().ok_or(Errno::ISDIR)?.to_owned();
        for part in names(way.parent().unwrap_or(Path::new(""))) {
            let next = match open_beneath(&directory, Path::new(&part), DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    match rustix::fs::mkdirat(&directory, &part, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    open_beneath(&directory, Path::new(&part), DIRECTORY, Mode::empty())?
                }
                next => next?,
            };
            directory = next;
        }
        Ok((directory, name))
    }

    /// Opens for reading. Never blocks, also not on a pipe without a writer.
    pub fn open(&self) -> io::Result<File> {
        let (base, way) = self.base()?;
        Ok(open_beneath(&base, &way, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?.into())
    }

    /// Reads a regular file of at most `limit` bytes.
    pub fn read(&self, limit: u64) -> io::Result<Vec<u8>> {
        use std::io::Read;
        let file = self.open()?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        if kind == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        if kind != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
        }
        Ok(bytes)
    }

    /// Makes a new file, with its directories.
    pub fn create(&self, contents: &[u8]) -> io::Result<()> {
        let (directory, name) = self.parent(true)?;
        write_new(&directory, &name, contents, Mode::from_raw_mode(0o666))
    }

    /// Gives an existing file other contents, all at once: a reader sees the old or the new, never half.
    pub fn replace(&self, contents: &[u8]) -> io::Result<()> {
        use std::io::Write;
        let (directory, name) = self.parent(false)?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let mut old: File = open_beneath(&directory, Path::new(&name), flags, Mode::empty())?.into();
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&old)?.st_mode & 0o7777);
        let temporary = OsString::from(format!(".lodge-{}", uuid::Uuid::new_v4().simple()));
        let swapped = write_new(&directory, &temporary, contents, mode).and_then(|()| {
            rustix::fs::chmodat(&directory, &temporary, mode, AtFlags::empty())?;
            rustix::fs::renameat(&directory, &temporary, &directory, &name)?;
            Ok(())
        });
        if swapped.is_err() {
            // A directory that takes no new files may still hold a file that can be written.
            let _ = rustix::fs::unlinkat(&directory, &temporary, AtFlags::empty());
            old.set_len(0)?;
            old.write_all(contents)?;
        }
        Ok(())
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn write_new(directory: &OwnedFd, name: &OsString, contents: &[u8], mode: Mode) -> io::Result<()> {
    use std::io::Write;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file: File = open_beneath(directory, Path::new(name), flags, mode)?.into();
    file.write_all(contents)
}

/// Opens beneath a directory, refusing every link.
pub(crate) fn open_beneath(base: impl AsFd, way: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    lodge_files::open_beneath(base, way, flags, mode, Links::Refused)
}
