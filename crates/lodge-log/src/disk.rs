//! The file layer: the few calls that a log makes, as traits, so that tests can make each of them fail.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// For reading; it must be there.
    Read,
    /// For reading, and for writing at its end; it must be there.
    Append,
    /// As [`Mode::Append`], but it must not be there yet.
    CreateNew,
    /// As [`Mode::Append`], empty, whether it was there or not.
    Replace,
}

/// What the system knows of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its length in bytes.
    pub len: u64,
    /// How many names it has; none when it was deleted under us.
    pub links: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified: u128,
}

/// An open file. Calls may fail with [`io::ErrorKind::Interrupted`] or do less than asked; callers go on then.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes at the end, as much as it can in one call.
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Reads from a place; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Brings the written bytes to the disk (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Length, names, time.
    fn stat(&self) -> io::Result<Stat>;
    /// Keeps other processes that ask for it from the file until [`DiskFile::unlock`]; waits for them first.
    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
    /// Lets the others go on.
    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file system.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file; new ones get mode 0600.
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a directory and those above it, mode 0700; fine if it is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Brings a directory's entries to the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Gives a file or directory another name, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and all in it.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// The directories in a directory.
    fn dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Whether the path is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
}

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = private_file();
        options.read(true);
        match mode {
            Mode::Read => &mut options,
            Mode::Append => options.append(true),
            Mode::CreateNew => options.append(true).create_new(true),
            Mode::Replace => options.append(true).create(true),
        };
        // A link would lead out of the home, and a pipe would have us wait: what is kept here is kept in files.
        if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let file = options.open(path)?;
        if mode == Mode::Replace {
            file.set_len(0)?;
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Only Unix lets one open a directory to sync it.
        if cfg!(unix) {
            File::open(path)?.sync_all()
        } else {
            Ok(())
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut dirs = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
        Ok(dirs)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }
}

impl DiskFile for RealFile {
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(parts)
    }

    #[cfg(unix)]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buf, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn stat(&self) -> io::Result<Stat> {
        let meta = self.0.metadata()?;
        #[cfg(unix)]
        let links = std::os::unix::fs::MetadataExt::nlink(&meta);
        #[cfg(not(unix))]
        let links = 1;
        let modified = meta
            .modified()?
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos());
        Ok(Stat {
            len: meta.len(),
            links,
            modified,
        })
    }

    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}

/// Options for a file that only its owner may read.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Repeats a call as long as a signal interrupts it.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Writes all the bytes: in one call when the disk takes them in one, in as few as it allows otherwise.
pub(crate) fn write_all(file: &dyn DiskFile, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match retry(|| file.write(parts))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => IoSlice::advance_slices(&mut parts, n),
        }
    }
    Ok(())
}

/// Fills the buffer from a place, or as much of it as the file has.
pub(crate) fn read_full(file: &dyn DiskFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match retry(|| file.read_at(&mut buf[done..], offset + done as u64))? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// The whole of a small file.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = retry(|| disk.open(path, Mode::Read))?;
    let len = retry(|| file.stat())?.len;
    let mut buf = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    let read = read_full(&*file, &mut buf, 0)?;
    buf.truncate(read);
    Ok(buf)
}

/// Puts a small file in place whole or not at all. `durable` waits for the disk.
pub(crate) fn put(disk: &dyn Disk, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let write = || {
        let file = retry(|| disk.open(&fresh, Mode::Replace))?;
        write_all(&*file, &mut [IoSlice::new(bytes)])?;
        if durable {
            retry(|| file.sync())?;
        }
        drop(file);
        retry(|| disk.rename(&fresh, path))?;
        match path.parent() {
            Some(dir) if durable => retry(|| disk.sync_dir(dir)),
            _ => Ok(()),
        }
    };
    write().inspect_err(|_| {
        // The leftover is overwritten by the next attempt; failing to remove it changes nothing.
        let _ = disk.remove_file(&fresh);
    })
}
