//! A live session, as the faces hold it.

use std::{
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use lodge_agent::{Agent, AgentError, Change, ClientId, ClientSpec, Publish};
use lodge_log::{EventReader, LogError, Position};
use parking_lot::Mutex;

use crate::{
    Caller, Host, McpFiles, SessionSummary,
    host::Inner,
    hub::{Hub, Listening, Subscription},
};

pub(crate) struct Live {
    pub(crate) agent: Agent,
    pub(crate) hub: Arc<Hub>,
    pub(crate) host: Weak<Inner>,
    /// On whose behalf it was started.
    pub(crate) caller: Option<Arc<Caller>>,
    /// Which MCP servers of files it has.
    pub(crate) mcp_files: Mutex<McpFiles>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.hub.close();
    }
}

/// A live session. Everything that can be said to its agent can be said to it (see [`Agent`]); while somebody holds it,
/// it stays in memory.
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Live>);

impl Deref for Session {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.0.agent
    }
}

impl Session {
    /// Live events from now on.
    pub fn subscribe(&self, queue_bytes: usize) -> Subscription {
        self.0.hub.subscribe(queue_bytes)
    }

    /// What has been recorded so far, and live events from there on: every persisted event is in one of the two, none in
    /// both.
    pub fn history_and_subscribe(&self, queue_bytes: usize) -> Result<(EventReader, Subscription), LogError> {
        self.paused(|log| Ok((log.read(Position::START, log.end())?, self.subscribe(queue_bytes))))
    }

    /// Gives every event from now on to a listener as it is published. The listener must not block: the session waits
    /// for it.
    pub fn listen(&self, listener: Arc<dyn Publish>) -> Listening {
        self.0.hub.listen(listener)
    }

    /// Like [`Session::history_and_subscribe`] for a listener.
    pub fn history_and_listen(&self, listener: Arc<dyn Publish>) -> Result<(EventReader, Listening), LogError> {
        self.paused(|log| Ok((log.read(Position::START, log.end())?, self.listen(listener))))
    }

    /// What has been recorded so far.
    pub fn history(&self) -> Result<EventReader, LogError> {
        self.paused(|log| log.read(Position::START, log.end()))
    }

    /// Attaches a client for as long as the attachment is kept.
    pub async fn attach_client(&self, client: ClientSpec) -> Result<Attachment, AgentError> {
        let id = self.attach(client).await?;
        Ok(Attachment {
            session: self.clone(),
            id,
        })
    }

    /// What lists show of it, as it is now.
    pub fn summary(&self) -> Option<SessionSummary> {
        let host = self.0.host.upgrade()?;
        host.summary(self.id()).ok().flatten()
    }

    /// Gives the session a name that a person chose, or takes it back.
    pub async fn rename(&self, name: Option<String>) -> Result<(), AgentError> {
        self.configure(Change::Name(name)).await?;
        if let Some(host) = self.0.host.upgrade() {
            host.label(self, self.settings().name);
            // No event that is kept tells a name, so a list that misses it when the host is killed would miss it for good.
            let _ = tokio::task::spawn_blocking(move || host.home.catalogue().flush()).await;
        }
        Ok(())
    }

    /// The host that it lives in.
    pub(crate) fn host(&self) -> Option<Host> {
        Some(Host(self.0.host.upgrade()?, self.0.caller.clone()))
    }

    /// Where the host keeps what belongs to the person.
    pub(crate) fn home_path(&self) -> Option<PathBuf> {
        self.host().map(|host| host.home().path().to_owned())
    }

    /// The session's own directory.
    pub fn workspace(&self) -> &Path {
        self.dir()
    }

    /// How many listen.
    pub fn listeners(&self) -> usize {
        self.0.hub.listeners()
    }
}

/// An attached client. Dropping it detaches; what it was asked stays open for others.
pub struct Attachment {
    session: Session,
    id: ClientId,
}

impl Attachment {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Tells what the client can do now.
    pub fn update(&self, client: ClientSpec) {
        self.session.update(self.id, client);
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.session.detach(self.id);
    }
}
