//! Our copy of the host's state: the root, one session and one of its chats. The protocol's own reducers update it.

use ahp::{
    ahp_types::{
        ActionEnvelope, ROOT_RESOURCE_URI, Uri,
        state::{
            ChatState, ResponsePart, RootState, SessionInputRequest, SessionLifecycle, SessionState, Snapshot,
            SnapshotState, Turn,
        },
    },
    reducers::{apply_action_to_chat, apply_action_to_root, apply_action_to_session},
};

/// The approval modes, and what runs without approval in each.
pub const APPROVALS: [(&str, &str); 5] = [
    ("ask", "Asks before everything, even reads"),
    ("safe", "Asks before anything risky"),
    ("edits", "Asks as `safe` does, but writes in the working directory run"),
    ("all", "Approves everything"),
    ("none", "Denies everything that needs an approval"),
];

/// The setting for the approval mode.
pub const APPROVALS_KEY: &str = "lodge.approvals";

/// The error for an unknown approval mode.
pub const NO_APPROVALS: &str = "The approval modes are ask, safe, edits, all and none.";

/// The error if no turn can be tried again.
pub const NOT_FAILED: &str = "The last turn did not fail, or cannot be tried again.";

/// Our copy of a channel.
pub struct Channel<S> {
    /// Its address.
    pub uri: Uri,
    /// Its state.
    pub state: S,
    /// The number of the last action that the state includes.
    from: u64,
}

impl<S> Channel<S> {
    /// Makes the copy from a snapshot.
    pub fn new(uri: Uri, state: S, from: i64) -> Self {
        Self {
            uri,
            state,
            from: u64::try_from(from).unwrap_or(0),
        }
    }
}

/// The mirrored state.
pub struct Mirror {
    /// The host as a whole.
    pub root: RootState,
    /// The session.
    pub session: Channel<SessionState>,
    /// The chat that is shown: the default one, or a sub-agent's.
    pub chat: Channel<ChatState>,
    /// The highest number of an action so far.
    pub seen: u64,
}

/// The part of the state that an action changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppliedTo {
    /// The host as a whole.
    Root,
    /// The session.
    Session,
    /// The chat.
    Chat,
    /// Nothing that is mirrored, or the state included it already.
    Nothing,
}

impl Mirror {
    /// Makes the mirror from the snapshots of new subscriptions.
    pub fn new(root: RootState, session: Channel<SessionState>, chat: Channel<ChatState>) -> Self {
        let seen = session.from.max(chat.from);
        Self {
            root,
            session,
            chat,
            seen,
        }
    }

    /// Applies an action from the host.
    pub fn apply(&mut self, envelope: &ActionEnvelope) -> AppliedTo {
        self.seen = self.seen.max(envelope.server_seq);
        // An action of ours that was refused changed nothing.
        if envelope.rejection_reason.is_some() {
            return AppliedTo::Nothing;
        }
        if envelope.channel == ROOT_RESOURCE_URI {
            apply_action_to_root(&mut self.root, &envelope.action);
            AppliedTo::Root
        } else if envelope.channel == self.session.uri && envelope.server_seq > self.session.from {
            apply_action_to_session(&mut self.session.state, &envelope.action);
            AppliedTo::Session
        } else if envelope.channel == self.chat.uri && envelope.server_seq > self.chat.from {
            apply_action_to_chat(&mut self.chat.state, &envelope.action);
            AppliedTo::Chat
        } else {
            AppliedTo::Nothing
        }
    }

    /// Replaces the states with new snapshots. Returns the channels that have none, because they no longer exist.
    pub fn refresh(&mut self, snapshots: Vec<Snapshot>) -> Vec<Uri> {
        let mut missing = self.channels();
        // The numbers of another host may be lower.
        self.seen = snapshots
            .iter()
            .filter_map(|snapshot| u64::try_from(snapshot.from_seq).ok())
            .max()
            .unwrap_or(self.seen);
        for snapshot in snapshots {
            let from = u64::try_from(snapshot.from_seq).unwrap_or(0);
            match snapshot.state {
                SnapshotState::Root(state) => self.root = *state,
                SnapshotState::Session(state) if snapshot.resource == self.session.uri => {
                    (self.session.state, self.session.from) = (*state, from);
                }
                SnapshotState::Chat(state) if snapshot.resource == self.chat.uri => {
                    (self.chat.state, self.chat.from) = (*state, from);
                }
                _ => continue,
            }
            missing.retain(|uri| *uri != snapshot.resource);
        }
        missing
    }

    /// The channels that we subscribe to.
    pub fn channels(&self) -> Vec<Uri> {
        vec![
            ROOT_RESOURCE_URI.to_owned(),
            self.session.uri.clone(),
            self.chat.uri.clone(),
        ]
    }

    /// The address of the chat in which people talk to the agent. Other chats are those of sub-agents.
    pub fn own_chat(&self) -> &str {
        let own = self.session.state.default_chat.as_ref();
        let first = self.session.state.chats.first().map(|chat| &chat.resource);
        own.or(first).unwrap_or(&self.chat.uri)
    }

    /// Whether messages can be sent.
    pub fn is_ready(&self) -> bool {
        self.session.state.lifecycle == SessionLifecycle::Ready
    }

    /// Whether a turn is running.
    pub fn is_busy(&self) -> bool {
        self.chat.state.active_turn.is_some()
    }

    /// Whether the host may not have the session on its disk, because no turn in it is over yet.
    pub fn is_young(&self) -> bool {
        self.chat.state.turns.is_empty()
    }

    /// A turn that is over.
    pub fn turn(&self, id: &str) -> Option<&Turn> {
        self.chat.state.turns.iter().rev().find(|turn| turn.id == id)
    }

    /// The last turn, if it failed and can be tried again.
    pub fn failed_turn(&self) -> Option<&str> {
        let last = self.chat.state.turns.last().filter(|_| !self.is_busy())?;
        match last.response_parts.last()? {
            ResponsePart::Error(part) if part.resumable == Some(true) => Some(&last.id),
            _ => None,
        }
    }

    /// Whether the host has a message with this id, as a turn or in the queue.
    pub fn knows(&self, id: &str) -> bool {
        let active = self.chat.state.active_turn.as_ref();
        active.is_some_and(|turn| turn.id == id) || self.is_waiting(id) || self.turn(id).is_some()
    }

    /// Whether a message with this id is in the host's queue.
    pub fn is_waiting(&self, id: &str) -> bool {
        let chat = &self.chat.state;
        let mut pending = chat.queued_messages.iter().flatten().chain(&chat.steering_message);
        pending.any(|pending| pending.id == id)
    }

    /// The questions that the session waits for.
    pub fn needed(&self) -> &[SessionInputRequest] {
        self.session.state.input_needed.as_deref().unwrap_or_default()
    }

    /// The approval mode. A session that has not begun may have only the setting that all AHP clients know.
    pub fn approvals(&self) -> &str {
        let values = self.session.state.config.as_ref().map(|config| &config.values);
        let text = |key: &str| values?.get(key)?.as_str();
        match text("autoApprove") {
            Some("autoApprove") => "all",
            _ => text(APPROVALS_KEY).unwrap_or("safe"),
        }
    }

    /// The current model, if the host names it.
    pub fn model(&self) -> Option<&str> {
        let model = self.session.state.config.as_ref()?.values.get("model")?;
        model.get("id").unwrap_or(model).as_str()
    }
}
