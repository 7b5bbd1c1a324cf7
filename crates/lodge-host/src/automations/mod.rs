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
/// A host has at most so many automations, with definitions of so many bytes together.
const MOST: usize = 200;
const BYTES: usize = 4 << 20;
/// An id and a key of somebody who asks for a run have at most so many bytes.
const NAME_BYTES: usize = 1 << 10;
/// After so long it is tried again to keep what could not be kept.
const RETRY: SignedDuration = SignedDuration::from_secs(60);

/// Why something was not done to an automation.
#[derive(Debug, thiserror::Error)]
pub enum AutomationError {
    /// It makes no sense, and the text says why.
    #[error("{0}")]
    Invalid(String),
    /// There is none of this id.
    #[error("there is no automation {0:?}")]
    NotFound(String),
    /// There is another one of this id.
    #[error("another automation {0:?} already exists")]
    Exists(String),
    /// One of its runs goes on.
    #[error("the automation {0:?} has an active run")]
    Active(String),
    /// There is no such run.
    #[error("there is no run {0}")]
    NoRun(String),
    /// The run has ended.
    #[error("the run {0} is over")]
    Over(String),
    /// So many runs go on already.
    #[error("{0} runs of this automation are already in progress")]
    TooMany(usize),
    /// Somebody turned all automations off.
    #[error("Automations are disabled.")]
    Disabled,
    /// It cannot be kept.
    #[error("cannot save it: {0}")]
    Kept(#[from] RegisterError),
}

/// What happened to automations.
pub enum AutomationChange<'a> {
    /// One is new, or otherwise than before.
    Set {
        /// As it was.
        before: Option<&'a Automation>,
        /// As it is.
        now: &'a Automation,
    },
    /// One is gone.
    Removed(&'a Automation),
    /// Automations were turned on or off as a whole.
    Allowed(&'a [Automation]),
}

/// A run that can begin.
pub struct PreparedRun {
    /// The session that is about to be.
    pub session: RunSession,
    /// Makes the session and gives it the message. The id of that, or why there is no session after all.
    pub start: BoxFuture<'static, Result<String, String>>,
}

/// The face that automations are made by: it knows how to make their sessions and who is to be told.
pub trait AutomationFace: Send + Sync {
    /// Gets a run ready. `Err` says why it cannot begin.
    fn prepare(self: Arc<Self>, automation: Automation, run: String)
    -> BoxFuture<'static, Result<PreparedRun, String>>;

    /// Stops what goes on in the session of a run, as far as the run began it.
    fn stop(&self, session: &RunSession);

    /// Waits until clients that look at the session of a run see that its turn has ended. They hear of the run's end after
    /// that.
    fn caught_up(self: Arc<Self>, session: String) -> BoxFuture<'static, ()>;

    /// Something happened, and is kept. `allowed` says whether automations may run.
    fn changed(&self, change: AutomationChange<'_>, allowed: bool);
}

/// The automations of a host.
pub struct Automations {
    host: Weak<Inner>,
    register: Register<Automation>,
    registers: Arc<dyn Registers>,
    settings: Arc<Settings>,
    clock: Clock,
    /// In the order in which they were made; read when somebody first looks.
    known: OnceLock<Mutex<Vec<Automation>>>,
    /// Held by whoever changes something, from the decision to the telling.
    order: tokio::sync::Mutex<()>,
    /// Whether clients were told that automations may run.
    allowed: Mutex<Option<bool>>,
    /// Whoever keeps the time has something new to look at.
    changed: Notify,
    /// Sessions that were removed.
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

    /// Looks at all of them while nothing changes.
    pub async fn look<T>(&self, look: impl FnOnce(&[Automation]) -> T) -> T {
        let _order = self.order.lock().await;
        look(&self.list())
    }

    /// All of them, as they are now.
    pub fn list(&self) -> Vec<Automation> {
        self.known().clone()
    }

    /// Lets a face make the sessions of runs and tell its clients, and keeps the time from now on.
    pub fn serve(self: &Arc<Self>, face: Weak<dyn AutomationFace>) {
        drop(self.known());
        *self.allowed.lock() = Some(self.are_allowed());
        *self.face.lock() = Some(face);
        tokio::spawn(self.clone().keep_time());
    }

    /// Makes one. The same definition under the same id is no second automation, and everybody hears of the first.
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

    /// Removes one and what is known of its runs; their sessions stay. False: there was none.
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

    /// A session was removed: the run that it was made for does without it.
    pub fn session_removed(&self, session: &str) {
        if self.known.get().is_some() {
            self.gone.lock().push(session.to_owned());
            self.changed.notify_one();
        }
    }

    /// A setting changed that they may depend on.
    pub(crate) fn settings_changed(&self) {
        self.changed.notify_one();
    }

    fn known(&self) -> MutexGuard<'_, Vec<Automation>> {
        self.known.get_or_init(|| Mutex::new(self.read())).lock()
    }

    /// Reads what is kept. Runs that were going on when the host ended have failed.
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

    /// Whether there is room for one, in place of the one that has its id.
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

    /// Keeps one, on the disk. Nobody knows of it yet.
    async fn keep(&self, automation: &Automation) -> Result<(), RegisterError> {
        self.register.set(&automation.id, automation)?;
        self.sync().await
    }

    /// Keeps one and tells.
    async fn put(&self, automation: Automation) -> Result<(), AutomationError> {
        self.keep(&automation).await?;
        self.show(automation);
        Ok(())
    }

    /// The same where it is so, whether or not it can be kept.
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

    /// Waits for the next moment at which a schedule is due, and for nothing where there is none.
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

    /// Starts what was asked for, or due, and has not begun: a host before this one did not come to it.
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

    /// Does what the time has come for. When there is something to do next.
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
                // Nothing runs that is not written down.
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

    /// Tells clients whether automations may run, where that is otherwise than they know.
    fn tell_whether_allowed(self: &Arc<Self>) {
        let allowed = self.are_allowed();
        if self.allowed.lock().replace(allowed) != Some(allowed) {
            let all = self.list();
            self.tell(AutomationChange::Allowed(&all));
            self.start_pending();
        }
    }

    /// Takes sessions that were removed out of their runs.
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
