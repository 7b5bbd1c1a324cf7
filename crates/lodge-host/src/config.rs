//! The configuration of a new or resumed session, and the settings that result from it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use futures_util::future::BoxFuture;
use lodge_agent::{
    AgentError, Approval, AutoChoice, Change, Compaction, Customization, CustomizationChange, Facts, HookFiles, Mode,
    ModelSource, Settings, SubagentSettings, Supply, SystemMessage, ToolFilter, further_directories,
};
use lodge_events::{AutoTier, LodgeChat};
use lodge_mcp::Configured;
use lodge_models::{Catalogue, Model};
use lodge_tools::{Database, custom::Places};

use crate::{HostError, host::Host, titles::check_title};

/// Which model a session shall use.
#[derive(Clone, Default)]
pub enum ModelChoice {
    /// The host's default, or the one it had.
    #[default]
    Default,
    /// One of the host's, by name.
    Named(String),
    /// One that the client brings.
    Given(Arc<dyn Model>),
}

/// Which MCP servers of files a session has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum McpFiles {
    /// None.
    Off,
    /// The person's own, and those of the folder it works in if the person trusts that.
    #[default]
    Trusted,
    /// Also those of a folder that nobody said to trust; and the person's own from this folder, where it is given.
    All(Option<PathBuf>),
}

/// Where a client keeps a session's files, when it does: what is in the session's directory here is a copy.
#[derive(Clone, Default)]
pub struct Storage {
    /// The client's name for the session's directory, which models are told.
    pub shown_as: Option<PathBuf>,
    /// The database for the `sql` tool, where the client keeps that too.
    pub database: Option<Arc<dyn Database>>,
}

/// A session to make. Everything has a sensible default.
#[derive(Clone)]
pub struct NewSession {
    /// The id; made up when absent.
    pub id: Option<String>,
    /// The model.
    pub model: ModelChoice,
    /// Effort to reason with.
    pub reasoning_effort: Option<String>,
    /// What it may spend, in the unit that providers count in.
    pub limit: Option<f64>,
    /// What the provider shall prefer where the choice of the model is left to it.
    pub auto_tier: Option<AutoTier>,
    /// Whether deltas are streamed.
    pub streaming: bool,
    /// Working directory; the host's when absent.
    pub cwd: Option<PathBuf>,
    /// Further directories that may be written.
    pub additional_directories: Vec<PathBuf>,
    /// The branch that a worktree for it begins at, when it shall have one ([`crate::Session::make_worktree`]).
    pub worktree: Option<String>,
    /// The system prompt.
    pub system_message: SystemMessage,
    /// Which tools are offered.
    pub tools: ToolFilter,
    /// The mode.
    pub mode: Mode,
    /// What is asked before tools run.
    pub approval: Approval,
    /// The person's name for it.
    pub name: Option<String>,
    /// Who makes it.
    pub client_name: Option<String>,
    /// Headers for every model call.
    pub headers: BTreeMap<String, String>,
    /// Automatic compaction.
    pub compaction: Compaction,
    /// Whether AGENTS.md and its like are read.
    pub project_instructions: bool,
    /// Which hooks of files are in force.
    pub hook_files: HookFiles,
    /// MCP servers that files describe.
    pub mcp_files: McpFiles,
    /// MCP servers that the client brings.
    pub mcp_servers: Vec<Configured>,
    /// Further directories whose AGENTS.md and its like are read.
    pub instruction_directories: Vec<PathBuf>,
    /// Skills and custom agents; where the user's are is the host's to say.
    pub customization: Customization,
    /// The models that the session may use, where only some.
    pub allowed_models: Option<Vec<String>>,
    /// The custom agent to begin with.
    pub agent: Option<String>,
    /// Where sub-agents get models by name; from the host when absent.
    pub models: Option<Arc<dyn ModelSource>>,
    /// Where its files are kept.
    pub storage: Storage,
    /// What makes it a chat of another session.
    pub chat: Option<LodgeChat>,
}

impl Default for NewSession {
    fn default() -> Self {
        Self {
            id: None,
            model: ModelChoice::Default,
            reasoning_effort: None,
            limit: None,
            auto_tier: None,
            streaming: true,
            cwd: None,
            additional_directories: Vec::new(),
            worktree: None,
            system_message: SystemMessage::Default,
            tools: ToolFilter::default(),
            mode: Mode::Interactive,
            approval: Approval::AutoSafe,
            name: None,
            client_name: None,
            headers: BTreeMap::new(),
            compaction: Compaction::default(),
            project_instructions: true,
            hook_files: HookFiles::default(),
            allowed_models: None,
            mcp_files: McpFiles::default(),
            mcp_servers: Vec::new(),
            instruction_directories: Vec::new(),
            customization: Customization::default(),
            agent: None,
            models: None,
            storage: Storage::default(),
            chat: None,
        }
    }
}

/// Results longer than this many bytes go to a file.
pub const MAX_TOOL_OUTPUT: usize = 50 * 1024;

/// The host's models, for sub-agents.
struct OfCatalogue(Catalogue);

impl ModelSource for OfCatalogue {
    fn model(&self, name: String) -> BoxFuture<'static, Result<Arc<dyn Model>, String>> {
        let found = self.0.resolve(Some(&name)).map_err(|error| error.to_string());
        Box::pin(std::future::ready(found))
    }

    fn names(&self) -> BoxFuture<'static, Vec<String>> {
        let names = self.0.list().into_iter().map(|info| info.id).collect();
        Box::pin(std::future::ready(names))
    }

    fn agents(&self) -> Vec<String> {
        self.0.agents()
    }
}

/// How a session is taken up again. What is absent stays as it was.
#[derive(Clone, Default)]
pub struct Resume {
    /// Another model.
    pub model: ModelChoice,
    /// Another effort.
    pub reasoning_effort: Option<String>,
    /// What it may spend from now on.
    pub limit: Option<f64>,
    /// Whether deltas are streamed.
    pub streaming: Option<bool>,
    /// Another working directory.
    pub cwd: Option<PathBuf>,
    /// Other further directories.
    pub additional_directories: Option<Vec<PathBuf>>,
    /// Other further directories with instructions.
    pub instruction_directories: Option<Vec<PathBuf>>,
    /// Another system prompt.
    pub system_message: Option<SystemMessage>,
    /// Other tools.
    pub tools: Option<ToolFilter>,
    /// Other approval.
    pub approval: Option<Approval>,
    /// Who takes it up.
    pub client_name: Option<String>,
    /// Automatic compaction.
    pub compaction: Option<Compaction>,
    /// Other hooks of files.
    pub hook_files: Option<HookFiles>,
    /// Other MCP servers of files.
    pub mcp_files: Option<McpFiles>,
    /// MCP servers to add.
    pub mcp_servers: Vec<Configured>,
    /// Other skills and custom agents.
    pub customization: Option<CustomizationChange>,
    /// The custom agent to go on with.
    pub agent: Option<String>,
    /// Where sub-agents get models by name.
    pub models: Option<Arc<dyn ModelSource>>,
    /// Whether tool calls and questions that were open are taken up again; otherwise they count as interrupted.
    pub continue_pending: bool,
    /// Whether it is done without a `session.resume`: to join a session rather than to take it up.
    pub silent: bool,
}

impl Host {
    fn model(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, HostError> {
        match choice {
            ModelChoice::Given(model) => Ok(model.clone()),
            ModelChoice::Named(name) => self.resolve_model(Some(name)),
            ModelChoice::Default => self.resolve_model(None),
        }
    }

    /// One of the caller's models by name, or its default.
    pub(crate) fn resolve_model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, HostError> {
        self.models()
            .resolve(name)
            .map_err(|error| HostError::Invalid(error.to_string()))
    }

    pub(crate) fn settings(&self, new: &NewSession) -> Result<Settings, HostError> {
        let cwd = match &new.cwd {
            Some(cwd) => std::path::absolute(self.cwd().join(cwd)).unwrap_or_else(|_| cwd.clone()),
            None => self.cwd(),
        };
        let models = match &new.models {
            Some(models) => models.clone(),
            None => Arc::new(OfCatalogue(self.models())),
        };
        let name = new.name.as_deref().filter(|name| !name.is_empty());
        name.map_or(Ok(()), check_title).map_err(AgentError::from)?;
        let mut customization = new.customization.clone();
        customization.places = Places::of_user(self.0.home_path());
        customization
            .disabled_skills
            .extend(self.decisions().disabled_skills_at(&cwd));
        customization.installed_plugins = self.plugins().enabled();
        Ok(Settings {
            customization,
            subagents: SubagentSettings::default(),
            models: Some(models),
            allowed_models: new.allowed_models.clone(),
            reasoning_summary: None,
            organization_instructions: None,
            git: true,
            model: self.model(&new.model)?,
            reasoning_effort: new.reasoning_effort.clone(),
            limit: new.limit,
            auto_switch: false,
            auto: AutoChoice::of(new.auto_tier.clone()),
            streaming: new.streaming,
            cwd,
            additional_directories: new.additional_directories.clone(),
            system_message: new.system_message.clone(),
            tools: new.tools.clone(),
            mode: new.mode,
            approval: new.approval,
            name: new.name.clone(),
            client_name: new.client_name.clone(),
            headers: new.headers.clone(),
            citations: false,
            memory: self.0.keeps_memories.load(Ordering::Relaxed),
            compaction: new.compaction,
            max_tool_output: MAX_TOOL_OUTPUT,
            ask_by_form: false,
            project_instructions: new.project_instructions,
            hook_files: new.hook_files,
            instruction_directories: new.instruction_directories.clone(),
        })
    }

    /// The settings of a session that is read back from its log.
    pub(crate) fn settings_of(&self, id: &str, facts: &Facts) -> Result<Settings, HostError> {
        let mut settings = self.settings(&NewSession {
            reasoning_effort: facts.reasoning_effort.clone(),
            limit: facts.limit,
            approval: facts.approval.as_ref().map(Approval::from).unwrap_or_default(),
            ..NewSession::default()
        })?;
        if let Some(name) = &facts.model {
            // A model that is not there any more (a client's own, a removed provider) is no reason to lose the session.
            match self.models().resolve(Some(name)) {
                Ok(model) => settings.model = model,
                Err(error) => tracing::info!(session = id, %error, "the session continues with the default model"),
            }
        }
        if let Some(cwd) = facts.cwd.as_ref().map(PathBuf::from).filter(|cwd| cwd.is_dir()) {
            settings.cwd = cwd;
        }
        settings.auto = AutoChoice::of(facts.auto_tier.clone());
        if let Some(mode) = facts.mode.as_deref().and_then(Mode::parse) {
            settings.mode = mode;
        }
        settings.customization.agent = facts.agent.clone();
        let disabled = &mut settings.customization.disabled_skills;
        disabled.extend(self.decisions().disabled_skills_at(&settings.cwd));
        settings.additional_directories = further_directories(&facts.about.directories);
        let labels = self.0.labels(id);
        settings.name = match &facts.about.named {
            Some(named) => named.name.clone(),
            // A log of an earlier build does not say it.
            None => labels.name.filter(|_| labels.user_named),
        };
        settings.client_name = labels.client_name;
        Ok(settings)
    }

    /// What resuming brings.
    pub(crate) fn supplies(&self, resume: &Resume) -> Result<Vec<Supply>, HostError> {
        let mut supplies = Vec::new();
        if !matches!(resume.model, ModelChoice::Default) {
            supplies.push(Supply::Model {
                model: self.model(&resume.model)?,
                reasoning_effort: resume.reasoning_effort.clone(),
            });
        }
        supplies.extend(resume.models.clone().map(Supply::Models));
        Ok(supplies)
    }
}

impl Resume {
    /// What resuming changes.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        if matches!(self.model, ModelChoice::Default) {
            let effort = self.reasoning_effort.clone();
            changes.extend(effort.map(|effort| Change::ReasoningEffort(Some(effort))));
        }
        changes.extend(self.limit.map(|limit| Change::Limit(Some(limit))));
        changes.extend(self.streaming.map(Change::Streaming));
        changes.extend(self.cwd.clone().map(Change::Cwd));
        changes.extend(self.additional_directories.clone().map(Change::AdditionalDirectories));
        changes.extend(self.instruction_directories.clone().map(Change::InstructionDirectories));
        changes.extend(self.system_message.clone().map(Change::SystemMessage));
        changes.extend(self.tools.clone().map(Change::Tools));
        changes.extend(self.approval.map(Change::Approval));
        changes.extend(self.client_name.clone().map(|name| Change::ClientName(Some(name))));
        changes.extend(self.compaction.map(Change::Compaction));
        changes.extend(self.hook_files.map(Change::HookFiles));
        let customization = self.customization.clone();
        changes.extend(customization.map(|change| Change::Customization(Box::new(change))));
        changes
    }
}
