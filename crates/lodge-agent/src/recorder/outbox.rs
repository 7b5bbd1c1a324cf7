//! The outbox of a session whose log is also stored elsewhere. Events wait here until they are safe there. Only then are they
//! written to the file and published, in the order in which they were recorded.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
};

use lodge_events::{Event, SessionError};
use lodge_log::LogError;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{Inner, Publish, shown};

/// Limit for waiting events: if nothing can be sent, a session continues until then.
const MOST_BYTES: usize = 16 << 20;
/// Limit for one run. A longer event is sent alone.
const MOST_AT_ONCE: usize = 256 << 10;

/// A log elsewhere, which must have a session's events before anybody sees them.
pub trait RemoteLog: Send {
    /// Stores events, all or none. It is not called again after an error, because nobody knows where that log ends.
    fn append<'a>(&'a mut self, events: &'a [Event]) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

    /// Looks whether the log is still this host's, after a time in which another host could take it. It is not called again after an error.
    fn verify(&mut self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
}

/// A log elsewhere, and whether this host may still act for its session.
pub struct Remote {
    /// The log.
    pub log: Box<dyn RemoteLog>,
    /// Checked right before anything that must not be done twice: the number of the term for which this host may act, if it may. When that is
    /// another one, the log is verified first.
    pub term: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The term that began before this host took the log.
    pub taken_in: u64,
}

/// Progress of the log elsewhere.
#[derive(Clone, Default)]
struct Progress {
    committed: u64,
    /// In this term, the log was seen to be this host's.
    verified: u64,
    failed: Option<Arc<str>>,
}

pub(super) struct Outbox {
    waiting: VecDeque<Event>,
    bytes: usize,
    /// Number of events put here so far.
    recorded: u64,
    progress: watch::Sender<Progress>,
    wake: Arc<Notify>,
    term: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The newest term for which somebody waits until the log is verified.
    to_verify: u64,
}

impl Outbox {
    pub(super) fn is_lost(&self) -> bool {
        self.progress.borrow().failed.is_some()
    }

    /// Whether everything that was put here is safe.
    pub(super) fn has_sent_all(&self) -> bool {
        let progress = self.progress.borrow();
        progress.failed.is_none() && progress.committed >= self.recorded
    }

    /// Checks whether an event can be added.
    pub(super) fn check(&self) -> Result<(), LogError> {
        if let Some(reason) = &self.progress.borrow().failed {
            return Err(lost(reason));
        }
        if self.bytes > MOST_BYTES {
            return Err(lost("too much data awaits acknowledgement"));
        }
        Ok(())
    }

    /// Adds an event that nobody may see yet. Returns it if nothing before it has to be safe first. While too much waits, events that no log
    /// keeps are dropped.
    pub(super) fn hold(&mut self, event: Event) -> Option<Event> {
        let is_logged = !event.is_ephemeral();
        if !is_logged && self.waiting.is_empty() {
            return Some(event);
        }
        if !is_logged && self.bytes > MOST_BYTES {
            return None;
        }
        self.bytes += event.json().len();
        self.recorded += u64::from(is_logged);
        self.waiting.push_back(event);
        self.wake.notify_one();
        None
    }

    /// Events that are not in the log's file yet.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = &Event> {
        self.waiting.iter().filter(|event| !event.is_ephemeral())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next run of events.
    fn run(&self) -> Vec<Event> {
        let mut bytes = 0;
        let mut run = Vec::new();
        for event in self.unwritten() {
            bytes += event.json().len();
            if bytes > MOST_AT_ONCE && !run.is_empty() {
                break;
            }
            run.push(event.clone());
        }
        run
    }

    /// Releases this many events of the log, and all others up to the next one that has to wait.
    fn release(&mut self, mut logged: usize) -> Vec<Event> {
        let mut released = Vec::new();
        while let Some(event) = self.waiting.front() {
            if !event.is_ephemeral() {
                if logged == 0 {
                    break;
                }
                logged -= 1;
            }
            self.bytes -= event.json().len();
            released.extend(self.waiting.pop_front());
        }
        released
    }

    /// Has the log verified for a term.
    fn verify(&mut self, term: u64) {
        self.to_verify = self.to_verify.max(term);
        self.wake.notify_one();
    }

    fn unverified(&self) -> Option<u64> {
        (self.to_verify > self.progress.borrow().verified).then_some(self.to_verify)
    }

    fn fail(&mut self, reason: &str) {
        self.waiting.clear();
        self.bytes = 0;
        self.progress
            .send_modify(|progress| progress.failed = Some(reason.into()));
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // The task that empties it has nothing left to wait for.
        self.wake.notify_one();
    }
}

fn lost(reason: &str) -> LogError {
    LogError::Uncommitted { reason: reason.into() }
}

/// Waits until everything recorded so far is safe, and checks that this host may act on it.
pub(super) async fn durable(inner: &Mutex<Inner>) -> Result<(), LogError> {
    let (recorded, mut progress, term) = match &inner.lock().outbox {
        None => return Ok(()),
        Some(outbox) => (outbox.recorded, outbox.progress.subscribe(), outbox.term.clone()),
    };
    wait(&mut progress, |now| now.committed >= recorded).await?;
    loop {
        let Some(term) = term() else {
            return Err(lost("this host lost contact with the fleet"));
        };
        if progress.borrow().verified >= term {
            return Ok(());
        }
        if let Some(outbox) = &mut inner.lock().outbox {
            outbox.verify(term);
        }
        wait(&mut progress, |now| now.verified >= term).await?;
    }
}

async fn wait(
    progress: &mut watch::Receiver<Progress>,
    is_reached: impl Fn(&Progress) -> bool,
) -> Result<(), LogError> {
    let reached = progress.wait_for(|now| now.failed.is_some() || is_reached(now));
    match reached.await {
        Ok(now) => now.failed.as_ref().map_or(Ok(()), |reason| Err(lost(reason))),
        Err(_) => Err(lost("the session has ended")),
    }
}

/// Waits until the log elsewhere is lost to this host. False if the recorder is dropped first, or there is no such log.
/// It does not keep the session alive.
pub(super) fn lost_to_us(inner: &Mutex<Inner>) -> impl Future<Output = bool> + Send + use<> {
    let progress = inner.lock().outbox.as_ref().map(|outbox| outbox.progress.subscribe());
    async move {
        match progress {
            None => false,
            Some(mut progress) => progress.wait_for(|now| now.failed.is_some()).await.is_ok(),
        }
    }
}

/// An outbox for a log elsewhere, and the task that empties it. The task ends with the recorder.
pub(super) fn start(
    remote: Remote,
    inner: impl FnOnce(Outbox) -> Arc<Mutex<Inner>>,
    publish: Arc<dyn Publish>,
) -> Arc<Mutex<Inner>> {
    let wake = Arc::new(Notify::new());
    let outbox = Outbox {
        waiting: VecDeque::new(),
        bytes: 0,
        recorded: 0,
        progress: watch::Sender::new(Progress {
            verified: remote.taken_in,
            ..Progress::default()
        }),
        wake: wake.clone(),
        term: remote.term.into(),
        to_verify: 0,
    };
    let inner = inner(outbox);
    let committing = tokio::spawn(commit_all(remote.log, Arc::downgrade(&inner), wake, publish.clone()));
    let recorder = Arc::downgrade(&inner);
    tokio::spawn(async move {
        // Whoever waits for what it was storing would wait for ever.
        if committing.await.is_err()
            && let Some(recorder) = recorder.upgrade()
        {
            lose(&mut recorder.lock(), &*publish, "an internal error stopped its storage");
        }
    });
    inner
}

/// Gives the log elsewhere up for good, and tells who listens.
pub(super) fn lose(inner: &mut Inner, publish: &dyn Publish, reason: &str) {
    let Some(outbox) = inner.outbox.as_mut().filter(|outbox| !outbox.is_lost()) else {
        return;
    };
    let payload = SessionError {
        error_type: "storage".into(),
        message: format!("This host no longer writes to the session: {reason}. Open the session again."),
        ..SessionError::default()
    };
    // Clients hear it before whoever waits for the log does something about it.
    publish.publish(&inner.secrets.hide(Event::new_ephemeral(inner.head, None, payload)));
    outbox.fail(reason);
}

async fn commit_all(
    mut remote: Box<dyn RemoteLog>,
    inner: Weak<Mutex<Inner>>,
    wake: Arc<Notify>,
    publish: Arc<dyn Publish>,
) {
    loop {
        // The recorder stays as long as something waits, even if nobody holds it any more.
        let Some(recorder) = inner.upgrade() else { return };
        let (run, unverified) = match &recorder.lock().outbox {
            Some(outbox) => (outbox.run(), outbox.unverified()),
            None => Default::default(),
        };
        if let Some(term) = unverified {
            let verified = remote.verify().await;
            let mut inner = recorder.lock();
            if let Err(reason) = verified {
                return lose(&mut inner, &*publish, &reason);
            }
            if let Some(outbox) = &inner.outbox {
                outbox.progress.send_modify(|progress| progress.verified = term);
            }
            continue;
        }
        if run.is_empty() {
            drop(recorder);
            wake.notified().await;
            continue;
        }
        let appended = remote.append(&run).await;
        // The disk may be slow, and then only who needs this session waits for it.
        let publish = publish.clone();
        let keeping = tokio::task::spawn_blocking(move || keep(&mut recorder.lock(), appended, &run, &*publish));
        match keeping.await {
            Ok(true) => {}
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Nothing follows, or the program ends.
            Ok(false) | Err(_) => return,
        }
    }
}

/// Writes what is safe elsewhere to the file, and publishes it. False if that was the last of it.
fn keep(inner: &mut Inner, appended: Result<(), String>, run: &[Event], publish: &dyn Publish) -> bool {
    // Events that are safe elsewhere but not in the file are fetched when the session is next opened.
    let written = appended.and_then(|()| inner.log.append_all(run).map(drop).map_err(|error| error.to_string()));
    if let Err(reason) = written {
        lose(inner, publish, &reason);
        return false;
    }
    let Some(outbox) = &mut inner.outbox else { return false };
    for event in outbox.release(run.len()) {
        publish.publish(&shown(event));
    }
    outbox
        .progress
        .send_modify(|progress| progress.committed += run.len() as u64);
    true
}
