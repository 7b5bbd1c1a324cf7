//! `gitHubTelemetry.event`: numbers for an app that asked for them. Only that app gets them: the host itself reports nothing
//! to anybody.
//!
//! Each is made from a session event, under the event's name, and holds only numbers and fixed words: no prompts, answers,
//! arguments, paths or names.

use lodge_events::Event;
use serde_json::{Map, Value, json};

/// The events that are reported, and their reported fields.
const TOLD: &[(&str, &[&str])] = &[
    ("session.start", &["copilotVersion", "selectedModel", "reasoningEffort"]),
    (
        "session.resume",
        &["eventCount", "eventsFileSizeBytes", "selectedModel"],
    ),
    (
        "session.model_change",
        &["previousModel", "newModel", "reasoningEffort"],
    ),
    ("session.mode_changed", &["previousMode", "newMode"]),
    (
        "assistant.usage",
        &[
            "model",
            "inputTokens",
            "outputTokens",
            "cacheReadTokens",
            "cacheWriteTokens",
            "reasoningTokens",
            "cost",
            "duration",
            "initiator",
        ],
    ),
    ("tool.execution_complete", &["success"]),
    (
        "session.compaction_complete",
        &[
            "success",
            "preCompactionTokens",
            "postCompactionTokens",
            "messagesRemoved",
        ],
    ),
    ("session.error", &["errorType", "statusCode"]),
    ("abort", &["reason"]),
    (
        "session.shutdown",
        &["shutdownType", "totalPremiumRequests", "totalApiDurationMs"],
    ),
];

/// The parameters of an event's notification.
pub(crate) fn of(session_id: &str, event: &Event) -> Option<Value> {
    let (kind, told) = TOLD.iter().find(|(kind, _)| *kind == event.kind())?;
    let data: Map<String, Value> = serde_json::from_str(event.data_json()).ok()?;
    let (mut properties, mut metrics) = (Map::new(), Map::new());
    for name in *told {
        match data.get(*name) {
            Some(Value::String(word)) => properties.insert((*name).into(), json!(word)),
            Some(Value::Bool(is)) => properties.insert((*name).into(), json!(is.to_string())),
            Some(Value::Number(number)) => metrics.insert((*name).into(), json!(number)),
            _ => None,
        };
    }
    let created = lodge_events::timestamp_text(event.timestamp());
    Some(json!({
        "sessionId": session_id,
        "restricted": false,
        "event": {
            "kind": kind,
            "created_at": created,
            "session_id": session_id,
            "properties": properties,
            "metrics": metrics,
        },
    }))
}

#[cfg(test)]
mod tests {
    use lodge_events::{AssistantUsage, Payload, ToolExecutionComplete, UserMessage};

    use super::*;

    fn check(payload: impl Into<Payload>, expected: Option<(&str, Value, Value)>) {
        let told = of("s", &Event::new(None, None, payload));
        let told = told.as_ref().map(|told| {
            let event = &told["event"];
            let kind = event["kind"].as_str().unwrap();
            (kind, event["properties"].clone(), event["metrics"].clone())
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn numbers_and_words_are_told_and_texts_are_not() {
        let usage = AssistantUsage {
            model: "m".into(),
            input_tokens: Some(3),
            ..AssistantUsage::default()
        };
        let told = ("assistant.usage", json!({"model": "m"}), json!({"inputTokens": 3}));
        check(usage, Some(told));
        let done = ToolExecutionComplete {
            success: true,
            ..ToolExecutionComplete::default()
        };
        check(
            done,
            Some(("tool.execution_complete", json!({"success": "true"}), json!({}))),
        );
        check(UserMessage::default(), None);
    }
}
