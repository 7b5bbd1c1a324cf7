//! Which role an action needs.

use lodge_door::{Admission, Role};
use lodge_host::tool_calls::PermissionChoice;
use serde_json::Value;

use super::Refusal;

/// The actions that answer a question of an agent. All others need the role `full`, those among them that nobody has
/// thought of yet.
pub(super) const ANSWERS: [&str; 4] = [
    "chat/inputAnswerChanged",
    "chat/inputCompleted",
    "chat/toolCallConfirmed",
    "chat/toolCallResultConfirmed",
];

/// Whether an action may be dispatched by whoever this is.
pub(super) fn check(admission: &Admission, action: &Value) -> Result<(), Refusal> {
    let kind = action.get("type").and_then(Value::as_str).unwrap_or_default();
    admission.check(needed(kind, action)).map_err(Refusal::Role)
}

fn needed(kind: &str, action: &Value) -> Role {
    // Whoever edits what a tool is to do runs something of their own.
    let edits = action.get("editedToolInput").is_some_and(|input| !input.is_null());
    // A rule that outlives the session decides about what nobody has asked yet.
    let rules = action.get("selectedOptionId").and_then(Value::as_str) == Some(PermissionChoice::Always.id());
    if ANSWERS.contains(&kind) && !edits && !rules {
        Role::Approve
    } else {
        Role::Full
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answering_needs_less_than_steering() {
        for kind in ANSWERS {
            assert_eq!(needed(kind, &json!({ "type": kind })), Role::Approve, "{kind}");
        }
        let edited = json!({ "type": "chat/toolCallConfirmed", "editedToolInput": "{}" });
        assert_eq!(needed("chat/toolCallConfirmed", &edited), Role::Full);
        let always = json!({ "type": "chat/toolCallConfirmed", "selectedOptionId": "allow-always" });
        assert_eq!(needed("chat/toolCallConfirmed", &always), Role::Full);
        for kind in [
            "chat/turnStarted",
            "terminal/input",
            "session/isReadChanged",
            "chat/new",
            "",
        ] {
            assert_eq!(needed(kind, &json!({ "type": kind })), Role::Full, "{kind}");
        }
    }
}
