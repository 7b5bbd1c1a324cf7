//! One connection: reads frames, serves requests concurrently, and holds the client's open sessions.

use std::{collections::HashMap, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, poll_immediate},
};
use lodge_door::{Admission, Role};
use lodge_host::{Host, Slot, TooManyClients};
use lodge_models::{Auth, Catalogue};
use parking_lot::Mutex;
use serde_json::{Value, value::RawValue};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    accounts::Accounts,
    extensions::Seat,
    frame::{FrameReader, Inbound, MAX_BODY},
    generation::Generation,
    github,
    inference::{Exchanges, SdkTransport},
    methods,
    peer::Peer,
    relay::{self, Relay},
    roles,
    rpc::{AUTHENTICATION_FAILED, INVALID_REQUEST, Incoming, PARSE_ERROR, Params, Reply, RpcError},
    server::Shared,
    session::{Attached, Hold, SessionId},
    storage::{Files, Provider},
};

/// How long a refused client has to read the reason.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What every method gets to work with.
pub(crate) type Ctx = Arc<Connection>;

/// One client's connection.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) host: Host,
    /// State shared by all connections.
    pub(crate) shared: Arc<Shared>,
    /// Model traffic that the client carries.
    pub(crate) exchanges: Arc<Exchanges>,
    /// Sessions that the client created or resumed, by id.
    sessions: Mutex<HashMap<String, Arc<Attached>>>,
    /// The client's sessions on other hosts.
    relays: Mutex<HashMap<String, Arc<Relay>>>,
    /// GitHub accounts that the client signed in with. No other client uses them.
    pub(crate) accounts: Accounts,
    /// The client's introduction with `connect`.
    state: Mutex<ConnectionState>,
    /// Its place in the host's budget of connections, if it came over the network.
    slot: Option<Slot>,
    /// The client's identity, if it is known without a token.
    known: Option<Admission>,
    /// Set if the client is an extension that was started for a session.
    extension: Option<Seat>,
}

#[derive(Default)]
struct ConnectionState {
    /// The client's admission, once it has one.
    admission: Option<Admission>,
    wrong_tokens: u32,
    client_name: Option<String>,
    /// The parameters of `connect` without the token, in case other hosts need them.
    greeting: Option<Value>,
    carries_model_traffic: bool,
    counts: bool,
    /// Whether the client has shut everything down but the process.
    shut_down: bool,
    /// Set when the client stores the files of its sessions.
    keeps_files: Option<Arc<Provider>>,
    /// Directories of plugins that all of the client's sessions get.
    plugins: Vec<PathBuf>,
    /// Further directories, which can change while sessions are open.
    additional_plugins: Vec<PathBuf>,
}

/// The result of a method. Its events are already in the outbox, so the response cannot overtake them. What begins with the
/// method follows the response.
pub(crate) struct Outcome {
    pub(crate) reply: Reply,
    /// A session that was opened: its events are sent after the response.
    pub(crate) start: Option<Arc<Attached>>,
    /// A message that was sent: the events of its turn are sent after the response.
    pub(crate) hold: Option<Hold>,
}

impl Outcome {
    pub(crate) fn of(reply: Reply) -> Self {
        Self {
            reply,
            start: None,
            hold: None,
        }
    }
}

pub(crate) type MethodResult = Result<Outcome, RpcError>;

impl Connection {
    pub(crate) fn new(host: Host, shared: Arc<Shared>, slot: Option<Slot>, known: Option<Admission>) -> Self {
        Self {
            peer: Peer::new(shared.options.queue_bytes),
            host,
            shared,
            exchanges: Arc::default(),
            sessions: Mutex::default(),
            relays: Mutex::default(),
            accounts: Accounts::default(),
            state: Mutex::default(),
            slot,
            known,
            extension: None,
        }
    }

    /// The connection of an extension, which the host started itself.
    pub(crate) fn of_extension(host: Host, shared: Arc<Shared>, slot: Slot, seat: Seat) -> Self {
        Self {
            extension: Some(seat),
            ..Self::new(host, shared, Some(slot), Some(Admission::owner()))
        }
    }

    /// The extension that the client is, if it is one.
    pub(crate) fn extension(&self) -> Option<&Seat> {
        self.extension.as_ref()
    }

    /// Its place, until it has shown the token.
    fn stranger(&self) -> Option<&Slot> {
        self.slot.as_ref().filter(|_| !self.is_admitted())
    }

    /// Closes a stranger that takes too long, or whose place is needed. Resolves once it is a client.
    async fn watch_stranger(&self) {
        let Some(slot) = self.stranger() else { return };
        let reason = tokio::select! {
            () = tokio::time::sleep_until(slot.deadline().into()) => "it did not send the token in time",
            () = slot.displaced() => "it was closed to make room for a newer connection",
        };
        if self.stranger().is_some() {
            self.peer.close(reason);
        }
    }

    /// Serves the client until it closes the connection, or is disconnected because it reads too slowly. Its sessions
    /// are detached; they and their open questions live on.
    pub(crate) async fn run<R, W>(self: Arc<Self>, input: R, mut output: W)
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let writer = tokio::spawn({
            let peer = self.peer.clone();
            async move { peer.write_to(&mut output).await }
        });
        if let Some(admission) = self.known.clone()
            && let Err(error) = self.admit(admission)
        {
            self.refuse(&error.to_string()).await;
        }
        let watch = tokio::spawn({
            let this = self.clone();
            async move { this.watch_stranger().await }
        });
        let mut frames = FrameReader::new(input);
        frames.allow(self.stranger().map(|slot| slot.limits().bytes_before_token));
        let mut messages = 0;
        loop {
            let next = tokio::select! {
                next = frames.next() => next,
                () = self.peer.closed() => break,
            };
            messages += 1;
            if let Some(slot) = self.stranger()
                && messages > slot.limits().messages_before_token
            {
                self.refuse(&format!("more than {} messages before the token", messages - 1))
                    .await;
                break;
            }
            match next {
                Ok(Some(Inbound::Body(body))) => self.serve(&body).await,
                Ok(Some(Inbound::TooLarge(length))) => {
                    let message = format!("the frame of {length} bytes is larger than the limit of {MAX_BODY} bytes");
                    self.peer.fail(None, RpcError::new(INVALID_REQUEST, message));
                }
                Ok(Some(Inbound::Malformed(what))) => self.peer.fail(None, RpcError::new(PARSE_ERROR, what)),
                Ok(Some(Inbound::OverAllowance)) => {
                    let limit = self.slot.as_ref().map_or(0, |slot| slot.limits().bytes_before_token);
                    self.refuse(&format!("more than {limit} bytes before the token")).await;
                }
                Ok(None) => self.peer.close("the client closed the connection"),
                Err(error) => self.peer.close(&format!("reading failed: {error}")),
            }
            if self.stranger().is_none() {
                frames.allow(None);
            }
        }
        watch.abort();
        if self.peer.was_too_slow() {
            self.host.metrics().client_dropped();
        }
        self.relays.lock().clear();
        let sessions = std::mem::take(&mut *self.sessions.lock());
        let ids: Vec<String> = sessions.keys().cloned().collect();
        drop(sessions);
        drop(frames);
        // Waits for the writer so that the socket is closed when this returns.
        let _ = writer.await;
        if let Some(slot) = &self.slot {
            slot.release();
        }
        for id in ids {
            self.host.rest(&id).await;
        }
        tracing::info!(reason = self.peer.reason().as_deref(), "connection ended");
    }

    /// Sends the reason for a refusal, and closes the connection.
    async fn refuse(&self, why: &str) {
        let message = format!("the connection is closed: {why}");
        self.peer.fail(None, RpcError::new(INVALID_REQUEST, message));
        self.peer.finish();
        if tokio::time::timeout(LAST_WORDS, self.peer.closed()).await.is_err() {
            self.peer.close(why);
        }
    }

    /// Serves one message.
    async fn serve(self: &Arc<Self>, body: &[u8]) {
        // A list would be accepted as a message with its fields in this order.
        if body.trim_ascii_start().starts_with(b"[") {
            let text = "a message has a method or an id; batches are not accepted";
            return self.peer.fail(None, RpcError::new(INVALID_REQUEST, text));
        }
        let message: Incoming<'_> = match serde_json::from_slice(body) {
            Ok(message) => message,
            Err(error) if error.is_syntax() || error.is_eof() => {
                return self
                    .peer
                    .fail(None, RpcError::new(PARSE_ERROR, format!("not JSON: {error}")));
            }
            Err(error) => {
                let error = RpcError::new(INVALID_REQUEST, format!("not a JSON-RPC message: {error}"));
                // The sender must not wait for a response under its id.
                let fields: Option<HashMap<String, &RawValue>> = serde_json::from_slice(body).ok();
                return self
                    .peer
                    .fail(fields.and_then(|fields| fields.get("id").copied()), error);
            }
        };
        match (message.method, message.id) {
            (Some(method), Some(id)) => self.request(&method, id, Params::new(message.params)).await,
            // The protocol has no notifications from clients; `$/cancelRequest` and similar ones may be ignored.
            (Some(method), None) => tracing::debug!(%method, "notification ignored"),
            (None, Some(id)) => {
                let empty = message.error.is_none() && message.result.is_none();
                let answer = match (message.error, message.result) {
                    (Some(error), _) => Err(error),
                    (None, Some(result)) => serde_json::from_str(result.get()).map_err(RpcError::failed),
                    (None, None) => Ok(Value::Null),
                };
                // Only ids from this host are valid, and those are numbers.
                let known = id.get().parse().is_ok_and(|id| self.peer.answered(id, answer));
                if empty && !known {
                    let error = RpcError::new(
                        INVALID_REQUEST,
                        "a request has a method, an answer a result or an error",
                    );
                    self.peer.fail(Some(id), error);
                }
            }
            (None, None) => self
                .peer
                .fail(None, RpcError::new(INVALID_REQUEST, "a message has a method or an id")),
        }
    }

    /// Starts a request, here or on the host that has its session in use.
    async fn request(self: &Arc<Self>, method: &str, id: &RawValue, params: Params) {
        if !self.host.is_kept() {
            return self.request_here(method, id, params).await;
        }
        if method == relay::CREATE && self.may_relay(method, "") {
            let (this, id) = (self.clone(), id.to_owned());
            tokio::spawn(async move {
                match relay::place(&this, &params).await {
                    Ok(None) => this.request_here(relay::CREATE, &id, params).await,
                    Ok(Some((relay, params))) => relay.forward(&id, relay::CREATE, &params),
                    Err(error) => this.finish(relay::CREATE, &id, Err(error.into())),
                }
            });
            return;
        }
        let Some(session) = relay::session_of(&params) else {
            return self.request_here(method, id, params).await;
        };
        let relay = self.relays.lock().get(&session).cloned();
        let is_wanted = relay.is_some() || relay::OPENING.contains(&method);
        if !is_wanted || !self.may_relay(method, &session) {
            return self.request_here(method, id, params).await;
        }
        if let Some(relay) = relay {
            return relay.forward(id, method, &params);
        }
        // Asking other hosts takes a moment; meanwhile, other requests are served.
        let (this, method, id) = (self.clone(), method.to_owned(), id.to_owned());
        tokio::spawn(async move {
            match relay::reach(&this, &method, &session).await {
                Ok(None) => this.request_here(&method, &id, params).await,
                Ok(Some(relay)) => relay.forward(&id, &method, &params),
                Err(error) => this.finish(&method, &id, Err(error.into())),
            }
        });
    }

    /// Whether another host may serve this. Files and model traffic that a client stores or carries belong to this
    /// connection alone.
    fn may_relay(&self, method: &str, session: &str) -> bool {
        let state = self.state.lock();
        let is_bound = state.shut_down || state.keeps_files.is_some() || state.carries_model_traffic;
        drop(state);
        !is_bound && self.check_role(method).is_ok() && self.session(session).is_none()
    }

    /// Registers that another host has a session of the client. Returns the known relay, if there is one.
    pub(crate) fn keep_relay(&self, session: &str, relay: Arc<Relay>) -> Arc<Relay> {
        let mut relays = self.relays.lock();
        relays.entry(session.to_owned()).or_insert(relay).clone()
    }

    /// Forgets that another host has a session of the client. False if it was already forgotten.
    pub(crate) fn forget_relay(&self, session: &str) -> bool {
        self.relays.lock().remove(session).is_some()
    }

    /// The client's introduction, for other hosts; `None` if it has not introduced itself.
    pub(crate) fn greeting(&self) -> Option<Value> {
        self.state.lock().greeting.clone()
    }

    /// Starts a request. Its first step runs at once, so that requests reach the session in the order in which they
    /// arrived; anything that waits runs concurrently.
    async fn request_here(self: &Arc<Self>, method: &str, id: &RawValue, params: Params) {
        if method == "connect" && self.host.is_kept() {
            self.keep_greeting(&params);
        }
        let kept = self.kept_session(&params);
        let mut work = self.clone().dispatch(method, params);
        if let Some(id) = kept {
            let this = self.clone();
            work = Box::pin(async move {
                let result = work.await;
                // A response means that the work is done, and that the client has it.
                if let Some(session) = this.session(&id) {
                    session.files_kept().await;
                }
                result
            });
        }
        // A client that has not shown the token has one request at a time.
        if let Some(slot) = self.stranger() {
            let result = work.await;
            let refused = |error: &RpcError| error.code == AUTHENTICATION_FAILED && method == "connect";
            if !result.as_ref().is_err_and(refused) {
                return self.finish(method, id, result);
            }
            tokio::time::sleep(slot.wrong_token()).await;
            self.finish(method, id, result);
            let wrong = {
                let mut state = self.state.lock();
                state.wrong_tokens += 1;
                state.wrong_tokens
            };
            if wrong >= slot.limits().wrong_tokens {
                self.refuse(&format!("{wrong} wrong tokens")).await;
            }
            return;
        }
        match poll_immediate(&mut work).await {
            Some(result) => self.finish(method, id, result),
            None => {
                let (connection, method, id) = (self.clone(), method.to_owned(), id.to_owned());
                tokio::spawn(async move {
                    tokio::select! {
                        result = work => connection.finish(&method, &id, result),
                        // The client is gone.
                        () = connection.peer.closed() => {}
                    }
                });
            }
        }
    }

    fn keep_greeting(&self, params: &Params) {
        let mut greeting = params.parse::<serde_json::Map<String, Value>>().unwrap_or_default();
        greeting.remove("token");
        self.state.lock().greeting = Some(greeting.into());
    }

    fn dispatch(self: Arc<Self>, method: &str, params: Params) -> BoxFuture<'static, MethodResult> {
        if self.state.lock().shut_down {
            return std::future::ready(Err(RpcError::failed("the runtime has been shut down"))).boxed();
        }
        if let Err(error) = self.check_role(method) {
            return std::future::ready(Err(error)).boxed();
        }
        let Some(found) = methods::find(method) else {
            tracing::warn!(method, "unknown method");
            return std::future::ready(Err(RpcError::unhandled(method))).boxed();
        };
        AssertUnwindSafe((found.handler)(self, params))
            .catch_unwind()
            .map(|result| {
                result.unwrap_or_else(|_| Err(RpcError::failed("the host hit a bug while serving this request")))
            })
            .boxed()
    }

    /// The session that a request names, if the client stores its files.
    fn kept_session(&self, params: &Params) -> Option<String> {
        self.state.lock().keeps_files.as_ref()?;
        params.parse::<SessionId>().ok().map(|params| params.session_id)
    }

    fn finish(&self, method: &str, id: &RawValue, result: MethodResult) {
        match result {
            Ok(Outcome { reply, start, hold }) => {
                self.peer.answer(id, Ok(reply));
                drop(hold);
                if let Some(session) = start {
                    session.start();
                }
            }
            Err(error) => {
                tracing::debug!(method, %error, "request failed");
                self.peer.answer(id, Err(error.of_method(method)));
            }
        }
    }

    /// Checks whether this client may call a method.
    fn check_role(&self, method: &str) -> Result<(), RpcError> {
        let state = self.state.lock();
        match &state.admission {
            // This is where the token is shown.
            _ if method == "connect" => Ok(()),
            None => Err(RpcError::new(AUTHENTICATION_FAILED, "AUTHENTICATION_FAILED")),
            Some(admission) => {
                let needed = roles::needed(method);
                let allowed = admission.check(needed);
                if allowed.is_ok() && needed == Role::Approve {
                    // The log's schema has no field for who answered.
                    tracing::info!(by = %admission.identity, method, "a question was answered");
                }
                allowed.map_err(RpcError::failed)
            }
        }
    }

    /// Admits the client. From now on, it is notified of sessions.
    pub(crate) fn admit(&self, admission: Admission) -> Result<(), TooManyClients> {
        if let Some(slot) = &self.slot {
            slot.authenticate()?;
        }
        let first = self.state.lock().admission.replace(admission.clone()).is_none();
        if first {
            self.shared.peers.add(self.peer.clone());
        }
        if admission.identity.device().is_some() {
            let peer = self.peer.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = admission.revoked() => peer.close("its device was revoked"),
                    () = peer.closed() => {}
                }
            });
        }
        Ok(())
    }

    /// The client has introduced itself.
    pub(crate) fn greet(&self, client_name: Option<String>) {
        self.peer.greet();
        self.state.lock().client_name = client_name;
    }

    /// Whether the client was admitted.
    pub(crate) fn is_admitted(&self) -> bool {
        self.state.lock().admission.is_some()
    }

    /// The client wants telemetry of its sessions.
    pub(crate) fn count(&self) {
        self.state.lock().counts = true;
    }

    pub(crate) fn counts(&self) -> bool {
        self.state.lock().counts
    }

    /// The generation of the client's parsers.
    pub(crate) fn generation(&self) -> Generation {
        self.peer.generation()
    }

    /// The client offers to carry model requests.
    pub(crate) fn carry_model_traffic(&self) {
        self.state.lock().carries_model_traffic = true;
    }

    /// The client has shut down: returns its open sessions, which are to be closed. No further requests are served.
    pub(crate) fn shut_down(&self) -> Vec<String> {
        self.state.lock().shut_down = true;
        self.sessions.lock().keys().cloned().collect()
    }

    /// The client offers to store the files of its sessions.
    pub(crate) fn keep_files(&self, provider: Provider) {
        self.state.lock().keeps_files = Some(Arc::new(provider));
    }

    /// The files of one of the client's sessions, if the client stores them.
    pub(crate) fn files(&self, session_id: &str) -> Option<Files> {
        let provider = self.state.lock().keeps_files.clone()?;
        Some(Files {
            peer: self.peer.clone(),
            session_id: session_id.to_owned(),
            provider,
        })
    }

    /// Sets the plugins of all of the client's sessions. False if it has sessions open.
    pub(crate) fn bring_plugins(&self, paths: Vec<PathBuf>) -> bool {
        let free = self.sessions.lock().is_empty();
        if free {
            self.state.lock().plugins = paths;
        }
        free
    }

    /// Sets additional plugins for the client's next sessions, replacing earlier ones.
    pub(crate) fn add_plugins(&self, paths: Vec<PathBuf>) {
        self.state.lock().additional_plugins = paths;
    }

    /// Directories of plugins that all of the client's sessions get.
    pub(crate) fn plugins(&self) -> Vec<PathBuf> {
        let state = self.state.lock();
        state.plugins.iter().chain(&state.additional_plugins).cloned().collect()
    }

    /// The GitHub token if the client names none: of the account that it signed in with last, or the one with which the
    /// host was started.
    pub(crate) fn github_token(&self) -> Option<String> {
        let account = self.accounts.current().map(|account| account.token);
        account.or_else(|| self.shared.options.github_token.clone())
    }

    /// The models available with a GitHub token, for a session of this client, or for a list.
    pub(crate) fn catalogue(&self, token: Option<&str>, session_id: Option<&str>) -> Catalogue {
        let token = token.map(str::to_owned).or_else(|| self.github_token());
        self.through(self.shared.tokens.catalogue(&self.host, token.as_deref()), session_id)
    }

    /// The same with tokens that the client supplies for a session.
    pub(crate) fn catalogue_with(&self, tokens: Arc<github::Tokens>, session_id: &str) -> Catalogue {
        let catalogue = self.host.models().with_github_token(Auth::Source(tokens));
        self.through(catalogue, Some(session_id))
    }

    fn through(&self, catalogue: Catalogue, session_id: Option<&str>) -> Catalogue {
        // A session's requests go through the client that carries them, even if another client has it open.
        let other = || self.shared.boards.of(session_id?).carrier();
        match self.carrier(session_id).or_else(other) {
            Some(carrier) => catalogue.with_transport(Arc::new(carrier)),
            None => catalogue,
        }
    }

    /// The transport for model requests through this client, if it carries them.
    pub(crate) fn carrier(&self, session_id: Option<&str>) -> Option<SdkTransport> {
        let carries = self.state.lock().carries_model_traffic;
        carries.then(|| SdkTransport {
            peer: self.peer.clone(),
            exchanges: self.exchanges.clone(),
            session_id: session_id.map(str::to_owned),
        })
    }

    /// The client's name, for people.
    pub(crate) fn client_name(&self) -> Option<String> {
        self.state.lock().client_name.clone()
    }

    /// The session of this id, when this client has it open and nobody has deleted it.
    pub(crate) fn session(&self, id: &str) -> Option<Arc<Attached>> {
        let attached = self.sessions.lock().get(id).cloned()?;
        (!attached.session().has_ended()).then_some(attached)
    }

    /// Stores a session that the client has opened. An older attachment to the same session is returned.
    pub(crate) fn attach(&self, attached: Arc<Attached>) -> Option<Arc<Attached>> {
        if let Some(traces) = &self.shared.traces {
            attached.traced(traces.follow(attached.session()));
        }
        attached.opened();
        self.sessions.lock().insert(attached.id().to_owned(), attached)
    }

    /// Forgets a session.
    pub(crate) fn detach(&self, id: &str) -> Option<Arc<Attached>> {
        self.sessions.lock().remove(id)
    }
}
