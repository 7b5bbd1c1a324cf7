//! What the driver of a conversation does about customizations: reads what clients bring, does what persons decided, and
//! shows what there is.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ahp_types::state::{ClientPluginCustomization, CustomizationType, SessionActiveClient};
use lodge_host::{
    BroughtPlugin, Change, Customization, CustomizationChange, HostError, PartKind, PartPlace, Session, Watched,
    mcp::{Configured, Status},
    server_of,
};
use tokio::task::JoinSet;

use super::{
    Decisions,
    fetch::{Copied, FetchError, fetch},
    offer::Offer,
    plugins::{self, Plugin},
    show::{list, uri_of},
};
use crate::{
    conversation::{Draft, Driver},
    face::Face,
};

/// How long a message waits for plugins that are still being copied.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a driver holds for it.
#[derive(Default)]
pub(crate) struct Custom {
    plugins: Vec<Plugin>,
    fetching: JoinSet<Read>,
    /// The files that the customizations come from, as last seen.
    seen: Option<Watched>,
    /// Keys that people decided about, so that a withdrawn decision restores the default.
    decided: BTreeSet<String>,
}

/// A plugin that was copied, or why it was not.
struct Read {
    client: String,
    uri: String,
    nonce: Option<String>,
    fetched: Result<Copied, FetchError>,
}

/// A request to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerRequest {
    Start,
    Stop,
    Background,
}

impl Custom {
    /// Resolves when a plugin was copied. Pending while none is being copied.
    pub(crate) async fn fetched(&mut self) {
        let Some(read) = self.fetching.join_next().await else {
            return std::future::pending().await;
        };
        let Ok(read) = read else { return };
        let wanted = |plugin: &&mut Plugin| {
            plugin.client == read.client && plugin.given.uri == read.uri && plugin.given.nonce == read.nonce
        };
        if let Some(plugin) = self.plugins.iter_mut().find(wanted) {
            plugin.brought.root = read.fetched.as_ref().ok().map(|copied| copied.plugin.root.clone());
            plugin.fetched = Some(read.fetched);
        }
    }

    /// Takes the plugins of the current clients. Returns the MCP servers of removed plugins if anything changed.
    fn bring(&mut self, face: &Arc<Face>, clients: &[SessionActiveClient]) -> Option<Vec<String>> {
        let mut before = std::mem::take(&mut self.plugins);
        let mut changed = false;
        for client in clients {
            let given = client.customizations.iter().flatten();
            for given in given
                .filter(|given| given.r#type == CustomizationType::Plugin)
                .take(plugins::MOST)
            {
                let same = |known: &Plugin| {
                    known.client == client.client_id && known.given.uri == given.uri && known.given.nonce == given.nonce
                };
                let known = before.iter().position(same).map(|at| before.swap_remove(at));
                changed |= known.as_ref().is_none_or(|known| known.given != *given);
                let (fetched, brought) = match known {
                    Some(known) => (known.fetched, known.brought),
                    None => {
                        self.read(face, &client.client_id, given);
                        (None, BroughtPlugin::default())
                    }
                };
                let taken = self.plugins.iter().any(|other| other.brought.id == given.id);
                self.plugins.push(Plugin {
                    brought: BroughtPlugin {
                        id: match taken {
                            true => format!("{}:{}", client.client_id, given.id),
                            false => given.id.clone(),
                        },
                        parts: plugins::parts(given),
                        ..brought
                    },
                    client: client.client_id.clone(),
                    given: given.clone(),
                    fetched,
                });
            }
        }
        changed |= !before.is_empty();
        changed.then(|| before.into_iter().flat_map(|gone| gone.brought.servers).collect())
    }

    fn read(&mut self, face: &Arc<Face>, client: &str, given: &ClientPluginCustomization) {
        let (face, client) = (face.clone(), client.to_owned());
        let (uri, nonce) = (given.uri.clone(), given.nonce.clone());
        self.fetching.spawn(async move {
            Read {
                fetched: fetch(face, &client, &uri).await,
                client,
                uri,
                nonce,
            }
        });
    }

    /// Those that were read and are on.
    fn in_force(&self, decisions: &Decisions) -> Vec<lodge_host::Plugin> {
        self.read_and(true, decisions)
    }

    /// Those that were read and are off.
    fn idle(&self, decisions: &Decisions) -> Vec<lodge_host::Plugin> {
        self.read_and(false, decisions)
    }

    fn read_and(&self, on: bool, decisions: &Decisions) -> Vec<lodge_host::Plugin> {
        let these = self.plugins.iter().filter(|plugin| plugin.is_on(decisions) == on);
        these.filter_map(|plugin| plugin.copied().cloned()).collect()
    }
}

impl Driver {
    /// Other clients, or the same with other plugins.
    pub(crate) async fn clients_bring(&mut self) {
        let Some(gone) = self.custom.bring(&self.face, &self.clients) else {
            return;
        };
        if let Some(live) = &self.live {
            live.session.mcp().forget(&gone);
        }
        self.customize().await;
    }

    /// Waits for plugins that are being copied, for a limited time.
    pub(crate) async fn plugins_ready(&mut self) {
        if self.custom.fetching.is_empty() {
            return;
        }
        let all = async {
            while !self.custom.fetching.is_empty() {
                self.custom.fetched().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, all).await;
        self.customize().await;
    }

    /// Applies decisions, and publishes the customizations.
    pub(crate) async fn customize(&mut self) {
        if let Some(session) = self.live.as_ref().map(|live| live.session.clone())
            && let Err(error) = self.decide(&session).await
        {
            tracing::warn!(chat = &*self.chat, %error, "a decision about a session cannot be applied");
        }
        self.show_customizations().await;
    }

    async fn decide(&mut self, session: &Session) -> Result<(), HostError> {
        let decisions = self.face.decisions(&self.chat);
        let plugins = self.custom.in_force(&decisions);
        if session.settings().customization.plugins != plugins {
            let change = CustomizationChange {
                plugins: Some(plugins),
                ..CustomizationChange::default()
            };
            session.configure(Change::Customization(Box::new(change))).await?;
        }
        self.bring_servers(session, &decisions).await;
        let decided: BTreeSet<String> = decisions.all.keys().cloned().collect();
        if decided.is_empty() && self.custom.plugins.is_empty() && self.custom.decided.is_empty() {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.custom.decided, decided);
        let plugins = plugins::brought(&self.custom.plugins);
        session.apply_decisions(&plugins, &decisions.all, &before).await?;
        Ok(())
    }

    /// Gives the session the MCP servers of plugins that are on, and takes away those of others.
    async fn bring_servers(&mut self, session: &Session, decisions: &Decisions) {
        for plugin in &mut self.custom.plugins {
            let Some(copied) = plugin.copied().filter(|_| plugin.is_on(decisions)) else {
                session.mcp().forget(&std::mem::take(&mut plugin.brought.servers));
                continue;
            };
            if !plugin.brought.servers.is_empty() {
                continue;
            }
            let mut new = lodge_host::plugin_servers(copied.clone()).await;
            // A name that the session has is the session's.
            new.retain(|server| session.mcp().info(&server.name).is_none());
            plugin.brought.servers = new.iter().map(|server| server.name.clone()).collect();
            session.add_mcp_servers(new);
        }
    }

    /// Follows files that were added, changed or removed since they were looked at: what they say holds from the next
    /// message on, and everybody sees it.
    pub(crate) async fn follow_files(&mut self) {
        let (cwd, custom) = match (&self.live, &self.draft) {
            (Some(live), _) => {
                let settings = live.session.settings();
                (settings.cwd, settings.customization)
            }
            (None, Some(Draft { cwd: Some(cwd), .. })) => (cwd.clone(), Customization::default()),
            (None, _) => return,
        };
        let session = self.live.as_ref().map(|live| live.session.clone());
        let seen = self.custom.seen.as_ref();
        let Some(now) = self.face.host.look_again(session, cwd, custom, seen).await else {
            return;
        };
        let Some(before) = self.custom.seen.replace(now) else {
            return;
        };
        if let Some(session) = self.live.as_ref().map(|live| live.session.clone()) {
            if let Some(now) = &self.custom.seen {
                follow_servers(&session, &before.servers, &now.servers);
            }
            let _ = session.reload_skills().await;
            let _ = session.reload_agents().await;
        }
        self.customize().await;
    }

    /// Shows what the session has.
    pub(crate) async fn show_customizations(&self) {
        let decisions = self.face.decisions(&self.chat);
        let works_in = match (&self.live, &self.draft) {
            (Some(live), _) => Some(live.session.settings().cwd),
            (None, draft) => draft.as_ref().and_then(|draft| draft.cwd.clone()),
        };
        let offer = match (&self.live, &self.draft) {
            (Some(live), _) => Offer::of(&live.session, &self.face.host).await.ok(),
            (None, Some(draft)) => {
                let plugins = self.custom.in_force(&decisions);
                if let Some(talk) = self.face.inner.lock().conversations.get_mut(&self.chat) {
                    talk.plugins.clone_from(&plugins);
                }
                match draft.cwd.clone() {
                    Some(cwd) => Some(Offer::of_draft(self.face.host.available(cwd, plugins).await)),
                    None => None,
                }
            }
            (None, None) => None,
        };
        let idle = self.custom.idle(&decisions);
        let offer = match (offer, works_in) {
            (Some(offer), Some(cwd)) if !idle.is_empty() => Some(offer.with_idle(&self.face.host, cwd, idle).await),
            (offer, _) => offer,
        };
        if let Some(mut offer) = offer {
            if self.live.is_none() {
                offer.decided(&self.custom.plugins, &decisions);
            }
            self.face
                .customized(&self.chat, list(&offer, &self.custom.plugins, &decisions));
        }
    }

    /// Carries out a request to an MCP server.
    pub(crate) async fn request_of_server(&mut self, id: &str, request: ServerRequest) {
        if let (Some(live), Some(name)) = (&self.live, server_of(id)) {
            let mcp = live.session.mcp();
            match request {
                ServerRequest::Start => {
                    if mcp.info(name).is_some_and(|info| info.status == Status::Connected) {
                        let _ = mcp.stop(name);
                    }
                    live.session.start_server(name);
                }
                ServerRequest::Stop => drop(mcp.stop(name)),
                ServerRequest::Background => drop(mcp.release()),
            }
        }
        self.face.decision_done(&self.chat);
        self.show_customizations().await;
    }

    /// Something was decided.
    pub(crate) async fn decided(&mut self) {
        self.face.decision_done(&self.chat);
        self.customize().await;
        // It may hold for all sessions, and then for the agent as a whole.
        self.face.refresh_agents();
    }

    /// The name of the custom agent that an address means.
    pub(crate) async fn agent_at(&self, session: &Session, uri: &str) -> Result<Option<String>, HostError> {
        let plugins = &self.custom.plugins;
        let brought = plugins::brought(plugins);
        let agents = session.custom_agents(false).await?.into_iter();
        let mut at = agents.filter(|agent| uri_of(plugins, &PartPlace::of_agent(&brought, agent)) == uri);
        Ok(at.next().map(|agent| agent.name))
    }
}

impl Offer {
    /// What is not there yet will be as persons decided.
    pub(super) fn decided(&mut self, plugins: &[Plugin], decisions: &Decisions) {
        let plugins = &plugins::brought(plugins);
        let own = |place: PartPlace, on: &mut bool| *on = decisions.all.is_on(&place.key).unwrap_or(*on);
        for (agent, on) in &mut self.agents {
            own(PartPlace::of_agent(plugins, agent), on);
        }
        for (skill, on) in &mut self.skills {
            own(PartPlace::of_skill(plugins, skill), on);
        }
        for (path, on) in &mut self.instructions {
            own(PartPlace::of_file(plugins, PartKind::Rules, path), on);
        }
    }
}

/// Gives a session the MCP servers that files describe now in place of those that they described before.
fn follow_servers(session: &Session, before: &[Configured], now: &[Configured]) {
    if before == now {
        return;
    }
    let gone = before.iter().map(|server| server.name.clone());
    let gone: Vec<String> = gone
        .filter(|name| now.iter().all(|server| server.name != *name))
        .collect();
    session.mcp().forget(&gone);
    session.add_mcp_servers(now.to_vec());
}

/// Whether an event says that there is something else to show.
pub(crate) fn is_news(event: &lodge_events::Event) -> bool {
    matches!(
        event.kind(),
        "session.skills_loaded"
            | "session.custom_agents_updated"
            | "session.mcp_servers_loaded"
            | "session.mcp_server_status_changed"
            | "session.mcp_server_removed"
            | "mcp.oauth_required"
            | "mcp.oauth_completed"
    )
}
