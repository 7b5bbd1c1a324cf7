//! Rules for answers to questions.

use std::collections::HashMap;

use ahp_types::{
    actions::{ChatInputAnswerChangedAction, ChatInputCompletedAction},
    state::{
        ChatInputAnswer, ChatInputAnswerValue, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind, ResponsePart,
    },
};
use lodge_host::{Answer, ElicitationAnswer, ExitPlanAnswer, UserInputAnswer};
use serde_json::Value;

use super::{Dispatch, Refusal, plan::Plan, refusal::AnswerRefusal};
use crate::{
    conversation::Effect,
    face::Inner,
    projection::{Question, number_value, one_answer},
};

/// The open question of this id in the running turn.
fn open<'a>(inner: &'a Inner, dispatch: &Dispatch<'_>, id: &str) -> Result<&'a ChatInputRequest, Refusal> {
    let active = dispatch.chat(inner)?.head().active_turn.iter();
    let parts = active.flat_map(|turn| &turn.response_parts);
    let mut found = parts.filter_map(|part| match part {
        ResponsePart::InputRequest(input) if input.response.is_none() && input.request.id == id => Some(&input.request),
        _ => None,
    });
    found.next_back().ok_or(AnswerRefusal::NoQuestion.into())
}

fn parts_of(question: &ChatInputQuestion) -> Option<(&str, bool)> {
    let (id, required) = match question {
        ChatInputQuestion::Text(q) => (&q.id, q.required),
        ChatInputQuestion::Number(q) | ChatInputQuestion::Integer(q) => (&q.id, q.required),
        ChatInputQuestion::Boolean(q) => (&q.id, q.required),
        ChatInputQuestion::SingleSelect(q) => (&q.id, q.required),
        ChatInputQuestion::MultiSelect(q) => (&q.id, q.required),
        ChatInputQuestion::Unknown(_) => return None,
    };
    Some((id, required == Some(true)))
}

/// What an answer says to its question; nothing when it is of another kind. What is written where something else is asked
/// for counts as what it says: not every client has a field for every kind.
fn said(question: &ChatInputQuestion, answer: &ChatInputAnswer) -> Option<AnswerValue> {
    use ChatInputAnswerValue as A;
    let value = match answer {
        ChatInputAnswer::Draft(answered) | ChatInputAnswer::Submitted(answered) => &answered.value,
        ChatInputAnswer::Skipped(_) => return Some(AnswerValue::Nothing),
    };
    let number = || match value {
        A::Number(number) => Some(number.value),
        A::Text(text) => text.value.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    };
    Some(AnswerValue::Something(match question {
        ChatInputQuestion::Text(_) => match value {
            A::Text(text) => text.value.clone().into(),
            _ => return None,
        },
        ChatInputQuestion::Number(_) => number_value(number()?),
        ChatInputQuestion::Integer(_) => number_value(number().filter(|number| number.fract() == 0.0)?),
        ChatInputQuestion::Boolean(_) => match value {
            A::Boolean(boolean) => boolean.value.into(),
            A::Text(text) => text.value.trim().to_lowercase().parse::<bool>().ok()?.into(),
            _ => return None,
        },
        ChatInputQuestion::SingleSelect(question) => {
            let freeform = question.allow_freeform_input == Some(true);
            let known = |id: &&String| freeform || question.options.iter().any(|option| option.id == **id);
            let chosen = match value {
                A::Text(text) => Some(&text.value).filter(|text| known(text)),
                A::Selected(chosen) => {
                    let typed = chosen.freeform_values.as_ref().and_then(|values| values.first());
                    let chosen = Some(&chosen.value).filter(|value| !value.is_empty()).or(typed);
                    chosen.filter(|value| known(value))
                }
                _ => None,
            };
            chosen?.clone().into()
        }
        ChatInputQuestion::MultiSelect(question) => {
            let freeform = question.allow_freeform_input == Some(true);
            let known = |id: &&String| freeform || question.options.iter().any(|option| option.id == **id);
            let chosen: Vec<&String> = match value {
                A::SelectedMany(many) => many.value.iter().chain(many.freeform_values.iter().flatten()).collect(),
                A::Selected(one) => vec![&one.value],
                A::Text(text) => vec![&text.value],
                _ => return None,
            };
            chosen
                .iter()
                .all(known)
                .then(|| chosen.into_iter().cloned().collect())?
        }
        ChatInputQuestion::Unknown(_) => return None,
    }))
}

/// What came of a question.
enum AnswerValue {
    Nothing,
    Something(Value),
}

fn question_of<'a>(request: &'a ChatInputRequest, id: &str) -> Option<&'a ChatInputQuestion> {
    let mut questions = request.questions.iter().flatten();
    questions.find(|question| parts_of(question).is_some_and(|(known, _)| known == id))
}

fn check_answers(request: &ChatInputRequest, answers: &HashMap<String, ChatInputAnswer>) -> Result<(), Refusal> {
    for (id, answer) in answers {
        match question_of(request, id).map(|question| said(question, answer)) {
            None => return Err(AnswerRefusal::Unknown(id.clone()).into()),
            Some(None) => return Err(AnswerRefusal::WrongType(id.clone()).into()),
            Some(Some(_)) => {}
        }
    }
    Ok(())
}

pub(super) fn answer_changed(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatInputAnswerChangedAction,
) -> Result<Plan, Refusal> {
    let request = open(inner, dispatch, &action.request_id)?;
    if let Some(answer) = &action.answer {
        check_answers(request, &HashMap::from([(action.question_id.clone(), answer.clone())]))?;
    }
    Ok(Plan::default())
}

pub(super) fn completed(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatInputCompletedAction,
) -> Result<Plan, Refusal> {
    let request = open(inner, dispatch, &action.request_id)?;
    let mut answers = request.answers.clone().unwrap_or_default();
    answers.extend(action.answers.clone().unwrap_or_default());
    let accepted = action.response == ChatInputResponseKind::Accept;
    if accepted {
        check_answers(request, &answers)?;
        let given = |id: &str| {
            answers
                .get(id)
                .is_some_and(|answer| !matches!(answer, ChatInputAnswer::Skipped(_)))
        };
        let missing = request
            .questions
            .iter()
            .flatten()
            .filter_map(parts_of)
            .find(|(id, must)| *must && !given(id));
        if let Some((id, _)) = missing {
            return Err(AnswerRefusal::Required(id.to_owned()).into());
        }
    }
    let asked = dispatch
        .talk(inner)
        .and_then(|talk| talk.projector().question(&action.request_id));
    let (request_id, question) = asked.ok_or(AnswerRefusal::Over)?;
    let answer = match question {
        Question::UserInput => Answer::UserInput(match (accepted, one_answer(&answers)) {
            (true, Some((answer, was_freeform))) => UserInputAnswer { answer, was_freeform },
            _ => UserInputAnswer::left_open(),
        }),
        Question::Elicitation { .. } => {
            let word = match action.response {
                ChatInputResponseKind::Accept => "accept",
                ChatInputResponseKind::Decline => "decline",
                ChatInputResponseKind::Cancel => "cancel",
            };
            let content = accepted.then(|| {
                let content = answers.iter().filter_map(|(id, answer)| {
                    let AnswerValue::Something(value) = said(question_of(request, id)?, answer)? else {
                        return None;
                    };
                    Some((id.clone(), value))
                });
                Value::Object(content.collect())
            });
            Answer::Elicitation(ElicitationAnswer {
                action: word.to_owned(),
                content,
            })
        }
        Question::ExitPlan => {
            let given = one_answer(&answers).filter(|_| accepted);
            let (selected_action, feedback) = match given {
                Some((text, true)) => (None, Some(text)),
                Some((choice, false)) => (Some(choice), None),
                None => (None, None),
            };
            // What is typed instead of chosen is what shall change about the plan.
            Answer::ExitPlan(ExitPlanAnswer {
                approved: selected_action.is_some(),
                selected_action,
                auto_approve_edits: None,
                feedback,
            })
        }
        Question::Permission { .. } | Question::Tool { .. } | Question::SignIn { .. } => {
            return Err(AnswerRefusal::NotForPeople.into());
        }
    };
    Ok(Plan::effect(Effect::answer(request_id, answer)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_counts_as_what_it_says_where_it_can() {
        let options = json!([{ "id": "red", "label": "Red" }, { "id": "blue", "label": "Blue" }]);
        let text = |text: &str| json!({ "kind": "text", "value": text });
        let many =
            |value: Value, typed: Value| json!({ "kind": "selected-many", "value": value, "freeformValues": typed });
        for (kind, freeform, value, expected) in [
            ("text", false, text("x"), Some(json!("x"))),
            ("text", false, json!({ "kind": "number", "value": 1 }), None),
            (
                "boolean",
                false,
                json!({ "kind": "boolean", "value": true }),
                Some(json!(true)),
            ),
            ("boolean", false, text(" False "), Some(json!(false))),
            ("boolean", false, text("perhaps"), None),
            (
                "number",
                false,
                json!({ "kind": "number", "value": 2.0 }),
                Some(json!(2)),
            ),
            ("number", false, text("4.5"), Some(json!(4.5))),
            ("number", false, text("inf"), None),
            ("integer", false, text("7"), Some(json!(7))),
            ("integer", false, text("7.5"), None),
            (
                "single-select",
                false,
                json!({ "kind": "selected", "value": "red" }),
                Some(json!("red")),
            ),
            ("single-select", false, text("blue"), Some(json!("blue"))),
            ("single-select", false, text("green"), None),
            ("single-select", true, text("green"), Some(json!("green"))),
            (
                "single-select",
                true,
                json!({ "kind": "selected", "value": "", "freeformValues": ["g"] }),
                Some(json!("g")),
            ),
            (
                "multi-select",
                false,
                many(json!(["red"]), json!(["blue"])),
                Some(json!(["red", "blue"])),
            ),
            ("multi-select", false, many(json!(["red"]), json!(["green"])), None),
            (
                "multi-select",
                true,
                many(json!(["red"]), json!(["green"])),
                Some(json!(["red", "green"])),
            ),
            ("multi-select", false, text("blue"), Some(json!(["blue"]))),
        ] {
            let question: ChatInputQuestion = serde_json::from_value(json!({
                "kind": kind, "id": "q", "message": "?", "options": options, "allowFreeformInput": freeform,
            }))
            .unwrap();
            let answer: ChatInputAnswer =
                serde_json::from_value(json!({ "state": "submitted", "value": value })).unwrap();
            let found = match said(&question, &answer) {
                Some(AnswerValue::Something(value)) => Some(value),
                _ => None,
            };
            assert_eq!(found, expected, "{kind}: {value}");
        }
    }
}
