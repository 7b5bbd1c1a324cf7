//! Conversations: what the state knows of each, what clients may want of its agent, and the driver between the two.

mod acceptance;
mod background;
mod driver;
mod entry;
mod follower;
mod reading;
mod shown;
mod stream;

use std::path::PathBuf;

use ahp_types::state::{Message, SessionActiveClient};
use lodge_host::{Answer, AnsweredBy, Approval, Delivery, Environment, HostError, Mode};
use tokio::sync::oneshot;

pub(crate) use self::{
    acceptance::accept_message,
    background::shell_of,
    driver::Driver,
    entry::{Cause, Conversation, Dispatched, ForAgent},
    follower::Shown,
    stream::{Feed, Route},
};
use crate::{customizations::ServerRequest, session_config::Isolation};

/// What a message begins with that is a command for the shell.
pub(crate) const COMMAND_PREFIX: &str = "!";

/// Says in a message's `_meta` that it is meant as it stands, also when it begins like a command.
pub(crate) const LITERAL: &str = "lodge.literal";

/// The command in a text that is one.
pub(crate) fn command_in(text: &str) -> Option<&str> {
    let command = text.strip_prefix(COMMAND_PREFIX)?.trim();
    (!command.is_empty()).then_some(command)
}

/// Something for the agent to do.
pub(crate) enum Effect {
    /// Give it a message, and what was said in the chats that it refers to.
    Send {
        id: String,
        message: Box<Message>,
        delivery: Delivery,
        chats: Vec<String>,
        /// The client that sent it, if that is not in the log yet.
        client: Option<String>,
    },
    /// Let the host have a session for it, before anything is said.
    Create(oneshot::Sender<Result<(), HostError>>),
    /// Stop a turn.
    Cancel { turn: String },
    /// Answer what it asked.
    Answer {
        request_id: String,
        answer: Box<Answer>,
        by: AnsweredBy,
    },
    /// Change a setting.
    Change(Setting),
    /// Work where the state says, as it is when this is done.
    Directories,
    /// Who runs tools for it.
    Clients(Vec<SessionActiveClient>),
    /// Messages are not to be said any more.
    Withdrawn(Vec<String>),
    /// A message is part of the conversation: nothing of it is prepared any more.
    Said(String),
    /// The session left memory.
    Ended,
    /// What there is to customize it with may have changed.
    Customized,
    /// Something was turned on or off.
    Decided,
    /// Something is wanted of an MCP server.
    Server { id: String, request: ServerRequest },
}

impl Effect {
    /// A message with the client that sends it.
    pub(crate) fn sent_by(mut self, sender: &str) -> Self {
        if let Self::Send { client, .. } = &mut self {
            *client = Some(sender.to_owned()).filter(|sender| !sender.is_empty());
        }
        self
    }

    /// An answer to an open question.
    pub(crate) fn answer(request_id: &str, answer: Answer) -> Self {
        Self::Answer {
            request_id: request_id.to_owned(),
            answer: Box::new(answer),
            by: AnsweredBy::default(),
        }
    }
}

/// What clients can change about a session.
#[derive(Debug, Clone)]
pub(crate) enum Setting {
    /// The person's name for it.
    Title(String),
    Mode(Mode),
    Approval(Approval),
    /// The model, from the next turn on.
    Model(String),
    /// How much the model reasons; none is what it chooses by itself.
    Effort(Option<String>),
    /// Where it will work; only before it begins.
    Isolation(Isolation),
    /// Where its work tree will begin.
    Branch(String),
    Directories(Directories),
}

/// Where an agent may work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directories {
    /// The directories of its session beside the first.
    pub(crate) further: Vec<PathBuf>,
    /// Those of all that it has, when it has not all.
    pub(crate) chosen: Option<Vec<PathBuf>>,
}

impl Setting {
    /// Whether all agents of a session have it, whichever of its chats they are in.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Mode(_) | Self::Approval(_))
    }

    /// Whether clients are told of it when an event says it. Where chats work, the state says first.
    pub(crate) fn is_told_by_events(&self) -> bool {
        match self {
            Self::Title(_) | Self::Mode(_) | Self::Approval(_) | Self::Model(_) | Self::Effort(_) => true,
            Self::Isolation(_) | Self::Branch(_) | Self::Directories(_) => false,
        }
    }
}

/// A session to make when its first message comes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) cwd: Option<PathBuf>,
    /// Where it works beside that.
    pub(crate) further: Vec<PathBuf>,
    /// Those of all that its first chat has, when it has not all.
    pub(crate) chosen: Option<Vec<PathBuf>>,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) mode: Mode,
    pub(crate) approval: Approval,
    pub(crate) title: Option<String>,
    pub(crate) client: String,
    pub(crate) isolation: Isolation,
    /// The branch that a work tree begins at.
    pub(crate) branch: Option<String>,
    /// What its programs begin with, where that is not what the host began with.
    pub(crate) environment: Option<Environment>,
}
