//! One session that a client has open: its events on their way to the client, and the client's capabilities.

mod models;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use lodge_events::{CommandInfo, Event, is_beside};
use lodge_host::{
    AgentError, Answer, AnsweredBy, Attachment, Capabilities, Change, ClientSpec, ClientTool, Listening,
    MAX_TOOL_OUTPUT, Publish, Session, Supply,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    board::{Board, Recent},
    calls::SdkCalls,
    canvas::{Canvases, Provided},
    canvas_tools,
    config::{AskUserVariant, EnvValueMode, SessionConfig, ToolConfig},
    connection::Ctx,
    extensions::Extensions,
    factory::{Factories, Registered},
    methods::{sampling::Samplings, shell::Running},
    peer::{Peer, event_prefix},
    providers::Chooser,
    rpc::{Params, RpcError},
    storage::{Files, Mirror, Queued},
    telemetry,
    traces::Trace,
};

/// The offer to continue with another model.
pub(crate) const AUTO_MODE: &str = "auto_mode_switch.requested";

/// A session that a client created or resumed.
pub(crate) struct Attached {
    session: Session,
    feed: Arc<Feed>,
    /// Until the response that opened the session is sent.
    opening: Mutex<Option<Hold>>,
    /// Dropping it stops the events.
    _listening: Listening,
    client: Mutex<Client>,
    chooser: Mutex<Chooser>,
    /// Facts about the session's own GitHub token; `None` if it uses the host's.
    auth: Mutex<Option<Value>>,
    /// Whether the model could not be resolved when the session was opened.
    model_is_late: AtomicBool,
    board: Arc<Board>,
    interests: Mutex<Vec<(String, String)>>,
    running: Running,
    samplings: Samplings,
    /// The session's trace.
    trace: OnceLock<Arc<Trace>>,
    /// The same trace, for calls of the client's tools.
    shown_trace: Arc<OnceLock<Weak<Trace>>>,
    /// The location whose rules the client applied last.
    pub(crate) location: Mutex<Option<PathBuf>>,
    /// Whether the client shows views of MCP servers.
    shows_views: AtomicBool,
    /// Whether the client shows canvases, so that the model may open them.
    shows_canvases: Arc<AtomicBool>,
    /// The canvases that the client provides.
    provided: Mutex<Option<Provided>>,
    /// The factories that the client offers.
    offered: Mutex<Option<Registered>>,
    /// The session's extensions, if the client asked for them.
    extensions: Mutex<Option<Arc<Extensions>>>,
    /// A reference to this, for calls from the session.
    itself: Arc<OnceLock<Weak<Attached>>>,
    /// Whether the client resumed open calls and questions when it attached.
    took_up: AtomicBool,
    /// The client's metadata document, for those who issue tokens.
    client_metadata_url: Mutex<Option<String>>,
    /// Sends the session's files to a client that stores them.
    mirror: Mutex<Option<Mirror>>,
}

/// The settings in a client's configuration.
fn changes(config: &SessionConfig) -> Vec<Change> {
    let mut changes = Vec::new();
    changes.extend(config.enable_citations.map(Change::Citations));
    // In its sessions the app decides, whatever the person set for others.
    changes.push(Change::Memory(
        config.memory.as_ref().is_some_and(|memory| memory.enabled),
    ));
    changes.extend(config.enable_host_git_operations.map(Change::Git));
    let variant = config.ask_user_variant;
    changes.extend(variant.map(|variant| Change::AskByForm(variant == AskUserVariant::Elicitation)));
    changes.extend(config.large_output.as_ref().map(|large| Change::LargeOutput {
        bytes: match large.enabled {
            Some(false) => usize::MAX,
            _ => large.max_size_bytes.unwrap_or(MAX_TOOL_OUTPUT),
        },
        dir: large.output_dir.clone(),
    }));
    let summary = config.reasoning_summary.clone();
    changes.extend(summary.map(|summary| Change::ReasoningSummary(Some(summary))));
    let organization = config.organization_custom_instructions.clone();
    changes.extend(organization.map(|text| {
        let text = Some(text).filter(|text| !text.trim().is_empty());
        Change::OrganizationInstructions(text)
    }));
    changes
}

/// The client's capabilities, and its attachment to the session.
struct Client {
    spec: ClientSpec,
    /// Dropping it detaches.
    attachment: Option<Attachment>,
}

/// Events on their way to the client. They are held back while a response must come before them.
struct Feed {
    session_id: String,
    peer: Peer,
    prefix: Bytes,
    held: Mutex<Held>,
    /// Set if the client stores the session's files: events follow the files that they mention.
    through: OnceLock<Queued>,
    /// Whether the client does not want deltas of sub-agents.
    without_sub_deltas: AtomicBool,
    /// Whether the client wants telemetry.
    with_telemetry: AtomicBool,
    /// Lodge's own types that the client wants. It gets no others, because the SDK's schema does not have them.
    own_types: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct Held {
    /// How many responses must come first.
    holds: usize,
    events: Vec<Event>,
}

/// Holds back a session's events for one client until it is dropped. Other clients get them at once.
pub(crate) struct Hold(Arc<Feed>);

impl Hold {
    fn of(feed: &Arc<Feed>) -> Self {
        feed.held.lock().holds += 1;
        Self(feed.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.0.held.lock();
        held.holds -= 1;
        if held.holds == 0 {
            for event in std::mem::take(&mut held.events) {
                self.0.send(&event);
            }
        }
    }
}

impl Feed {
    /// Subscribes the client to Lodge's own types in which it is interested.
    fn want(&self, interests: &[(String, String)]) {
        let types = interests.iter().map(|(_, kind)| kind).filter(|kind| is_beside(kind));
        *self.own_types.lock() = types.cloned().collect();
    }

    fn send(&self, event: &Event) {
        let wanted = !event.is_beside() || self.own_types.lock().contains(event.kind());
        match self.through.get() {
            Some(mirror) => mirror.event(event, wanted),
            None if wanted => self.peer.event(&self.prefix, event),
            None => {}
        }
        if self.with_telemetry.load(Ordering::Relaxed)
            && let Some(told) = telemetry::of(&self.session_id, event)
        {
            self.peer.notify("gitHubTelemetry.event", &told);
        }
    }
}

impl Publish for Feed {
    fn publish(&self, event: &Event) {
        if event.agent_id().is_some() && self.without_sub_deltas.load(Ordering::Relaxed) && is_delta(event) {
            return;
        }
        let mut held = self.held.lock();
        if held.holds == 0 {
            return self.send(event);
        }
        held.events.push(event.clone());
        // What is in the session's files reaches a client that stores them before the response.
        if let Some(mirror) = self.through.get().filter(|_| !event.is_ephemeral()) {
            mirror.event(event, false);
        }
    }
}

impl Attached {
    /// Subscribes to a session. With `from_start`, the client also gets earlier events.
    pub(crate) fn listen(
        session: Session,
        chooser: Chooser,
        board: Arc<Board>,
        auth: Option<Value>,
        from_start: bool,
    ) -> Result<Self, RpcError> {
        let peer = chooser.peer.clone();
        let feed = Arc::new(Feed {
            session_id: session.id().to_owned(),
            peer: peer.clone(),
            prefix: event_prefix(session.id()),
            held: Mutex::default(),
            through: OnceLock::new(),
            without_sub_deltas: AtomicBool::new(false),
            with_telemetry: AtomicBool::new(false),
            own_types: Mutex::default(),
        });
        let opening = Hold::of(&feed);
        let listening = if from_start {
            let (history, listening) = session.history_and_listen(feed.clone())?;
            let past: Vec<Event> = history.events().collect::<Result<_, _>>()?;
            feed.held.lock().events.splice(0..0, past);
            listening
        } else {
            session.listen(feed.clone())
        };
        let (shown_trace, itself, shows_canvases) = (Arc::default(), Arc::default(), Arc::default());
        let calls = Arc::new(SdkCalls {
            peer,
            session_id: session.id().to_owned(),
            trace: Arc::clone(&shown_trace),
            attached: Arc::clone(&itself),
            shows_canvases: Arc::clone(&shows_canvases),
        });
        let spec = ClientSpec {
            name: String::new(),
            can: Capabilities::default(),
            tools: Vec::new(),
            commands: Vec::new(),
            calls,
        };
        Ok(Self {
            model_is_late: AtomicBool::new(false),
            session,
            feed,
            opening: Mutex::new(Some(opening)),
            _listening: listening,
            client: Mutex::new(Client { spec, attachment: None }),
            chooser: Mutex::new(chooser),
            auth: Mutex::new(auth),
            board,
            interests: Mutex::default(),
            running: Running::default(),
            samplings: Samplings::default(),
            trace: OnceLock::new(),
            shown_trace,
            location: Mutex::default(),
            shows_views: AtomicBool::new(false),
            shows_canvases,
            provided: Mutex::default(),
            offered: Mutex::default(),
            extensions: Mutex::default(),
            itself,
            took_up: AtomicBool::new(false),
            client_metadata_url: Mutex::default(),
            mirror: Mutex::default(),
        })
    }

    /// Attaches the client to the session, with its capabilities.
    pub(crate) async fn attach(&self, ctx: &Ctx, name: String, config: &SessionConfig) -> Result<(), RpcError> {
        let without_deltas = config.include_sub_agent_streaming_events == Some(false);
        self.feed.without_sub_deltas.store(without_deltas, Ordering::Relaxed);
        let with_telemetry = ctx.counts() || config.enable_git_hub_telemetry_forwarding == Some(true);
        self.feed.with_telemetry.store(with_telemetry, Ordering::Relaxed);
        if let Some(carrier) = ctx.carrier(Some(self.id())) {
            self.board.carry(carrier);
        }
        let shows_views = config.request_mcp_apps == Some(true);
        self.shows_views.store(shows_views, Ordering::Relaxed);
        let shows_canvases = config.request_canvas_renderer == Some(true);
        self.shows_canvases.store(shows_canvases, Ordering::Relaxed);
        let took_up = config.continue_pending_work == Some(true);
        self.took_up.store(took_up, Ordering::Relaxed);
        self.client_metadata_url
            .lock()
            .clone_from(&config.auth_client_id_metadata_url);
        // An extension adds to its session, and changes no settings of it.
        let is_extension = ctx.extension().is_some();
        if let Some(mode) = config.env_value_mode.filter(|_| !is_extension) {
            self.read_variables(mode);
        }
        let spec = {
            let mut client = self.client.lock();
            client.spec.name = name;
            client.spec.can = capabilities(config);
            client.spec.tools = self.tools(config.tools.as_deref().unwrap_or_default());
            let commands = config.commands.iter().flatten().map(|command| CommandInfo {
                name: command.name.clone(),
                description: command.description.clone(),
            });
            client.spec.commands = commands.collect();
            client.spec.clone()
        };
        if !is_extension {
            for change in changes(config) {
                self.session.configure(change).await?;
            }
        }
        let attachment = self.session.attach_client(spec).await?;
        self.client.lock().attachment = Some(attachment);
        let provided = Canvases::provide(&self.board, &self.session, self.peer(), config).await?;
        *self.provided.lock() = provided;
        let factories = config.factories.as_deref().unwrap_or_default();
        *self.offered.lock() = Factories::register(&self.board, self.peer(), factories)?;
        Ok(())
    }

    /// Vouches for the session's extensions, if the client asks for them. It has its working directory by now.
    pub(crate) async fn ask_for_extensions(&self, ctx: &Ctx, config: &SessionConfig) {
        if config.request_extensions == Some(true) && ctx.extension().is_none() {
            let sdk = config.extension_sdk_path.clone();
            let extensions = Extensions::of(ctx, &self.board, &self.session, sdk).await;
            *self.extensions.lock() = Some(extensions);
        }
    }

    /// Whether the client asked for the session's extensions.
    pub(crate) fn has_extensions(&self) -> bool {
        self.extensions.lock().is_some()
    }

    /// Stops the session's extensions, if no other client asked for them, and waits until they have left the session.
    pub(crate) async fn leave_extensions(&self) {
        let extensions = self.extensions.lock().take();
        if let Some(extensions) = extensions.and_then(Arc::into_inner) {
            extensions.stop().await;
        }
    }

    /// The client's tools, and the canvas tools.
    fn tools(&self, configs: &[ToolConfig]) -> Vec<ClientTool> {
        let mut tools = tools(configs);
        if self.shows_canvases() {
            tools.retain(|tool| !canvas_tools::is_one(&tool.name));
            tools.extend(canvas_tools::tools());
        }
        tools
    }

    /// Whether the client shows canvases.
    pub(crate) fn shows_canvases(&self) -> bool {
        self.shows_canvases.load(Ordering::Relaxed)
    }

    /// Makes this available to calls from the session.
    pub(crate) fn opened(self: &Arc<Self>) {
        let _ = self.itself.set(Arc::downgrade(self));
    }

    /// Sets the meaning of the values of MCP servers' variables.
    pub(crate) fn read_variables(&self, mode: EnvValueMode) {
        self.session.mcp().set_by_reference(mode == EnvValueMode::Indirect);
    }

    /// Whether the client shows views of MCP servers.
    pub(crate) fn shows_views(&self) -> bool {
        self.shows_views.load(Ordering::Relaxed)
    }

    /// Whether the client resumed open calls and questions when it attached.
    pub(crate) fn took_up(&self) -> bool {
        self.took_up.load(Ordering::Relaxed)
    }

    /// The client's metadata document, for those who issue tokens.
    pub(crate) fn client_metadata_url(&self) -> Option<String> {
        self.client_metadata_url.lock().clone()
    }

    /// Replaces the client's tools.
    pub(crate) fn set_tools(&self, configs: &[ToolConfig]) {
        let mut client = self.client.lock();
        client.spec.tools = self.tools(configs);
        if let Some(attachment) = &client.attachment {
            attachment.update(client.spec.clone());
        }
    }

    /// Holds back the session's events for this client until a response is sent.
    pub(crate) fn hold(&self) -> Hold {
        Hold::of(&self.feed)
    }

    /// Sends the events that were held back while the session was opened.
    pub(crate) fn start(&self) {
        drop(self.opening.lock().take());
        if let Some(provided) = &*self.provided.lock() {
            provided.begin();
        }
        if let Some(extensions) = &*self.extensions.lock() {
            extensions.begin();
        }
    }

    /// Starts to send the session's files to the client. With `same`, it already has them as they are.
    pub(crate) fn keep_files(&self, files: Files, queue_bytes: usize, same: bool) {
        let prefix = self.feed.prefix.clone();
        let mirror = Mirror::start(self.session.clone(), files, prefix, queue_bytes, same);
        if self.feed.through.set(mirror.queued()).is_ok() {
            *self.mirror.lock() = Some(mirror);
        }
    }

    /// Waits until a client that stores the session's files has them.
    pub(crate) async fn files_kept(&self) {
        if let Some(mirror) = self.feed.through.get() {
            mirror.flush().await;
        }
    }

    /// The state shared by the session's clients.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// The session's recent events.
    pub(crate) fn recent(&self) -> Arc<Recent> {
        self.board.recent(&self.session)
    }

    /// Subscribes the client to a type of event.
    pub(crate) fn add_interest(&self, event_type: String) -> String {
        let mut interests = self.interests.lock();
        let handle = format!("interest-{}", interests.len() + 1);
        // Only a client that subscribes is asked to sign in, to decide about limits, or to answer for the model.
        self.now_can(|can| match event_type.as_str() {
            "mcp.oauth_required" => can.mcp_tokens = true,
            "session_limits_exhausted.requested" => can.limits = true,
            "sampling.requested" => can.sampling = true,
            AUTO_MODE => can.auto_mode_switch = true,
            _ => {}
        });
        interests.push((handle.clone(), event_type));
        self.feed.want(&interests);
        handle
    }

    /// Changes the client's capabilities.
    pub(crate) fn now_can(&self, change: impl FnOnce(&mut Capabilities)) {
        let mut client = self.client.lock();
        let before = client.spec.can.clone();
        change(&mut client.spec.can);
        if let Some(attachment) = client.attachment.as_ref().filter(|_| before != client.spec.can) {
            attachment.update(client.spec.clone());
        }
    }

    /// Unsubscribes. False if there was no such subscription.
    pub(crate) fn remove_interest(&self, handle: &str) -> bool {
        let mut interests = self.interests.lock();
        let known = interests
            .iter_mut()
            .find(|(known, wanted)| known == handle && !wanted.is_empty());
        let Some(wanted) = known.map(|(_, wanted)| std::mem::take(wanted)) else {
            return false;
        };
        let others = interests.iter().any(|(_, other)| *other == wanted);
        self.feed.want(&interests);
        drop(interests);
        self.now_can(|can| match wanted.as_str() {
            _ if others => {}
            "mcp.oauth_required" => can.mcp_tokens = false,
            "session_limits_exhausted.requested" => can.limits = false,
            "sampling.requested" => can.sampling = false,
            AUTO_MODE => can.auto_mode_switch = false,
            _ => {}
        });
        true
    }

    /// Commands that the client runs in the session.
    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// The client's running sampling requests.
    pub(crate) fn samplings(&self) -> &Samplings {
        &self.samplings
    }

    /// The client.
    pub(crate) fn peer(&self) -> Peer {
        self.feed.peer.clone()
    }

    /// Sets whether the client answers permission requests.
    pub(crate) fn answer_permissions(&self, answers: bool) {
        self.now_can(|can| can.permissions = answers);
    }

    /// Sets the session's trace.
    pub(crate) fn traced(&self, trace: Arc<Trace>) {
        let _ = self.shown_trace.set(Arc::downgrade(&trace));
        let _ = self.trace.set(trace);
    }

    /// Makes the next turn a child of a span of the client, if the session is traced.
    pub(crate) fn belongs_to(&self, traceparent: Option<&str>) {
        if let (Some(parent), Some(trace)) = (traceparent, self.trace.get()) {
            trace.belongs_to(parent);
        }
    }

    /// The session's id.
    pub(crate) fn id(&self) -> &str {
        self.session.id()
    }

    /// Answers a question of the agent in the client's name. False if the question is not open.
    pub(crate) async fn answer(&self, request_id: &str, answer: Answer) -> Result<bool, AgentError> {
        let by = AnsweredBy {
            client: Some(self.client.lock().spec.name.clone()),
            ..AnsweredBy::default()
        };
        self.session.answer(request_id, answer, by).await
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Whether the client can show forms.
    pub(crate) fn can_elicit(&self) -> bool {
        self.client.lock().spec.can.elicitation
    }

    /// Facts about the session's own GitHub token; `None` if it uses the host's.
    pub(crate) fn own_login(&self) -> Option<Value> {
        self.auth.lock().clone()
    }

    /// Switches to another login, and to the models that it gives access to.
    pub(crate) async fn log_in(
        &self,
        status: Option<Value>,
        catalogue: Option<lodge_models::Catalogue>,
    ) -> Result<(), RpcError> {
        *self.auth.lock() = status;
        let Some(catalogue) = catalogue else { return Ok(()) };
        let chooser = {
            let mut chooser = self.chooser.lock();
            chooser.catalogue = catalogue;
            chooser.clone()
        };
        let model = self.session.settings().model.id.clone();
        let chosen = chooser.choose(Some(&model), None).await?;
        self.session.supply(Supply::model(chosen.model.clone())).await?;
        self.session.supply(Supply::Models(Arc::new(chooser))).await?;
        self.chose(chosen).await
    }
}

/// Whether an event is a piece of something that is sent as a whole later.
fn is_delta(event: &Event) -> bool {
    matches!(
        event.kind(),
        "assistant.message_delta"
            | "assistant.message_start"
            | "assistant.reasoning_delta"
            | "assistant.streaming_delta"
            | "assistant.tool_call_delta"
    )
}

/// The session in the parameters, if the client has it open.
pub(crate) fn of(ctx: &Ctx, params: &Params) -> Result<Arc<Attached>, RpcError> {
    let SessionId { session_id } = params.parse()?;
    ctx.session(&session_id)
        .ok_or_else(|| RpcError::failed(format!("Session not found for sessionId: {session_id}")))
}

/// The session id in the parameters.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionId {
    pub(crate) session_id: String,
}

fn capabilities(config: &SessionConfig) -> Capabilities {
    let is = |flag: Option<bool>| flag.unwrap_or(false);
    let sections = config
        .system_message
        .as_ref()
        .and_then(|message| message.sections.as_ref());
    let transforms = sections
        .into_iter()
        .flatten()
        .filter(|(_, change)| change.action.as_deref() == Some("transform"))
        .map(|(name, _)| name.clone())
        .collect();
    Capabilities {
        // Older clients without this flag always had a handler.
        permissions: config.request_permission.unwrap_or(true),
        user_input: is(config.request_user_input),
        elicitation: is(config.request_elicitation),
        exit_plan_mode: is(config.request_exit_plan_mode),
        auto_mode_switch: is(config.request_auto_mode_switch),
        limits: false,
        mcp_tokens: false,
        sampling: false,
        hooks: is(config.hooks),
        prepares: false,
        transforms,
    }
}

fn tools(configs: &[ToolConfig]) -> Vec<ClientTool> {
    let no_parameters = || json!({"type": "object", "properties": {}});
    configs
        .iter()
        .map(|tool| ClientTool {
            name: tool.name.clone(),
            description: tool.description.clone().unwrap_or_default(),
            parameters: tool
                .parameters
                .clone()
                .filter(Value::is_object)
                .unwrap_or_else(no_parameters)
                .into(),
            overrides_builtin: tool.overrides_built_in_tool.unwrap_or(false),
            skip_permission: tool.skip_permission.unwrap_or(false),
            terminal: tool.is_terminal.unwrap_or(false),
            // The SDKs have no field for it, so MCP's is used.
            read_only: tool
                .metadata
                .as_ref()
                .is_some_and(|metadata| metadata["readOnlyHint"] == true),
        })
        .collect()
}
