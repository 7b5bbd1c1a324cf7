//! How the face is set up.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use lodge_door::Door;
use lodge_telemetry::Lines;

/// What becomes of a client's request for files that it may not reach yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// A person decides.
    #[default]
    Ask,
    /// It is granted.
    Allow,
    /// It is not.
    Deny,
}

/// How the face is set up.
#[derive(Debug, Clone)]
pub struct AhpConfig {
    /// Who may come in, for those who manage devices.
    pub door: Arc<Door>,
    /// What tokens cost, by the ids of models, for clients that show it.
    pub pricing: HashMap<String, serde_json::Value>,
    /// Pages of other hosts that the person knows: names and addresses.
    pub other_hosts: Vec<(String, String)>,
    /// Directories whose files clients may read and write, besides those of sessions.
    pub roots: Vec<PathBuf>,
    /// What becomes of requests for more.
    pub resources: Policy,
    /// The directory that folder pickers start in.
    pub default_directory: Option<PathBuf>,
    /// The shell of terminals; without one the user's.
    pub shell: Option<PathBuf>,
    /// What the host says in its own log.
    pub lines: Arc<Lines>,
    /// Bounds.
    pub limits: Limits,
}

impl AhpConfig {
    /// Behind this door, with nothing else said.
    pub fn new(door: Arc<Door>) -> Self {
        Self {
            door,
            pricing: HashMap::new(),
            other_hosts: Vec::new(),
            roots: Vec::new(),
            resources: Policy::Ask,
            default_directory: None,
            shell: None,
            lines: Arc::default(),
            limits: Limits::default(),
        }
    }
}

/// Bounds on what one client, or all of them, can make the host hold.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one message from a client. Those of clients that write files may be as large as what they read.
    pub frame_bytes: usize,
    /// Levels of nesting in it.
    pub json_depth: usize,
    /// Bytes of one connection's messages that wait for their turn, before no more is read from it.
    pub waiting_bytes: usize,
    /// Channels one connection may subscribe to.
    pub subscriptions: usize,
    /// Bytes that wait for one connection to read them, before it is cut off.
    pub queue_bytes: usize,
    /// Bytes of past actions kept per channel for clients that come back.
    pub replay_bytes: usize,
    /// Bytes of finished turns kept in memory per chat; older ones wait in a file.
    pub kept_bytes: usize,
    /// Bytes of finished turns in a snapshot that asks for no number of turns.
    pub window_bytes: usize,
    /// The same for clients that cannot ask for the turns before.
    pub whole_bytes: usize,
    /// Bytes of a file that is read or written in one piece.
    pub resource_bytes: u64,
    /// Watches at a time; the system has few.
    pub watches: usize,
    /// Entries of a directory that is listed in one piece.
    pub directory_entries: usize,
    /// How long a client may take to answer a request of the host, unless it has to ask a person.
    pub client_answer: Duration,
    /// How long it may take if it has to ask one.
    pub person_answer: Duration,
    /// How long a client's tools wait for it after its connection broke.
    pub client_grace: Duration,
    /// How long a session that nobody watches stays open here.
    pub unwatched: Duration,
    /// Terminals at a time.
    pub terminals: usize,
    /// Bytes of a terminal's past output that are kept.
    pub terminal_bytes: usize,
    /// How long a terminal lives on whose client is gone and that nobody watches.
    pub terminal_grace: Duration,
}

impl Limits {
    /// Bytes of one message from a client that writes files: what it could read in one piece, in base64, and what is around it.
    pub(crate) fn writers_frame_bytes(&self) -> usize {
        let contents = usize::try_from(self.resource_bytes).unwrap_or(usize::MAX);
        (contents / 3 * 4 + (1 << 20)).max(self.frame_bytes)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 16 << 20,
            json_depth: 64,
            waiting_bytes: 16 << 20,
            subscriptions: 512,
            queue_bytes: 16 << 20,
            replay_bytes: 4 << 20,
            kept_bytes: 4 << 20,
            window_bytes: 1 << 20,
            whole_bytes: 4 << 20,
            resource_bytes: 128 << 20,
            watches: 64,
            directory_entries: 100_000,
            client_answer: Duration::from_secs(30),
            person_answer: Duration::from_secs(300),
            client_grace: Duration::from_secs(30),
            unwatched: Duration::from_secs(60),
            terminals: 64,
            terminal_bytes: 256 << 10,
            terminal_grace: Duration::from_secs(3600),
        }
    }
}
