//! State that the tools of one session share, and that ends with the session.

use std::{
    collections::{HashSet, VecDeque},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    Database, Environment, Memories, Memory, ToolCx, ToolError, process,
    rules::Exclusions,
    sandbox::{self, Jail, SandboxLauncher, SandboxSpec},
    scratch::Scratch,
    shells::{BackgroundShell, Shell},
    spill::{Collected, Place},
};

/// Shells that may run at the same time.
const MAX_RUNNING: usize = 32;
/// Ended shells whose output can still be read.
const MAX_ENDED: usize = 32;
/// Commands that a jail is not enough for; of more nothing is known.
const MAX_BEYOND: usize = 1024;
/// Calls whose permission is being asked.
const MAX_ASKED: usize = 256;

/// Long-lived parts of a session's tools: its shells, its scratch database, what it asked permission for.
pub struct SessionTools {
    dir: PathBuf,
    /// Unique per instance, so that a sweep never ends another session's processes.
    pub(crate) name: String,
    launcher: Option<SandboxLauncher>,
    environment: Mutex<Environment>,
    shells: Mutex<Vec<Arc<Shell>>>,
    /// Counts up when a command continues in the background, and when one of those ends.
    background_changed: watch::Sender<u64>,
    pub(crate) next: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// Whether programs other than shells may have been started.
    programs: AtomicBool,
    pub(crate) scratch: Scratch,
    /// Takes the place of the scratch database, where a client keeps one for the session.
    pub(crate) database: Option<Arc<dyn Database>>,
    /// What is kept of projects.
    pub(crate) memories: Option<Arc<Memories>>,
    /// The name that models know the session's directory by, where it has another.
    shown: Option<PathBuf>,
    /// Where large results go, if not to the session's directory.
    large: Mutex<Option<PathBuf>>,
    exclusions: Exclusions,
    asked: Mutex<VecDeque<(Arc<str>, Vec<PathBuf>)>>,
    /// Whether private directories that a killed host left were removed.
    jails_swept: AtomicBool,
    /// Programs, and commands as they were written, for which a jail is not enough.
    beyond_jail: Mutex<HashSet<Vec<String>>>,
}

/// How a shell is started.
pub(crate) enum How {
    /// A person, a rule or the mode approved the command; with a standard input or without.
    Approved { stdin: bool },
    /// Nobody did. It may read these places besides where the session works.
    Jailed { read: Vec<PathBuf> },
}

impl SessionTools {
    /// Tools of the session that lives in `session_dir`. Nothing is made there until it is needed.
    pub fn new(session_dir: impl Into<PathBuf>) -> Self {
        let dir = session_dir.into();
        Self {
            scratch: Scratch::new(dir.join("session.db")),
            dir,
            database: None,
            memories: None,
            shown: None,
            large: Mutex::default(),
            name: uuid::Uuid::new_v4().simple().to_string(),
            launcher: None,
            environment: Mutex::default(),
            exclusions: Exclusions::default(),
            shells: Mutex::default(),
            background_changed: watch::Sender::new(0),
            next: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            programs: AtomicBool::new(false),
            asked: Mutex::default(),
            jails_swept: AtomicBool::new(false),
            beyond_jail: Mutex::default(),
        }
    }

    /// Whether shell commands are kept from the network.
    pub fn network_is_closed(&self) -> bool {
        let launcher = self.launcher.as_ref();
        launcher.is_some_and(|launcher| launcher.approved && !launcher.network)
    }

    /// Whether commands that nobody approved can run where they can do no harm.
    pub fn can_jail(&self) -> bool {
        self.launcher.is_some() && sandbox::can_jail()
    }

    /// Notes programs that do not come along with a jail, so that the next time it is not tried.
    pub(crate) fn jail_is_not_enough(&self, programs: Vec<String>) {
        let mut beyond = self.beyond_jail.lock();
        if beyond.len() < MAX_BEYOND && !programs.is_empty() {
            beyond.insert(programs);
        }
    }

    /// Whether that is known of a command that uses these.
    pub(crate) fn is_beyond_jail(&self, programs: &[String]) -> bool {
        let beyond = self.beyond_jail.lock();
        beyond
            .iter()
            .any(|known| known.iter().all(|program| programs.contains(program)))
    }

    /// Facts about projects are kept here.
    pub fn with_memories(mut self, memories: Arc<Memories>) -> Self {
        self.memories = Some(memories);
        self
    }

    /// What is kept of the project that a directory is part of.
    pub fn memories(&self, cwd: &Path) -> Vec<Memory> {
        let list = self.memories.as_ref().map(|memories| memories.list(cwd));
        list.transpose()
            .inspect_err(|error| tracing::warn!(%error, "cannot read the project's memory"))
            .unwrap_or_default()
            .unwrap_or_default()
    }

    /// Runs shell commands in a sandbox.
    pub fn with_sandbox(mut self, launcher: SandboxLauncher) -> Self {
        self.launcher = Some(launcher);
        self
    }

    /// Hides files from searches; what is asked for by name is hidden by the rules already.
    pub fn with_exclusions(mut self, exclusions: Exclusions) -> Self {
        self.exclusions = exclusions;
        self
    }

    /// Keeps what the `sql` tool is for elsewhere.
    pub fn with_database(mut self, database: Arc<dyn Database>) -> Self {
        self.database = Some(database);
        self
    }

    /// Gives the session's directory another name for models.
    pub fn shown_as(mut self, name: PathBuf) -> Self {
        self.shown = Some(name);
        self
    }

    /// The name that models know the session's directory by.
    pub fn shown_dir(&self) -> &Path {
        self.shown.as_deref().unwrap_or(&self.dir)
    }

    /// The place that a path means which begins with the name of the session's directory.
    pub(crate) fn unshown(&self, path: &Path) -> Option<PathBuf> {
        Some(self.dir.join(path.strip_prefix(self.shown.as_deref()?).ok()?))
    }

    pub(crate) fn exclusions(&self) -> &Exclusions {
        &self.exclusions
    }

    /// Ends every process the session started, also those that wanted to outlive it. Nothing can be started after it.
    pub fn shutdown(&self) {
        self.closed.store(true, Ordering::Release);
        let shells = std::mem::take(&mut *self.shells.lock());
        for shell in &shells {
            shell.kill();
        }
        if self.next.load(Ordering::Acquire) > 0 || self.programs.load(Ordering::Acquire) {
            process::kill_session(&self.name);
        }
    }

    /// The mark of a program that the session starts beside its shells, so that the program ends with the session, also when
    /// the host is killed.
    pub fn program_mark(&self) -> (OsString, OsString) {
        self.programs.store(true, Ordering::Release);
        if let Err(error) = crate::guard::ensure() {
            tracing::warn!(%error, "a program may outlive this host");
        }
        process::later_mark(&format!("{}.{}", self.name, process::PROGRAM))
    }

    /// The variables that the session's programs begin with.
    pub fn environment(&self) -> Environment {
        self.environment.lock().clone()
    }

    /// Gives the session's programs the environment of whoever started the session.
    pub fn use_environment(&self, environment: Environment) {
        *self.environment.lock() = environment;
    }

    /// Starts a command in a shell that the session owns. Without a name it gets the next number.
    pub(crate) fn start(
        &self,
        cx: &ToolCx,
        name: Option<String>,
        command: &str,
        how: &How,
    ) -> Result<Arc<Shell>, ToolError> {
        let mut shells = self.shells.lock();
        if self.closed.load(Ordering::Acquire) {
            return Err(ToolError("The session has ended.".to_owned()));
        }
        if shells.iter().filter(|shell| shell.exit_code().is_none()).count() >= MAX_RUNNING {
            return Err(ToolError(format!(
                "{MAX_RUNNING} shells are already running. Stop one with stop_bash first."
            )));
        }
        if let Some(name) = &name
            && let Some(at) = shells.iter().position(|shell| &shell.id == name)
        {
            if shells[at].exit_code().is_none() {
                return Err(ToolError(format!(
                    "Shell {name} is running a command. Use another shellId or stop it first."
                )));
            }
            // What the last command of that name left behind goes with it.
            shells.remove(at).kill();
        }
        let number = self.next.fetch_add(1, Ordering::AcqRel);
        let mut id = name.unwrap_or_else(|| number.to_string());
        while shells.iter().any(|shell| shell.id == id) {
            id.push('x');
        }
        let failed = |error: std::io::Error| {
            let cwd = cx.cwd.display();
            ToolError(format!("Could not start a shell in {cwd}: {error}"))
        };
        if matches!(how, How::Jailed { .. }) && !self.jails_swept.swap(true, Ordering::AcqRel) {
            sandbox::sweep_jails(&self.dir);
        }
        let environment = self.environment();
        let jail = match (how, &self.launcher) {
            (How::Jailed { read }, Some(launcher)) if self.can_jail() => {
                let roots: Vec<PathBuf> = [&cx.cwd].into_iter().chain(&*cx.readable).cloned().collect();
                Some(Jail::new(launcher, &self.dir, &roots, read, &environment).map_err(failed)?)
            }
            // What is left to run unasked there is harmless without one.
            (How::Jailed { .. }, _) => Some(Jail::open(&self.dir, &environment).map_err(failed)?.0),
            (How::Approved { .. }, _) => None,
        };
        let (launcher, temp) = match &jail {
            Some(jail) => (jail.launcher.clone(), None),
            None => self.sandbox(cx, self.requested_paths(&cx.call_id).unwrap_or_default()),
        };
        let name = format!("{}.{number}", self.name);
        let start = process::Start {
            command,
            cwd: &cx.cwd,
            name: &name,
            stdin: matches!(how, How::Approved { stdin: true }),
            launcher: &launcher,
            variables: match &jail {
                Some(jail) => process::Variables::Exactly(&jail.environment),
                None => process::Variables::Of(&environment),
            },
            temp: temp.as_deref(),
        };
        let spawned = start.spawn().map_err(failed)?;
        let collected = Collected::new(self.temp(), cx.max_output_bytes);
        let shell = Shell::adopt(
            id,
            command.to_owned(),
            cx.cwd.clone(),
            spawned,
            collected,
            cx.out.clone(),
            jail,
        );
        shells.push(shell.clone());
        let ended = shells.iter().filter(|shell| shell.exit_code().is_some()).count();
        for _ in MAX_ENDED..ended {
            // Those with living children stay, or nobody would end these.
            if let Some(at) = shells
                .iter()
                .position(|shell| shell.exit_code().is_some() && !shell.lingers())
            {
                shells.remove(at);
            }
        }
        Ok(shell)
    }

    /// What starts an approved command in its sandbox, and where it then puts temporary files, if not where everybody does.
    pub(crate) fn sandbox(&self, cx: &ToolCx, approved: Vec<PathBuf>) -> (Vec<OsString>, Option<PathBuf>) {
        let Some(launcher) = self.launcher.as_ref().filter(|launcher| launcher.approved) else {
            return (Vec::new(), None);
        };
        // Nothing new can be made in a directory that the hidden home lies in.
        let home = launcher.home.as_ref();
        let temp = home.filter(|home| home.starts_with(std::env::temp_dir()));
        let spec = self.sandbox_spec(cx, launcher, approved);
        (launcher.prefix(&spec), temp.map(|_| self.dir.join("temp")))
    }

    /// What a command may write: the session's roots and what was asked for and allowed.
    fn sandbox_spec(&self, cx: &ToolCx, launcher: &SandboxLauncher, approved: Vec<PathBuf>) -> SandboxSpec {
        let mut write: Vec<PathBuf> = cx.roots.to_vec();
        // Of its own directory only these: the log beside them is not for commands.
        for dir in [self.dir.join("temp"), self.dir.join("files")] {
            if crate::spill::make_private_dir(&dir).is_ok() {
                write.push(dir);
            }
        }
        let mut own: Vec<PathBuf> = write.iter().chain([&cx.cwd]).cloned().collect();
        own.push(self.dir.clone());
        // Of directories in the home only those that the session works in; a home that is worked in stays hidden.
        let home = launcher.home.as_deref();
        own.retain(|place| home.is_some_and(|home| place.starts_with(home) && place != home));
        launcher.writable(write, approved, own)
    }

    /// Whether a command runs that was left running.
    pub fn has_running(&self) -> bool {
        self.shells
            .lock()
            .iter()
            .any(|shell| shell.exit_code().is_none() || shell.lingers())
    }

    /// Commands that nobody waits for, oldest first.
    pub fn background_shells(&self) -> Vec<BackgroundShell> {
        let shells = self.shells.lock();
        shells.iter().filter_map(|shell| shell.in_background()).collect()
    }

    /// Counts up when a command continues in the background, and when one of those ends.
    pub fn background_changed(&self) -> watch::Receiver<u64> {
        self.background_changed.subscribe()
    }

    /// Notes that a command continues in the background.
    pub(crate) fn continues_in_background(&self, shell: &Arc<Shell>) {
        let (changed, shell) = (self.background_changed.clone(), shell.clone());
        changed.send_modify(|count| *count += 1);
        tokio::spawn(async move {
            shell.exited().await;
            changed.send_modify(|count| *count += 1);
        });
    }

    /// Ends such a command and all that it started. False when there is none, or it has ended.
    pub async fn stop_background_shell(&self, id: &str) -> bool {
        let shell = self.shell(id).filter(|shell| shell.in_background().is_some());
        let Some(shell) = shell.filter(|shell| shell.exit_code().is_none()) else {
            return false;
        };
        shell.kill();
        shell.exited().await;
        true
    }

    /// Forgets a background command that has ended. False if there is none, or something that it started is still running.
    pub fn forget_background_shell(&self, id: &str) -> bool {
        let Some(shell) = self.shell(id).filter(|shell| shell.in_background().is_some()) else {
            return false;
        };
        self.forget(&shell);
        self.shell(id).is_none()
    }

    /// Shells, oldest first.
    pub(crate) fn shells(&self) -> Vec<Arc<Shell>> {
        self.shells.lock().clone()
    }

    pub(crate) fn shell(&self, id: &str) -> Option<Arc<Shell>> {
        self.shells.lock().iter().find(|shell| shell.id == id).cloned()
    }

    /// Forgets a shell that has ended, unless processes it left must still be ended with the session.
    pub(crate) fn forget(&self, shell: &Arc<Shell>) {
        if shell.exit_code().is_some() && !shell.lingers() {
            self.shells.lock().retain(|other| !Arc::ptr_eq(other, shell));
        }
    }

    /// Has large results go to a directory, or to the session's own again. Those of a session whose files a client keeps stay
    /// with these.
    pub fn keep_large_results_in(&self, dir: Option<PathBuf>) {
        *self.large.lock() = dir.filter(|_| self.shown.is_none());
    }

    /// Where large results go.
    pub fn temp(&self) -> Place {
        if let Some(dir) = &*self.large.lock() {
            return dir.into();
        }
        Place {
            dir: self.dir.join("temp"),
            shown: self.shown_dir().join("temp"),
        }
    }

    /// Notes which places a call asked permission for. `run` opens no other.
    pub(crate) fn note_requested_paths(&self, call: &Arc<str>, paths: Vec<PathBuf>) {
        let mut asked = self.asked.lock();
        asked.retain(|(other, _)| other != call);
        if asked.len() >= MAX_ASKED {
            asked.pop_front();
        }
        asked.push_back((call.clone(), paths));
    }

    /// The places a call asked for, `None` when it did not ask.
    pub(crate) fn requested_paths(&self, call: &str) -> Option<Vec<PathBuf>> {
        self.asked
            .lock()
            .iter()
            .find(|(other, _)| &**other == call)
            .map(|(_, paths)| paths.clone())
    }

    /// The session's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for SessionTools {
    fn drop(&mut self) {
        self.shutdown();
    }
}
