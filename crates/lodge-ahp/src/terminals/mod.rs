//! Terminals: shells of people, and what the agent's shells print, as channels.
//!
//! A terminal of a person is a real one, made by `createTerminal` and gone with `disposeTerminal`, with the session that
//! claims it, or a while after its client left and nobody watches. What its programs print becomes actions here, numbered
//! and fanned out like all others.

mod agent;
mod rules;
mod scrollback;
mod shown;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ahp_types::{
    StateAction,
    actions::RootTerminalsChangedAction,
    state::{TerminalClaim, TerminalInfo, TerminalLifecycleState, TerminalRunningLifecycleState, TerminalState},
};
use lodge_host::terminal::{Modes, Opening, Output, Piece, Terminal};

pub(crate) use self::rules::{MAX_TITLE, TerminalEffect, TerminalRefusal, check, may_hold, size};
use crate::{
    face::{Face, Inner},
    rpc::{RpcError, code},
    state::{Service, Uri},
    uri,
};

/// What a terminal has when nobody says a size.
const SIZE: (u16, u16) = (80, 24);
/// Bytes that wait for the reader that keeps up best before programs are made to wait.
const BUSY: usize = 512 << 10;
/// Readers that take nothing for so long are not waited for any more: they are cut off when their queue is full.
const PATIENCE: Duration = Duration::from_secs(5);
/// Output is gathered for so long after somebody was shown something.
const GATHER: Duration = Duration::from_millis(4);

/// What stands behind a terminal's channel.
pub(crate) struct Entry {
    /// In which order they were made.
    number: u64,
    /// None: what a tool of the agent prints.
    terminal: Option<Arc<Terminal>>,
    /// Whether a person gave it its title: then programs do not change it.
    named: bool,
    commands: u64,
    running: Option<(String, Instant)>,
    /// Bytes of content, as far as counted.
    kept: usize,
    modes: Modes,
    /// Since when its client is away and nobody watches.
    left: Option<Instant>,
}

/// All terminals.
#[derive(Default)]
pub(crate) struct Terminals {
    entries: HashMap<Uri, Entry>,
    made: u64,
    /// Bytes of past output that are kept of each.
    keep: usize,
}

impl Terminals {
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }
}

/// What a terminal is to be.
pub(crate) struct Wanted {
    pub(crate) uri: Uri,
    pub(crate) claim: TerminalClaim,
    pub(crate) name: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) size: Option<(u16, u16)>,
}

impl Face {
    /// Starts a shell in a new terminal.
    pub(crate) async fn open_terminal(self: &Arc<Self>, wanted: Wanted) -> Result<(), RpcError> {
        let (cols, rows) = wanted.size.unwrap_or(SIZE);
        let running = self
            .inner
            .lock()
            .terminals
            .entries
            .values()
            .filter(|entry| entry.terminal.is_some())
            .count();
        if running >= self.config.limits.terminals {
            return Err(RpcError::new(code::TOO_BUSY, "there are too many terminals already"));
        }
        let opening = Opening {
            cwd: wanted.cwd.clone(),
            shell: self.config.shell.clone(),
            env: Vec::new(),
            cols,
            rows,
            scripts: self.host.home().path().join("ahp").join("shells"),
        };
        let (terminal, output) = lodge_host::terminal::open(opening).await.map_err(RpcError::internal)?;
        let shell = terminal
            .shell()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let state = TerminalState {
            title: wanted.name.unwrap_or(shell),
            cwd: Some(uri::file(&wanted.cwd)),
            cols: Some(cols.into()),
            rows: Some(rows.into()),
            content: Vec::new(),
            lifecycle: TerminalLifecycleState::Running(TerminalRunningLifecycleState {}),
            claim: wanted.claim,
            supports_command_detection: None,
            is_pty: Some(true),
        };
        let terminal = Arc::new(terminal);
        let mut inner = self.inner.lock();
        inner.add_terminal(&wanted.uri, None, state, Some(terminal.clone()));
        // A person opened it: its programs may use the host's local socket until the shell ends.
        let persons = self.config.door.persons_terminal(terminal.pid());
        let pump = pump(self.clone(), wanted.uri, terminal, output);
        self.tasks.spawn(async move {
            pump.await;
            drop(persons);
        });
        Ok(())
    }

    /// Closes a terminal and ends what runs in it. False when there is none of this name.
    pub(crate) fn close_terminal(self: &Arc<Self>, uri: &str) -> bool {
        let mut inner = self.inner.lock();
        let Some(entry) = inner.terminals.entries.remove(uri) else {
            return false;
        };
        inner.core.remove_service(uri);
        inner.terminals_changed();
        if let Some(terminal) = entry.terminal {
            self.tasks.spawn(async move { terminal.close().await });
        }
        true
    }

    /// A session is gone for good, and its terminals with it.
    pub(crate) fn close_terminals_of(self: &Arc<Self>, session: &str) {
        let claimed = self.inner.lock().terminals_where(|claim| match claim {
            TerminalClaim::Session(claim) => claim.session == session,
            _ => false,
        });
        for uri in claimed {
            self.close_terminal(&uri);
        }
    }

    /// Somebody left: terminals that are nobody's from now on have a while.
    pub(crate) fn somebody_left(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.forget_past_terminals();
        let lonely = inner.lonely_terminals();
        if lonely.is_empty() {
            return;
        }
        for uri in &lonely {
            if let Some(entry) = inner.terminals.entries.get_mut(uri) {
                entry.left = Some(Instant::now());
            }
        }
        drop(inner);
        let (face, grace) = (self.clone(), self.config.limits.terminal_grace);
        self.later(grace, move || {
            let tasks = face.tasks.clone();
            tasks.spawn(async move { face.close_lonely().await });
        });
    }

    /// Closes terminals that were nobody's for a while, unless the session that holds them sleeps.
    async fn close_lonely(self: &Arc<Self>) {
        let grace = self.config.limits.terminal_grace;
        let lonely = self.inner.lock().lonely_terminals();
        for uri in lonely {
            let session = {
                let inner = self.inner.lock();
                let left = inner.terminals.entries.get(&uri).and_then(|entry| entry.left);
                if left.is_none_or(|left| left.elapsed() < grace) {
                    continue;
                }
                inner.core.terminal(&uri).and_then(|state| match &state.claim {
                    TerminalClaim::Session(claim) => Some(claim.session.clone()),
                    TerminalClaim::Client(_) => None,
                })
            };
            let is_kept = match &session {
                Some(session) => self.is_kept(session).await,
                None => false,
            };
            // Somebody may have come in the meantime.
            if !is_kept && self.inner.lock().lonely_terminals().contains(&uri) {
                tracing::info!(terminal = &*uri, "closing a terminal that nobody uses");
                self.close_terminal(&uri);
            }
        }
    }

    /// Shows what a terminal printed.
    fn printed(&self, uri: &Uri, pieces: Vec<Piece>) {
        let mut inner = self.inner.lock();
        inner.show_pieces(uri, pieces);
        inner.trim_terminal(uri);
    }

    /// Waits while even the reader that keeps up best has much to take. Returns whether readers are worth waiting for.
    async fn wait_for_readers(&self, uri: &str, patient: bool) -> bool {
        let mut least = usize::MAX;
        let mut since = Instant::now();
        loop {
            let unsent = match self.inner.lock().core.least_unsent(uri) {
                Some(unsent) if unsent > BUSY => unsent,
                _ => return true,
            };
            if unsent < least {
                least = unsent;
                since = Instant::now();
            }
            if !patient || since.elapsed() > PATIENCE {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// How large the screen is.
fn size_of(state: &TerminalState) -> (u16, u16) {
    let side = |side: Option<i64>, usual: u16| side.and_then(|side| side.try_into().ok()).unwrap_or(usual);
    (side(state.cols, SIZE.0), side(state.rows, SIZE.1))
}

/// Shows what a terminal prints, at the pace of who reads it, until it has ended.
async fn pump(face: Arc<Face>, uri: Uri, terminal: Arc<Terminal>, mut output: Output) {
    let mut patient = true;
    let mut shown = Instant::now();
    loop {
        let pieces = tokio::select! {
            pieces = output.next((shown + GATHER).into()) => pieces,
            () = face.stop.cancelled() => None,
        };
        let Some(pieces) = pieces else { break };
        face.printed(&uri, pieces);
        shown = Instant::now();
        patient = face.wait_for_readers(&uri, patient).await;
    }
    // Whatever its shell left behind goes as well.
    terminal.close().await;
}

impl Inner {
    fn add_terminal(&mut self, uri: &Uri, session: Option<Uri>, state: TerminalState, terminal: Option<Arc<Terminal>>) {
        self.terminals.made += 1;
        let entry = Entry {
            number: self.terminals.made,
            terminal,
            named: false,
            commands: 0,
            running: None,
            kept: scrollback::size(&state.content),
            modes: Modes::default(),
            left: None,
        };
        self.core
            .insert_service(uri.clone(), session, Service::Terminal(Box::new(state)));
        self.terminals.entries.insert(uri.clone(), entry);
        self.terminals_changed();
    }

    /// Tells clients which terminals there are.
    pub(crate) fn terminals_changed(&mut self) {
        let core = &mut self.core;
        self.terminals.entries.retain(|uri, _| core.service(uri).is_some());
        let mut list: Vec<(u64, TerminalInfo)> = Vec::with_capacity(self.terminals.entries.len());
        for (uri, entry) in &self.terminals.entries {
            let Some(state) = core.terminal(uri) else { continue };
            let info = TerminalInfo {
                resource: uri.to_string(),
                title: state.title.clone(),
                claim: state.claim.clone(),
                lifecycle: state.lifecycle.clone(),
            };
            list.push((entry.number, info));
        }
        list.sort_unstable_by_key(|(number, _)| *number);
        let terminals: Vec<TerminalInfo> = list.into_iter().map(|(_, info)| info).collect();
        if core.root.terminals.as_deref().unwrap_or_default() != terminals {
            let root = core.root_uri.clone();
            let action = StateAction::RootTerminalsChanged(RootTerminalsChangedAction { terminals });
            core.publish(&root, &action, None);
        }
    }

    fn terminals_where(&self, fits: impl Fn(&TerminalClaim) -> bool) -> Vec<Uri> {
        let claimed = |uri: &&Uri| self.core.terminal(uri).is_some_and(|state| fits(&state.claim));
        self.terminals.entries.keys().filter(claimed).cloned().collect()
    }

    /// Terminals of people that nobody watches and whose holder is away. A session that is away may only sleep.
    fn lonely_terminals(&self) -> Vec<Uri> {
        let mut lonely = self.terminals_where(|claim| match claim {
            TerminalClaim::Client(claim) => !self.core.is_connected(&claim.client_id),
            TerminalClaim::Session(claim) => !self.core.sessions.contains_key(claim.session.as_str()),
        });
        lonely.retain(|uri| {
            let mine = self
                .terminals
                .entries
                .get(uri)
                .is_some_and(|entry| entry.terminal.is_some());
            mine && !self.core.is_heard(uri)
        });
        lonely
    }

    /// Whether a tool of the agent prints here.
    pub(crate) fn is_agents_terminal(&self, uri: &str) -> bool {
        self.core.terminal(uri).is_some()
            && self
                .terminals
                .entries
                .get(uri)
                .is_none_or(|entry| entry.terminal.is_none())
    }

    fn trim_terminal(&mut self, uri: &str) {
        let limit = self.terminals.keep;
        let (Some(state), Some(entry)) = (self.core.terminal_mut(uri), self.terminals.entries.get_mut(uri)) else {
            return;
        };
        if entry.kept > limit || entry.commands.is_multiple_of(100) {
            let size = size_of(state);
            entry.kept = scrollback::trim(&mut state.content, limit, &mut entry.modes, size);
        }
    }
}
