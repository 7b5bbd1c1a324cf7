//! What the tests share: events, homes, and reading everything back.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use lodge_events::{Event, LodgeRewound, LodgeUsage, UserMessage};
use lodge_log::{EventReader, FileStore, Home, HomeOptions, Position, Store, SyncPolicy};
use tempfile::TempDir;
use uuid::Uuid;

/// The id of the event number `n`.
pub(crate) fn id(n: u64) -> Uuid {
    Uuid::from_u128(0x4000_8000_0000_0000_0000 + u128::from(n) + 1)
}

/// The event number `n` of a log, with the right parent.
pub(crate) fn event(n: u64) -> Event {
    event_saying(n, &format!("message {n}"))
}

pub(crate) fn event_saying(n: u64, text: &str) -> Event {
    let parent = n.checked_sub(1).map(id);
    let time = Timestamp::from_millisecond(1_700_000_000_000 + n as i64).unwrap();
    Event::with(
        id(n),
        time,
        parent,
        None,
        UserMessage {
            content: text.to_owned(),
            ..Default::default()
        },
    )
}

/// The event number `n`, which hangs beside the chain at the event number `parent`.
pub(crate) fn beside(n: u64, parent: Option<u64>) -> Event {
    let time = Timestamp::from_millisecond(1_700_000_000_000 + n as i64).unwrap();
    let usage = LodgeUsage {
        model: format!("model {n}"),
        ..Default::default()
    };
    Event::with(id(n), time, parent.map(id), None, usage)
}

/// The event number `n`: from the event number `to` on nothing counts, and the chain goes on from `head`.
pub(crate) fn rewind(n: u64, to: u64, head: Option<u64>) -> Event {
    let time = Timestamp::from_millisecond(1_700_000_000_000 + n as i64).unwrap();
    let rewound = LodgeRewound {
        up_to_event_id: id(to).to_string(),
        events_removed: 1,
        ..Default::default()
    };
    Event::with(id(n), time, head.map(id), None, rewound)
}

/// As a line.
pub(crate) fn beside_line(n: u64, parent: u64) -> Vec<u8> {
    [beside(n, Some(parent)).json(), &b"\n"[..]].concat()
}

/// Events as lines.
pub(crate) fn lines(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(line).collect()
}

pub(crate) fn line(n: u64) -> Vec<u8> {
    let mut line = event(n).json().to_vec();
    line.push(b'\n');
    line
}

pub(crate) fn parse(json: &str) -> Event {
    Event::parse(Bytes::copy_from_slice(json.as_bytes())).unwrap()
}

/// A home in a temporary directory.
pub(crate) struct TestHome {
    pub(crate) dir: TempDir,
    pub(crate) home: Home,
}

impl TestHome {
    pub(crate) fn new() -> TestHome {
        TestHome::with(HomeOptions {
            sync: SyncPolicy::Never,
            ..HomeOptions::default()
        })
    }

    pub(crate) fn with(options: HomeOptions) -> TestHome {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path().join("home"), options).unwrap();
        TestHome { dir, home }
    }

    pub(crate) fn store(&self) -> &Arc<FileStore> {
        self.home.sessions()
    }

    pub(crate) fn session_dir(&self, id: &str) -> PathBuf {
        self.home.path().join("session-state").join(id)
    }

    pub(crate) fn log_path(&self, id: &str) -> PathBuf {
        self.session_dir(id).join("events.jsonl")
    }

    /// Puts a log in place as another program would.
    pub(crate) fn plant(&self, id: &str, bytes: &[u8]) {
        fs::create_dir_all(self.session_dir(id)).unwrap();
        fs::write(self.log_path(id), bytes).unwrap();
    }

    /// The ids in a session's log as a reader gives them.
    pub(crate) fn ids(&self, session: &str) -> Vec<Uuid> {
        ids(self.store().read(session, Position::START, Position::END).unwrap())
    }

    /// The names of the files in a session's directory.
    pub(crate) fn files(&self, session: &str) -> Vec<String> {
        let entries = fs::read_dir(self.session_dir(session)).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn ids(reader: EventReader) -> Vec<Uuid> {
    reader.map(|recorded| recorded.unwrap().event.id()).collect()
}

/// The ids of events with these numbers.
pub(crate) fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<Uuid> {
    numbers.into_iter().map(id).collect()
}
