//! Questions to people: the requests sent to a client, and the meaning of its answers.

use lodge_events::{ElicitationRequested, Event, ExitPlanModeRequested, Payload, UserInputRequested};
use lodge_host::{
    Answer, ElicitationAnswer, ExitPlanAnswer, PermissionDecision, answer_of_form, question_form,
    tool_calls::{PermissionChoice, plan_action_label},
};
use lodge_rpc::Error;
use serde_json::{Value, json};

use crate::{
    tools::{PENDING, text},
    wire::{ClientCapabilities, ToolCall},
};

/// The option that refuses a plan.
const DENY: &str = PermissionChoice::Deny.id();

/// A question, in the client's form.
pub(crate) struct Question {
    pub(crate) request_id: String,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) kind: Kind,
}

/// The expected form of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Permission,
    Plan,
    Input,
    Form,
    /// A page to visit.
    Page,
}

/// The meaning of an answer.
pub(crate) enum Meaning {
    Answer(Box<Answer>),
    /// The client cancelled the turn.
    Cancelled,
}

/// A question for this client, other than permissions; `None` if the event is no question or not for this client.
pub(crate) fn question(session: &str, event: &Event, client: &ClientCapabilities) -> Option<Question> {
    match event.payload() {
        Payload::ExitPlanModeRequested(asked) => Some(plan(session, asked)),
        Payload::UserInputRequested(asked) if client.shows_forms() => Some(input(session, asked)),
        Payload::ElicitationRequested(asked) if client.shows_forms() => Some(form(session, asked, client)),
        _ => None,
    }
}

/// The id of the question that this event completes.
pub(crate) fn completed(event: &Event) -> Option<&str> {
    match event.payload() {
        Payload::PermissionCompleted(done) => Some(&done.request_id),
        Payload::ExitPlanModeCompleted(done) => Some(&done.request_id),
        Payload::UserInputCompleted(done) => Some(&done.request_id),
        Payload::ElicitationCompleted(done) => Some(&done.request_id),
        _ => None,
    }
}

impl ClientCapabilities {
    pub(crate) fn shows_forms(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|can| can.form.is_some())
    }

    fn shows_pages(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|can| can.url.is_some())
    }
}

fn option(id: &str, name: &str, kind: &str) -> Value {
    json!({ "optionId": id, "name": name, "kind": kind })
}

/// `lasting` is what an approval for longer than once covers, if that is known.
pub(crate) fn permission(session: &str, request_id: &str, call: &ToolCall, lasting: Option<&str>) -> Question {
    let options = PermissionChoice::offered(lasting).into_iter().map(|(choice, label)| {
        let kind = match choice {
            PermissionChoice::Once => "allow_once",
            PermissionChoice::Session | PermissionChoice::Always => "allow_always",
            PermissionChoice::Deny => "reject_once",
        };
        option(choice.id(), &label, kind)
    });
    let options: Vec<Value> = options.collect();
    Question {
        request_id: request_id.to_owned(),
        method: "session/request_permission",
        params: json!({ "sessionId": session, "toolCall": call, "options": options }),
        kind: Kind::Permission,
    }
}

/// A plan is asked about like a call, with its actions as options.
fn plan(session: &str, asked: &ExitPlanModeRequested) -> Question {
    let call = ToolCall {
        tool_call_id: asked.request_id.clone(),
        title: Some(asked.summary.clone()),
        kind: Some("switch_mode"),
        status: Some(PENDING),
        content: Some(vec![text(&asked.plan_content)]),
        ..ToolCall::default()
    };
    let mut options: Vec<Value> = asked
        .actions
        .iter()
        .map(|action| option(action.as_str(), plan_action_label(action), "allow_once"))
        .collect();
    options.push(option(DENY, "Keep planning", "reject_once"));
    Question {
        request_id: asked.request_id.clone(),
        method: "session/request_permission",
        params: json!({ "sessionId": session, "toolCall": call, "options": options }),
        kind: Kind::Plan,
    }
}

/// A question with a form or a page; `shown` says which.
fn elicitation(session: &str, id: &str, call: Option<&String>, message: &str, shown: Value, kind: Kind) -> Question {
    let mut params = shown;
    params["sessionId"] = session.into();
    params["message"] = message.into();
    if let Some(call) = call {
        params["toolCallId"] = call.as_str().into();
    }
    Question {
        request_id: id.to_owned(),
        method: "elicitation/create",
        params,
        kind,
    }
}

fn fields(schema: Value) -> Value {
    json!({ "mode": "form", "requestedSchema": schema })
}

fn input(session: &str, asked: &UserInputRequested) -> Question {
    let (id, call) = (&asked.request_id, asked.tool_call_id.as_ref());
    elicitation(
        session,
        id,
        call,
        &asked.question,
        fields(question_form(asked)),
        Kind::Input,
    )
}

fn form(session: &str, asked: &ElicitationRequested, client: &ClientCapabilities) -> Question {
    let (id, call) = (&asked.request_id, asked.tool_call_id.as_ref());
    let nothing = || json!({ "type": "object", "properties": {} });
    let (message, shown, kind) = match &asked.url {
        None => {
            let schema = asked.requested_schema.as_ref();
            let schema = schema.map_or_else(nothing, |schema| json!(schema));
            (asked.message.clone(), fields(schema), Kind::Form)
        }
        Some(url) if client.shows_pages() => {
            let page = json!({ "mode": "url", "elicitationId": id, "url": url });
            (asked.message.clone(), page, Kind::Page)
        }
        // The address as text, with nothing to fill in.
        Some(url) => (format!("{}\n\n{url}", asked.message), fields(nothing()), Kind::Form),
    };
    elicitation(session, id, call, &message, shown, kind)
}

/// The meaning of a client's answer. An invalid answer counts as no.
pub(crate) fn meaning(question: &Question, answer: Result<Value, Error>) -> Meaning {
    let kind = question.kind;
    let is_offered = |id: &String| {
        let mut options = question.params["options"].as_array().into_iter().flatten();
        id != DENY && options.any(|option| option["optionId"] == id.as_str())
    };
    match kind {
        Kind::Permission | Kind::Plan => {
            let chosen = answer.and_then(|answer| match answer["outcome"]["outcome"].as_str() {
                Some("cancelled") => Ok(None),
                Some("selected") => Ok(answer["outcome"]["optionId"].as_str().map(str::to_owned)),
                _ => Err(Error::params("its answer has no outcome")),
            });
            match chosen {
                Ok(None) => Meaning::Cancelled,
                Ok(Some(option)) if kind == Kind::Permission => {
                    let chosen = PermissionChoice::parse(&option).unwrap_or(PermissionChoice::Deny);
                    answer_with(Answer::Permission(chosen.decision()))
                }
                Ok(option) => {
                    let action = option.filter(is_offered);
                    answer_with(Answer::ExitPlan(ExitPlanAnswer {
                        approved: action.is_some(),
                        selected_action: action,
                        ..ExitPlanAnswer::default()
                    }))
                }
                Err(error) => answer_with(refusal(kind, &error)),
            }
        }
        Kind::Input | Kind::Form | Kind::Page => {
            let answer = answer.unwrap_or_default();
            let known = answer["action"].as_str();
            let action = known
                .filter(|action| ["accept", "decline"].contains(action))
                .unwrap_or("cancel");
            let content = Some(answer["content"].clone()).filter(|content| action == "accept" && content.is_object());
            answer_with(match kind {
                Kind::Input => Answer::UserInput(answer_of_form(content.as_ref())),
                _ => Answer::Elicitation(ElicitationAnswer {
                    action: action.to_owned(),
                    content,
                }),
            })
        }
    }
}

fn answer_with(answer: Answer) -> Meaning {
    Meaning::Answer(Box::new(answer))
}

/// The answer for a client that could not ask.
fn refusal(kind: Kind, error: &Error) -> Answer {
    let feedback = Some(format!("The editor could not ask: {}", error.message));
    match kind {
        Kind::Plan => Answer::ExitPlan(ExitPlanAnswer {
            feedback,
            ..ExitPlanAnswer::default()
        }),
        _ => Answer::Permission(PermissionDecision::Deny { feedback }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: Kind, options: &[&str]) -> Question {
        let options: Vec<Value> = options.iter().map(|id| option(id, id, "allow_once")).collect();
        Question {
            request_id: "q".to_owned(),
            method: "session/request_permission",
            params: json!({ "options": options }),
            kind,
        }
    }

    #[test]
    fn a_plan_is_approved_by_an_action_that_was_offered_and_by_nothing_else() {
        let plan = asked(Kind::Plan, &["interactive", DENY]);
        for (id, approved) in [
            ("interactive", true),
            ("autopilot", false),
            ("yes", false),
            (DENY, false),
        ] {
            let answer = json!({ "outcome": { "outcome": "selected", "optionId": id } });
            let Meaning::Answer(said) = meaning(&plan, Ok(answer)) else {
                panic!("{id}")
            };
            let Answer::ExitPlan(said) = *said else { panic!("{id}") };
            assert_eq!(said.approved, approved, "{id}");
            assert_eq!(said.selected_action.as_deref(), approved.then_some(id));
        }
    }

    #[test]
    fn an_answer_that_means_nothing_is_no() {
        let selected = |id: &str| Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } }));
        for (answer, expected) in [
            (selected("allow-once"), "ApproveOnce"),
            (selected("allow-session"), "ApproveForSession"),
            (selected("allow-always"), "ApproveForLocation"),
            (selected(DENY), "Deny { feedback: None }"),
            (selected("make-coffee"), "Deny { feedback: None }"),
            (Ok(json!({ "outcome": { "outcome": "cancelled" } })), "cancelled"),
            (Ok(json!({})), "could not ask"),
            (Ok(Value::Null), "could not ask"),
            (Err(Error::params("no such method")), "no such method"),
        ] {
            let told = match meaning(&asked(Kind::Permission, &[]), answer.clone()) {
                Meaning::Answer(answer) => format!("{answer:?}"),
                Meaning::Cancelled => "cancelled".to_owned(),
            };
            assert!(told.contains(expected), "{answer:?}: {told}");
        }
    }

    #[test]
    fn a_question_is_answered_by_choosing_typing_or_not_at_all() {
        for (answer, expected, freeform) in [
            (
                json!({ "action": "accept", "content": { "answer": "red" } }),
                "red",
                false,
            ),
            (
                json!({ "action": "accept", "content": { "answer": "red", "other": "blue" } }),
                "blue",
                true,
            ),
            (json!({ "action": "decline" }), "(The person", true),
            (json!({ "action": "accept", "content": 7 }), "(The person", true),
        ] {
            let Meaning::Answer(said) = meaning(&asked(Kind::Input, &[]), Ok(answer.clone())) else {
                panic!("{answer}")
            };
            let Answer::UserInput(said) = *said else {
                panic!("{answer}")
            };
            assert!(said.answer.starts_with(expected), "{answer}: {said:?}");
            assert_eq!(said.was_freeform, freeform, "{answer}");
        }
    }
}
