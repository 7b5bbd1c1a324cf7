//! Applies people's decisions about agents, skills, instructions and MCP servers to a session.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use futures_util::future::BoxFuture;
use lodge_agent::{AgentError, Customized, skill_key};
use lodge_files::uri;
use lodge_mcp::Status;
use lodge_tools::custom::{AgentDefinition, Skill};
use tracing::{debug, warn};

use crate::{
    Host, HostError, Session,
    decisions::{SessionDecisions, agent_key, agent_of, server_key, server_of, skill_of},
    host::Inner,
};

/// The agents that apps bring, as one thing.
const APP_AGENTS: &str = "lodge:agents";

/// What a directory holds. Decisions about the directory say its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// Agents.
    Agents,
    /// Skills.
    Skills,
    /// Files with instructions.
    Rules,
    /// Files with commands.
    Prompts,
    /// Files with hooks.
    Hooks,
}

/// A plugin that a client brought to a session.
#[derive(Debug, Clone, Default)]
pub struct BroughtPlugin {
    /// What the session calls it.
    pub id: String,
    /// Where its copy is, once there is one.
    pub root: Option<PathBuf>,
    /// Whether its client wants a part of this name on.
    pub parts: BTreeMap<String, bool>,
    /// The MCP servers that it brought to the session.
    pub servers: Vec<String>,
}

/// Where something is that people can decide about.
#[derive(Debug)]
pub struct PartPlace {
    /// Its id in the session.
    pub id: String,
    /// What decisions call it.
    pub key: String,
    /// The id of what it is in.
    pub container: String,
    /// What decisions call what it is in.
    pub around: String,
    /// What it is in.
    pub within: Within,
}

/// What something is in that people can decide about.
#[derive(Debug)]
pub enum Within {
    /// A directory.
    Directory(PartKind, PathBuf),
    /// The plugin at this place of the list, and where in it.
    Plugin(usize, PathBuf),
    /// The app that defines it.
    App,
}

impl PartPlace {
    fn new(id: String, container: String, within: Within) -> Self {
        Self {
            key: decision_key(&id),
            around: decision_key(&container),
            id,
            container,
            within,
        }
    }

    /// The place of a thing with this file. A skill is in the directory that its folder is in.
    pub fn of_file(plugins: &[&BroughtPlugin], kind: PartKind, path: &Path) -> Self {
        for (at, plugin) in plugins.iter().enumerate() {
            let below = plugin.root.as_ref().and_then(|root| path.strip_prefix(root).ok());
            if let Some(below) = below {
                let id = format!("{}/{}", plugin.id, below.display());
                return Self::new(id, plugin.id.clone(), Within::Plugin(at, below.to_owned()));
            }
        }
        let parent = path.parent().unwrap_or(path);
        let directory = match kind {
            PartKind::Skills => parent.parent().unwrap_or(parent),
            _ => parent,
        };
        let container = directory_id(kind, directory);
        Self::new(
            uri::file(path),
            container,
            Within::Directory(kind, directory.to_owned()),
        )
    }

    /// The place of a skill, which decisions call by its name.
    pub fn of_skill(plugins: &[&BroughtPlugin], skill: &Skill) -> Self {
        Self {
            key: skill_key(&skill.name),
            ..Self::of_file(plugins, PartKind::Skills, &skill.path)
        }
    }

    /// The place of an agent; one that an app defines has no file.
    pub fn of_agent(plugins: &[&BroughtPlugin], agent: &AgentDefinition) -> Self {
        match &agent.path {
            Some(path) => Self::of_file(plugins, PartKind::Agents, path),
            None => Self::new(
                format!("lodge:/agents/{}", agent.name),
                APP_AGENTS.to_owned(),
                Within::App,
            ),
        }
    }
}

/// The id of a directory with files that customise sessions.
pub fn directory_id(kind: PartKind, directory: &Path) -> String {
    format!("{}:{}", kind as u8, uri::file(directory))
}

/// What decisions call a thing with this id, which is no skill and no MCP server.
pub fn decision_key(id: &str) -> String {
    if let Some(path) = uri::path(id) {
        return format!("file:{}", path.display());
    }
    let folder = id.split_once(':');
    match folder.and_then(|(kind, place)| Some((kind, uri::path(place)?))) {
        Some((kind, path)) => format!("folder:{kind}:{}", path.display()),
        None => format!("part:{id}"),
    }
}

impl Session {
    /// What people decided about it.
    pub fn decisions(&self) -> SessionDecisions {
        let wide = self.0.host.upgrade().map(|host| host.decisions.all());
        SessionDecisions::new(&self.switches(), Some(&self.settings().cwd), &wide.unwrap_or_default())
    }

    /// Does what people decided about files that this session finds, as it comes to life. Skills and servers have it by then.
    pub(crate) async fn apply_known_decisions(&self) -> Result<(), AgentError> {
        let decisions = self.decisions();
        let is_of_file = |key: &String| skill_of(key).is_none() && server_of(key).is_none();
        match decisions.keys().any(is_of_file) {
            true => self.apply_decisions(&[], &decisions, &BTreeSet::new()).await,
            false => Ok(()),
        }
    }

    /// Does what people decided about what this session has. What was decided `before`, and is not any more, becomes as it was by
    /// itself.
    pub fn apply_decisions<'a>(
        &'a self,
        plugins: &'a [&'a BroughtPlugin],
        decisions: &'a SessionDecisions,
        before: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            *self.0.brought.lock() = plugins.iter().map(|plugin| (*plugin).clone()).collect();
            let mut todo = Vec::new();
            let mut want = |place: PartPlace, name: &str, is_on: bool, what: Customized| {
                let plugin = plugins.iter().find(|plugin| plugin.id == place.container);
                let said = plugin.and_then(|plugin| plugin.parts.get(name).copied());
                let (own, around) = (decisions.is_on(&place.key).or(said), decisions.is_on(&place.around));
                let on = around.unwrap_or(true) && own.unwrap_or(true);
                let is_decided = own.is_some() || around.is_some();
                let was_decided = before.contains(&place.key) || before.contains(&place.around);
                if (is_decided || was_decided) && on != is_on {
                    todo.push((what, on));
                }
            };
            for (agent, on) in self.found_agents().await? {
                let what = Customized::Agent(agent.name.clone());
                want(PartPlace::of_agent(plugins, &agent), &agent.name, on, what);
            }
            for (skill, on) in self.skills().await? {
                let what = Customized::Skill(skill.name.clone());
                want(PartPlace::of_skill(plugins, &skill), &skill.name, on, what);
            }
            for (path, on) in self.instruction_files().await {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let place = PartPlace::of_file(plugins, PartKind::Rules, &path);
                want(place, &name, on, Customized::Instruction(path));
            }
            for (what, on) in todo {
                self.enable(what, on).await?;
            }
            for server in self.mcp().list() {
                let said = plugins.iter().filter(|plugin| plugin.servers.contains(&server.name));
                let said = said.filter_map(|plugin| plugin.parts.get(&server.name).copied()).next();
                let key = server_key(&server.name);
                let usual = || {
                    let config = self.mcp().config(&server.name);
                    config.is_none_or(|config| !config.disabled)
                };
                let decided = decisions.is_on(&key).or(said);
                let decided = decided.or_else(|| before.contains(&key).then(usual));
                match decided.filter(|on| *on != (server.status != Status::Disabled)) {
                    Some(false) => drop(self.mcp().disable(&server.name)),
                    Some(true) if self.mcp().enable(&server.name).is_ok() => self.start_server(&server.name),
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// The kinds of sub-agents that are off.
    pub async fn agents_off(&self) -> Result<BTreeSet<String>, AgentError> {
        let plugins = self.0.brought.lock().clone();
        let plugins: Vec<&BroughtPlugin> = plugins.iter().collect();
        let found = self.found_agents().await?.into_iter();
        // The log counts: what it says may not be carried out yet.
        let switches = self.switches();
        let is_on = |agent: &AgentDefinition, on: bool| {
            let switched = switches.get(&PartPlace::of_agent(&plugins, agent).key);
            switched.copied().unwrap_or(on)
        };
        let off = found.filter(|(agent, on)| !is_on(agent, *on));
        let mut off: BTreeSet<String> = off.map(|(agent, _)| agent.name).collect();
        let others = switches.iter().filter(|(_, on)| !**on);
        off.extend(others.filter_map(|(key, _)| agent_of(key).map(str::to_owned)));
        Ok(off)
    }

    /// Turns these kinds of sub-agents off for this session alone, and all others on that were off for it alone.
    pub async fn set_agents_off(&self, off: &BTreeSet<String>) -> Result<(), AgentError> {
        let plugins = self.0.brought.lock().clone();
        let plugins: Vec<&BroughtPlugin> = plugins.iter().collect();
        let found = self.found_agents().await?.into_iter();
        let keys: BTreeMap<String, String> = found
            .map(|(agent, _)| (PartPlace::of_agent(&plugins, &agent).key, agent.name))
            .collect();
        let mut switches = self.switches();
        let before: BTreeSet<String> = switches.keys().cloned().collect();
        switches.retain(|key, on| *on || agent_of(key).is_none() && !keys.contains_key(key));
        for name in off {
            let found = keys.iter().find(|(_, found)| *found == name);
            // One that no file defines may come with an app later.
            let key = found.map_or_else(|| agent_key(name), |(key, _)| key.clone());
            switches.insert(key, false);
        }
        self.set_switches(switches)?.done().await?;
        self.apply_decisions(&plugins, &self.decisions(), &before).await
    }

    /// Does what people decided anew for more than one session. A further chat has what is decided about its session alone.
    async fn apply_new_decisions(&self, host: &Host, before: &BTreeSet<String>) -> Result<(), HostError> {
        let own = match self.state().about.chat_of() {
            Some(main) => host.open_session(main).await?.switches(),
            None => self.switches(),
        };
        let decisions = SessionDecisions::new(&own, Some(&self.settings().cwd), &host.decisions().all());
        let plugins = self.0.brought.lock().clone();
        let plugins: Vec<&BroughtPlugin> = plugins.iter().collect();
        Ok(self.apply_decisions(&plugins, &decisions, before).await?)
    }

    /// Starts an MCP server beside everything else; how that ends is told by an event.
    pub fn start_server(&self, name: &str) {
        let (mcp, name) = (self.mcp().clone(), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = mcp.start(&name).await {
                debug!(server = name, %error, "an MCP server does not start");
            }
        });
    }
}

/// Applies decisions for more than one session to the sessions in memory, whoever made the decision.
pub(crate) fn follow_decisions(host: Weak<Inner>) -> impl Future<Output = ()> + Send {
    let known = |host: &Inner| -> BTreeSet<String> { host.decisions.all().into_keys().collect() };
    let from = host.upgrade().map(|host| (host.decisions.changed(), known(&host)));
    async move {
        let Some((mut changed, mut before)) = from else { return };
        while changed.changed().await.is_ok() {
            let Some(inner) = host.upgrade() else { return };
            let host = Host(inner, None);
            let now = known(&host.0);
            let live: Vec<_> = host.0.live.lock().values().map(Arc::downgrade).collect();
            for session in live {
                let Some(session) = session.upgrade().map(Session) else {
                    continue;
                };
                if let Err(error) = session.apply_new_decisions(&host, &before).await {
                    warn!(session = session.id(), %error, "a decision about a session cannot be applied");
                }
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_agent_without_a_file_is_the_one_of_its_id() {
        let agent = AgentDefinition {
            name: "explore".into(),
            path: None,
            ..AgentDefinition::default()
        };
        let place = PartPlace::of_agent(&[], &agent);
        assert_eq!(place.key, decision_key(&place.id));
        assert_eq!(agent_of(&place.key), Some("explore"));
    }
}
