//! Rewrites the few events that the parsers of old SDKs refuse. A refused event is lost to the app, or ends its connection.
//!
//! SDKs before 1.0 shake hands with `ping`, later ones with `connect`; nothing else tells their versions apart. The log and
//! the events for other clients stay unchanged. None of the rewritten events is frequent.

#[cfg(test)]
mod matrix;

use bytes::Bytes;
use lodge_events::{Event, EventType};
use serde_json::{Value, json};

/// The generation of a client's parsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// SDKs 0.1 to 0.3.
    BeforeConnect,
    /// SDKs 1.0 and later.
    Current,
}

impl Generation {
    /// The JSON of an event for a client of this generation.
    pub(crate) fn json(self, event: &Event) -> Bytes {
        let rewritten = match self {
            Self::BeforeConnect => before_connect(event),
            Self::Current => None,
        };
        rewritten.unwrap_or_else(|| event.json().clone())
    }
}

/// The event in a form that SDKs before 1.0 can read; `None` if they can read it unchanged.
fn before_connect(event: &Event) -> Option<Bytes> {
    let change = match event.event_type()? {
        EventType::PermissionCompleted => permission_result,
        EventType::PermissionRequested => permission_request,
        EventType::ElicitationCompleted => without_content,
        EventType::SessionCompactionComplete => by_the_seeds_names,
        EventType::SessionIdle => without_mode,
        EventType::SessionCanvasOpened | EventType::FactoryRunSettled => without_status,
        EventType::SessionPermissionsChanged => by_booleans,
        EventType::SessionCustomAgentsUpdated => with_lists_of_tools,
        EventType::SessionManagedSettingsEnforced => without_action,
        EventType::ToolExecutionComplete => known_contents,
        EventType::UserMessage => known_attachments,
        EventType::SystemNotification => return as_information(event),
        _ => return None,
    };
    let mut json: Value = serde_json::from_slice(event.json()).ok()?;
    change(&mut json["data"]).then(|| json.to_string().into())
}

fn without(data: &mut Value, field: &str) -> bool {
    let data = data.as_object_mut();
    data.and_then(|data| data.remove(field)).is_some()
}

/// They do not know questions from hooks, so these become questions about a tool.
fn permission_request(data: &mut Value) -> bool {
    let of_hook = |request: &Value| request["kind"] == "hook";
    let mut changed = false;
    for name in ["permissionRequest", "promptRequest"] {
        if let Some(request) = data.get_mut(name).filter(|request| of_hook(request)) {
            request["kind"] = json!("custom-tool");
            request["toolDescription"] = request["hookMessage"].as_str().unwrap_or_default().into();
            request["args"] = request["toolArgs"].take();
            changed = true;
        }
    }
    changed
}

/// They confuse the mode with that of a form.
fn without_mode(data: &mut Value) -> bool {
    without(data, "mode")
}

/// They confuse the status of a canvas, or of a factory run, with that of an MCP server.
fn without_status(data: &mut Value) -> bool {
    without(data, "status")
}

/// They confuse the mode with that of a form, and know permissions only as on and off.
fn by_booleans(data: &mut Value) -> bool {
    let all = |mode: &Value| json!(mode == "allow-all");
    *data = json!({
        "allowAllPermissions": all(&data["mode"]), "previousAllowAllPermissions": all(&data["previousMode"]),
    });
    true
}

/// They expect a list even if all tools are meant.
fn with_lists_of_tools(data: &mut Value) -> bool {
    let mut changed = false;
    for agent in data["agents"].as_array_mut().into_iter().flatten() {
        if agent["tools"].is_null() {
            agent["tools"] = json!(["*"]);
            changed = true;
        }
    }
    changed
}

/// They confuse the action with that of a form.
fn without_action(data: &mut Value) -> bool {
    without(data, "action")
}

/// Removes items of unknown types from a list.
fn only(list: Option<&mut Value>, known: &[&str]) -> bool {
    let Some(list) = list.and_then(Value::as_array_mut) else {
        return false;
    };
    let had = list.len();
    list.retain(|item| known.iter().any(|known| item["type"] == *known));
    list.len() < had
}

fn known_contents(data: &mut Value) -> bool {
    let known = ["text", "terminal", "image", "audio", "resource_link", "resource"];
    only(data.pointer_mut("/result/contents"), &known)
}

fn known_attachments(data: &mut Value) -> bool {
    let known = ["file", "directory", "selection", "github_reference"];
    only(data.get_mut("attachments"), &known)
}

/// Notifications of unknown kinds become information for people.
fn as_information(event: &Event) -> Option<Bytes> {
    let mut json: Value = serde_json::from_slice(event.json()).ok()?;
    let data = &json["data"];
    let known = ["agent_completed", "shell_completed", "shell_detached_completed"];
    if known.iter().any(|known| data["kind"]["type"] == *known) {
        return None;
    }
    json["data"] = json!({"infoType": "notification", "message": data["content"]});
    json["type"] = json!("session.info");
    Some(json.to_string().into())
}

/// They know five outcomes.
fn permission_result(data: &mut Value) -> bool {
    let result = &mut data["result"];
    let known = match result["kind"].as_str() {
        Some("approved-for-session" | "approved-for-location") => "approved",
        Some("cancelled") => "denied-no-approval-rule-and-could-not-request-from-user",
        Some("denied-by-permission-request-hook") => "denied-by-rules",
        _ => return false,
    };
    *result = json!({ "kind": known });
    true
}

/// Some expect the content of a form to be text.
fn without_content(data: &mut Value) -> bool {
    without(data, "content")
}

/// They require all three of the seeds' names, which events of earlier builds and of the Copilot CLI lack.
fn by_the_seeds_names(data: &mut Value) -> bool {
    let Some(used) = data.get_mut("compactionTokensUsed").and_then(Value::as_object_mut) else {
        return false;
    };
    let mut added = false;
    for (old, new) in [
        ("input", "inputTokens"),
        ("output", "outputTokens"),
        ("cachedInput", "cacheReadTokens"),
    ] {
        if !used.contains_key(old) {
            let tokens = used.get(new).cloned().unwrap_or(json!(0));
            used.insert(old.to_owned(), tokens);
            added = true;
        }
    }
    if let Some(cost) = used
        .get_mut("copilotUsage")
        .filter(|cost| cost["tokenDetails"].is_null())
    {
        cost["tokenDetails"] = json!([]);
        added = true;
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &Value) -> Event {
        let id = "7f3d1a52-0f0a-4f0c-9a77-000000000001";
        let json =
            json!({"id": id, "timestamp": "2026-01-01T00:00:00.000Z", "parentId": null, "type": kind, "data": data});
        Event::parse(json.to_string().into()).unwrap()
    }

    #[test]
    fn older_parsers_get_what_they_take_and_others_get_the_bytes_of_the_log() {
        let unasked = "denied-no-approval-rule-and-could-not-request-from-user";
        let permission = |kind: &str| json!({"requestId": "r", "result": {"kind": kind}});
        let form = json!({"requestId": "r", "action": "accept", "content": {"a": 1}});
        let used = |used: Value| json!({"success": true, "compactionTokensUsed": used});
        let both = json!({"inputTokens": 1, "cacheReadTokens": 2, "input": 1, "output": 0, "cachedInput": 2});
        // (type, data, data for older parsers where it differs)
        for (kind, data, expected) in [
            ("permission.completed", permission("approved"), None),
            (
                "permission.completed",
                permission("cancelled"),
                Some(permission(unasked)),
            ),
            (
                "permission.completed",
                json!({"requestId": "r", "result": {"kind": "approved-for-session", "approval": {"kind": "read"}}}),
                Some(permission("approved")),
            ),
            (
                "permission.completed",
                permission("denied-by-permission-request-hook"),
                Some(permission("denied-by-rules")),
            ),
            (
                "elicitation.completed",
                form,
                Some(json!({"requestId": "r", "action": "accept"})),
            ),
            ("elicitation.completed", json!({"requestId": "r"}), None),
            (
                "session.compaction_complete",
                used(json!({"inputTokens": 1, "cacheReadTokens": 2})),
                Some(used(both.clone())),
            ),
            ("session.compaction_complete", used(both), None),
            ("session.compaction_complete", json!({"success": false}), None),
            (
                "assistant.message_delta",
                json!({"messageId": "m", "deltaContent": "x"}),
                None,
            ),
            ("something.new", json!({"result": {"kind": "cancelled"}}), None),
            ("session.idle", json!({"mode": "plan"}), Some(json!({}))),
            ("session.idle", json!({"aborted": true}), None),
            (
                "session.permissions_changed",
                json!({"previousMode": "manual", "mode": "allow-all"}),
                Some(json!({"allowAllPermissions": true, "previousAllowAllPermissions": false})),
            ),
            (
                "permission.requested",
                json!({"requestId": "r", "permissionRequest": {"kind": "hook", "toolName": "t", "toolArgs": 1}}),
                Some(json!({"requestId": "r", "permissionRequest": {
                    "kind": "custom-tool", "toolName": "t", "toolArgs": null, "toolDescription": "", "args": 1,
                }})),
            ),
            (
                "user.message",
                json!({"content": "c", "attachments": [{"type": "blob", "data": "", "mimeType": "a/b"}]}),
                Some(json!({"content": "c", "attachments": []})),
            ),
        ] {
            let event = event(kind, &data);
            assert_eq!(Generation::Current.json(&event), event.json(), "{data}");
            let old = Generation::BeforeConnect.json(&event);
            match expected {
                None => assert_eq!(old, event.json(), "{data}"),
                Some(expected) => {
                    let mut whole: Value = serde_json::from_slice(event.json()).unwrap();
                    whole["data"] = expected;
                    assert_eq!(serde_json::from_slice::<Value>(&old).unwrap(), whole);
                }
            }
        }
    }
}
