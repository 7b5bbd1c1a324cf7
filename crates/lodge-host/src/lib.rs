//! Sessions: create, resume, fork, list, search, delete; who is attached and who listens.
//!
//! This room knows every session and brings them to life and to rest. It may not know any wire.

mod automations;
mod changes;
mod commands;
mod config;
mod connections;
mod custom;
mod export;
mod fork;
mod host;
mod hub;
pub mod import;
mod metrics;
mod migrate;
mod readiness;
mod registers;
mod retention;
mod rewind;
mod schedules;
mod servers;
mod session;
mod settings;
mod stored;
mod trust;
mod watched;
mod worktree;

pub use automations::{
    Automation, AutomationChange, AutomationError, AutomationFace, Automations, Definition, MessageTemplate, Misfire,
    NamedModel, PreparedRun, RUN_HISTORY, Run, RunCause, RunEnd, RunOutcome, RunSession, RunUsage, Schedule,
    SessionTemplate, StopRule, TurnWatch,
};
pub use changes::{Span, WorkTree};
pub use commands::{CommandInfo, CommandSource, Interpreted, Invoked, builtin_commands, command_files};
pub use config::{MAX_TOOL_OUTPUT, McpFiles, ModelChoice, NewSession, Resume, Storage};
pub use connections::{ConnectionLimits, Connections, Slot, TooManyClients};
pub use custom::disabled_skills;
pub use export::{Export, Format};
pub use host::{Caller, Host, HostConfig};
pub use hub::{Listening, Notice, Subscription};
pub use metrics::{Counts, MODEL_CALL_BUCKETS, Metrics};
pub use registers::RegisterError;
pub use retention::{Expired, Expiry, Retention};
pub use rewind::{RewindPoint, Rewound, can_put_back};
pub use schedules::{Clock, ScheduledPrompt};
pub use servers::{logins, mcp_servers};
pub use session::{Attachment, Session};
pub use stored::{LOG_FILE, STORED_DEPTH, STORED_FILES, STORED_FOLDERS, stored_files};
pub use trust::{Brought, Trust};
pub use worktree::{Worktree, WorktreeError, branches, can_begin};

pub use lodge_agent::{
    AccessToken, Agent, AgentError, Answer, AnsweredBy, Approval, AutoModeQuestion, Capabilities, Change, ClientCalls,
    ClientId, ClientSpec, ClientTool, Compacted, Compaction, ContextSize, Customization, CustomizationChange,
    Customized, Delivery, ElicitationAnswer, Ending, ExitPlanAnswer, ExitPlanQuestion, ExternalResult, Facts,
    GitContext, HookFiles, INCOMPLETE_ANSWERS, INTERRUPTED, INTERRUPTED_INFO, INTERRUPTED_TURN, Instruction,
    ManagedPolicy, Mode, ModelSource, NewTask, NoCalls, PendingMessage, PendingMessages, PendingQuestion,
    PermissionDecision, Prompt, Publish, QuestionKind, QueueChange, RulesChange, SECTIONS, SectionChange, Settings,
    SubagentOverride, SubagentSettings, SystemMessage, TaskInfo, TaskStatus, ToolAnswer, ToolFilter, UserInputAnswer,
    UserInputQuestion, begin_checkpoints, instruction_places, instructions, limits, sign_in_id, skill_info, title_of,
};
pub use lodge_log::{
    Catalogue, EventReader, Home, HomeOptions, ListFilter, LogError, Page, SearchHit, SessionSummary, SyncPolicy,
};
pub use lodge_mcp as mcp;
pub use lodge_tools::changes::{Against, Delta, Entry, GitChange, Hash, Restored, Skip};
pub use lodge_tools::custom::{
    AgentDefinition, AgentSource, Found, Kind, Place, Places, Plugin, ROOT_VARIABLES as PLUGIN_ROOT_VARIABLES, Skill,
    Tier, find_agents, find_skills,
};
pub use lodge_trust::{Gate, Origin, Standing, Startable};

pub use lodge_tools::{BackgroundShell, Database, OutputSink, Statement, Table, Todos, ToolUpdate, UserCommand, rules};

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifecycle {
    /// It was made.
    Created(String),
    /// Something was recorded in it.
    Updated(String),
    /// It was removed.
    Deleted(String),
}

/// Why the host did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There is no such session.
    #[error("Session not found: {0}")]
    NotFound(String),
    /// There is such a session already.
    #[error("Session already exists: {0}")]
    AlreadyExists(String),
    /// It makes no sense or cannot be done, and the text says why.
    #[error("{0}")]
    Invalid(String),
    /// What it did to files cannot be told or undone.
    #[error(transparent)]
    Changes(#[from] lodge_tools::changes::ChangesError),
    /// Git refused.
    #[error(transparent)]
    Git(#[from] lodge_tools::changes::GitError),
    /// The session's agent refused.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
}
