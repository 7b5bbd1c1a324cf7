//! Extensions of a session: programs that are started for it and served like other clients, over their standard streams. They run
//! while an app that asked for them has the session open.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use lodge_events::{ExtensionInfo, SessionExtensionsLoaded, SessionWarning};
use lodge_host::{AdmittedExtension, AskedExtensions, Host, Session};
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
    extension: AdmittedExtension,
    status: Status,
    pid: Option<u32>,
    /// Ends this start of it.
    stop: CancellationToken,
    /// Tells this start from others.
    start: u64,
}

/// What the last app that asked vouched for.
struct Request {
    asked: AskedExtensions,
    /// What it found, until that is started.
    found: Option<Vec<AdmittedExtension>>,
}

struct Inner {
    session: Session,
    request: Mutex<Request>,
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
    pub(crate) async fn of(ctx: &Ctx, board: &Board, session: &Session, sdk: Option<PathBuf>) -> Arc<Self> {
        let (asked, found) = session.ask_for_extensions().await;
        let make = || {
            let (asked, found) = (asked.clone(), None);
            let made = Self(Arc::new(Inner {
                session: session.clone(),
                request: Mutex::new(Request { asked, found }),
                host: ctx.host.clone(),
                shared: ctx.shared.clone(),
                sdk,
                known: Mutex::default(),
                starts: Mutex::default(),
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
                telling: tokio::sync::Mutex::default(),
                changing: tokio::sync::Mutex::default(),
            }));
            made.end_with_session();
            Arc::new(made)
        };
        let extensions = board.extensions_or(make);
        let found = Some(found);
        *extensions.0.request.lock() = Request { asked, found };
        extensions
    }

    /// They end with the session, whoever ends it.
    fn end_with_session(&self) {
        let (session, stop) = (self.0.session.clone(), self.0.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = session.ended() => stop.cancel(),
                () = stop.cancelled() => {}
            }
        });
    }

    /// Whether they were stopped, or their session has ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.0.stop.is_cancelled() || self.0.session.has_ended()
    }

    /// Starts in the background what the app's request found and what does not run yet.
    pub(crate) fn begin(&self) {
        let inner = self.0.clone();
        tokio::spawn(async move {
            let _changing = inner.changing.lock().await;
            let found = inner.request.lock().found.take();
            if let Some(found) = found {
                inner.load(found).await;
            }
        });
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

    /// Stops all, and starts what is found now and is as the app asked for it, or trusted.
    pub(crate) async fn reload(&self) {
        let _changing = self.0.changing.lock().await;
        let old = std::mem::take(&mut *self.0.known.lock());
        old.iter().for_each(|known| known.stop.cancel());
        self.0.settled().await;
        let found = self.0.find().await;
        self.0.load(found).await;
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
            (true, Status::Disabled | Status::Failed) => {
                let mut found = self.0.find().await.into_iter();
                let gone = || extension.admitted(|_| Err("it no longer exists".to_owned()));
                let found = found.find(|found| found.id == id).unwrap_or_else(gone);
                self.0.start(found);
            }
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

    /// What is there now, and what of it may start.
    async fn find(&self) -> Vec<AdmittedExtension> {
        let asked = self.request.lock().asked.clone();
        self.session.extensions_as_asked(&asked).await
    }

    async fn load(self: &Arc<Self>, found: Vec<AdmittedExtension>) {
        let switches = self.session.switches();
        for extension in found {
            if self.runs(&extension.id) {
                continue;
            }
            match switches.get(&format!("{SWITCH}{}", extension.id)) {
                Some(false) => drop(self.put(extension, Status::Disabled, CancellationToken::new())),
                _ => self.start(extension),
            }
        }
        self.tell().await;
    }

    fn runs(&self, id: &str) -> bool {
        let known = self.known.lock();
        let mut known = known.iter().filter(|known| known.extension.id == id);
        known.any(|known| matches!(known.status, Status::Starting | Status::Running))
    }

    /// Waits until those that were stopped have left the session.
    async fn settled(&self) {
        self.tasks.close();
        if tokio::time::timeout(PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::warn!(session = self.session.id(), "an extension takes too long to stop");
        }
        self.tasks.reopen();
    }

    /// Has an extension in this state, and ends an earlier start of it. Returns the number of this start.
    fn put(&self, extension: AdmittedExtension, status: Status, stop: CancellationToken) -> u64 {
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
            Some(known) => std::mem::replace(known, new).stop.cancel(),
            None => known.push(new),
        }
        start
    }

    fn start(self: &Arc<Self>, extension: AdmittedExtension) {
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
        extension: &AdmittedExtension,
        start: u64,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let asked = self.request.lock().asked.clone();
        let started = self.session.start_extension(&asked, extension, self.sdk.as_deref())?;
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
