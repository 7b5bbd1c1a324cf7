//! Lodge's own event types: what is true of a session and no type of the SDK's schema can say.
//!
//! They hang beside the chain: `parentId` is the last event of the chain, and no event has one of them as its parent.
//! So every client sees an unbroken chain whether or not it is sent them. In the log they carry `ephemeral: true`,
//! because that is how programs that do not know them (older builds, the Copilot CLI) pass over events that are
//! nobody's parent.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::macros::{events, shapes};
use crate::{AgentMode, ApprovalMode, AskedKind, Attachment, MessageLane, ModelMetric, RemovalReason, RuleEffect};

/// What the name of every type of Lodge's own begins with.
const NAMESPACE: &str = "lodge.";

/// Whether events of the type with this name hang beside the chain. It holds for types of newer builds, too.
pub fn is_beside(kind: &str) -> bool {
    kind.starts_with(NAMESPACE)
}

events! {
    "Lodge's own types";

    "lodge.usage" LodgeUsage persisted newer
        "A model call was paid for. One for every call that came to an answer; the sums of a session add these up." {
        model: String = "Model that was called.",
        input_tokens? u64 = "Input tokens.",
        output_tokens? u64 = "Output tokens.",
        cache_read_tokens? u64 = "Tokens read from the prompt cache.",
        cache_write_tokens? u64 = "Tokens written to the prompt cache.",
        reasoning_tokens? u64 = "Output tokens spent on reasoning.",
        cost? f64 = "What the call cost, in the provider's unit.",
        total_nano_aiu? f64 = "The same in billionths of an AI unit, where the provider counts in those.",
        duration? u64 = "Milliseconds that the call took.",
        initiator? String = "Who made the call, if not the session's own agent: `sub-agent`, `compaction`, `mcp-sampling`, `side-question`.",
        attempt? u64 = "Number of the attempt that succeeded, if it was not the first.",
    }

    "lodge.usage_carried" LodgeUsageCarried persisted newer
        "What earlier builds had counted and no event says. A lower bound for the sums up to here." {
        model_metrics: BTreeMap<String, ModelMetric> = "Usage by model.",
        total_api_duration_ms: u64 = "Milliseconds spent in model calls.",
    }

    "lodge.approval" LodgeApproval persisted newer
        "What is asked before tools run has changed." {
        mode: ApprovalMode = "What is asked from now on.",
    }

    "lodge.schedule_ran" LodgeScheduleRan persisted newer
        "A scheduled prompt was sent. All times that were missed before are one run." {
        id: u64 = "The schedule.",
        time: u64 = "When, in Unix milliseconds.",
        message_id: String = "The message that was sent.",
    }

    "lodge.rules" LodgeRules persisted newer
        "The rules of the session have changed. Rules for a directory or a user are never in a log." {
        rules: Vec<SessionRule> = "All rules of the session from now on.",
    }

    "lodge.rewound" LodgeRewound persisted newer
        "The conversation was taken back. From the event that it names on, the chain counts no more, and goes on from this event's parent. What hangs beside the chain stays, but for what messages that were taken back said while they waited. Clients are told by `session.snapshot_rewind`; readers of the log are given neither this event nor what it hides." {
        up_to_event_id: String = "Id of the first event that counts no more.",
        events_removed: u64 = "How many events of the chain count no more.",
        message_ids? Vec<String> = "Messages among them. What hangs beside the chain about how they waited counts no more, either.",
    }

    "lodge.message_queued" LodgeMessageQueued persisted newer
        "A message was accepted. It waits until a `user.message` with its id takes it into the conversation." {
        message_id: String = "Identifier of the message.",
        item: QueuedMessage = "The message.",
        lane: MessageLane = "What it waits for.",
        at? u64 = "Its place among those that wait for the same; the last one if left out.",
    }

    "lodge.message_edited" LodgeMessageEdited persisted newer
        "A message that waits says something else." {
        message_id: String = "Identifier of the message.",
        item: QueuedMessage = "The message from now on.",
    }

    "lodge.message_moved" LodgeMessageMoved persisted newer
        "Messages that wait changed places." {
        lane: MessageLane = "What they wait for from now on.",
        order: Vec<String> = "They come first there, in this order; what else waits there stays behind them as it was.",
    }

    "lodge.message_removed" LodgeMessageRemoved persisted newer
        "Messages do not wait any more and are not said." {
        ids: Vec<String> = "Identifiers of the messages.",
        why: RemovalReason = "Why.",
    }

    "lodge.message_parked" LodgeMessageParked persisted newer
        "A message waits until somebody sends, edits or moves it: the host went down twice when its turn began." {
        message_id: String = "Identifier of the message.",
    }

    "lodge.turn_retried" LodgeTurnRetried persisted newer
        "A turn that was under way when the host went down, or was about to begin, is taken up." {
        message_id: String = "Identifier of the message that the turn answers.",
    }

    "lodge.question" LodgeQuestion persisted newer
        "People were asked something. Asked again after a restart, it has the same id." {
        request_id: String = "Identifier of the question.",
        kind: AskedKind = "What is asked for.",
        tool_call_id? String = "Tool call that waits for the answer.",
        digest: String = "Stands for what exactly was asked: an answer holds for nothing else.",
        message: String = "What was asked, in short.",
    }

    "lodge.answered" LodgeAnswered persisted newer
        "A question was answered. The first answer counts." {
        request_id: String = "Identifier of the question.",
        kind: AskedKind = "What was asked for.",
        tool_call_id? String = "Tool call that waits for the answer.",
        digest: String = "Stands for what exactly was asked.",
        by: AnsweredBy = "Who answered.",
        answer: Value = "The answer. What a form for an MCP server holds is left out.",
    }
}

shapes! {
    QueuedMessage "A message that waits." {
        text: String = "The text for the model.",
        display_text? String = "The text for people, where it differs.",
        attachments? Vec<Attachment> = "What is attached.",
        agent_mode? AgentMode = "Mode it was sent in.",
        source? String = "Where the message came from.",
        required_tool? String = "A tool that the model must call first.",
        response_format? Value = "The form that the answers must have.",
        message_id? String = "Identifier of a message that is said before another one.",
        before? Vec<QueuedMessage> = "Messages that are said before this one and not answered by themselves.",
        command? String = "The command that the person runs; no model is asked.",
        needs_preparation? bool = "True when the face that it came through prepares it and begins its turn, where that face is attached.",
    }
    AnsweredBy "Who answered a question." {
        client? String = "The client that the answer came through.",
        device? String = "The paired device; none for the owner.",
        role? String = "What whoever answered may do.",
        rule? bool = "True when a rule decided and nobody was asked.",
    }
    SessionRule "A permission rule of a session." {
        effect: RuleEffect = "What it does.",
        kind: String = "What it is about: `tool`, `shell`, `read`, `write`, `path` or `url`.",
        argument: String = "The pattern it fits.",
    }
}
