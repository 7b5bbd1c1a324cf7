//! Bringing logs to the disk: the policy, and the one thread that does it for all sessions.
//!
//! # What each policy may lose
//!
//! No policy loses anything when the program dies (`kill -9`, a panic): an event is in the system's hands before anybody
//! sees it. The policies differ when the machine dies (power, kernel):
//!
//! | policy | may lose |
//! |---|---|
//! | `always` | nothing that was appended: `append` returns after `fdatasync` |
//! | `turn` | what was appended since the last sync that completed. The host asks for one when it accepts a user message and when a turn ends, and does not wait for it: at most the running turn and the few milliseconds a disk takes |
//! | `never` | whatever the system had not written back by itself (with Linux's defaults the last 30 seconds or so) |

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::disk::{Disk, DiskFile, retry};
use crate::error::LogError;
use crate::index::IndexSave;

/// When appended events are brought to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncPolicy {
    /// When a user message is accepted and when a turn ends, in the background.
    #[default]
    Turn,
    /// Before every append returns.
    Always,
    /// When the system likes to.
    Never,
}

impl FromStr for SyncPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "turn" => Ok(SyncPolicy::Turn),
            "always" => Ok(SyncPolicy::Always),
            "never" => Ok(SyncPolicy::Never),
            other => Err(format!("{other:?} is not a sync policy; use turn, always or never")),
        }
    }
}

impl fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SyncPolicy::Turn => "turn",
            SyncPolicy::Always => "always",
            SyncPolicy::Never => "never",
        })
    }
}

/// A sync that was asked for. Wait for it with [`SyncTicket::wait`] or `.await` it; dropping it is fine, the sync happens.
#[derive(Debug, Clone)]
pub struct SyncTicket(Arc<Ticket>);

#[derive(Debug)]
struct Ticket {
    path: PathBuf,
    state: Mutex<TicketState>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct TicketState {
    outcome: Option<Result<(), Failure>>,
    wakers: Vec<Waker>,
}

/// What is needed to make the same `io::Error` again for each who waits.
#[derive(Debug, Clone)]
struct Failure {
    code: Option<i32>,
    kind: io::ErrorKind,
    text: String,
}

impl SyncTicket {
    fn new(path: PathBuf) -> SyncTicket {
        SyncTicket(Arc::new(Ticket {
            path,
            state: Mutex::default(),
            done: Condvar::new(),
        }))
    }

    /// A ticket for something that needs no sync.
    pub fn done() -> SyncTicket {
        let ticket = SyncTicket::new(PathBuf::new());
        ticket.complete(&Ok(()));
        ticket
    }

    /// A ticket for something that cannot be synced.
    pub(crate) fn failed(error: &LogError) -> SyncTicket {
        let (path, source) = match error {
            LogError::Io { path, source, .. } => (path.clone(), io::Error::new(source.kind(), source.to_string())),
            other => (PathBuf::new(), io::Error::other(other.to_string())),
        };
        let ticket = SyncTicket::new(path);
        ticket.complete(&Err(source));
        ticket
    }

    /// Blocks until the sync is done.
    pub fn wait(self) -> Result<(), LogError> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return self.report(outcome);
            }
            self.0.done.wait(&mut state);
        }
    }

    /// Whether the sync is done, well or badly.
    pub fn is_done(&self) -> bool {
        self.0.state.lock().outcome.is_some()
    }

    /// Whether the sync is done and went well.
    pub(crate) fn succeeded(&self) -> bool {
        matches!(self.0.state.lock().outcome, Some(Ok(())))
    }

    fn complete(&self, outcome: &io::Result<()>) {
        let outcome = outcome.as_ref().copied().map_err(|e| Failure {
            code: e.raw_os_error(),
            kind: e.kind(),
            text: e.to_string(),
        });
        let mut state = self.0.state.lock();
        state.outcome = Some(outcome);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.0.done.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn report(&self, outcome: &Result<(), Failure>) -> Result<(), LogError> {
        outcome.clone().map_err(|failure| LogError::Io {
            op: "sync",
            path: self.0.path.clone(),
            source: match failure.code {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(failure.kind, failure.text),
            },
        })
    }
}

impl Future for SyncTicket {
    type Output = Result<(), LogError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        match &state.outcome {
            Some(outcome) => Poll::Ready(self.report(outcome)),
            None => {
                if !state.wakers.iter().any(|w| w.will_wake(cx.waker())) {
                    state.wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

/// One log waiting for the sync thread.
pub(crate) struct Job {
    /// The log; also what jobs are coalesced by.
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Directories with new entries.
    pub(crate) dirs: Vec<PathBuf>,
    /// False under the policy `never`, where only the index is written.
    pub(crate) sync: bool,
    /// The side file, written once the bytes that it speaks of are on the disk.
    pub(crate) index: Option<IndexSave>,
}

impl Job {
    /// One job that does what both ask; `self` is the later one.
    fn join(mut self, earlier: Job) -> Job {
        self.dirs.extend(earlier.dirs);
        self.sync |= earlier.sync;
        self.index = match (self.index, earlier.index) {
            (Some(mut late), Some(early)) => {
                if late.keep_snapshot && late.snapshot.is_none() {
                    (late.snapshot, late.keep_snapshot) = (early.snapshot, early.keep_snapshot);
                }
                Some(late)
            }
            (late, early) => late.or(early),
        };
        self
    }
}

#[derive(Default)]
struct Queue {
    waiting: HashMap<PathBuf, (Job, SyncTicket)>,
    running: HashMap<PathBuf, SyncTicket>,
    stop: bool,
}

/// The sync thread: takes all that was asked for since it last looked, and syncs each file once.
pub(crate) struct Syncer {
    shared: Arc<(Mutex<Queue>, Condvar)>,
    disk: Arc<dyn Disk>,
    thread: Mutex<Option<JoinHandle<()>>>,
    distrusted: Arc<Distrusted>,
}

/// Logs of which a sync failed. The system may have dropped what it could not write and call the file clean: no later sync
/// of it says anything. Such a log takes nothing more until it was read back, checked and written anew.
#[derive(Default)]
pub(crate) struct Distrusted {
    /// Whether there are any, to be asked at every append.
    any: AtomicBool,
    paths: Mutex<HashSet<PathBuf>>,
}

impl Distrusted {
    pub(crate) fn add(&self, path: &Path) {
        self.paths.lock().insert(path.to_owned());
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        self.any.load(Ordering::Acquire) && self.paths.lock().contains(path)
    }

    pub(crate) fn remove(&self, path: &Path) {
        let mut paths = self.paths.lock();
        paths.remove(path);
        self.any.store(!paths.is_empty(), Ordering::Release);
    }
}

impl Syncer {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Syncer {
        Syncer {
            shared: Arc::default(),
            disk,
            thread: Mutex::new(None),
            distrusted: Arc::default(),
        }
    }

    pub(crate) fn distrusted(&self) -> &Distrusted {
        &self.distrusted
    }

    /// Hands a log to the thread. A request for a log that is still waiting joins the one that waits.
    pub(crate) fn request(&self, job: Job) -> SyncTicket {
        let (queue, wake) = &*self.shared;
        let mut queue = queue.lock();
        let path = job.path.clone();
        let (job, ticket) = match queue.waiting.remove(&path) {
            Some((earlier, ticket)) => (job.join(earlier), ticket),
            None => (job, SyncTicket::new(path.clone())),
        };
        queue.waiting.insert(path, (job, ticket.clone()));
        drop(queue);
        self.start();
        wake.notify_one();
        ticket
    }

    /// Waits until nothing is under way for this log.
    pub(crate) fn wait_for_pending(&self, path: &Path) {
        loop {
            let queue = self.shared.0.lock();
            let ticket = queue
                .waiting
                .get(path)
                .map(|(_, ticket)| ticket)
                .or(queue.running.get(path))
                .cloned();
            drop(queue);
            match ticket {
                // Its outcome was told to who asked for it.
                Some(ticket) => drop(ticket.wait()),
                None => return,
            }
        }
    }

    /// The thread is started when first needed: programs that only read have none.
    fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (shared, disk, distrusted) = (self.shared.clone(), self.disk.clone(), self.distrusted.clone());
            let builder = std::thread::Builder::new().name("lodge-sync".into());
            match builder.spawn(move || run(&shared, &*disk, &distrusted)) {
                Ok(handle) => *thread = Some(handle),
                Err(error) => {
                    tracing::error!(%error, "cannot start the sync thread; syncing in place");
                    perform_waiting(&self.shared.0, &*self.disk, &self.distrusted);
                }
            }
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.0.lock().stop = true;
        self.shared.1.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &(Mutex<Queue>, Condvar), disk: &dyn Disk, distrusted: &Distrusted) {
    let (queue, wake) = shared;
    loop {
        let mut guard = queue.lock();
        while guard.waiting.is_empty() {
            if guard.stop {
                return;
            }
            wake.wait(&mut guard);
        }
        drop(guard);
        perform_waiting(queue, disk, distrusted);
    }
}

fn perform_waiting(queue: &Mutex<Queue>, disk: &dyn Disk, distrusted: &Distrusted) {
    let mut guard = queue.lock();
    let batch = std::mem::take(&mut guard.waiting);
    guard.running = batch
        .iter()
        .map(|(path, (_, ticket))| (path.clone(), ticket.clone()))
        .collect();
    drop(guard);
    for (path, (job, ticket)) in batch {
        let outcome = if job.sync {
            bring_to_disk(&*job.file, &job.dirs, disk)
        } else {
            Ok(())
        };
        match (&outcome, job.index) {
            (Ok(()), Some(index)) => index.save(disk),
            (Ok(()), None) => {}
            (Err(error), _) => {
                distrusted.add(&path);
                tracing::error!(path = %path.display(), %error, "cannot sync the log");
            }
        }
        queue.lock().running.remove(&path);
        ticket.complete(&outcome);
    }
}

/// Syncs a log and the directories that have new entries for it.
pub(crate) fn bring_to_disk(file: &dyn DiskFile, dirs: &[PathBuf], disk: &dyn Disk) -> io::Result<()> {
    retry(|| file.sync())?;
    for dir in dirs {
        match retry(|| disk.sync_dir(dir)) {
            // Somebody deleted it; the next append brings it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}
