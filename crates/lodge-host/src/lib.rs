//! Sessions: create, resume, fork, list, search, delete; who is attached and who listens.
//!
//! This room knows every session and brings them to life and to rest. It may not know any wire.

mod access;
mod annotations;
mod attachments;
mod automations;
mod available;
mod awaited;
mod blocking;
mod changed_files;
mod changes;
mod choices;
mod client_storage;
mod commands;
mod config;
mod connections;
mod counter;
mod custom;
mod customization_watch;
mod decided_parts;
mod decisions;
mod export;
mod extensions;
mod fork;
mod host;
mod hub;
pub mod import;
mod keeper;
mod marks;
mod mcp_trial;
mod metrics;
mod migrate;
mod other_hosts;
mod plugins;
mod push;
mod question_form;
mod readiness;
mod registers;
mod retention;
mod rewind;
mod schedules;
mod servers;
mod session;
mod session_settings;
mod settings;
mod streamed_text;
mod titles;
pub mod tool_calls;
mod trust;
mod unused;
mod worktree;
mod written_messages;

pub use access::Access;
pub use annotations::{Annotation, AnnotationEntry, AnnotationError, quote_annotations};
pub use attachments::{Attached, attached_data, is_shown_as_it_is, selected_lines};
pub use automations::{
    Automation, AutomationChange, AutomationError, AutomationFace, Automations, Definition, MessageTemplate, Misfire,
    NamedModel, PreparedRun, RUN_HISTORY, Run, RunCause, RunEnd, RunOutcome, RunSession, RunUsage, Schedule,
    SessionTemplate, StopRule, TurnWatch,
};
pub use available::{Available, AvailableServer, plugin_servers, read_plugin};
pub use awaited::{AwaitedTurn, AwaitedTurns, ToStop, TurnEnding};
pub use changed_files::{ChangedFile, FileSide, FileVersion, count_files, describe_restored};
pub use changes::{Span, WorkTree};
pub use choices::{APPROVALS, MODES};
pub use client_storage::{
    LOG_FILE, STORED_DEPTH, STORED_FILES, STORED_FOLDERS, is_moving_file, moving_files, stored_files, telling_files,
};
pub use commands::{CommandInfo, CommandSource, Interpreted, Invoked, builtin_commands, command_files, is_mcp_prompt};
pub use config::{MAX_TOOL_OUTPUT, McpFiles, ModelChoice, NewSession, Resume, Storage};
pub use connections::{ConnectionLimits, Connections, Slot, TooManyClients};
pub use counter::Counter;
pub use customization_watch::Watched;
pub use decided_parts::{BroughtPlugin, PartKind, PartPlace, Within, decision_key, directory_id};
pub use decisions::{
    DecidedFor, Decision, Decisions, SessionDecisions, disabled_skills, server_key, server_of, skill_key,
};
pub use export::{Export, Format};
pub use extensions::{AdmittedExtension, AskedExtensions, ExtensionProgram, StartedExtension};
pub use host::{Caller, Host, HostConfig};
pub use hub::{Listening, Notice, Subscription};
pub use keeper::{APPEND_BUCKETS, Keeper, KeeperCounts, Kept, Link, Wire};
pub use marks::{CarriedMessage, ChangeCounts, KnownClient, MadeBy, Marks, SessionMarks};
pub use mcp_trial::servers_on_trial;
pub use metrics::{Backlog, Counts, MODEL_CALL_BUCKETS, Metrics, TURN_BUCKETS};
pub use other_hosts::{Described, GivenUp};
pub use plugins::{Installed, InstalledPlugin, Marketplace, Offer, PluginError, PluginSource, Plugins, Refreshed};
pub use push::{PushKeys, PushSubscription, PushSubscriptions};
pub use question_form::{answer_of_form, form_choices, question_form};
pub use readiness::HomeUse;
pub use registers::RegisterError;
pub use retention::{Expired, Expiry, Retention};
pub use rewind::{RewindPoint, Rewound, can_put_back};
pub use schedules::{Clock, ScheduledPrompt};
pub use servers::{logins, mcp_servers};
pub use session::{Attachment, Session, SessionSettings};
pub use streamed_text::StreamedText;
pub use titles::{TitleError, check_title, title_of_copy};
pub use trust::{Brought, Trust};
pub use worktree::{Worktree, WorktreeError, branches, can_begin, git_context};
pub use written_messages::{Written, is_from_person};

// What commands, answers and questions are made of. Nothing here does anything by itself.
pub use lodge_agent::{
    AccessToken, AgentEnd, AgentError, Answer, AnsweredBy, Approval, ApprovalForRun, AutoModeQuestion, Capabilities,
    Change, ClientCalls, ClientSpec, ClientTool, Compacted, Compaction, ContextSize, Customization,
    CustomizationChange, Customized, Delivery, ElicitationAnswer, Ending, ExitPlanAnswer, ExitPlanQuestion,
    ExternalResult, FactoryAgent, Facts as SessionState, GitContext, HookFiles, INCOMPLETE_ANSWERS, INTERRUPTED,
    INTERRUPTED_INFO, INTERRUPTED_TURN, Instruction, ManagedPolicy, Mode, ModelSource, NewTask, NoCalls, Outcome,
    PREPARATION_FAILED, PendingMessage, PendingMessages, PendingQuestion, PermissionDecision, Prompt, Publish,
    QuestionKind, QueueChange, Remote, RemoteLog, RulesChange, SectionChange, Storing, SubagentOverride,
    SubagentSettings, Supply, SystemMessage, TaskInfo, TaskStatus, ToolAnswer, ToolFilter, UserInputAnswer,
    UserInputQuestion, begin_checkpoints, instruction_places, instructions, limits, sign_in_id, skill_info, title_of,
};
pub use lodge_external::PROVIDER as PROGRAM_PROVIDER;
pub use lodge_log::{
    About, Catalogue, EventReader, Home, HomeOptions, ListFilter, Listed, LogError, Page, Progress, SearchHit,
    SessionSummary, SyncPolicy,
};
pub use lodge_models::ModelInfo;
pub use lodge_tools::{
    BackgroundShell, Database, Editor, Environment, GitFiles, OutputSink, Statement, Table, Todos, ToolUpdate,
    UserCommand,
    changes::{Against, Delta, Entry, GitChange, Hash, Restored, Skip},
    custom::{
        AgentDefinition, AgentSource, Extension, ExtensionSource, Found, Kind, Place, Places, Plugin,
        ROOT_VARIABLES as PLUGIN_ROOT_VARIABLES, Skill, Tier, find_agents, find_skills,
    },
    spill::Pointer as SpillPointer,
};
pub use lodge_trust::{Gate, Origin, Standing, Startable};

/// MCP servers: how they are described, what they are doing.
pub mod mcp {
    pub use lodge_mcp::{
        Admitted, AuthReason, AuthRequest, Call, Configured, LoginOptions, Logins, McpError, OauthClient, Remote,
        Secret, ServerConfig, ServerInfo, Servers, Source, Status, Tool, Transport, check_name, installations,
    };

    /// Files that describe servers.
    pub mod files {
        pub use lodge_mcp::files::{UserFile, file_of, of_person, of_plugin, of_project, of_user};
    }
}

/// Permission rules.
pub mod rules {
    pub use lodge_tools::rules::{
        Access, Policy, Rule, RuleSet, RuleSubject, Scope, client_tool, client_tools, escaped, location, sampling_of,
        server_tool, server_tools,
    };
}

/// Terminals of people, beside the agent.
pub mod terminal {
    pub use lodge_tools::terminal::{Modes, Opening, Output, Piece, Terminal, screen};

    /// Starts a shell in a new terminal.
    pub async fn open(opening: Opening) -> std::io::Result<(Terminal, Output)> {
        crate::blocking::run_blocking(move || Terminal::open(&opening)).await?
    }
}

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifecycle {
    /// It was made.
    Created(String),
    /// Something was recorded in it.
    Updated(String),
    /// It was removed.
    Deleted {
        /// The session.
        id: String,
        /// What its maker called it.
        address: Option<String>,
        /// The session that it was a chat of.
        chat_of: Option<String>,
    },
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
    /// A newer build has written to it what this one does not understand.
    #[error(
        "The session {id} was written by a newer Lodge: {why}. Update Lodge to continue it. It can still be read and exported."
    )]
    Newer {
        /// The session.
        id: String,
        /// What is not understood.
        why: String,
    },
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
