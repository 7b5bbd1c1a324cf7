//! What follows from an accepted action.

use ahp_types::StateAction;
use lodge_host::DecidedFor;

use crate::{
    customizations::ServerRequest,
    talk::{Effect, ForAgent, Setting},
    terminals::TerminalEffect,
};

/// What is to be done about an accepted action.
#[derive(Default)]
pub(crate) struct Plan {
    /// Done before it is published, such as loading turns that it names.
    pub(super) before: Vec<Before>,
    /// For the agent of the conversation, in order.
    pub(super) effects: Vec<Effect>,
    /// What it does to the messages that wait. Clients hear of it when the log says it.
    pub(super) queue: Option<QueueAction>,
    /// What its agent has to do. Clients hear of it when the log says it.
    pub(super) agent: Option<ForAgent>,
    /// Done after it is published.
    pub(super) after: Vec<After>,
    /// It changes nothing: whether its sender is told so.
    pub(super) no_change: Option<NoChange>,
}

pub(super) enum Before {
    LoadTurns(String),
}

/// A change of the messages that wait.
pub(super) enum QueueAction {
    /// The turn of a message begins.
    Begin {
        send: Effect,
        /// The message that waits, and that this one takes the place of.
        instead_of: Option<String>,
    },
    /// A message waits for after the turn, or says something else.
    Set(Effect),
    /// A message is for the running turn, or for the next one.
    Steer {
        send: Effect,
        /// The one that waited so far.
        replaces: Option<String>,
    },
    Remove(String),
    Reorder(Vec<String>),
}

pub(super) enum After {
    ClientsChanged,
    /// The host will tell this again, as an event of its own.
    Expect(Box<StateAction>),
    /// The dispatching client runs no more tools: what it was running has failed.
    ClientGone,
    /// Keep what the person set.
    Keep,
    Terminal(TerminalEffect),
    /// Files of a changeset were marked as reviewed, or not.
    Reviewed,
    /// Annotations changed.
    Annotated,
    /// A customization was turned on or off.
    Decided(String, Vec<(DecidedFor, bool)>),
    /// A request to an MCP server.
    Server(String, ServerRequest),
    /// The directories are others: one is gone, and perhaps another in its place.
    Directories(Option<(String, Option<String>)>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NoChange {
    /// The sender hears its own action again.
    Echo,
    /// Nobody hears anything: an echo would make the sender announce the same again, without end.
    Silence,
}

impl Plan {
    pub(super) fn effect(effect: Effect) -> Self {
        Self {
            effects: vec![effect],
            ..Self::default()
        }
    }

    pub(super) fn queue(action: QueueAction) -> Self {
        Self {
            queue: Some(action),
            ..Self::default()
        }
    }

    pub(super) fn agent(action: ForAgent) -> Self {
        Self {
            agent: Some(action),
            ..Self::default()
        }
    }

    /// Whether it says something to the agent, so that there must be a session to keep it.
    pub(super) fn says_something(&self) -> bool {
        self.queue.is_some() || self.agent.is_some()
    }

    pub(super) fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.effects.iter().filter_map(|effect| match effect {
            Effect::Change(setting) => Some(setting),
            _ => None,
        })
    }

    pub(super) fn then(mut self, after: After) -> Self {
        self.after.push(after);
        self
    }

    pub(super) fn nothing(how: NoChange) -> Self {
        Self {
            no_change: Some(how),
            ..Self::default()
        }
    }
}
