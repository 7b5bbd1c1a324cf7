//! The host: all sessions, live or on disk.

mod ending;
mod environments;
mod opening;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lodge_agent::{Secrets, Supply};
use lodge_log::{Catalogue, EventReader, Home, Labels, LogError, Position, Store};
use lodge_mcp::{Configured, Logins};
use lodge_models::Catalogue as Models;
use lodge_tools::{Environment, Memories, Tool, sandbox::SandboxLauncher};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Automations, Backlog, Clock, Connections, Counter, Decisions, HostError, Lifecycle, Metrics, PushSubscriptions,
    RegisterError, SessionSummary, decided_parts,
    keeper::Keeper,
    marks::SessionMarks,
    migrate,
    other_hosts::BusyElsewhere,
    plugins::Plugins,
    readiness::Readiness,
    registers::{self, FileRegisters, Registers},
    rewind,
    schedules::SessionSchedules,
    servers::logins,
    session::{Live, Session},
    settings::Settings as HostSettings,
    unused::{self, UnusedSessions},
};

/// How a host is set up.
pub struct HostConfig {
    /// The home, opened and locked.
    pub home: Home,
    /// The models.
    pub models: Models,
    /// How shell commands are sandboxed, if they are.
    pub sandbox: Option<SandboxLauncher>,
    /// How long a session that nobody uses stays in memory.
    pub idle_after: Duration,
    /// The version to tell clients.
    pub version: String,
    /// What time it is for schedules.
    pub clock: Clock,
}

/// On whose behalf sessions are started, where that is not whoever started the host. It is kept in memory only.
#[derive(Clone)]
pub struct Caller {
    /// The caller's variables, which the programs of its sessions get.
    pub environment: Environment,
    /// Where the caller works, and its sessions unless they are told otherwise.
    pub cwd: PathBuf,
    /// The models, with the caller's keys.
    pub models: Models,
}

/// The host. Cheap to clone.
#[derive(Clone)]
pub struct Host(pub(crate) Arc<Inner>, pub(crate) Option<Arc<Caller>>);

pub(crate) struct Inner {
    pub(crate) home: Home,
    keeper: Option<Arc<dyn Keeper>>,
    /// The models now. Who keeps them hears when they are others.
    models: watch::Sender<Models>,
    sandbox: Option<SandboxLauncher>,
    builtins: Arc<[Arc<dyn Tool>]>,
    logins: Arc<Logins>,
    pub(crate) mcp_servers: Mutex<Vec<Configured>>,
    version: String,
    pub(crate) live: Mutex<HashMap<String, Arc<Live>>>,
    /// By the ids of sessions, whether they are open or not.
    environments: Mutex<HashMap<String, Environment>>,
    /// One at a time may open or create a session of a given id; held across the opening.
    opening: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    pub(crate) lifecycle: broadcast::Sender<Lifecycle>,
    pub(crate) busy_elsewhere: Mutex<BusyElsewhere>,
    secrets: Arc<Secrets>,
    connections: Connections,
    metrics: Metrics,
    pub(crate) readiness: Readiness,
    registers: Arc<dyn Registers>,
    host_settings: Arc<HostSettings>,
    pub(crate) marks: Arc<SessionMarks>,
    pub(crate) decisions: Decisions,
    push: Arc<PushSubscriptions>,
    automations: Arc<Automations>,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) memories: Arc<Memories>,
    /// Whether agents of new sessions keep facts about projects, unless somebody says otherwise of a session.
    pub(crate) keeps_memories: AtomicBool,
    pub(crate) schedules: Arc<SessionSchedules>,
    pub(crate) unused: Arc<UnusedSessions>,
    /// Ends what the host does by itself.
    stop: CancellationToken,
}

impl Host {
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Starts hosting. Needs a runtime: idle sessions are put out of memory by a task.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        Self::with_keeper(config, None)
    }

    /// The same for a host whose sessions are kept elsewhere as well.
    pub fn with_keeper(config: HostConfig, keeper: Option<Arc<dyn Keeper>>) -> Result<Self, HostError> {
        let registers = open_registers(&config.home)?;
        let settings = Arc::new(HostSettings::new(&registers));
        let (clock, stop) = (config.clock, CancellationToken::new());
        let home = config.home.path().to_owned();
        let inner = Arc::new_cyclic(|host: &Weak<Inner>| Inner {
            logins: Arc::new(logins(config.home.path())),
            home: config.home,
            keeper,
            models: watch::Sender::new(config.models),
            sandbox: config.sandbox,
            builtins: lodge_tools::builtin().into(),
            mcp_servers: Mutex::default(),
            version: config.version,
            live: Mutex::default(),
            environments: Mutex::default(),
            opening: Mutex::default(),
            lifecycle: broadcast::channel(1024).0,
            busy_elsewhere: Mutex::default(),
            secrets: Arc::default(),
            connections: Connections::default(),
            metrics: Metrics::default(),
            readiness: Readiness::default(),
            automations: Arc::new(Automations::new(
                host.clone(),
                registers.clone(),
                settings.clone(),
                clock.clone(),
                stop.clone(),
            )),
            plugins: Arc::new(Plugins::new(&home, &registers)),
            memories: Arc::new(Memories::of_home(&home)),
            keeps_memories: AtomicBool::new(false),
            unused: Arc::new(UnusedSessions::new(&registers, clock.clone())),
            schedules: Arc::new(SessionSchedules::new(host.clone(), &registers, clock, stop.clone())),
            marks: SessionMarks::new(&registers),
            decisions: Decisions::new(&registers),
            push: Arc::new(PushSubscriptions::new(&registers)),
            registers,
            host_settings: settings,
            stop,
        });
        tokio::spawn(ending::evict_idle(Arc::downgrade(&inner), config.idle_after));
        tokio::spawn(decided_parts::follow_decisions(Arc::downgrade(&inner)));
        if inner.home.is_exclusive() {
            tokio::spawn(unused::delete_in_time(Arc::downgrade(&inner), inner.stop.clone()));
        }
        let host = Self(inner, None);
        tokio::spawn(rewind::finish_all_interrupted(host.clone()));
        Ok(host)
    }

    pub(crate) fn keeper(&self) -> Option<&Arc<dyn Keeper>> {
        self.0.keeper.as_ref()
    }

    /// Whether sessions are kept elsewhere as well: then there may be some that the home has nothing of.
    pub fn is_kept(&self) -> bool {
        self.0.keeper.is_some()
    }

    /// Sends what sessions have scheduled when it is due, from now on. For programs that stay: one that is about to end
    /// would begin turns that it cannot finish. Where others use the home, too, each sees to the sessions that it has open.
    pub fn keep_schedules(&self) {
        self.0.schedules.start(self.0.home.is_exclusive());
    }

    /// What is done again and again, or at the push of a button.
    pub fn automations(&self) -> &Arc<Automations> {
        &self.0.automations
    }

    /// The plugins that the user installed, and the marketplaces that they come from.
    pub fn plugins(&self) -> &Arc<Plugins> {
        &self.0.plugins
    }

    /// What people arranged about sessions that is no part of a conversation.
    pub fn marks(&self) -> &SessionMarks {
        &self.0.marks
    }

    /// What people turned on and off for more than one session.
    pub fn decisions(&self) -> &Decisions {
        &self.0.decisions
    }

    /// What is kept for web push.
    pub fn push_subscriptions(&self) -> &Arc<PushSubscriptions> {
        &self.0.push
    }

    /// Numbers above all that were handed out under a name before; where there are other hosts, numbers that are nobody else's. One
    /// at a time may count under it.
    pub fn counter(&self, name: &'static str) -> Counter {
        match self.is_kept() {
            true => Counter::anywhere(),
            false => Counter::open(&self.0.registers, name),
        }
    }

    /// The settings of the host as a whole.
    pub fn host_settings(&self) -> serde_json::Map<String, serde_json::Value> {
        self.0.host_settings.all()
    }

    /// Makes the settings of the host as a whole these and no others.
    pub fn set_host_settings(&self, values: &serde_json::Map<String, serde_json::Value>) -> Result<(), RegisterError> {
        self.0.host_settings.replace(values)?;
        self.0.automations.settings_changed();
        Ok(())
    }

    /// The same host, for somebody else: the sessions that are started by this handle are the caller's.
    pub fn on_behalf_of(&self, caller: Caller) -> Self {
        Self(self.0.clone(), Some(Arc::new(caller)))
    }

    /// The same host, for sessions whose programs get these variables.
    pub fn with_environment(&self, environment: Environment) -> Self {
        self.on_behalf_of(Caller {
            environment,
            cwd: self.cwd(),
            models: self.models(),
        })
    }

    /// Where the caller works.
    pub fn cwd(&self) -> PathBuf {
        let own = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        self.1.as_ref().map_or_else(own, |caller| caller.cwd.clone())
    }

    /// The caller's variables.
    pub fn environment(&self) -> Environment {
        let caller = self.1.as_ref();
        caller.map_or_else(Environment::default, |caller| caller.environment.clone())
    }

    /// The models.
    pub fn models(&self) -> Models {
        let own = || self.0.models.borrow().clone();
        self.1.as_ref().map_or_else(own, |caller| caller.models.clone())
    }

    /// Tells when [`Host::use_models`] replaced the models.
    pub fn models_changed(&self) -> watch::Receiver<Models> {
        self.0.models.subscribe()
    }

    /// Replaces the models, after the configuration changed. Sessions for which nobody chose a model get the new default at
    /// once, in the middle of a turn from its next call on; the others keep theirs. Without a default for them, nothing changes.
    pub async fn use_models(&self, models: Models) -> Result<(), HostError> {
        let mut live: Vec<_> = self.0.live.lock().values().cloned().map(Session).collect();
        live.retain(|session| session.state().model.is_none());
        if live.is_empty() {
            self.0.models.send_replace(models);
            return Ok(());
        }
        let default = models.resolve(None);
        let default = default.map_err(|error| HostError::Invalid(error.to_string()))?;
        self.0.models.send_replace(models);
        for session in live {
            if let Err(error) = session.supply(Supply::model(default.clone())).await {
                tracing::warn!(session = session.id(), %error, "a session keeps its model: it cannot use the new default");
            }
        }
        Ok(())
    }

    /// The home directory.
    pub fn home(&self) -> &Home {
        &self.0.home
    }

    /// The version to tell clients.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The built-in tools.
    pub fn builtin_tools(&self) -> &[Arc<dyn Tool>] {
        &self.0.builtins
    }

    /// What events of no session may hold.
    pub fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// The budget that the connections of all faces share.
    pub fn connections(&self) -> &Connections {
        &self.0.connections
    }

    /// What the host has done since it started.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// What happens to sessions, whoever does it.
    pub fn lifecycle(&self) -> broadcast::Receiver<Lifecycle> {
        self.0.lifecycle.subscribe()
    }

    /// The list of sessions and their texts, for lists and searches.
    pub fn catalogue(&self) -> &Catalogue {
        self.0.home.catalogue()
    }

    /// MCP servers that all sessions get beside those of files.
    pub fn add_mcp_servers(&self, servers: Vec<Configured>) {
        self.0.mcp_servers.lock().extend(servers);
    }

    /// Whether agents may keep facts about projects, in sessions of which nobody says otherwise.
    pub fn keep_memories(&self, keep: bool) {
        self.0.keeps_memories.store(keep, Ordering::Relaxed);
    }

    /// A session that is in memory.
    pub fn live(&self, id: &str) -> Option<Session> {
        self.0.live.lock().get(id).cloned().map(Session)
    }

    /// Whether a turn or a sub-agent runs in any session, or a command that was left in the background.
    pub fn has_work(&self) -> bool {
        self.0.live.lock().values().any(|session| session.agent.has_work())
    }

    /// What waits now, over all sessions in memory.
    pub fn backlog(&self) -> Backlog {
        // The agents are asked after the lock of the list is given back.
        let live: Vec<_> = self.0.live.lock().values().cloned().collect();
        let mut backlog = Backlog::default();
        for session in live {
            let (next, steering) = session.agent.queue();
            backlog.busy_sessions += usize::from(session.agent.is_busy());
            backlog.queued_messages += next.len() + steering.len();
            backlog.open_questions += session.agent.pending().len();
        }
        backlog
    }

    /// How many sessions are in memory.
    pub fn live_count(&self) -> usize {
        self.0.live.lock().len()
    }

    /// Whether a session is in memory, or another process runs a turn in it.
    pub fn in_use(&self, id: &str) -> bool {
        if self.live(id).is_some() {
            return true;
        }
        let Ok(true) = self.0.home.sessions().exists(id) else {
            return false;
        };
        let dir = self.0.home.sessions().dir(id).ok();
        // What is locked by this is let go at once, by closing it.
        dir.and_then(|dir| std::fs::File::open(dir).ok())
            .is_some_and(|dir| matches!(dir.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
    }

    /// Reads a session's events without bringing it to life.
    pub fn read(&self, id: &str) -> Result<EventReader, HostError> {
        match self.live(id) {
            Some(session) => Ok(session.history()?),
            None => match self.0.home.sessions().read(id, Position::START, Position::END) {
                Err(LogError::NotFound { .. }) => Err(HostError::NotFound(id.to_owned())),
                other => Ok(other?),
            },
        }
    }

    /// What lists show of one session.
    pub fn summary(&self, id: &str) -> Result<Option<SessionSummary>, HostError> {
        self.0.summary(id)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Inner {
    /// Takes a session out of memory's list, if it is this one.
    pub(crate) fn forget_if(&self, id: &str, is_it: impl FnOnce(&Arc<Live>) -> bool) -> Option<Arc<Live>> {
        let mut live = self.live.lock();
        match live.get(id).is_some_and(is_it) {
            true => live.remove(id),
            false => None,
        }
    }

    pub(crate) fn home_path(&self) -> &std::path::Path {
        self.home.path()
    }

    pub(crate) fn mcp_logins(&self) -> &Logins {
        &self.logins
    }

    /// What is said of a session beside its log; nothing, when that cannot be read.
    pub(crate) fn labels(&self, id: &str) -> Labels {
        self.home.sessions().labels(id).unwrap_or_default()
    }

    /// Writes down what no event says of a session. It works without, so a failure is only logged.
    pub(crate) fn label(&self, session: &Session, name: Option<String>) {
        let settings = session.settings();
        let labels = Labels {
            user_named: name.is_some(),
            name,
            client_name: settings.client_name,
        };
        if let Err(error) = self.home.sessions().set_labels(session.id(), &labels) {
            tracing::warn!(session = session.id(), %error, "cannot save the session's name");
        }
    }

    /// The lock that makes opening and creating a session of this id one at a time.
    pub(crate) fn gate(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut opening = self.opening.lock();
        opening.retain(|_, gate| Arc::strong_count(gate) > 1);
        opening.entry(id.to_owned()).or_default().clone()
    }

    pub(crate) fn summary(&self, id: &str) -> Result<Option<SessionSummary>, HostError> {
        Ok(self.home.catalogue().get(id)?)
    }
}

/// The registers of a home, with what earlier builds kept elsewhere.
fn open_registers(home: &Home) -> Result<Arc<dyn Registers>, HostError> {
    let path = home.path().join(registers::FILE);
    let failed = |error: std::io::Error| HostError::Invalid(format!("The host's registers cannot be read: {error}"));
    let registers: Arc<dyn Registers> = Arc::new(FileRegisters::open(path, !home.is_exclusive()).map_err(failed)?);
    if home.is_exclusive() {
        migrate::migrate(home, &registers);
    }
    Ok(registers)
}
