//! One session's log in a file, opened for writing.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use lodge_events::Event;
use uuid::Uuid;

use crate::disk::{Disk, DiskFile, Mode, read_full, retry, write_all};
use crate::error::LogError;
use crate::index::{Index, IndexSave, remove_side_file};
use crate::pool::FilePool;
use crate::reader::{Backwards, Forwards};
use crate::rewinds::{Hidden, Stretch, first_hidden};
use crate::store::{EventReader, Position, SessionLog, Snapshot};
use crate::sync::{Job, SyncPolicy, SyncTicket, Syncer, bring_to_disk};

/// The log's name in the session's directory.
pub(crate) const LOG_FILE: &str = "events.jsonl";
/// The side file is renewed when the log has grown by this much: opening never has to read more than that.
const INDEX_EVERY: u64 = 256 * 1024;
/// And when it is closed after it has grown by this much; less is read faster than it is written and synced.
const INDEX_AT_END: u64 = 32 * 1024;

/// Is notified of every change of a log. It must not make the writer wait.
pub(crate) trait Observer: Send + Sync {
    /// An event was appended at a position.
    fn appended(&self, id: &str, at: Position, event: &Event);
    /// The log was rewritten or rewound: what was read from it before may no longer exist.
    fn rewritten(&self, id: &str);
    /// The labels beside the log changed.
    fn relabelled(&self, id: &str);
    /// The session is gone.
    fn deleted(&self, id: &str);
}

/// What all logs of a home share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) observer: Arc<OnceLock<Box<dyn Observer>>>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) files: Arc<FilePool>,
    pub(crate) syncer: Arc<Syncer>,
    pub(crate) policy: SyncPolicy,
    /// Whether other processes may write to the same logs.
    pub(crate) with_others: bool,
    /// The longest event that is accepted.
    pub(crate) max_event: usize,
}

/// Keeps other processes from a log for as long as it lives.
pub(crate) struct Alone(Option<Arc<dyn DiskFile>>);

impl Alone {
    pub(crate) fn with(shared: &Shared, file: &Arc<dyn DiskFile>, path: &Path) -> Result<Alone, LogError> {
        if !shared.with_others {
            return Ok(Alone(None));
        }
        retry(|| file.lock()).map_err(LogError::io("lock", path))?;
        Ok(Alone(Some(file.clone())))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

impl Shared {
    /// Tells the observer, if there is one.
    pub(crate) fn notify(&self, what: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = self.observer.get() {
            what(&**observer);
        }
    }

    /// The longest line that is looked at as a whole: room for an event behind the torn beginning of another.
    pub(crate) fn longest_line(&self) -> usize {
        2 * self.max_event
    }
}

pub(crate) struct FileLog {
    shared: Shared,
    id: String,
    dir: PathBuf,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    index: Index,
    /// What rewinds hide and the file still has.
    hidden: Hidden,
    /// A failed append may have left bytes behind the end; they are cut off before the next one.
    torn: bool,
    /// How far the side file reaches.
    indexed: u64,
    /// The side file must be written at the end in any case.
    must_index: bool,
    /// Whether the snapshot in the side file is one of this log.
    keeps_snapshot: bool,
    /// Directories whose new entries are not known to be on the disk, and the sync that was to bring them there.
    new_dirs: Vec<PathBuf>,
    new_dirs_sync: Option<SyncTicket>,
}

impl FileLog {
    /// A log whose side file reaches up to `indexed`.
    pub(crate) fn indexed(
        shared: Shared,
        id: &str,
        dir: PathBuf,
        file: Arc<dyn DiskFile>,
        index: Index,
        indexed: u64,
    ) -> FileLog {
        let path = dir.join(LOG_FILE);
        let id = id.to_owned();
        let (torn, must_index, keeps_snapshot, new_dirs, new_dirs_sync) = (false, false, true, Vec::new(), None);
        FileLog {
            shared,
            id,
            dir,
            path,
            file,
            index,
            hidden: Hidden::default(),
            torn,
            indexed,
            must_index,
            keeps_snapshot,
            new_dirs,
            new_dirs_sync,
        }
    }

    /// A log without a side file that fits it.
    pub(crate) fn unindexed(shared: Shared, id: &str, dir: PathBuf, file: Arc<dyn DiskFile>, index: Index) -> FileLog {
        let mut log = FileLog::indexed(shared, id, dir, file, index, 0);
        log.keeps_snapshot = false;
        log
    }

    /// Marks the log as repaired: without a side file, damage that stays visible (a gap) would be reported every time.
    pub(crate) fn is_repaired(&mut self) {
        self.must_index = true;
    }

    /// Finds what rewinds hide of the log.
    pub(crate) fn find_hidden(&mut self) -> Result<(), LogError> {
        let (end, longest) = (self.index.len, self.shared.longest_line());
        self.hidden = Hidden::find(&self.file, &self.path, 0, end, longest)?;
        Ok(())
    }

    /// Marks the log as newly made: its directories must reach the disk, too.
    pub(crate) fn is_new(&mut self) {
        self.new_dirs = self.dir.ancestors().take(2).map(Path::to_owned).collect();
    }

    /// From here on the side file, if there is one, speaks of another log.
    fn forget_side_file(&mut self) {
        self.indexed = 0;
        self.keeps_snapshot = false;
    }

    /// Makes sure that the file is there and ends where we think.
    fn find_end(&mut self) -> Result<(), LogError> {
        // With others about, what is behind our end may be theirs by now: opening the log again sorts that out.
        if self.torn && !self.shared.with_others {
            retry(|| self.file.set_len(self.index.len))
                .map_err(LogError::io("cut the incomplete end off", &self.path))?;
            self.torn = false;
        }
        let stat = retry(|| self.file.stat()).map_err(LogError::io("look at", &self.path))?;
        // Also when somebody repaired the log by putting another file in its place.
        let replaced =
            stat.links == 0 && self.shared.with_others && self.shared.disk.exists(&self.path).unwrap_or(false);
        if stat.len != self.index.len || replaced || self.torn {
            return Err(LogError::Moved {
                path: self.path.clone(),
                expected: self.index.len,
                found: stat.len,
            });
        }
        if stat.links == 0 {
            self.restore()
                .map_err(LogError::io("restore the deleted", &self.path))?;
        }
        Ok(())
    }

    /// Somebody deleted the log while the session lives. What was written is still in the open file; a session that goes
    /// on needs its beginning, so it is all put back.
    fn restore(&mut self) -> io::Result<()> {
        let disk = self.shared.disk.clone();
        if retry(|| disk.exists(&self.path))? {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "another file has replaced it",
            ));
        }
        retry(|| disk.create_dir(&self.dir))?;
        self.write_anew(false)?;
        tracing::warn!(path = %self.path.display(), "the log of an open session was deleted; it has been restored");
        Ok(())
    }

    /// After a failed sync: what the system may have dropped is checked against what was appended, and all of it is written
    /// anew. Only a sync of bytes that were written after the failure says anything.
    fn regain_trust(&mut self) -> Result<(), LogError> {
        if !self.shared.syncer.distrusted().has(&self.path) {
            return Ok(());
        }
        let path = self.path.clone();
        let error = LogError::io("sync", &path);
        if let Some(at) = self
            .index
            .changed_block(&*self.file, 0)
            .map_err(LogError::io("read", &self.path))?
        {
            return Err(error(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the disk lost what was written from byte {at} on; reopen the session to repair its log"),
            )));
        }
        self.write_anew(true).map_err(error)?;
        self.shared.syncer.distrusted().remove(&self.path);
        tracing::warn!(path = %self.path.display(), "the log was rewritten after a failed sync");
        Ok(())
    }

    /// Copies the log to a new file that takes its place, brought to the disk first if `durable`.
    fn write_anew(&mut self, durable: bool) -> io::Result<()> {
        let (fresh, file) = self.copy()?;
        if durable {
            retry(|| file.sync())?;
        }
        retry(|| self.shared.disk.rename(&fresh, &self.path))?;
        self.file = self.shared.files.adopt(&self.path, file);
        self.is_new();
        self.forget_side_file();
        if durable {
            retry(|| self.shared.disk.sync_dir(&self.dir))?;
        }
        Ok(())
    }

    /// Copies the log to a new file beside it.
    fn copy(&self) -> io::Result<(PathBuf, Arc<dyn DiskFile>)> {
        let len = self.index.len;
        let fresh = self.dir.join("events.jsonl.new");
        let file = retry(|| self.shared.disk.open(&fresh, Mode::Replace))?;
        let mut buf = vec![0; 64 * 1024];
        let mut at = 0;
        while at < len {
            let want = buf.len().min((len - at) as usize);
            let read = read_full(&*self.file, &mut buf[..want], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            write_all(&*file, &mut [IoSlice::new(&buf[..read])])?;
            at += read as u64;
        }
        Ok((fresh, file))
    }

    /// Puts a file in the log's place that has what is not hidden of it.
    fn leave_out_hidden(&mut self) -> Result<(), LogError> {
        let fresh = self.dir.join("events.jsonl.new");
        let path = self.path.clone();
        let io = |op| LogError::io(op, &path);
        let file = retry(|| self.shared.disk.open(&fresh, Mode::Replace)).map_err(io("compact"))?;
        let (mut index, mut buffer) = (Index::default(), Vec::with_capacity(256 * 1024));
        for event in self.read(Position::START, self.end())?.events() {
            let event = event?;
            index.add(&event);
            buffer.extend_from_slice(event.json());
            buffer.push(b'\n');
            if buffer.len() >= 128 * 1024 {
                write_all(&*file, &mut [IoSlice::new(&buffer)]).map_err(io("compact"))?;
                buffer.clear();
            }
        }
        write_all(&*file, &mut [IoSlice::new(&buffer)]).map_err(io("compact"))?;
        if self.shared.policy != SyncPolicy::Never {
            // A file that takes the log's place before its bytes are safe could leave nothing at all after a power cut.
            retry(|| file.sync()).map_err(io("compact"))?;
        }
        // What is still on its way to the side file speaks of this log.
        self.shared.syncer.wait_for_pending(&self.path);
        remove_side_file(&*self.shared.disk, &self.dir).map_err(io("compact"))?;
        retry(|| self.shared.disk.rename(&fresh, &self.path)).map_err(io("compact"))?;
        self.file = self.shared.files.adopt(&self.path, file);
        (self.index, self.hidden) = (index, Hidden::default());
        self.is_new();
        self.forget_side_file();
        self.shared.notify(|observer| observer.rewritten(&self.id));
        Ok(())
    }

    /// What would be hidden if these events were appended now.
    fn hides(&self, events: &[Event]) -> Result<Option<Stretch>, LogError> {
        let refused = |why: &str| {
            let error = io::Error::new(io::ErrorKind::InvalidInput, why);
            Err(LogError::io("rewind", &self.path)(error))
        };
        let Some((rewind, rest)) = events.split_first() else {
            return Ok(None);
        };
        if rest.iter().any(|event| first_hidden(event).is_some()) {
            return refused("a rewind must be the first event of its batch");
        }
        if first_hidden(rewind).is_none() {
            return Ok(None);
        }
        let (end, longest) = (self.index.len, self.shared.longest_line());
        match Stretch::hidden_by(rewind, end, &self.file, &self.path, longest)? {
            None => refused("the event to rewind to is not in the log"),
            found => Ok(found),
        }
    }

    fn check(&self, events: &[Event]) -> Result<(), LogError> {
        for event in events {
            let json = event.json();
            if event.is_ephemeral() {
                return Err(LogError::Ephemeral {
                    kind: event.kind().to_owned(),
                });
            }
            if json.len() > self.shared.max_event {
                return Err(LogError::TooLarge {
                    len: json.len(),
                    max: self.shared.max_event,
                });
            }
            if memchr::memchr2(b'\n', 0, json).is_some() {
                return Err(LogError::NotOneLine);
            }
        }
        Ok(())
    }

    fn write(&mut self, events: &[Event]) -> Result<(), LogError> {
        let mut done = write_all(&*self.file, &mut as_lines(events)).map_err(LogError::io("append to", &self.path));
        if done.is_ok() && self.shared.policy == SyncPolicy::Always {
            let synced = bring_to_disk(&*self.file, &self.new_dirs, &*self.shared.disk);
            if synced.is_err() {
                self.shared.syncer.distrusted().add(&self.path);
            }
            done = synced.map_err(LogError::io("sync", &self.path));
        }
        if done.is_err() {
            // Nobody was told of these events, so they must not be there; if the disk refuses, next time.
            self.torn = retry(|| self.file.set_len(self.index.len)).is_err();
        } else if self.shared.policy == SyncPolicy::Always {
            self.new_dirs.clear();
        }
        done
    }

    /// A job for the sync thread, and whether there is anything to do.
    fn job(&mut self, snapshot: Option<Snapshot>, force_index: bool) -> Option<Job> {
        let sync = self.shared.policy != SyncPolicy::Never;
        let wants_index = force_index || snapshot.is_some() || self.index.len - self.indexed >= INDEX_EVERY;
        let stat = if wants_index {
            retry(|| self.file.stat()).ok()
        } else {
            None
        };
        // Not for a log that is not ours any more, and not for one with something hidden: who has a side file does not
        // look for rewinds in what it vouches for.
        let stat =
            stat.filter(|stat| stat.len == self.index.len && stat.links > 0 && !self.torn && self.hidden.is_empty());
        let index = stat.map(|stat| {
            (self.indexed, self.must_index) = (self.index.len, false);
            let (dir, index) = (self.dir.clone(), self.index.clone());
            let keep_snapshot = std::mem::replace(&mut self.keeps_snapshot, true);
            IndexSave {
                dir,
                index,
                modified: stat.modified,
                snapshot,
                keep_snapshot,
            }
        });
        if self.new_dirs_sync.as_ref().is_some_and(SyncTicket::succeeded) {
            self.new_dirs.clear();
            self.new_dirs_sync = None;
        }
        let needed = index.is_some() || self.shared.policy == SyncPolicy::Turn;
        let (path, file, dirs) = (self.path.clone(), self.file.clone(), self.new_dirs.clone());
        needed.then_some(Job {
            path,
            file,
            dirs,
            sync,
            index,
        })
    }

    fn submit(&mut self, job: Job) -> SyncTicket {
        let with_dirs = !job.dirs.is_empty() && job.sync;
        let ticket = self.shared.syncer.request(job);
        if with_dirs {
            self.new_dirs_sync = Some(ticket.clone());
        }
        ticket
    }
}

fn as_lines(events: &[Event]) -> Vec<IoSlice<'_>> {
    let lines = events
        .iter()
        .map(|event| [IoSlice::new(event.json()), IoSlice::new(b"\n")]);
    lines.flatten().collect()
}

impl SessionLog for FileLog {
    fn id(&self) -> &str {
        &self.id
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn append_all(&mut self, events: &[Event]) -> Result<Position, LogError> {
        self.check(events)?;
        let alone = Alone::with(&self.shared, &self.file, &self.path)?;
        self.find_end()?;
        self.regain_trust()?;
        let at = self.end();
        let hides = self.hides(events)?;
        self.write(events)?;
        drop(alone);
        for event in events {
            let at = self.end();
            self.index.add(event);
            if hides.is_none() {
                self.shared.notify(|observer| observer.appended(&self.id, at, event));
            }
        }
        if let Some(stretch) = hides {
            self.hidden.add(stretch);
            self.shared.notify(|observer| observer.rewritten(&self.id));
        }
        Ok(at)
    }

    fn end(&self) -> Position {
        Position(self.index.len)
    }

    fn count(&self) -> u64 {
        if self.hidden.is_empty() {
            return self.index.events;
        }
        let events = self.read(Position::START, self.end());
        events.map_or(0, |events| events.count() as u64)
    }

    fn last_id(&self) -> Option<Uuid> {
        self.index.last_id
    }

    fn seek(&self, nth: u64) -> Result<Position, LogError> {
        if nth >= self.index.events {
            return Ok(self.end());
        }
        let (at, first) = match self.hidden.is_empty() {
            true => self.index.near(nth),
            false => (0, 0),
        };
        match self.read(Position(at), self.end())?.nth((nth - first) as usize) {
            Some(recorded) => recorded.map(|recorded| recorded.position),
            None => Ok(self.end()),
        }
    }

    fn read(&self, from: Position, to: Position) -> Result<EventReader, LogError> {
        let (file, path, to) = (self.file.clone(), self.path.clone(), to.min(self.end()));
        let events = Forwards::new(file, path, from.0, to.0, self.shared.longest_line());
        Ok(EventReader::new(self.hidden.clone().filter(events)))
    }

    fn read_back(&self) -> Result<EventReader, LogError> {
        let (file, path) = (self.file.clone(), self.path.clone());
        let events = Backwards::new(file, path, self.index.len, self.shared.longest_line());
        Ok(EventReader::new(self.hidden.clone().filter(events)))
    }

    fn request_sync(&mut self) -> SyncTicket {
        if let Err(error) = self.regain_trust() {
            return SyncTicket::failed(&error);
        }
        match self.job(None, false) {
            Some(job) => self.submit(job),
            None => SyncTicket::done(),
        }
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.regain_trust()?;
        bring_to_disk(&*self.file, &self.new_dirs, &*self.shared.disk).map_err(|error| {
            self.shared.syncer.distrusted().add(&self.path);
            LogError::io("sync", &self.path)(error)
        })?;
        self.new_dirs.clear();
        Ok(())
    }

    fn save_snapshot(&mut self, snapshot: Snapshot) {
        if let Some(job) = self.job(Some(snapshot), true) {
            self.submit(job);
        }
    }

    fn compact(&mut self) -> Result<bool, LogError> {
        if self.hidden.is_empty() {
            return Ok(false);
        }
        let _alone = Alone::with(&self.shared, &self.file, &self.path)?;
        self.find_end()?;
        self.regain_trust()?;
        self.leave_out_hidden()?;
        Ok(true)
    }
}

impl Drop for FileLog {
    /// Leaves a side file that is good enough, so that the session comes back fast.
    fn drop(&mut self) {
        if (self.must_index || self.index.len - self.indexed >= INDEX_AT_END)
            && let Some(job) = self.job(None, true)
        {
            self.submit(job);
        }
    }
}

impl std::fmt::Debug for FileLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FileLog { path, index, .. } = self;
        f.debug_struct("FileLog")
            .field("path", path)
            .field("end", &index.len)
            .finish_non_exhaustive()
    }
}
