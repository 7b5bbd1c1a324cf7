//! Extensions of a session: programs that are started for it and served like other clients, over their standard streams. They run
//! while an app that asked for them has the session open.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use lodge_events::{ExtensionInfo, SessionExtensionsLoaded, SessionWarning};
use lodge_host::{Extension, Host, Session};
use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    board::Board,
    connection::{Connection, Ctx},
    rpc::RpcError,
    server::Shared,
};

/// How long to wait for extensions that are stopped.
const PATIENCE: Duration = Duration::from_secs(3);
/// What the name of the switch of an extension begins with, where the log says whether it is on.
const SWITCH: &str = "extension:";

/// What an extension is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Starting,
    Running,
    Failed,
    Disabled,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

struct Known {
    extension: Extension,
    status: Status,
    pid: Option<u32>,
    /// Ends this start of it.
    stop: CancellationToken,
    /// Tells this start from others.
    start: u64,
}

struct Inner {
    session: Session,
    host: Host,
    shared: Arc<Shared>,
    sdk: Option<PathBuf>,
    known: Mutex<Vec<Known>>,
    starts: Mutex<u64>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Keeps changes and their notifications in the same order, and one change from another.
    telling: tokio::sync::Mutex<()>,
    changing: tokio::sync::Mutex<()>,
}

/// The extensions of one session. They end when it is dropped.
pub(crate) struct Extensions(Arc<Inner>);

impl Drop for Extensions {
    fn drop(&mut self) {
        self.0.stop.cancel();
    }
}

/// The place of an extension's connection.
pub(crate) struct Seat {
    inner: Weak<Inner>,
    start: u64,
    /// The extension, as clients know it.
    pub(crate) id: String,
    /// The session that it was started for.
    pub(crate) session_id: String,
}

impl Seat {
    /// The extension has joined its session.
    pub(crate) async fn joined(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.change(self.start, Status::Running).await;
        }
    }
}

impl Extensions {
    /// The extensions of a session, for an app that asks for them. Apps of the same session share them.
    pub(crate) fn of(ctx: &Ctx, board: &Board, session: &Session, sdk: Option<PathBuf>) -> Arc<Self> {
        board.extensions_or(|| {
            Arc::new(Self(Arc::new(Inner {
                session: session.clone(),
                host: ctx.host.clone(),
                shared: ctx.shared.clone(),
                sdk,
                known: Mutex::default(),
                starts: Mutex::default(),
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
                telling: tokio::sync::Mutex::default(),
                changing: tokio::sync::Mutex::default(),
            })))
        })
    }

    /// Finds and starts them in the background, if that has not been done.
    pub(crate) fn begin(&self) {
        let inner = self.0.clone();
        if *inner.starts.lock() == 0 {
            tokio::spawn(async move {
                let _changing = inner.changing.lock().await;
                inner.load().await;
            });
        }
    }

    /// All of them, with their processes.
    pub(crate) fn list(&self) -> Vec<(ExtensionInfo, Option<u32>)> {
        let infos = self.0.list();
        let known = self.0.known.lock();
        let pid = |id: &str| known.iter().find(|known| known.extension.id == id)?.pid;
        let with_pid = |info: ExtensionInfo| {
            let pid = pid(&info.id);
            (info, pid)
        };
        infos.into_iter().map(with_pid).collect()
    }

    /// Stops all, and starts what is found now.
    pub(crate) async fn reload(&self) {
        let _changing = self.0.changing.lock().await;
        let old = std::mem::take(&mut *self.0.known.lock());
        old.iter().for_each(|known| known.stop.cancel());
        self.0.settled().await;
        self.0.load().await;
    }

    /// Turns one on or off, for this session.
    pub(crate) async fn enable(&self, id: &str, on: bool) -> Result<(), RpcError> {
        let _changing = self.0.changing.lock().await;
        let found = {
            let known = self.0.known.lock();
            let found = known.iter().find(|known| known.extension.id == id);
            found.map(|known| (known.status, known.stop.clone(), known.extension.clone()))
        };
        let Some((status, stop, extension)) = found else {
            return Err(RpcError::failed(format!("Extension not found: {id}")));
        };
        let mut switches = self.0.session.switches();
        switches.insert(format!("{SWITCH}{id}"), on);
        self.0.session.set_switches(switches)?.done().await?;
        match (on, status) {
            (true, Status::Disabled | Status::Failed) => self.0.start(extension),
            (false, Status::Starting | Status::Running | Status::Failed) => {
                stop.cancel();
                self.0.put(extension, Status::Disabled, CancellationToken::new());
            }
            _ => return Ok(()),
        }
        self.0.tell().await;
        Ok(())
    }

    /// Stops all, and waits until they have left the session.
    pub(crate) async fn stop(self) {
        self.0.stop.cancel();
        self.0.settled().await;
    }
}

impl Inner {
    fn list(&self) -> Vec<ExtensionInfo> {
        let known = self.known.lock();
        let info = |known: &Known| ExtensionInfo {
            id: known.extension.id.clone(),
            name: known.extension.name.clone(),
            source: known.extension.source.as_str().to_owned(),
            status: known.status.as_str().to_owned(),
        };
        known.iter().map(info).collect()
    }

    async fn load(self: &Arc<Self>) {
        *self.starts.lock() += 1;
        let found = self.session.find_extensions().await;
        let switches = self.session.switches();
        for extension in found {
            match switches.get(&format!("{SWITCH}{}", extension.id)) {
                Some(false) => drop(self.put(extension, Status::Disabled, CancellationToken::new())),
                _ => self.start(extension),
            }
        }
        self.tell().await;
    }

    /// Waits until those that were stopped have left the session.
    async fn settled(&self) {
        self.tasks.close();
        if tokio::time::timeout(PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::warn!(session = self.session.id(), "an extension takes too long to stop");
        }
        self.tasks.reopen();
    }

    /// Has an extension in this state. Returns the number of this start.
    fn put(&self, extension: Extension, status: Status, stop: CancellationToken) -> u64 {
        let start = {
            let mut starts = self.starts.lock();
            *starts += 1;
            *starts
        };
        let mut known = self.known.lock();
        let new = Known {
            extension,
            status,
            pid: None,
            stop,
            start,
        };
        match known.iter_mut().find(|known| known.extension.id == new.extension.id) {
            Some(known) => *known = new,
            None => known.push(new),
        }
        start
    }

    fn start(self: &Arc<Self>, extension: Extension) {
        let stop = self.stop.child_token();
        let start = self.put(extension.clone(), Status::Starting, stop.clone());
        let this = self.clone();
        self.tasks.spawn(async move {
            let Err(why) = this.serve(&extension, start, &stop).await else {
                return;
            };
            let message = format!("The extension {} does not run: {why}", extension.id);
            tracing::warn!("{message}");
            this.change(start, Status::Failed).await;
            let warning = SessionWarning {
                warning_type: "extension".into(),
                message,
                ..SessionWarning::default()
            };
            // When the session has ended, there is nobody to warn.
            let _ = this.session.record(warning).await;
        });
    }

    /// Runs an extension and serves it, until it is stopped. The error says why it ended by itself.
    async fn serve(
        self: &Arc<Self>,
        extension: &Extension,
        start: u64,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let started = self.session.start_extension(extension, self.sdk.as_deref())?;
        {
            let mut known = self.known.lock();
            if let Some(known) = known.iter_mut().find(|known| known.start == start) {
                known.pid = started.program.id();
            }
        }
        let seat = Seat {
            inner: Arc::downgrade(self),
            start,
            id: extension.id.clone(),
            session_id: self.session.id().to_owned(),
        };
        let slot = self.host.connections().admit(None);
        let connection = Connection::of_extension(self.host.clone(), self.shared.clone(), slot, seat);
        let connection = Arc::new(connection);
        let peer = connection.peer.clone();
        let serving = connection.run(started.output, started.input);
        tokio::pin!(serving);
        let by_itself = tokio::select! {
            () = &mut serving => true,
            () = stop.cancelled() => false,
        };
        if by_itself {
            self.shared.peers.sweep();
            return Err(started.program.epitaph().await);
        }
        peer.close("the session has no use for the extension any more");
        serving.await;
        self.shared.peers.sweep();
        Ok(())
    }

    async fn change(&self, start: u64, status: Status) {
        let changed = {
            let mut known = self.known.lock();
            let known = known.iter_mut().find(|known| known.start == start);
            known.map(|known| {
                known.status = status;
                known.pid = known.pid.filter(|_| status != Status::Failed);
            })
        };
        if changed.is_some() {
            self.tell().await;
        }
    }

    async fn tell(&self) {
        let _telling = self.telling.lock().await;
        let loaded = SessionExtensionsLoaded {
            extensions: self.list(),
        };
        // When the session has ended, there is nobody to tell.
        let _ = self.session.tell(loaded).await;
    }
}

/// The source and name under which canvases of an extension are known.
pub(crate) fn source_and_name(id: &str) -> (String, String) {
    let (source, name) = id.rsplit_once(':').unwrap_or((id, id));
    (source.to_owned(), name.to_owned())
}
