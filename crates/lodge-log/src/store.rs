//! What a store of session logs can do. It is small, because a fleet has a second implementation.

use std::fmt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use lodge_events::Event;
use uuid::Uuid;

use crate::damage::Repair;
use crate::error::LogError;
use crate::sync::SyncTicket;

/// A place in one session's log. For files it is the byte at which an event begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The beginning of every log.
    pub const START: Position = Position(0);
    /// Beyond the end of every log: "read to the end".
    pub const END: Position = Position(u64::MAX);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An event and where it is.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Where the event begins; reading from here gives it again.
    pub position: Position,
    /// The event.
    pub event: Event,
}

/// Events read one by one from a log; memory stays bounded by the longest event.
///
/// Damaged bytes are passed over, so a reader gives every whole event also of a log that nobody has repaired yet.
pub struct EventReader(Box<dyn Iterator<Item = Result<Recorded, LogError>> + Send>);

impl EventReader {
    /// Wraps a store's own iterator.
    pub fn new(events: impl Iterator<Item = Result<Recorded, LogError>> + Send + 'static) -> EventReader {
        EventReader(Box::new(events))
    }

    /// Only the events, without their positions.
    pub fn events(self) -> impl Iterator<Item = Result<Event, LogError>> + Send {
        self.0.map(|recorded| recorded.map(|r| r.event))
    }
}

impl Iterator for EventReader {
    type Item = Result<Recorded, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl fmt::Debug for EventReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventReader")
    }
}

/// State that the agent derived from the log up to a place, kept beside it so that resuming need not read all.
///
/// It is only handed out while the log up to `at` is provably the one it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The snapshot reflects all events before this position.
    pub at: Position,
    /// Whatever the agent stored; opaque here.
    pub bytes: Bytes,
}

/// A session's log, opened for writing.
#[derive(Debug)]
pub struct Opened {
    /// The log, ready for the next append.
    pub log: Box<dyn SessionLog>,
    /// What was damaged and has been repaired; tell clients.
    pub repaired: Option<Repair>,
    /// What [`SessionLog::save_snapshot`] stored last, if it still fits the log.
    pub snapshot: Option<Snapshot>,
}

/// One session as the store lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The session's id as the client gave it.
    pub id: String,
    /// The session's directory.
    pub dir: PathBuf,
    /// Where its log ends.
    pub end: Position,
    /// When the log was last written, in milliseconds since 1970.
    pub modified: i64,
}

/// All session logs of a home.
pub trait Store: Send + Sync {
    /// Starts an empty log; [`LogError::Exists`] when there is one.
    fn create(&self, id: &str) -> Result<Box<dyn SessionLog>, LogError>;
    /// Opens a log for writing, repairing it if it must be; [`LogError::NotFound`] when there is none.
    fn open(&self, id: &str) -> Result<Opened, LogError>;
    /// Reads a log without opening it for writing, from `from` (included) to `to` (excluded).
    fn read(&self, id: &str, from: Position, to: Position) -> Result<EventReader, LogError>;
    /// Reads a log backwards, newest event first.
    fn read_back(&self, id: &str) -> Result<EventReader, LogError>;
    /// Whether there is a log of this session.
    fn exists(&self, id: &str) -> Result<bool, LogError>;
    /// Every session, in no particular order.
    fn list(&self) -> Result<Vec<Entry>, LogError>;
    /// Removes the session and everything kept with it; [`LogError::NotFound`] when there is none.
    fn delete(&self, id: &str) -> Result<(), LogError>;
    /// Where files that belong to the session are kept.
    fn dir(&self, id: &str) -> Result<PathBuf, LogError>;
}

/// One session's log: events are appended, and never cut. It has one writer, which knows where the log ends; if it ends elsewhere, appending fails with
/// [`LogError::Moved`] and nothing is written.
pub trait SessionLog: Send + fmt::Debug {
    /// The session's id.
    fn id(&self) -> &str;
    /// Where files that belong to the session are kept. It may have been deleted by somebody; see [`Store::dir`].
    fn dir(&self) -> &Path;
    /// Writes one persisted event and returns where it begins. When this returns, the bytes are with the system (and on
    /// the disk, if the policy is `always`); when it fails, the log is as if it had not been called.
    fn append(&mut self, event: &Event) -> Result<Position, LogError> {
        self.append_all(std::slice::from_ref(event))
    }
    /// Writes several events at once, all or none; returns where the first begins.
    ///
    /// A [`LodgeRewound`](lodge_events::LodgeRewound) hides what it says, from the readers of this trait and of [`Store`]; it
    /// must be the first of the events. Nothing else ever takes an event back.
    fn append_all(&mut self, events: &[Event]) -> Result<Position, LogError>;
    /// Where the next event will begin.
    fn end(&self) -> Position;
    /// How many events the log has.
    fn count(&self) -> u64;
    /// The last event of the chain: the next one's parent.
    fn last_id(&self) -> Option<Uuid>;
    /// Where the event number `nth` (from 0) begins; the end if there are not as many.
    fn seek(&self, nth: u64) -> Result<Position, LogError>;
    /// Events from `from` (included) to `to` (excluded) or the current end. Later appends are not seen.
    fn read(&self, from: Position, to: Position) -> Result<EventReader, LogError>;
    /// Events from the current end backwards.
    fn read_back(&self) -> Result<EventReader, LogError>;
    /// The last `n` events, oldest first.
    fn tail(&self, n: usize) -> Result<Vec<Recorded>, LogError> {
        let mut last: Vec<_> = self.read_back()?.take(n).collect::<Result<_, _>>()?;
        last.reverse();
        Ok(last)
    }
    /// Asks for the log to be brought to the disk as the policy wants it, without waiting; the ticket can be waited for.
    fn request_sync(&mut self) -> SyncTicket;
    /// Brings the log to the disk, whatever the policy, and waits for it.
    fn sync(&mut self) -> Result<(), LogError>;
    /// Stores derived state that reflects the log up to `snapshot.at`, for the next [`Store::open`].
    fn save_snapshot(&mut self, snapshot: Snapshot);
    /// Takes what rewinds hide out of the place where the log is kept. Nobody who reads the log sees a difference; positions
    /// may be others afterwards. Answers whether there was something to do. When it fails, the log is as it was.
    fn compact(&mut self) -> Result<bool, LogError>;
}
