//! A conversation as the state knows it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use ahp_types::StateAction;
use lodge_events::{Timestamp, Uuid};
use lodge_host::Session;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::Effect;
use crate::{
    projection::Projector,
    state::{Conn, Core, Uri},
    wire::Origin,
};

/// An accepted action of a client that is told when the event comes that says it.
pub(crate) struct Cause {
    pub(crate) conn: Arc<Conn>,
    /// Where the client sent it.
    pub(crate) channel: Uri,
    /// The action in the client's words.
    pub(crate) raw: Box<RawValue>,
    pub(crate) origin: Origin,
    /// Who waits until the client was told.
    pub(crate) told: oneshot::Sender<()>,
}

/// One conversation: an event stream of the host, the chat it is shown as, and the way to its agent.
pub(crate) struct Talk {
    pub(crate) session: Uri,
    /// The session that it was made in. Addresses of what it has name that one, also when it was moved.
    pub(crate) born: Uri,
    /// The host's id of the session behind it.
    pub(crate) host_id: String,
    pub(crate) projector: Projector,
    pub(crate) effects: mpsc::UnboundedSender<Effect>,
    /// Whether the host has no session behind it yet.
    pub(crate) is_draft: bool,
    /// The session behind it, while it is in memory.
    pub(crate) agent: Option<Session>,
    /// Whether the host let the session go: what others do to it then is not heard here.
    pub(crate) is_detached: bool,
    /// Before there is a session: the plugins that clients brought.
    pub(crate) plugins: Vec<lodge_host::Plugin>,
    /// The actions that the events of these ids tell.
    pub(crate) causes: HashMap<Uuid, Cause>,
    /// The actions that wait for these turns to be stopped.
    pub(crate) cancels: HashMap<String, Cause>,
    /// The action that waits for the conversation to be cut.
    pub(crate) truncation: Option<Cause>,
    /// Who waits for turns to end.
    pub(crate) turn_waiters: Vec<(String, oneshot::Sender<()>)>,
    /// A steering message that its agent is given with the next turn.
    pub(crate) early_steering: Option<String>,
    /// What clients set and the host will tell again: it is known already, and may be outdated by then.
    expected: VecDeque<StateAction>,
}

impl Cause {
    /// Tells the client where it sent the action.
    pub(crate) fn echo(self, core: &Core) {
        core.echo(&self.conn, &self.channel, &self.raw, &self.origin);
        self.done();
    }

    /// Tells the client that it came to nothing.
    pub(crate) fn reject(self, core: &Core, reason: &str) {
        core.reject(&self.conn, &self.channel, &self.raw, &self.origin, reason);
        self.done();
    }

    /// The client was told.
    pub(crate) fn done(self) {
        // Nobody waits any more where the connection is gone.
        let _ = self.told.send(());
    }
}

impl Talk {
    pub(crate) fn new(
        session: Uri,
        born: Uri,
        host_id: String,
        projector: Projector,
        effects: mpsc::UnboundedSender<Effect>,
        agent: Option<Session>,
    ) -> Self {
        Self {
            session,
            born,
            host_id,
            projector,
            effects,
            is_draft: agent.is_none(),
            agent,
            is_detached: false,
            plugins: Vec::new(),
            causes: HashMap::new(),
            cancels: HashMap::new(),
            truncation: None,
            turn_waiters: Vec::new(),
            early_steering: None,
            expected: VecDeque::new(),
        }
    }

    /// The action of a client that this one says.
    pub(crate) fn cause_of(&mut self, action: &StateAction) -> Option<Cause> {
        match action {
            StateAction::ChatTurnCancelled(cancelled) => self.cancels.remove(&cancelled.turn_id),
            StateAction::ChatTruncated(_) => self.truncation.take(),
            _ => None,
        }
    }

    /// After an action that may end a turn: the action of a client who wanted to stop it, and came too late.
    pub(crate) fn turn_over(&mut self, action: &StateAction) -> Option<Cause> {
        let turn = match action {
            StateAction::ChatTurnCancelled(cancelled) => &cancelled.turn_id,
            StateAction::ChatTurnComplete(complete) => &complete.turn_id,
            StateAction::ChatError(error) => &error.turn_id,
            _ => return None,
        };
        for (_, waiter) in self.turn_waiters.extract_if(.., |(waited, _)| waited == turn) {
            // Nobody waits any more where the connection is gone.
            let _ = waiter.send(());
        }
        self.cancels.remove(turn)
    }

    /// A client set something that the host will tell as an event.
    pub(crate) fn expect(&mut self, action: StateAction) {
        // A draft has nobody to tell it.
        if !self.is_draft {
            self.expected.push_back(action);
        }
    }

    /// Whether an event only tells what a client set here.
    pub(crate) fn is_known(&mut self, action: &StateAction) -> bool {
        let at = self.expected.iter().position(|expected| expected == action);
        if let Some(at) = at {
            self.expected.remove(at);
        }
        at.is_some()
    }

    /// Does not expect any more what could not be set.
    pub(crate) fn unexpect(&mut self, action: &StateAction) {
        self.is_known(action);
    }

    /// The session behind it, if it can be told something.
    pub(crate) fn agent(&self) -> Option<&Session> {
        self.agent.as_ref().filter(|session| !session.has_ended())
    }

    /// A turn begins: its agent is about to be given the message.
    pub(crate) fn begin(&mut self, id: &str, now: Timestamp) {
        self.projector.turn_started(id, now);
    }

    /// Gives its agent something to do, in order.
    pub(crate) fn tell(&self, effect: Effect) {
        // The driver only ends when the conversation is closed, and then nobody waits for this.
        let _ = self.effects.send(effect);
    }
}
