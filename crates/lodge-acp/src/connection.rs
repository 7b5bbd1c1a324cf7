//! One client: reads its messages, serves its requests concurrently, and holds its open sessions.

use std::{
    collections::{HashMap, hash_map::Entry},
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, poll_immediate},
};
use lodge_host::{Host, HostError, Session};
use lodge_rpc::{
    self as rpc, Error, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, LONGEST, Line, Lines, Message, NOT_FOUND,
    PARSE_ERROR, Peer,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use crate::{
    driver::{Command, Driver},
    methods::{self, Outcome},
    relay::{self, Relay},
    wire::{CancelRequest, ClientCapabilities, SessionId},
};

/// Reads the configuration again: returns the same host with the models that are now configured.
pub type Reload = Arc<dyn Fn() -> BoxFuture<'static, Result<Host, String>> + Send + Sync>;

/// The argument with which a client starts this program so that a person can set up a model.
pub const SETUP_ARGUMENT: &str = "--setup";

/// Limit of concurrent requests of a client.
const MOST_REQUESTS: usize = 256;

/// The client's identity and capabilities.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) capabilities: ClientCapabilities,
}

/// A session that the client has open. Dropping it closes it.
pub(crate) struct Attached {
    pub(crate) session: Session,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// Whether the client created it.
    is_made: bool,
    driver: Work,
}

/// The driver of an open session. It is always here, so taking the session away takes its driver away, too.
enum Work {
    /// It waits until the client knows that the session is open.
    Ready(Box<Driver>),
    Running(AbortOnDropHandle<()>),
    Over,
}

/// What becomes of an empty session that the client created, when the client releases it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    /// It is kept for a while: the client may load it over its next connection. Editors create one whenever somebody
    /// opens a panel.
    KeptForAWhile,
    Deleted,
}

impl Attached {
    /// Releases the session.
    pub(crate) async fn let_go(self, host: &Host, empty: Empty) {
        let session = self.session;
        match self.driver {
            Work::Ready(driver) => drop(driver),
            Work::Running(task) => {
                task.abort();
                let _ = task.await;
            }
            Work::Over => {}
        }
        // When this returns, the client is no longer attached.
        let _ = session.settle_interrupted().await;
        let (id, is_unused) = (session.id().to_owned(), self.is_made && session.is_unused());
        drop(session);
        match (is_unused, empty) {
            (false, _) => host.rest(&id).await,
            (true, Empty::KeptForAWhile) => drop(host.leave_unused(&id).await),
            (true, Empty::Deleted) => drop(host.delete(&id).await),
        }
    }
}

pub(crate) struct Connection {
    pub(crate) peer: Peer,
    reload: Reload,
    /// Whether a model needed a key: then the configuration is read again before the next attempt.
    wants_key: AtomicBool,
    host: Mutex<Host>,
    client: Mutex<Option<Arc<Client>>>,
    sessions: Mutex<HashMap<String, Attached>>,
    /// The client's sessions on other hosts, and its `initialize` parameters.
    relays: Mutex<HashMap<String, Arc<Relay>>>,
    greeting: Mutex<Value>,
    /// Requests that can be cancelled, by their id as JSON.
    running: Mutex<HashMap<String, CancellationToken>>,
    /// The running requests.
    tasks: TaskTracker,
    /// The client is gone.
    pub(crate) ended: CancellationToken,
}

/// Serves a client until it is gone.
pub async fn serve<R, W>(host: Host, reload: Reload, input: R, output: W)
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let slot = host.connections().admit(None);
    let peer = Peer::default();
    tokio::spawn(peer.clone().write_to(output));
    if let Err(error) = slot.authenticate() {
        peer.respond(&Value::Null, Err(Error::new(INVALID_REQUEST, error.to_string())));
        peer.finish();
        return peer.finished().await;
    }
    let connection = Arc::new(Connection {
        peer: peer.clone(),
        reload,
        wants_key: AtomicBool::default(),
        host: Mutex::new(host.clone()),
        client: Mutex::default(),
        sessions: Mutex::default(),
        relays: Mutex::default(),
        greeting: Mutex::default(),
        running: Mutex::default(),
        tasks: TaskTracker::new(),
        ended: CancellationToken::new(),
    });
    let mut lines = Lines::new(input, LONGEST);
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = peer.closed() => break,
        };
        match line {
            Ok(Some(Line::Whole(line))) => connection.receive(&line).await,
            Ok(Some(Line::TooLong)) => {
                let why = format!("A message has at most {LONGEST} bytes.");
                peer.respond(&Value::Null, Err(Error::new(PARSE_ERROR, why)));
            }
            Ok(None) | Err(_) => break,
        }
    }
    if peer.was_too_slow() {
        host.metrics().client_dropped();
    }
    connection.ended.cancel();
    connection.relays.lock().clear();
    connection.let_go(&host, Empty::KeptForAWhile).await;
    // A session that was being created is only open now, and the client does not know it.
    connection.tasks.close();
    connection.tasks.wait().await;
    connection.let_go(&host, Empty::Deleted).await;
    peer.finish();
    peer.finished().await;
    slot.release();
    tracing::debug!("an ACP client is gone");
}

impl Connection {
    async fn receive(self: &Arc<Self>, line: &[u8]) {
        match Message::read(line) {
            Ok(Message::Request { id, method, params }) => self.request(id, method, params).await,
            Ok(Message::Notification { method, params }) => self.notification(&method, params),
            Ok(Message::Response { id, result }) => {
                if !self.peer.answered(&id, result) {
                    tracing::debug!(%id, "an answer to a request that does not exist or has ended");
                }
            }
            Err((id, error)) => self.peer.respond(&id, Err(error)),
        }
    }

    async fn request(self: &Arc<Self>, id: Value, method: String, params: Value) {
        let cancelled = CancellationToken::new();
        let key = id.to_string();
        if let Err(why) = self.admit(&key, &cancelled) {
            return self.peer.respond(&id, Err(Error::new(INVALID_REQUEST, why)));
        }
        let this = self.clone();
        let mut work = Box::pin(async move {
            let served = AssertUnwindSafe(methods::serve(&this, &method, params, &cancelled)).catch_unwind();
            let served = served.await.unwrap_or_else(|_| {
                tracing::error!(method, "serving an ACP request panicked");
                Err(Error::internal("The host hit a bug while serving this request."))
            });
            this.running.lock().remove(&key);
            match served {
                Ok(Outcome { reply, start }) => {
                    this.peer.respond(&id, Ok(reply));
                    if let Some(session) = start {
                        this.start(&session);
                    }
                }
                Err(error) => this.peer.respond(&id, Err(error)),
            }
        });
        // Requests that need no waiting are finished before the next message is read, in the order in which they
        // arrived.
        if poll_immediate(&mut work).await.is_none() {
            self.tasks.spawn(work);
        }
    }

    /// Registers a request, so that it can be cancelled.
    fn admit(&self, key: &str, cancelled: &CancellationToken) -> Result<(), String> {
        let mut running = self.running.lock();
        if running.len() >= MOST_REQUESTS {
            return Err(format!(
                "{MOST_REQUESTS} requests are being served. Wait for an answer first."
            ));
        }
        match running.entry(key.to_owned()) {
            Entry::Occupied(_) => Err(format!("A request with the id {key} is being served. Use another id.")),
            Entry::Vacant(free) => {
                free.insert(cancelled.clone());
                Ok(())
            }
        }
    }

    /// Releases every session that the client has open.
    async fn let_go(&self, host: &Host, empty: Empty) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        for attached in sessions.into_values() {
            attached.let_go(host, empty).await;
        }
    }

    fn notification(&self, method: &str, params: Value) {
        let relay = relay::session_of(&params).and_then(|session| self.relay(session));
        if let Some(relay) = relay {
            return relay.notify(method, &params);
        }
        match method {
            "session/cancel" => {
                let Ok(SessionId { session_id }) = rpc::params(params) else {
                    return tracing::warn!("an ACP client sent a cancellation without a session id");
                };
                if let Some(attached) = self.sessions.lock().get(&session_id) {
                    let _ = attached.commands.send(Command::Cancel);
                }
            }
            "$/cancel_request" => {
                let Ok(CancelRequest { request_id }) = rpc::params(params) else {
                    return tracing::warn!("an ACP client sent a cancellation without a request id");
                };
                if let Some(running) = self.running.lock().get(&request_id.to_string()) {
                    running.cancel();
                }
            }
            _ => tracing::debug!(method, "an unknown ACP notification"),
        }
    }

    pub(crate) fn host(&self) -> Host {
        self.host.lock().clone()
    }

    pub(crate) fn want_key(&self) {
        self.wants_key.store(true, Ordering::Relaxed);
    }

    /// Reads the configuration again if a key may have been added meanwhile.
    pub(crate) async fn renew_if_wanted(&self) {
        if self.wants_key.load(Ordering::Relaxed)
            && let Err(error) = self.renew().await
        {
            tracing::warn!(error = error.message, "the configuration cannot be read again");
        }
    }

    /// Reads the configuration again. The open sessions get its models at once.
    pub(crate) async fn renew(&self) -> Result<(), Error> {
        let now = (self.reload)().await.map_err(Error::internal)?;
        let before = std::mem::replace(&mut *self.host.lock(), now.clone());
        let ids: Vec<String> = self.sessions.lock().keys().cloned().collect();
        for (session, commands) in ids.iter().filter_map(|id| self.session(id).ok()) {
            session.renew_model(&before, &now).await.map_err(failed)?;
            let _ = commands.send(Command::SendOptions);
        }
        self.wants_key.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The client, once it is initialized.
    pub(crate) fn client(&self) -> Option<Arc<Client>> {
        self.client.lock().clone()
    }

    /// The client's `initialize` parameters.
    pub(crate) fn greeting(&self) -> Value {
        self.greeting.lock().clone()
    }

    pub(crate) fn keep_greeting(&self, greeting: &Value) {
        self.greeting.lock().clone_from(greeting);
    }

    /// The relay to the host that has a session of the client.
    pub(crate) fn relay(&self, session: &str) -> Option<Arc<Relay>> {
        self.relays.lock().get(session).cloned()
    }

    /// Registers that another host has a session of the client. Returns the known relay, if there is one.
    pub(crate) fn keep_relay(&self, session: &str, relay: Arc<Relay>) -> Arc<Relay> {
        let mut relays = self.relays.lock();
        relays.entry(session.to_owned()).or_insert(relay).clone()
    }

    /// Forgets that another host has a session. False if it was already forgotten.
    pub(crate) fn forget_relay(&self, session: &str) -> bool {
        let forgotten = self.relays.lock().remove(session);
        forgotten.is_some()
    }

    pub(crate) fn greet(&self, client: Client) {
        *self.client.lock() = Some(Arc::new(client));
    }

    /// Registers a session as open. Its updates start once the client knows that.
    pub(crate) fn attach(
        &self,
        session: Session,
        driver: Box<Driver>,
        commands: mpsc::UnboundedSender<Command>,
        is_made: bool,
    ) {
        let id = session.id().to_owned();
        let mut sessions = self.sessions.lock();
        // A session that was open before is closed.
        let before = sessions.remove(&id);
        let attached = Attached {
            session,
            commands,
            is_made: is_made || before.is_some_and(|before| before.is_made),
            driver: Work::Ready(driver),
        };
        sessions.insert(id, attached);
    }

    /// Starts sending a session's updates to the client.
    fn start(&self, id: &str) {
        if let Some(attached) = self.sessions.lock().get_mut(id) {
            attached.driver = match std::mem::replace(&mut attached.driver, Work::Over) {
                Work::Ready(driver) => Work::Running(AbortOnDropHandle::new(tokio::spawn(driver.run()))),
                begun => begun,
            };
        }
    }

    pub(crate) fn detach(&self, id: &str) -> Option<Attached> {
        self.sessions.lock().remove(id)
    }

    /// A session that the client has open, and the channel to its driver.
    pub(crate) fn session(&self, id: &str) -> Result<(Session, mpsc::UnboundedSender<Command>), Error> {
        let found = self.sessions.lock().get(id).map(|attached| {
            let session = attached.session.clone();
            (session, attached.commands.clone())
        });
        let found = found.filter(|(session, _)| !session.has_ended());
        found.ok_or_else(|| {
            let why = format!("The session {id} is not open on this connection. Load or resume it first.");
            Error::new(rpc::NOT_FOUND, why)
        })
    }
}

/// The host's error, as the client gets it.
pub(crate) fn failed(error: impl Into<HostError>) -> Error {
    let error = error.into();
    let code = match &error {
        HostError::NotFound(_) => NOT_FOUND,
        HostError::Invalid(_) | HostError::AlreadyExists(_) => INVALID_PARAMS,
        _ => INTERNAL_ERROR,
    };
    Error::new(code, error.to_string())
}
