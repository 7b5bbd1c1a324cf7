//! Actions from clients of 0.1.0.

use serde_json::{Map, Value, json};

use super::{ROOT, rename};
use crate::conversation::{LITERAL, command_in};
use crate::session_config::EFFORT;

/// A client's action in today's spelling.
#[derive(Debug, PartialEq)]
pub(crate) struct Incoming {
    /// The session (or the root channel, or the terminal) it is about.
    pub(crate) uri: String,
    /// Whether it goes to the session's default chat.
    pub(crate) to_chat: bool,
    /// The action; `clientId` and times are filled in by who knows them.
    pub(crate) action: Map<String, Value>,
}

/// Why an action cannot be respelt.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum IncomingError {
    #[error("the action is not an object")]
    NotAnObject,
    #[error("the action has no {0}")]
    Missing(&'static str),
    #[error("the action names no {0}")]
    Unnamed(&'static str),
    #[error("this host has no action {0}")]
    Unknown(String),
    #[error("{0} is not for clients to dispatch")]
    NotForClients(String),
}

/// Respells an action.
pub(crate) fn incoming(seed: &Value, client: &str) -> Result<Incoming, IncomingError> {
    let mut action = seed.as_object().cloned().ok_or(IncomingError::NotAnObject)?;
    let kind = action
        .get("type")
        .and_then(Value::as_str)
        .ok_or(IncomingError::Missing("type"))?
        .to_owned();
    if kind.starts_with("root/") {
        return Ok(Incoming {
            uri: ROOT.to_owned(),
            to_chat: false,
            action,
        });
    }
    if kind.starts_with("terminal/") {
        let Some(Value::String(uri)) = action.remove("terminal") else {
            return Err(IncomingError::Unnamed("terminal"));
        };
        // A session has one chat there, which needs no name.
        if let Some(Value::Object(claim)) = action.get_mut("claim")
            && let Some(chat) = claim
                .get("session")
                .and_then(Value::as_str)
                .map(crate::uri::default_chat)
        {
            claim.insert("chat".into(), chat.into());
        }
        return Ok(Incoming {
            uri,
            to_chat: false,
            action,
        });
    }
    let Some(name) = kind.strip_prefix("session/") else {
        return Err(IncomingError::Unknown(kind));
    };
    let Some(Value::String(uri)) = action.remove("session") else {
        return Err(IncomingError::Unnamed("session"));
    };
    let mut set = |kind: &str| action.insert("type".into(), kind.into());
    let to_chat = match name {
        "turnStarted" | "pendingMessageSet" => {
            set(&format!("chat/{name}"));
            let message = action.remove("userMessage");
            let message = message.ok_or(IncomingError::Missing("userMessage"))?;
            action.insert("message".into(), said(message));
            true
        }
        "permissionResolved" => {
            set("chat/toolCallConfirmed");
            // It named the request; which tool call that is about is looked up by who knows.
            rename(&mut action, "requestId", "toolCallId");
            true
        }
        "toolCallConfirmed" => {
            set("chat/toolCallConfirmed");
            if let Some(suggestion) = action.remove("userSuggestion") {
                action.insert("userSuggestion".into(), said(suggestion));
            }
            true
        }
        "toolCallComplete"
        | "toolCallResultConfirmed"
        | "toolCallContentChanged"
        | "turnCancelled"
        | "inputAnswerChanged"
        | "inputCompleted"
        | "pendingMessageRemoved"
        | "queuedMessagesReordered"
        | "truncated" => {
            set(&format!("chat/{name}"));
            true
        }
        "modelChanged" => {
            set("session/configChanged");
            let mut model = action.remove("model").ok_or(IncomingError::Missing("model"))?;
            let id = model.get_mut("id").map(Value::take);
            let mut config = json!({ "model": id.ok_or(IncomingError::Missing("model"))? });
            if let Some(effort) = model.get_mut("config").and_then(|config| config.get_mut(EFFORT)) {
                config[EFFORT] = effort.take();
            }
            action.insert("config".into(), config);
            false
        }
        "activeClientChanged" => {
            match action.remove("activeClient").filter(|client| !client.is_null()) {
                Some(active) => {
                    action.insert("type".into(), "session/activeClientSet".into());
                    action.insert("activeClient".into(), active);
                }
                None => {
                    action.insert("type".into(), "session/activeClientRemoved".into());
                    action.insert("clientId".into(), client.into());
                }
            }
            false
        }
        "activeClientToolsChanged" => {
            set("session/activeClientSet");
            let tools = action.remove("tools").unwrap_or_else(|| json!([]));
            action.insert("activeClient".into(), json!({ "clientId": client, "tools": tools }));
            false
        }
        "customizationToggled" => {
            // It knows no ids and no scopes: its own session is meant.
            rename(&mut action, "uri", "id");
            let enabled = action.remove("enabled").ok_or(IncomingError::Missing("`enabled`"))?;
            action.insert("enablement".into(), json!([{ "kind": "session", "enabled": enabled }]));
            false
        }
        "titleChanged" | "isReadChanged" | "isArchivedChanged" | "configChanged" => false,
        _ => return Err(IncomingError::NotForClients(kind)),
    };
    Ok(Incoming { uri, to_chat, action })
}

fn said(user_message: Value) -> Value {
    let mut message = user_message;
    if let Some(map) = message.as_object_mut() {
        map.insert("origin".into(), json!({ "kind": "user" }));
        if let Some(Value::Array(attachments)) = map.get_mut("attachments") {
            attachments.iter_mut().for_each(attached);
        }
        // Nobody told these clients that a message may be a command.
        if map.get("text").and_then(Value::as_str).and_then(command_in).is_some() {
            map.insert("_meta".into(), json!({ LITERAL: true }));
        }
    }
    message
}

/// The first clients had other words for what they attach.
fn attached(attachment: &mut Value) {
    let kind = match attachment["type"].as_str() {
        Some("file") => "document",
        Some("directory") => "directory",
        Some("selection") => "selection",
        _ => return,
    };
    let uri = attachment["uri"].as_str().unwrap_or_default();
    let name = uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let label = attachment["displayName"].as_str().unwrap_or(name);
    *attachment = json!({ "type": "resource", "uri": uri, "label": label, "displayKind": kind });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seed: Value, expected: Result<Value, &str>) {
        let seen = incoming(&seed, "me").map(|seen| json!([seen.uri, seen.to_chat, seen.action]));
        let seen = seen.map_err(|error| error.to_string());
        assert_eq!(seen, expected.map_err(str::to_owned), "{seed}");
    }

    #[test]
    fn actions_of_the_seed_are_respelt() {
        check(
            json!({"type": "session/turnStarted", "session": "copilot:/1", "turnId": "t", "userMessage": {"text": "hi"}}),
            Ok(json!(["copilot:/1", true, {"type": "chat/turnStarted", "turnId": "t",
                "message": {"text": "hi", "origin": {"kind": "user"}}}])),
        );
        check(
            json!({"type": "session/turnStarted", "session": "copilot:/1", "turnId": "t", "userMessage": {"text": "!ls"}}),
            Ok(json!(["copilot:/1", true, {"type": "chat/turnStarted", "turnId": "t",
                "message": {"text": "!ls", "origin": {"kind": "user"}, "_meta": {"lodge.literal": true}}}])),
        );
        check(
            json!({"type": "session/turnStarted", "session": "copilot:/1", "turnId": "t", "userMessage": {"text": "hi",
            "attachments": [
                {"type": "file", "uri": "file:///a/b.txt", "displayName": "Bee"}, {"type": "directory", "uri": "file:///a/"},
                {"type": "simple", "label": "c"}, 5,
            ]}}),
            Ok(json!(["copilot:/1", true, {"type": "chat/turnStarted", "turnId": "t",
            "message": {"text": "hi", "origin": {"kind": "user"}, "attachments": [
                {"type": "resource", "uri": "file:///a/b.txt", "label": "Bee", "displayKind": "document"},
                {"type": "resource", "uri": "file:///a/", "label": "a", "displayKind": "directory"},
                {"type": "simple", "label": "c"}, 5,
            ]}}])),
        );
        check(
            json!({"type": "session/permissionResolved", "session": "copilot:/1", "turnId": "t", "requestId": "r", "approved": true}),
            Ok(
                json!(["copilot:/1", true, {"type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": "r", "approved": true}]),
            ),
        );
        check(
            json!({"type": "session/modelChanged", "session": "copilot:/1", "model": {"id": "m", "config": {"thinkingLevel": "high"}}}),
            Ok(
                json!(["copilot:/1", false, {"type": "session/configChanged", "config": {"model": "m", "thinkingLevel": "high"}}]),
            ),
        );
        check(
            json!({"type": "session/modelChanged", "session": "copilot:/1", "model": {"id": "m"}}),
            Ok(json!(["copilot:/1", false, {"type": "session/configChanged", "config": {"model": "m"}}])),
        );
        check(
            json!({"type": "session/activeClientChanged", "session": "copilot:/1", "activeClient": null}),
            Ok(json!(["copilot:/1", false, {"type": "session/activeClientRemoved", "clientId": "me"}])),
        );
        check(
            json!({"type": "session/ready", "session": "x:/1"}),
            Err("session/ready is not for clients to dispatch"),
        );
        check(
            json!({"type": "session/titleChanged", "title": "x"}),
            Err("the action names no session"),
        );
        check(
            json!({"type": "terminal/input", "data": "x"}),
            Err("the action names no terminal"),
        );
        check(
            json!({"type": "terminal/claimed", "terminal": "t:/1", "claim": {"kind": "session", "session": "lodge:/abc"}}),
            Ok(json!(["t:/1", false, {"type": "terminal/claimed", "claim": {
                "kind": "session", "session": "lodge:/abc", "chat": "ahp-chat://default/bG9kZ2U6L2FiYw"}}])),
        );
        check(
            json!({"type": "session/customizationToggled", "session": "x:/1", "uri": "u"}),
            Err("the action has no `enabled`"),
        );
        check(json!("x"), Err("the action is not an object"));
    }
}
