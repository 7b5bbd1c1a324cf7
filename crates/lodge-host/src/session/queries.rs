//! Queries that only the process that runs a session can answer: no event has the answer.

use std::path::PathBuf;

use lodge_agent::{
    AgentError, Approval, Compaction, ContextSize, Customization, HookFiles, Instruction, Mode, PendingQuestion,
    Prompt, Settings, SubagentSettings, TaskInfo, ToolFilter,
};
use lodge_events::{AutoTier, PermissionRequest, SessionUsageInfo};
use lodge_models::{ModelInfo, ToolSpec};
use lodge_tools::{
    BackgroundShell, Todos,
    custom::{AgentDefinition, Skill},
    rules::Rule,
};
use tokio::sync::watch;

use super::Session;

/// How a session is set, for those who show it. [`lodge_agent::Change`] changes it.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// The model that answers.
    pub model: ModelInfo,
    /// Effort to reason with, where the model offers a choice.
    pub reasoning_effort: Option<String>,
    /// What the provider shall prefer where the choice of the model is left to it.
    pub auto_tier: Option<AutoTier>,
    /// The preference that is to take its place when a message needs it.
    pub pending_auto_tier: Option<Option<AutoTier>>,
    /// The models that the session may use, where only some.
    pub allowed_models: Option<Vec<String>>,
    /// What the session may spend, in the unit that providers count in.
    pub limit: Option<f64>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Further directories that may be written.
    pub additional_directories: Vec<PathBuf>,
    /// Which tools are offered.
    pub tools: ToolFilter,
    /// Interactive, plan or autopilot.
    pub mode: Mode,
    /// What is asked before tools run.
    pub approval: Approval,
    /// The name a person gave the session.
    pub name: Option<String>,
    /// Who made the session.
    pub client_name: Option<String>,
    /// When the conversation is compacted on its own.
    pub compaction: Compaction,
    /// Which hooks of files are in force.
    pub hook_files: HookFiles,
    /// Skills, custom agents and plugins.
    pub customization: Customization,
    /// What is set about sub-agents.
    pub subagents: SubagentSettings,
}

impl From<Settings> for SessionSettings {
    fn from(settings: Settings) -> Self {
        Self {
            model: settings.model.info().clone(),
            reasoning_effort: settings.reasoning_effort,
            auto_tier: settings.auto.tier,
            pending_auto_tier: settings.auto.pending,
            allowed_models: settings.allowed_models,
            limit: settings.limit,
            cwd: settings.cwd,
            additional_directories: settings.additional_directories,
            tools: settings.tools,
            mode: settings.mode,
            approval: settings.approval,
            name: settings.name,
            client_name: settings.client_name,
            compaction: settings.compaction,
            hook_files: settings.hook_files,
            customization: settings.customization,
            subagents: settings.subagents,
        }
    }
}

impl Session {
    /// The settings as they are now.
    pub fn settings(&self) -> SessionSettings {
        self.agent().settings().into()
    }

    /// Whether a turn runs, or a sub-agent.
    pub fn is_busy(&self) -> bool {
        self.agent().is_busy()
    }

    /// Whether the session has left memory, and nothing can be done with it any more.
    pub fn has_ended(&self) -> bool {
        self.agent().has_ended()
    }

    /// Waits until the session has left memory.
    pub async fn ended(&self) {
        self.agent().ended().await;
    }

    /// The open questions, oldest first.
    pub fn pending(&self) -> Vec<PendingQuestion> {
        self.agent().pending()
    }

    /// What is kept when somebody allows a request for longer than once. Blocks.
    pub fn lasting_rules(&self, request: &PermissionRequest) -> Vec<Rule> {
        self.agent().lasting_rules(request)
    }

    /// Messages that wait, next one first; and those meant for the running turn.
    pub fn queue(&self) -> (Vec<Prompt>, Vec<Prompt>) {
        self.agent().queue()
    }

    /// Whether this process began with a message that is not said yet.
    pub fn has_begun(&self, message_id: &str) -> bool {
        self.agent().has_begun(message_id)
    }

    /// Whether a message waits for a client to prepare it and have it said.
    pub fn awaits_preparation(&self, message_id: &str) -> bool {
        self.agent().awaits_preparation(message_id)
    }

    /// What a message that waits says to people, with what no log may hold if it was sent to this process.
    pub fn text_of(&self, message_id: &str) -> Option<String> {
        self.agent().text_of(message_id)
    }

    /// Whether everything may be approved without a question. Policy may forbid it.
    pub fn may_approve_all(&self) -> bool {
        self.agent().may_approve_all()
    }

    /// Whether the rules in force hide each of these files from every tool. Blocks.
    pub fn excludes(&self, paths: &[String]) -> Vec<bool> {
        self.agent().excludes(paths)
    }

    /// About how many tokens the next model call would take.
    pub fn context_size(&self) -> Result<ContextSize, AgentError> {
        self.agent().context_size()
    }

    /// Names and descriptions of the tools that the model may call now.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.agent().tools()
    }

    /// How full the context is, as clients are told at the end of a turn. `None` if nothing was said yet, or nobody knows.
    pub fn context_usage(&self) -> Option<SessionUsageInfo> {
        self.agent().context_usage()
    }

    /// What the agent has noted to do.
    pub async fn todos(&self) -> Todos {
        self.agent().todos().await
    }

    /// The skills, with whether each is on.
    pub async fn skills(&self) -> Result<Vec<(Skill, bool)>, AgentError> {
        self.agent().skills().await
    }

    /// Agents of clients and files, with whether each is on.
    pub async fn found_agents(&self) -> Result<Vec<(AgentDefinition, bool)>, AgentError> {
        self.agent().found_agents().await
    }

    /// The custom agents, and with `builtin` those that this program brings.
    pub async fn custom_agents(&self, builtin: bool) -> Result<Vec<AgentDefinition>, AgentError> {
        self.agent().custom_agents(builtin).await
    }

    /// The custom agent that was chosen, when it is there.
    pub async fn current_agent(&self) -> Result<Option<AgentDefinition>, AgentError> {
        self.agent().current_agent().await
    }

    /// Files with instructions for the system prompt, with whether each is on.
    pub async fn instruction_files(&self) -> Vec<(PathBuf, bool)> {
        self.agent().instruction_files().await
    }

    /// The instructions of files that are read into the system prompt.
    pub async fn instructions(&self) -> Vec<Instruction> {
        self.agent().instructions().await
    }

    /// The sub-agents that run, and those that ended in the background.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.agent().tasks()
    }

    /// Commands that go on, or went on, in the background.
    pub fn background_shells(&self) -> Vec<BackgroundShell> {
        self.agent().background_shells()
    }

    /// Counts up when a command continues in the background, and when one of those ends.
    pub fn background_changed(&self) -> watch::Receiver<u64> {
        self.agent().background_changed()
    }

    /// Waits until no sub-agent works and no turn runs.
    pub async fn tasks_settled(&self) {
        self.agent().tasks_settled().await;
    }

    /// The MCP servers: what they are doing, and what is done to them, is no part of the log.
    pub fn mcp(&self) -> &lodge_mcp::Servers {
        self.agent().mcp()
    }

    /// Counts up whenever the session has changed files.
    pub fn files_changed(&self) -> watch::Receiver<u64> {
        self.agent().changes().changed()
    }
}
