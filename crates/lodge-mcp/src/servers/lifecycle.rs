//! The life cycle of servers: starting, watching and stopping them.

use std::{
    sync::{Arc, LazyLock, atomic::Ordering},
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{
    INSTALL_LIMIT, Inner, START_LIMIT,
    entry::{Entry, State},
    installs,
};
use crate::{
    McpError,
    config::ServerConfig,
    connection::{Connection, Watch, connect},
    info::{Prompt, Tool},
    owner::{List, Owner},
    surroundings::Surroundings,
};

/// How long a start waits for prompts.
const PROMPTS_LIMIT: Duration = Duration::from_secs(5);
/// A server that lived this long did not break down because of how it was started.
const STEADY: Duration = Duration::from_secs(60);
/// The shortest time between two readings of a server's lists.
const LISTS_EVERY: Duration = Duration::from_millis(200);

/// How many starts in this process may be installations, also those that nobody waits for any more.
static INSTALLATIONS: LazyLock<Arc<watch::Sender<usize>>> = LazyLock::new(|| Arc::new(watch::Sender::new(0)));

/// How many servers may be installing themselves. The end of this process ends them, and may leave half of an installation
/// behind.
pub fn installations() -> watch::Receiver<usize> {
    INSTALLATIONS.subscribe()
}

/// Counts a connection, or an installation, until everything that belongs to it has ended.
struct Alive(Arc<watch::Sender<usize>>);

impl Alive {
    fn one(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|alive| *alive += 1);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.send_modify(|alive| *alive -= 1);
    }
}

impl Inner {
    pub(super) fn any_starting(&self, name: Option<&str>) -> bool {
        self.entries
            .lock()
            .iter()
            .any(|entry| matches!(entry.state, State::Starting(_)) && name.is_none_or(|name| *entry.name == *name))
    }

    pub(super) fn must_have(&self, name: &str) -> Result<(), McpError> {
        let known = self.entries.lock().iter().any(|entry| *entry.name == *name);
        if known {
            Ok(())
        } else {
            Err(McpError::NotConfigured(name.to_owned()))
        }
    }

    pub(super) fn connection(&self, name: &str) -> Result<Arc<Connection>, McpError> {
        match named(&mut self.entries.lock(), name).map(|entry| &entry.state) {
            Some(State::Connected(connection)) if !connection.is_closed() => Ok(connection.clone()),
            _ => Err(McpError::NotConnected(name.to_owned())),
        }
    }

    /// Checks the result of a request: a server that no longer accepts its credentials requires a sign-in.
    pub(super) fn judge<T>(
        &self,
        name: &str,
        connection: &Arc<Connection>,
        result: Result<T, McpError>,
    ) -> Result<T, McpError> {
        if matches!(result, Err(McpError::NeedsAuth(_))) && connection.is_shut_out() {
            let info = {
                let mut entries = self.entries.lock();
                let entry = named(&mut entries, name);
                let entry =
                    entry.filter(|entry| matches!(&entry.state, State::Connected(now) if Arc::ptr_eq(now, connection)));
                entry.map(|entry| {
                    entry.disconnect(State::NeedsAuth);
                    entry.info()
                })
            };
            if let Some(info) = info {
                self.owner.changed(&info);
                self.settled.send_modify(|count| *count += 1);
            }
        }
        result
    }

    /// Puts a server down and into this state, because somebody asked for it.
    pub(super) fn set(&self, name: &str, state: State) -> Result<(), McpError> {
        let info = {
            let mut entries = self.entries.lock();
            let Some(entry) = named(&mut entries, name) else {
                return Err(McpError::NotConfigured(name.to_owned()));
            };
            if let (Err(error), State::Idle) = (&entry.config, &state) {
                return Err(McpError::Failed(error.clone()));
            }
            entry.disconnect(state);
            entry.attempts = 0;
            entry.info()
        };
        self.settled.send_modify(|count| *count += 1);
        self.owner.changed(&info);
        Ok(())
    }

    /// Begins to start a server. `by_itself` counts against the number of attempts.
    pub(super) fn start(self: &Arc<Self>, name: &str, by_itself: bool) {
        let info = {
            let mut entries = self.entries.lock();
            let Some(entry) = named(&mut entries, name) else {
                return;
            };
            let Ok(config) = entry.config.clone() else { return };
            entry.disconnect(State::Idle);
            entry.attempts = if by_itself { entry.attempts + 1 } else { 0 };
            entry.was_lost = false;
            let (weak, server, number) = (Arc::downgrade(self), entry.name.clone(), entry.start);
            let (around, owner) = (self.around.lock().clone(), self.owner.clone());
            let config = match self.by_reference.load(Ordering::Relaxed) {
                // What programs may not see, nobody gets for them by its name.
                true => Arc::new(config.resolved(|name| around.variable(name))),
                false => config,
            };
            let installs = installs(&config);
            let limit = around
                .start_limit
                .unwrap_or(if installs { INSTALL_LIMIT } else { START_LIMIT });
            let installation = installs.then(|| Alive::one(&INSTALLATIONS));
            let task = tokio::spawn(async move {
                let _installation = installation;
                let connected = tokio::time::timeout(limit, establish(&server, &config, &around, owner)).await;
                let connected = connected.unwrap_or_else(|_| {
                    Err(McpError::TimedOut {
                        server: server.to_string(),
                        seconds: limit.as_secs(),
                    })
                });
                if let Some(inner) = weak.upgrade() {
                    inner.started(&server, number, &config, connected);
                }
            });
            entry.state = State::Starting((!installs).then(|| task.abort_handle()));
            entry.info()
        };
        self.owner.changed(&info);
    }

    /// A start came to its end.
    fn started(
        self: &Arc<Self>,
        name: &Arc<str>,
        number: u64,
        config: &ServerConfig,
        result: Result<Established, McpError>,
    ) {
        let info = {
            let mut entries = self.entries.lock();
            // Somebody wanted it otherwise meanwhile; dropping the watch ends the process.
            let Some(entry) = same(&mut entries, name, number) else {
                return;
            };
            match result {
                Ok(Established {
                    connection,
                    watch,
                    tools,
                    prompts,
                }) => {
                    let connection = Arc::new(connection);
                    entry.state = State::Connected(connection.clone());
                    entry.offer(config, tools);
                    entry.prompts = prompts.into();
                    entry.since = SystemTime::now();
                    let (weak, alive) = (Arc::downgrade(self), Alive::one(&self.alive));
                    tokio::spawn(attend(weak, name.clone(), number, connection, watch, alive));
                }
                Err(error) => {
                    entry.state = match error {
                        McpError::NeedsAuth(_) => State::NeedsAuth,
                        other => State::Failed(other.to_string()),
                    };
                    entry.since = SystemTime::now();
                }
            }
            entry.info()
        };
        self.owner.changed(&info);
        self.settled.send_modify(|count| *count += 1);
    }

    /// A connection ended, whoever ended it.
    fn lost(&self, name: &Arc<str>, number: u64, why: String) {
        let info = {
            let mut entries = self.entries.lock();
            let Some(entry) = same(&mut entries, name, number) else {
                return;
            };
            if entry.since.elapsed().is_ok_and(|lived| lived > STEADY) {
                entry.attempts = 0;
            }
            entry.disconnect(State::Failed(why));
            entry.was_lost = true;
            entry.info()
        };
        self.owner.lost(name);
        self.owner.changed(&info);
        self.settled.send_modify(|count| *count += 1);
    }

    /// Changes what a connection offers, if it is still that connection.
    fn change(&self, name: &Arc<str>, number: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = same(&mut self.entries.lock(), name, number) {
            change(entry);
        }
    }

    /// Rereads a list that the server says has changed. False if that fails.
    async fn reread(
        weak: &std::sync::Weak<Self>,
        name: &Arc<str>,
        number: u64,
        connection: &Connection,
        list: List,
    ) -> bool {
        match list {
            List::Tools => {
                let changes = connection.list_changes.tool_changes();
                let tools = connection.tools().await;
                if let (Ok(tools), Some(inner)) = (&tools, weak.upgrade()) {
                    inner.change(name, number, |entry| {
                        if let Ok(config) = entry.config.clone() {
                            entry.offer(&config, tools.clone());
                        }
                    });
                }
                connection.list_changes.mark_tools_read(changes);
                return tools.is_ok();
            }
            List::Prompts => {
                let Ok(prompts) = connection.prompts().await else {
                    return false;
                };
                let Some(inner) = weak.upgrade() else { return false };
                inner.change(name, number, |entry| entry.prompts = prompts.into());
            }
            List::Resources => {}
        }
        true
    }
}

/// The server of this name.
fn named<'a>(entries: &'a mut [Entry], name: &str) -> Option<&'a mut Entry> {
    entries.iter_mut().find(|entry| *entry.name == *name)
}

/// The server of this name, unless it was restarted.
fn same<'a>(entries: &'a mut [Entry], name: &str, number: u64) -> Option<&'a mut Entry> {
    named(entries, name).filter(|entry| entry.start == number)
}

/// A connected server with its tools, prompts and resources.
struct Established {
    connection: Connection,
    watch: Watch,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
}

async fn establish(
    server: &Arc<str>,
    config: &ServerConfig,
    around: &Surroundings,
    owner: Arc<dyn Owner>,
) -> Result<Established, McpError> {
    let (connection, watch) = connect(server, config, around, owner).await?;
    match connection.tools().await {
        Ok(tools) => {
            // Tools are what counts: nobody waits long for the rest.
            let prompts = tokio::time::timeout(PROMPTS_LIMIT, connection.prompts()).await;
            Ok(Established {
                connection,
                watch,
                tools,
                prompts: prompts.ok().and_then(Result::ok).unwrap_or_default(),
            })
        }
        Err(McpError::Closed(_)) => Err(McpError::Failed(watch.ended().await.0)),
        Err(error) => Err(error),
    }
}

/// Looks after a connection until it ends.
async fn attend(
    inner: std::sync::Weak<Inner>,
    name: Arc<str>,
    number: u64,
    connection: Arc<Connection>,
    watch: Watch,
    _alive: Alive,
) {
    let list_changes = connection.list_changes.clone();
    let lists = async {
        loop {
            let list = list_changes.next().await;
            let read = Inner::reread(&inner, &name, number, &connection, list).await;
            let Some(inner) = inner.upgrade() else { return };
            if read {
                inner.owner.list_changed(&name, list);
            }
            drop(inner);
            tokio::time::sleep(LISTS_EVERY).await;
        }
    };
    let ended = watch.ended();
    tokio::pin!(ended);
    let (why, left) = tokio::select! {
        ended = &mut ended => ended,
        // Nobody has these servers any more.
        () = lists => {
            connection.close();
            ended.await
        }
    };
    if let Some(inner) = inner.upgrade() {
        inner.lost(&name, number, why);
    }
    if let Some(process) = left {
        process.end().await;
    }
}
