//! The state of every channel and who listens to it. One lock guards it, and each chat with its listeners is in a cell of
//! its own beside it (`lent`). An action is applied, numbered, remembered and queued to its subscribers while its chat, or
//! the state, is held, so a snapshot and the actions after it fit together without a gap.

mod channel;
pub(crate) mod chat;
pub(crate) mod conn;
mod held;
mod lent;
mod numbers;
mod quote;
pub(crate) mod ring;
mod service;
pub(crate) mod session;
mod settle;
mod spelt;
mod subscriptions;

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use ahp::reducers::{ReduceOutcome, apply_action_to_root, apply_action_to_session};
use ahp_types::{
    ROOT_RESOURCE_URI, StateAction,
    state::{ChatState, RootState},
};
use lodge_host::Counter;
use lodge_http::Outcome;
use tokio::sync::{mpsc, watch};

pub(crate) use self::{
    channel::{Channel, ChatEntry, LiveChat, Subscriber},
    chat::{ChatStore, Keep},
    conn::{Closing, Conn, Peer, Queued},
    lent::{Borrowed, Handle, Lent},
    numbers::{Numbering, Numbers},
    quote::QuoteError,
    ring::{Ring, Sent},
    service::{Service, ServiceEntry},
    session::{SessionEntry, aggregate},
    spelt::Spelt,
    subscriptions::{NoSubscription, Resumed},
};
use crate::{
    dialect::seed,
    version::Dialect,
    wire::{self, Envelope, Origin},
};

/// A channel's address.
pub(crate) type Uri = Arc<str>;

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
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) root: RootState,
    pub(crate) sessions: HashMap<Uri, SessionEntry>,
    pub(crate) chats: HashMap<Uri, ChatEntry>,
    pub(crate) services: HashMap<Uri, ServiceEntry>,
    /// The channels of all but chats, which have their own.
    channels: HashMap<Uri, Channel>,
    pub(crate) conns: HashMap<u64, Arc<Conn>>,
    /// The channels that each connection listens to.
    heard: HashMap<u64, HashSet<Uri>>,
    /// What is to be put back into its cell when the state's lock is released.
    pub(crate) borrowed: Borrowed,
    pub(crate) bounds: Bounds,
    pub(crate) root_uri: Uri,
    /// Moves when a turn ends, is taken back or closed with its chat.
    pub(crate) turn_ends: watch::Sender<u64>,
    /// Hears what becomes of sessions that worked.
    pub(crate) outcomes: Option<mpsc::UnboundedSender<(Uri, Outcome)>>,
    /// What leaves when what it tells is kept; `None` when all leaves at once.
    held: RefCell<Option<Vec<held::Held>>>,
}

impl Core {
    pub(crate) fn new(seq: Counter, root: RootState, bounds: Bounds) -> Self {
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
            numbers: Arc::new(Numbers::new(seq)),
            root,
            sessions: HashMap::new(),
            chats: HashMap::new(),
            services: HashMap::new(),
            channels,
            conns: HashMap::new(),
            heard: HashMap::new(),
            borrowed: Borrowed::default(),
            bounds,
            root_uri,
            turn_ends: watch::Sender::new(0),
            outcomes: None,
            held: RefCell::new(None),
        }
    }

    /// What is borrowed from its own cell by whoever holds the state's lock.
    pub(crate) fn lend<T>(&self, name: Uri, value: T) -> Lent<T> {
        Lent::new(name, value, self.borrowed.clone())
    }

    /// A channel.
    pub(crate) fn channel(&self, uri: &str) -> Option<&Channel> {
        match self.chats.get(uri) {
            Some(chat) => Some(chat.channel()),
            None => self.channels.get(uri),
        }
    }

    pub(super) fn channel_mut(&mut self, uri: &str) -> Option<&mut Channel> {
        match self.chats.get_mut(uri) {
            Some(chat) => Some(chat.channel_mut()),
            None => self.channels.get_mut(uri),
        }
    }

    /// Whether there is such a channel.
    pub(crate) fn has_channel(&self, uri: &str) -> bool {
        self.chats.contains_key(uri) || self.channels.contains_key(uri)
    }

    /// A channel that has no past and no listeners yet.
    fn new_channel(&mut self, uri: &str) -> Channel {
        self.close_channel(uri);
        Channel {
            ring: Ring::after(self.numbers.last()),
            ..Channel::default()
        }
    }

    /// Whoever was subscribed to a channel hears no more of it.
    fn close_channel(&mut self, uri: &str) {
        let listeners = self.channel(uri).into_iter().flat_map(|channel| &channel.subscribers);
        let listeners: Vec<u64> = listeners.map(|listener| listener.conn.id).collect();
        for conn in listeners {
            if let Some(heard) = self.heard.get_mut(&conn) {
                heard.remove(uri);
            }
        }
        self.channels.remove(uri);
    }

    /// Opens a session's channel.
    pub(crate) fn insert_session(&mut self, uri: Uri, entry: SessionEntry) {
        let channel = self.new_channel(&uri);
        self.channels.insert(uri.clone(), channel);
        self.sessions.insert(uri, entry);
    }

    /// Opens a chat's channel.
    pub(crate) fn insert_chat(&mut self, uri: Uri, session: Uri, store: ChatStore) {
        let channel = self.new_channel(&uri);
        let live = self.lend(uri.clone(), LiveChat { store, channel });
        self.chats.insert(uri, ChatEntry::new(session, live));
    }

    /// Closes a session and its chats. Whoever was subscribed hears no more of them.
    pub(crate) fn remove_session(&mut self, uri: &str) {
        self.sessions.remove(uri);
        self.close_channel(uri);
        for chat in self.chats_of(uri) {
            self.remove_chat(&chat);
        }
        self.remove_services_of(uri);
        self.turn_ended();
    }

    fn turn_ended(&self) {
        self.turn_ends.send_modify(|ends| *ends += 1);
    }

    /// Closes one chat.
    pub(crate) fn remove_chat(&mut self, uri: &str) {
        self.close_channel(uri);
        self.chats.remove(uri);
    }

    /// The chats of a session, in no order.
    pub(crate) fn chats_of(&self, session: &str) -> Vec<Uri> {
        self.chats
            .iter()
            .filter(|(_, chat)| &*chat.session == session)
            .map(|(uri, _)| uri.clone())
            .collect()
    }

    /// What there is in a chat beside the finished turns.
    pub(crate) fn head(&self, chat: &str) -> Option<&ChatState> {
        self.chats.get(chat).map(|chat| chat.store().head())
    }

    /// The session that a session's or a chat's URI belongs to, as it is.
    pub(crate) fn entry_of(&self, uri: &str) -> Option<&SessionEntry> {
        self.sessions.get(&self.session_of(uri)?)
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
                let outcome = chat.apply(action);
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
        let spelt = self.spell(channel, action, origin);
        self.send(channel, spelt);
        if is_end(action) {
            self.turn_ended();
        }
        true
    }

    /// Spells an action.
    fn spell(&self, channel: &str, action: &StateAction, origin: Option<&Origin>) -> Spelt {
        let shown = self.shown_in_seed(channel);
        let expanded = shown
            .as_ref()
            .and_then(|session| seed::expand(self, session, channel, action));
        let in_seed = expanded.map(|actions| {
            let last = actions.len().saturating_sub(1);
            let spell = |(at, action)| {
                let envelope = Envelope {
                    channel: None,
                    action,
                    origin: origin.filter(|_| at == last),
                    rejection_reason: None,
                };
                envelope.spell()
            };
            actions.iter().enumerate().map(spell).collect()
        });
        spell(channel, action, origin, shown).with_seed(in_seed)
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
        let envelope = Envelope {
            channel: None,
            action: &seed::diffs_changed(session, entry),
            origin: None,
            rejection_reason: None,
        };
        let spelt = Spelt::in_seed(vec![envelope.spell()]);
        self.send(session, spelt);
    }
}

/// Spells an action. `shown` is the name under which the seed's dialect shows its channel.
pub(crate) fn spell(channel: &str, action: &StateAction, origin: Option<&Origin>, shown: Option<Uri>) -> Spelt {
    let modern = match (action, origin) {
        (StateAction::TerminalData(printed), None) => wire::printed(channel, &printed.data),
        _ => Envelope {
            channel: Some(channel),
            action,
            origin,
            rejection_reason: None,
        }
        .spell(),
    };
    Spelt::new(modern, shown)
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
