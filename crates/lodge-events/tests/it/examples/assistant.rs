//! What the assistant says, and its model calls.

use std::collections::BTreeMap;

use lodge_events::*;
use serde_json::json;

use super::{WHEN, text};

pub(super) fn assistant() -> Vec<Payload> {
    let call = ToolRequest {
        tool_call_id: "call_1".into(),
        name: "bash".into(),
        arguments: Some(json!({"command": "ls"})),
        type_: Some(ToolRequestType::Function),
        tool_title: text("Shell"),
        intention_summary: text("list files"),
        ..Default::default()
    };
    let quota = QuotaSnapshot {
        entitlement_requests: -1,
        is_unlimited_entitlement: true,
        remaining_percentage: 100.0,
        reset_date: text(WHEN),
        ..Default::default()
    };
    let detail = UsageTokenDetail {
        batch_size: 1,
        cost_per_batch: 2,
        token_count: 3,
        token_type: "input".into(),
        model: None,
    };
    let usage = CopilotUsage {
        token_details: Some(vec![detail]),
        total_nano_aiu: 6.0,
        model: None,
    };
    vec![
        AssistantTurnStart {
            turn_id: "0".into(),
            interaction_id: text("i"),
            model: text("rehearsal"),
        }
        .into(),
        AssistantIntent {
            intent: "Exploring codebase".into(),
        }
        .into(),
        AssistantReasoning {
            reasoning_id: "r".into(),
            content: "Hm.".into(),
            rte: None,
        }
        .into(),
        AssistantReasoningDelta {
            reasoning_id: "r".into(),
            delta_content: "Hm".into(),
        }
        .into(),
        AssistantStreamingDelta {
            total_response_size_bytes: 200,
        }
        .into(),
        AssistantMessage {
            message_id: "m".into(),
            content: "Hello".into(),
            ..Default::default()
        }
        .into(),
        AssistantMessage {
            message_id: "m".into(),
            originating_message_id: text("u"),
            model: text("rehearsal"),
            content: String::new(),
            tool_requests: Some(vec![call]),
            reasoning_opaque: text("…"),
            reasoning_text: text("Hm."),
            encrypted_content: text("…"),
            phase: text("response"),
            output_tokens: Some(3),
            interaction_id: text("i"),
            request_id: text("r"),
            api_call_id: text("a"),
            turn_id: text("0"),
            parent_tool_call_id: text("call_0"),
            ..Default::default()
        }
        .into(),
        AssistantMessageStart {
            message_id: "m".into(),
            phase: None,
        }
        .into(),
        AssistantMessageDelta {
            message_id: "m".into(),
            delta_content: "Hel".into(),
            parent_tool_call_id: None,
        }
        .into(),
        AssistantToolCallDelta {
            tool_call_id: "call_1".into(),
            tool_name: text("bash"),
            tool_type: Some(ToolRequestType::Function),
            input_delta: "{\"comm".into(),
        }
        .into(),
        AssistantTurnRetry {
            turn_id: "0".into(),
            model: None,
            reason: text("streaming_error"),
        }
        .into(),
        AssistantTurnEnd {
            turn_id: "0".into(),
            model: None,
        }
        .into(),
        AssistantIdle { aborted: Some(true) }.into(),
        AssistantUsage {
            model: "rehearsal".into(),
            input_tokens: Some(1),
            output_tokens: Some(2),
            cache_read_tokens: Some(3),
            cache_write_tokens: Some(4),
            cost: Some(1.0),
            duration: Some(8),
            time_to_first_token_ms: Some(7.24),
            initiator: text("sub-agent"),
            api_call_id: text("chatcmpl-abc"),
            provider_call_id: text("p"),
            api_endpoint: Some(ApiEndpoint::ChatCompletions),
            transport: Some(Transport::Http),
            parent_tool_call_id: text("call_0"),
            quota_snapshots: Some(BTreeMap::from([("chat".into(), quota.clone())])),
            copilot_usage: Some(usage),
            reasoning_summary: Some(ReasoningSummary::Concise),
            tool_counts: Some(BTreeMap::from([("bash".into(), 1)])),
            ..Default::default()
        }
        .into(),
        ModelCallStart {
            turn_id: "0".into(),
            model: text("rehearsal"),
            previous_response_id: None,
        }
        .into(),
        ModelCallFinished {
            turn_id: "0".into(),
            dispatch_duration_ms: 1.5,
            outcome: CallOutcome::Success,
            edit_classifier_version: 1,
            ..Default::default()
        }
        .into(),
        ModelCallFailure {
            source: FailureSource::TopLevel,
            status_code: Some(404),
            failure_kind: Some(FailureKind::Api),
            bad_request_kind: Some(BadRequestKind::Bodyless),
            quota_snapshots: Some(BTreeMap::from([("chat".into(), quota)])),
            request_fingerprint: Some(RequestFingerprint {
                message_count: 2,
                ..Default::default()
            }),
            ..Default::default()
        }
        .into(),
        AgentInterrupted {
            activity: InterruptedActivity::ModelCall,
            elapsed_ms: 12.5,
            cancel_phase: Some(CancelPhase::MidStream),
            ..Default::default()
        }
        .into(),
    ]
}
