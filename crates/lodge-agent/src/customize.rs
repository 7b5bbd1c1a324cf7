//! Skills and custom agents of a session: the requested ones and those found in files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_events::{CustomAgent, SkillInfo, SkillInvoked, SkillTrigger};
use lodge_mcp::ServerConfig;
use lodge_tools::custom::{AgentDefinition, Found, Kind, Place, Places, Plugin, Skill, find_agents, find_skills};
use lodge_trust::Gate;

use crate::{session::Shared, settings::ToolFilter, subagents::builtin};

/// What a session shall have beside its tools.
#[derive(Debug, Clone)]
pub struct Customization {
    /// The user's directories.
    pub places: Places,
    /// Whether files of the project and the user are looked for.
    pub discover: bool,
    /// Whether the app that opened the session answers for what the project's files start: it chose the folder.
    pub vouched: bool,
    /// Whether there are skills at all.
    pub skills: bool,
    /// Directories with skills that a client names.
    pub skill_directories: Vec<PathBuf>,
    /// Directories with agents that a client names.
    pub agent_directories: Vec<PathBuf>,
    /// Directories with files of hooks that a client names.
    pub hook_directories: Vec<PathBuf>,
    /// Skills that are off.
    pub disabled_skills: BTreeSet<String>,
    /// Agents that a client defines.
    pub agents: Vec<AgentDefinition>,
    /// Built-in agents that are not there.
    pub excluded_agents: Vec<String>,
    /// Tools that only agents which name them may use.
    pub hidden_tools: Vec<String>,
    /// Custom agents that are off: they can neither be chosen nor started.
    pub disabled_agents: BTreeSet<String>,
    /// Files with instructions that are not read.
    pub disabled_instructions: BTreeSet<PathBuf>,
    /// Plugins that the user installed for all sessions.
    pub installed_plugins: Vec<Plugin>,
    /// Plugins that the session was opened with.
    pub own_plugins: Vec<Plugin>,
    /// Plugins that clients bring meanwhile.
    pub plugins: Vec<Plugin>,
    /// The agent that was chosen.
    pub agent: Option<String>,
    /// Other words than their own for agents, by name.
    pub prompts: BTreeMap<String, String>,
}

/// Something that can be turned on and off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Customized {
    /// A skill, by its name.
    Skill(String),
    /// A custom agent, by its name.
    Agent(String),
    /// A file with instructions.
    Instruction(PathBuf),
}

impl Default for Customization {
    fn default() -> Self {
        Self {
            places: Places::default(),
            discover: true,
            vouched: false,
            skills: true,
            skill_directories: Vec::new(),
            agent_directories: Vec::new(),
            hook_directories: Vec::new(),
            disabled_skills: BTreeSet::new(),
            agents: Vec::new(),
            excluded_agents: Vec::new(),
            hidden_tools: Vec::new(),
            disabled_agents: BTreeSet::new(),
            disabled_instructions: BTreeSet::new(),
            plugins: Vec::new(),
            own_plugins: Vec::new(),
            installed_plugins: Vec::new(),
            agent: None,
            prompts: BTreeMap::new(),
        }
    }
}

/// A change of them. What is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CustomizationChange {
    /// Whether files are looked for.
    pub discover: Option<bool>,
    /// Whether the app answers for what the project's files start.
    pub vouched: Option<bool>,
    /// Whether there are skills at all.
    pub skills: Option<bool>,
    /// Directories with skills.
    pub skill_directories: Option<Vec<PathBuf>>,
    /// Directories with agents.
    pub agent_directories: Option<Vec<PathBuf>>,
    /// Directories with files of hooks.
    pub hook_directories: Option<Vec<PathBuf>>,
    /// Skills that are off.
    pub disabled_skills: Option<BTreeSet<String>>,
    /// Agents that a client defines.
    pub agents: Option<Vec<AgentDefinition>>,
    /// Built-in agents that are not there.
    pub excluded_agents: Option<Vec<String>>,
    /// Tools that only agents which name them may use.
    pub hidden_tools: Option<Vec<String>>,
    /// Plugins that clients bring.
    pub plugins: Option<Vec<Plugin>>,
    /// Plugins that the session is opened with.
    pub own_plugins: Option<Vec<Plugin>>,
    /// Plugins that the user installed.
    pub installed_plugins: Option<Vec<Plugin>>,
}

impl CustomizationChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn apply(self, to: &mut Customization) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut to.discover, self.discover);
        set(&mut to.vouched, self.vouched);
        set(&mut to.skills, self.skills);
        set(&mut to.skill_directories, self.skill_directories);
        set(&mut to.agent_directories, self.agent_directories);
        set(&mut to.hook_directories, self.hook_directories);
        set(&mut to.disabled_skills, self.disabled_skills);
        set(&mut to.agents, self.agents);
        set(&mut to.excluded_agents, self.excluded_agents);
        set(&mut to.hidden_tools, self.hidden_tools);
        set(&mut to.plugins, self.plugins);
        set(&mut to.own_plugins, self.own_plugins);
        set(&mut to.installed_plugins, self.installed_plugins);
    }
}

/// What was found. Skills and agents are looked for when the first turn needs them, and again when somebody asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loaded {
    /// Nothing was looked for yet.
    pub(crate) skills: Option<Arc<Found<Skill>>>,
    pub(crate) agents: Option<Arc<Found<AgentDefinition>>>,
}

impl Customization {
    /// Looks for skills. Reads files.
    pub fn find_skills(&self, cwd: &Path) -> Found<Skill> {
        if !self.skills {
            return Found::default();
        }
        let given = self.skill_directories.iter().map(|dir| Place::given(dir, cwd));
        let mut places: Vec<Place> = given.collect();
        places.extend(self.found_places(Kind::Skills, cwd));
        find_skills(&places)
    }

    /// Looks for agents, those of clients first. Reads files.
    pub fn find_agents(&self, cwd: &Path) -> Found<AgentDefinition> {
        let mut found = Found {
            all: self.agents.clone(),
            ..Found::default()
        };
        let given = self.agent_directories.iter().map(|dir| Place::given(dir, cwd));
        let mut places: Vec<Place> = given.collect();
        places.extend(self.found_places(Kind::Agents, cwd));
        let files = find_agents(&places);
        let new = |agent: &AgentDefinition| self.agents.iter().all(|known| known.name != agent.name);
        found.all.extend(files.all.into_iter().filter(new));
        found.warnings = files.warnings;
        found.errors = files.errors;
        found
    }

    /// An agent with the words that it shall have.
    fn worded(&self, mut agent: AgentDefinition) -> AgentDefinition {
        if let Some(prompt) = self.prompts.get(&agent.name) {
            agent.prompt.clone_from(prompt);
        }
        agent
    }

    /// Where files are looked for: the project's come first, then the plugins that the session was opened with and those that
    /// the user installed, then the user's, then what clients bring.
    fn found_places(&self, kind: Kind, cwd: &Path) -> Vec<Place> {
        let mut places = match self.discover {
            true => self.places.of_project(kind, cwd),
            false => Vec::new(),
        };
        let of = |plugin: &Plugin| match kind {
            Kind::Skills => plugin.skills.clone(),
            Kind::Agents => plugin.agents.clone(),
        };
        let own = self.own_plugins.iter().chain(&self.installed_plugins).flat_map(of);
        places.extend(own.map(|path| Place::of_plugin(&path)));
        if self.discover {
            places.extend(self.places.user(kind));
        }
        let brought = self.plugins.iter().flat_map(of);
        places.extend(brought.map(|path| Place::given(&path, cwd)));
        places
    }

    /// Directories that clients name and whose files start programs, or lend skills what they allow.
    pub(crate) fn named_directories(&self) -> Vec<PathBuf> {
        let given = [&self.hook_directories, &self.agent_directories, &self.skill_directories];
        let plugins = self.all_plugins().map(|plugin| &plugin.root);
        given.into_iter().flatten().chain(plugins).cloned().collect()
    }

    /// All plugins, those first that count before others.
    pub fn all_plugins(&self) -> impl Iterator<Item = &Plugin> {
        self.own_plugins
            .iter()
            .chain(&self.installed_plugins)
            .chain(&self.plugins)
    }
}

/// What the names of skills begin with where the log says what is on and off.
pub const SKILL_KEY: &str = "skill:";

/// What the log calls a skill when it says whether the skill is on.
pub fn skill_key(name: &str) -> String {
    format!("{SKILL_KEY}{name}")
}

/// What the log calls an agent without a file of its own when it says whether the agent is on.
pub const AGENT_KEY: &str = "part:lodge:/agents/";

impl Shared {
    /// The skills that are there, with whether each is on. What the log says of this session comes before what is
    /// configured, so whoever asks after a switch was recorded hears of it.
    pub(crate) fn skills(&self) -> Vec<(Skill, bool)> {
        let switches = self.recorder.session_facts(|facts| facts.switches.clone());
        let found = self.custom.lock().skills.clone().unwrap_or_default();
        let settings = self.settings.lock();
        let disabled = &settings.customization.disabled_skills;
        let is_on = |skill: &Skill| match switches.get(&skill_key(&skill.name)) {
            Some(on) => *on,
            None => !disabled.contains(&skill.name),
        };
        let skills = found.all.iter();
        skills.map(|skill| (skill.clone(), is_on(skill))).collect()
    }

    /// The skills that the model may load.
    pub(crate) fn offered_skills(&self) -> Vec<Skill> {
        let skills = self.skills().into_iter();
        skills
            .filter(|(skill, on)| *on && !skill.disable_model_invocation)
            .map(|(skill, _)| skill)
            .collect()
    }

    /// Agents of clients and files that are on.
    pub(crate) fn custom_agents(&self) -> Vec<AgentDefinition> {
        let all = self.found_agents().into_iter();
        all.filter(|(_, on)| *on).map(|(agent, _)| agent).collect()
    }

    /// Agents of clients and files, with whether each is on.
    pub(crate) fn found_agents(&self) -> Vec<(AgentDefinition, bool)> {
        let found = self.custom.lock().agents.clone().unwrap_or_default();
        let settings = self.settings.lock();
        let customization = &settings.customization;
        let agents = found.all.iter();
        agents
            .map(|agent| {
                let on = !customization.disabled_agents.contains(&agent.name);
                (customization.worded(agent.clone()), on)
            })
            .collect()
    }

    /// Agents that this program brings, where nothing takes their place or keeps them out.
    pub(crate) fn builtin_agents(&self) -> Vec<AgentDefinition> {
        let custom = self.custom_agents();
        let settings = self.settings.lock();
        let customization = &settings.customization;
        let excluded = &customization.excluded_agents;
        let mut agents = builtin::all();
        agents.retain(|agent| !excluded.contains(&agent.name) && custom.iter().all(|known| known.name != agent.name));
        agents.into_iter().map(|agent| customization.worded(agent)).collect()
    }

    /// The agents that the model may start.
    pub(crate) fn agent_types(&self) -> Vec<AgentDefinition> {
        let mut agents = self.builtin_agents();
        agents.extend(self.custom_agents().into_iter().filter(|agent| agent.infer));
        let switches = self.recorder.session_facts(|facts| facts.switches.clone());
        agents.retain(|agent| switches.get(&format!("{AGENT_KEY}{}", agent.name)) != Some(&false));
        agents
    }

    pub(crate) fn agent_named(&self, name: &str) -> Option<AgentDefinition> {
        let mut all = self.custom_agents().into_iter().chain(self.builtin_agents());
        all.find(|agent| agent.name == name)
    }

    /// Whose prompt and tools count: a sub-agent's own, or those of the agent that a person chose.
    pub(crate) fn definition(&self) -> Option<Arc<AgentDefinition>> {
        if let Some(sub) = &self.sub {
            return Some(sub.definition.clone());
        }
        let name = self.settings.lock().customization.agent.clone()?;
        self.agent_named(&name).map(Arc::new)
    }

    /// Whether the agent at work may use a tool, beyond what the session's filter says.
    pub(crate) fn agent_may_use(&self, definition: Option<&AgentDefinition>, name: &str, origin: &str) -> bool {
        match definition.and_then(|definition| definition.tools.as_deref()) {
            Some(words) => {
                // All tools of a server are `server/*`.
                let of_server = |word: &String| {
                    let server = word.strip_suffix("/*").filter(|_| origin == "mcp");
                    server.is_some_and(|server| name.starts_with(&format!("{server}-")))
                };
                ToolFilter::of_words(words).allows(name, origin) || words.iter().any(of_server)
            }
            None => {
                let settings = self.settings.lock();
                let hidden = ToolFilter {
                    available: None,
                    excluded: settings.customization.hidden_tools.clone(),
                };
                hidden.allows(name, origin)
            }
        }
    }
}

impl Shared {
    /// Whether the agent at work has the tools of an MCP server: those that an agent brings are its alone.
    pub(crate) fn has_server(&self, definition: Option<&AgentDefinition>, server: &str) -> bool {
        let own = definition.and_then(|definition| definition.mcp_servers.as_ref());
        !self.agent_servers.lock().contains(server) || own.is_some_and(|own| own.look().get(server).is_some())
    }

    /// Starts the MCP servers that an agent brings, unless they run, and tells which may not be started. A name that the session
    /// has is the session's.
    pub(crate) async fn start_own_servers(&self, definition: Option<&AgentDefinition>) -> Vec<String> {
        let (mut new, mut refused) = (Vec::new(), Vec::new());
        let brought = definition.and_then(|agent| Some((agent, agent.mcp_servers.as_ref()?)));
        if let Some((agent, brought)) = brought {
            let gate = self.gate();
            for (name, value) in brought.look().as_object().into_iter().flatten() {
                let known = self.mcp.info(name).is_some();
                if known && !self.agent_servers.lock().contains(name) {
                    continue;
                }
                if let Err(error) = lodge_mcp::check_name(name) {
                    tracing::warn!(session = %self.id, %error, "an agent's MCP server is left out");
                    continue;
                }
                let config = match gate.admit(brought.part(value)) {
                    // One that was refused before may be accepted by now.
                    Ok(_) if known && self.mcp.config(name).is_some() => continue,
                    Ok(value) => ServerConfig::read(&value).map(|config| value.map(|_| config)),
                    Err(why) => {
                        let agent = &agent.name;
                        refused.push(format!(
                            "The MCP server {name} of the agent {agent} was not started: {why}"
                        ));
                        Err(format!("Not started: {why}"))
                    }
                };
                self.agent_servers.lock().insert(name.clone());
                new.push(lodge_mcp::Configured {
                    name: name.clone(),
                    source: lodge_mcp::Source::Client,
                    config,
                });
            }
        }
        if !new.is_empty() {
            self.root().add_mcp_servers(new);
            self.mcp_ready().await;
        }
        for message in &refused {
            if let Err(error) = self.warn_once("mcp", message.clone()) {
                tracing::warn!(session = %self.id, %error, message, "a warning could not be recorded");
            }
        }
        refused
    }

    /// What the project's files may start in this session, at this moment.
    pub(crate) fn gate(&self) -> Gate {
        match self.root().settings.lock().customization.vouched {
            true => Gate::vouched_for(),
            false => Gate::of(&self.trust),
        }
    }
}

/// A skill as clients are told of it.
pub fn skill_info(skill: &Skill, enabled: bool) -> SkillInfo {
    SkillInfo {
        name: skill.name.clone(),
        command_name: Some(skill.name.clone()),
        description: skill.description.clone(),
        source: skill.source.clone(),
        user_invocable: skill.user_invocable,
        enabled,
        path: Some(skill.path.to_string_lossy().into_owned()),
        argument_hint: skill.argument_hint.clone(),
    }
}

/// An agent as clients are told of it.
pub(crate) fn agent_info(agent: &AgentDefinition) -> CustomAgent {
    CustomAgent {
        id: agent.name.clone(),
        name: agent.name.clone(),
        display_name: agent.shown_name().to_owned(),
        description: agent.description.clone(),
        // The wire has no word for an agent that a client defines; it is the user's more than anybody's.
        source: agent.source.as_str().unwrap_or("user").to_owned(),
        tools: agent.tools.clone(),
        user_invocable: agent.user_invocable,
        disable_model_invocation: (!agent.infer).then_some(true),
        model: agent.model.clone(),
        ..CustomAgent::default()
    }
}

impl Shared {
    /// The skills that an agent gets without asking, as they are recorded. What cannot be read is left out.
    pub(crate) async fn preloaded_skills(&self, definition: Option<&AgentDefinition>) -> Vec<SkillInvoked> {
        let wanted = definition.map_or(&[][..], |definition| &definition.skills);
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut skills: Vec<Skill> = self.skills().into_iter().map(|(skill, _)| skill).collect();
        skills.retain(|skill| wanted.contains(&skill.name));
        let read = tokio::task::spawn_blocking(move || {
            let read = |skill: Skill| {
                let content = skill
                    .content()
                    .inspect_err(|error| tracing::warn!(%error, "a skill cannot be read"));
                Some((content.ok()?, skill))
            };
            skills.into_iter().filter_map(read).collect::<Vec<_>>()
        });
        let read = read.await.unwrap_or_default().into_iter();
        read.map(|(content, skill)| self.skill_invoked(&skill, content, SkillTrigger::ContextLoad))
            .collect()
    }
}
