//! Writes files. A whole file replaces the old one atomically, so a crash leaves the old or the new.

use std::{
    ffi::OsStr,
    fs::File,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps};

use super::{
    FileError, Files, NEW_FILE, Result, etag, kind_of,
    open::{real_path, reopen_file},
    temporary_name,
};

/// Where the data goes in what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// After so many bytes of it; the rest goes.
    Truncate(u64),
    /// So many bytes before its end; everything stays.
    Append(u64),
    /// After so many bytes; everything stays.
    Insert(u64),
}

/// What is to be written.
pub struct Write<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Where they go.
    pub how: How,
    /// There must be nothing yet.
    pub create_only: bool,
    /// It must be what the client knows.
    pub if_match: Option<&'a str>,
}

impl Write<'_> {
    /// How many bytes stay before the data, and whether those after it stay, in a file of this length.
    fn splice(&self, length: u64) -> (u64, bool) {
        match self.how {
            How::Truncate(position) => (position.min(length), false),
            How::Append(position) => (length.saturating_sub(position), true),
            How::Insert(position) => (position.min(length), true),
        }
    }
}

/// Writers of one file wait for each other: what one of them checked still holds when it writes.
fn alone(parent: &Stat, name: &OsStr) -> MutexGuard<'static, ()> {
    static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let hash = hasher.hash_one((parent.st_dev, parent.st_ino, name.as_bytes()));
    LOCKS[usize::try_from(hash % 64).unwrap_or(0)].lock()
}

impl Files {
    /// Writes a file, new or old.
    pub fn write(&self, path: &Path, write: &Write<'_>) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let itself = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW);
        if itself.is_ok_and(|stat| kind_of(&stat) == FileType::Symlink) {
            if write.create_only {
                return Err(FileError::Exists);
            }
            // The link stays; what it leads to is written.
            let (target, _) = self.look(path, true, true)?;
            let real = real_path(&target)?;
            let (parent, name) = self.parent(&real)?;
            return self.write_at(&real, &parent, &name, write);
        }
        self.write_at(path, &parent, &name, write)
    }

    fn write_at(&self, path: &Path, parent: &OwnedFd, name: &OsStr, write: &Write<'_>) -> Result<()> {
        let _alone = alone(&rustix::fs::fstat(parent)?, name);
        // Somebody who is not a client of this host may come between the look and the write: then look again.
        for _ in 0..8 {
            let old = match self.look(path, true, true) {
                Ok(_) if write.create_only => return Err(FileError::Exists),
                Ok(old) => Some(old),
                Err(FileError::NotFound) => None,
                Err(error) => return Err(error),
            };
            if let Some(wanted) = write.if_match
                && old.as_ref().is_none_or(|(_, stat)| etag(stat) != wanted)
            {
                return Err(FileError::Changed);
            }
            let Some((fd, stat)) = old else {
                match replace(parent, name, None, write) {
                    Err(FileError::Exists) if !write.create_only => continue,
                    done => return done,
                }
            };
            if kind_of(&stat) != FileType::RegularFile {
                return Err(FileError::NotAFile);
            }
            if write.how == How::Append(0) {
                let mut file = reopen_file(&fd, OFlags::WRONLY | OFlags::APPEND)?;
                return Ok(file.write_all(write.data)?);
            }
            // A client that cannot write the file cannot replace it either.
            let mut file = reopen_file(&fd, OFlags::RDWR)?;
            return match replace(parent, name, Some((&mut file, &stat)), write) {
                // A directory that takes no new files may still hold a file that can be written.
                Err(FileError::Forbidden) => in_place(file, write),
                done => done,
            };
        }
        Err(FileError::Changed)
    }
}

/// Writes beside the file and puts the result in its place.
fn replace(parent: &OwnedFd, name: &OsStr, old: Option<(&mut File, &Stat)>, write: &Write<'_>) -> Result<()> {
    let flags = if old.is_some() {
        RenameFlags::empty()
    } else {
        RenameFlags::NOREPLACE
    };
    let mode = old.as_ref().map(|(_, stat)| Mode::from_raw_mode(stat.st_mode & 0o7777));
    beside(parent, name, mode, flags, |new| {
        let Some((old, _)) = old else {
            return Ok(new.write_all(write.data)?);
        };
        let (before, keep_rest) = write.splice(old.metadata()?.len());
        old.seek(SeekFrom::Start(0))?;
        io::copy(&mut (&mut *old).take(before), new)?;
        new.write_all(write.data)?;
        if keep_rest {
            io::copy(old, new)?;
        }
        Ok(())
    })
}

/// Makes a file under a name of its own, and gives it its real name when it is whole.
pub(super) fn beside(
    parent: &OwnedFd,
    name: &OsStr,
    mode: Option<Mode>,
    flags: RenameFlags,
    fill: impl FnOnce(&mut File) -> Result<()>,
) -> Result<()> {
    let temporary = temporary_name();
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut new: File = rustix::fs::openat(parent.as_fd(), &temporary, create, NEW_FILE)?.into();
    let made = fill(&mut new).and_then(|()| {
        if let Some(mode) = mode {
            rustix::fs::fchmod(&new, mode)?;
        }
        stamp(&new)?;
        rustix::fs::fdatasync(&new)?;
        Ok(rustix::fs::renameat_with(parent, &temporary, parent, name, flags)?)
    });
    if made.is_err() {
        let _ = rustix::fs::unlinkat(parent, &temporary, AtFlags::empty());
    }
    made
}

fn in_place(mut file: File, write: &Write<'_>) -> Result<()> {
    let (before, keep_rest) = write.splice(file.metadata()?.len());
    let mut rest = Vec::new();
    file.seek(SeekFrom::Start(before))?;
    if keep_rest {
        file.read_to_end(&mut rest)?;
        file.seek(SeekFrom::Start(before))?;
    }
    file.set_len(before)?;
    file.write_all(write.data)?;
    Ok(file.write_all(&rest)?)
}

/// Gives a file a time of change that no other has. The kernel's clock stands still for milliseconds, in which a file could
/// change twice and have the same `etag`.
fn stamp(file: &File) -> Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(0);
    let last = LAST.fetch_max(now, Ordering::Relaxed);
    let unique = if now > last {
        now
    } else {
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    };
    let time = Timespec {
        tv_sec: i64::try_from(unique / 1_000_000_000).unwrap_or(0),
        tv_nsec: (unique % 1_000_000_000) as _,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}
