//! The consequences of an accepted action.

use std::collections::BTreeMap;

use super::Write;
use crate::{
    conversation::{Effect, ForAgent, Setting},
    customizations::ServerRequest,
    terminals::TerminalEffect,
};

/// What is to be done about an accepted action.
#[derive(Default)]
pub(crate) struct Plan {
    /// Done before it is published, such as loading turns that it names.
    pub(super) before: Vec<Before>,
    /// For the agent of the conversation, in order.
    pub(super) effects: Vec<Effect>,
    /// Its change of the queue. Clients are told when the log has it.
    pub(super) queue: Option<QueueAction>,
    /// Its request to the agent. Clients are told when the log has the result.
    pub(super) agent: Option<ForAgent>,
    /// Its change of the registers. Clients are told when it is written.
    pub(super) write: Option<Write>,
    /// Done after it is published.
    pub(super) after: Vec<After>,
    /// Set when the action changes nothing: whether its sender gets an echo.
    pub(super) no_change: Option<NoChange>,
}

pub(super) enum Before {
    LoadTurns(String),
}

/// A change of the queue.
pub(super) enum QueueAction {
    /// The turn of a message begins.
    Begin {
        send: Effect,
        /// The queued message that this one replaces.
        instead_of: Option<String>,
    },
    /// A message is queued, or its text changes.
    Set(Effect),
    /// A message steers the running turn, or else the next one.
    Steer {
        send: Effect,
        /// The steering message that it replaces.
        replaces: Option<String>,
    },
    Remove(String),
    Reorder(Vec<String>),
}

pub(super) enum After {
    ClientsChanged,
    /// The dispatching client runs no more tools. Its running calls fail.
    ClientGone,
    Terminal(TerminalEffect),
    /// Files of a changeset were marked as reviewed, or not.
    Reviewed,
    /// Annotations changed.
    Annotated,
    /// A customization was turned on or off: what was decided for the session alone, as long as no log says it.
    Decided(BTreeMap<String, bool>),
    /// A request to an MCP server.
    Server(String, ServerRequest),
    /// The directories changed: one was removed, and perhaps replaced.
    Directories(Option<(String, Option<String>)>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NoChange {
    /// The sender gets its own action back.
    Echo,
    /// No echo: it would make the sender announce the same again, without end.
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

    pub(super) fn write(write: Option<Write>) -> Self {
        Self {
            write,
            ..Self::default()
        }
    }

    pub(super) fn agent(action: ForAgent) -> Self {
        Self {
            agent: Some(action),
            ..Self::default()
        }
    }

    /// Whether it is for the agent, so that a session must exist to record it.
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
