//! What servers may ask of, and tell, the host.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
        FormElicitationCapability, Implementation, ProgressNotificationParam,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

use crate::{
    call::Calls,
    owner::{Elicitation, List, Owner},
};

/// Forms that one server may have open at once.
const FORMS: usize = 4;

/// Rung when the server says that a list changed. However often it does: who listens hears it once.
#[derive(Default)]
pub(crate) struct Bells {
    tools: Notify,
    resources: Notify,
    prompts: Notify,
}

impl Bells {
    /// Waits for the next one.
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
    pub(crate) bells: Arc<Bells>,
    forms: AtomicUsize,
}

impl Handler {
    pub(crate) fn new(server: Arc<str>, owner: Arc<dyn Owner>) -> Self {
        Self {
            server,
            owner,
            calls: Arc::default(),
            bells: Arc::default(),
            forms: AtomicUsize::new(0),
        }
    }

    async fn ask(&self, request: ElicitRequestParams) -> ElicitResult {
        // Only forms are offered to servers, so only forms are shown.
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = request
        else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let form = Elicitation {
            call_id: self.calls.only(),
            message,
            schema: serde_json::to_value(requested_schema).unwrap_or_default(),
        };
        let answer = self.owner.elicit(&self.server, form).await;
        match answer.action.as_str() {
            "accept" => {
                let content = answer.content.unwrap_or_else(|| serde_json::json!({}));
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            "decline" => ElicitResult::new(ElicitationAction::Decline),
            _ => ElicitResult::new(ElicitationAction::Cancel),
        }
    }
}

/// Counts a form for as long as it is open.
struct OpenForm<'a>(&'a AtomicUsize);

impl Drop for OpenForm<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientHandler for Handler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        if self.forms.fetch_add(1, Ordering::Relaxed) >= FORMS {
            self.forms.fetch_sub(1, Ordering::Relaxed);
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        }
        let _open = OpenForm(&self.forms);
        tokio::select! {
            answer = self.ask(request) => Ok(answer),
            // The server does not want to know any more.
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.calls.progress(&told);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.bells.tools.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.bells.resources.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.bells.prompts.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        can.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::default()));
        ClientConfig::new(can, Implementation::new("lodge", env!("CARGO_PKG_VERSION")))
    }
}
