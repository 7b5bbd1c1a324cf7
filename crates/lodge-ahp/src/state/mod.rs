//! The state of every channel and who listens to it. One lock guards it all: an action is numbered, applied, remembered
//! and queued to its subscribers in one step, so a snapshot and the actions after it fit together without a gap.

pub(crate) mod chat;
pub(crate) mod conn;
mod quote;
pub(crate) mod ring;
pub(crate) mod seq;
mod service;
pub(crate) mod session;
mod settle;
mod subscriptions;

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use ahp::reducers::{ReduceOutcome, apply_action_to_root, apply_action_to_session};
use ahp_types::{ROOT_RESOURCE_URI, StateAction, state::RootState};
use tokio::sync::{mpsc, watch};

pub(crate) use self::{
    chat::{ChatStore, Keep},
    conn::{Closing, Conn, Peer, Queued},
    ring::{Ring, Sent},
    seq::Seq,
    service::{Service, ServiceEntry},
    session::SessionEntry,
    subscriptions::{NoSubscription, Resumed},
};
use crate::{
    dialect::seed,
    push::Outcome,
    version::Dialect,
    wire::{self, Envelope, Frame, Origin},
};

/// A channel's address.
pub(crate) type Uri = Arc<str>;

/// One chat and where it belongs.
#[derive(Debug)]
pub(crate) struct ChatEntry {
    pub(crate) session: Uri,
    pub(crate) store: ChatStore,
}

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

/// Frames that wait, in order, each with the connection that it goes to.
type HeldFrames = Vec<(Arc<Conn>, Frame)>;

/// How much is kept and sent.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Bytes of past actions kept per channel.
    pub(crate) ring_bytes: usize,
    /// What is kept in memory of the past of a chat.
    pub(crate) keep: Keep,
    /// Bytes of finished turns in a snapshot that asks for no number of turns.
    pub(crate) window_bytes: usize,
    /// The same for clients that cannot ask for the turns before.
    pub(crate) whole_bytes: usize,
    /// Subscriptions of one connection.
    pub(crate) subscriptions: usize,
}

/// All channels.
pub(crate) struct Core {
    pub(crate) seq: Seq,
    pub(crate) root: RootState,
    pub(crate) sessions: HashMap<Uri, SessionEntry>,
    pub(crate) chats: HashMap<Uri, ChatEntry>,
    pub(crate) services: HashMap<Uri, ServiceEntry>,
    pub(crate) channels: HashMap<Uri, Channel>,
    pub(crate) conns: HashMap<u64, Arc<Conn>>,
    pub(crate) bounds: Bounds,
    pub(crate) root_uri: Uri,
    /// Moves when a turn ends, is taken back or closed with its chat.
    pub(crate) turn_ends: watch::Sender<u64>,
    /// Hears what becomes of sessions that worked.
    pub(crate) outcomes: Option<mpsc::UnboundedSender<(Uri, Outcome)>>,
    /// Frames that leave when what they tell is kept; `None` when frames leave at once.
    held: RefCell<Option<HeldFrames>>,
}

impl Core {
    pub(crate) fn new(seq: Seq, root: RootState, bounds: Bounds) -> Self {
        // Nothing from before this start can be replayed: the state was built anew. All numbers used before are below
        // this one, because a block is reserved before it is used up.
        let boot = seq.last();
        let root_uri: Uri = ROOT_RESOURCE_URI.into();
        let channels = HashMap::from([(
            root_uri.clone(),
            Channel {
                ring: Ring::after(boot),
                ..Channel::default()
            },
        )]);
        Self {
            seq,
            root,
            sessions: HashMap::new(),
            chats: HashMap::new(),
            services: HashMap::new(),
            channels,
            conns: HashMap::new(),
            bounds,
            root_uri,
            turn_ends: watch::Sender::new(0),
            outcomes: None,
            held: RefCell::new(None),
        }
    }

    /// From now on nothing leaves: whoever is told something must find it again after a crash, so it is kept first.
    pub(crate) fn hold(&mut self) {
        self.held.get_mut().get_or_insert_default();
    }

    /// Sends what was held back, in order.
    pub(crate) fn release(&mut self) {
        for (conn, frame) in self.held.get_mut().take().into_iter().flatten() {
            conn.push(frame);
        }
    }

    fn deliver(&self, conn: &Arc<Conn>, frame: Frame) {
        match &mut *self.held.borrow_mut() {
            Some(held) => held.push((conn.clone(), frame)),
            None => conn.push(frame),
        }
    }

    /// Opens a session's channel.
    pub(crate) fn insert_session(&mut self, uri: Uri, entry: SessionEntry) {
        self.channels.insert(
            uri.clone(),
            Channel {
                ring: Ring::after(self.seq.last()),
                ..Channel::default()
            },
        );
        self.sessions.insert(uri, entry);
    }

    /// Opens a chat's channel.
    pub(crate) fn insert_chat(&mut self, uri: Uri, session: Uri, store: ChatStore) {
        self.channels.insert(
            uri.clone(),
            Channel {
                ring: Ring::after(self.seq.last()),
                ..Channel::default()
            },
        );
        self.chats.insert(uri, ChatEntry { session, store });
    }

    /// Closes a session and its chats. Whoever was subscribed hears no more of them.
    pub(crate) fn remove_session(&mut self, uri: &str) {
        self.sessions.remove(uri);
        self.channels.remove(uri);
        let chats: Vec<Uri> = self.chats_of(uri);
        for chat in chats {
            self.chats.remove(&chat);
            self.channels.remove(&chat);
        }
        self.remove_services_of(uri);
        self.turn_ended();
    }

    fn turn_ended(&self) {
        self.turn_ends.send_modify(|ends| *ends += 1);
    }

    /// Closes one chat.
    pub(crate) fn remove_chat(&mut self, uri: &str) {
        self.chats.remove(uri);
        self.channels.remove(uri);
    }

    /// The chats of a session, in no order.
    pub(crate) fn chats_of(&self, session: &str) -> Vec<Uri> {
        self.chats
            .iter()
            .filter(|(_, chat)| &*chat.session == session)
            .map(|(uri, _)| uri.clone())
            .collect()
    }

    /// The session that a session's or a chat's URI belongs to.
    pub(crate) fn session_of(&self, uri: &str) -> Option<Uri> {
        match self.chats.get(uri) {
            Some(chat) => Some(chat.session.clone()),
            None => self.sessions.get_key_value(uri).map(|(uri, _)| uri.clone()),
        }
    }

    /// Applies an action and tells everybody who listens. False when the channel is not there, or when the action
    /// changes nothing: then nobody is told.
    pub(crate) fn publish(&mut self, channel: &str, action: &StateAction, origin: Option<&Origin>) -> bool {
        let outcome = match self.chats.get_mut(channel) {
            Some(chat) => {
                let outcome = chat.store.apply(action);
                if !is_streaming(action)
                    && let Some(session) = self.sessions.get_mut(&chat.session)
                {
                    session.dirty = true;
                }
                outcome
            }
            None => match self.sessions.get_mut(channel) {
                Some(session) => {
                    session.dirty = true;
                    apply_action_to_session(&mut session.state, action)
                }
                None if channel == &*self.root_uri => apply_action_to_root(&mut self.root, action),
                None => match self.apply_to_service(channel, action) {
                    Some(outcome) => outcome,
                    None => return false,
                },
            },
        };
        if outcome != ReduceOutcome::Applied {
            tracing::debug!(?outcome, channel, "an action changed nothing");
            return false;
        }
        let sent = self.sent(channel, action, origin);
        self.send(channel, sent);
        if is_end(action) {
            self.turn_ended();
        }
        true
    }

    /// Numbers an action and spells it.
    fn sent(&mut self, channel: &str, action: &StateAction, origin: Option<&Origin>) -> Sent {
        let shown = self.shown_in_seed(channel);
        let expanded = shown
            .as_ref()
            .and_then(|session| seed::expand(self, session, channel, action));
        let seed_frames = expanded.map(|actions| {
            let last = actions.len().saturating_sub(1);
            actions
                .iter()
                .enumerate()
                .map(|(at, action)| {
                    // Each has a number of its own, so that a client cut off between two of them gets the rest.
                    let server_seq = if at < last {
                        self.seq.next()
                    } else {
                        self.seq.last() + 1
                    };
                    let origin = origin.filter(|_| at == last);
                    Envelope {
                        channel: None,
                        action,
                        server_seq,
                        origin,
                        rejection_reason: None,
                    }
                    .frame()
                })
                .collect::<Vec<Frame>>()
        });
        let server_seq = self.seq.next();
        let frame = match (action, origin) {
            (StateAction::TerminalData(printed), None) => wire::printed(channel, &printed.data, server_seq),
            _ => Envelope {
                channel: Some(channel),
                action,
                server_seq,
                origin,
                rejection_reason: None,
            }
            .frame(),
        };
        let sent = Sent::new(server_seq, frame, shown);
        match seed_frames {
            Some(frames) => sent.with_seed(frames),
            None => sent,
        }
    }

    /// The name under which the seed's dialect shows a channel: a session's, also for its default chat; a terminal's own.
    pub(crate) fn shown_in_seed(&self, channel: &str) -> Option<Uri> {
        if channel == &*self.root_uri {
            return Some(self.root_uri.clone());
        }
        if let Some(chat) = self.chats.get(channel) {
            let session = self.sessions.get(&chat.session)?;
            return (&*session.default_chat == channel).then(|| chat.session.clone());
        }
        if let Some((uri, entry)) = self.services.get_key_value(channel) {
            return entry.service.is_known_in(Dialect::Seed).then(|| uri.clone());
        }
        self.sessions.get_key_value(channel).map(|(uri, _)| uri.clone())
    }

    /// Tells clients of the seed's dialect what a session changed; others have channels for it.
    pub(crate) fn publish_diffs(&mut self, session: &str) {
        let Some(entry) = self.sessions.get(session) else {
            return;
        };
        let action = seed::diffs_changed(session, entry);
        let server_seq = self.seq.next();
        let frame = Envelope {
            channel: None,
            action: &action,
            server_seq,
            origin: None,
            rejection_reason: None,
        }
        .frame();
        let sent = Sent::new(server_seq, Frame::from(String::new()), None).with_seed(vec![frame]);
        self.send(session, sent);
    }

    fn send(&mut self, channel: &str, sent: Sent) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return;
        };
        let sent = Arc::new(sent);
        let held = self.held.get_mut();
        for subscriber in &entry.subscribers {
            for frame in sent.frames(subscriber.peer.dialect) {
                match held {
                    Some(held) => held.push((subscriber.conn.clone(), frame.clone())),
                    None => subscriber.conn.push(frame.clone()),
                }
            }
        }
        entry.ring.push(sent, self.bounds.ring_bytes);
    }

    /// Tells one connection that its action was not accepted. It takes no number: nothing happened.
    pub(crate) fn reject(
        &self,
        conn: &Arc<Conn>,
        channel: &str,
        action: &impl serde::Serialize,
        origin: &Origin,
        reason: &str,
    ) {
        self.answer(conn, channel, action, origin, Some(reason));
    }

    /// Tells one connection that its action was accepted and changed nothing.
    pub(crate) fn echo(&self, conn: &Arc<Conn>, channel: &str, action: &impl serde::Serialize, origin: &Origin) {
        self.answer(conn, channel, action, origin, None);
    }

    fn answer(
        &self,
        conn: &Arc<Conn>,
        channel: &str,
        action: &impl serde::Serialize,
        origin: &Origin,
        rejection_reason: Option<&str>,
    ) {
        let seed = conn.peer().is_some_and(|peer| peer.dialect == Dialect::Seed);
        let channel = (!seed).then_some(channel);
        let envelope = Envelope {
            channel,
            action,
            server_seq: self.seq.last(),
            origin: Some(origin),
            rejection_reason,
        };
        self.deliver(conn, envelope.frame());
    }
}

/// Actions after which a turn does not run any more.
fn is_end(action: &StateAction) -> bool {
    matches!(
        action,
        StateAction::ChatTurnComplete(_)
            | StateAction::ChatTurnCancelled(_)
            | StateAction::ChatError(_)
            | StateAction::ChatTruncated(_)
    )
}

/// Actions that come by the thousand and show in no summary.
fn is_streaming(action: &StateAction) -> bool {
    matches!(
        action,
        StateAction::ChatDelta(_)
            | StateAction::ChatReasoning(_)
            | StateAction::ChatToolCallDelta(_)
            | StateAction::ChatToolCallContentChanged(_)
            | StateAction::ChatUsage(_)
    )
}
