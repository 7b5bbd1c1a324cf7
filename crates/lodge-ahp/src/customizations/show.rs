//! How it is shown.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use ahp_types::state::{
    AgentCustomization, ChildCustomization, Customization, CustomizationEnablement, CustomizationErrorState,
    CustomizationLoadState, CustomizationLoadedState, CustomizationLoadingState, CustomizationType,
    DirectoryCustomization, HookCustomization, McpServerCustomization, PluginCustomization, PromptCustomization,
    RuleCustomization, SkillCustomization,
};
use lodge_host::{AgentDefinition, Host, PartKind, PartPlace, Skill, Within, decision_key, directory_id, server_key};

use super::{
    Decisions,
    offer::{Offer, Server},
    plugins::Plugin,
};
use crate::uri;

fn kind(of: PartKind) -> CustomizationType {
    match of {
        PartKind::Agents => CustomizationType::Agent,
        PartKind::Skills => CustomizationType::Skill,
        PartKind::Rules => CustomizationType::Rule,
        PartKind::Prompts => CustomizationType::Prompt,
        PartKind::Hooks => CustomizationType::Hook,
    }
}

/// The address of something.
pub(super) fn uri_of(plugins: &[Plugin], place: &PartPlace) -> String {
    match &place.within {
        Within::Plugin(at, below) => uri::child(&plugins[*at].given.uri, below),
        Within::Directory(..) | Within::App => place.id.clone(),
    }
}

/// Where something is shown.
struct Spot {
    id: String,
    uri: String,
}

/// Everything of a session's.
pub(super) fn list(offer: &Offer, plugins: &[Plugin], decisions: &Decisions) -> Vec<Customization> {
    let mut list = CustomizationList {
        directories: BTreeMap::new(),
        plugins: plugins.iter().map(|_| Vec::new()).collect(),
        app: Vec::new(),
        all: plugins,
        app_id: String::new(),
        decisions,
    };
    let brought = &super::plugins::brought(plugins);
    for (agent, on) in &offer.agents {
        let place = PartPlace::of_agent(brought, agent);
        list.put(place, *on, |spot, on| {
            ChildCustomization::Agent(agent_child(agent, spot, on))
        });
    }
    for (skill, on) in &offer.skills {
        let place = PartPlace::of_skill(brought, skill);
        list.put(place, *on, |spot, on| {
            ChildCustomization::Skill(skill_child(skill, spot, on))
        });
    }
    for (path, on) in &offer.instructions {
        let place = PartPlace::of_file(brought, PartKind::Rules, path);
        list.put(place, *on, |spot, on| {
            ChildCustomization::Rule(rule_child(path, spot, on))
        });
    }
    for (path, name, description) in &offer.commands {
        let place = PartPlace::of_file(brought, PartKind::Prompts, path);
        list.put(place, true, |spot, _| {
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
        let place = PartPlace::of_file(brought, PartKind::Hooks, path);
        list.put(place, *on, |spot, on| {
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
            None => plugin.brought.servers.contains(&server.name),
        };
        let of = plugins.iter().position(has);
        match of {
            Some(at) => list.plugins[at].push(ChildCustomization::McpServer(Box::new(shown))),
            None => servers.push(Customization::McpServer(Box::new(shown))),
        }
    }
    list.list(plugins, servers)
}

struct CustomizationList<'a> {
    directories: BTreeMap<(PartKind, PathBuf), Vec<ChildCustomization>>,
    plugins: Vec<Vec<ChildCustomization>>,
    app: Vec<ChildCustomization>,
    all: &'a [Plugin],
    /// What apps' agents are in.
    app_id: String,
    decisions: &'a Decisions,
}

impl CustomizationList<'_> {
    fn put(&mut self, place: PartPlace, on: bool, child: impl FnOnce(&Spot, bool) -> ChildCustomization) {
        // In a directory that is off everything is; what it was by itself is shown nevertheless.
        let decisions = &self.decisions.all;
        let on = match decisions.is_on(&place.around) {
            Some(false) => decisions.is_on(&place.key).unwrap_or(true),
            _ => on,
        };
        let uri = uri_of(self.all, &place);
        let child = child(&Spot { id: place.id, uri }, on);
        match place.within {
            Within::Directory(kind, directory) => self.directories.entry((kind, directory)).or_default().push(child),
            Within::Plugin(at, _) => self.plugins[at].push(child),
            Within::App => {
                self.app_id = place.container;
                self.app.push(child);
            }
        }
    }

    fn list(self, plugins: &[Plugin], servers: Vec<Customization>) -> Vec<Customization> {
        let mut all: Vec<Customization> = Vec::new();
        for ((contents, directory), children) in self.directories {
            let (id, place) = (directory_id(contents, &directory), uri::file(&directory));
            all.push(Customization::Directory(DirectoryCustomization {
                name: place.rsplit('/').next().unwrap_or(&place).to_owned(),
                enabled: self.decisions.all.is_on(&decision_key(&id)).unwrap_or(true),
                id,
                uri: place,
                icons: None,
                range: None,
                meta: None,
                client_id: None,
                load: loaded(),
                children: Some(children),
                contents: kind(contents),
                writable: true,
            }));
        }
        if !self.app.is_empty() {
            all.push(Customization::Plugin(PluginCustomization {
                enablement: said(self.decisions.said(&decision_key(&self.app_id)), None),
                id: self.app_id,
                uri: "lodge:/agents".to_owned(),
                name: "Agents of the app".to_owned(),
                icons: None,
                range: None,
                meta: None,
                client_id: None,
                load: loaded(),
                children: Some(self.app),
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
    decided: Vec<CustomizationEnablement>,
    given: Option<&Vec<CustomizationEnablement>>,
) -> Option<Vec<CustomizationEnablement>> {
    let is_global = |said: &&CustomizationEnablement| matches!(said, CustomizationEnablement::Global { .. });
    let mut all = decided;
    if !all.iter().any(|said| is_global(&said)) {
        all.extend(given.into_iter().flatten().find(is_global).cloned());
    }
    (!all.is_empty()).then_some(all)
}

fn plugin_shown(plugin: &Plugin, children: Vec<ChildCustomization>, decisions: &Decisions) -> PluginCustomization {
    let given = &plugin.given;
    PluginCustomization {
        id: plugin.brought.id.clone(),
        uri: given.uri.clone(),
        name: given.name.clone(),
        icons: given.icons.clone(),
        range: given.range.clone(),
        meta: given.meta.clone(),
        client_id: Some(plugin.client.clone()),
        load: Some(match &plugin.fetched {
            None => CustomizationLoadState::Loading(CustomizationLoadingState {}),
            Some(Ok(_)) => CustomizationLoadState::Loaded(CustomizationLoadedState {}),
            Some(Err(error)) => CustomizationLoadState::Error(CustomizationErrorState {
                message: error.to_string(),
            }),
        }),
        children: plugin.copied().is_some().then_some(children),
        enablement: said(
            decisions.said(&decision_key(&plugin.brought.id)),
            given.enablement.as_ref(),
        ),
        version: given
            .version
            .clone()
            .or_else(|| plugin.copied().and_then(|copied| copied.version.clone())),
    }
}

fn server_shown(server: &Server, decisions: &Decisions) -> McpServerCustomization {
    let id = server_key(&server.name);
    // One that its file turns off is off, whoever decided it.
    let mut decided = decisions.said(&id);
    if decided.is_empty() && !server.on {
        decided.push(CustomizationEnablement::Session { enabled: false });
    }
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
    let decisions = Decisions::of(&BTreeMap::new(), None, &host.decisions().all());
    offer.decided(&[], &decisions);
    let all = list(&offer, &[], &decisions);
    (!all.is_empty()).then_some(all)
}
