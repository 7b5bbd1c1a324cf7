//! The servers of one session: which there are, what state each is in, and what they offer together.

mod entry;
mod lifecycle;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use self::entry::{Entry, State};
pub use self::lifecycle::installations;
use crate::{
    McpError,
    call::{Call, CallResult},
    config::{ServerConfig, Source, Transport},
    info::{Configured, Prompt, ServerInfo, Status, Tool},
    owner::Owner,
    surroundings::Surroundings,
};

/// How long a server may take to start and to list its tools.
const START_LIMIT: Duration = Duration::from_secs(120);
/// The same for one that may have to be installed first.
const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Programs that install what they run.
const INSTALLERS: [&str; 14] = [
    "npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman", "dnx",
];
/// How long a turn waits for a list that a server says has changed.
const LIST_PATIENCE: Duration = Duration::from_secs(5);
/// How long a turn under way waits for servers that it lost.
const REVIVAL: Duration = Duration::from_secs(5);
/// How long a session waits for its servers to end.
const FAREWELL: Duration = Duration::from_secs(3);

/// Whether this server may have to be installed when it starts.
fn installs(config: &ServerConfig) -> bool {
    let Transport::Stdio { command, .. } = &config.transport else {
        return false;
    };
    let program = Path::new(command).file_stem().unwrap_or_default().to_string_lossy();
    INSTALLERS.contains(&&*program)
}

/// The servers of a session. Cheap to clone; when the last clone is gone all of them end.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    owner: Arc<dyn Owner>,
    around: Mutex<Surroundings>,
    /// Whether values of configured variables are names of the host's variables.
    by_reference: AtomicBool,
    entries: Mutex<Vec<Entry>>,
    /// Changes whenever a server has started or failed.
    settled: watch::Sender<u64>,
    /// Until when anybody waits for servers that start by themselves.
    patience: Mutex<Instant>,
    /// How many connections there are, ending ones too.
    alive: Arc<watch::Sender<usize>>,
    /// Changes when nobody is to wait any longer for servers that start.
    released: watch::Sender<u64>,
    /// The directories that were last announced to servers.
    roots: Mutex<Vec<PathBuf>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for entry in self.entries.get_mut() {
            entry.disconnect(State::Stopped);
        }
    }
}

impl Servers {
    /// No servers yet.
    pub fn new(owner: Arc<dyn Owner>) -> Self {
        Self(Arc::new(Inner {
            owner,
            around: Mutex::default(),
            by_reference: AtomicBool::new(false),
            entries: Mutex::default(),
            settled: watch::Sender::new(0),
            patience: Mutex::new(Instant::now()),
            alive: Arc::new(watch::Sender::new(0)),
            released: watch::Sender::new(0),
            roots: Mutex::default(),
        }))
    }

    /// Sets where programs are started from now on, and their environment.
    pub fn surround(&self, around: Surroundings) {
        *self.0.around.lock() = around;
    }

    /// Sets the directory of programs that start from now on.
    pub fn move_to(&self, cwd: PathBuf) {
        self.0.around.lock().cwd = cwd;
    }

    /// Whether values of configured variables are names of the host's variables, for programs that start from now on.
    pub fn set_by_reference(&self, by_reference: bool) {
        self.0.by_reference.store(by_reference, Ordering::Relaxed);
    }

    /// Replaces the servers. Those with the same configuration stay as they are.
    pub fn configure(&self, wanted: Vec<Configured>) {
        let gone: Vec<Arc<str>> = {
            let mut entries = self.0.entries.lock();
            let wants = |entry: &Entry| wanted.iter().any(|wanted| *entry.name == wanted.name);
            let gone = entries.extract_if(.., |entry| !wants(entry));
            gone.map(|mut entry| {
                entry.disconnect(State::Stopped);
                entry.name
            })
            .collect()
        };
        for name in gone {
            self.0.owner.removed(&name);
        }
        self.add(wanted);
    }

    /// Adds servers, or gives them another configuration. The others stay, and so do those that are configured so
    /// already.
    pub fn add(&self, wanted: Vec<Configured>) {
        let mut entries = self.0.entries.lock();
        for configured in wanted {
            match entries.iter_mut().find(|entry| *entry.name == configured.name) {
                Some(entry) if entry.config.as_deref() == configured.config.as_deref() => {
                    entry.source = configured.source;
                }
                Some(entry) => {
                    entry.disconnect(State::Stopped);
                    *entry = Entry {
                        start: entry.start,
                        ..Entry::new(configured)
                    };
                }
                None => entries.push(Entry::new(configured)),
            }
        }
    }

    /// Removes the servers from files.
    pub fn forget_files(&self) {
        let gone: Vec<Entry> = {
            let mut entries = self.0.entries.lock();
            entries
                .extract_if(.., |entry| matches!(entry.source, Source::User | Source::Workspace))
                .collect()
        };
        for mut entry in gone {
            entry.disconnect(State::Stopped);
        }
    }

    /// Removes these servers.
    pub fn forget(&self, names: &[String]) {
        let gone: Vec<Entry> = {
            let mut entries = self.0.entries.lock();
            entries
                .extract_if(.., |entry| names.iter().any(|name| **name == *entry.name))
                .collect()
        };
        for mut entry in gone {
            entry.disconnect(State::Stopped);
            self.0.owner.removed(&entry.name);
        }
    }

    /// Whether any is starting.
    pub fn is_starting(&self, name: &str) -> bool {
        self.0.any_starting(Some(name))
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.0.entries.lock().is_empty()
    }

    /// All servers and their state.
    pub fn list(&self) -> Vec<ServerInfo> {
        self.0.entries.lock().iter().map(Entry::info).collect()
    }

    /// One of them.
    pub fn info(&self, name: &str) -> Option<ServerInfo> {
        let entries = self.0.entries.lock();
        entries.iter().find(|entry| *entry.name == *name).map(Entry::info)
    }

    /// How one of them is configured.
    pub fn config(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let entries = self.0.entries.lock();
        let entry = entries.iter().find(|entry| *entry.name == *name)?;
        entry.config.as_ref().ok().cloned()
    }

    /// The servers that another program may be told to connect to: those that are on, with variables by their values. Nobody
    /// could hold it to a choice of tools, so servers of which only some are offered are left out.
    pub fn shareable(&self) -> Vec<(String, ServerConfig)> {
        let around = self.0.around.lock().clone();
        let by_reference = self.0.by_reference.load(Ordering::Relaxed);
        let entries = self.0.entries.lock();
        let on = entries
            .iter()
            .filter(|entry| !matches!(entry.state, State::Disabled | State::Stopped));
        on.filter_map(|entry| {
            let config = entry.config.as_ref().ok().filter(|config| config.offers_all())?;
            let config = match by_reference {
                true => config.resolved(|name| around.variable(name)),
                false => ServerConfig::clone(config),
            };
            Some((entry.name.to_string(), config))
        })
        .collect()
    }

    /// The tools that may be called now, with the names of their servers.
    pub fn tools(&self) -> Vec<(Arc<str>, Arc<Tool>)> {
        let entries = self.0.entries.lock();
        let of = |entry: &Entry| {
            let name = entry.name.clone();
            entry
                .tools
                .iter()
                .map(move |tool| (name.clone(), tool.clone()))
                .collect::<Vec<_>>()
        };
        entries.iter().flat_map(of).collect()
    }

    /// The prompts of connected servers, with the names of their servers.
    pub fn prompts(&self) -> Vec<(Arc<str>, Prompt)> {
        let entries = self.0.entries.lock();
        let of = |entry: &Entry| {
            let name = entry.name.clone();
            let prompts = entry.prompts.iter();
            prompts.map(|prompt| (name.clone(), prompt.clone())).collect::<Vec<_>>()
        };
        entries.iter().flat_map(of).collect()
    }

    /// Starts whatever has not been started, and what broke down and may be tried again; then waits until all of them
    /// are there or have failed, but no longer than this. What is not there by then goes on starting.
    pub async fn ready(&self, limit: Duration) {
        self.tell_roots();
        let names: Vec<Arc<str>> = {
            let entries = self.0.entries.lock();
            let due = entries.iter().filter(|entry| entry.is_due());
            due.map(|entry| entry.name.clone()).collect()
        };
        for name in &names {
            Inner::start(&self.0, name, true);
        }
        if !names.is_empty() {
            *self.0.patience.lock() = Instant::now() + limit;
            let inner = Arc::downgrade(&self.0);
            let mut settled = self.0.settled.subscribe();
            tokio::spawn(async move {
                loop {
                    let Some(inner) = inner.upgrade() else { return };
                    if !inner.any_starting(None) {
                        let servers: Vec<ServerInfo> = inner.entries.lock().iter().map(Entry::info).collect();
                        inner.owner.loaded(&servers);
                        return;
                    }
                    drop(inner);
                    if settled.changed().await.is_err() {
                        return;
                    }
                }
            });
        }
        let left = self.0.patience.lock().saturating_duration_since(Instant::now());
        self.wait(None, left).await;
    }

    /// Starts servers again that were connected and went down, as often as that is done for nobody's asking, and waits briefly
    /// for them.
    pub async fn revive(&self) {
        let names: Vec<Arc<str>> = {
            let entries = self.0.entries.lock();
            let lost = entries.iter().filter(|entry| entry.was_lost && entry.is_due());
            lost.map(|entry| entry.name.clone()).collect()
        };
        for name in &names {
            Inner::start(&self.0, name, true);
        }
        let waits = names.iter().map(|name| self.wait(Some(name), REVIVAL));
        futures_util::future::join_all(waits).await;
    }

    /// Tells connected servers when the directories are not those that they could have asked for before.
    fn tell_roots(&self) {
        let roots = self.0.owner.roots();
        if std::mem::replace(&mut *self.0.roots.lock(), roots.clone()) == roots {
            return;
        }
        for entry in self.0.entries.lock().iter() {
            if let State::Connected(connection) = &entry.state {
                connection.roots_changed();
            }
        }
    }

    /// Waits briefly until the tools include every change that servers announced.
    pub async fn lists_read(&self) {
        let connections: Vec<_> = {
            let entries = self.0.entries.lock();
            let connections = entries.iter().filter_map(|entry| match &entry.state {
                State::Connected(connection) => Some(connection.clone()),
                _ => None,
            });
            connections.collect()
        };
        let read = futures_util::future::join_all(
            connections
                .iter()
                .map(|connection| connection.list_changes.wait_for_tools()),
        );
        let _ = tokio::time::timeout(LIST_PATIENCE, read).await;
    }

    /// Waits until one server, or all, have started or failed.
    async fn wait(&self, name: Option<&str>, limit: Duration) {
        let mut settled = self.0.settled.subscribe();
        let mut released = self.0.released.subscribe();
        released.mark_unchanged();
        let all = async {
            while self.0.any_starting(name) {
                if settled.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = all => {}
            _ = released.changed() => {}
            () = tokio::time::sleep(limit) => {}
        }
    }

    /// Ends every wait for starting servers. False if there is none.
    pub fn release(&self) -> bool {
        let starting = self.0.any_starting(None) && self.0.released.receiver_count() > 0;
        if starting {
            self.0.released.send_modify(|count| *count += 1);
        }
        starting
    }

    /// Starts a server, whatever state it is in, and waits for it.
    pub async fn start(&self, name: &str) -> Result<(), McpError> {
        self.0.must_have(name)?;
        if self.info(name).is_some_and(|info| info.status != Status::Connected) {
            Inner::start(&self.0, name, false);
        }
        // A start ends by itself, one way or the other; the wait only must not be the first to give up.
        self.wait(Some(name), INSTALL_LIMIT * 2).await;
        match self.info(name) {
            Some(info) if info.status == Status::Failed => Err(McpError::Failed(info.error.unwrap_or_default())),
            Some(info) if info.status == Status::NeedsAuth => Err(McpError::NeedsAuth(info.name)),
            _ => Ok(()),
        }
    }

    /// Stops a server; it is not restarted automatically.
    pub fn stop(&self, name: &str) -> Result<(), McpError> {
        self.0.set(name, State::Stopped)
    }

    /// Restarts a server.
    pub async fn restart(&self, name: &str) -> Result<(), McpError> {
        self.stop(name)?;
        self.start(name).await
    }

    /// Disables a server.
    pub fn disable(&self, name: &str) -> Result<(), McpError> {
        self.0.set(name, State::Disabled)
    }

    /// Enables a server; it starts when it is needed.
    pub fn enable(&self, name: &str) -> Result<(), McpError> {
        match self.info(name) {
            Some(info) if !matches!(info.status, Status::Disabled | Status::Stopped) => Ok(()),
            _ => self.0.set(name, State::Idle),
        }
    }

    /// Ends all connections; they are opened again when needed.
    pub fn reset(&self) {
        let names: Vec<Arc<str>> = {
            let entries = self.0.entries.lock();
            let live = entries
                .iter()
                .filter(|entry| !matches!(entry.state, State::Disabled | State::Idle) && entry.config.is_ok());
            live.map(|entry| entry.name.clone()).collect()
        };
        for name in names {
            let _ = self.0.set(&name, State::Idle);
        }
    }

    /// Ends all servers for good, and gives them a moment to exit by themselves.
    pub async fn shutdown(&self) {
        for entry in self.0.entries.lock().iter_mut() {
            entry.disconnect(State::Stopped);
        }
        let mut alive = self.0.alive.subscribe();
        let _ = tokio::time::timeout(FAREWELL, alive.wait_for(|alive| *alive == 0)).await;
    }

    /// Calls a tool.
    pub async fn call(&self, server: &str, call: Call) -> Result<CallResult, McpError> {
        let connection = self.0.connection(server)?;
        let result = connection.call(call).await;
        self.0.judge(server, &connection, result)
    }

    /// Sends any MCP request to a connected server.
    pub async fn request(&self, server: &str, method: &str, params: Option<Value>) -> Result<Value, McpError> {
        let connection = self.0.connection(server)?;
        let result = connection.request(method, params).await;
        self.0.judge(server, &connection, result)
    }

    /// The tools that a connected server lists now, whatever the configuration allows.
    pub async fn list_tools(&self, server: &str) -> Result<Vec<Tool>, McpError> {
        self.0.connection(server)?.tools().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_to_be_installed_is_known_by_its_program() {
        for (command, expected) in [
            ("npx", true),
            ("/usr/local/bin/uvx", true),
            ("npx.cmd", true),
            ("docker", true),
            ("node", false),
            ("./server", false),
        ] {
            let config = ServerConfig::read(&serde_json::json!({"command": command})).expect("a server");
            assert_eq!(installs(&config), expected, "{command}");
        }
    }
}
