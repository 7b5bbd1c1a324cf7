//! The catalogue holds together, and has everything the seeds have.

use std::collections::BTreeSet;

use lodge_events::{Event, EventType, Payload, TYPES, TypeInfo};
use serde_json::Value;

use crate::examples::examples;

/// The seeds' closing table and field tables: type, whether it is ephemeral, required fields, optional fields.
const SEED: &[(&str, bool, &str, &str)] = &[
    ("assistant.turn_start", false, "turnId", "interactionId"),
    ("assistant.intent", true, "intent", ""),
    ("assistant.reasoning", false, "reasoningId content", ""),
    ("assistant.reasoning_delta", true, "reasoningId deltaContent", ""),
    (
        "assistant.message",
        false,
        "messageId content",
        "toolRequests reasoningOpaque reasoningText encryptedContent phase outputTokens interactionId parentToolCallId",
    ),
    (
        "assistant.message_delta",
        true,
        "messageId deltaContent",
        "parentToolCallId",
    ),
    ("assistant.turn_end", false, "turnId", ""),
    (
        "assistant.usage",
        true,
        "model",
        "inputTokens outputTokens cacheReadTokens cacheWriteTokens cost duration initiator apiCallId providerCallId \
         parentToolCallId quotaSnapshots copilotUsage",
    ),
    ("assistant.streaming_delta", true, "totalResponseSizeBytes", ""),
    (
        "tool.execution_start",
        false,
        "toolCallId toolName",
        "arguments mcpServerName mcpToolName parentToolCallId",
    ),
    ("tool.execution_partial_result", true, "toolCallId partialOutput", ""),
    ("tool.execution_progress", true, "toolCallId progressMessage", ""),
    (
        "tool.execution_complete",
        false,
        "toolCallId success",
        "model interactionId isUserRequested result error toolTelemetry parentToolCallId",
    ),
    ("tool.user_requested", false, "toolCallId toolName", "arguments"),
    ("session.idle", true, "", "backgroundTasks"),
    (
        "session.error",
        false,
        "errorType message",
        "stack statusCode providerCallId",
    ),
    ("session.compaction_start", false, "", ""),
    (
        "session.compaction_complete",
        false,
        "success",
        "error preCompactionTokens postCompactionTokens preCompactionMessagesLength messagesRemoved tokensRemoved \
         summaryContent checkpointNumber checkpointPath compactionTokensUsed requestId",
    ),
    ("session.title_changed", true, "title", ""),
    ("session.context_changed", false, "cwd", "gitRoot repository branch"),
    (
        "session.usage_info",
        true,
        "tokenLimit currentTokens messagesLength",
        "",
    ),
    ("session.task_complete", false, "", "summary"),
    (
        "session.shutdown",
        false,
        "shutdownType totalPremiumRequests totalApiDurationMs sessionStartTime codeChanges modelMetrics",
        "errorReason currentModel",
    ),
    ("permission.requested", true, "requestId permissionRequest", ""),
    ("permission.completed", true, "requestId result", ""),
    (
        "user_input.requested",
        true,
        "requestId question",
        "choices allowFreeform",
    ),
    ("user_input.completed", true, "requestId", ""),
    // The seeds know forms only, so they always want the schema; a page to open has none.
    (
        "elicitation.requested",
        true,
        "requestId message",
        "requestedSchema mode",
    ),
    ("elicitation.completed", true, "requestId", ""),
    (
        "subagent.started",
        false,
        "toolCallId agentName agentDisplayName agentDescription",
        "",
    ),
    ("subagent.completed", false, "toolCallId agentName agentDisplayName", ""),
    (
        "subagent.failed",
        false,
        "toolCallId agentName agentDisplayName error",
        "",
    ),
    ("subagent.selected", false, "agentName agentDisplayName tools", ""),
    ("subagent.deselected", false, "", ""),
    (
        "skill.invoked",
        false,
        "name path content",
        "allowedTools pluginName pluginVersion",
    ),
    ("abort", false, "reason", ""),
    (
        "user.message",
        false,
        "content",
        "transformedContent attachments source agentMode interactionId",
    ),
    ("system.message", false, "content role", "name metadata"),
    (
        "external_tool.requested",
        true,
        "requestId sessionId toolCallId toolName",
        "arguments",
    ),
    ("external_tool.completed", true, "requestId", ""),
    (
        "exit_plan_mode.requested",
        true,
        "requestId summary planContent actions recommendedAction",
        "",
    ),
    ("exit_plan_mode.completed", true, "requestId", ""),
    ("command.queued", true, "requestId command", ""),
    ("command.completed", true, "requestId", ""),
];

fn info(name: &str) -> &'static TypeInfo {
    EventType::from_name(name)
        .unwrap_or_else(|| panic!("{name} is not known"))
        .info()
}

fn fields(info: &TypeInfo, required: bool) -> BTreeSet<&'static str> {
    info.fields
        .iter()
        .filter(|field| field.required() == required)
        .map(|field| field.name)
        .collect()
}

#[test]
fn the_44_types_of_the_seeds_are_there_with_their_persistence_and_fields() {
    assert_eq!(SEED.len(), 44);
    for &(name, ephemeral, required, optional) in SEED {
        let info = info(name);
        assert!(info.in_seed, "{name}");
        assert_eq!(info.ephemeral, ephemeral, "{name}");
        assert_eq!(
            fields(info, true),
            required.split_whitespace().collect(),
            "required fields of {name}"
        );
        let missing: Vec<_> = optional
            .split_whitespace()
            .filter(|field| !fields(info, false).contains(field))
            .collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}");
    }
    assert_eq!(TYPES.iter().filter(|info| info.in_seed).count(), 44);
}

#[test]
fn names_lead_to_their_types_and_back() {
    for (position, info) in TYPES.iter().enumerate() {
        let found = EventType::from_name(info.name).unwrap();
        assert_eq!(
            (found as usize, found.name(), found.is_ephemeral()),
            (position, info.name, info.ephemeral)
        );
    }
    assert_eq!(EventType::from_name("assistant.telepathy"), None);
}

#[test]
fn every_type_has_an_example() {
    let shown: BTreeSet<_> = examples()
        .iter()
        .filter_map(Payload::event_type)
        .map(EventType::name)
        .collect();
    let known: BTreeSet<_> = TYPES.iter().map(|info| info.name).collect();
    assert_eq!(shown, known);
}

/// What the reference says about fields is what serde does.
#[test]
fn field_tables_agree_with_what_is_written() {
    for payload in examples() {
        let event = Event::new(None, None, payload);
        let info = event.event_type().unwrap().info();
        let data: Value = serde_json::from_str(event.data_json()).unwrap();
        let written: BTreeSet<_> = data.as_object().unwrap().keys().map(String::as_str).collect();
        let known: BTreeSet<_> = info.fields.iter().map(|field| field.name).collect();
        assert!(written.is_subset(&known), "{}: {written:?} not in {known:?}", info.name);
        assert!(
            fields(info, true).is_subset(&written),
            "{}: required fields missing in {written:?}",
            info.name
        );
    }
}

#[test]
fn every_example_reads_back_as_it_was_made() {
    for payload in examples() {
        let made = Event::new(None, None, payload);
        let read = Event::parse(made.json().clone()).unwrap();
        assert_eq!(read.payload(), made.payload());
        assert_eq!(read.event_type(), made.event_type());
        assert_eq!(
            read.is_ephemeral(),
            made.event_type().unwrap().is_ephemeral(),
            "{}",
            made.kind()
        );
    }
}

/// A required field that is missing is noticed, one by one, and nothing is lost.
#[test]
fn data_that_lacks_a_required_field_is_kept_as_unknown() {
    for payload in examples() {
        let made = Event::new(None, None, payload);
        let data: serde_json::Map<_, Value> = serde_json::from_str(made.data_json()).unwrap();
        for field in made.event_type().unwrap().info().fields {
            if field.presence != lodge_events::Presence::Required || !data.contains_key(field.name) {
                continue;
            }
            let mut cut = data.clone();
            cut.remove(field.name);
            let json = made
                .as_str()
                .replacen(made.data_json(), &Value::Object(cut.clone()).to_string(), 1);
            let read = Event::parse(json.clone().into()).unwrap();
            let Payload::Unknown(unknown) = read.payload() else {
                panic!("{} is complete without {}", made.kind(), field.name)
            };
            assert_eq!(unknown.data(), Value::Object(cut).to_string());
            assert_eq!(read.as_str(), json);
        }
    }
}
