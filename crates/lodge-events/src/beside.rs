//! Lodge's own event types: what is true of a session and no type of the SDK's schema can say.
//!
//! They hang beside the chain: `parentId` is the last event of the chain, and no event has one of them as its parent.
//! So every client sees an unbroken chain whether or not it is sent them. In the log they carry `ephemeral: true`,
//! because that is how programs that do not know them (older builds, the Copilot CLI) pass over events that are
//! nobody's parent.

use std::collections::BTreeMap;

use crate::macros::{events, shapes};
use crate::{ApprovalMode, ModelMetric, RuleEffect};

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
        duration? u64 = "Milliseconds that the call took.",
        initiator? String = "Who made the call, if not an agent for its conversation: `compaction`, `mcp-sampling`, `side-question`.",
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

    "lodge.rules" LodgeRules persisted newer
        "The rules of the session have changed. Rules for a directory or a user are never in a log." {
        rules: Vec<SessionRule> = "All rules of the session from now on.",
    }

    "lodge.rewound" LodgeRewound persisted newer
        "The conversation was taken back. From the event that it names on, the chain counts no more, and goes on from this event's parent. What hangs beside the chain stays. Clients are told by `session.snapshot_rewind`; readers of the log are given neither this event nor what it hides." {
        up_to_event_id: String = "Id of the first event that counts no more.",
        events_removed: u64 = "How many events of the chain count no more.",
    }
}

shapes! {
    SessionRule "A permission rule of a session." {
        effect: RuleEffect = "What it does.",
        kind: String = "What it is about: `tool`, `shell`, `read`, `write`, `path` or `url`.",
        argument: String = "The pattern it fits.",
    }
}
