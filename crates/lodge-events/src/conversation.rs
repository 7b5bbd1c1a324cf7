//! What others add to the conversation: the user, the system, an abort.

use crate::macros::events;
use crate::{AbortReason, AgentMode, Attachment, Delivery, Notification, PromptMetadata, SystemRole};

/// The source of a `user.message` that is a command to the host: the model does not see it. The `session.info` of this type
/// that follows is its answer.
pub const COMMAND_SOURCE: &str = "command";

events! {
    "Conversation";

    "user.message" UserMessage persisted seed
        "The user sent a message." {
        content: String = "The message, as it is shown.",
        message_id? String = "Identifier that the sender was given; clients wait for it.",
        transformed_content? String = "The message, as the model gets it.",
        attachments? Vec<Attachment> = "What is attached.",
        supported_native_document_mime_types? Vec<String> = "Kinds of documents given to the model as they are.",
        native_document_path_fallback_paths? Vec<String> = "Documents given to the model by path.",
        source? String = "Where the message came from.",
        delivery? Delivery = "How it reached the loop.",
        agent_mode? AgentMode = "Mode it was sent in.",
        is_autopilot_continuation? bool = "True when autopilot wrote it.",
        interaction_id? String = "Joins all turns of this message.",
        turn_id? String = "Turn that took it up.",
        parent_agent_task_id? String = "Task of the agent it belongs to.",
    }

    "pending_messages.modified" PendingMessagesModified ephemeral newer
        "The queue of waiting messages changed." {}

    "system.message" SystemMessage persisted seed
        "A system or developer prompt." {
        content: String = "The prompt.",
        interaction_id? String = "Joins all turns of one user message.",
        role: SystemRole = "Who it speaks as.",
        name? String = "Where it comes from.",
        metadata? PromptMetadata = "The template it was made from.",
    }

    "system.notification" SystemNotification persisted newer
        "The system notifies the agent of something, such as the end of a background task." {
        content: String = "The text the model gets.",
        kind: Notification = "What happened.",
    }

    "abort" Abort persisted seed
        "The current turn was aborted." {
        reason: AbortReason = "Why.",
    }
}
