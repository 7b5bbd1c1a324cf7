//! One server of a session: its configuration and state.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    config::{ServerConfig, Source, Transport},
    connection::Connection,
    info::{Configured, Prompt, ServerInfo, Status, Tool},
};

/// How many automatic restarts in a row before somebody has to ask for one.
const ATTEMPTS: u32 = 3;
/// After this time a server on another machine is tried again all the same: nobody here can see that it is back.
const ANEW: Duration = Duration::from_secs(5 * 60);

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
    /// Whether it went down after it was connected.
    pub(super) was_lost: bool,
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
            was_lost: false,
            start: 0,
            since: SystemTime::now(),
        }
    }

    /// Whether it is to be started without anybody asking for that.
    pub(super) fn is_due(&self) -> bool {
        match (&self.state, &self.config) {
            (State::Idle, _) => true,
            (State::Failed(_), Ok(config)) => {
                let is_remote = !matches!(config.transport, Transport::Stdio { .. });
                self.attempts < ATTEMPTS || (is_remote && self.since.elapsed().is_ok_and(|failed| failed > ANEW))
            }
            _ => false,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use lodge_trust::Admitted;

    #[test]
    fn a_server_that_failed_is_due_while_attempts_are_left_and_a_remote_one_now_and_then() {
        let now = SystemTime::now();
        for (config, attempts, since, expected) in [
            (json!({"command": "a"}), 2, now, true),
            (json!({"command": "a"}), 3, now, false),
            (json!({"command": "a"}), 3, now - 2 * ANEW, false),
            (json!({"url": "http://localhost:1/"}), 3, now, false),
            (json!({"url": "http://localhost:1/"}), 7, now - 2 * ANEW, true),
        ] {
            let name = format!("{config} {attempts}");
            let mut entry = Entry::new(Configured {
                name: "one".into(),
                source: Source::Client,
                config: ServerConfig::read(&config).map(Admitted::of_client),
            });
            assert!(entry.is_due());
            entry.state = State::Failed("down".into());
            (entry.attempts, entry.since) = (attempts, since);
            assert_eq!(entry.is_due(), expected, "{name}");
        }
    }
}
