//! Open questions that the agent waits for, and their answers. Any attached client may answer; the first answer wins.

use std::{collections::BTreeMap, sync::Arc};

use lodge_events::{AutoModeSwitchResponse, ContentBlock, Event, LimitsAnswer};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

/// An answer to an open question.
#[derive(Debug, Clone)]
pub enum Answer {
    /// To `permission.requested`.
    Permission(PermissionDecision),
    /// To `external_tool.requested`.
    Tool(ToolAnswer),
    /// To `user_input.requested`.
    UserInput(UserInputAnswer),
    /// To `elicitation.requested`.
    Elicitation(ElicitationAnswer),
    /// To `exit_plan_mode.requested`.
    ExitPlan(ExitPlanAnswer),
    /// To `mcp.oauth_required`: an access token, or a refusal.
    McpToken(Option<AccessToken>),
    /// To `command.execute`: the error, if there was one.
    Command(Option<String>),
    /// To `auto_mode_switch.requested`.
    AutoMode(AutoModeSwitchResponse),
    /// To `session_limits_exhausted.requested`.
    Limits(LimitsAnswer),
    /// To `sampling.requested`: the message for the MCP server, or a refusal.
    Sampling(Option<Value>),
}

/// A token for an MCP server. It is never printed, so that it gets into no log or event.
#[derive(Clone)]
pub struct AccessToken(pub String);

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

impl Answer {
    pub(crate) fn kind(&self) -> QuestionKind {
        match self {
            Self::Permission(_) => QuestionKind::Permission,
            Self::Tool(_) => QuestionKind::Tool,
            Self::UserInput(_) => QuestionKind::UserInput,
            Self::Elicitation(_) => QuestionKind::Elicitation,
            Self::ExitPlan(_) => QuestionKind::ExitPlan,
            Self::McpToken(_) => QuestionKind::McpToken,
            Self::AutoMode(_) => QuestionKind::AutoMode,
            Self::Limits(_) => QuestionKind::Limits,
            Self::Command(_) => QuestionKind::Command,
            Self::Sampling(_) => QuestionKind::Sampling,
        }
    }
}

/// The kind of a question. An answer must be of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// `permission.requested`
    Permission,
    /// `external_tool.requested`
    Tool,
    /// `user_input.requested`
    UserInput,
    /// `elicitation.requested`
    Elicitation,
    /// `exit_plan_mode.requested`
    ExitPlan,
    /// `mcp.oauth_required`
    McpToken,
    /// `command.execute`
    Command,
    /// `auto_mode_switch.requested`
    AutoMode,
    /// `session_limits_exhausted.requested`
    Limits,
    /// `sampling.requested`
    Sampling,
}

/// The decision of a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum PermissionDecision {
    /// Allow it once.
    ApproveOnce,
    /// Allow it with other arguments than the model's.
    ApproveEdited {
        /// The arguments for the tool.
        arguments: Value,
        /// Also allow similar edited calls in this session.
        for_session: bool,
    },
    /// Allow it, and similar requests in this session.
    ApproveForSession,
    /// Allow it, and similar requests in this project.
    ApproveForLocation,
    /// Allow it, and similar requests always.
    ApprovePermanently,
    /// Reject it; the turn ends, unless there is feedback for the model.
    Reject {
        /// The person's feedback.
        feedback: Option<String>,
    },
    /// Deny it; the model is informed and continues.
    Deny {
        /// The person's feedback.
        feedback: Option<String>,
    },
    /// There is nobody to ask.
    UserNotAvailable,
    /// Denied by a rule of the client.
    DenyByRules,
    /// Denied because the content is excluded.
    DenyByContentExclusion,
}

/// The outcome of a tool that a client ran.
#[derive(Debug, Clone)]
pub enum ToolAnswer {
    /// It ran.
    Result(Box<ExternalResult>),
    /// It failed. The model does not get the reason.
    Error(String),
}

/// The result of a tool that a client ran.
#[derive(Debug, Clone, Default)]
pub struct ExternalResult {
    /// The text for the model.
    pub text: String,
    /// `success`, `failure`, `rejected`, `denied` or `timeout`.
    pub result_type: String,
    /// The error, for people.
    pub error: Option<String>,
    /// The text for people, if it differs.
    pub session_log: Option<String>,
    /// Passed through to `tool.execution_complete`.
    pub telemetry: Option<Value>,
    /// Images and the like: mime type and base64.
    pub binaries: Vec<(String, String)>,
    /// Structured blocks.
    pub contents: Vec<ContentBlock>,
    /// Sources that the model may cite, as [`lodge_models::CitableSource`].
    pub citable: Vec<Value>,
}

/// A person's answer to a question.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInputAnswer {
    /// The text.
    pub answer: String,
    /// Whether it was typed rather than chosen.
    pub was_freeform: bool,
}

impl UserInputAnswer {
    /// The text for the agent if the person does not answer.
    pub fn left_open() -> Self {
        Self {
            answer: "(The person left the question open. Go on without the answer, or stop.)".to_owned(),
            was_freeform: true,
        }
    }
}

/// The answer to a form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ElicitationAnswer {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The form's values.
    pub content: Option<Value>,
}

/// The answer to a request to leave plan mode.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitPlanAnswer {
    /// Whether the plan is approved.
    pub approved: bool,
    /// The chosen action.
    pub selected_action: Option<String>,
    /// Whether edits need no approval from now on.
    pub auto_approve_edits: Option<bool>,
    /// The person's feedback.
    pub feedback: Option<String>,
}

impl ExitPlanAnswer {
    /// What happens now: the chosen action, or the one that an approval without a choice means.
    pub fn action(&self) -> Option<&str> {
        match (&self.selected_action, self.approved) {
            (Some(action), _) => Some(action),
            (None, true) if self.auto_approve_edits == Some(true) => Some("autopilot"),
            (None, true) => Some("interactive"),
            (None, false) => None,
        }
    }
}

/// An open question, for clients that list them.
#[derive(Debug, Clone)]
pub struct PendingQuestion {
    /// The id for the answer.
    pub request_id: String,
    /// Its kind.
    pub kind: QuestionKind,
    /// The event that asked.
    pub event: Event,
}

/// The log's description of a question.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) tool_call_id: Option<String>,
    /// Identifies exactly what is asked.
    pub(crate) digest: String,
    /// Whether the answer's content must not be recorded.
    pub(crate) is_private: bool,
}

/// An open question.
pub(crate) struct Entry {
    order: u64,
    owner: Option<Arc<str>>,
    kind: QuestionKind,
    event: Option<Event>,
    about: Option<About>,
    answer: oneshot::Sender<Answer>,
}

impl Entry {
    pub(crate) fn about(&self) -> Option<&About> {
        self.about.as_ref()
    }

    /// False if nobody waits for it any more.
    pub(crate) fn send(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }
}

/// The open questions of a session, as one of its agents holds them: every agent can answer all of them, but withdraws
/// only its own.
#[derive(Default)]
pub(crate) struct Pending {
    all: Arc<Mutex<(u64, BTreeMap<String, Entry>)>>,
    opened: Arc<tokio::sync::Notify>,
    owner: Option<Arc<str>>,
}

impl Pending {
    /// The same questions, for questions to one client: they close when it detaches.
    pub(crate) fn for_client(&self, client: crate::client::ClientId) -> Self {
        self.for_agent(format!("client {client}").into())
    }

    /// The same questions, for a sub-agent.
    pub(crate) fn for_agent(&self, agent_id: Arc<str>) -> Self {
        Self {
            all: self.all.clone(),
            opened: self.opened.clone(),
            owner: Some(agent_id),
        }
    }

    /// Opens a question. It must be open before its event is published, so that no answer can come too early.
    pub(crate) fn open(&self, request_id: &str, kind: QuestionKind) -> oneshot::Receiver<Answer> {
        self.insert(request_id, kind, None)
    }

    /// Opens a question that is in the log.
    pub(crate) fn open_about(&self, request_id: &str, kind: QuestionKind, about: About) -> oneshot::Receiver<Answer> {
        self.insert(request_id, kind, Some(about))
    }

    fn insert(&self, request_id: &str, kind: QuestionKind, about: Option<About>) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        let mut inner = self.all.lock();
        inner.0 += 1;
        let order = inner.0;
        inner.1.insert(
            request_id.to_owned(),
            Entry {
                order,
                owner: self.owner.clone(),
                kind,
                event: None,
                about,
                answer,
            },
        );
        drop(inner);
        self.opened.notify_waiters();
        receiver
    }

    /// Stores the event of a question, for [`Pending::list`].
    pub(crate) fn asked(&self, request_id: &str, event: Event) {
        if let Some(entry) = self.all.lock().1.get_mut(request_id) {
            entry.event = Some(event);
        }
    }

    /// Waits until a question is open.
    pub(crate) async fn opened(&self, request_id: &str) {
        loop {
            let opened = self.opened.notified();
            if self.all.lock().1.contains_key(request_id) {
                return;
            }
            opened.await;
        }
    }

    /// Takes a question to answer it. None if it is not open, or of another kind.
    pub(crate) fn take(&self, request_id: &str, kind: QuestionKind) -> Option<Entry> {
        let mut inner = self.all.lock();
        inner.1.get(request_id).filter(|entry| entry.kind == kind)?;
        inner.1.remove(request_id)
    }

    /// Returns a question that could not be answered.
    pub(crate) fn put_back(&self, request_id: &str, entry: Entry) {
        self.all.lock().1.insert(request_id.to_owned(), entry);
    }

    /// Closes a question for which nobody waits any more.
    pub(crate) fn close(&self, request_id: &str) {
        self.all.lock().1.remove(request_id);
    }

    /// Closes all questions of this agent. Returns those for which nobody waits any more, oldest first; waiting ones
    /// notice it themselves.
    pub(crate) fn clear(&self) -> Vec<PendingQuestion> {
        let mut inner = self.all.lock();
        let own = inner.1.extract_if(.., |_, entry| entry.owner == self.owner);
        let mut left: Vec<_> = own.filter(|(_, entry)| entry.answer.is_closed()).collect();
        drop(inner);
        left.sort_by_key(|(_, entry)| entry.order);
        let question = |(request_id, entry): (String, Entry)| {
            Some(PendingQuestion {
                request_id,
                kind: entry.kind,
                event: entry.event?,
            })
        };
        left.into_iter().filter_map(question).collect()
    }

    /// The open questions, oldest first.
    pub(crate) fn list(&self) -> Vec<PendingQuestion> {
        let inner = self.all.lock();
        let mut open: Vec<_> = inner
            .1
            .iter()
            .filter_map(|(id, entry)| Some((entry.order, id, entry, entry.event.clone()?)))
            .collect();
        open.sort_by_key(|(order, ..)| *order);
        open.into_iter()
            .map(|(_, id, entry, event)| PendingQuestion {
                request_id: id.clone(),
                kind: entry.kind,
                event,
            })
            .collect()
    }
}

/// The id of a question about a tool call. It is derived from the session and the call, so a question that is asked
/// again after a restart has the same id, and the answer of a client that reconnects still fits.
pub(crate) fn request_id(session: &str, call: &str, about: &str) -> String {
    Uuid::new_v5(
        &Uuid::NAMESPACE_URL,
        format!("lodge:{about}:{session}:{call}").as_bytes(),
    )
    .to_string()
}

/// The id of `mcp.oauth_required` for which a tool call waits. The event does not name the call, but clients that show
/// calls need it.
pub fn sign_in_id(call: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("lodge:sign_in:{call}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_wins_and_must_be_of_the_right_kind() {
        let pending = Pending::default();
        let mut waiting = pending.open("r", QuestionKind::Permission);
        assert!(pending.take("r", QuestionKind::UserInput).is_none());
        assert!(pending.take("other", QuestionKind::Permission).is_none());
        let open = pending.take("r", QuestionKind::Permission).unwrap();
        assert!(pending.take("r", QuestionKind::Permission).is_none());
        assert!(open.send(Answer::Permission(PermissionDecision::ApproveOnce)));
        assert!(matches!(
            waiting.try_recv(),
            Ok(Answer::Permission(PermissionDecision::ApproveOnce))
        ));
    }

    #[test]
    fn a_question_keeps_its_id_over_restarts() {
        assert_eq!(request_id("s", "c", "permission"), request_id("s", "c", "permission"));
        assert_ne!(request_id("s", "c", "permission"), request_id("s", "c", "tool"));
        assert_ne!(request_id("s", "c", "permission"), request_id("t", "c", "permission"));
    }
}
