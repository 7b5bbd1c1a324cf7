//! How it is shown.

use std::{collections::BTreeMap, path::Path};

use ahp_types::state::{
    AgentCustomization, ChildCustomization, Customization, CustomizationEnablement, CustomizationErrorState,
    CustomizationLoadState, CustomizationLoadedState, CustomizationLoadingState, CustomizationType,
    DirectoryCustomization, HookCustomization, McpServerCustomization, PluginCustomization, PromptCustomization,
    RuleCustomization, SkillCustomization,
};
use lodge_host::{AgentDefinition, Host, Skill, server_key, skill_key};

use super::{
    Decisions, Own, key_of,
    offer::{Offer, Server},
    plugins::Plugin,
};
use crate::uri;

/// The agents that apps bring, as one thing.
const APP_AGENTS: &str = "lodge:agents";

/// What a directory holds; also the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contents {
    Agents,
    Skills,
    Rules,
    Prompts,
    Hooks,
}

impl Contents {
    fn kind(self) -> CustomizationType {
        match self {
            Self::Agents => CustomizationType::Agent,
            Self::Skills => CustomizationType::Skill,
            Self::Rules => CustomizationType::Rule,
            Self::Prompts => CustomizationType::Prompt,
            Self::Hooks => CustomizationType::Hook,
        }
    }
}

/// Where something is shown.
pub(super) struct Spot {
    pub(super) id: String,
    /// What decisions call it.
    pub(super) key: String,
    pub(super) uri: String,
    /// The id of what it is in.
    pub(super) container: String,
    /// What decisions call what it is in.
    pub(super) around: String,
    place: Place,
}

enum Place {
    Directory(Contents, String),
    Plugin(usize),
    App,
}

/// The spot of a thing with this file. A skill is in the directory that its folder is in.
pub(super) fn spot(plugins: &[Plugin], contents: Contents, path: &Path) -> Spot {
    for (at, plugin) in plugins.iter().enumerate() {
        if let Some(below) = plugin.below(path) {
            let id = format!("{}/{}", plugin.id, below.display());
            let uri = uri::child(&plugin.given.uri, below);
            return Spot::new(id, uri, plugin.id.clone(), Place::Plugin(at));
        }
    }
    let parent = path.parent().unwrap_or(path);
    let directory = match contents {
        Contents::Skills => parent.parent().unwrap_or(parent),
        _ => parent,
    };
    let directory = uri::file(directory);
    let container = format!("{}:{directory}", contents as u8);
    Spot::new(
        uri::file(path),
        uri::file(path),
        container,
        Place::Directory(contents, directory),
    )
}

impl Spot {
    fn new(id: String, uri: String, container: String, place: Place) -> Self {
        Self {
            key: key_of(&id),
            around: key_of(&container),
            id,
            uri,
            container,
            place,
        }
    }
}

/// The spot of a skill, which decisions call by its name.
pub(super) fn skill_spot(plugins: &[Plugin], skill: &Skill) -> Spot {
    Spot {
        key: skill_key(&skill.name),
        ..spot(plugins, Contents::Skills, &skill.path)
    }
}

/// The spot of an agent; one that a client defines has no file.
pub(super) fn agent_spot(plugins: &[Plugin], agent: &AgentDefinition) -> Spot {
    match &agent.path {
        Some(path) => spot(plugins, Contents::Agents, path),
        None => {
            let id = format!("lodge:/agents/{}", agent.name);
            Spot::new(id.clone(), id, APP_AGENTS.to_owned(), Place::App)
        }
    }
}

/// Everything of a session's.
pub(super) fn list(offer: &Offer, plugins: &[Plugin], decisions: &Decisions) -> Vec<Customization> {
    let mut shelf = Shelf {
        directories: BTreeMap::new(),
        plugins: plugins.iter().map(|_| Vec::new()).collect(),
        app: Vec::new(),
        decisions,
    };
    for (agent, on) in &offer.agents {
        let spot = agent_spot(plugins, agent);
        shelf.put(spot, *on, |spot, on| {
            ChildCustomization::Agent(agent_child(agent, spot, on))
        });
    }
    for (skill, on) in &offer.skills {
        let spot = skill_spot(plugins, skill);
        shelf.put(spot, *on, |spot, on| {
            ChildCustomization::Skill(skill_child(skill, spot, on))
        });
    }
    for (path, on) in &offer.instructions {
        let spot = spot(plugins, Contents::Rules, path);
        shelf.put(spot, *on, |spot, on| {
            ChildCustomization::Rule(rule_child(path, spot, on))
        });
    }
    for (path, name, description) in &offer.commands {
        let spot = spot(plugins, Contents::Prompts, path);
        shelf.put(spot, true, |spot, _| {
            ChildCustomization::Prompt(PromptCustomization {
                id: spot.id.clone(),
                uri: spot.uri.clone(),
                name: name.clone(),
                icons: None,
                range: None,
                meta: None,
                enabled: None,
                description: Some(description.clone()).filter(|text| !text.is_empty()),
            })
        });
    }
    for (path, on) in &offer.hooks {
        let spot = spot(plugins, Contents::Hooks, path);
        shelf.put(spot, *on, |spot, on| {
            ChildCustomization::Hook(HookCustomization {
                id: spot.id.clone(),
                uri: spot.uri.clone(),
                name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                icons: None,
                range: None,
                meta: None,
                enabled: Some(on),
            })
        });
    }
    let mut servers = Vec::new();
    for server in &offer.servers {
        let shown = server_shown(server, decisions);
        let has = |plugin: &Plugin| match &server.plugin {
            Some(root) => plugin.copied().is_some_and(|copied| copied.root == *root),
            None => plugin.servers.contains(&server.name),
        };
        let of = plugins.iter().position(has);
        match of {
            Some(at) => shelf.plugins[at].push(ChildCustomization::McpServer(Box::new(shown))),
            None => servers.push(Customization::McpServer(Box::new(shown))),
        }
    }
    shelf.list(plugins, servers)
}

struct Shelf<'a> {
    directories: BTreeMap<(Contents, String), Vec<ChildCustomization>>,
    plugins: Vec<Vec<ChildCustomization>>,
    app: Vec<ChildCustomization>,
    decisions: &'a Decisions,
}

impl Shelf<'_> {
    fn put(&mut self, spot: Spot, on: bool, child: impl FnOnce(&Spot, bool) -> ChildCustomization) {
        // In a directory that is off everything is; what it was by itself is shown nevertheless.
        let on = match self.decisions.get(&spot.around) {
            Some(false) => self.decisions.get(&spot.key).copied().unwrap_or(true),
            _ => on,
        };
        let child = child(&spot, on);
        match spot.place {
            Place::Directory(contents, directory) => {
                self.directories.entry((contents, directory)).or_default().push(child);
            }
            Place::Plugin(at) => self.plugins[at].push(child),
            Place::App => self.app.push(child),
        }
    }

    fn list(self, plugins: &[Plugin], servers: Vec<Customization>) -> Vec<Customization> {
        let mut all: Vec<Customization> = Vec::new();
        for ((contents, place), children) in self.directories {
            let id = format!("{}:{place}", contents as u8);
            all.push(Customization::Directory(DirectoryCustomization {
                name: place.rsplit('/').next().unwrap_or(&place).to_owned(),
                enabled: self.decisions.get(&key_of(&id)).copied().unwrap_or(true),
                id,
                uri: place,
                icons: None,
                range: None,
                meta: None,
                client_id: None,
                load: loaded(),
                children: Some(children),
                contents: contents.kind(),
                writable: true,
            }));
        }
        if !self.app.is_empty() {
            all.push(Customization::Plugin(PluginCustomization {
                id: APP_AGENTS.to_owned(),
                uri: "lodge:/agents".to_owned(),
                name: "Agents of the app".to_owned(),
                icons: None,
                range: None,
                meta: None,
                client_id: None,
                load: loaded(),
                children: Some(self.app),
                enablement: said(self.decisions.said(&key_of(APP_AGENTS)), None),
                version: None,
            }));
        }
        for (plugin, children) in plugins.iter().zip(self.plugins) {
            all.push(Customization::Plugin(plugin_shown(plugin, children, self.decisions)));
        }
        all.extend(servers);
        all
    }
}

fn loaded() -> Option<CustomizationLoadState> {
    Some(CustomizationLoadState::Loaded(CustomizationLoadedState {}))
}

/// Decisions as they are published: those of persons here, and what a client says of all sessions where nobody else did.
fn said(
    decided: &[CustomizationEnablement],
    given: Option<&Vec<CustomizationEnablement>>,
) -> Option<Vec<CustomizationEnablement>> {
    let is_global = |said: &&CustomizationEnablement| matches!(said, CustomizationEnablement::Global { .. });
    let mut all = decided.to_vec();
    if !decided.iter().any(|said| is_global(&said)) {
        all.extend(given.into_iter().flatten().find(is_global).cloned());
    }
    (!all.is_empty()).then_some(all)
}

fn plugin_shown(plugin: &Plugin, children: Vec<ChildCustomization>, decisions: &Decisions) -> PluginCustomization {
    let given = &plugin.given;
    PluginCustomization {
        id: plugin.id.clone(),
        uri: given.uri.clone(),
        name: given.name.clone(),
        icons: given.icons.clone(),
        range: given.range.clone(),
        meta: given.meta.clone(),
        client_id: Some(plugin.client.clone()),
        load: Some(match &plugin.fetched {
            None => CustomizationLoadState::Loading(CustomizationLoadingState {}),
            Some(Ok(_)) => CustomizationLoadState::Loaded(CustomizationLoadedState {}),
            Some(Err(message)) => CustomizationLoadState::Error(CustomizationErrorState {
                message: message.clone(),
            }),
        }),
        children: plugin.copied().is_some().then_some(children),
        enablement: said(decisions.said(&key_of(&plugin.id)), given.enablement.as_ref()),
        version: given
            .version
            .clone()
            .or_else(|| plugin.copied().and_then(|copied| copied.version.clone())),
    }
}

fn server_shown(server: &Server, decisions: &Decisions) -> McpServerCustomization {
    let id = server_key(&server.name);
    // One that its file turns off is off, whoever decided it.
    let off = [CustomizationEnablement::Session { enabled: false }];
    let decided = match decisions.said(&id) {
        [] if !server.on => &off,
        said => said,
    };
    McpServerCustomization {
        enablement: said(decided, None),
        id,
        uri: server.uri.clone(),
        name: server.name.clone(),
        icons: None,
        range: None,
        meta: None,
        state: server.state.clone(),
        channel: None,
        mcp_app: None,
    }
}

fn agent_child(agent: &AgentDefinition, spot: &Spot, on: bool) -> AgentCustomization {
    AgentCustomization {
        id: spot.id.clone(),
        uri: spot.uri.clone(),
        name: agent.shown_name().to_owned(),
        icons: None,
        range: None,
        meta: None,
        enabled: Some(on),
        description: Some(agent.description.clone()).filter(|text| !text.is_empty()),
        model: agent.model.clone(),
        tools: agent.tools.clone(),
        disable_model_invocation: (!agent.infer).then_some(true),
        disable_user_invocation: (!agent.user_invocable).then_some(true),
    }
}

fn skill_child(skill: &Skill, spot: &Spot, on: bool) -> SkillCustomization {
    SkillCustomization {
        id: spot.id.clone(),
        uri: spot.uri.clone(),
        name: skill.name.clone(),
        icons: None,
        range: None,
        meta: None,
        enabled: Some(on),
        description: Some(skill.description.clone()),
        disable_model_invocation: skill.disable_model_invocation.then_some(true),
        disable_user_invocation: (!skill.user_invocable).then_some(true),
    }
}

fn rule_child(path: &Path, spot: &Spot, on: bool) -> RuleCustomization {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    RuleCustomization {
        id: spot.id.clone(),
        uri: spot.uri.clone(),
        // What such a file is, its place says already.
        name: file.strip_suffix(".instructions.md").unwrap_or(&file).to_owned(),
        icons: None,
        range: None,
        meta: None,
        enabled: Some(on),
        description: None,
        always_apply: Some(true),
        globs: None,
    }
}

/// What every session of the host has, wherever it works: the user's own.
pub(crate) async fn agents_of_host(host: &Host) -> Option<Vec<Customization>> {
    let mut offer = Offer::of_draft(host.available_everywhere().await);
    let decisions = Decisions::of(&Own::new(), None, &host.decisions().all());
    offer.decided(&[], &decisions);
    let all = list(&offer, &[], &decisions);
    (!all.is_empty()).then_some(all)
}
