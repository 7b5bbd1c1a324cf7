//! States for clients of 0.1.0.

use ahp_types::state::{
    ChatState, McpServerState, ResponsePart, RootState, SessionState, SessionStatus, ToolCallState,
};
use lodge_events::Timestamp;
use serde_json::{Map, Value, json};

use super::{model_of, outgoing, rename};
use crate::{
    customizations::things,
    session_config::EFFORT,
    state::{Core, session::ACTIVITY_BITS},
};

/// The root state.
pub(crate) fn root(state: &RootState) -> Value {
    let mut value = serde_json::to_value(state).unwrap_or_default();
    if let Some(agents) = value.get("agents").and_then(Value::as_array) {
        value["agents"] = agents.iter().map(outgoing::agent).collect();
    }
    if let Some(Value::Array(terminals)) = value.get_mut("terminals") {
        for info in terminals {
            *info = terminal(info.take());
        }
    }
    if let Some(map) = value.as_object_mut() {
        map.remove("_meta");
    }
    value
}

/// A terminal's state: there the exit code stands by itself.
pub(crate) fn terminal(mut modern: Value) -> Value {
    if let Some(map) = modern.as_object_mut() {
        let exit_code = map
            .remove("lifecycle")
            .and_then(|lifecycle| lifecycle.get("exitCode").cloned());
        if let Some(exit_code) = exit_code {
            map.insert("exitCode".into(), exit_code);
        }
        if let Some(claim) = map.get_mut("claim") {
            outgoing::terminal_claim(claim);
        }
    }
    modern
}

/// What a chat does. Waiting for a login is nothing that it knows: to its eyes the call runs.
fn activity(head: &ChatState) -> u32 {
    let parts = head.active_turn.as_ref().map(|turn| turn.response_parts.as_slice());
    let call = |part: &ResponsePart| match part {
        ResponsePart::ToolCall(part) => Some(part.tool_call.clone()),
        _ => None,
    };
    let waits = |part: &ResponsePart| match part {
        ResponsePart::InputRequest(input) => input.response.is_none(),
        part => matches!(
            call(part),
            Some(ToolCallState::PendingConfirmation(_) | ToolCallState::PendingResultConfirmation(_))
        ),
    };
    let for_login = |part: &ResponsePart| matches!(call(part), Some(ToolCallState::AuthRequired(_)));
    match parts {
        Some(parts) if parts.iter().any(for_login) && !parts.iter().any(waits) => SessionStatus::InProgress.bits(),
        _ => head.status & ACTIVITY_BITS,
    }
}

/// A session and its default chat as one; turns from `start` on.
pub(crate) fn session(core: &Core, uri: &str, start: usize) -> Option<Value> {
    let entry = core.sessions.get(uri)?;
    let store = core.chats.get(&entry.default_chat)?.store();
    let head = store.head();
    let state = &entry.state;
    let Value::Object(line) = serde_json::to_value(core.summary(uri)?).ok()? else {
        return None;
    };
    let mut summary = summary(&line, model_of(entry));
    summary["status"] = ((state.status & !ACTIVITY_BITS) | activity(head)).into();
    summary["modifiedAt"] = millis(&head.modified_at).into();
    if entry.changes.is_some() {
        summary["diffs"] = json!(entry.diffs);
    }
    let mut out = json!({
        "summary": summary,
        "lifecycle": match &state.lifecycle {
            ahp_types::state::SessionLifecycle::Failed => json!("creationFailed"),
            other => json!(other),
        },
    });
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            out[key] = value;
        }
    };
    put("creationError", state.creation_error.as_ref().map(|error| json!(error)));
    put("serverTools", state.server_tools.as_ref().map(|tools| json!(tools)));
    put(
        "activeClient",
        state
            .active_clients
            .first()
            .map(|client| outgoing::active_client(&json!(client))),
    );
    put(
        "turns",
        Some(
            store
                .json_of(start..store.turns().len())
                .iter()
                .filter_map(|stored| turn(stored.get()))
                .collect(),
        ),
    );
    put(
        "activeTurn",
        head.active_turn.as_ref().and_then(|active| {
            let mut active = serde_json::to_value(active).ok()?;
            respell_turn(active.as_object_mut()?);
            Some(active)
        }),
    );
    let pending = |message: &ahp_types::state::PendingMessage| json!({ "id": message.id, "userMessage": outgoing::message(&json!(message.message)) });
    put("steeringMessage", head.steering_message.as_ref().map(pending));
    put(
        "queuedMessages",
        head.queued_messages
            .as_ref()
            .map(|queue| queue.iter().map(pending).collect()),
    );
    let open: Vec<Value> = head
        .active_turn
        .iter()
        .flat_map(|turn| &turn.response_parts)
        .filter_map(|part| match part {
            ResponsePart::InputRequest(input) if input.response.is_none() => Some(json!(input.request)),
            _ => None,
        })
        .collect();
    put("inputRequests", (!open.is_empty()).then_some(Value::Array(open)));
    put(
        "config",
        entry.view(false).get("config").map(|config| {
            let mut config = config.clone();
            if let Some(values) = config["values"].as_object_mut() {
                values.remove("model");
                values.remove(EFFORT);
            }
            config
        }),
    );
    put(
        "customizations",
        state.customizations.as_ref().map(|_| customizations(state)),
    );
    put("_meta", state.meta.as_ref().map(|meta| json!(meta)));
    Some(out)
}

/// What a session has beside its tools: there it is one list, and what contains others is no more than they are.
pub(crate) fn customizations(state: &SessionState) -> Value {
    let all = things(state.customizations.as_deref().unwrap_or_default()).into_iter();
    let shown = all.filter_map(|thing| {
        let mut out = json!({
            "customization": { "uri": thing.seed_uri, "displayName": thing.name },
            "enabled": thing.on?,
        });
        if let Some(description) = thing.description {
            out["customization"]["description"] = description.into();
        }
        if let Some(client) = thing.client {
            out["clientId"] = client.into();
        }
        let (status, message) = match thing.server {
            None | Some(McpServerState::Ready(_) | McpServerState::Stopped(_)) => ("loaded", None),
            Some(McpServerState::Starting(_)) => ("loading", None),
            Some(McpServerState::Error(failed)) => ("error", Some(failed.error.message)),
            Some(McpServerState::AuthRequired(_)) => ("degraded", Some("It needs somebody to sign in.".to_owned())),
            Some(_) => return Some(out),
        };
        out["status"] = status.into();
        if let Some(message) = message {
            out["statusMessage"] = message.into();
        }
        Some(out)
    });
    Value::Array(shown.collect())
}

/// A finished turn.
pub(crate) fn turn(json: &str) -> Option<Value> {
    let mut turn: Value = serde_json::from_str(json).ok()?;
    respell_turn(turn.as_object_mut()?);
    Some(turn)
}

fn respell_turn(turn: &mut Map<String, Value>) {
    turn.remove("startedAt");
    turn.remove("duration");
    rename(turn, "message", "userMessage");
    if let Some(message) = turn.get_mut("userMessage") {
        *message = outgoing::message(message);
    }
    let Some(Value::Array(parts)) = turn.remove("responseParts") else {
        return;
    };
    let error = parts
        .iter()
        .rev()
        .find(|part| part["kind"] == "error")
        .map(|part| part["error"].clone());
    turn.insert(
        "responseParts".into(),
        parts.iter().filter_map(outgoing::part).collect(),
    );
    // A resumed turn keeps the part that told of its error; only a turn that ended so has an error there.
    if let Some(error) = error.filter(|_| turn.get("state").and_then(Value::as_str) == Some("error")) {
        turn.insert("error".into(), error);
    }
}

/// A line of the list of sessions.
pub(crate) fn summary(line: &Map<String, Value>, model: Option<Value>) -> Value {
    let mut out = changes(line);
    if let Some(model) = model {
        out["model"] = model;
    }
    out
}

/// Some fields of such a line.
pub(crate) fn changes(line: &Map<String, Value>) -> Value {
    let mut out = Map::new();
    for (key, value) in line {
        match key.as_str() {
            "resource" | "provider" | "title" | "status" | "project" => {
                out.insert(key.clone(), value.clone());
            }
            "activity" => {
                out.insert(key.clone(), value.clone());
            }
            "createdAt" | "modifiedAt" => {
                out.insert(
                    key.clone(),
                    value.as_str().map_or(Value::Null, |time| millis(time).into()),
                );
            }
            "workingDirectories" => {
                if let Some(first) = value.get(0) {
                    out.insert("workingDirectory".into(), first.clone());
                }
            }
            _ => {}
        }
    }
    Value::Object(out)
}

/// Milliseconds since 1970 of a time in text.
fn millis(time: &str) -> i64 {
    time.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond)
}
