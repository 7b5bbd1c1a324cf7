//! Questions to people and their answers, as the log has them. A question is in the log before anybody is asked, an answer
//! before the agent continues: a host that is killed in between does not ask an answered question again.

use std::collections::BTreeMap;

use lodge_events::{AnsweredBy, AskedKind, LodgeAnswered, LodgeQuestion, Payload};
use lodge_log::LogError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    agent_tools::ASK_USER,
    answer::{About, Answer, ElicitationAnswer, QuestionKind},
    facts::OpenCall,
    session::Shared,
};

/// The questions of the running turn, by id. A fold of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Questions(BTreeMap<String, RecordedQuestion>);

/// A question, and its answer once there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedQuestion {
    /// The kind of question.
    pub kind: AskedKind,
    /// The tool call that waits for the answer.
    pub tool_call_id: Option<String>,
    /// Identifies exactly what was asked.
    pub digest: String,
    /// The answer.
    pub answer: Option<Value>,
}

impl Questions {
    /// Folds one event.
    pub(crate) fn fold(&mut self, payload: &Payload) {
        match payload {
            Payload::LodgeQuestion(asked) => {
                let question = RecordedQuestion {
                    kind: asked.kind.clone(),
                    tool_call_id: asked.tool_call_id.clone(),
                    digest: asked.digest.clone(),
                    answer: None,
                };
                self.0.insert(asked.request_id.clone(), question);
            }
            Payload::LodgeAnswered(answered) => {
                if let Some(question) = self.0.get_mut(&answered.request_id) {
                    question.answer = Some(answered.answer.clone());
                }
            }
            Payload::ToolExecutionComplete(done) => {
                self.0
                    .retain(|_, question| question.tool_call_id.as_ref() != Some(&done.tool_call_id));
            }
            Payload::AssistantIdle(_) | Payload::Abort(_) | Payload::SessionError(_) => self.0.clear(),
            _ => {}
        }
    }

    /// One of them.
    pub fn get(&self, request_id: &str) -> Option<&RecordedQuestion> {
        self.0.get(request_id)
    }

    /// Whether a resumed call asks, or continues with an answer, before it runs. A call that began to run is not
    /// started again, unless asking is all it does.
    pub(crate) fn holds_up(&self, call: &OpenCall) -> bool {
        let about = |question: &&RecordedQuestion| question.tool_call_id.as_ref() == Some(&call.id);
        let mut questions = self.0.values().filter(about);
        let only_asks = |kind: &AskedKind| match kind {
            AskedKind::UserInput | AskedKind::ExitPlanMode => true,
            AskedKind::Elicitation => call.name == ASK_USER,
            _ => false,
        };
        questions.any(|question| !call.started || only_asks(&question.kind))
    }

    /// The questions with answers that the agent has not used yet.
    pub(crate) fn answered(&self) -> Self {
        let answered = self.0.iter().filter(|(_, question)| question.answer.is_some());
        Self(answered.map(|(id, question)| (id.clone(), question.clone())).collect())
    }

    fn take(&mut self, request_id: &str) -> Option<RecordedQuestion> {
        self.0.remove(request_id)
    }
}

/// A question to ask.
pub(crate) struct Question {
    pub(crate) request_id: String,
    pub(crate) kind: QuestionKind,
    pub(crate) about: About,
    /// The question in short.
    pub(crate) message: String,
    /// What people are shown, where its tool call does not say it.
    pub(crate) shown: Option<Value>,
}

impl Question {
    pub(crate) fn new(
        request_id: &str,
        kind: QuestionKind,
        tool_call_id: Option<&str>,
        asked: &impl Serialize,
        message: impl Into<String>,
    ) -> Self {
        let asked = serde_json::to_vec(asked).unwrap_or_default();
        Self {
            request_id: request_id.to_owned(),
            kind,
            about: About {
                tool_call_id: tool_call_id.map(str::to_owned),
                digest: Uuid::new_v5(&Uuid::NAMESPACE_OID, &asked).to_string(),
                is_private: false,
            },
            message: message.into(),
            shown: None,
        }
    }

    /// With what people are shown.
    pub(crate) fn showing(mut self, shown: &impl Serialize) -> Self {
        self.shown = serde_json::to_value(shown).ok();
        self
    }

    /// The answer is only for the server that asks.
    pub(crate) fn private(mut self) -> Self {
        self.about.is_private = true;
        self
    }
}

impl QuestionKind {
    /// The question's kind in the log. Answers of other kinds are not recorded: some are secrets, and some belong to a
    /// client that is gone when the host is.
    fn recorded(self) -> Option<AskedKind> {
        match self {
            Self::Permission => Some(AskedKind::Permission),
            Self::UserInput => Some(AskedKind::UserInput),
            Self::Elicitation => Some(AskedKind::Elicitation),
            Self::ExitPlan => Some(AskedKind::ExitPlanMode),
            Self::Tool | Self::McpToken | Self::Command | Self::AutoMode | Self::Limits | Self::Sampling => None,
        }
    }
}

fn encode(answer: &Answer, is_private: bool) -> Option<Value> {
    match answer {
        Answer::Permission(decision) => serde_json::to_value(decision).ok(),
        Answer::UserInput(answer) => serde_json::to_value(answer).ok(),
        Answer::ExitPlan(answer) => serde_json::to_value(answer).ok(),
        Answer::Elicitation(answer) if is_private => serde_json::to_value(ElicitationAnswer {
            action: answer.action.clone(),
            content: None,
        })
        .ok(),
        Answer::Elicitation(answer) => serde_json::to_value(answer).ok(),
        _ => None,
    }
}

fn decode(kind: QuestionKind, answer: Value) -> Option<Answer> {
    match kind {
        QuestionKind::Permission => serde_json::from_value(answer).ok().map(Answer::Permission),
        QuestionKind::UserInput => serde_json::from_value(answer).ok().map(Answer::UserInput),
        QuestionKind::ExitPlan => serde_json::from_value(answer).ok().map(Answer::ExitPlan),
        QuestionKind::Elicitation => serde_json::from_value(answer).ok().map(Answer::Elicitation),
        _ => None,
    }
}

impl Shared {
    /// Opens a question. It is in the log when this returns. The caller notifies clients.
    pub(crate) fn open_question(&self, question: Question) -> Result<oneshot::Receiver<Answer>, LogError> {
        let Question {
            request_id,
            kind,
            about,
            message,
            shown,
        } = question;
        let recorded = kind.recorded().map(|kind| LodgeQuestion {
            request_id: request_id.clone(),
            kind,
            tool_call_id: about.tool_call_id.clone(),
            digest: about.digest.clone(),
            message,
            shown,
        });
        let waiting = self.pending.open_about(&request_id, kind, about);
        if let Some(recorded) = recorded
            && let Err(error) = self.recorder.record(recorded)
        {
            self.pending.close(&request_id);
            return Err(error);
        }
        Ok(waiting)
    }

    /// The answer to exactly this question from before the host stopped. It is used once.
    pub(crate) fn earlier_answer(&self, question: &Question) -> Option<Answer> {
        let earlier = self.earlier_answers.lock().take(&question.request_id)?;
        let fits = earlier.digest == question.about.digest && Some(earlier.kind) == question.kind.recorded();
        decode(question.kind, earlier.answer.filter(|_| fits)?)
    }

    /// Makes earlier answers available to a resumed turn.
    pub(crate) fn read_earlier_answers(&self) {
        *self.earlier_answers.lock() = self.recorder.facts(|facts| facts.questions.answered());
    }

    /// Answers with the response of a client that was called directly.
    pub(crate) fn answer_of_client(&self, request_id: &str, answer: Answer) {
        if let Err(error) = self.answer(request_id, answer, AnsweredBy::default()) {
            tracing::warn!(session = %self.id, %error, "an answer could not be recorded; the question stays open");
        }
    }

    /// Answers an open question. The answer is in the log before the agent continues. False if the question is not
    /// open, or of another kind.
    pub(crate) fn answer(&self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<bool, LogError> {
        let Some(open) = self.pending.take(request_id, answer.kind()) else {
            return Ok(false);
        };
        let recorded = open.about().zip(answer.kind().recorded()).and_then(|(about, kind)| {
            Some(LodgeAnswered {
                request_id: request_id.to_owned(),
                kind,
                tool_call_id: about.tool_call_id.clone(),
                digest: about.digest.clone(),
                by,
                answer: encode(&answer, about.is_private)?,
            })
        });
        if let Some(recorded) = recorded
            && let Err(error) = self.root().recorder.record(recorded)
        {
            self.pending.put_back(request_id, open);
            return Err(error);
        }
        Ok(open.send(answer))
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::ToolExecutionComplete;
    use serde_json::json;

    use super::*;
    use crate::answer::{ExitPlanAnswer, PermissionDecision, UserInputAnswer};

    #[test]
    fn an_answer_is_read_back_from_the_log_as_it_was_given() {
        let permissions = [
            PermissionDecision::ApproveOnce,
            PermissionDecision::ApproveEdited {
                arguments: json!({"command": "ls"}),
                for_session: true,
            },
            PermissionDecision::ApproveForSession,
            PermissionDecision::ApproveForLocation,
            PermissionDecision::ApprovePermanently,
            PermissionDecision::Reject { feedback: None },
            PermissionDecision::Deny {
                feedback: Some("not now".into()),
            },
            PermissionDecision::UserNotAvailable,
            PermissionDecision::DenyByRules,
            PermissionDecision::DenyByContentExclusion,
        ];
        let others = [
            Answer::UserInput(UserInputAnswer {
                answer: "blue".into(),
                was_freeform: true,
            }),
            Answer::ExitPlan(ExitPlanAnswer {
                approved: true,
                selected_action: Some("autopilot".into()),
                ..ExitPlanAnswer::default()
            }),
            Answer::Elicitation(ElicitationAnswer {
                action: "accept".into(),
                content: Some(json!({"name": "x"})),
            }),
        ];
        for answer in permissions.map(Answer::Permission).into_iter().chain(others) {
            let encoded = encode(&answer, false).unwrap();
            let decoded = decode(answer.kind(), encoded.clone()).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{answer:?}"), "{encoded}");
        }
    }

    #[test]
    fn what_a_form_of_a_server_holds_is_not_written_down() {
        let answer = Answer::Elicitation(ElicitationAnswer {
            action: "accept".into(),
            content: Some(json!({"password": "hunter2"})),
        });
        assert!(!encode(&answer, true).unwrap().to_string().contains("hunter2"));
    }

    #[test]
    fn answers_are_kept_until_the_call_that_waited_for_them_has_its_result() {
        let mut questions = Questions::default();
        for call in ["a", "b"] {
            questions.fold(
                &LodgeQuestion {
                    request_id: format!("q-{call}"),
                    tool_call_id: Some(call.into()),
                    ..LodgeQuestion::default()
                }
                .into(),
            );
        }
        let answered = LodgeAnswered {
            request_id: "q-a".into(),
            answer: json!({"decision": "approve-once"}),
            ..LodgeAnswered::default()
        };
        questions.fold(&answered.into());
        assert!(questions.answered().get("q-a").is_some() && questions.answered().get("q-b").is_none());
        assert!(questions.get("q-b").is_some());
        let done = ToolExecutionComplete {
            tool_call_id: "a".into(),
            ..ToolExecutionComplete::default()
        };
        questions.fold(&done.into());
        assert!(questions.get("q-a").is_none() && questions.get("q-b").is_some());
        questions.fold(&lodge_events::AssistantIdle::default().into());
        assert_eq!(questions, Questions::default());
    }
}
