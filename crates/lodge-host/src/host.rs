//! The host: every session there is, live or on disk.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use lodge_agent::{
    Agent, Approval, Change, Ending, Facts, GitContext, Mode, NewAgent, Reopen, Secrets, Settings, limits,
};
use lodge_events::{
    AbortReason, Event, LodgeApproval, SessionInfo, SessionModeChanged, SessionResume, SessionStart, SessionWarning,
    WorkingDirectoryContext,
};
use lodge_log::{Catalogue, EventReader, Home, Labels, LogError, Opened, Position, Store};
use lodge_mcp::{Configured, Logins};
use lodge_models::Catalogue as Models;
use lodge_tools::{
    Environment, SessionTools, Tool,
    changes::{self, Changes},
    rules::{Policy, RuleSet},
    sandbox::SandboxLauncher,
};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    Automations, Clock, Connections, HostError, Lifecycle, McpFiles, Metrics, NewSession, RegisterError, Resume,
    SessionSummary, Storage,
    hub::Hub,
    migrate,
    readiness::Readiness,
    registers::{FileRegisters, Registers},
    rewind,
    schedules::SessionSchedules,
    servers::logins,
    session::{Live, Session},
    settings::Settings as HostSettings,
    trust::Trust,
};

/// What this program calls itself in `session.start`.
const PRODUCER: &str = "lodge";
/// Version of the event format.
const EVENTS_VERSION: u64 = 1;

/// How often a session whose clients are gone is tried to be put to rest, and how long is waited in between.
const REST_TRIES: u32 = 100;
const REST_PAUSE: Duration = Duration::from_millis(20);

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
    models: Models,
    sandbox: Option<SandboxLauncher>,
    builtins: Arc<[Arc<dyn Tool>]>,
    logins: Arc<Logins>,
    pub(crate) mcp_servers: Mutex<Vec<Configured>>,
    version: String,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// One at a time may open or create a session of a given id; held across the opening.
    opening: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    pub(crate) lifecycle: broadcast::Sender<Lifecycle>,
    secrets: Arc<Secrets>,
    connections: Connections,
    metrics: Metrics,
    pub(crate) readiness: Readiness,
    registers: Arc<dyn Registers>,
    host_settings: Arc<HostSettings>,
    automations: Arc<Automations>,
    pub(crate) schedules: Arc<SessionSchedules>,
    /// Ends what the host does by itself.
    stop: CancellationToken,
}

impl Host {
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Starts hosting. Needs a runtime: idle sessions are put out of memory by a task.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        let registers = open_registers(&config.home)?;
        let settings = Arc::new(HostSettings::new(&registers));
        let (clock, stop) = (config.clock, CancellationToken::new());
        let inner = Arc::new_cyclic(|host: &Weak<Inner>| Inner {
            logins: Arc::new(logins(config.home.path())),
            home: config.home,
            models: config.models,
            sandbox: config.sandbox,
            builtins: lodge_tools::builtin().into(),
            mcp_servers: Mutex::default(),
            version: config.version,
            live: Mutex::default(),
            opening: Mutex::default(),
            lifecycle: broadcast::channel(1024).0,
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
            schedules: Arc::new(SessionSchedules::new(host.clone(), &registers, clock, stop.clone())),
            registers,
            host_settings: settings,
            stop,
        });
        tokio::spawn(put_out_idle(Arc::downgrade(&inner), config.idle_after));
        let host = Self(inner, None);
        tokio::spawn(rewind::finish_all_interrupted(host.clone()));
        Ok(host)
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
    pub fn models(&self) -> &Models {
        self.1.as_ref().map_or(&self.0.models, |caller| &caller.models)
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

    /// Makes a session. Its first event is `session.start`.
    pub async fn create(&self, new: NewSession) -> Result<Session, HostError> {
        let id = new.id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        if id.is_empty() {
            return Err(HostError::Invalid("A session id cannot be empty.".into()));
        }
        let settings = self.settings(&new)?;
        let gate = self.0.gate(&id);
        let open = gate.lock().await;
        if self.live(&id).is_some() {
            return Err(HostError::AlreadyExists(id));
        }
        self.0.home.ensure()?;
        let log = match self.0.home.sessions().create(&id) {
            Err(LogError::Exists { .. }) => return Err(HostError::AlreadyExists(id)),
            other => other?,
        };
        let context = context_of(&settings);
        let start = SessionStart {
            session_id: id.clone(),
            version: EVENTS_VERSION,
            producer: PRODUCER.into(),
            copilot_version: self.0.version.clone(),
            start_time: lodge_events::timestamp_text(jiff::Timestamp::now()),
            selected_model: Some(settings.model.info().id.clone()),
            reasoning_effort: settings.reasoning_effort.clone(),
            auto_tier: settings.auto.tier.clone(),
            context: Some(context),
            session_limits: limits(settings.limit),
            already_in_use: Some(false),
            remote_steerable: Some(false),
            ..SessionStart::default()
        };
        let session = self.start(
            &id,
            Opened {
                log,
                repaired: None,
                snapshot: None,
            },
            settings,
            &new.storage,
        )?;
        // Before the first event: a list that knows the session knows its name.
        self.0.label(&session, session.settings().name);
        if let Err(error) = session.record(start).await {
            // Nobody got it, so nobody may find it in the way of the next attempt.
            drop(open);
            let _ = self.delete(&id).await;
            return Err(error.into());
        }
        if new.mode != Mode::Interactive {
            // No field of `session.start` says it, and it must be known after a restart.
            let mode = SessionModeChanged {
                previous_mode: Mode::Interactive.as_str().into(),
                new_mode: new.mode.as_str().into(),
            };
            session.record(mode).await?;
        }
        if new.approval != Approval::default() {
            session
                .record(LodgeApproval {
                    mode: new.approval.into(),
                })
                .await?;
        }
        session.use_mcp_files(new.mcp_files);
        session.add_mcp_servers(new.mcp_servers);
        if let Some(agent) = &new.agent
            && let Err(error) = session.select_agent(Some(agent.clone())).await
        {
            // Without the agent that was asked for it is not the session that was asked for.
            drop(open);
            self.delete(&id).await?;
            return Err(error.into());
        }
        let _ = self.0.lifecycle.send(Lifecycle::Created(id));
        Ok(session)
    }

    fn start(&self, id: &str, opened: Opened, settings: Settings, storage: &Storage) -> Result<Session, HostError> {
        let session = self.start_with(id, opened, Facts::default(), settings, storage)?;
        self.0.enlist(&session);
        Ok(session)
    }

    fn start_with(
        &self,
        id: &str,
        opened: Opened,
        facts: Facts,
        settings: Settings,
        storage: &Storage,
    ) -> Result<Session, HostError> {
        let dir = self.0.home.sessions().dir(id)?;
        let (host, name) = (Arc::downgrade(&self.0), id.to_owned());
        let hub = Arc::new(Hub::with_tap(move |event| note(&host, &name, event)));
        // Rules that cannot be read are no reason to go on without them.
        let rules = RuleSet::load(self.0.home.path(), &settings.cwd, Policy::default())
            .map_err(|error| HostError::Invalid(format!("The permission rules cannot be used: {error}")))?;
        let mut tool_state = SessionTools::new(&dir).with_exclusions(rules.unsearchable());
        tool_state.use_environment(self.environment());
        if let Some(launcher) = &self.0.sandbox {
            tool_state = tool_state.with_sandbox(launcher.clone());
        }
        if let Some(name) = &storage.shown_as {
            tool_state = tool_state.shown_as(name.clone());
        }
        if let Some(database) = &storage.database {
            tool_state = tool_state.with_database(database.clone());
        }
        let agent = Agent::spawn(NewAgent {
            id: id.to_owned(),
            rules,
            changes: Arc::new(Changes::new(&dir, self.0.home.path(), changes::Limits::default())),
            dir,
            log: opened.log,
            reopen: self.0.reopen(id),
            facts,
            settings,
            builtins: self.0.builtins.clone(),
            tool_state: Arc::new(tool_state),
            trust: Trust::of(&self.0.home).store().clone(),
            find_hooks: Trust::of(&self.0.home).find_hooks(),
            logins: self.0.logins.clone(),
            publish: hub.clone(),
            secrets: self.0.secrets.clone(),
        });
        let live = Arc::new(Live {
            agent,
            hub,
            host: Arc::downgrade(&self.0),
            caller: self.1.clone(),
            mcp_files: Mutex::default(),
        });
        Ok(Session(live))
    }

    /// MCP servers that all sessions get beside those of files.
    pub fn add_mcp_servers(&self, servers: Vec<Configured>) {
        self.0.mcp_servers.lock().extend(servers);
    }

    /// A session that is in memory.
    pub fn live(&self, id: &str) -> Option<Session> {
        self.0.live.lock().get(id).cloned().map(Session)
    }

    /// Whether any session works.
    pub fn is_busy(&self) -> bool {
        self.0.live.lock().values().any(|session| session.agent.is_busy())
    }

    /// How many sessions are in memory.
    pub fn live_count(&self) -> usize {
        self.0.live.lock().len()
    }

    /// A session, from memory or from its log. Nothing is recorded by this, but repairs are.
    pub async fn open_session(&self, id: &str) -> Result<Session, HostError> {
        self.open_stored(id, &Storage::default()).await
    }

    /// The same for a session whose files a client keeps.
    pub async fn open_stored(&self, id: &str, storage: &Storage) -> Result<Session, HostError> {
        if let Some(session) = self.live(id) {
            // One that nobody has open any more is from now on the caller's.
            if self.1.is_some() && session.clients() == 0 && !session.is_busy() {
                session.configure(Change::Environment(self.environment())).await?;
            }
            return Ok(session);
        }
        let gate = self.0.gate(id);
        let _open = gate.lock().await;
        if let Some(session) = self.live(id) {
            return Ok(session);
        }
        let (inner, name) = (self.0.clone(), id.to_owned());
        let (opened, facts) = tokio::task::spawn_blocking(move || {
            let opened = inner.home.sessions().open(&name)?;
            let facts = Facts::read(&opened)?;
            Ok::<_, LogError>((opened, facts))
        })
        .await
        .map_err(|_| HostError::Invalid(format!("The session {id} could not be opened.")))?
        .map_err(|error| match error {
            LogError::NotFound { .. } => HostError::NotFound(id.to_owned()),
            other => other.into(),
        })?;
        let settings = self.settings_of(id, &facts)?;
        let repaired = opened.repaired.as_ref().map(ToString::to_string);
        let session = self.start_with(id, opened, facts, settings, storage)?;
        session.use_mcp_files(McpFiles::default());
        // Before anybody else gets it: what they see is what it ends with.
        if let Err(error) = session.finish_interrupted().await {
            let message = format!("A rewind was interrupted and cannot be finished: {error}");
            tracing::warn!(session = id, message);
            let info = SessionInfo {
                info_type: "rewind_interrupted".into(),
                message,
                ..SessionInfo::default()
            };
            session.record(info).await?;
        }
        if let Some(message) = session.queue_damage() {
            let warning = SessionWarning {
                warning_type: "queue_damaged".into(),
                message: message.to_owned(),
                ..SessionWarning::default()
            };
            session.record(warning).await?;
        }
        if let Some(message) = repaired {
            session
                .record(SessionInfo {
                    info_type: "log_repaired".into(),
                    message,
                    ..SessionInfo::default()
                })
                .await?;
        }
        self.0.enlist(&session);
        Ok(session)
    }

    /// Opens a session to go on with it: `session.resume` is recorded, and what was open when the host went down is
    /// taken up again or closed.
    pub async fn resume(&self, id: &str, resume: Resume) -> Result<Session, HostError> {
        let was_live = self.live(id).is_some();
        let session = self.open_session(id).await?;
        for change in self.changes(&resume)? {
            session.configure(change).await?;
        }
        if let Some(files) = resume.mcp_files.clone() {
            session.mcp().forget_files();
            session.use_mcp_files(files);
        }
        session.add_mcp_servers(resume.mcp_servers.clone());
        if let Some(agent) = &resume.agent {
            session.select_agent(Some(agent.clone())).await?;
        }
        let settings = session.settings();
        let event_count = session.paused(|log| log.count());
        if !resume.silent {
            session
                .record(SessionResume {
                    resume_time: lodge_events::timestamp_text(jiff::Timestamp::now()),
                    event_count,
                    selected_model: Some(settings.model.info().id.clone()),
                    reasoning_effort: settings.reasoning_effort.clone(),
                    auto_tier: settings.auto.tier.clone(),
                    context: Some(context_of(&settings)),
                    session_limits: limits(settings.limit),
                    already_in_use: Some(was_live && session.clients() > 1),
                    session_was_active: Some(session.is_busy()),
                    continue_pending_work: Some(resume.continue_pending),
                    ..SessionResume::default()
                })
                .await?;
        }
        // Asked again, or closed as interrupted: either way nothing is left hanging.
        if resume.continue_pending {
            session.continue_pending().await?
        } else {
            session.settle_interrupted().await?
        };
        Ok(session)
    }

    /// Removes a session and everything kept with it.
    pub async fn delete(&self, id: &str) -> Result<(), HostError> {
        let gate = self.0.gate(id);
        let _open = gate.lock().await;
        let live = self.0.live.lock().remove(id);
        if let Some(live) = live {
            live.agent.close(Ending::Routine).await;
            live.hub.close();
        }
        let sessions = self.0.home.sessions();
        let dir = sessions.exists(id).is_ok_and(|there| there).then(|| sessions.dir(id));
        match self.0.home.sessions().delete(id) {
            Err(LogError::NotFound { .. }) => return Err(HostError::NotFound(id.to_owned())),
            other => other?,
        }
        if let Some(Ok(dir)) = dir
            && let Err(error) = Changes::forget_interrupted(&dir, self.0.home_path())
        {
            tracing::warn!(session = id, %error, "the journal of an interrupted rewind stays behind");
        }
        self.0.automations.session_removed(id);
        self.0.schedules.removed(id);
        let _ = self.0.lifecycle.send(Lifecycle::Deleted(id.to_owned()));
        Ok(())
    }

    /// Ends a session's life in memory; it stays on disk.
    pub async fn close(&self, id: &str) -> bool {
        self.end(id, Ending::Routine).await
    }

    /// Like [`Host::close`], for this reason.
    pub async fn end(&self, id: &str, ending: Ending) -> bool {
        let Some(live) = self.0.live.lock().remove(id) else {
            return false;
        };
        live.agent.close(ending).await;
        live.hub.close();
        true
    }

    /// Lets a session leave memory whose turn waits for clients that are all gone. Whoever takes it up again decides about
    /// what is open.
    pub async fn rest(&self, id: &str) {
        for _ in 0..REST_TRIES {
            let gate = self.0.gate(id);
            let open = gate.lock().await;
            let Some(live) = self.0.live.lock().remove(id) else {
                return;
            };
            // Nobody else holds it, and since it is not in the map nobody can take hold of it now.
            let alone = Arc::strong_count(&live) == 1;
            if alone && live.agent.rest().await {
                live.hub.close();
                return;
            }
            self.0.live.lock().insert(id.to_owned(), live);
            drop(open);
            if alone {
                return;
            }
            // What a client that just left was about still holds it for a moment.
            tokio::time::sleep(REST_PAUSE).await;
            if self
                .live(id)
                .is_none_or(|session| session.clients() > 0 || !session.is_busy())
            {
                return;
            }
        }
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

    /// Ends every session's life in memory, because something told the program to end.
    pub async fn shutdown(&self) {
        self.shutdown_because(AbortReason::RemoteCommand).await;
    }

    /// Like [`Host::shutdown`], where it is known who wants it.
    pub async fn shutdown_because(&self, reason: AbortReason) {
        self.0.stop.cancel();
        let all: Vec<_> = self.0.live.lock().drain().map(|(_, live)| live).collect();
        for live in all {
            live.agent.close(Ending::HostStops(reason.clone())).await;
            live.hub.close();
        }
        self.catalogue().flush();
        let registers = self.0.registers.clone();
        let synced = tokio::task::spawn_blocking(move || registers.sync()).await;
        if let Ok(Err(error)) = synced {
            tracing::warn!(%error, "the host's registers are not on the disk");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Inner {
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
            tracing::warn!(session = session.id(), %error, "the session's name could not be kept");
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

    /// From here on others find the session.
    fn enlist(&self, session: &Session) {
        self.live.lock().insert(session.id().to_owned(), session.0.clone());
        self.schedules.opened(session.id());
    }

    /// Opens a session's log anew when another process has written to it.
    fn reopen(self: &Arc<Self>, id: &str) -> Reopen {
        let (host, id) = (Arc::downgrade(self), id.to_owned());
        Box::new(move || match host.upgrade() {
            Some(host) => Ok(host.home.sessions().open(&id)?.log),
            None => Err(LogError::NotFound { id: id.clone() }),
        })
    }
}

/// Tells who watches all sessions.
fn note(host: &Weak<Inner>, id: &str, event: &Event) {
    let Some(host) = host.upgrade() else { return };
    host.metrics.observe(event);
    host.schedules.event(id, event);
    // Its first event is what makes a session, and that is told as such. What hangs beside the chain is in no list.
    if event.is_ephemeral() || event.is_beside() || event.is::<SessionStart>() {
        return;
    }
    let _ = host.lifecycle.send(Lifecycle::Updated(id.to_owned()));
}

/// The registers of a home, with what earlier builds kept elsewhere.
fn open_registers(home: &Home) -> Result<Arc<dyn Registers>, HostError> {
    let path = home.path().join("registers.jsonl");
    let failed = |error: std::io::Error| HostError::Invalid(format!("The host's registers cannot be read: {error}"));
    let registers: Arc<dyn Registers> = Arc::new(FileRegisters::open(path, !home.is_exclusive()).map_err(failed)?);
    if home.is_exclusive() {
        migrate::migrate(home.path(), &registers);
    }
    Ok(registers)
}

fn context_of(settings: &Settings) -> WorkingDirectoryContext {
    let git = GitContext::of(&settings.cwd);
    WorkingDirectoryContext {
        cwd: settings.cwd.to_string_lossy().into_owned(),
        git_root: git.root,
        repository: git.repository,
        branch: git.branch,
        ..WorkingDirectoryContext::default()
    }
}

/// Puts sessions out of memory that nobody holds and that do nothing. Their logs stay, and they come back when somebody
/// asks.
async fn put_out_idle(host: Weak<Inner>, idle_after: Duration) {
    let mut idle_since: HashMap<String, Instant> = HashMap::new();
    let mut tick = tokio::time::interval((idle_after / 2).max(Duration::from_millis(50)));
    loop {
        tick.tick().await;
        let Some(host) = host.upgrade() else { return };
        let mut live = host.live.lock();
        idle_since.retain(|id, _| live.contains_key(id));
        live.retain(|id, session| {
            // Nobody but this map holds it, and since the map is locked nobody can take hold of it now.
            let idle = Arc::strong_count(session) == 1 && !session.agent.is_busy();
            if !idle {
                idle_since.remove(id);
                return true;
            }
            let since = *idle_since.entry(id.clone()).or_insert_with(Instant::now);
            since.elapsed() < idle_after
        });
    }
}
