//! The session: state shared by the actor and the turn it runs.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use lodge_events::SessionContextChanged;
use lodge_log::LogError;
use lodge_models::{ToolSpec, size_of, tokens_of};
use lodge_tools::{
    GitFiles, SessionTools, Tool,
    changes::{Cause, Changes, Looked, Touches},
};
use lodge_trust::Store;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    agent_tools,
    answer::Pending,
    changing::Changing,
    client::{ClientTool, Clients},
    compaction::Compacting,
    customize::Loaded,
    hooks::Hooks,
    mcp::McpTool,
    offered::Offered,
    permission::Permissions,
    program::ProgramSlot,
    questions::Questions,
    queue::{Interjections, Queue},
    recorder::Recorder,
    settings::{Mode, Prompt, Settings},
    subagents::{self, Agents, Sub},
};

/// The session as one of its agents sees it. Only the actor, its turn and its sub-agents hold it.
pub(crate) struct Shared {
    pub(crate) id: Arc<str>,
    pub(crate) dir: PathBuf,
    pub(crate) recorder: Recorder,
    pub(crate) pending: Pending,
    /// What was answered before the host went down, for the turn that goes on.
    pub(crate) earlier_answers: Mutex<Questions>,
    pub(crate) settings: Changing<Settings>,
    pub(crate) clients: Arc<Mutex<Clients>>,
    pub(crate) builtins: Arc<[Arc<dyn Tool>]>,
    pub(crate) tool_state: Arc<SessionTools>,
    /// What the session did to files.
    pub(crate) changes: Arc<Changes>,
    pub(crate) permissions: Arc<Permissions>,
    /// What the person trusts of what folders bring.
    pub(crate) trust: Arc<Store>,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) mcp: lodge_mcp::Servers,
    pub(crate) logins: Arc<lodge_mcp::Logins>,
    /// Those of them that only agents have that bring them.
    pub(crate) agent_servers: Arc<Mutex<BTreeSet<String>>>,
    /// Which tools clients and the model know of.
    pub(crate) offered: Mutex<Offered>,
    /// Messages that wait. A sub-agent has none.
    pub(crate) queue: Queue,
    /// What is said to the running turn and no person sent.
    pub(crate) interjections: Arc<Interjections>,
    /// The compaction that runs beside the turns.
    pub(crate) compacting: Compacting,
    /// What the model must be told with the next message.
    pub(crate) notice: Mutex<Option<String>>,
    /// Whether hooks were told that the session begins.
    pub(crate) greeted: AtomicBool,
    /// Whether a turn runs.
    pub(crate) busy: AtomicBool,
    /// The program that works for the session, where it is no model that does.
    pub(crate) program: ProgramSlot,
    /// Whether it failed to continue its conversation when it was last started.
    pub(crate) program_not_continued: AtomicBool,
    /// The slash commands that it understands, once it named them.
    pub(crate) program_commands: Mutex<Vec<lodge_external::Command>>,
    /// How full its context is, once it said so.
    pub(crate) program_usage: Mutex<Option<lodge_events::SessionUsageInfo>>,
    /// Skills and agents that were found.
    pub(crate) custom: Arc<Mutex<Loaded>>,
    /// The sub-agents.
    pub(crate) agents: Arc<Agents>,
    /// Set when this is a sub-agent's view.
    pub(crate) sub: Option<Sub>,
}

/// A tool, whoever runs it.
pub(crate) enum AnyTool {
    Builtin(Arc<dyn Tool>),
    Client(ClientTool),
    Agent(agent_tools::AgentTool),
    Mcp(McpTool),
}

impl AnyTool {
    /// The word for where it comes from, in tool filters.
    fn origin(&self) -> &'static str {
        match self {
            Self::Builtin(_) | Self::Agent(_) => "builtin",
            Self::Client(_) => "custom",
            Self::Mcp(_) => "mcp",
        }
    }
}

impl Shared {
    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().clone()
    }

    /// Whether a person chose the session's name. Logs of earlier builds do not name sessions: their names are from people.
    pub(crate) fn is_named_by_person(&self) -> bool {
        let has_name = self.settings.lock().name.is_some();
        has_name && !self.recorder.facts(|facts| facts.about.has_automatic_name())
    }

    /// The message that is to be said to the running turn next. Nobody sends any to a sub-agent.
    pub(crate) fn next_steering(&self) -> Option<Prompt> {
        match self.sub {
            None => self.queue.next_steering(&self.recorder),
            Some(_) => None,
        }
    }

    pub(crate) fn plan_path(&self) -> PathBuf {
        self.dir.join("plan.md")
    }

    /// The tools that the model may call now, in a stable order.
    pub(crate) fn tools(&self) -> Vec<(ToolSpec, AnyTool)> {
        let settings = self.settings();
        let definition = self.definition();
        let clients = self.clients.lock();
        let client_tools = clients.tools();
        let mut tools = Vec::new();
        for tool in self.builtins.iter() {
            let wanted = settings.memory || tool.name() != lodge_tools::STORE_MEMORY;
            if wanted && !client_tools.iter().any(|client| client.name == tool.name()) {
                let spec = ToolSpec {
                    name: tool.name().into(),
                    description: tool.description().into(),
                    parameters: tool.parameters(),
                };
                tools.push((spec, AnyTool::Builtin(tool.clone())));
            }
        }
        for tool in agent_tools::ALL {
            if client_tools.iter().any(|client| client.name == tool.name()) {
                continue;
            }
            let offered = match tool {
                // The person talks to the session's own agent.
                agent_tools::AgentTool::AskUser => {
                    let by_form = settings.ask_by_form;
                    self.sub.is_none() && clients.any(|can| if by_form { can.elicitation } else { can.user_input })
                }
                agent_tools::AgentTool::ExitPlanMode => {
                    self.sub.is_none() && settings.mode == Mode::Plan && clients.any(|can| can.exit_plan_mode)
                }
                agent_tools::AgentTool::TaskComplete => self.sub.is_none() && settings.mode == Mode::Autopilot,
                agent_tools::AgentTool::Skill => true,
                agent_tools::AgentTool::Task => self.may_delegate(),
                agent_tools::AgentTool::ReadAgent => self.sub.is_none(),
            };
            let spec = match tool {
                _ if !offered => None,
                agent_tools::AgentTool::AskUser if settings.ask_by_form => {
                    Some(agent_tools::AgentTool::ask_by_form_spec())
                }
                agent_tools::AgentTool::Skill => subagents::skill_spec(self),
                agent_tools::AgentTool::Task => Some(subagents::task_spec(self)),
                agent_tools::AgentTool::ReadAgent => Some(subagents::read_agent_spec()),
                _ => Some(tool.spec()),
            };
            tools.extend(spec.map(|spec| (spec, AnyTool::Agent(tool))));
        }
        for tool in client_tools {
            let spec = ToolSpec {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters.clone(),
            };
            tools.push((spec, AnyTool::Client(tool)));
        }
        for (spec, tool) in self.mcp_tools() {
            let known = tools.iter().any(|(known, _)| known.name == spec.name);
            if !known && self.has_server(definition.as_deref(), &tool.server) {
                tools.push((spec, AnyTool::Mcp(tool)));
            }
        }
        drop(clients);
        tools.retain(|(spec, tool)| {
            let origin = tool.origin();
            settings.tools.allows(&spec.name, origin) && self.agent_may_use(definition.as_deref(), &spec.name, origin)
        });
        tools
    }

    /// What the model is told of these tools.
    pub(crate) fn specs(&self) -> Arc<[ToolSpec]> {
        self.tools().into_iter().map(|(spec, _)| spec).collect()
    }

    /// How many tokens the provider counts for one that is estimated.
    fn correction(&self) -> f64 {
        self.recorder.facts(|facts| facts.totals.correction).unwrap_or(1.0)
    }

    /// Estimated tokens, corrected by what the provider counted last.
    pub(crate) fn corrected(&self, estimated: u64) -> u64 {
        (estimated as f64 * self.correction()) as u64
    }

    /// About how many tokens something of a size takes.
    pub(crate) fn estimator(&self) -> impl Fn(usize) -> u64 + use<> {
        let correction = self.correction();
        move |size| (tokens_of(size) as f64 * correction) as u64
    }

    /// About what size so many tokens have.
    pub(crate) fn size_of(&self, tokens: u64) -> usize {
        (size_of(tokens) as f64 / self.correction()) as usize
    }

    /// How full the context is, with a system prompt of so many bytes and these tools.
    pub(crate) fn context_size(&self, system_bytes: usize, tools: &[ToolSpec]) -> Result<ContextSize, LogError> {
        let (messages, conversation) = self.recorder.size()?;
        let mcp: HashSet<String> = self.mcp_tools().into_iter().map(|(spec, _)| spec.name).collect();
        let of_mcp = |spec: &&ToolSpec| mcp.contains(&spec.name);
        let mcp_tools: usize = tools.iter().filter(of_mcp).map(ToolSpec::size).sum();
        let tools: usize = tools.iter().map(ToolSpec::size).sum();
        let tokens = self.estimator();
        Ok(ContextSize {
            messages: messages as u64,
            conversation: tokens(conversation),
            system: tokens(system_bytes),
            tools: tokens(tools),
            mcp_tools: tokens(mcp_tools),
        })
    }

    /// Tells clients when the working directory is in another place of git than they know: the agent may have changed the
    /// branch, or made a repository.
    pub(crate) fn tell_context(&self) -> Result<(), LogError> {
        let root = self.root();
        let cwd = root.settings.lock().cwd.clone();
        let git = GitContext::of(&cwd);
        if root
            .recorder
            .facts(|facts| facts.git.as_ref().is_none_or(|known| *known == git))
        {
            return Ok(());
        }
        root.recorder.record(git.changed(&cwd))?;
        Ok(())
    }

    /// Directories that may be written without a question.
    pub(crate) fn roots(&self) -> Arc<[PathBuf]> {
        let settings = self.root().settings.lock();
        std::iter::once(settings.cwd.clone())
            .chain(settings.additional_directories.iter().cloned())
            .collect()
    }

    /// Looks at the files that a call may change, before it runs. The call must end with [`Shared::files_after`]; what an
    /// abort cuts off is made up for by [`Shared::files_settled`].
    pub(crate) async fn files_before(&self, touches: Touches) -> Option<Looked> {
        if touches == Touches::Nothing {
            return None;
        }
        let cause = self.root().recorder.facts(|facts| facts.last_turn.clone());
        let (changes, roots) = (self.changes.clone(), self.roots());
        let look = move || {
            if let Some((id, event)) = cause {
                changes.begin(Cause { id, event: Some(event) });
            }
            changes.before(touches, &roots)
        };
        tokio::task::spawn_blocking(look).await.ok()
    }

    /// Looks again after it, and writes down what it changed. The look is taken whether or not somebody waits for it.
    pub(crate) fn files_after(&self, looked: Option<Looked>) -> impl Future<Output = ()> + use<> {
        let look = looked.map(|looked| {
            let (changes, tools) = (self.changes.clone(), self.tool_state.clone());
            tokio::task::spawn_blocking(move || changes.after(&looked, tools.has_running()))
        });
        async {
            if let Some(look) = look {
                let _ = look.await;
            }
        }
    }

    /// Takes in what was changed by calls that did not come to their end, or goes on beside.
    pub(crate) async fn files_settled(&self) {
        if self.changes.is_open() {
            let (changes, tools) = (self.changes.clone(), self.tool_state.clone());
            let _ = tokio::task::spawn_blocking(move || changes.settle(tools.has_running())).await;
        }
    }
}

/// About how many tokens the next model call would take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextSize {
    /// Messages of the conversation.
    pub messages: u64,
    /// Their tokens.
    pub conversation: u64,
    /// Tokens of the system prompt.
    pub system: u64,
    /// Tokens of the tools' definitions.
    pub tools: u64,
    /// Those of them that are tools of MCP servers.
    pub mcp_tools: u64,
}

impl ContextSize {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.conversation + self.system + self.tools
    }

    /// What a prompt of so many tokens leaves for the conversation.
    pub(crate) fn room(&self, prompt_limit: u64) -> u64 {
        prompt_limit.saturating_sub(self.system + self.tools).max(1)
    }
}

/// Where git says the directory belongs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitContext {
    /// Root of the worktree.
    pub root: Option<String>,
    /// The repository as `owner/name`.
    pub repository: Option<String>,
    /// The branch that is checked out.
    pub branch: Option<String>,
}

impl GitContext {
    /// The event that tells it.
    pub(crate) fn changed(self, cwd: &Path) -> SessionContextChanged {
        SessionContextChanged {
            cwd: cwd.to_string_lossy().into_owned(),
            git_root: self.root,
            repository: self.repository,
            branch: self.branch,
            ..SessionContextChanged::default()
        }
    }

    /// Reads it from the files of git, without running git.
    pub fn of(cwd: &Path) -> Self {
        let Some(root) = GitFiles::root_around(cwd) else {
            return Self::default();
        };
        let git = GitFiles::of(root);
        let (head, config) = (git.head(), git.config());
        Self {
            root: Some(root.to_string_lossy().into_owned()),
            repository: config
                .lines()
                .find_map(|line| repository(line.trim().strip_prefix("url = ")?)),
            branch: head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned),
        }
    }
}

/// `owner/name` of a remote's address.
fn repository(url: &str) -> Option<String> {
    let path = url.trim_end_matches('/').trim_end_matches(".git");
    let mut parts = path.rsplit(['/', ':']);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let owner = parts.next().filter(|owner| !owner.is_empty())?;
    Some(format!("{owner}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_by_the_end_of_its_address() {
        for (url, expected) in [
            ("git@host.example:owner/name.git", Some("owner/name")),
            ("https://host.example/owner/name", Some("owner/name")),
            ("https://host.example/owner/name.git/", Some("owner/name")),
            ("name", None),
        ] {
            assert_eq!(repository(url).as_deref(), expected, "{url}");
        }
    }
}
