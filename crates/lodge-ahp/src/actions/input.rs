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

use super::{Dispatch, Plan, Refusal};
use crate::{
    face::Inner,
    projection::{Question, answers_of, one_answer},
    talk::Effect,
};

/// The open question of this id in the running turn.
fn open<'a>(inner: &'a Inner, dispatch: &Dispatch<'_>, id: &str) -> Result<&'a ChatInputRequest, Refusal> {
    let chat = inner
        .core
        .chats
        .get(&dispatch.channel)
        .ok_or_else(|| "there is no such chat".to_owned())?;
    let parts = chat
        .store
        .head()
        .active_turn
        .iter()
        .flat_map(|turn| &turn.response_parts);
    let mut found = parts.filter_map(|part| match part {
        ResponsePart::InputRequest(input) if input.response.is_none() && input.request.id == id => Some(&input.request),
        _ => None,
    });
    found
        .next_back()
        .ok_or_else(|| "there is no such open question".to_owned())
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

/// Whether an answer is of the kind that its question asks for.
fn fits(question: &ChatInputQuestion, answer: &ChatInputAnswer) -> bool {
    let value = match answer {
        ChatInputAnswer::Draft(answered) | ChatInputAnswer::Submitted(answered) => &answered.value,
        ChatInputAnswer::Skipped(_) => return true,
    };
    match (question, value) {
        (ChatInputQuestion::Text(_), ChatInputAnswerValue::Text(_))
        | (ChatInputQuestion::Number(_), ChatInputAnswerValue::Number(_))
        | (ChatInputQuestion::Boolean(_), ChatInputAnswerValue::Boolean(_)) => true,
        (ChatInputQuestion::Integer(_), ChatInputAnswerValue::Number(number)) => number.value.fract() == 0.0,
        (ChatInputQuestion::SingleSelect(question), ChatInputAnswerValue::Selected(chosen)) => {
            let known = question.options.iter().any(|option| option.id == chosen.value);
            let typed = chosen.freeform_values.as_ref().is_some_and(|values| !values.is_empty());
            known || (question.allow_freeform_input == Some(true) && (typed || !chosen.value.is_empty()))
        }
        (ChatInputQuestion::SingleSelect(question), ChatInputAnswerValue::Text(_)) => {
            question.allow_freeform_input == Some(true)
        }
        (ChatInputQuestion::MultiSelect(question), ChatInputAnswerValue::SelectedMany(chosen)) => {
            let known = |id: &String| question.options.iter().any(|option| option.id == *id);
            question.allow_freeform_input == Some(true) || chosen.value.iter().all(known)
        }
        _ => false,
    }
}

fn check_answers(request: &ChatInputRequest, answers: &HashMap<String, ChatInputAnswer>) -> Result<(), Refusal> {
    for (id, answer) in answers {
        let question = request
            .questions
            .iter()
            .flatten()
            .find(|question| parts_of(question).is_some_and(|(q, _)| q == id));
        match question {
            None => return Err(format!("there is no question {id:?}")),
            Some(question) if !fits(question, answer) => return Err(format!("{id:?} is not answered in kind")),
            Some(_) => {}
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
            return Err(format!("{id:?} must be answered"));
        }
    }
    let talk = inner.talk_of(&dispatch.channel).map(|(_, talk)| talk);
    let asked = talk.and_then(|talk| talk.projector.question(&action.request_id));
    let (request_id, question) = asked.ok_or_else(|| "the agent no longer waits for this".to_owned())?;
    let answer = match question {
        Question::UserInput => {
            let (answer, was_freeform) = match (accepted, one_answer(&answers)) {
                (true, Some(given)) => given,
                _ => ("The user did not answer.".to_owned(), true),
            };
            Answer::UserInput(UserInputAnswer { answer, was_freeform })
        }
        Question::Elicitation => {
            let word = match action.response {
                ChatInputResponseKind::Accept => "accept",
                ChatInputResponseKind::Decline => "decline",
                ChatInputResponseKind::Cancel => "cancel",
            };
            let content = accepted.then(|| Value::Object(answers_of(&answers)));
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
        Question::Permission { .. } | Question::Tool { .. } => {
            return Err("this is not a question to a person".to_owned());
        }
    };
    Ok(Plan::effect(Effect::answer(request_id, answer)))
}
