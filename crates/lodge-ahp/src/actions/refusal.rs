//! Reasons to refuse an action, in words for people.

use lodge_host::{AgentError, HostError, RegisterError, TitleError};

use super::{directories::MOST_DIRECTORIES, settings::ROOM};
use crate::{
    annotations::AnnotationRefusal, customizations::DecisionError, dialect::seed::IncomingError, projection::EditError,
    state::QuoteError, terminals::TerminalRefusal,
};

/// The reason why an action is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the action has no type")]
    NoType,
    #[error("no channel is named")]
    NoChannel,
    #[error("this host has no action {0}")]
    UnknownAction(String),
    /// The field is not named: clients of other dialects use other names.
    #[error("a field of the action is missing or has the wrong type")]
    WrongField,
    #[error("the action cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("clients cannot dispatch this for {0}")]
    NotFor(&'static str),
    #[error("{0}")]
    Role(String),
    #[error("there is no such chat")]
    NoChat,
    #[error("there is no such session")]
    NoSession,
    #[error("the session is not open; try again")]
    NotOpen,
    #[error("the session ended; try again")]
    Ended,
    #[error(transparent)]
    Turn(#[from] TurnRefusal),
    #[error(transparent)]
    Call(#[from] CallRefusal),
    #[error(transparent)]
    Answer(#[from] AnswerRefusal),
    #[error(transparent)]
    Directory(#[from] DirectoryRefusal),
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    #[error(transparent)]
    Service(#[from] ServiceRefusal),
    #[error(transparent)]
    Terminal(#[from] TerminalRefusal),
    #[error("settings may have at most {} KiB", ROOM / 1024)]
    SettingsTooLarge,
    #[error("the settings cannot be saved: {0}")]
    SettingsUnsaved(#[source] RegisterError),
    #[error("cannot save it: {0}")]
    Unsaved(#[from] RegisterError),
    #[error("cannot save it: {0}")]
    Unrecorded(#[source] AgentError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Annotation(#[from] AnnotationRefusal),
    #[error(transparent)]
    Decision(#[from] DecisionError),
    #[error(transparent)]
    Quote(#[from] QuoteError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Incoming(#[from] IncomingError),
    #[error(transparent)]
    Title(#[from] TitleError),
}

/// Refusals about turns, queued messages and drafts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnRefusal {
    #[error("a sub-agent's chat can only be read")]
    ReadOnly,
    #[error("clients act for people: the message's origin must be \"user\"")]
    Origin,
    #[error("clients write for people: the draft's origin must be \"user\"")]
    DraftOrigin,
    #[error("the session is not ready")]
    NotReady,
    #[error("a turn is running; queue the message, or steer with it")]
    Busy,
    #[error("a turn is running")]
    StillRunning,
    #[error("the turn did not stop in time; try again")]
    Unending,
    #[error("no such turn is running")]
    NotRunning,
    #[error("there is no such turn")]
    NoTurn,
    #[error("turnId must be new")]
    TurnId,
    #[error("startedAt is not an RFC 3339 time")]
    StartedAt,
    #[error("only the last turn can be resumed, and only if its error says so")]
    NotResumable,
    #[error("the log does not say where that turn ends")]
    EndUnknown,
    #[error("there is no such queued message")]
    NotQueued,
    #[error("the message id must be new")]
    MessageId,
    #[error("a message with this id is already queued; remove it first")]
    WaitsElsewhere,
    #[error("the agent already has this message")]
    Taken,
    #[error("the message is empty")]
    Empty,
}

/// Refusals about tool calls.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallRefusal {
    #[error("there is no such tool call in the running turn")]
    NoCall,
    #[error("the tool call does not wait for a confirmation")]
    NotAsked,
    #[error("there is no such option")]
    NoOption,
    #[error("the option contradicts the answer")]
    Contradiction,
    #[error("edited input can be allowed once or for the session, not always")]
    EditedOnce,
    #[error("another client runs this tool")]
    OtherClient,
    #[error("no client is running this tool call")]
    NotOfClient,
    #[error("the tool call waits for somebody to sign in")]
    WaitsForSignIn,
    #[error("the tool call is not running")]
    NotRunning,
    #[error("the tool call's result does not wait for a confirmation")]
    ResultNotAsked,
}

/// Refusals about answers to questions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerRefusal {
    #[error("there is no such open question")]
    NoQuestion,
    #[error("there is no question {0:?}")]
    Unknown(String),
    #[error("the answer to {0:?} has the wrong type")]
    WrongType(String),
    #[error("{0:?} must be answered")]
    Required(String),
    #[error("the agent no longer waits for this")]
    Over,
    #[error("this is not an open question")]
    NotForPeople,
}

/// Refusals about the directories of sessions and chats.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum DirectoryRefusal {
    #[error("{0} is not a directory of this host")]
    Elsewhere(String),
    #[error("{0} is not a directory that exists")]
    NotThere(String),
    #[error("no directory is named")]
    Unnamed,
    #[error("a session has at most {MOST_DIRECTORIES} directories")]
    TooMany,
    #[error("a session cannot leave the directory that it works in")]
    SessionStays,
    #[error("a chat cannot leave the directory that it works in")]
    ChatStays,
    #[error("a chat of the session works in this directory")]
    InUse,
    #[error("a sub-agent works in the directories of its agent")]
    OfSubAgent,
    #[error("this is not a working directory of the session")]
    NotOfSession,
    #[error("name the directory that the chat works in first")]
    OwnFirst,
}

/// Refusals about sessions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionRefusal {
    #[error("the organisation's policy does not allow approving everything")]
    ForbiddenByPolicy,
    #[error("a client can only speak for itself")]
    NotItself,
    #[error("another client is active")]
    OtherActive,
    #[error("this session has no such customization")]
    NoCustomization,
    #[error("this cannot be turned off")]
    AlwaysOn,
    #[error("too many decisions for other sessions")]
    TooManyDecisions,
    #[error("this session has no such MCP server")]
    NoServer,
    #[error("servers start with the first message of a session")]
    NotBegun,
    #[error("this server is turned off")]
    ServerOff,
    #[error("{value} is not a value for {key:?}")]
    WrongValue { key: String, value: serde_json::Value },
    #[error("there is no model {0:?}")]
    NoModel(String),
    #[error("{0:?} cannot be changed")]
    Fixed(String),
    #[error("a session that has started cannot change where it works")]
    Begun,
}

/// Refusals about channels that are neither chats nor sessions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceRefusal {
    #[error("this client's protocol version has no automations")]
    NoAutomations,
    #[error("clients cannot dispatch anything here")]
    Nothing,
    #[error("this changeset has no review marks")]
    NotReviewed,
    #[error("{0} is not among the changes")]
    NotChanged(String),
}
