//! Logs that are open for writing share a bounded number of file descriptors. The least recently used one is closed
//! when another log needs its place, and reopened with its next use, so sessions in memory cost no descriptors.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, Mode, Stat, retry};

/// How many file descriptors this process may have.
pub fn descriptor_limit() -> usize {
    #[cfg(unix)]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    let limit = Some(8192);
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// The files of a home's logs.
#[derive(Debug)]
pub(crate) struct FilePool {
    disk: Arc<dyn Disk>,
    most: usize,
    files: Mutex<Vec<Weak<PooledFile>>>,
}

impl FilePool {
    pub(crate) fn new(disk: Arc<dyn Disk>, most: usize) -> Arc<FilePool> {
        Arc::new(FilePool {
            disk,
            most: most.max(1),
            files: Mutex::default(),
        })
    }

    /// Opens a file. When there are no descriptors left, logs give theirs up.
    pub(crate) fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        match retry(|| self.disk.open(path, mode)) {
            Err(error) if out_of_descriptors(&error) && self.keep(self.most / 2) => {
                retry(|| self.disk.open(path, mode))
            }
            done => done,
        }
    }

    /// Takes over a file that is open for appending; it may be closed and opened again from now on.
    pub(crate) fn adopt(self: &Arc<Self>, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        self.keep(self.most - 1);
        let pooled = Arc::new(PooledFile {
            pool: self.clone(),
            path: path.to_owned(),
            state: Mutex::new(Open {
                file: Some(file),
                used: Instant::now(),
                locked: false,
            }),
        });
        self.files.lock().push(Arc::downgrade(&pooled));
        pooled
    }

    /// Closes files until no more than so many are open, and says whether any was.
    fn keep(&self, most: usize) -> bool {
        let mut files = self.files.lock();
        files.retain(|file| file.strong_count() > 0);
        // The one that is used least recently comes first.
        let mut open: Vec<(Instant, Arc<PooledFile>)> = files
            .iter()
            .filter_map(Weak::upgrade)
            .filter_map(|file| Some((file.closable_since()?, file)))
            .collect();
        drop(files);
        let excess = open.len().saturating_sub(most);
        if excess == 0 {
            return false;
        }
        open.sort_by_key(|(used, _)| *used);
        for (_, file) in open.into_iter().take(excess) {
            file.close();
        }
        true
    }
}

fn out_of_descriptors(error: &io::Error) -> bool {
    // EMFILE and ENFILE, which have no kind of their own.
    cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24))
}

/// A file that is open when it is used.
#[derive(Debug)]
struct PooledFile {
    pool: Arc<FilePool>,
    path: PathBuf,
    state: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: Option<Arc<dyn DiskFile>>,
    used: Instant,
    /// A lock is a property of the open file and would be lost with it.
    locked: bool,
}

impl PooledFile {
    fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.opened() {
            return Ok(file);
        }
        self.pool.keep(self.pool.most - 1);
        let opened = self.pool.open(&self.path, Mode::Append)?;
        let mut state = self.state.lock();
        state.used = Instant::now();
        Ok(state.file.get_or_insert(opened).clone())
    }

    fn opened(&self) -> Option<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.used = Instant::now();
        state.file.clone()
    }

    /// When it was last used, if it is open and can be closed.
    fn closable_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.file.is_some() && !state.locked).then_some(state.used)
    }

    fn close(&self) {
        let mut state = self.state.lock();
        if !state.locked {
            state.file = None;
        }
    }
}

impl DiskFile for PooledFile {
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file()?.write(parts)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file()?.read_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file()?.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file()?.set_len(len)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.file()?.stat()
    }

    fn lock(&self) -> io::Result<()> {
        loop {
            let file = self.file()?;
            let mut state = self.state.lock();
            // Closed again between the two: what is locked must be what is used later.
            if state.file.as_ref().is_some_and(|open| Arc::ptr_eq(open, &file)) {
                state.locked = true;
                drop(state);
                return file.lock().inspect_err(|_| self.state.lock().locked = false);
            }
        }
    }

    fn unlock(&self) -> io::Result<()> {
        let file = {
            let mut state = self.state.lock();
            state.locked = false;
            state.file.clone()
        };
        file.map_or(Ok(()), |file| file.unlock())
    }
}
