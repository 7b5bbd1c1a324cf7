//! Lodge's own event types: what is true of a session and no type of the SDK's schema can say.
//!
//! They hang beside the chain: `parentId` is the last event of the chain, and no event has one of them as its parent.
//! So every client sees an unbroken chain whether or not it is sent them. In the log they carry `ephemeral: true`,
//! because that is how programs that do not know them (older builds, the Copilot CLI) pass over events that are
//! nobody's parent.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::macros::{events, shapes};
use crate::{
    AgentMode, ApprovalMode, AskedKind, Attachment, ChatBeginning, MessageLane, ModelMetric, RemovalReason, RuleEffect,
};

/// What the name of every type of Lodge's own begins with.
const NAMESPACE: &str = "lodge.";

/// Whether events of the type with this name hang beside the chain. It holds for types of newer builds, too.
pub fn is_beside(kind: &str) -> bool {
    kind.starts_with(NAMESPACE)
}

events! {
    "Lodge's own types";

    "lodge.usage" LodgeUsage persisted newer
        "Usage of one model call. There is one for every call that got an answer; a session's totals are their sum." {
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
        estimated_input_tokens? u64 = "Input tokens as Lodge had estimated them from the request's size.",
    }

    "lodge.usage_carried" LodgeUsageCarried persisted newer
        "Usage that earlier builds counted without recording an event. A lower bound for the totals up to here." {
        model_metrics: BTreeMap<String, ModelMetric> = "Usage by model.",
        total_api_duration_ms: u64 = "Milliseconds spent in model calls.",
    }

    "lodge.approval" LodgeApproval persisted newer
        "The approval mode changed." {
        mode: ApprovalMode = "What is asked from now on.",
    }

    "lodge.schedule_ran" LodgeScheduleRan persisted newer
        "A scheduled prompt was sent. Missed runs are caught up once." {
        id: u64 = "The schedule.",
        time: u64 = "When, in Unix milliseconds.",
        message_id: String = "The message that was sent.",
    }

    "lodge.program" LodgeProgram persisted newer
        "Another program's agent runs the conversation from here on." {
        agent: String = "The agent, as sessions choose it.",
        session_id: String = "The program's id for the conversation.",
    }

    "lodge.rules" LodgeRules persisted newer
        "The rules of the session have changed. Rules for a directory or a user are never in a log." {
        rules: Vec<SessionRule> = "All rules of the session from now on.",
    }

    "lodge.rewound" LodgeRewound persisted newer
        "The conversation was rewound. The chain no longer counts from the event that this one names, and continues from this event's parent. Events beside the chain stay, except for the texts that rewound messages had in the queue. Clients are notified by `session.snapshot_rewind`; readers of the log get neither this event nor the hidden ones." {
        up_to_event_id: String = "Id of the first event that no longer counts.",
        events_removed: u64 = "How many events of the chain no longer count.",
        message_ids? Vec<String> = "Messages among them. Events beside the chain about these messages no longer count, either.",
    }

    "lodge.message_written" LodgeMessageWritten persisted newer
        "The parts of a message that the agent does not get. It precedes the message, and the last one counts." {
        message_id: String = "Identifier of the message.",
        attachments? Vec<Value> = "What people see attached, as the client that sent it describes it, without the bytes that the message has.",
        model? String = "The model that its sender chose for it.",
        model_options? Value = "What its sender chose about that model.",
        agent? String = "The address of the custom agent that its sender chose for it.",
        notes? Value = "What its sender added for itself.",
        by_automation? bool = "True when an automation sent it, not a person.",
    }

    "lodge.message_queued" LodgeMessageQueued persisted newer
        "A message was accepted. It is queued until a `user.message` with its id takes it into the conversation." {
        message_id: String = "Identifier of the message.",
        item: QueuedMessage = "The message.",
        lane: MessageLane = "What it waits for.",
        at? u64 = "Its position in that queue; last if omitted.",
        begins? bool = "True when its turn begins at once, as far as its sender can see: clients show it as a turn, not as a queued message.",
        replaces? String = "The queued message that it replaces, which is removed.",
    }

    "lodge.message_begun" LodgeMessageBegun persisted newer
        "The turn of a queued message begins: clients show it as a turn. The message joins the conversation once it is prepared." {
        message_id: String = "Identifier of the message.",
        replaces? String = "The queued message that it replaces, which is removed.",
    }

    "lodge.message_edited" LodgeMessageEdited persisted newer
        "A queued message was edited." {
        message_id: String = "Identifier of the message.",
        item: QueuedMessage = "The message from now on.",
        replaces? String = "The queued message that it replaces, which is removed.",
    }

    "lodge.message_moved" LodgeMessageMoved persisted newer
        "Queued messages were reordered." {
        lane: MessageLane = "Which queue they are in from now on.",
        order: Vec<String> = "They come first in the queue, in this order; the others follow in their old order.",
    }

    "lodge.message_removed" LodgeMessageRemoved persisted newer
        "Queued messages were removed and will not be sent." {
        ids: Vec<String> = "Identifiers of the messages.",
        why: RemovalReason = "Why.",
    }

    "lodge.message_parked" LodgeMessageParked persisted newer
        "A message is held until someone sends, edits or moves it: the host stopped twice when its turn began." {
        message_id: String = "Identifier of the message.",
    }

    "lodge.turn_retried" LodgeTurnRetried persisted newer
        "A turn that was running or about to begin when the host stopped is resumed." {
        message_id: String = "Identifier of the message that the turn answers.",
    }

    "lodge.partial" LodgePartial persisted newer
        "A part of a streaming answer, written every second or 4 KiB. The `assistant.message` with the same id stands for all of them; without one, the answer broke off." {
        message_id: String = "Identifier of the answer.",
        at: u64 = "Where the piece begins, in bytes of the answer.",
        content: String = "The piece.",
        turn_id? String = "The model call.",
        interaction_id? String = "The interaction it belongs to.",
        originating_message_id? String = "The message that is answered.",
    }

    "lodge.turn_resumed" LodgeTurnResumed persisted newer
        "A turn that failed, or that was interrupted when the host stopped, is resumed." {
        message_id: String = "Identifier of the message that the turn answers.",
    }

    "lodge.worktree_wanted" LodgeWorktreeWanted persisted newer
        "The session will work in its own git worktree, which is created before the first message joins the conversation." {
        base: String = "Where the worktree starts: a branch, or `HEAD`.",
    }

    "lodge.question" LodgeQuestion persisted newer
        "A question was put to people. If it is asked again after a restart, it has the same id." {
        request_id: String = "Identifier of the question.",
        kind: AskedKind = "What is asked for.",
        tool_call_id? String = "Tool call that waits for the answer.",
        digest: String = "Identifies exactly what was asked: an answer is valid for nothing else.",
        message: String = "What was asked, in short.",
        shown? Value = "What people were shown of a form or a plan: the data of `elicitation.requested` or `exit_plan_mode.requested`; of a permission request, what a `lasting` approval covers.",
    }

    "lodge.answered" LodgeAnswered persisted newer
        "A question was answered. The first answer counts." {
        request_id: String = "Identifier of the question.",
        kind: AskedKind = "What was asked for.",
        tool_call_id? String = "Tool call that waits for the answer.",
        digest: String = "Identifies exactly what was asked.",
        by: AnsweredBy = "Who answered.",
        answer: Value = "The answer. What a form for an MCP server holds is left out.",
    }

    "lodge.named" LodgeNamed persisted newer
        "A person or an app named the session, or removed its name. Clients are notified by `session.title_changed`." {
        name? String = "The name; without one the first message names the session.",
        automatic? bool = "True when an app made the name up. A name that a person chose is not replaced by such a name.",
    }

    "lodge.directories" LodgeDirectories persisted newer
        "The session's additional directories changed." {
        further: Vec<String> = "All of them from now on.",
        chosen? Vec<String> = "Those of its session's directories that this chat has, the one it works in first; all if left out.",
    }

    "lodge.worktree" LodgeWorktree persisted newer
        "A git worktree was created for the session. It is deleted with the session." {
        path: String = "Where it is.",
        repository: String = "The root of the work tree it was made from.",
        branch: String = "Its own branch.",
        base: String = "The branch that it began at.",
    }

    "lodge.switched" LodgeSwitched persisted newer
        "Skills, agents, MCP servers or instructions were turned on or off for this session alone." {
        switches: BTreeMap<String, bool> = "All such decisions from now on: what is on, and what is off.",
    }

    "lodge.chat" LodgeChat persisted newer
        "The session is a chat of another session, or became an independent session." {
        session? String = "The session that it is a chat of; left out when it is a session of its own.",
        address: String = "What clients call the chat.",
        origin: ChatSource = "How it came to be.",
        hidden_turns? u64 = "How many of its first turns are not shown, because they are only a side chat's context.",
        born? String = "What clients called the session it was created in, if it was moved.",
    }

    "lodge.chats" LodgeChats persisted newer
        "The order in which the session's chats are listed changed." {
        order: Vec<String> = "What clients call the chats, in their order; those that are not named come after them.",
        default_title? String = "The name of its first chat, when it has several.",
    }
}

shapes! {
    QueuedMessage "A queued message." {
        text: String = "The text for the model.",
        display_text? String = "The text for people, where it differs.",
        attachments? Vec<Attachment> = "What is attached.",
        agent_mode? AgentMode = "Mode it was sent in.",
        source? String = "Where the message came from.",
        required_tool? String = "A tool that the model must call first.",
        response_format? Value = "The form that the answers must have.",
        message_id? String = "Identifier of a message that is sent before another one.",
        before? Vec<QueuedMessage> = "Messages that are sent before this one and not answered separately.",
        command? String = "The command that the person runs; no model is asked.",
        client? String = "The client that sent it: what only that client has is read from it.",
        needs_preparation? bool = "True when the face that it came through prepares it and begins its turn, where that face is attached.",
    }
    AnsweredBy "Who answered a question." {
        client? String = "The client that the answer came through.",
        device? String = "The paired device; none for the owner.",
        role? String = "The role of the person who answered.",
        rule? bool = "True when a rule decided and nobody was asked.",
    }
    ChatSource "How a chat came to be." {
        kind: ChatBeginning = "What it began as.",
        chat? String = "The chat that it was made from.",
        turn_id? String = "The last turn of that chat that it knows.",
        selection? String = "The text that a side chat is about.",
        part_id? String = "The part of an answer that the text was in.",
    }
    SessionRule "A permission rule of a session." {
        effect: RuleEffect = "What it does.",
        kind: String = "What it is about: `tool`, `shell`, `read`, `write`, `path` or `url`.",
        argument: String = "The pattern it fits.",
    }
}
