//! One server of a session: its configuration and state.

use std::{sync::Arc, time::SystemTime};

use crate::{
    config::{ServerConfig, Source},
    connection::Connection,
    info::{Configured, Prompt, ServerInfo, Status, Tool},
};

/// Where a server is in its life.
pub(super) enum State {
    Idle,
    /// With the handle that ends the start; without one if it may be an installation.
    Starting(Option<tokio::task::AbortHandle>),
    Connected(Arc<Connection>),
    Failed(String),
    NeedsAuth,
    Disabled,
    Stopped,
}

pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) source: Source,
    pub(super) config: Result<Arc<ServerConfig>, String>,
    pub(super) state: State,
    pub(super) tools: Arc<[Arc<Tool>]>,
    pub(super) prompts: Arc<[Prompt]>,
    /// Tools that only run as tasks.
    pub(super) left_out: Vec<String>,
    /// Starts in a row that nobody asked for.
    pub(super) attempts: u32,
    /// Tells this start from an earlier one.
    pub(super) start: u64,
    /// When it came into its state.
    pub(super) since: SystemTime,
}

impl Entry {
    pub(super) fn new(configured: Configured) -> Self {
        let config = configured.config.map(|config| Arc::new(config.into_inner()));
        let state = match &config {
            Ok(config) if config.disabled => State::Disabled,
            Ok(_) => State::Idle,
            Err(error) => State::Failed(error.clone()),
        };
        Self {
            name: configured.name.into(),
            source: configured.source,
            config,
            state,
            tools: [].into(),
            prompts: [].into(),
            left_out: Vec::new(),
            attempts: 0,
            start: 0,
            since: SystemTime::now(),
        }
    }

    pub(super) fn info(&self) -> ServerInfo {
        let config = self.config.as_ref().ok();
        ServerInfo {
            name: self.name.to_string(),
            status: match self.state {
                State::Idle | State::Starting(_) => Status::Pending,
                State::Connected(_) => Status::Connected,
                State::Failed(_) => Status::Failed,
                State::NeedsAuth => Status::NeedsAuth,
                State::Disabled => Status::Disabled,
                State::Stopped => Status::Stopped,
            },
            source: self.source,
            kind: config.map(|config| config.kind()),
            error: match &self.state {
                State::Failed(error) => Some(error.clone()),
                _ => None,
            },
            since: self.since,
            display_name: config.and_then(|config| config.display_name.clone()),
            instructions: match &self.state {
                State::Connected(connection) => connection.instructions.clone(),
                _ => None,
            },
            tools: self.tools.len() + self.left_out.len(),
            left_out: self.left_out.clone(),
        }
    }

    /// Ends the connection; its pending requests fail. A start that may be an installation is not ended: cut in the middle, it
    /// leaves a cache behind that no later start gets over. The server is ended when it has started.
    pub(super) fn disconnect(&mut self, state: State) {
        match std::mem::replace(&mut self.state, state) {
            State::Starting(Some(start)) => start.abort(),
            State::Connected(connection) => connection.close(),
            _ => {}
        }
        self.start += 1;
        self.since = SystemTime::now();
        self.tools = [].into();
        self.prompts = [].into();
        self.left_out.clear();
    }

    /// Offers what of these tools may be offered.
    pub(super) fn offer(&mut self, config: &ServerConfig, tools: Vec<Tool>) {
        let (left_out, offered): (Vec<Tool>, Vec<Tool>) = tools
            .into_iter()
            .filter(|tool| config.offers(&tool.name))
            .partition(|tool| tool.needs_task);
        self.left_out = left_out.into_iter().map(|tool| tool.name).collect();
        self.tools = offered.into_iter().map(Arc::new).collect();
    }
}
