//! Names of hook events, and of the fields of their inputs and outputs, in both formats.

use serde_json::{Map, Value, json};

/// Events as the Copilot CLI and as VS Code name them.
const EVENTS: &[(&str, &str)] = &[
    ("sessionStart", "SessionStart"),
    ("sessionEnd", "SessionEnd"),
    ("userPromptSubmitted", "UserPromptSubmit"),
    ("userPromptTransformed", "UserPromptTransformed"),
    ("preToolUse", "PreToolUse"),
    ("preMcpToolCall", "PreMcpToolCall"),
    ("postToolUse", "PostToolUse"),
    ("postToolUseFailure", "PostToolUseFailure"),
    ("agentStop", "Stop"),
    ("subagentStart", "SubagentStart"),
    ("subagentStop", "SubagentStop"),
    ("errorOccurred", "ErrorOccurred"),
    ("permissionRequest", "PermissionRequest"),
    ("notification", "Notification"),
    ("preCompact", "PreCompact"),
];

/// What other agents call events that happen here, too. Their hooks are given VS Code's words, which they know.
const ALIASES: &[(&str, &str)] = &[
    ("StopFailure", "errorOccurred"),
    ("BeforeAgent", "userPromptSubmitted"),
    ("AfterAgent", "agentStop"),
    ("BeforeTool", "preToolUse"),
    ("AfterTool", "postToolUse"),
    ("PreCompress", "preCompact"),
    ("beforeSubmitPrompt", "userPromptSubmitted"),
    ("stop", "agentStop"),
];

/// Events that only hooks in files hear of: no SDK knows them.
pub const ONLY_IN_FILES: [&str; 3] = ["permissionRequest", "notification", "preCompact"];

/// The event of this name, and whether it is VS Code's name for it, or another agent's.
pub(super) fn event(name: &str) -> Option<(&'static str, bool)> {
    if let Some((_, ours)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Some((*ours, true));
    }
    EVENTS.iter().find_map(|(ours, theirs)| {
        if name == *ours {
            Some((*ours, false))
        } else {
            (name == *theirs).then_some((*ours, true))
        }
    })
}

/// The input with arguments as an object: clients get them as text, as they always did.
pub(super) fn parsed(input: &Value) -> Value {
    let mut input = input.clone();
    let object = input["toolArgs"]
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(object) = object {
        input["toolArgs"] = object;
    }
    input
}

/// The input in VS Code's words.
pub(super) fn for_vscode(event: &str, input: &Value) -> Value {
    let name = EVENTS
        .iter()
        .find(|(ours, _)| *ours == event)
        .map_or(event, |(_, theirs)| theirs);
    let mut given = Map::from_iter([("hook_event_name".to_owned(), json!(name))]);
    for (key, value) in parsed(input).as_object().into_iter().flatten() {
        let value = match key.as_str() {
            "timestamp" => value
                .as_i64()
                .and_then(|time| jiff::Timestamp::from_millisecond(time).ok())
                .map_or_else(|| value.clone(), |time| json!(lodge_events::timestamp_text(time))),
            "toolResult" => match value {
                Value::Object(fields) => fields.iter().map(|(key, value)| (snake(key), value.clone())).collect(),
                other => other.clone(),
            },
            _ => value.clone(),
        };
        let key = match key.as_str() {
            "toolArgs" => "tool_input".to_owned(),
            key => snake(key),
        };
        given.insert(key, value);
    }
    Value::Object(given)
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The output in our words: VS Code puts some of it one level deeper, and has another name for changed arguments.
pub(super) fn flattened(mut output: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(inner)) = output.remove("hookSpecificOutput") {
        output.extend(inner);
    }
    if let Some(changed) = output.remove("updatedInput") {
        output.insert("modifiedArgs".to_owned(), changed);
    }
    output
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_are_known_by_the_names_that_other_agents_give_them() {
        for (name, expected) in [
            ("preToolUse", Some(("preToolUse", false))),
            ("PreToolUse", Some(("preToolUse", true))),
            ("PermissionRequest", Some(("permissionRequest", true))),
            ("Notification", Some(("notification", true))),
            ("PreCompact", Some(("preCompact", true))),
            ("StopFailure", Some(("errorOccurred", true))),
            ("BeforeTool", Some(("preToolUse", true))),
            ("beforeSubmitPrompt", Some(("userPromptSubmitted", true))),
            ("TeammateIdle", None),
        ] {
            assert_eq!(event(name), expected, "{name}");
        }
        // Every alias leads to an event.
        for (_, ours) in ALIASES {
            assert!(EVENTS.iter().any(|(known, _)| known == ours), "{ours}");
        }
    }

    const SAMPLES: &[&str] = &[
        r#"{"permissionDecision":"deny","permissionDecisionReason":"no"}"#,
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"ls"}},"continue":false}"#,
        r#"{"toolArgs":"{\"command\":\"ls\"}","timestamp":1700000000000,"toolResult":{"textResult":"x"}}"#,
    ];

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_output_of_a_hook_does_harm(text in testkit::fuzz::text(SAMPLES)) {
            if let Ok(output) = serde_json::from_str::<Map<String, Value>>(text.trim()) {
                let flat = flattened(output.clone());
                prop_assert!(!flat.contains_key("updatedInput"));
                for (event, _) in EVENTS {
                    for_vscode(event, &Value::Object(output.clone()));
                }
            }
        }
    }
}
