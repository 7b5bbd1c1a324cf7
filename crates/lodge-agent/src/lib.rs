//! The agent: one actor per session, its turn loop, its permissions, and its memory of the conversation.
//!
//! This room knows how a message becomes model calls, tool calls and an answer, and records every step as an event. It may
//! not know any wire or socket, nor how many sessions there are.

mod actor;
mod agent_tools;
mod answer;
mod auto_mode;
mod call;
mod changing;
mod client;
mod compaction;
mod context;
mod customize;
mod facts;
mod handle;
mod hooks;
mod images;
mod instructions;
mod limits;
mod mcp;
mod mcp_call;
mod mcp_login;
mod modes;
mod offered;
mod own_tools;
mod partial;
mod permission;
mod program;
mod questions;
mod queue;
mod recorder;
mod redact;
mod rewound;
mod sampling;
mod session;
mod settings;
mod shortfall;
mod side_question;
mod streamed;
mod subagents;
mod supply;
mod system_prompt;
mod title;
mod tool_call;
mod transcript;
mod turn;
mod withdraw_questions;

pub use actor::{Command, Ending, QueueChange};
pub use answer::{
    AccessToken, Answer, ElicitationAnswer, ExitPlanAnswer, ExternalResult, PendingQuestion, PermissionDecision,
    QuestionKind, ToolAnswer, UserInputAnswer, sign_in_id,
};
pub use client::{
    AutoModeQuestion, Capabilities, ClientCalls, ClientId, ClientSpec, ClientTool, ExitPlanQuestion, NoCalls,
    UserInputQuestion,
};
pub use compaction::{Compacted, begin_checkpoints};
pub use customize::{AGENT_KEY, Customization, CustomizationChange, Customized, SKILL_KEY, skill_info, skill_key};
pub use facts::{
    EVENTS_VERSION, Facts, INTERRUPTED_INFO, INTERRUPTED_TURN, ModelTotals, OpenAgent, OpenCall, OpenSchedule,
    OpenTurn, PREPARATION_FAILED, PRODUCER, Schedules, Totals, further_directories,
};
pub use handle::{Agent, AgentEnd, FactoryAgent, NewAgent, NewTask, Storing};
pub use hooks::{FindHooks, HookFiles};
pub use instructions::{Instruction, instruction_places, instructions};
pub use limits::limits;
pub use lodge_events::AnsweredBy;
pub use permission::ApprovalForRun;
pub use questions::{Questions, RecordedQuestion};
pub use queue::{PendingMessage, PendingMessages};
pub use recorder::{Publish, Remote, RemoteLog, Reopen};
pub use redact::Secrets;
pub use rewound::may_go;
pub use session::{ContextSize, GitContext};
pub use settings::{
    Approval, AutoChoice, Change, Compaction, Delivery, Mode, Outcome, Prompt, RulesChange, Settings, ToolFilter,
};
pub use shortfall::INCOMPLETE_ANSWERS;
pub use subagents::{SubagentOverride, SubagentSettings, TaskInfo, TaskStatus};
pub use supply::{ManagedPolicy, ModelSource, Supply};
pub use system_prompt::{SECTIONS, SectionChange, SystemMessage};
pub use title::title_of;
pub use transcript::INTERRUPTED;
pub use turn::Ended;

/// Why an agent did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The log cannot be written or read.
    #[error(transparent)]
    Log(#[from] lodge_log::LogError),
    /// A turn runs.
    #[error("The session is busy with a turn; wait for session.idle or abort it.")]
    Busy,
    /// A turn runs in another process that has the session open, too.
    #[error("The session is in use: another process runs a turn in it. Wait for that to end, or abort it there.")]
    InUse,
    /// The session has ended.
    #[error("The session has ended; resume it.")]
    Gone,
    /// The turn of a queued message has begun, so it can no longer be changed or replaced.
    #[error("The agent already has this message.")]
    Taken,
    /// It makes no sense or cannot be done, and the text says why.
    #[error("{0}")]
    Refused(String),
}
