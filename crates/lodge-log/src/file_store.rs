//! All session logs of a home, each in its directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use crate::damage::{Damage, Report};
use crate::disk::{DiskFile, Mode, put, read_full, read_whole, retry};
use crate::error::LogError;
use crate::file_log::{Alone, FileLog, LOG_FILE, Observer, Shared};
use crate::index::{INDEX_FILE, Index, Saved, remove_side_file};
use crate::labels::Labels;
use crate::names::{ID_FILE, dir_name, escaped, is_plain, needs_id_file};
use crate::reader::{Backwards, Forwards};
use crate::repair::repair;
use crate::rewinds::Hidden;
use crate::store::{Entry, EventReader, Opened, Position, SessionLog, Store};
use crate::survey::{Fix, Survey, survey};

/// In a session's directory: the log is a copy of one in a fleet of hosts.
pub const COPY_FILE: &str = "fleet.joined";
/// Names of directories on their way out begin like this; no session's does.
const TRASH: &str = ".deleted-";
/// Rewinds are looked for in all of a log that is not longer than this.
const READ_WHOLE: u64 = 256 * 1024;

/// Session logs as files below `<home>/session-state`.
pub struct FileStore {
    pub(crate) root: PathBuf,
    pub(crate) shared: Shared,
    /// The home, if it was opened for reading only.
    pub(crate) read_only: Option<PathBuf>,
}

impl FileStore {
    /// Whether a session's log is a copy of one in a fleet of hosts. What is added to the copy alone never gets there.
    pub fn is_copy(&self, id: &str) -> Result<bool, LogError> {
        Ok(self.resolve(id)?.join(COPY_FILE).exists())
    }

    /// Goes through a whole log and says what is wrong with it, changing nothing.
    pub fn check(&self, id: &str) -> Result<Report, LogError> {
        let (dir, path, file) = self.find(id, Mode::Read)?;
        let io = |e| LogError::io("check", &path)(e);
        let bytes = retry(|| file.stat()).map_err(io)?.len;
        let Survey {
            events, mut findings, ..
        } = survey(&file, Index::default(), bytes, self.shared.longest_line()).map_err(io)?;
        // Bytes that still are events may not be the events that were written.
        if !findings.is_loss()
            && let Some(saved) = Saved::load(&*self.shared.disk, &dir)
            && saved.index.len <= bytes
            && let Some(at) = saved.index.changed_block(&*file, 0).map_err(io)?
        {
            findings.add(Damage::Changed, at, 0);
        }
        Ok(Report {
            events,
            bytes,
            findings,
        })
    }

    /// Goes through a whole log and repairs it if it must be, whatever its side file says.
    pub fn fix(&self, id: &str) -> Result<Opened, LogError> {
        self.open_with(id, false)
    }

    /// Gives a log that will not do another name in its directory, and puts an empty one in its place. All else that belongs to the
    /// session stays.
    pub fn set_aside(&self, id: &str, name: &str) -> Result<(), LogError> {
        self.writable()?;
        let dir = self.resolve(id)?;
        let path = dir.join(LOG_FILE);
        self.shared.syncer.wait_for_pending(&path);
        let disk = &*self.shared.disk;
        retry(|| disk.rename(&path, &dir.join(name))).map_err(LogError::io("set aside", &path))?;
        remove_side_file(disk, &dir).map_err(LogError::io("remove", &dir.join(INDEX_FILE)))?;
        drop(self.create(id)?);
        self.shared.notify(|observer| observer.rewritten(id));
        Ok(())
    }

    /// Removes what an interrupted deletion left behind.
    pub(crate) fn sweep(&self) {
        // Another process may be just deleting, which is no reason to interfere.
        if self.shared.with_others {
            return;
        }
        for dir in self.shared.disk.dirs(&self.root).unwrap_or_default() {
            if dir
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(TRASH))
            {
                let _ = self.shared.disk.remove_dir(&dir);
            }
        }
    }

    /// What is said about a session beside its log.
    pub fn labels(&self, id: &str) -> Result<Labels, LogError> {
        let dir = self.resolve(id)?;
        Labels::load(&*self.shared.disk, &dir).map_err(LogError::io("read the labels in", &dir))
    }

    /// Changes what is said about a session beside its log.
    pub fn set_labels(&self, id: &str, labels: &Labels) -> Result<(), LogError> {
        self.writable()?;
        let dir = self.dir(id)?;
        labels
            .save(&*self.shared.disk, &dir, id)
            .map_err(LogError::io("write the labels in", &dir))?;
        self.shared.notify(|observer| observer.relabelled(id));
        Ok(())
    }

    /// Sets who hears of every change; the first one stays.
    pub(crate) fn observe(&self, observer: Box<dyn Observer>) {
        let _ = self.shared.observer.set(observer);
    }

    /// Where the last complete line of a log ends. A line that is just being written is not looked at.
    pub(crate) fn end_of_lines(&self, id: &str) -> Result<u64, LogError> {
        let (_, path, file) = self.find(id, Mode::Read)?;
        let io = |e| LogError::io("read", &path)(e);
        let mut end = retry(|| file.stat()).map_err(io)?.len;
        let mut buf = [0; 4096];
        while end > 0 {
            let want = end.min(buf.len() as u64) as usize;
            let read = read_full(&*file, &mut buf[..want], end - want as u64).map_err(io)?;
            if let Some(newline) = memchr::memrchr(b'\n', &buf[..read]) {
                return Ok(end - want as u64 + newline as u64 + 1);
            }
            end -= want as u64;
        }
        Ok(0)
    }

    /// What rewinds hide of a log, and where the log ends.
    fn hidden(&self, dir: &Path, path: &Path, file: &Arc<dyn DiskFile>) -> Result<(Hidden, u64), LogError> {
        let io = |e| LogError::io("read", path)(e);
        let stat = retry(|| file.stat()).map_err(io)?;
        // Side files are made only while nothing is hidden. A short log is read faster than its side file.
        let saved = match stat.len > READ_WHOLE {
            true => Saved::load(&*self.shared.disk, dir),
            false => None,
        };
        let from = match saved {
            Some(saved) if saved.index.fits(&**file, stat, saved.modified).map_err(io)? => saved.index.len,
            _ => 0,
        };
        let hidden = Hidden::find(file, path, from, stat.len, self.shared.longest_line())?;
        Ok((hidden, stat.len))
    }

    /// Whether something that comes before this byte of a log is hidden by now.
    pub(crate) fn is_hidden_before(&self, id: &str, at: u64) -> Result<bool, LogError> {
        let (dir, path, file) = self.find(id, Mode::Read)?;
        Ok(self.hidden(&dir, &path, &file)?.0.reaches_before(at))
    }

    /// The directory for an id. A plain directory that belongs to another id (on a disk that ignores case) is left to it.
    pub(crate) fn resolve(&self, id: &str) -> Result<PathBuf, LogError> {
        let dir = self.root.join(dir_name(id));
        match self.owner(&dir)? {
            Some(owner) if owner != id && is_plain(id) => Ok(self.root.join(escaped(id))),
            Some(owner) if owner != id => Err(LogError::Taken {
                id: id.to_owned(),
                dir,
                owner,
            }),
            _ => Ok(dir),
        }
    }

    /// The id that a directory says it belongs to.
    fn owner(&self, dir: &Path) -> Result<Option<String>, LogError> {
        let path = dir.join(ID_FILE);
        match read_whole(&*self.shared.disk, &path) {
            Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
            Err(error) if missing(&error) => Ok(None),
            Err(error) => Err(LogError::io("read", &path)(error)),
        }
    }

    fn find(&self, id: &str, mode: Mode) -> Result<(PathBuf, PathBuf, Arc<dyn DiskFile>), LogError> {
        let dir = self.resolve(id)?;
        let path = dir.join(LOG_FILE);
        match self.shared.files.open(&path, mode) {
            Ok(file) if mode == Mode::Read => Ok((dir, path, file)),
            Ok(file) => {
                let file = self.shared.files.adopt(&path, file);
                Ok((dir, path, file))
            }
            Err(error) if missing(&error) => Err(LogError::NotFound { id: id.to_owned() }),
            Err(error) => Err(LogError::io("open", &path)(error)),
        }
    }

    fn writable(&self) -> Result<(), LogError> {
        match &self.read_only {
            Some(path) => Err(LogError::ReadOnly { path: path.clone() }),
            None => Ok(()),
        }
    }

    fn open_with(&self, id: &str, trust_index: bool) -> Result<Opened, LogError> {
        self.writable()?;
        // A writer that was just dropped may still be busy with its side file.
        self.shared.syncer.wait_for_pending(&self.resolve(id)?.join(LOG_FILE));
        let ((dir, path, file), alone, stat) = loop {
            let found = self.find(id, Mode::Append)?;
            let alone = Alone::with(&self.shared, &found.2, &found.1)?;
            let stat = retry(|| found.2.stat()).map_err(LogError::io("open", &found.1))?;
            // While we waited for it, somebody may have repaired the log by putting another file in its place.
            if stat.links > 0 || !self.shared.with_others {
                break (found, alone, stat);
            }
        };
        let io = |e| LogError::io("open", &path)(e);
        let longest = self.shared.longest_line();

        let saved = if trust_index {
            Saved::load(&*self.shared.disk, &dir)
        } else {
            None
        };
        if let Some(saved) = saved
            && saved.index.fits(&*file, stat, saved.modified).map_err(io)?
        {
            let indexed = saved.index.len;
            let tail = survey(&file, saved.index, stat.len, longest).map_err(io)?;
            let doubt = tail.findings.count(Damage::Gap) + tail.findings.count(Damage::Duplicate) > 0;
            // What a rewind hides may be in what the side file and its snapshot speak of.
            let doubt = doubt || tail.rewound;
            if tail.fix != Fix::Rewrite && !doubt {
                let (repaired, index) = repair(&self.shared, &dir, &path, &file, stat.len, tail)?;
                let log = FileLog::indexed(self.shared.clone(), id, dir, file, index, indexed);
                return Ok(Opened {
                    log: Box::new(log),
                    repaired,
                    snapshot: saved.snapshot,
                });
            }
        }
        let all = survey(&file, Index::default(), stat.len, longest).map_err(io)?;
        let (rewritten, rewound) = (all.fix == Fix::Rewrite, all.rewound);
        let (repaired, index) = repair(&self.shared, &dir, &path, &file, stat.len, all)?;
        let file = if rewritten {
            self.find(id, Mode::Append)?.2
        } else {
            file
        };
        if rewritten {
            self.shared.notify(|observer| observer.rewritten(id));
        }
        let mut log = FileLog::unindexed(self.shared.clone(), id, dir, file, index);
        if repaired.is_some() || !trust_index {
            log.is_repaired();
        }
        if rewound {
            log.find_hidden()?;
            drop(alone);
            // A process ended before it came to that.
            if let Err(error) = log.compact() {
                tracing::warn!(session = id, %error, "cannot compact the log after a rewind; the hidden events stay in its file for now");
            }
        }
        Ok(Opened {
            log: Box::new(log),
            repaired,
            snapshot: None,
        })
    }
}

impl Store for FileStore {
    fn create(&self, id: &str) -> Result<Box<dyn SessionLog>, LogError> {
        self.writable()?;
        let dir = self.resolve(id)?;
        let path = dir.join(LOG_FILE);
        let disk = &*self.shared.disk;
        self.shared.syncer.wait_for_pending(&path);
        retry(|| disk.create_dir(&dir)).map_err(LogError::io("make", &dir))?;
        if needs_id_file(id) || !dir.ends_with(id) {
            let id_file = dir.join(ID_FILE);
            put(disk, &id_file, id.as_bytes(), false).map_err(LogError::io("write", &id_file))?;
        }
        let file = match self.shared.files.open(&path, Mode::CreateNew) {
            Ok(file) => self.shared.files.adopt(&path, file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(LogError::Exists { id: id.to_owned() });
            }
            Err(error) => return Err(LogError::io("make", &path)(error)),
        };
        let mut log = FileLog::unindexed(self.shared.clone(), id, dir, file, Index::default());
        log.is_new();
        Ok(Box::new(log))
    }

    fn open(&self, id: &str) -> Result<Opened, LogError> {
        self.open_with(id, true)
    }

    fn read(&self, id: &str, from: Position, to: Position) -> Result<EventReader, LogError> {
        let (dir, path, file) = self.find(id, Mode::Read)?;
        let (hidden, _) = self.hidden(&dir, &path, &file)?;
        let events = Forwards::new(file, path, from.0, to.0, self.shared.longest_line());
        Ok(EventReader::new(hidden.filter(events)))
    }

    fn read_back(&self, id: &str) -> Result<EventReader, LogError> {
        let (dir, path, file) = self.find(id, Mode::Read)?;
        let (hidden, end) = self.hidden(&dir, &path, &file)?;
        let events = Backwards::new(file, path, end, self.shared.longest_line());
        Ok(EventReader::new(hidden.filter(events)))
    }

    fn exists(&self, id: &str) -> Result<bool, LogError> {
        let path = self.resolve(id)?.join(LOG_FILE);
        retry(|| self.shared.disk.exists(&path)).map_err(LogError::io("look for", &path))
    }

    fn list(&self) -> Result<Vec<Entry>, LogError> {
        let dirs = match retry(|| self.shared.disk.dirs(&self.root)) {
            Err(error) if missing(&error) => return Ok(Vec::new()),
            dirs => dirs.map_err(LogError::io("list", &self.root))?,
        };
        let mut entries = Vec::with_capacity(dirs.len());
        for dir in dirs {
            let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Not through the file layer: opening each log only to look at it would be much slower.
            let Ok(meta) = std::fs::metadata(dir.join(LOG_FILE)) else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let modified = meta
                .modified()
                .ok()
                .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            let owner = if needs_id_file(&name) { self.owner(&dir)? } else { None };
            entries.push(Entry {
                id: owner.unwrap_or(name),
                end: Position(meta.len()),
                modified: modified.map_or(0, |t| t.as_millis() as i64),
                dir,
            });
        }
        Ok(entries)
    }

    fn delete(&self, id: &str) -> Result<(), LogError> {
        self.writable()?;
        let dir = self.resolve(id)?;
        self.shared.syncer.wait_for_pending(&dir.join(LOG_FILE));
        let disk = &*self.shared.disk;
        // Out of sight first, in one step: a session is there or it is not, never half of it.
        let trash = self.root.join(format!("{TRASH}{}", Uuid::new_v4().simple()));
        match retry(|| disk.rename(&dir, &trash)) {
            Err(error) if missing(&error) => return Err(LogError::NotFound { id: id.to_owned() }),
            done => done.map_err(LogError::io("delete", &dir))?,
        }
        // What cannot be removed now is removed at the next start.
        let _ = disk.remove_dir(&trash);
        self.shared.notify(|observer| observer.deleted(id));
        Ok(())
    }

    fn dir(&self, id: &str) -> Result<PathBuf, LogError> {
        let dir = self.resolve(id)?;
        if self.read_only.is_none() {
            retry(|| self.shared.disk.create_dir(&dir)).map_err(LogError::io("make", &dir))?;
        }
        Ok(dir)
    }
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStore")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

pub(crate) fn missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
