//! Skills, agents and instructions of a session, as its clients see them: each inside the directory it lies in.

use std::{collections::BTreeMap, path::Path};

use ahp_types::{
    StateAction,
    actions::SessionCustomizationsChangedAction,
    state::{
        AgentCustomization, ChildCustomization, Customization, CustomizationLoadState, CustomizationLoadedState,
        CustomizationType, DirectoryCustomization, PluginCustomization, RuleCustomization, SkillCustomization,
    },
};
use lodge_host::{AgentDefinition, AgentError, Session, Skill};

use crate::{face::Face, state::Uri, uri};

/// Everything of a session's, looked for if that was not done yet.
pub(crate) async fn of(session: &Session) -> Result<Vec<Customization>, AgentError> {
    let mut directories: BTreeMap<(u8, String), Vec<ChildCustomization>> = BTreeMap::new();
    let mut add = |kind: u8, path: &Path, child: ChildCustomization| {
        let parent = path.parent().unwrap_or(path);
        directories.entry((kind, uri::file(parent))).or_default().push(child);
    };
    let mut of_clients = Vec::new();
    for agent in session.custom_agents(false).await? {
        let child = ChildCustomization::Agent(agent_child(&agent));
        match &agent.path {
            Some(path) => add(0, path, child),
            None => of_clients.push(child),
        }
    }
    for (skill, on) in session.skills().await? {
        add(1, skill.directory(), ChildCustomization::Skill(skill_child(&skill, on)));
    }
    for path in session.instruction_files().await {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let rule = RuleCustomization {
            id: uri::file(&path),
            uri: uri::file(&path),
            name,
            icons: None,
            range: None,
            meta: None,
            enabled: Some(true),
            description: None,
            always_apply: Some(true),
            globs: None,
        };
        add(2, &path, ChildCustomization::Rule(rule));
    }
    let loaded = || Some(CustomizationLoadState::Loaded(CustomizationLoadedState {}));
    let mut all: Vec<Customization> = directories
        .into_iter()
        .map(|((kind, place), children)| {
            Customization::Directory(DirectoryCustomization {
                id: format!("{kind}:{place}"),
                name: place.rsplit('/').next().unwrap_or(&place).to_owned(),
                uri: place,
                icons: None,
                range: None,
                meta: None,
                client_id: None,
                load: loaded(),
                children: Some(children),
                enabled: true,
                contents: match kind {
                    0 => CustomizationType::Agent,
                    1 => CustomizationType::Skill,
                    _ => CustomizationType::Rule,
                },
                writable: true,
            })
        })
        .collect();
    if !of_clients.is_empty() {
        all.push(Customization::Plugin(PluginCustomization {
            id: "lodge:agents".to_owned(),
            uri: "lodge:/agents".to_owned(),
            name: "Agents of the app".to_owned(),
            icons: None,
            range: None,
            meta: None,
            client_id: None,
            load: loaded(),
            children: Some(of_clients),
            enablement: None,
            version: None,
        }));
    }
    Ok(all)
}

/// The address by which clients choose an agent.
pub(crate) fn agent_uri(agent: &AgentDefinition) -> String {
    match &agent.path {
        Some(path) => uri::file(path),
        None => format!("lodge:/agents/{}", agent.name),
    }
}

fn agent_child(agent: &AgentDefinition) -> AgentCustomization {
    AgentCustomization {
        id: agent_uri(agent),
        uri: agent_uri(agent),
        name: agent.shown_name().to_owned(),
        icons: None,
        range: None,
        meta: None,
        enabled: Some(true),
        description: Some(agent.description.clone()).filter(|text| !text.is_empty()),
        model: agent.model.clone(),
        tools: agent.tools.clone(),
        disable_model_invocation: (!agent.infer).then_some(true),
        disable_user_invocation: (!agent.user_invocable).then_some(true),
    }
}

fn skill_child(skill: &Skill, on: bool) -> SkillCustomization {
    SkillCustomization {
        id: uri::file(&skill.path),
        uri: uri::file(&skill.path),
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

/// The skill of this id.
pub(crate) fn skill_named<'a>(all: &'a [Customization], id: &str) -> Option<&'a str> {
    let children = all.iter().filter_map(|container| match container {
        Customization::Directory(directory) => directory.children.as_deref(),
        _ => None,
    });
    children.flatten().find_map(|child| match child {
        ChildCustomization::Skill(skill) if skill.id == id => Some(skill.name.as_str()),
        _ => None,
    })
}

impl Face {
    /// Shows what a session has, when that is news. Its default chat speaks for it.
    pub(crate) fn customized(&self, chat: &Uri, all: Vec<Customization>) {
        let mut inner = self.inner.lock();
        let Some(session) = inner.talks.get(chat).map(|talk| talk.session.clone()) else {
            return;
        };
        let Some(entry) = inner.core.sessions.get(&session) else {
            return;
        };
        if entry.default_chat != *chat || entry.state.customizations.as_deref().unwrap_or_default() == all {
            return;
        }
        let action = SessionCustomizationsChangedAction { customizations: all };
        inner
            .core
            .publish(&session, &StateAction::SessionCustomizationsChanged(action), None);
        inner.core.settle(&session);
    }
}
