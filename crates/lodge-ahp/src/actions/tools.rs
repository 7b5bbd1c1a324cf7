//! Rules for tool calls: who may say yes, who may say what came of it.

use ahp_types::{
    StateAction,
    actions::{
        ChatToolCallCompleteAction, ChatToolCallConfirmedAction, ChatToolCallContentChangedAction,
        ChatToolCallResultConfirmedAction,
    },
    state::{
        ConfirmationOptionKind, ResponsePart, ToolCallCancellationReason, ToolCallConfirmationReason,
        ToolCallContributor, ToolCallResult, ToolCallState, ToolResultContent,
    },
};
use lodge_host::{Answer, ExternalResult, PermissionDecision, ToolAnswer, tool_calls::PermissionChoice};
use serde_json::json;

use super::{
    Dispatch, Refusal,
    plan::Plan,
    refusal::{AnswerRefusal, CallRefusal},
};
use crate::{conversation::Effect, face::Inner, projection::Question, state::chat::tool_call_id};

fn call<'a>(inner: &'a Inner, dispatch: &Dispatch<'_>, turn: &str, call: &str) -> Result<&'a ToolCallState, Refusal> {
    let call = dispatch.chat(inner)?.tool_call(turn, call);
    call.ok_or(CallRefusal::NoCall.into())
}

/// The request that the agent waits on about a tool call.
fn request<'a>(inner: &'a Inner, dispatch: &Dispatch<'_>, about: &str) -> Result<(&'a str, &'a Question), Refusal> {
    let asked = dispatch.talk(inner).and_then(|talk| talk.projector().question(about));
    asked.ok_or(AnswerRefusal::Over.into())
}

pub(super) fn confirmed(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &mut ChatToolCallConfirmedAction,
) -> Result<Plan, Refusal> {
    // Clients of the seed's dialect may name the request instead of the call.
    if let Ok((_, question)) = request(inner, dispatch, &action.tool_call_id)
        && let Some(id) = question.tool_call_id()
    {
        action.tool_call_id = id.to_owned();
    }
    let ToolCallState::PendingConfirmation(pending) = call(inner, dispatch, &action.turn_id, &action.tool_call_id)?
    else {
        return Err(CallRefusal::NotAsked.into());
    };
    if let Some(chosen) = &action.selected_option_id {
        let option = pending.options.iter().flatten().find(|option| option.id == *chosen);
        let option = option.ok_or(CallRefusal::NoOption)?;
        if action.approved != (option.kind == ConfirmationOptionKind::Approve) {
            return Err(CallRefusal::Contradiction.into());
        }
    }
    // Said in full, as the log will tell it.
    if action.approved && action.confirmed.is_none() {
        action.confirmed = Some(ToolCallConfirmationReason::UserAction);
    }
    if !action.approved && action.reason.is_none() {
        action.reason = Some(ToolCallCancellationReason::Denied);
    }
    if action.selected_option_id.is_none() {
        let usual = if action.approved {
            PermissionChoice::Once
        } else {
            PermissionChoice::Deny
        };
        let offered = pending.options.iter().flatten().any(|option| option.id == usual.id());
        action.selected_option_id = offered.then(|| usual.id().to_owned());
    }
    let (request_id, _) = request(inner, dispatch, &action.tool_call_id)?;
    let edited = match &action.edited_tool_input {
        Some(input) if action.approved => {
            let talk = dispatch.talk(inner).ok_or(Refusal::NoChat)?;
            Some(talk.projector().edited(&action.tool_call_id, input)?)
        }
        _ => None,
    };
    let chosen = action.selected_option_id.as_deref().and_then(PermissionChoice::parse);
    if chosen == Some(PermissionChoice::Always) && edited.is_some() {
        return Err(CallRefusal::EditedOnce.into());
    }
    let decision = if !action.approved {
        let suggested = action.user_suggestion.as_ref().map(|message| message.text.clone());
        let feedback = suggested.or_else(|| action.reason_message.as_ref().map(|reason| reason.as_text().to_owned()));
        PermissionDecision::Deny { feedback }
    } else if let Some(arguments) = edited {
        let for_session = chosen == Some(PermissionChoice::Session);
        PermissionDecision::ApproveEdited { arguments, for_session }
    } else {
        chosen.unwrap_or(PermissionChoice::Once).decision()
    };
    let answer = Answer::Permission(decision);
    Ok(Plan::effect(Effect::answer(request_id, answer)))
}

/// The client that runs a call.
fn owner(call: &ToolCallState) -> Option<&str> {
    let contributor = match call {
        ToolCallState::Running(state) => &state.contributor,
        ToolCallState::PendingResultConfirmation(state) => &state.contributor,
        _ => return None,
    };
    match contributor {
        Some(ToolCallContributor::Client(client)) => Some(&client.client_id),
        _ => None,
    }
}

fn must_own(dispatch: &Dispatch<'_>, call: &ToolCallState) -> Result<(), Refusal> {
    match owner(call) {
        Some(client) if client == &*dispatch.peer.client => Ok(()),
        Some(_) => Err(CallRefusal::OtherClient.into()),
        None => Err(CallRefusal::NotOfClient.into()),
    }
}

pub(super) fn complete(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatToolCallCompleteAction,
) -> Result<Plan, Refusal> {
    let call = call(inner, dispatch, &action.turn_id, &action.tool_call_id)?;
    if matches!(call, ToolCallState::AuthRequired(_)) {
        if action.result.success {
            return Err(CallRefusal::WaitsForSignIn.into());
        }
        // Anybody may give it up.
        let (request_id, _) = request(inner, dispatch, &action.tool_call_id)?;
        return Ok(Plan::effect(Effect::answer(request_id, Answer::McpToken(None))));
    }
    must_own(dispatch, call)?;
    if !matches!(call, ToolCallState::Running(_)) {
        return Err(CallRefusal::NotRunning.into());
    }
    if action.requires_result_confirmation == Some(true) {
        return Ok(Plan::default());
    }
    let (request_id, _) = request(inner, dispatch, &action.tool_call_id)?;
    let answer = Answer::Tool(ToolAnswer::Result(Box::new(external(&action.result))));
    Ok(Plan::effect(Effect::answer(request_id, answer)))
}

pub(super) fn result_confirmed(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatToolCallResultConfirmedAction,
) -> Result<Plan, Refusal> {
    let call = call(inner, dispatch, &action.turn_id, &action.tool_call_id)?;
    let ToolCallState::PendingResultConfirmation(pending) = call else {
        return Err(CallRefusal::ResultNotAsked.into());
    };
    let result = if action.approved {
        external(&ToolCallResult {
            success: pending.success,
            past_tense_message: pending.past_tense_message.clone(),
            content: pending.content.clone(),
            structured_content: pending.structured_content.clone(),
            error: pending.error.clone(),
        })
    } else {
        let text = "The user rejected the result.".to_owned();
        ExternalResult {
            text,
            result_type: "denied".to_owned(),
            ..ExternalResult::default()
        }
    };
    let (request_id, _) = request(inner, dispatch, &action.tool_call_id)?;
    let answer = Answer::Tool(ToolAnswer::Result(Box::new(result)));
    Ok(Plan::effect(Effect::answer(request_id, answer)))
}

pub(super) fn content_changed(
    inner: &Inner,
    dispatch: &Dispatch<'_>,
    action: &ChatToolCallContentChangedAction,
) -> Result<Plan, Refusal> {
    let call = call(inner, dispatch, &action.turn_id, &action.tool_call_id)?;
    must_own(dispatch, call)?;
    if !matches!(call, ToolCallState::Running(_)) {
        return Err(CallRefusal::NotRunning.into());
    }
    Ok(Plan::default())
}

/// A client's result as the agent takes it.
fn external(result: &ToolCallResult) -> ExternalResult {
    let mut text = Vec::new();
    let mut binaries = Vec::new();
    for part in result.content.iter().flatten() {
        match part {
            ToolResultContent::Text(part) => text.push(part.text.clone()),
            ToolResultContent::EmbeddedResource(part) => binaries.push((part.content_type.clone(), part.data.clone())),
            ToolResultContent::Resource(part) => text.push(part.uri.clone()),
            _ => {}
        }
    }
    let error = result
        .error
        .as_ref()
        .map(|error| match error.get("message").and_then(serde_json::Value::as_str) {
            Some(message) => message.to_owned(),
            None => error.to_string(),
        });
    if text.is_empty() {
        let structured = result
            .structured_content
            .as_ref()
            .map(|structured| json!(structured).to_string());
        text.extend(structured.or_else(|| error.clone()));
    }
    ExternalResult {
        text: text.join("\n"),
        result_type: if result.success { "success" } else { "failure" }.to_owned(),
        error,
        binaries,
        ..ExternalResult::default()
    }
}

/// Fails the calls that a client was running in a chat, because it is gone.
pub(crate) fn fail_calls_of(inner: &mut Inner, chat: &str, client: &str) {
    let Some(active) = inner.core.head(chat).and_then(|head| head.active_turn.as_ref()) else {
        return;
    };
    let calls: Vec<String> = active
        .response_parts
        .iter()
        .filter_map(|part| match part {
            // A result that waits for a confirmation does not need its client any more.
            ResponsePart::ToolCall(part)
                if matches!(part.tool_call, ToolCallState::Running(_)) && owner(&part.tool_call) == Some(client) =>
            {
                Some(tool_call_id(&part.tool_call).to_owned())
            }
            _ => None,
        })
        .collect();
    for call in calls {
        fail_call(inner, chat, &call);
    }
}

/// Fails a call that a client was to run, because it is gone.
pub(crate) fn fail_call(inner: &mut Inner, chat: &str, call: &str) {
    let head = inner.core.head(chat);
    let Some(active) = head.and_then(|head| head.active_turn.as_ref()) else {
        return;
    };
    let turn_id = active.id.clone();
    let message = "The client that runs this tool is gone.";
    let result = ToolCallResult {
        success: false,
        past_tense_message: message.into(),
        content: None,
        structured_content: None,
        error: Some(json!({ "message": message })),
    };
    if let Some((_, talk)) = inner.conversation(chat)
        && let Some((request_id, _)) = talk.projector().question(call)
    {
        let answer = Answer::Tool(ToolAnswer::Result(Box::new(external(&result))));
        talk.tell(Effect::answer(request_id, answer));
    }
    let action = ChatToolCallCompleteAction {
        turn_id,
        tool_call_id: call.to_owned(),
        meta: None,
        result,
        requires_result_confirmation: None,
    };
    inner
        .core
        .publish(chat, &StateAction::ChatToolCallComplete(action), None);
}
