//! Settings of a session as a whole, recorded as events beside its chain: chats, directories, parts that are turned on or off.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use lodge_agent::{AgentError, Change, Customized, Storing};
use lodge_events::{LodgeChat, LodgeChats, LodgeDirectories, LodgeSwitched, Payload};
use lodge_log::{ListFilter, Page, SearchHit, SessionSummary};
use lodge_mcp::Status;

use crate::{
    Host, HostError,
    decisions::{server_key, server_of, skill_key},
    session::Session,
};

impl Host {
    /// Queries the catalogue's database on a blocking thread.
    pub(crate) async fn look_up<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&lodge_log::Catalogue) -> Result<T, lodge_log::LogError> + Send + 'static,
    ) -> Result<T, HostError> {
        let inner = self.0.clone();
        let asked = tokio::task::spawn_blocking(move || ask(inner.home.catalogue())).await;
        Ok(asked.map_err(|error| HostError::Invalid(error.to_string()))??)
    }

    /// A session's entry in lists.
    pub async fn find(&self, id: &str) -> Result<Option<SessionSummary>, HostError> {
        let id = id.to_owned();
        self.look_up(move |catalogue| catalogue.get(&id)).await
    }

    /// Sessions that match a filter, newest first.
    pub async fn list(&self, filter: ListFilter) -> Result<Page, HostError> {
        let mut page = self.look_up(move |catalogue| catalogue.list(&filter)).await?;
        page.sessions
            .retain(|session| session.message_count > 0 || !self.0.unused.has(&session.id));
        Ok(page)
    }

    /// Messages that contain all these words, best first.
    pub async fn search(&self, text: String, limit: usize) -> Result<Vec<SearchHit>, HostError> {
        self.look_up(move |catalogue| catalogue.search(&text, limit)).await
    }

    /// Sessions that are or were chats of others.
    pub async fn chats(&self) -> Result<Vec<SessionSummary>, HostError> {
        self.look_up(|catalogue| catalogue.chats(None)).await
    }

    /// The further chats of a session.
    pub async fn chats_of(&self, id: &str) -> Result<Vec<SessionSummary>, HostError> {
        let of = id.to_owned();
        self.look_up(move |catalogue| catalogue.chats(Some(&of))).await
    }

    /// The session that clients know as the chat at this address.
    pub async fn chat_at(&self, address: &str) -> Result<Option<SessionSummary>, HostError> {
        let called = |line: &SessionSummary| line.about.chat.as_ref().is_some_and(|chat| chat.address == address);
        Ok(self.chats().await?.into_iter().find(called))
    }
}

impl Session {
    /// All that was recorded so far.
    pub fn storing(&self) -> Storing {
        self.0.agent.storing()
    }

    /// Records an event unless the log already says the same.
    fn arrange(&self, known: bool, payload: impl Into<Payload>) -> Result<Storing, AgentError> {
        match known {
            true => Ok(self.storing()),
            false => self.0.agent.record_beside(payload),
        }
    }

    /// Makes it a chat of another session, or an independent session.
    pub fn set_chat(&self, chat: LodgeChat) -> Result<Storing, AgentError> {
        let known = self.0.agent.facts().about.chat.as_ref() == Some(&chat);
        self.arrange(known, chat)
    }

    /// Sets the order of its chats.
    pub fn set_chats(&self, chats: LodgeChats) -> Result<Storing, AgentError> {
        let known = self.0.agent.facts().about.chats == chats;
        self.arrange(known, chats)
    }

    /// The parts that are turned on or off for this session alone.
    pub fn switches(&self) -> BTreeMap<String, bool> {
        self.0.agent.facts().switches
    }

    /// Sets the parts that are turned on or off for this session alone. Its MCP servers follow before this returns, so
    /// no face sees a server in another state than the log's.
    pub fn set_switches(&self, switches: BTreeMap<String, bool>) -> Result<Storing, AgentError> {
        let before = self.switches();
        if before == switches {
            return Ok(self.storing());
        }
        let keys: BTreeSet<&String> = before.keys().chain(switches.keys()).collect();
        let changed = keys.into_iter().filter(|key| before.get(*key) != switches.get(*key));
        let servers: Vec<String> = changed.filter_map(|key| server_of(key)).map(str::to_owned).collect();
        let storing = self.0.agent.record_beside(LodgeSwitched { switches })?;
        let off = self.servers_off();
        for name in servers {
            let mcp = self.0.agent.mcp();
            let was_off = mcp.info(&name).is_some_and(|server| server.status == Status::Disabled);
            // A name that is not configured needs nothing.
            match off.contains(&name) {
                true => drop(mcp.disable(&name)),
                false if was_off && mcp.enable(&name).is_ok() => self.start_server(&name),
                false => {}
            }
        }
        Ok(storing)
    }

    /// Makes a chat work in those of its chosen directories that its session still has. It keeps running in the first
    /// one.
    pub(crate) async fn work_where(&self, main: &Self, own: &LodgeDirectories) -> Result<(), AgentError> {
        let further = main.state().about.directories.further;
        let cwd = main.settings().cwd;
        let has = |directory: &String| further.contains(directory) || cwd == Path::new(directory);
        let chosen = own.chosen.as_ref().map(|own| {
            let kept = own
                .iter()
                .enumerate()
                .filter(|(at, directory)| *at == 0 || has(directory));
            kept.map(|(_, directory)| directory.clone()).collect()
        });
        self.set_directories(&LodgeDirectories { further, chosen }).await
    }

    /// Changes its directories.
    pub async fn set_directories(&self, directories: &LodgeDirectories) -> Result<(), AgentError> {
        let paths = |all: &[String]| all.iter().map(PathBuf::from).collect();
        let change = Change::ChatDirectories {
            further: paths(&directories.further),
            chosen: directories.chosen.as_deref().map(paths),
        };
        self.configure(change).await
    }

    async fn switch(&self, key: String, on: bool) -> Result<(), AgentError> {
        let mut switches = self.switches();
        switches.insert(key, on);
        self.set_switches(switches)?.done().await
    }

    /// Turns a skill on or off for this session alone. False if it does not exist.
    pub async fn switch_skill(&self, name: &str, on: bool) -> Result<bool, AgentError> {
        let skills = self.skills().await?;
        if skills.iter().all(|(skill, _)| skill.name != name) {
            return Ok(false);
        }
        self.switch(skill_key(name), on).await?;
        self.0.agent.enable(Customized::Skill(name.to_owned()), on).await
    }

    /// Turns an MCP server on or off for this session alone. A server that was only stopped starts when it is needed
    /// again. False if it does not exist.
    pub async fn switch_server(&self, name: &str, on: bool) -> Result<bool, AgentError> {
        let mcp = self.0.agent.mcp();
        if mcp.info(name).is_none() {
            return Ok(false);
        }
        self.switch(server_key(name), on).await?;
        Ok(!on || mcp.enable(name).is_ok())
    }

    /// The MCP servers that people turned off, for this session or for more.
    fn servers_off(&self) -> BTreeSet<String> {
        let host = self.0.host.upgrade();
        let cwd = self.0.agent.settings().cwd;
        let mut off = host.map_or_else(BTreeSet::new, |host| host.decisions.disabled_servers_at(&cwd));
        for (key, on) in self.switches() {
            match (server_of(&key), on) {
                (Some(name), true) => drop(off.remove(name)),
                (Some(name), false) => drop(off.insert(name.to_owned())),
                (None, _) => {}
            }
        }
        off
    }

    /// Stops the MCP servers that people turned off, for this session or for more.
    pub(crate) fn stop_servers_that_are_off(&self) {
        let mcp = self.0.agent.mcp();
        for name in self.servers_off() {
            let runs = mcp.info(&name).is_some_and(|server| server.status != Status::Disabled);
            if runs {
                // A missing server is already off.
                let _ = mcp.disable(&name);
            }
        }
    }
}
