//! The list of sessions and the search index: a SQLite file that is derived from the logs and rebuilt when it is missing
//! or damaged.
//!
//! Appends are noted in memory and written by a thread of its own, so that no session ever waits for SQLite. Each row
//! knows how many bytes of its log it reflects, so whatever was missed (a crash, another program, a queue that was full)
//! is read from there. Whoever asks gets an answer that includes everything appended before.

mod about;
mod db;
mod digest;
mod listed;
mod progress;
mod query;
mod queue;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::Connection;

pub use about::About;
pub use listed::Listed;
pub use progress::Progress;
pub use query::{ListFilter, Page, SearchHit, SessionSummary};

use crate::error::LogError;
use crate::file_store::FileStore;
use db::Opened;
use queue::{Noter, Queue, Task};

/// The list of sessions of a home, and the search in their messages. Its calls block: for the disk, and for what was
/// appended to be taken in.
pub struct Catalogue {
    store: Arc<FileStore>,
    /// Where the database is; absent for one in memory.
    path: Option<PathBuf>,
    /// The connection for questions; opened when the first is asked.
    reader: Mutex<Option<Opened>>,
    queue: Arc<Queue>,
    worker: Option<JoinHandle<()>>,
}

impl Catalogue {
    /// Starts the thread that brings the catalogue up to date and keeps it there: from now on, or else from the first event
    /// or question on, for programs that are started for one thing and may never need it.
    pub(crate) fn open(path: PathBuf, store: Arc<FileStore>, now: bool) -> Catalogue {
        let queue = Arc::new(Queue::default());
        if now {
            queue.push(Task::Check);
        }
        let task = (queue.clone(), path.clone(), store.clone());
        let worker = std::thread::Builder::new()
            .name("lodge-catalogue".into())
            .spawn(move || worker::run(&task.0, &task.1, &task.2))
            .inspect_err(|error| tracing::error!(%error, "cannot start the catalogue's thread"))
            .ok();
        if worker.is_none() {
            queue.close();
        }
        store.observe(Box::new(Noter(queue.clone())));
        Catalogue {
            store,
            path: Some(path),
            reader: Mutex::new(None),
            queue,
            worker,
        }
    }

    /// Opens the database beside the host that keeps it. That host writes a little later than it appends, or was killed in
    /// between: what the database does not reflect is read from the logs into a copy in memory.
    pub(crate) fn open_read_only(path: &Path, store: Arc<FileStore>) -> Result<Catalogue, LogError> {
        let found = db::open_read_only(path).map_err(LogError::from);
        let connection = match found.and_then(|found| up_to_date(found, &store)) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::debug!(%error, "no session catalogue; reading the logs instead");
                from_logs(&store)?
            }
        };
        let queue = Arc::new(Queue::default());
        queue.close();
        Ok(Catalogue {
            store,
            path: None,
            reader: Mutex::new(Some(connection)),
            queue,
            worker: None,
        })
    }

    /// Sessions that fit the filter, newest first.
    pub fn list(&self, filter: &ListFilter) -> Result<Page, LogError> {
        self.query(|db| query::list(db, &self.store.root, filter))
    }

    /// One session, also if the user has not said anything in it yet.
    pub fn get(&self, id: &str) -> Result<Option<SessionSummary>, LogError> {
        self.query(|db| query::get(db, &self.store.root, id))
    }

    /// The sessions that are or were chats of others; or those that are chats of this one. Oldest first.
    pub fn chats(&self, of: Option<&str>) -> Result<Vec<SessionSummary>, LogError> {
        self.query(|db| query::chats(db, &self.store.root, of))
    }

    /// The session that fits the filter and was used last.
    pub fn last(&self, filter: ListFilter) -> Result<Option<SessionSummary>, LogError> {
        let page = self.list(&ListFilter {
            limit: Some(1),
            after: None,
            ..filter
        })?;
        Ok(page.sessions.into_iter().next())
    }

    /// Messages with all these words, best first.
    pub fn search(&self, text: &str, limit: usize) -> Result<Vec<SearchHit>, LogError> {
        self.query(|db| query::search(db, &self.store.root, text, limit))
    }

    /// Describes a session for other hosts.
    pub fn describe(&self, id: &str) -> Result<Option<Listed>, LogError> {
        self.query(|db| listed::describe(db, id))
    }

    /// Lists a session as another host describes it, unless the log here has as many events.
    pub fn take_in(&self, listed: Listed) {
        self.queue.push(Task::TakeIn(Box::new(listed)));
    }

    /// Lists a session no longer that another host described.
    pub fn forget(&self, id: &str) {
        self.queue.push(Task::Forget(id.into()));
    }

    /// How often the database was reopened. Descriptions from other hosts are not in a new one.
    pub fn openings(&self) -> u64 {
        self.queue.openings()
    }

    /// Waits until everything appended before is in the database.
    pub fn flush(&self) {
        self.queue.flush();
    }

    fn query<T>(&self, question: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, LogError> {
        // Whatever comes first has it compared with all logs.
        if self.queue.is_unused() {
            self.queue.push(Task::Check);
        }
        // What could not be written before, perhaps it can be now.
        let is_current = self.queue.flush() || self.check();
        let Some(path) = &self.path else {
            return match &*self.reader.lock() {
                Some(reader) => Ok(question(&reader.db)?),
                None => Err(LogError::Catalogue(rusqlite::Error::InvalidQuery)),
            };
        };
        if is_current {
            match self.ask_database(path, &question) {
                Ok(answer) => return Ok(answer),
                Err(error) => tracing::warn!(%error, "the session catalogue cannot be read"),
            }
        }
        // No database can be kept, perhaps for want of space: the logs are still there.
        tracing::warn!("cannot use the session catalogue; reading the logs instead");
        Ok(question(&from_logs(&self.store)?.db)?)
    }

    fn ask_database<T>(
        &self,
        path: &Path,
        question: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut reader = self.reader.lock();
        let ask = |reader: &mut Option<Opened>| match reader {
            Some(reader) => question(&reader.db),
            None => db::open_read_only(path).and_then(|opened| question(&reader.insert(opened).db)),
        };
        reader.take_if(|reader| !reader.is_at(path));
        if !path.try_exists().unwrap_or(true) {
            self.check();
        }
        ask(&mut reader).or_else(|_| {
            // The worker makes a damaged database anew.
            *reader = None;
            self.check();
            ask(&mut reader)
        })
    }

    /// Has the database looked at and compared with the logs. Whether it has all that they have.
    fn check(&self) -> bool {
        self.queue.push(Task::Check);
        self.queue.flush()
    }
}

/// A database that reflects all that is in the logs: this one, or a copy in memory.
fn up_to_date(found: Opened, store: &FileStore) -> Result<Opened, LogError> {
    if worker::is_current(&found.db, store)? {
        return Ok(found);
    }
    let copy = db::copy_in_memory(&found.db)?;
    worker::catch_up_all(&copy.db, store, worker::Others::Keep, &|| false)?;
    Ok(copy)
}

/// A database in memory with what the logs say now.
fn from_logs(store: &FileStore) -> Result<Opened, LogError> {
    let opened = db::in_memory()?;
    worker::catch_up_all(&opened.db, store, worker::Others::Forget, &|| false)?;
    Ok(opened)
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        // The worker's connection must be the last: only one that writes tidies up after itself.
        *self.reader.lock() = None;
        self.queue.close();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalogue")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
