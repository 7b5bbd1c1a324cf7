//! Actions to clients of 0.1.0.

use serde_json::{Map, Value, json};

/// Chat actions that are spelt `session/…` there.
const ON_THE_SESSION: [&str; 20] = [
    "turnStarted",
    "delta",
    "responsePart",
    "toolCallStart",
    "toolCallDelta",
    "toolCallReady",
    "toolCallConfirmed",
    "toolCallComplete",
    "toolCallResultConfirmed",
    "toolCallContentChanged",
    "turnComplete",
    "turnCancelled",
    "error",
    "usage",
    "reasoning",
    "pendingMessageSet",
    "pendingMessageRemoved",
    "queuedMessagesReordered",
    "inputRequested",
    "inputAnswerChanged",
];

/// Session actions that it knows by the same name.
const SAME: [&str; 8] = [
    "session/ready",
    "session/creationFailed",
    "session/titleChanged",
    "session/serverToolsChanged",
    "session/isReadChanged",
    "session/isArchivedChanged",
    "session/activityChanged",
    "session/metaChanged",
];

/// The action in the seed's spelling; none when it cannot say it. `session` is the name under which its channel is shown.
pub(super) fn action(modern: &Value, session: &str) -> Option<Value> {
    let mut action = modern.as_object()?.clone();
    let kind = action.get("type")?.as_str()?.to_owned();
    if let Some(name) = kind.strip_prefix("root/") {
        if name == "agentsChanged" {
            let agents = action.get("agents")?.as_array()?.iter().map(agent).collect();
            action.insert("agents".into(), Value::Array(agents));
        }
        if let Some(Value::Array(terminals)) = action.get_mut("terminals") {
            for info in terminals {
                *info = super::state::terminal(info.take());
            }
        }
        return Some(Value::Object(action));
    }
    if kind.starts_with("terminal/") {
        if let Some(claim) = action.get_mut("claim") {
            terminal_claim(claim);
        }
        action.insert("terminal".into(), session.into());
        return Some(Value::Object(action));
    }
    let kind = match kind.strip_prefix("chat/") {
        Some(name) if ON_THE_SESSION.contains(&name) || matches!(name, "inputCompleted" | "truncated") => {
            on_the_session(name, &mut action)?;
            format!("session/{name}")
        }
        Some(_) => return None,
        None if SAME.contains(&kind.as_str()) => kind,
        None => return None,
    };
    let mut out = Map::new();
    out.insert("type".into(), kind.into());
    out.insert("session".into(), session.into());
    action.remove("type");
    out.extend(action);
    Some(Value::Object(out))
}

fn on_the_session(name: &str, action: &mut Map<String, Value>) -> Option<()> {
    match name {
        "turnStarted" => {
            action.remove("startedAt");
            action.remove("_meta");
            let said = message(&action.remove("message")?);
            action.insert("userMessage".into(), said);
        }
        "pendingMessageSet" => {
            let said = message(&action.remove("message")?);
            action.insert("userMessage".into(), said);
        }
        "responsePart" => {
            let shown = part(action.get("part")?)?;
            action.insert("part".into(), shown);
        }
        "toolCallStart" | "toolCallReady" => call(action),
        "toolCallDelta" => {
            action.entry("content").or_insert_with(|| "".into());
        }
        "toolCallConfirmed" => {
            if let Some(suggestion) = action.remove("userSuggestion") {
                action.insert("userSuggestion".into(), message(&suggestion));
            }
        }
        "turnComplete" | "turnCancelled" => {
            action.remove("duration");
        }
        "error" => {
            action.remove("duration");
            let error = action.remove("part")?.get("error")?.clone();
            action.insert("error".into(), error);
        }
        _ => {}
    }
    Some(())
}

/// The fields of a tool call that were spelt otherwise, in an action or in a state.
fn call(call: &mut Map<String, Value>) {
    if let Some(Value::Object(contributor)) = call.remove("contributor")
        && let Some(client) = contributor.get("clientId")
    {
        call.insert("toolClientId".into(), client.clone());
    }
    call.remove("intention");
    call.remove("riskAssessment");
    if call.get("toolInput").is_some_and(|input| !input.is_string()) {
        call.remove("toolInput");
    }
    if let Some(suggestion) = call.remove("userSuggestion") {
        call.insert("userSuggestion".into(), message(&suggestion));
    }
}

/// A message of a person.
pub(super) fn message(modern: &Value) -> Value {
    let mut said = json!({ "text": modern.get("text").cloned().unwrap_or_default() });
    if let Some(attachments) = modern.get("attachments").and_then(Value::as_array) {
        let known = |attachment: &&Value| {
            matches!(
                attachment["type"].as_str(),
                Some("simple" | "embeddedResource" | "resource")
            )
        };
        said["attachments"] = attachments.iter().filter(known).cloned().collect();
    }
    said
}

/// A part of an answer; none for kinds that are not parts there.
pub(super) fn part(modern: &Value) -> Option<Value> {
    match modern.get("kind")?.as_str()? {
        "toolCall" => {
            let mut state = modern.get("toolCall")?.as_object()?.clone();
            call(&mut state);
            // It knows no waiting for a login: to its eyes the call runs.
            if state.get("status").and_then(Value::as_str) == Some("auth-required") {
                state.insert("status".into(), "running".into());
                state.remove("auth");
            }
            Some(json!({ "kind": "toolCall", "toolCall": state }))
        }
        "markdown" | "reasoning" | "contentRef" | "systemNotification" => Some(modern.clone()),
        _ => None,
    }
}

/// An active client.
pub(super) fn active_client(modern: &Value) -> Value {
    let mut client = modern.clone();
    if let Some(client) = client.as_object_mut() {
        client.remove("customizations");
    }
    client
}

/// An agent in the root state.
pub(super) fn agent(modern: &Value) -> Value {
    let mut agent = modern.clone();
    if let Some(agent) = agent.as_object_mut() {
        agent.remove("capabilities");
        agent.remove("customizations");
    }
    agent
}

/// Who holds a terminal: there a session has one chat, which needs no name.
pub(super) fn terminal_claim(claim: &mut Value) {
    if let Some(claim) = claim.as_object_mut() {
        claim.remove("chat");
    }
}
