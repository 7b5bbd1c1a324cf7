//! One connection to one server, from the handshake to its end.

use std::{collections::HashSet, sync::Arc, time::Duration};

use lodge_rpc::Process;
use parking_lot::Mutex;
use rmcp::{
    RoleClient, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest,
        CustomRequest, ErrorCode, GetExtensions, GetMeta, MetaObject, RequestId, RequestMetaObject, ServerResult,
    },
    service::{
        ClientInitializeError, Peer, PeerRequestOptions, RequestHandle, RunningService,
        RunningServiceCancellationToken, RxJsonRpcMessage, ServiceError, TxJsonRpcMessage,
    },
    transport::{
        StreamableHttpClientTransport, Transport as Wire, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::Value;

use crate::{
    McpError, Prompt, Tool,
    call::{Call, CallResult, Calls, json},
    config::{ServerConfig, Transport},
    credentials::Auth,
    handler::{Handler, ListChanges},
    http::Http,
    owner::Owner,
    rate_limit::{MessageLimit, RateLimited},
    sse::SseWire,
    stdio::StdioWire,
    surroundings::Surroundings,
    tasks::TaskOnly,
};

/// The longest message a server may send.
pub(crate) const MESSAGE_BYTES: usize = 16 << 20;
/// How long a tool may take without a sign of life, unless the configuration says otherwise.
const CALL_LIMIT: Duration = Duration::from_secs(300);
/// How long it may take with signs of life.
const CALL_TOTAL: Duration = Duration::from_secs(4 * 3600);
/// How long anything else may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Pages of a list that are read.
const PAGES: usize = 50;
/// Entries of a list that are kept.
const ENTRIES: usize = 1_000;

/// A connected server.
pub(crate) struct Connection {
    server: Arc<str>,
    peer: Peer<RoleClient>,
    calls: Arc<Calls>,
    call_limit: Duration,
    /// What the server says about how to use it.
    pub(crate) instructions: Option<String>,
    has_tools: bool,
    has_prompts: bool,
    tasks: TaskOnly,
    pub(crate) list_changes: Arc<ListChanges>,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    /// Its credentials, if it may require any.
    auth: Option<Arc<Auth>>,
}

/// The part of a connection that notices its end. It owns the process.
pub(crate) struct Watch {
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
}

impl Watch {
    /// Waits for the end of the connection. Answers what became of the server, and what is left of it.
    pub(crate) async fn ended(self) -> (String, Option<Process>) {
        let _ = self.service.waiting().await;
        match self.process {
            Some(process) => (format!("The server {}.", process.epitaph().await), Some(process)),
            None => ("The server closed the connection.".to_owned(), None),
        }
    }
}

/// Marks a request whose `_meta` is to go out exactly as it is.
#[derive(Clone)]
struct ExactMeta;

/// A transport that limits a server's rate of messages and leaves `_meta` unchanged where it must be exact.
struct Guarded<T> {
    inner: T,
    limit: MessageLimit,
    list_changes: Arc<ListChanges>,
}

/// Removes what the library adds to a `_meta` that must be exact.
pub(crate) fn strip_added_meta(message: &mut TxJsonRpcMessage<RoleClient>) {
    if let TxJsonRpcMessage::<RoleClient>::Request(request) = message
        && request.request.extensions_mut().remove::<ExactMeta>().is_some()
    {
        let meta = request.request.get_meta_mut();
        meta.0.0.remove("progressToken");
        if meta.0.0.is_empty() {
            request.request.extensions_mut().remove::<RequestMetaObject>();
        }
    }
}

impl<T: Wire<RoleClient>> Wire<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        strip_added_meta(&mut item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.limit.wait().await;
        let message = self.inner.receive().await;
        self.limit.count();
        message.iter().for_each(|message| self.list_changes.observe(message));
        message
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// Connects to a server and shakes hands with it. The caller limits the time.
pub(crate) async fn connect(
    server: &Arc<str>,
    config: &ServerConfig,
    around: &Surroundings,
    owner: Arc<dyn Owner>,
) -> Result<(Connection, Watch), McpError> {
    let handler = Handler::new(server.clone(), owner, config.sampling);
    let (mut calls, mut list_changes) = (handler.calls.clone(), handler.list_changes.clone());
    let mut tasks = TaskOnly::default();
    let (service, process, auth) = match &config.transport {
        Transport::Stdio { command, .. } => {
            let launch = around.launch(&config.transport).unwrap_or_default();
            let (process, stdout, stdin) = Process::start(&launch)
                .map_err(|error| McpError::Failed(format!("cannot start `{command}`: {error}")))?;
            let wire = Guarded {
                inner: StdioWire::new(RateLimited::new(stdout), stdin, tasks.clone()),
                limit: MessageLimit::new(),
                list_changes: list_changes.clone(),
            };
            match Box::pin(handler.serve(wire)).await {
                Ok(service) => (service, Some(process), None),
                Err(ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }) => {
                    let epitaph = process.epitaph().await;
                    process.end().await;
                    return Err(McpError::Failed(format!("The server {epitaph}.")));
                }
                Err(error) => return Err(McpError::Failed(handshake_text(&error))),
            }
        }
        Transport::Http(remote) | Transport::Sse(remote) => {
            let auth = Arc::new(Auth::new(server.clone(), config, handler.owner.clone()));
            let http = Http::new(remote, auth.clone()).map_err(McpError::Failed)?;
            tasks = http.tasks.clone();
            let owner = handler.owner.clone();
            let service = match &config.transport {
                Transport::Sse(_) => Box::pin(serve_sse(handler, http, &remote.url)).await,
                _ => match Box::pin(serve_http(handler, http.clone(), &remote.url)).await {
                    // A server of the older form knows nothing of being posted to at this address.
                    Err(error) if http.takes_no_posts() => {
                        let handler = Handler::new(server.clone(), owner, config.sampling);
                        (calls, list_changes) = (handler.calls.clone(), handler.list_changes.clone());
                        let service = Box::pin(serve_sse(handler, http, &remote.url)).await;
                        // What it is not is no news where it is neither.
                        service.map_err(|_| error)
                    }
                    service => service,
                },
            };
            let service = service.map_err(|error| match auth.was_refused() {
                true => McpError::NeedsAuth(server.to_string()),
                false => error,
            })?;
            (service, None, Some(auth))
        }
    };
    let info = service.peer().peer_info();
    let connection = Connection {
        server: server.clone(),
        peer: service.peer().clone(),
        calls,
        call_limit: config.timeout.unwrap_or(CALL_LIMIT),
        instructions: info.as_ref().and_then(|info| info.instructions.clone()),
        has_tools: info.as_ref().is_some_and(|info| info.capabilities.tools.is_some()),
        has_prompts: info.as_ref().is_some_and(|info| info.capabilities.prompts.is_some()),
        tasks,
        list_changes,
        stop: Mutex::new(Some(service.cancellation_token())),
        auth,
    };
    let watch = Watch { service, process };
    Ok((connection, watch))
}

async fn serve_sse(handler: Handler, http: Http, url: &str) -> Result<RunningService<RoleClient, Handler>, McpError> {
    let wire = SseWire::open(http, url)
        .await
        .map_err(|error| McpError::Failed(format!("Cannot reach the server: {error}")))?;
    let wire = Guarded {
        inner: wire,
        limit: MessageLimit::new(),
        list_changes: handler.list_changes.clone(),
    };
    handler
        .serve(wire)
        .await
        .map_err(|error| McpError::Failed(handshake_text(&error)))
}

async fn serve_http(handler: Handler, http: Http, url: &str) -> Result<RunningService<RoleClient, Handler>, McpError> {
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let wire = Guarded {
        inner: StreamableHttpClientTransport::with_client(http, config),
        limit: MessageLimit::new(),
        list_changes: handler.list_changes.clone(),
    };
    handler
        .serve(wire)
        .await
        .map_err(|error| McpError::Failed(handshake_text(&error)))
}

/// What went wrong, without the whole message that was wrong.
fn handshake_text(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("The server refused the handshake: {}", error.message),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "The server's handshake response is not valid MCP.".to_owned()
        }
        // The names of types in between say nothing to people.
        ClientInitializeError::TransportError { error, .. } => {
            let text = error.error.to_string();
            let text = text.strip_prefix("Client error: ").unwrap_or(&text);
            format!("Cannot reach the server: {}", short(text))
        }
        other => format!("The handshake failed: {}", short(&other.to_string())),
    }
}

fn short(text: &str) -> String {
    text.chars().take(500).collect()
}

impl Connection {
    /// Whether the connection is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Ends the connection; the watch does the rest.
    pub(crate) fn close(&self) {
        if let Some(stop) = self.stop.lock().take() {
            stop.cancel();
        }
    }

    /// All tools of the server.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, McpError> {
        let listed = self.pages("tools/list", "tools", Tool::read).await;
        let mut found = listed.map_err(|error| match error {
            McpError::Refused(why) => McpError::Failed(format!("The server did not list its tools: {}", short(&why))),
            other => other,
        })?;
        let mut seen = HashSet::new();
        found.retain(|tool| seen.insert(tool.name.clone()));
        for tool in &mut found {
            tool.needs_task = self.tasks.contains(&tool.name);
        }
        Ok(found)
    }

    /// All prompts of the server.
    pub(crate) async fn prompts(&self) -> Result<Vec<Prompt>, McpError> {
        if !self.has_prompts {
            return Ok(Vec::new());
        }
        self.pages("prompts/list", "prompts", Prompt::read).await
    }

    /// A list, page by page, as far as the bounds reach.
    async fn pages<T>(&self, method: &str, key: &str, read: fn(&Value) -> Option<T>) -> Result<Vec<T>, McpError> {
        let mut found = Vec::new();
        let mut cursor: Option<Value> = None;
        for _ in 0..PAGES {
            let params = cursor.take().map(|cursor| serde_json::json!({"cursor": cursor}));
            let page = match self.ask(method, params).await {
                // A server without such a list is a server, too.
                Err(ServiceError::McpError(error))
                    if found.is_empty() && (error.code == ErrorCode::METHOD_NOT_FOUND || !self.has_tools) =>
                {
                    return Ok(found);
                }
                other => other.map_err(|error| self.error(&error))?,
            };
            found.extend(page[key].as_array().into_iter().flatten().filter_map(read));
            cursor = page.get("nextCursor").filter(|cursor| cursor.is_string()).cloned();
            if cursor.is_none() || found.len() >= ENTRIES {
                break;
            }
        }
        found.truncate(ENTRIES);
        Ok(found)
    }

    /// Whether the server does nothing more before somebody signs in.
    pub(crate) fn is_shut_out(&self) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.is_shut_out())
    }

    /// Calls a tool. Dropping the future cancels the call at the server.
    pub(crate) async fn call(&self, call: Call) -> Result<CallResult, McpError> {
        let mut params = CallToolRequestParams::new(call.tool.clone());
        params.arguments = call.arguments.clone();
        let mut request = CallToolRequest::new(params);
        let mut options = PeerRequestOptions::with_timeout(self.call_limit)
            .reset_timeout_on_progress()
            .with_max_total_timeout(CALL_TOTAL);
        if let Some(meta) = &call.meta {
            request.extensions_mut().insert(ExactMeta);
            options = options.with_meta(RequestMetaObject(MetaObject(meta.clone().unwrap_or_default())));
        }
        let handle = self
            .peer
            .send_cancellable_request(ClientRequest::CallToolRequest(request), options)
            .await
            .map_err(|error| self.error(&error))?;
        let _open = self.calls.begin(handle.progress_token.clone(), &call);
        match self.answer(handle).await.map_err(|error| self.error(&error))? {
            ServerResult::CallToolResult(result) => Ok(CallResult::from_wire(result)),
            ServerResult::EmptyResult(_) => Ok(CallResult::default()),
            _ => Err(McpError::Failed(format!(
                "MCP server \"{}\" returned an invalid tool result",
                self.server
            ))),
        }
    }

    /// Any request of the protocol, as JSON.
    pub(crate) async fn request(&self, method: &str, params: Option<Value>) -> Result<Value, McpError> {
        let answer = self.ask(method, params).await;
        answer.map_err(|error| self.error(&error))
    }

    async fn ask(&self, method: &str, params: Option<Value>) -> Result<Value, ServiceError> {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, params));
        let options = PeerRequestOptions::with_timeout(REQUEST_LIMIT);
        let handle = self.peer.send_cancellable_request(request, options).await?;
        Ok(json(&self.answer(handle).await?))
    }

    /// Tells the server that there are other directories.
    pub(crate) fn roots_changed(&self) {
        let peer = self.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = peer.notify_roots_list_changed().await;
            });
        }
    }

    async fn answer(&self, handle: RequestHandle<RoleClient>) -> Result<ServerResult, ServiceError> {
        let mut waiting = Waiting {
            peer: &self.peer,
            id: Some(handle.id.clone()),
        };
        let answer = handle.await_response().await;
        waiting.id = None;
        answer
    }

    fn error(&self, error: &ServiceError) -> McpError {
        match error {
            ServiceError::McpError(error) => McpError::Refused(error.message.to_string()),
            ServiceError::TransportClosed => McpError::Closed(self.server.to_string()),
            ServiceError::TransportSend(_) if self.auth.as_ref().is_some_and(|auth| auth.was_refused()) => {
                McpError::NeedsAuth(self.server.to_string())
            }
            ServiceError::Timeout { timeout } => McpError::TimedOut {
                server: self.server.to_string(),
                seconds: timeout.as_secs(),
            },
            other => {
                let text: String = other.to_string().chars().take(500).collect();
                McpError::Failed(format!("MCP server \"{}\": {text}", self.server))
            }
        }
    }
}

/// A request whose answer somebody waits for.
struct Waiting<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        let params = CancelledNotificationParam::new(Some(id), Some("aborted".to_owned()));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let told = CancelledNotification::new(params);
                let _ = peer.send_notification(told.into()).await;
            });
        }
    }
}
