//! The life cycle of a session: start, idle, errors, compaction, changes, end.

use std::collections::BTreeMap;

use crate::macros::events;
use crate::{
    AgentMetric, AutoTier, AutoTierFailure, BackgroundTasks, BinaryType, CodeChanges, CompactionTokensUsed,
    CompactionTrigger, ContextTier, FileOperation, GithubMcpToolConfig, ModelChangeSource, ModelMetric,
    ReasoningSummary, Remediation, RepositoryHostType, SessionLimits, SessionMode, ShutdownType, TaskOutcome,
    TokenDetail, Verbosity, WorkingDirectoryContext,
};
use serde_json::Value;

events! {
    "Session";

    "session.start" SessionStart persisted newer
        "The session begins. Always the first event of a log." {
        session_id: String = "Identifier of the session.",
        version: u64 = "Version of the event format.",
        producer: String = "Program that writes the events.",
        copilot_version: String = "Version of that program.",
        start_time: String = "When the session was created.",
        selected_model? String = "Model chosen at creation.",
        reasoning_effort? String = "Reasoning effort chosen.",
        reasoning_summary? ReasoningSummary = "Reasoning summary chosen.",
        verbosity? Verbosity = "Verbosity chosen.",
        context_tier? ContextTier = "Context size chosen.",
        auto_tier? AutoTier = "What automatic model choice prefers.",
        session_limits? SessionLimits = "Limits of the session.",
        context? WorkingDirectoryContext = "Directory and repository the session works in.",
        github_mcp_tool_config? GithubMcpToolConfig = "GitHub tools of this session.",
        already_in_use? bool = "Whether another client had the session.",
        remote_steerable? bool = "Whether the session can be controlled remotely.",
        detached_from_spawning_parent_session_id? String = "Session whose context this one continues.",
    }

    "session.resume" SessionResume persisted newer
        "The session was opened again." {
        resume_time: String = "When it was opened.",
        event_count: u64 = "Persisted events at that time.",
        events_file_size_bytes? u64 = "Size of the log at that time.",
        selected_model? String = "Model in use.",
        reasoning_effort? String = "Reasoning effort in use.",
        reasoning_summary? ReasoningSummary = "Reasoning summary in use.",
        verbosity? Verbosity = "Verbosity in use.",
        context_tier? ContextTier = "Context size in use.",
        auto_tier? AutoTier = "What automatic model choice prefers.",
        session_limits? SessionLimits = "Limits in force.",
        context? WorkingDirectoryContext = "Directory and repository the session works in.",
        already_in_use? bool = "Whether another client had the session.",
        session_was_active? bool = "Whether the session was already working in this process.",
        remote_steerable? bool = "Whether the session can be controlled remotely.",
        continue_pending_work? bool = "Whether open calls and questions are resumed.",
    }

    "session.idle" SessionIdle ephemeral seed
        "All work is done and the session waits for the next message." {
        background_tasks? BackgroundTasks = "Background work still running; not in the newest schema.",
        aborted? bool = "True when the work was aborted.",
        mode? SessionMode = "Mode of the session when it became idle.",
    }

    "session.error" SessionError persisted seed
        "Something went wrong while the session worked." {
        error_type: String = "Category, such as `authentication`, `quota`, `rate_limit`, `query`.",
        error_code? String = "Finer code of the provider.",
        eligible_for_auto_switch? bool = "Whether another model will be offered.",
        message: String = "The error, for people.",
        remediation? Remediation = "What the user must do to recover.",
        stack? String = "Where it happened, when known.",
        status_code? u64 = "HTTP status of the upstream request.",
        provider_call_id? String = "Request id of the service, for its logs.",
        service_request_id? String = "Request id of the Copilot service.",
        url? String = "Page with more about it.",
    }

    "session.info" SessionInfo persisted newer
        "Information for people." {
        info_type: String = "Category, such as `notification`, `context_window`, `mcp`.",
        message: String = "The message, for people.",
        url? String = "Page with more about it.",
        tip? String = "How to fix it.",
    }

    "session.warning" SessionWarning persisted newer
        "A warning for people." {
        warning_type: String = "Category, such as `subscription`, `policy`, `mcp`.",
        message: String = "The message, for people.",
        url? String = "Page with more about it.",
        remediation? Remediation = "What the user must do to recover.",
    }

    "session.compaction_start" SessionCompactionStart persisted seed
        "Compaction of the conversation begins." {
        model? String = "Model that will summarise.",
        system_tokens? u64 = "Tokens of system messages.",
        conversation_tokens? u64 = "Tokens of all other messages.",
        tool_definitions_tokens? u64 = "Tokens of tool definitions.",
        current_tokens? u64 = "Tokens altogether.",
        token_limit? u64 = "Size of the context window.",
        trigger? CompactionTrigger = "What made it start.",
    }

    "session.compaction_complete" SessionCompactionComplete persisted seed
        "Compaction of the conversation ended." {
        success: bool = "Whether it succeeded.",
        error? String = "The error, when it did not.",
        pre_compaction_tokens? u64 = "Tokens before.",
        post_compaction_tokens? u64 = "Tokens after.",
        pre_compaction_messages_length? u64 = "Messages before.",
        messages_removed? u64 = "Messages removed.",
        tokens_removed? i64 = "Tokens removed; below zero when the summary is longer than what it replaced.",
        custom_instructions? String = "What the user asked the summary to keep.",
        summary_content? String = "The summary.",
        active_factory_summary? String = "Reminder of running factories, appended to the context.",
        behavior_model_id? String = "Model whose behaviour is used when the summary is read again.",
        checkpoint_number? u64 = "Number of the checkpoint made.",
        checkpoint_path? String = "File of the checkpoint.",
        compaction_tokens_used? CompactionTokensUsed = "Tokens the summary cost.",
        request_id? String = "Request id of the service, for its logs.",
        service_request_id? String = "Request id of the Copilot service.",
        system_tokens? u64 = "Tokens of system messages, after.",
        conversation_tokens? u64 = "Tokens of all other messages, after.",
        tool_definitions_tokens? u64 = "Tokens of tool definitions, after.",
        status_code? u64 = "HTTP status, when the model call failed.",
        token_limit? u64 = "Size of the context window.",
        trigger? CompactionTrigger = "What made it start.",
    }

    "session.context_cleared" SessionContextCleared persisted newer
        "The conversation was cleared." {
        initial_message? String = "First message after it.",
        messages_cleared: u64 = "Messages cleared.",
    }

    "session.snapshot_rewind" SessionSnapshotRewind ephemeral newer
        "The session was rewound to an earlier point." {
        up_to_event_id: String = "This event and all after it were removed.",
        events_removed: u64 = "How many were removed.",
    }

    "session.title_changed" SessionTitleChanged ephemeral seed
        "The session has a new title." {
        title: String = "The title.",
    }

    "session.context_changed" SessionContextChanged persisted seed
        "The working directory or its repository changed." {
        cwd: String = "Working directory.",
        git_root? String = "Root of the git repository.",
        repository? String = "Repository as `owner/name`.",
        host_type? RepositoryHostType = "Where the repository is hosted.",
        repository_host? String = "Host in the remote's address.",
        branch? String = "Current branch.",
        head_commit? String = "Current commit.",
        base_commit? String = "Commit the branch started from.",
        pending_git_context? bool = "True when the repository is still being looked at and another event follows.",
    }

    "session.usage_info" SessionUsageInfo ephemeral seed
        "How full the context window is." {
        token_limit: u64 = "Size of the context window.",
        current_tokens: u64 = "Tokens in it.",
        messages_length: u64 = "Messages in the conversation.",
        system_tokens? u64 = "Tokens of system messages.",
        conversation_tokens? u64 = "Tokens of all other messages.",
        tool_definitions_tokens? u64 = "Tokens of tool definitions.",
        is_initial? bool = "True for the first of a session.",
    }

    "session.task_complete" SessionTaskComplete persisted seed
        "The agent says its task is done." {
        summary? String = "What was done.",
        success? bool = "Whether that was accepted.",
        outcome? TaskOutcome = "What was decided about it.",
        reason? String = "Why.",
        objective_id? i64 = "Objective that was judged.",
    }

    "session.shutdown" SessionShutdown persisted seed
        "The session has ended." {
        shutdown_type: ShutdownType = "Whether it ended normally or by an error.",
        error_reason? String = "The error, if it was one.",
        total_premium_requests! f64 = "Premium requests used; always 0, since models are paid for in other units.",
        total_nano_aiu? f64 = "Cost in billionths of an AI unit.",
        token_details? BTreeMap<String, TokenDetail> = "Tokens by kind.",
        total_api_duration_ms: u64 = "Milliseconds spent in model calls.",
        session_start_time: u64 = "When the session started, in Unix milliseconds.",
        events_file_size_bytes? u64 = "Size of the log.",
        code_changes: CodeChanges = "What changed in files.",
        model_metrics: BTreeMap<String, ModelMetric> = "Usage by model.",
        agent_metrics? BTreeMap<String, AgentMetric> = "Usage by agent.",
        current_model? String = "Model in use at the end.",
        current_tokens? u64 = "Tokens in the context window.",
        system_tokens? u64 = "Tokens of system messages.",
        conversation_tokens? u64 = "Tokens of all other messages.",
        tool_definitions_tokens? u64 = "Tokens of tool definitions.",
    }

    "session.model_change" SessionModelChange persisted newer
        "The model, or how it is called, changed." {
        previous_model? String = "Model before.",
        new_model: String = "Model after.",
        previous_reasoning_effort? String = "Reasoning effort before.",
        reasoning_effort? String = "Reasoning effort after.",
        previous_reasoning_summary? ReasoningSummary = "Reasoning summary before.",
        reasoning_summary? ReasoningSummary = "Reasoning summary after.",
        previous_verbosity? Verbosity = "Verbosity before.",
        verbosity? Verbosity = "Verbosity after.",
        context_tier? ContextTier = "Context size after.",
        cause? String = "Why, when it was not the user.",
        source? ModelChangeSource = "Where the change came from.",
        previous_auto_tier? AutoTier = "Automatic preference before.",
        auto_tier? AutoTier = "Automatic preference after.",
    }

    "session.auto_tier_switch_failed" SessionAutoTierSwitchFailed ephemeral newer
        "The preference for automatic model choice stays as it was: the provider made no choice." {
        effective_auto_tier? AutoTier = "The preference that stays.",
        requested_auto_tier: Value = "The preference that was asked for; null for the provider's own.",
        reason: AutoTierFailure = "Why it failed.",
    }

    "session.mode_changed" SessionModeChanged persisted newer
        "The session works in another mode." {
        previous_mode: SessionMode = "Mode before.",
        new_mode: SessionMode = "Mode after.",
    }

    "session.autopilot_stopped" SessionAutopilotStopped ephemeral newer
        "Autopilot no longer sends messages by itself. Background work may continue." {
        reason: String = "`task_complete`, `continuation_limit`, `rejected`, `aborted` or `error`.",
        request_id? String = "The message it worked on.",
    }

    "session.plan_changed" SessionPlanChanged persisted newer
        "The plan file changed." {
        operation: FileOperation = "What was done to it.",
    }

    "session.todos_changed" SessionTodosChanged ephemeral newer
        "The agent's list of tasks changed." {}

    "session.workspace_file_changed" SessionWorkspaceFileChanged persisted newer
        "A file in the session's workspace changed." {
        path: String = "Path within the workspace.",
        operation: FileOperation = "Whether it was created or updated.",
    }

    "session.background_tasks_changed" SessionBackgroundTasksChanged ephemeral newer
        "Background work started or ended." {}

    "session.binary_asset" SessionBinaryAsset persisted newer
        "Bytes that other events refer to by hash." {
        asset_id: String = "Hash of the content, such as `sha256:…`.",
        type_: BinaryType = "Image or anything else.",
        mime_type: String = "MIME type.",
        byte_length: u64 = "Length of the decoded bytes.",
        data: String = "The bytes in base64.",
        description? String = "What it is, for people.",
        metadata? Value = "What the tool that made it says about it.",
    }

    "session.remote_steerable_changed" SessionRemoteSteerableChanged persisted newer
        "Whether the session can be controlled remotely changed." {
        remote_steerable: bool = "Whether it can.",
    }
}
