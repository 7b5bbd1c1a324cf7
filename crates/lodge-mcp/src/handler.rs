//! Requests and notifications from servers.

// MCP means to give up sampling one day; servers use it until then.
#![expect(deprecated)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestMethod, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
        FormElicitationCapability, Implementation, ListRootsResult, ProgressNotificationParam, RequestId, Root,
        RootsCapabilities, SamplingCapability, ServerNotification, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext, RxJsonRpcMessage},
};
use tokio::sync::{Notify, watch};

use crate::{
    call::{Calls, json},
    owner::{Elicitation, List, Owner, Sampling},
};

/// Questions of one kind that one server may have open at once.
const AT_ONCE: usize = 4;
/// The longest question to the model.
const SAMPLING_BYTES: usize = 1 << 20;
/// The longest address of a page that somebody is sent to.
const URL_BYTES: usize = 8 << 10;
/// MCP's error code for a request that the user rejected.
const REJECTED: i32 = -1;

/// Notifications that a server's lists changed. Several before the next look count as one.
#[derive(Default)]
pub(crate) struct ListChanges {
    tools: Notify,
    resources: Notify,
    prompts: Notify,
    /// How often the server announced that its tools changed. Counted in the order in which messages arrive: whoever has
    /// the answer to a call has every change that was announced before it.
    tool_changes: AtomicU64,
    /// How many of these changes the list includes that was read last.
    read: watch::Sender<u64>,
}

impl ListChanges {
    /// Counts a change as soon as its message arrives.
    pub(crate) fn observe(&self, message: &RxJsonRpcMessage<RoleClient>) {
        if let RxJsonRpcMessage::<RoleClient>::Notification(told) = message
            && matches!(told.notification, ServerNotification::ToolListChangedNotification(_))
        {
            self.tool_changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn tool_changes(&self) -> u64 {
        self.tool_changes.load(Ordering::Acquire)
    }

    /// The tools were read, with this many changes included.
    pub(crate) fn mark_tools_read(&self, changes: u64) {
        self.read.send_replace(changes);
    }

    /// Waits until the list of tools includes every change announced so far.
    pub(crate) async fn wait_for_tools(&self) {
        let changes = self.tool_changes();
        let _ = self.read.subscribe().wait_for(|read| *read >= changes).await;
    }

    /// Waits for the next change of a list.
    pub(crate) async fn next(&self) -> List {
        tokio::select! {
            () = self.tools.notified() => List::Tools,
            () = self.resources.notified() => List::Resources,
            () = self.prompts.notified() => List::Prompts,
        }
    }
}

/// The host, as one server sees it.
pub(crate) struct Handler {
    pub(crate) server: Arc<str>,
    pub(crate) owner: Arc<dyn Owner>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) list_changes: Arc<ListChanges>,
    forms: AtomicUsize,
    /// Whether the server may ask the model.
    sampling: bool,
    samplings: AtomicUsize,
}

impl Handler {
    pub(crate) fn new(server: Arc<str>, owner: Arc<dyn Owner>, sampling: bool) -> Self {
        Self {
            server,
            sampling: sampling || owner.takes_samplings(),
            owner,
            calls: Arc::default(),
            list_changes: Arc::default(),
            forms: AtomicUsize::new(0),
            samplings: AtomicUsize::new(0),
        }
    }

    /// Puts a question to the model, within bounds.
    async fn sample(
        &self,
        params: CreateMessageRequestParams,
        id: &RequestId,
    ) -> Result<CreateMessageResult, rmcp::ErrorData> {
        let refused = |why: &str| rmcp::ErrorData::invalid_request(why.to_owned(), None);
        if params.tools.is_some() || params.tool_choice.is_some() {
            let why = "Sampling with tools is not supported.";
            return Err(rmcp::ErrorData::invalid_params(why, None));
        }
        let request = json(&params);
        if request.to_string().len() > SAMPLING_BYTES {
            return Err(refused("The sampling request is too long."));
        }
        self.calls.count_sampling().map_err(refused)?;
        let _open = Open::one(&self.samplings).ok_or_else(|| refused("Too many pending requests to the model."))?;
        let asked = Sampling {
            mcp_request_id: json(id),
            request,
        };
        let answer = tokio::select! {
            answer = self.owner.sample(&self.server, asked) => answer,
            () = self.calls.all_over() => Err("The tool call has already ended.".to_owned()),
        };
        let rejected = |why: String| rmcp::ErrorData::new(ErrorCode(REJECTED), why, None);
        serde_json::from_value(answer.map_err(rejected)?).map_err(|error| {
            rmcp::ErrorData::internal_error(format!("The model's answer is not a valid message: {error}"), None)
        })
    }

    async fn ask(&self, request: ElicitRequestParams) -> ElicitResult {
        let (message, schema, url) = match request {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => (message, serde_json::to_value(requested_schema).ok(), None),
            ElicitRequestParams::UrlElicitationParams { message, url, .. } if is_page(&url) => {
                (message, None, Some(url))
            }
            // Nobody should be sent to anything else.
            _ => return ElicitResult::new(ElicitationAction::Decline),
        };
        let is_page = url.is_some();
        let form = Elicitation {
            call_id: self.calls.only(),
            message,
            schema,
            url,
        };
        let answer = self.owner.elicit(&self.server, form).await;
        match answer.action.as_str() {
            "accept" if is_page => ElicitResult::new(ElicitationAction::Accept),
            "accept" => {
                let content = answer.content.unwrap_or_else(|| serde_json::json!({}));
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            "decline" => ElicitResult::new(ElicitationAction::Decline),
            _ => ElicitResult::new(ElicitationAction::Cancel),
        }
    }
}

/// Whether this is a page of the web.
fn is_page(url: &str) -> bool {
    let scheme = reqwest::Url::parse(url).map(|url| url.scheme().to_owned());
    url.len() <= URL_BYTES && scheme.is_ok_and(|scheme| matches!(scheme.as_str(), "https" | "http"))
}

/// Counts a question for as long as it is open.
struct Open<'a>(&'a AtomicUsize);

impl<'a> Open<'a> {
    /// One more, unless there are too many.
    fn one(count: &'a AtomicUsize) -> Option<Self> {
        let open = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < AT_ONCE).then_some(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientHandler for Handler {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, rmcp::ErrorData> {
        if !self.sampling {
            return Err(rmcp::ErrorData::method_not_found::<CreateMessageRequestMethod>());
        }
        tokio::select! {
            answer = self.sample(params, &context.id) => answer,
            () = context.ct.cancelled() => Err(rmcp::ErrorData::internal_error("cancelled", None)),
        }
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let Some(_open) = Open::one(&self.forms) else {
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        };
        tokio::select! {
            answer = self.ask(request) => Ok(answer),
            // The server does not want to know any more.
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, rmcp::ErrorData> {
        let roots = self.owner.roots().into_iter().filter_map(|root| {
            let uri = reqwest::Url::from_directory_path(&root).ok()?;
            let root_uri = Root::new(uri.as_str().trim_end_matches('/'));
            let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
            Some(match name {
                Some(name) => root_uri.with_name(name),
                None => root_uri,
            })
        });
        Ok(ListRootsResult::new(roots.collect()))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.calls.progress(&told);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changes.tools.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changes.resources.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changes.prompts.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        can.sampling = self.sampling.then(SamplingCapability::default);
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        can.roots = Some(roots);
        can.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        ClientConfig::new(can, Implementation::new("lodge", env!("CARGO_PKG_VERSION")))
    }
}
