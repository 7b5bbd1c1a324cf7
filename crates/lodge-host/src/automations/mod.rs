//! Automations: messages that start sessions on a schedule or on request. Each run is an ordinary session, and needs no
//! connected client.
//!
//! `state` decides from the stored state and the time; the register stores. Everything is stored before anybody sees it: one
//! lock is held from the decision through the write to the notification, so all of it happens in one order.

mod definition;
mod runs;
mod state;
mod watch;

use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use lodge_log::Store as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use self::{
    definition::{Definition, MessageTemplate, Misfire, NamedModel, Schedule, SessionTemplate, StopRule},
    state::{Automation, RUN_HISTORY, Run, RunCause, RunEnd, RunOutcome, RunSession, RunUsage},
    watch::TurnWatch,
};
use crate::{
    RegisterError,
    host::Inner,
    registers::{Register, Registers},
    schedules::Clock,
    settings::Settings,
};

/// The setting that turns all automations off.
const ENABLED: &str = "automationsEnabled";
/// Limits of a host: number of automations, and bytes of their definitions together.
const MOST: usize = 200;
const BYTES: usize = 4 << 20;
/// Limit for an id or a request id, in bytes.
const NAME_BYTES: usize = 1 << 10;
/// Pause before a failed write is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(60);

/// Why an operation on an automation failed.
#[derive(Debug, thiserror::Error)]
pub enum AutomationError {
    /// It is invalid, for the reason in the text.
    #[error("{0}")]
    Invalid(String),
    /// It does not exist.
    #[error("there is no automation {0:?}")]
    NotFound(String),
    /// Another one has this id.
    #[error("another automation {0:?} already exists")]
    Exists(String),
    /// It has an active run.
    #[error("the automation {0:?} has an active run")]
    Active(String),
    /// The run does not exist.
    #[error("there is no run {0}")]
    NoRun(String),
    /// The run has ended.
    #[error("the run {0} is over")]
    Over(String),
    /// The limit of active runs is reached.
    #[error("{0} runs of this automation are already in progress")]
    TooMany(usize),
    /// Automations are turned off.
    #[error("Automations are disabled.")]
    Disabled,
    /// It cannot be saved.
    #[error("cannot save it: {0}")]
    Kept(#[from] RegisterError),
}

/// A change of automations.
pub enum AutomationChange<'a> {
    /// One is new or changed.
    Set {
        /// The old state.
        before: Option<&'a Automation>,
        /// The new state.
        now: &'a Automation,
    },
    /// One was removed.
    Removed(&'a Automation),
    /// Automations were turned on or off as a whole.
    Allowed(&'a [Automation]),
}

/// A run that is ready to start.
pub struct PreparedRun {
    /// The session that will be created.
    pub session: RunSession,
    /// Creates the session and sends it the message. Returns the message's id, or why there is no session.
    pub start: BoxFuture<'static, Result<String, String>>,
}

/// The face that serves automations: it creates their sessions and notifies its clients.
pub trait AutomationFace: Send + Sync {
    /// Prepares a run. `Err` says why it cannot start.
    fn prepare(self: Arc<Self>, automation: Automation, run: String)
    -> BoxFuture<'static, Result<PreparedRun, String>>;

    /// Stops the run's work in its session.
    fn stop(&self, session: &RunSession);

    /// Waits until clients that have the session of a run open see the end of its turn. After that, they are notified
    /// of the run's end.
    fn caught_up(self: Arc<Self>, session: String) -> BoxFuture<'static, ()>;

    /// A change was saved. `allowed` says whether automations may run.
    fn changed(&self, change: AutomationChange<'_>, allowed: bool);
}

/// The automations of a host.
pub struct Automations {
    host: Weak<Inner>,
    register: Register<Automation>,
    registers: Arc<dyn Registers>,
    settings: Arc<Settings>,
    clock: Clock,
    /// In the order of their creation; read on first use.
    known: OnceLock<Mutex<Vec<Automation>>>,
    /// Held for every change, from the decision to the notification.
    order: tokio::sync::Mutex<()>,
    /// The last value of which clients were notified.
    allowed: Mutex<Option<bool>>,
    /// Wakes the task that keeps the time.
    changed: Notify,
    /// Deleted sessions.
    gone: Mutex<Vec<String>>,
    face: Mutex<Option<Weak<dyn AutomationFace>>>,
    stop: CancellationToken,
}

impl Automations {
    pub(crate) fn new(
        host: Weak<Inner>,
        registers: Arc<dyn Registers>,
        settings: Arc<Settings>,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        Self {
            host,
            register: Register::new(&registers, "automation"),
            registers,
            settings,
            clock,
            known: OnceLock::new(),
            order: tokio::sync::Mutex::default(),
            allowed: Mutex::default(),
            changed: Notify::new(),
            gone: Mutex::default(),
            face: Mutex::default(),
            stop,
        }
    }

    /// Whether automations may run at all.
    pub fn are_allowed(&self) -> bool {
        self.settings.get(ENABLED).and_then(|value| value.as_bool()) != Some(false)
    }

    /// Reads all of them; nothing changes meanwhile.
    pub async fn look<T>(&self, look: impl FnOnce(&[Automation]) -> T) -> T {
        let _order = self.order.lock().await;
        look(&self.list())
    }

    /// All of them, in their current state.
    pub fn list(&self) -> Vec<Automation> {
        self.known().clone()
    }

    /// Lets a face create the sessions of runs and notify its clients. From now on, schedules run.
    pub fn serve(self: &Arc<Self>, face: Weak<dyn AutomationFace>) {
        drop(self.known());
        *self.allowed.lock() = Some(self.are_allowed());
        *self.face.lock() = Some(face);
        tokio::spawn(self.clone().keep_time());
    }

    /// Creates one. The same definition under the same id is no error: everybody is notified of the existing one.
    pub async fn create(&self, id: String, definition: Definition) -> Result<(), AutomationError> {
        if id.is_empty() || id.len() > NAME_BYTES {
            return Err(AutomationError::Invalid(format!("an id has 1 to {NAME_BYTES} bytes")));
        }
        definition.check()?;
        let _order = self.order.lock().await;
        if let Some(known) = self.get(&id) {
            if known.definition != definition {
                return Err(AutomationError::Exists(id));
            }
            self.tell(AutomationChange::Set {
                before: Some(&known),
                now: &known,
            });
            return Ok(());
        }
        let new = Automation::new(id, definition, self.clock.now());
        self.check_room(&new)?;
        self.put(new).await
    }

    /// Changes the definition of one.
    pub async fn update(
        &self,
        id: &str,
        change: impl FnOnce(Definition) -> Result<Definition, AutomationError>,
    ) -> Result<(), AutomationError> {
        let _order = self.order.lock().await;
        let known = self.get(id).ok_or_else(|| AutomationError::NotFound(id.to_owned()))?;
        let definition = change(known.definition.clone())?;
        definition.check()?;
        let changed = known.redefined(definition, self.clock.now());
        self.check_room(&changed)?;
        self.put(changed).await
    }

    /// Removes one and its history; the sessions of its runs stay. False if there was none.
    pub async fn remove(&self, id: &str) -> Result<bool, AutomationError> {
        let _order = self.order.lock().await;
        let Some(known) = self.get(id) else { return Ok(false) };
        if known.is_active() {
            return Err(AutomationError::Active(id.to_owned()));
        }
        self.register.remove(id)?;
        self.sync().await?;
        self.known().retain(|known| known.id != id);
        self.tell(AutomationChange::Removed(&known));
        self.changed.notify_one();
        Ok(true)
    }

    /// A session was deleted: its run continues without it.
    pub fn session_removed(&self, session: &str) {
        if self.known.get().is_some() {
            self.gone.lock().push(session.to_owned());
            self.changed.notify_one();
        }
    }

    /// A setting changed that may affect them.
    pub(crate) fn settings_changed(&self) {
        self.changed.notify_one();
    }

    fn known(&self) -> MutexGuard<'_, Vec<Automation>> {
        self.known.get_or_init(|| Mutex::new(self.read())).lock()
    }

    /// Reads the stored automations. Runs that were active when the host stopped have failed.
    fn read(&self) -> Vec<Automation> {
        let host = self.host.upgrade();
        let is_kept = |session: &str| {
            let exists = host.as_ref().map(|host| host.home.sessions().exists(session));
            exists.is_some_and(|exists| exists.unwrap_or(true))
        };
        let mut found: Vec<Automation> = self.register.list().into_iter().map(|(_, one)| one).collect();
        found.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        for one in &mut found {
            if one.interrupt(self.clock.now(), is_kept)
                && let Err(error) = self.register.set(&one.id, one)
            {
                tracing::warn!(%error, automation = one.id, "an interrupted run cannot be noted");
            }
        }
        found
    }

    fn get(&self, id: &str) -> Option<Automation> {
        self.known().iter().find(|known| known.id == id).cloned()
    }

    fn of_run(&self, run: &str) -> Option<Automation> {
        self.known().iter().find(|known| known.run(run).is_some()).cloned()
    }

    /// Checks the limits for one, which may replace the one with the same id.
    fn check_room(&self, new: &Automation) -> Result<(), AutomationError> {
        let size = |one: &Automation| serde_json::to_vec(&one.definition).map_or(0, |json| json.len());
        let known = self.known();
        let others = known.iter().filter(|known| known.id != new.id);
        let (number, bytes) = others.fold((1, size(new)), |(number, bytes), one| (number + 1, bytes + size(one)));
        if number > MOST || bytes > BYTES {
            let reason = format!(
                "a host keeps at most {MOST} automations, with at most {} MiB together",
                BYTES >> 20
            );
            return Err(AutomationError::Invalid(reason));
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), RegisterError> {
        let registers = self.registers.clone();
        let synced = tokio::task::spawn_blocking(move || registers.sync()).await;
        Ok(synced.map_err(std::io::Error::other)??)
    }

    /// Saves one to the disk. Nobody is notified yet.
    async fn keep(&self, automation: &Automation) -> Result<(), RegisterError> {
        self.register.set(&automation.id, automation)?;
        self.sync().await
    }

    /// Saves one and notifies clients.
    async fn put(&self, automation: Automation) -> Result<(), AutomationError> {
        self.keep(&automation).await?;
        self.show(automation);
        Ok(())
    }

    /// The same for a change that has already happened, whether or not it can be saved.
    async fn put_at_any_rate(&self, automation: Automation) {
        if let Err(error) = self.keep(&automation).await {
            tracing::error!(%error, automation = automation.id, "cannot save the result of a run");
        }
        self.show(automation);
    }

    fn show(&self, automation: Automation) {
        let mut known = self.known();
        let at = known.iter().position(|known| known.id == automation.id);
        let before = match at.and_then(|at| known.get_mut(at)) {
            Some(known) => Some(std::mem::replace(known, automation.clone())),
            None => {
                known.push(automation.clone());
                None
            }
        };
        drop(known);
        self.tell(AutomationChange::Set {
            before: before.as_ref(),
            now: &automation,
        });
        self.changed.notify_one();
    }

    fn tell(&self, change: AutomationChange<'_>) {
        if let Some(face) = self.face() {
            face.changed(change, self.are_allowed());
        }
    }

    fn face(&self) -> Option<Arc<dyn AutomationFace>> {
        self.face.lock().as_ref()?.upgrade()
    }

    /// Waits for the next due time; without one, for a change.
    async fn keep_time(self: Arc<Self>) {
        self.start_pending();
        loop {
            let next = self.do_what_is_due().await;
            let moment = async {
                match next {
                    Some(next) => self.clock.reach(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = moment => {}
                () = self.changed.notified() => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Starts runs that an earlier host recorded but did not start.
    fn start_pending(self: &Arc<Self>) {
        if !self.are_allowed() {
            return;
        }
        let pending = |one: &Automation| {
            let runs = one.runs.iter().filter(|run| run.is_pending());
            runs.map(|run| run.id.clone()).collect::<Vec<_>>()
        };
        let runs: Vec<String> = self.known().iter().flat_map(pending).collect();
        for run in runs {
            self.start_run(run);
        }
    }

    /// Runs everything that is due. Returns the next due time.
    async fn do_what_is_due(self: &Arc<Self>) -> Option<Timestamp> {
        let _order = self.order.lock().await;
        self.forget_sessions().await;
        self.tell_whether_allowed();
        if !self.are_allowed() {
            return None;
        }
        let now = self.clock.now();
        let due = |one: &&Automation| one.wake().is_some_and(|wake| wake <= now);
        let due: Vec<Automation> = self.known().iter().filter(due).cloned().collect();
        for mut automation in due {
            let begun = automation.tick(now);
            let id = automation.id.clone();
            if let Err(error) = self.put(automation).await {
                // Nothing runs that is not recorded.
                tracing::error!(%error, automation = id, "a schedule is due, but its run cannot be saved");
                return now.checked_add(RETRY).ok();
            }
            if let Some(run) = begun {
                tracing::info!(automation = id, run, "a schedule is due");
                self.start_run(run);
            }
        }
        self.known().iter().filter_map(Automation::wake).min()
    }

    /// Notifies clients if automations were turned on or off.
    fn tell_whether_allowed(self: &Arc<Self>) {
        let allowed = self.are_allowed();
        if self.allowed.lock().replace(allowed) != Some(allowed) {
            let all = self.list();
            self.tell(AutomationChange::Allowed(&all));
            self.start_pending();
        }
    }

    /// Removes deleted sessions from their runs.
    async fn forget_sessions(&self) {
        let gone = std::mem::take(&mut *self.gone.lock());
        for session in gone {
            let is_of = |run: &Run| run.session.as_ref().is_some_and(|known| known.id == session);
            let of = self.known().iter().find(|one| one.runs.iter().any(is_of)).cloned();
            let Some(mut automation) = of else { continue };
            for run in automation.runs.iter_mut().filter(|run| is_of(run)) {
                run.session = None;
            }
            self.put_at_any_rate(automation).await;
        }
    }
}
