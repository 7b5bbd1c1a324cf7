//! Directories: list, create, copy, move and remove. Trees are walked without recursion and with few open files,
//! however deep they are.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};

use super::{
    FileError, Files, NEW_DIRECTORY, Result, is_same, kind_of,
    open::{open_beneath, reopen, reopen_file},
    temporary_name,
    write::beside,
};
use crate::Links;

/// Something in a directory.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name there.
    pub name: OsString,
    /// Whether it is a directory, or leads to one.
    pub is_dir: bool,
}

impl Files {
    /// What is in a directory, if that is at most so many things.
    pub fn list(&self, path: &Path, most: usize) -> Result<Vec<Entry>> {
        let (fd, stat) = self.look(path, false, true)?;
        if kind_of(&stat) != FileType::Directory {
            return Err(FileError::NotADirectory);
        }
        let directory: OwnedFd = reopen(&fd, OFlags::RDONLY | OFlags::DIRECTORY)?.into();
        let mut entries = Vec::new();
        for (name, kind) in names(&directory)? {
            let is_dir = match kind {
                FileType::Directory => true,
                FileType::RegularFile => false,
                // A link is what it leads to, where that may be known.
                _ => self
                    .look(&path.join(&name), false, true)
                    .is_ok_and(|(_, stat)| kind_of(&stat) == FileType::Directory),
            };
            entries.push(Entry { name, is_dir });
            if entries.len() > most {
                return Err(FileError::TooLarge);
            }
        }
        entries.sort();
        Ok(entries)
    }

    /// Makes a directory and those above it, beneath the root.
    pub fn mkdir(&self, path: &Path) -> Result<()> {
        let place = self.place(path, true)?;
        let mut directory = place.root;
        self.private.refuse(&directory)?;
        for part in place
            .below
            .components()
            .filter(|part| !matches!(part, Component::CurDir))
        {
            let name = Path::new(part.as_os_str());
            match rustix::fs::mkdirat(&directory, name, NEW_DIRECTORY) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            directory = match open_beneath(directory.as_fd(), name, flags, place.links) {
                Err(FileError::NotADirectory) => return Err(FileError::ExistsAsFile),
                other => other?,
            };
            self.private.refuse(&directory)?;
        }
        Ok(())
    }

    /// Removes a file, a link, or a directory.
    pub fn delete(&self, path: &Path, recursive: bool) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let name = name.as_os_str();
        let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if kind_of(&stat) != FileType::Directory {
            return Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?);
        }
        if recursive {
            remove_tree(&parent, name)
        } else {
            Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
        }
    }

    /// Whether something can be taken from here, for good or for a copy.
    pub fn source(&self, from: &Path, takes: bool) -> Result<()> {
        if takes {
            let (parent, name) = self.parent(from)?;
            rustix::fs::statat(&parent, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        } else {
            self.look(from, false, true)?;
        }
        Ok(())
    }

    /// Copies a file or a directory with all that is in it, in the place of what is there.
    pub fn copy(&self, from: &Path, to: &Path, fail_if_exists: bool) -> Result<()> {
        let (source, stat) = self.look(from, false, true)?;
        self.private.refuse_tree(&source)?;
        let (parent, name) = self.parent(to)?;
        let name = name.as_os_str();
        let there = self.destination(from, to, (&parent, name), fail_if_exists)?;
        if there.is_some_and(|there| is_same(&there, &stat)) {
            return Ok(());
        }
        copy(&source, &stat, &parent, name, fail_if_exists)
    }

    /// Moves a file, a link, or a directory, in the place of what is there.
    pub fn rename(&self, from: &Path, to: &Path, fail_if_exists: bool) -> Result<()> {
        let (from_parent, from_name) = self.parent(from)?;
        let from_name = from_name.as_os_str();
        let stat = rustix::fs::statat(&from_parent, from_name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (to_parent, to_name) = self.parent(to)?;
        let to_name = to_name.as_os_str();
        let there = self.destination(from, to, (&to_parent, to_name), fail_if_exists)?;
        if there.is_some_and(|there| is_same(&there, &stat)) {
            let same_place =
                is_same(&rustix::fs::fstat(&from_parent)?, &rustix::fs::fstat(&to_parent)?) && from_name == to_name;
            // Two names of one file: the one it is moved from goes. A rename would leave both.
            return match same_place {
                true => Ok(()),
                false => Ok(rustix::fs::unlinkat(&from_parent, from_name, AtFlags::empty())?),
            };
        }
        let rename = |flags| rustix::fs::renameat_with(&from_parent, from_name, &to_parent, to_name, flags);
        let flags = if fail_if_exists {
            RenameFlags::NOREPLACE
        } else {
            RenameFlags::empty()
        };
        match rename(flags) {
            Ok(()) => Ok(()),
            Err(Errno::XDEV) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                let source = open_beneath(from_parent.as_fd(), Path::new(from_name), flags, Links::Refused)?;
                copy(&source, &stat, &to_parent, to_name, fail_if_exists)?;
                remove(&from_parent, from_name)
            }
            // What is there is no file, or has something in it: they change places, then it goes.
            Err(Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) if !fail_if_exists => {
                rename(RenameFlags::EXCHANGE)?;
                remove(&from_parent, from_name)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is at a destination, if it can be one for this source.
    fn destination(
        &self,
        from: &Path,
        to: &Path,
        (parent, name): (&OwnedFd, &OsStr),
        fail_if_exists: bool,
    ) -> Result<Option<Stat>> {
        let there = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) if fail_if_exists => return Err(FileError::Exists),
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let inside = |one: &Path, other: &Path| one != other && one.starts_with(other);
        let real = |path: &Path| super::settled(path).unwrap_or_else(|| path.to_owned());
        let (from, to) = (real(from), real(to));
        if inside(&from, &to) || inside(&to, &from) {
            return Err(FileError::IntoItself);
        }
        Ok(there)
    }
}

/// Copies to a name of its own, then to its real name.
fn copy(source: &OwnedFd, stat: &Stat, parent: &OwnedFd, name: &OsStr, fail_if_exists: bool) -> Result<()> {
    let flags = if fail_if_exists {
        RenameFlags::NOREPLACE
    } else {
        RenameFlags::empty()
    };
    let temporary = OsString::from(temporary_name());
    match kind_of(stat) {
        FileType::RegularFile => {
            let mut from = reopen_file(source, OFlags::RDONLY)?;
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            let fill = |to: &mut File| std::io::copy(&mut from, to).map(drop).map_err(FileError::from);
            beside(parent, &temporary, Some(mode), RenameFlags::NOREPLACE, fill)?;
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(source, "", Vec::new())?;
            rustix::fs::symlinkat(target.as_c_str(), parent, &temporary)?;
        }
        FileType::Directory => {
            if let Err(error) = copy_tree(source, parent, &temporary) {
                let _ = remove_tree(parent, &temporary);
                return Err(error);
            }
        }
        _ => return Err(FileError::NotAFile),
    }
    let rename = |flags| rustix::fs::renameat_with(parent, &temporary, parent, name, flags);
    let placed = match rename(flags) {
        Err(Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) if !fail_if_exists => {
            rename(RenameFlags::EXCHANGE).map_err(FileError::from)
        }
        other => {
            return other.map_err(|error| {
                let _ = remove(parent, &temporary);
                error.into()
            });
        }
    };
    // What was there has the temporary name now; after a failure it is the copy that has it.
    let removed = remove(parent, &temporary);
    placed.and(removed)
}

/// Names and kinds in an open directory.
fn names(directory: &OwnedFd) -> Result<Vec<(OsString, FileType)>> {
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            kind = kind_of(&rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?);
        }
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}

/// Names in an open directory, and which of them are directories themselves.
pub(crate) fn names_in(directory: &OwnedFd) -> Result<impl Iterator<Item = (OsString, bool)> + use<>> {
    let found = names(directory)?.into_iter();
    Ok(found.map(|(name, kind)| (name, kind == FileType::Directory)))
}

/// A directory somewhere beneath another, opened to be read.
pub(crate) fn open_directory(top: &OwnedFd, way: &Path) -> Result<OwnedFd> {
    open_in(top.as_fd(), way)
}

/// A directory somewhere in a tree, opened to be read. No link on the way is followed.
fn open_in(top: BorrowedFd<'_>, way: &Path) -> Result<OwnedFd> {
    let way = if way.as_os_str().is_empty() {
        Path::new(".")
    } else {
        way
    };
    open_beneath(top, way, OFlags::RDONLY | OFlags::DIRECTORY, Links::Refused)
}

fn copy_tree(source: &OwnedFd, parent: &OwnedFd, name: &OsStr) -> Result<()> {
    rustix::fs::mkdirat(parent, name, NEW_DIRECTORY)?;
    let target = open_in(parent.as_fd(), Path::new(name))?;
    let mut ways = vec![PathBuf::new()];
    while let Some(way) = ways.pop() {
        let (from, to) = (open_in(source.as_fd(), &way)?, open_in(target.as_fd(), &way)?);
        for (name, kind) in names(&from)? {
            match kind {
                FileType::Directory => {
                    rustix::fs::mkdirat(&to, &name, NEW_DIRECTORY)?;
                    ways.push(way.join(&name));
                }
                FileType::Symlink => {
                    let link = rustix::fs::readlinkat(&from, &name, Vec::new())?;
                    rustix::fs::symlinkat(link.as_c_str(), &to, &name)?;
                }
                FileType::RegularFile => copy_file(&from, &to, &name)?,
                // Pipes, sockets and devices are not contents.
                _ => return Err(FileError::NotAFile),
            }
        }
        let mode = rustix::fs::fstat(&from)?.st_mode & 0o7777;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(mode | 0o700))?;
    }
    Ok(())
}

fn copy_file(from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let source = open_beneath(from.as_fd(), Path::new(name), flags, Links::Refused)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&source)?.st_mode & 0o7777);
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut target: File = rustix::fs::openat(to, name, create, mode)?.into();
    std::io::copy(&mut reopen_file(&source, OFlags::RDONLY)?, &mut target)?;
    Ok(rustix::fs::fchmod(&target, mode)?)
}

/// Removes whatever has this name.
fn remove(parent: &OwnedFd, name: &OsStr) -> Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => remove_tree(parent, name),
        other => Ok(other?),
    }
}

fn remove_tree(parent: &OwnedFd, name: &OsStr) -> Result<()> {
    let top = open_in(parent.as_fd(), Path::new(name))?;
    let mut ways = vec![(PathBuf::new(), false)];
    while let Some((way, emptied)) = ways.pop() {
        if emptied {
            let Some((above, last)) = way.parent().zip(way.file_name()) else {
                continue;
            };
            rustix::fs::unlinkat(open_in(top.as_fd(), above)?, last, AtFlags::REMOVEDIR)?;
            continue;
        }
        let directory = open_in(top.as_fd(), &way)?;
        ways.push((way.clone(), true));
        for (name, kind) in names(&directory)? {
            if kind == FileType::Directory {
                ways.push((way.join(&name), false));
            } else {
                rustix::fs::unlinkat(&directory, &name, AtFlags::empty())?;
            }
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
