//! What a session has beside its tools, as its clients see it and turn it on and off: skills, agents, files with
//! instructions and commands, each inside the directory or the plugin it lies in, and MCP servers.

mod auth;
mod decided;
mod drive;
mod fetch;
mod offer;
mod plugins;
mod show;

use ahp_types::{
    StateAction,
    actions::{
        SessionCustomizationRemovedAction, SessionCustomizationUpdatedAction, SessionCustomizationsChangedAction,
        SessionMcpServerStateChangedAction,
    },
    state::{ChildCustomization, Customization, McpServerCustomization as McpServer, McpServerState},
};

use lodge_host::{decision_key, skill_key};

pub(crate) use self::{
    auth::{Watchers, requirement},
    decided::{DecisionError, Decisions, decision, given, shown},
    drive::{Custom, ServerRequest, is_news},
    fetch::place as plugins_place,
    show::agents_of_host,
};
use crate::{face::Face, state::Uri};

/// So many single changes are told one by one; more of them as a whole.
const FEW: usize = 8;

/// One thing in a list of customizations.
pub(crate) struct Thing {
    pub(crate) id: String,
    /// What decisions call it.
    pub(crate) key: String,
    /// What clients of the seed's dialect, which know no ids, name it by.
    pub(crate) seed_uri: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// Whether it is on; none for what cannot be turned off.
    pub(crate) on: Option<bool>,
    pub(crate) server: Option<McpServerState>,
    pub(crate) client: Option<String>,
}

impl Thing {
    fn new(id: &str, uri: &str, name: &str, on: Option<bool>) -> Self {
        Self {
            id: id.to_owned(),
            key: decision_key(id),
            seed_uri: uri.to_owned(),
            name: name.to_owned(),
            description: None,
            on,
            server: None,
            client: None,
        }
    }

    fn server(server: &ahp_types::state::McpServerCustomization) -> Self {
        let on = decision(server.enablement.as_deref().unwrap_or_default()).unwrap_or(true);
        let uri = format!("lodge:/mcp/{}", server.name);
        let mut thing = Self::new(&server.id, &uri, &server.name, Some(on));
        thing.key.clone_from(&server.id);
        thing.server = Some(server.state.clone());
        thing
    }

    fn of_child(child: &ChildCustomization) -> Option<Self> {
        use ChildCustomization as C;
        let on = |enabled: Option<bool>| Some(enabled.unwrap_or(true));
        let (mut thing, description) = match child {
            C::Agent(it) => (Self::new(&it.id, &it.uri, &it.name, on(it.enabled)), &it.description),
            C::Skill(it) => (Self::new(&it.id, &it.uri, &it.name, on(it.enabled)), &it.description),
            C::Rule(it) => (Self::new(&it.id, &it.uri, &it.name, on(it.enabled)), &it.description),
            C::Prompt(it) => (Self::new(&it.id, &it.uri, &it.name, None), &it.description),
            C::Hook(it) => (Self::new(&it.id, &it.uri, &it.name, None), &None),
            C::McpServer(server) => return Some(Self::server(server)),
            C::Unknown(_) => return None,
        };
        thing.description.clone_from(description);
        if let C::Skill(it) = child {
            thing.key = skill_key(&it.name);
        }
        Some(thing)
    }
}

/// Everything in a list, containers before what they contain.
pub(crate) fn things(all: &[Customization]) -> Vec<Thing> {
    let mut things = Vec::new();
    for container in all {
        let (thing, children) = match container {
            Customization::Plugin(it) => {
                let on = decision(it.enablement.as_deref().unwrap_or_default()).unwrap_or(true);
                let mut thing = Thing::new(&it.id, &it.uri, &it.name, Some(on));
                thing.client.clone_from(&it.client_id);
                (thing, it.children.as_deref())
            }
            Customization::Directory(it) => {
                let thing = Thing::new(&it.id, &it.uri, &it.name, Some(it.enabled));
                (thing, it.children.as_deref())
            }
            Customization::McpServer(server) => (Thing::server(server), None),
            Customization::Unknown(_) => continue,
        };
        things.push(thing);
        things.extend(children.into_iter().flatten().filter_map(Thing::of_child));
    }
    things
}

fn id(customization: &Customization) -> &str {
    match customization {
        Customization::Plugin(it) => &it.id,
        Customization::Directory(it) => &it.id,
        Customization::McpServer(it) => &it.id,
        Customization::Unknown(_) => "",
    }
}

/// The servers whose states are others now, where nothing else is.
fn moved<'a>(before: &'a Customization, now: &'a Customization) -> Option<Vec<(&'a McpServer, &'a McpServer)>> {
    fn servers(of: &Customization) -> Vec<&McpServer> {
        let children = match of {
            Customization::McpServer(server) => return vec![server],
            Customization::Plugin(plugin) => plugin.children.as_deref(),
            Customization::Directory(directory) => directory.children.as_deref(),
            Customization::Unknown(_) => None,
        };
        let children = children.into_iter().flatten();
        children
            .filter_map(|child| match child {
                ChildCustomization::McpServer(server) => Some(&**server),
                _ => None,
            })
            .collect()
    }
    let (old, new) = (servers(before), servers(now));
    let mut same = before.clone();
    let children = match &mut same {
        Customization::McpServer(server) => {
            server.state = new.first()?.state.clone();
            None
        }
        Customization::Plugin(plugin) => plugin.children.as_mut(),
        Customization::Directory(directory) => directory.children.as_mut(),
        Customization::Unknown(_) => None,
    };
    let same_servers = children.into_iter().flatten().filter_map(|child| match child {
        ChildCustomization::McpServer(server) => Some(server),
        _ => None,
    });
    for (server, new) in same_servers.zip(&new) {
        server.state = new.state.clone();
    }
    let both = old.into_iter().zip(new);
    (same == *now).then(|| both.filter(|(old, new)| old.state != new.state).collect())
}

/// What has to be told for a list to become another. Whether somebody waits for a server that starts is known to who asked
/// not to wait, so that alone is no news.
fn differences(old: Option<&[Customization]>, new: Vec<Customization>) -> Vec<StateAction> {
    let Some(old) = old else {
        let none = new.is_empty();
        let all = SessionCustomizationsChangedAction { customizations: new };
        return if none {
            Vec::new()
        } else {
            vec![StateAction::SessionCustomizationsChanged(all)]
        };
    };
    let gone = old.iter().filter(|old| new.iter().all(|new| id(new) != id(old)));
    let removed = |old: &Customization| {
        StateAction::SessionCustomizationRemoved(SessionCustomizationRemovedAction { id: id(old).to_owned() })
    };
    let mut actions: Vec<StateAction> = gone.map(removed).collect();
    for now in &new {
        let before = old.iter().find(|old| id(old) == id(now));
        if before == Some(now) {
            continue;
        }
        if let Some(moved) = before.and_then(|before| moved(before, now)) {
            let blocking_alone = |(before, now): &(&McpServer, &McpServer)| {
                matches!(
                    (&before.state, &now.state),
                    (McpServerState::Starting(_), McpServerState::Starting(_))
                )
            };
            let news = moved.into_iter().filter(|both| !blocking_alone(both));
            actions.extend(news.map(|(_, now)| {
                StateAction::SessionMcpServerStateChanged(Box::new(SessionMcpServerStateChangedAction {
                    id: now.id.clone(),
                    state: now.state.clone(),
                    channel: None,
                }))
            }));
            continue;
        }
        let customization = now.clone();
        let updated = SessionCustomizationUpdatedAction { customization };
        actions.push(StateAction::SessionCustomizationUpdated(Box::new(updated)));
    }
    if actions.len() > FEW {
        let all = SessionCustomizationsChangedAction { customizations: new };
        return vec![StateAction::SessionCustomizationsChanged(all)];
    }
    actions
}

impl Face {
    /// Shows what a session has, when that is news. Its default chat speaks for it.
    fn customized(&self, chat: &Uri, all: Vec<Customization>) {
        let mut inner = self.inner.lock();
        let Some(session) = inner.conversations.get(chat).map(|talk| talk.session.clone()) else {
            return;
        };
        let Some(entry) = inner.core.sessions.get(&session) else {
            return;
        };
        // What waits to be done will be shown when it is done; until then the state is ahead of the agent.
        if entry.default_chat != *chat || entry.undone > 0 {
            return;
        }
        for action in differences(entry.state.customizations.as_deref(), all) {
            inner.core.publish(&session, &action, None);
        }
        inner.core.settle(&session);
    }

    /// Whether somebody sees what a chat says about its session.
    pub(crate) fn is_looked_at(&self, chat: &Uri) -> bool {
        let inner = self.inner.lock();
        let session = inner.conversations.get(chat).map(|talk| &talk.session);
        let entry = session.and_then(|session| Some((session, inner.core.sessions.get(session)?)));
        entry.is_some_and(|(session, entry)| entry.default_chat == *chat && inner.core.is_heard(session))
    }

    /// One thing that was decided is done.
    fn decision_done(&self, chat: &Uri) {
        let mut inner = self.inner.lock();
        let session = inner.conversations.get(chat).map(|talk| talk.session.clone());
        if let Some(entry) = session.and_then(|session| inner.core.sessions.get_mut(&session))
            && entry.default_chat == *chat
        {
            entry.undone = entry.undone.saturating_sub(1);
        }
    }
}
