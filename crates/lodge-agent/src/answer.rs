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
    /// To `command.execute`: what went wrong, if anything did.
    Command(Option<String>),
    /// To `auto_mode_switch.requested`.
    AutoMode(AutoModeSwitchResponse),
    /// To `session_limits_exhausted.requested`.
    Limits(LimitsAnswer),
    /// To `sampling.requested`: the message that the MCP server gets, or a refusal.
    Sampling(Option<Value>),
}

/// A token for an MCP server. Nothing prints it: it must not get into a log or an event.
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

/// What a question is about; an answer must be of the same kind.
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

/// How a permission request was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum PermissionDecision {
    /// This once.
    ApproveOnce,
    /// With other arguments than the model wrote.
    ApproveEdited {
        /// What the tool gets instead.
        arguments: Value,
        /// And whatever is like what it became, in this session.
        for_session: bool,
    },
    /// And whatever is like it in this session.
    ApproveForSession,
    /// And whatever is like it in this project.
    ApproveForLocation,
    /// And whatever is like it, always.
    ApprovePermanently,
    /// No; the turn ends, unless there is feedback for the model.
    Reject {
        /// What the person says about it.
        feedback: Option<String>,
    },
    /// Denied, and the model is told so and goes on.
    Deny {
        /// What the person says about it.
        feedback: Option<String>,
    },
    /// There is nobody to ask.
    UserNotAvailable,
    /// Denied by a rule of the client.
    DenyByRules,
    /// Denied because the content is excluded.
    DenyByContentExclusion,
}

/// What came of a tool that a client ran.
#[derive(Debug, Clone)]
pub enum ToolAnswer {
    /// It ran.
    Result(Box<ExternalResult>),
    /// It threw. The model is not told why.
    Error(String),
}

/// The result of a tool that a client ran.
#[derive(Debug, Clone, Default)]
pub struct ExternalResult {
    /// For the model.
    pub text: String,
    /// `success`, `failure`, `rejected`, `denied` or `timeout`.
    pub result_type: String,
    /// What went wrong, for people.
    pub error: Option<String>,
    /// For people, where it differs.
    pub session_log: Option<String>,
    /// Passed through to `tool.execution_complete`.
    pub telemetry: Option<Value>,
    /// Images and the like: mime type and base64.
    pub binaries: Vec<(String, String)>,
    /// Structured blocks.
    pub contents: Vec<ContentBlock>,
    /// What it found that the model may cite, as [`lodge_models::CitableSource`].
    pub citable: Vec<Value>,
}

/// What the person answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInputAnswer {
    /// The text.
    pub answer: String,
    /// Whether it was typed rather than chosen.
    pub was_freeform: bool,
}

impl UserInputAnswer {
    /// What the agent reads if the person does not answer.
    pub fn left_open() -> Self {
        Self {
            answer: "(The person left the question open. Go on without the answer, or stop.)".to_owned(),
            was_freeform: true,
        }
    }
}

/// How a form was answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ElicitationAnswer {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The form's values.
    pub content: Option<Value>,
}

/// How a request to leave plan mode was answered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitPlanAnswer {
    /// Whether the plan is approved.
    pub approved: bool,
    /// Which of the offered actions was chosen.
    pub selected_action: Option<String>,
    /// Whether edits need no question from now on.
    pub auto_approve_edits: Option<bool>,
    /// What the person says about it.
    pub feedback: Option<String>,
}

/// An open question, as shown to whoever asks what is pending.
#[derive(Debug, Clone)]
pub struct PendingQuestion {
    /// What to answer with.
    pub request_id: String,
    /// Its kind.
    pub kind: QuestionKind,
    /// The event that asked.
    pub event: Event,
}

/// What the log says of a question.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) tool_call_id: Option<String>,
    /// Stands for what exactly is asked.
    pub(crate) digest: String,
    /// Whether the answer's content must not be written down.
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

    /// False when nobody waits for it any more.
    pub(crate) fn send(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }
}

/// The open questions of a session, as one of its agents holds them: anybody's can be answered, but only an agent itself
/// takes its own back.
#[derive(Default)]
pub(crate) struct Pending {
    all: Arc<Mutex<(u64, BTreeMap<String, Entry>)>>,
    opened: Arc<tokio::sync::Notify>,
    owner: Option<Arc<str>>,
}

impl Pending {
    /// The same questions, as somebody holds them who asks an attached client alone: they close when it leaves.
    pub(crate) fn for_client(&self, client: crate::client::ClientId) -> Self {
        self.for_agent(format!("client {client}").into())
    }

    /// The same questions, as a sub-agent holds them.
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

    /// Opens a question that the log knows.
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

    /// Remembers the event that asked, for [`Pending::list`].
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

    /// Takes a question to answer it. None when it is not (or no longer) open, or of another kind.
    pub(crate) fn take(&self, request_id: &str, kind: QuestionKind) -> Option<Entry> {
        let mut inner = self.all.lock();
        inner.1.get(request_id).filter(|entry| entry.kind == kind)?;
        inner.1.remove(request_id)
    }

    /// It could not be answered.
    pub(crate) fn put_back(&self, request_id: &str, entry: Entry) {
        self.all.lock().1.insert(request_id.to_owned(), entry);
    }

    /// Closes one, when nobody waits for it any more.
    pub(crate) fn close(&self, request_id: &str) {
        self.all.lock().1.remove(request_id);
    }

    /// Closes all that this agent asked. Gives back those that nobody waits for any more, oldest first: whoever waits learns
    /// of it by itself.
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

    /// The open ones, oldest first.
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

/// The id of a question about a tool call. It follows from the session and the call, so that a question asked again
/// after a restart of the host has the same id, and the answer of a client that comes back still fits.
pub(crate) fn request_id(session: &str, call: &str, about: &str) -> String {
    Uuid::new_v5(
        &Uuid::NAMESPACE_URL,
        format!("lodge:{about}:{session}:{call}").as_bytes(),
    )
    .to_string()
}

/// The id of `mcp.oauth_required` that a tool call waits on: the event does not name the call, and whoever shows calls
/// wants to know.
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
