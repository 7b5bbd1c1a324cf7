//! Settings of a session, before and while it runs.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use lodge_events::{Attachment, AutoTier, LodgeMessageWritten};
use lodge_models::{Model, ResponseFormat};
use lodge_tools::{custom::tool_alias, rules::Rule};
use serde::{Deserialize, Serialize};

use crate::{
    customize::{Customization, CustomizationChange},
    hooks::HookFiles,
    subagents::SubagentSettings,
    supply::ModelSource,
    system_prompt::SystemMessage,
};

/// Everything about a session that can change while it lives.
#[derive(Clone)]
pub struct Settings {
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// Effort to reason with, where the model offers a choice.
    pub reasoning_effort: Option<String>,
    /// Form of the reasoning's summary, where the provider offers a choice.
    pub reasoning_summary: Option<String>,
    /// What the session may spend, in the unit that providers count in.
    pub limit: Option<f64>,
    /// Whether a model that is rate limited is replaced by the provider's choice without asking.
    pub auto_switch: bool,
    /// What the provider shall prefer where the choice of the model is left to it.
    pub auto: AutoChoice,
    /// Whether deltas are streamed to clients.
    pub streaming: bool,
    /// Working directory.
    pub cwd: PathBuf,
    /// Further directories that may be written.
    pub additional_directories: Vec<PathBuf>,
    /// How the system prompt differs from the built-in one.
    pub system_message: SystemMessage,
    /// Which tools are offered.
    pub tools: ToolFilter,
    /// Interactive, plan or autopilot.
    pub mode: Mode,
    /// What is asked before tools run.
    pub approval: Approval,
    /// The name a person gave the session.
    pub name: Option<String>,
    /// Who made the session, for `user-agent` and lists.
    pub client_name: Option<String>,
    /// Headers for every model call.
    pub headers: BTreeMap<String, String>,
    /// Whether answers shall say what in attached documents they rest on.
    pub citations: bool,
    /// Whether facts about the project are kept, and the model is told those that are.
    pub memory: bool,
    /// Whether and when the conversation is compacted on its own.
    pub compaction: Compaction,
    /// Results longer than this many bytes go to a file.
    pub max_tool_output: usize,
    /// Whether the agent asks the person by forms rather than by plain questions.
    pub ask_by_form: bool,
    /// Whether AGENTS.md and its like are read into the system prompt.
    pub project_instructions: bool,
    /// What the organisation of whoever made the session wants agents to heed.
    pub organization_instructions: Option<String>,
    /// Whether the model is told of the git repository that the session works in.
    pub git: bool,
    /// Which hooks of files are in force.
    pub hook_files: HookFiles,
    /// Further directories whose AGENTS.md and its like are read.
    pub instruction_directories: Vec<PathBuf>,
    /// Skills and custom agents.
    pub customization: Customization,
    /// What is set about sub-agents.
    pub subagents: SubagentSettings,
    /// Where sub-agents get models by name; without it they use the session's.
    pub models: Option<Arc<dyn ModelSource>>,
    /// The models that the session and its sub-agents may use, where only some.
    pub allowed_models: Option<Vec<String>>,
}

impl Settings {
    /// Says no to a model that the session may not use.
    pub(crate) fn check_allowed(&self, model: &str) -> Result<(), String> {
        match &self.allowed_models {
            Some(allowed) if allowed.iter().all(|id| id != model) => Err(format!(
                "Model '{model}' is not allowed in this session. Allowed models: {}",
                allowed.join(", ")
            )),
            _ => Ok(()),
        }
    }
}

/// What the provider shall prefer where the choice of the model is left to it, and what it chose.
#[derive(Clone, Default)]
pub struct AutoChoice {
    /// The preference in force.
    pub tier: Option<AutoTier>,
    /// The one that is to take its place when a message needs it.
    pub pending: Option<Option<AutoTier>>,
    /// The provider's choice.
    pub(crate) model: Option<Arc<dyn Model>>,
}

impl AutoChoice {
    /// One that is in force from the beginning.
    pub fn of(tier: Option<AutoTier>) -> Self {
        Self {
            tier,
            ..Self::default()
        }
    }

    /// The provider is to choose again.
    pub(crate) fn forget_choice(&mut self) {
        self.model = None;
    }
}

/// Which tools the model may see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these, when given.
    pub available: Option<Vec<String>>,
    /// Never these.
    pub excluded: Vec<String>,
}

impl ToolFilter {
    /// The tools that an agent's list means, in the words of any make of agent.
    pub(crate) fn of_words(words: &[String]) -> Self {
        let aliases = words
            .iter()
            .flat_map(|word| tool_alias(word))
            .map(|name| (*name).to_owned());
        // Tools of MCP servers are written `server/tool` and called `server-tool`.
        let of_servers = words.iter().map(|word| word.replace('/', "-"));
        Self {
            available: Some(of_servers.chain(aliases).collect()),
            excluded: Vec::new(),
        }
    }

    /// Whether a tool of this name and origin (`builtin`, `custom` or `mcp`) is offered. An entry names a tool, or all
    /// by `*`, or either of one origin: `custom:*`.
    pub fn allows(&self, name: &str, origin: &str) -> bool {
        let fits = |entry: &String| match entry.split_once(':') {
            Some((of, tool)) if of == origin => tool == name || tool == "*",
            _ => entry == name || entry == "*",
        };
        self.available.as_deref().is_none_or(|list| list.iter().any(fits)) && !self.excluded.iter().any(fits)
    }
}

/// How the agent works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Does what it is told and stops.
    #[default]
    Interactive,
    /// Plans, changes nothing.
    Plan,
    /// Goes on until the task is complete.
    Autopilot,
}

impl Mode {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Plan => "plan",
            Self::Autopilot => "autopilot",
        }
    }

    /// From the word on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Interactive, Self::Plan, Self::Autopilot]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// What is asked before tools run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Harmless things run, the rest is asked.
    #[default]
    AutoSafe,
    /// Also writing inside the directories of the session runs.
    AutoEdit,
    /// Everything that is not covered by a rule is asked, reading too.
    Ask,
    /// Everything runs.
    ApproveAll,
    /// Nothing runs that would have to be asked.
    DenyAll,
}

/// When the conversation is compacted on its own, as shares of what the model's window leaves for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compaction {
    /// Whether it is at all.
    pub enabled: bool,
    /// From here on it is compacted while the turn goes on.
    pub threshold: f64,
    /// From here on the next model call waits for it.
    pub exhaustion: f64,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: 0.80,
            exhaustion: 0.95,
        }
    }
}

/// What a person (or a program in their name) says to the agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Prompt {
    /// The text for the model.
    pub text: String,
    /// The text for people, where it differs.
    pub display_text: Option<String>,
    /// Files, selections, images.
    pub attachments: Vec<Attachment>,
    /// What happens while a turn runs.
    pub delivery: Delivery,
    /// Put before what already waits.
    pub prepend: bool,
    /// `interactive`, `plan`, `autopilot` or `shell`.
    pub agent_mode: Option<String>,
    /// Where it came from, when not from the person.
    pub source: Option<String>,
    /// Headers for the model calls of this message.
    pub headers: BTreeMap<String, String>,
    /// A tool that the model must call first.
    pub required_tool: Option<String>,
    /// The form that the answers of the whole turn must have.
    pub response_format: Option<Arc<ResponseFormat>>,
    /// The id that the message shall have; made up when absent.
    pub message_id: Option<String>,
    /// What is said before it, as messages of their own that are not answered by themselves.
    pub before: Vec<Prompt>,
    /// A command that the person runs: no model is asked, and it waits like any message while a turn runs.
    pub command: Option<String>,
    /// The client that sent it, where what it attaches may have to be read from there.
    pub client: Option<String>,
    /// Its turn begins when a client that prepares messages says so ([`Capabilities::prepares`]).
    ///
    /// [`Capabilities::prepares`]: crate::Capabilities::prepares
    pub needs_preparation: bool,
    /// The queued message that it replaces when it is accepted.
    #[serde(skip)]
    pub replaces: Option<String>,
    /// The parts that the agent does not get, to be recorded when it is accepted.
    #[serde(skip)]
    pub written: Option<Box<LodgeMessageWritten>>,
    /// What came of it already, so that no model is asked. No log has this: the turn records it.
    #[serde(skip)]
    pub outcome: Option<Outcome>,
}

/// What came of a message before a model was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was a command, and this is the answer.
    Answered(String),
    /// It could not be prepared: its turn fails.
    Failed(String),
}

impl Prompt {
    /// What is said next in the same turn. The form of its answers stays.
    pub(crate) fn follow_with(&mut self, next: Self) {
        let format = self.response_format.take();
        *self = next;
        self.response_format = self.response_format.take().or(format);
    }

    /// What a hook says to the model.
    pub(crate) fn of_hook(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            source: Some("hook".into()),
            ..Self::default()
        }
    }
}

/// What happens to a message that comes while a turn runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// It waits for the turn to end.
    #[default]
    Enqueue,
    /// It is put before the next model call of the running turn.
    Immediate,
}

/// A change of settings: plain data. What takes an object is a [`Supply`](crate::Supply).
#[derive(Debug, Clone)]
pub enum Change {
    /// Another effort.
    ReasoningEffort(Option<String>),
    /// Another form of the reasoning's summary.
    ReasoningSummary(Option<String>),
    /// What the provider shall prefer where the choice of the model is left to it.
    AutoTier {
        /// The preference; none for the provider's own.
        tier: Option<AutoTier>,
        /// Whether it is in force at once, and not only when the next message needs it.
        at_once: bool,
    },
    /// What the session may spend.
    Limit(Option<f64>),
    /// Another mode.
    Mode(Mode),
    /// The session's name, or none.
    Name {
        /// The name.
        name: Option<String>,
        /// Whether an app made it up, and no person chose it.
        automatic: bool,
    },
    /// Other tools.
    Tools(ToolFilter),
    /// Another system prompt.
    SystemMessage(SystemMessage),
    /// Other approval.
    Approval(Approval),
    /// Another working directory.
    Cwd(PathBuf),
    /// Further directories.
    AdditionalDirectories(Vec<PathBuf>),
    /// The further directories of its session, and those of all its directories that this chat of it has, the one that it
    /// runs in first; all if absent.
    ChatDirectories {
        /// The further directories of the session.
        further: Vec<PathBuf>,
        /// Those that the chat has.
        chosen: Option<Vec<PathBuf>>,
    },
    /// Whether deltas are streamed.
    Streaming(bool),
    /// Whether answers say what they rest on.
    Citations(bool),
    /// Whether facts about the project are kept.
    Memory(bool),
    /// Whether the agent asks by forms.
    AskByForm(bool),
    /// What becomes of large results.
    LargeOutput {
        /// Those longer than this many bytes go to a file.
        bytes: usize,
        /// In this directory, if not in the session's own.
        dir: Option<PathBuf>,
    },
    /// Who the session belongs to.
    ClientName(Option<String>),
    /// Automatic compaction.
    Compaction(Compaction),
    /// Whether AGENTS.md and its like are read.
    ProjectInstructions(bool),
    /// What the organisation wants agents to heed.
    OrganizationInstructions(Option<String>),
    /// Whether the model is told of the git repository.
    Git(bool),
    /// Other hooks of files.
    HookFiles(HookFiles),
    /// Further directories with instructions.
    InstructionDirectories(Vec<PathBuf>),
    /// Other skills and custom agents.
    Customization(Box<CustomizationChange>),
    /// Other words for an agent, for as long as the session is in memory.
    AgentPrompt {
        /// Its name.
        agent: String,
        /// The words.
        prompt: String,
    },
    /// What is set about sub-agents.
    Subagents(SubagentSettings),
    /// The models that the session may use; none for all.
    AllowedModels(Option<Vec<String>>),
    /// Forget what was approved for this session.
    ForgetApprovals,
    /// Other permission rules.
    Rules(RulesChange),
}

/// A change of permission rules.
#[derive(Debug, Clone)]
pub enum RulesChange {
    /// These take the place of all rules of this session.
    Replace(Vec<Rule>),
    /// These hold in this session, too.
    Add(Vec<Rule>),
    /// These do not hold in this session any more.
    Remove(Vec<Rule>),
    /// These hold in this session's location, for ever.
    AddForLocation(Vec<Rule>),
    /// These do not hold in this session's location any more; with none named, no rule of the location does.
    RemoveForLocation(Option<Vec<Rule>>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_filter_knows_names_wildcards_and_origins() {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (available, excluded, name, origin, expected) in [
            (None, "", "bash", "builtin", true),
            (Some("view edit"), "", "view", "builtin", true),
            (Some("view edit"), "", "bash", "builtin", false),
            (Some("*"), "bash", "bash", "builtin", false),
            (Some("custom:*"), "", "mine", "custom", true),
            (Some("custom:*"), "", "bash", "builtin", false),
            (Some("builtin:bash"), "", "bash", "builtin", true),
            (Some("builtin:bash"), "", "bash", "custom", false),
            (None, "builtin:*", "bash", "builtin", false),
            (Some(""), "", "bash", "builtin", false),
        ] {
            let filter = ToolFilter {
                available: available.map(list),
                excluded: list(excluded),
            };
            assert_eq!(
                filter.allows(name, origin),
                expected,
                "{available:?} {excluded:?} {origin}:{name}"
            );
        }
    }
}
