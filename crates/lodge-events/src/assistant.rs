//! The assistant's messages and reasoning, and the model calls behind them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::macros::events;
use crate::{
    ApiEndpoint, BadRequestKind, CallOutcome, CancelPhase, CopilotUsage, FailureKind, FailureSource,
    InterruptedActivity, QuotaSnapshot, ReasoningSummary, RequestFingerprint, ToolRequest, ToolRequestType, Transport,
};

events! {
    "Assistant";

    "assistant.turn_start" AssistantTurnStart persisted seed
        "The agent begins a turn: one model call and the tools it asks for." {
        turn_id: String = "Number of the model call within one user message, as text, from `0`.",
        interaction_id? String = "Joins all turns of one user message.",
        model? String = "Model used for this turn, when known.",
    }

    "assistant.intent" AssistantIntent ephemeral seed
        "Short description of what the agent is doing, updated as it works." {
        intent: String = "What the agent is doing, for people, such as `Exploring codebase`.",
    }

    "assistant.reasoning" AssistantReasoning persisted seed
        "A complete block of the model's reasoning, once it is finished." {
        reasoning_id: String = "Identifier of this reasoning block.",
        content: String = "The complete reasoning text.",
        rte? bool = "Eligibility signal of the Copilot API.",
    }

    "assistant.reasoning_delta" AssistantReasoningDelta ephemeral seed
        "A piece of the model's reasoning, as it streams." {
        reasoning_id: String = "Matches the `assistant.reasoning` that follows.",
        delta_content: String = "Text to append to the reasoning.",
    }

    "assistant.streaming_delta" AssistantStreamingDelta ephemeral seed
        "Network progress of the model's answer." {
        total_response_size_bytes: u64 = "Bytes received so far.",
    }

    "assistant.message" AssistantMessage persisted seed
        "The assistant's complete answer of one model call. May ask for tools." {
        message_id: String = "Identifier of this message.",
        originating_message_id? String = "`messageId` of the user message that started the run; clients wait for it.",
        model? String = "Model that wrote the message.",
        content: String = "The text of the answer.",
        tool_requests? Vec<ToolRequest> = "Tool calls the assistant asks for.",
        reasoning_opaque? String = "Encrypted reasoning of Anthropic models; bound to the session.",
        reasoning_text? String = "Readable reasoning.",
        reasoning_wire_field? String = "Wire field a compatible provider used for reasoning.",
        encrypted_content? String = "Encrypted reasoning of OpenAI models; bound to the session.",
        phase? String = "Phase of generation, such as `thinking` or `response`.",
        chunk_index? u64 = "Position of this message in the answer, when the answer was split.",
        chunk_count? u64 = "Into how many messages the answer was split.",
        output_tokens? u64 = "Output tokens the provider counted.",
        interaction_id? String = "Joins all turns of one user message.",
        request_id? String = "Request id of the service, for its logs.",
        client_request_id? String = "Request id made by the client and echoed by the service.",
        service_request_id? String = "Request id of the Copilot service.",
        rte? bool = "Eligibility signal of the Copilot API.",
        api_call_id? String = "The provider's id of the answer.",
        server_tools? Value = "Tool use on the provider's side, kept verbatim.",
        reasoning_blocks? Value = "The provider's reasoning blocks, kept verbatim for the next call.",
        turn_id? String = "Turn that made the message.",
        parent_tool_call_id? String = "Set when the message comes from a sub-agent.",
        citations? Value = "Which spans of the text rest on which sources.",
    }

    "assistant.message_start" AssistantMessageStart ephemeral newer
        "The assistant begins to stream a message." {
        message_id: String = "Matches the deltas and the `assistant.message` that follow.",
        phase? String = "Phase of generation the message belongs to.",
    }

    "assistant.message_delta" AssistantMessageDelta ephemeral seed
        "A piece of the assistant's answer, as it streams." {
        message_id: String = "Matches the `assistant.message` that follows.",
        delta_content: String = "Text to append to the message.",
        parent_tool_call_id? String = "Set when the message comes from a sub-agent.",
    }

    "assistant.tool_call_delta" AssistantToolCallDelta ephemeral newer
        "A piece of a tool call's input, as it streams." {
        tool_call_id: String = "Matches the tool request in the `assistant.message` that follows.",
        tool_name? String = "Name of the tool, when known.",
        tool_type? ToolRequestType = "How the tool is called, when known.",
        input_delta: String = "Raw piece of input to append.",
    }

    "assistant.turn_retry" AssistantTurnRetry ephemeral newer
        "The model is called again within the same turn." {
        turn_id: String = "The turn.",
        model? String = "Model of the new attempt.",
        reason? String = "What made the retry necessary.",
    }

    "assistant.turn_end" AssistantTurnEnd persisted seed
        "The agent finished a turn, tools included." {
        turn_id: String = "Matches `assistant.turn_start`.",
        model? String = "Model used for this turn, when known.",
    }

    "assistant.idle" AssistantIdle ephemeral newer
        "The main agent's loop became idle, even if background work continues." {
        aborted? bool = "True when the loop was aborted.",
    }

    "assistant.usage" AssistantUsage ephemeral seed
        "Tokens and cost of one model call." {
        model: String = "The model.",
        input_tokens? u64 = "Tokens of the prompt.",
        output_tokens? u64 = "Tokens of the answer.",
        cache_read_tokens? u64 = "Tokens read from the prompt cache.",
        cache_write_tokens? u64 = "Tokens written to the prompt cache.",
        cache_expires_at? String = "When the prompt cache expires.",
        reasoning_tokens? u64 = "Output tokens spent on reasoning.",
        cost? f64 = "What the call cost in the provider's unit; 0 where the provider does not say.",
        duration? u64 = "Duration of the call in milliseconds.",
        time_to_first_token_ms? f64 = "Milliseconds to the first token.",
        output_ttft_ms? f64 = "Milliseconds to the first output of any kind.",
        inter_token_latency_ms? f64 = "Mean milliseconds between tokens.",
        initiator? String = "What made the call, such as `sub-agent`; absent for the user.",
        interaction_type? String = "Kind of interaction the call belongs to.",
        is_byok? bool = "Whether the user's own key was used.",
        is_auto? bool = "Whether the model was chosen automatically.",
        max_prompt_tokens? u64 = "Limit of prompt tokens in force.",
        max_output_tokens? u64 = "Limit of output tokens asked for.",
        accepted_prediction_tokens? u64 = "Predicted tokens that were accepted.",
        rejected_prediction_tokens? u64 = "Predicted tokens that were rejected.",
        transport? Transport = "How the model was called.",
        api_call_id? String = "The provider's id of the answer.",
        provider_call_id? String = "Request id of the service, for its logs.",
        service_request_id? String = "Request id of the Copilot service.",
        rte? bool = "Eligibility signal of the Copilot API.",
        api_endpoint? ApiEndpoint = "The wire used.",
        parent_tool_call_id? String = "Set when the call belongs to a sub-agent.",
        quota_snapshots? BTreeMap<String, QuotaSnapshot> = "Quotas after the call, by quota.",
        copilot_usage? CopilotUsage = "Itemised cost as the Copilot API reported it.",
        reasoning_effort? String = "Reasoning effort used.",
        reasoning_summary? ReasoningSummary = "Reasoning summary asked for.",
        available_tool_count? u64 = "Tools offered to the model.",
        tool_token_count? u64 = "Tokens of the tool definitions.",
        cache_ttl_seconds? u64 = "Lifetime of the prompt cache in seconds.",
        cache_details_reported? bool = "Whether the provider reported how the cache was used.",
        num_tool_calls? u64 = "Tool calls in the answer.",
        tool_counts? BTreeMap<String, u64> = "Tool calls in the answer, by tool.",
        finish_reason? String = "Why the model stopped.",
        content_filter_triggered? bool = "Whether a content filter cut the answer.",
    }

    "model.call_start" ModelCallStart ephemeral newer
        "A model is about to be called." {
        turn_id: String = "The turn that calls.",
        model? String = "The model, when known.",
        previous_response_id? String = "Earlier answer the request builds on.",
    }

    "model.call_finished" ModelCallFinished ephemeral newer
        "A model call ended, successfully or not." {
        turn_id: String = "The turn that called.",
        interaction_id? String = "Joins all turns of one user message.",
        dispatch_duration_ms: f64 = "Milliseconds spent on the call.",
        outcome: CallOutcome = "How it ended.",
        contains_built_in_file_edit_request? bool = "Whether the answer asks to edit a file.",
        edit_classifier_version: u64 = "Version of the rule behind the field above.",
    }

    "model.call_failure" ModelCallFailure ephemeral newer
        "A model call failed." {
        model? String = "The model.",
        initiator? String = "What made the call, such as `sub-agent`; absent for the user.",
        api_call_id? String = "The provider's id of the answer.",
        provider_call_id? String = "Request id of the service, for its logs.",
        service_request_id? String = "Request id of the Copilot service.",
        rte? bool = "Eligibility signal of the Copilot API.",
        status_code? u64 = "HTTP status.",
        duration_ms? u64 = "Duration of the call in milliseconds.",
        api_endpoint? ApiEndpoint = "The wire used.",
        transport? Transport = "How the model was called.",
        failure_kind? FailureKind = "Whether the answer or the way to it failed.",
        max_prompt_tokens? u64 = "Limit of prompt tokens in force.",
        max_output_tokens? u64 = "Limit of output tokens asked for.",
        is_byok? bool = "Whether the user's own key was used.",
        is_auto? bool = "Whether the model was chosen automatically.",
        reasoning_effort? String = "Reasoning effort used.",
        interaction_type? String = "Kind of interaction the call belongs to.",
        source: FailureSource = "What the call was for.",
        error_message? String = "The error as the provider reported it.",
        bad_request_kind? BadRequestKind = "For status 400: what the answer held.",
        error_code? String = "For status 400: the code in the answer.",
        error_type? String = "For status 400: the type in the answer.",
        quota_snapshots? BTreeMap<String, QuotaSnapshot> = "Quotas reported with the failure, by quota.",
        request_fingerprint? RequestFingerprint = "Counts that describe the failing request without its content.",
    }

    "agent.interrupted" AgentInterrupted ephemeral newer
        "The user interrupted work in progress." {
        activity: InterruptedActivity = "What the agent was doing.",
        elapsed_ms: f64 = "For how many milliseconds.",
        turn: u64 = "Turn the interruption fell in, from 0.",
        model? String = "Model that was being called.",
        api_endpoint? String = "Endpoint that was being called.",
        transport? Transport = "How it was being called.",
        reasoning_effort? String = "Reasoning effort asked for.",
        cancel_phase? CancelPhase = "Whether any token had arrived.",
        output_ttft_ms? f64 = "Milliseconds to the first output, if there was one.",
        tool_names? Vec<String> = "Tools that were running.",
        tool_call_ids? Vec<String> = "Their calls.",
        safe_tool_names? Vec<String> = "Those of them whose names may be shown.",
        interrupted_agent_count? u64 = "Background agents that were stopped.",
    }
}

impl AssistantUsage {
    /// The initiator of calls that a sub-agent makes for its conversation.
    pub const SUB_AGENT: &'static str = "sub-agent";

    /// Whether an agent made the call for its conversation, and not the host beside one.
    pub fn is_of_an_agent(&self) -> bool {
        self.initiator.as_deref().is_none_or(|who| who == Self::SUB_AGENT)
    }
}
