//! State that the clients of one session share: commands that wait for a client, and recent events for clients that read
//! them page by page.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use lodge_events::Event;
use lodge_host::{Listening, Publish, Session};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{canvas::Canvases, extensions::Extensions, factory::Factories, inference::SdkTransport};

/// The boards of all sessions that clients have open.
#[derive(Default)]
pub(crate) struct Boards(Mutex<HashMap<String, Weak<Board>>>);

impl Boards {
    pub(crate) fn of(&self, session_id: &str) -> Arc<Board> {
        let mut boards = self.0.lock();
        if let Some(board) = boards.get(session_id).and_then(Weak::upgrade) {
            return board;
        }
        boards.retain(|_, board| board.strong_count() > 0);
        let board = Arc::new(Board::default());
        boards.insert(session_id.to_owned(), Arc::downgrade(&board));
        board
    }
}

#[derive(Default)]
struct QueuedCommands {
    /// The request that clients were notified of.
    current: Option<String>,
    waiting: VecDeque<(String, String)>,
    /// Whether the waiting commands wait for another one to be queued.
    stopped: bool,
}

/// State shared by the clients of one session.
#[derive(Default)]
pub(crate) struct Board {
    /// Commands that clients handle, one after the other.
    queued: Mutex<QueuedCommands>,
    recent: Mutex<Option<Arc<Recent>>>,
    /// The client that carries the session's model requests, if one does.
    carrier: Mutex<Option<SdkTransport>>,
    /// The context that views of MCP servers get.
    views: Mutex<Map<String, Value>>,
    canvases: Canvases,
    factories: Factories,
    /// The session's extensions, while an app that asked for them has it open.
    extensions: Mutex<Weak<Extensions>>,
}

impl Board {
    /// The canvases that clients of the session provide.
    pub(crate) fn canvases(&self) -> &Canvases {
        &self.canvases
    }

    /// The factories that clients of the session offer.
    pub(crate) fn factories(&self) -> &Factories {
        &self.factories
    }

    /// The session's extensions, if an app asked for them.
    pub(crate) fn extensions(&self) -> Option<Arc<Extensions>> {
        self.extensions.lock().upgrade()
    }

    /// The session's extensions; made if there are none, or if they have ended.
    pub(crate) fn extensions_or(&self, make: impl FnOnce() -> Arc<Extensions>) -> Arc<Extensions> {
        let mut extensions = self.extensions.lock();
        let known = extensions.upgrade().filter(|known| !known.have_ended());
        known.unwrap_or_else(|| {
            let made = make();
            *extensions = Arc::downgrade(&made);
            made
        })
    }

    /// Sets the context that views of MCP servers get.
    pub(crate) fn show_views_in(&self, context: Map<String, Value>) {
        *self.views.lock() = context;
    }

    /// The context that views of MCP servers get.
    pub(crate) fn views_are_shown_in(&self) -> Map<String, Value> {
        self.views.lock().clone()
    }

    /// Sets the client that carries the session's model requests.
    pub(crate) fn carry(&self, transport: SdkTransport) {
        *self.carrier.lock() = Some(transport);
    }

    /// The client that carries the session's model requests, while it is connected.
    pub(crate) fn carrier(&self) -> Option<SdkTransport> {
        let mut carrier = self.carrier.lock();
        carrier.take_if(|transport| transport.peer.is_closed());
        carrier.clone()
    }

    /// Queues a command for clients. Returns its id.
    pub(crate) fn queue_command(&self, command: String) -> String {
        let mut queued = self.queued.lock();
        let id = Uuid::new_v4().to_string();
        queued.stopped = false;
        queued.waiting.push_back((id.clone(), command));
        id
    }

    /// The next command for clients, with its request id. None while they handle another.
    pub(crate) fn next_command(&self) -> Option<(String, String)> {
        let mut queued = self.queued.lock();
        if queued.current.is_some() || queued.stopped {
            return None;
        }
        let next = queued.waiting.pop_front();
        queued.current = next.as_ref().map(|(id, _)| id.clone());
        next
    }

    /// A client has handled the command; with `stop`, the others wait for another one to be queued. False if it is not
    /// the current one.
    pub(crate) fn command_dealt_with(&self, request_id: &str, stop: bool) -> bool {
        let mut queued = self.queued.lock();
        let dealt_with = queued.current.take_if(|id| id == request_id).is_some();
        queued.stopped |= dealt_with && stop;
        dealt_with
    }

    /// Waiting commands with their ids, the next one first.
    pub(crate) fn waiting_commands(&self) -> Vec<(String, String)> {
        self.queued.lock().waiting.iter().cloned().collect()
    }

    /// Removes waiting commands that `keep` rejects. Returns how many were removed.
    pub(crate) fn keep_commands(&self, keep: impl Fn(usize, &str) -> bool) -> usize {
        let mut queued = self.queued.lock();
        let before = queued.waiting.len();
        let mut at = 0..before;
        queued.waiting.retain(|(id, _)| keep(at.next().unwrap_or(0), id));
        before - queued.waiting.len()
    }

    /// The recent events; kept from the first call on.
    pub(crate) fn recent(&self, session: &Session) -> Arc<Recent> {
        self.recent.lock().get_or_insert_with(|| Recent::start(session)).clone()
    }
}

/// Events since the first request for them, persisted and ephemeral, within the limits.
pub(crate) struct Recent {
    epoch: Uuid,
    ring: Arc<Ring>,
    _listening: Listening,
}

struct Ring {
    events: Mutex<Window>,
    arrived: Notify,
}

#[derive(Default)]
struct Window {
    /// Number of the first event in the window.
    first: u64,
    events: VecDeque<Event>,
    bytes: usize,
}

/// Limit for recent events of a session, in bytes.
const KEPT_BYTES: usize = 1024 * 1024;

impl Window {
    fn push(&mut self, event: Event) {
        self.bytes += event.json().len();
        self.events.push_back(event);
        while self.bytes > KEPT_BYTES && self.events.len() > 1 {
            if let Some(old) = self.events.pop_front() {
                self.bytes -= old.json().len();
                self.first += 1;
            }
        }
    }

    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}

impl Publish for Ring {
    fn publish(&self, event: &Event) {
        self.events.lock().push(event.clone());
        self.arrived.notify_waiters();
    }
}

impl Recent {
    fn start(session: &Session) -> Arc<Self> {
        let ring = Arc::new(Ring {
            events: Mutex::default(),
            arrived: Notify::new(),
        });
        let listening = session.listen(ring.clone());
        Arc::new(Self {
            epoch: Uuid::new_v4(),
            ring,
            _listening: listening,
        })
    }

    /// The cursor after the last event.
    pub(crate) fn tail(&self) -> String {
        self.cursor(self.ring.events.lock().next())
    }

    fn cursor(&self, number: u64) -> String {
        format!("{}|{number}", self.epoch)
    }

    /// Events from a cursor on, and the cursor after them. `None` if the cursor is not of this window, or the window
    /// has moved beyond it.
    pub(crate) fn read(&self, cursor: &str, max: usize) -> Option<(Vec<Event>, String, bool)> {
        let (epoch, number) = cursor.split_once('|')?;
        let number: u64 = number.parse().ok()?;
        let window = self.ring.events.lock();
        if epoch.parse() != Ok(self.epoch) || number < window.first || number > window.next() {
            return None;
        }
        let events: Vec<Event> = window
            .events
            .iter()
            .skip((number - window.first) as usize)
            .take(max)
            .cloned()
            .collect();
        let next = number + events.len() as u64;
        Some((events, self.cursor(next), next < window.next()))
    }

    /// Waits for an event after a cursor.
    pub(crate) async fn arrived(&self, cursor: &str) {
        loop {
            let arrived = self.ring.arrived.notified();
            if cursor != self.tail() {
                return;
            }
            arrived.await;
        }
    }
}
