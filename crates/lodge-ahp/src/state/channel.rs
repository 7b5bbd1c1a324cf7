//! Channels and who listens to them, and chats, which have theirs beside them.

use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::StateAction;

use super::{ChatStore, Conn, Handle, Lent, Numbering, Peer, Ring, Spelt, Uri};
use crate::version::Dialect;

/// Who listens on a channel.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) conn: Arc<Conn>,
    pub(crate) peer: Peer,
    /// Where this client's window on the turns of a chat begins.
    pub(crate) start: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) ring: Ring,
}

impl Channel {
    /// A connection that listens.
    pub(crate) fn listener(&self, conn: u64) -> Option<&Subscriber> {
        self.subscribers.iter().find(|listener| listener.conn.id == conn)
    }

    pub(super) fn listener_mut(&mut self, conn: u64) -> Option<&mut Subscriber> {
        self.subscribers.iter_mut().find(|listener| listener.conn.id == conn)
    }

    /// Numbers an action and queues it to everybody who listens.
    pub(crate) fn publish(&mut self, numbering: &mut Numbering<'_>, spelt: Spelt, ring_bytes: usize) {
        let sent = numbering.number(spelt);
        for Subscriber { conn, peer, .. } in &self.subscribers {
            numbering.push_sent(conn, peer.dialect, &sent);
        }
        self.ring.push(sent, ring_bytes);
    }

    /// Spells an action for everybody who listens, before it has a number.
    pub(crate) fn prepare(&self, spelt: &mut Spelt) {
        if self
            .subscribers
            .iter()
            .any(|listener| listener.peer.dialect == Dialect::Seed)
        {
            spelt.translate();
        }
    }
}

/// One chat and where it belongs.
#[derive(Debug)]
pub(crate) struct ChatEntry {
    pub(crate) session: Uri,
    live: Lent<LiveChat>,
    /// Whether a turn runs, for those who ask that of all chats and want to borrow none.
    running: bool,
}

/// A chat and who listens to it: what a delta changes.
#[derive(Debug)]
pub(crate) struct LiveChat {
    pub(crate) store: ChatStore,
    pub(crate) channel: Channel,
}

impl ChatEntry {
    pub(super) fn new(session: Uri, live: Lent<LiveChat>) -> Self {
        let mut entry = Self {
            session,
            live,
            running: false,
        };
        entry.running = entry.store().head().active_turn.is_some();
        entry
    }

    pub(crate) fn store(&self) -> &ChatStore {
        &self.live.get().store
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.live.get().channel
    }

    pub(super) fn channel_mut(&mut self) -> &mut Channel {
        &mut self.live.get_mut().channel
    }

    /// Whether a turn runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// Gives it another title. No action of a chat tells that: it is told by the list of chats of its session.
    pub(crate) fn set_title(&mut self, title: &str) {
        self.live.get_mut().store.set_title(title);
    }

    /// The way to it that does not lead through the state.
    pub(crate) fn handle(&self) -> Handle<LiveChat> {
        self.live.handle()
    }

    /// Puts it back into its cell.
    pub(crate) fn put_back(&mut self) {
        self.live.put_back();
    }

    pub(super) fn apply(&mut self, action: &StateAction) -> ReduceOutcome {
        let store = &mut self.live.get_mut().store;
        let outcome = store.apply(action);
        self.running = store.head().active_turn.is_some();
        outcome
    }
}
