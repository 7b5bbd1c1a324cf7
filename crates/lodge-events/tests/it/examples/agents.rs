//! Sub-agents, skills and hooks; the user and the system.

use lodge_events::*;
use serde_json::json;

use super::{map, text};

pub(super) fn agents() -> Vec<Payload> {
    vec![
        SubagentStarted {
            tool_call_id: "c".into(),
            agent_name: "task".into(),
            agent_display_name: "Task Agent".into(),
            agent_description: "…".into(),
            task_model_source: Some(TaskModelSource::Unset),
            model_selection_source: Some(ModelSelectionSource::SessionInheritance),
            ..Default::default()
        }
        .into(),
        SubagentConfigured {
            model: "m".into(),
            multi_turn: true,
            ..Default::default()
        }
        .into(),
        SubagentCompleted {
            tool_call_id: "c".into(),
            duration_ms: Some(1),
            ..Default::default()
        }
        .into(),
        SubagentFailed {
            tool_call_id: "c".into(),
            error: "no".into(),
            ..Default::default()
        }
        .into(),
        SubagentSelected {
            agent_name: "a".into(),
            agent_display_name: "A".into(),
            tools: None,
        }
        .into(),
        SubagentSelected {
            tools: Some(vec!["bash".into()]),
            ..Default::default()
        }
        .into(),
        SubagentDeselected {}.into(),
        SkillInvoked {
            name: "s".into(),
            path: "/s/SKILL.md".into(),
            content: "…".into(),
            allowed_tools: Some(vec!["bash".into()]),
            trigger: Some(SkillTrigger::AgentInvoked),
            ..Default::default()
        }
        .into(),
        HookStart {
            hook_invocation_id: "h".into(),
            hook_type: "preToolUse".into(),
            input: Some(json!({"cwd": "/"})),
            parent_tool_call_id: None,
        }
        .into(),
        HookEnd {
            hook_invocation_id: "h".into(),
            hook_type: "preToolUse".into(),
            error: Some(HookError {
                message: "no".into(),
                ..Default::default()
            }),
            ..Default::default()
        }
        .into(),
    ]
}

pub(super) fn conversation() -> Vec<Payload> {
    let attachments = vec![
        FileAttachment {
            path: "/a".into(),
            line_range: Some(LineRange { start: 1, end: 2 }),
            ..Default::default()
        }
        .into(),
        DirectoryAttachment {
            path: "/a".into(),
            display_name: "a".into(),
            tagged_files_entry: None,
        }
        .into(),
        SelectionAttachment {
            file_path: "/a".into(),
            display_name: "a".into(),
            text: "x".into(),
            selection: SelectionRange {
                start: TextPosition::default(),
                end: TextPosition { line: 0, character: 1 },
            },
        }
        .into(),
        BlobAttachment {
            data: text("AA=="),
            mime_type: "image/png".into(),
            ..Default::default()
        }
        .into(),
        GithubReferenceAttachment {
            number: 1,
            reference_type: GithubReferenceType::Pr,
            ..Default::default()
        }
        .into(),
    ];
    let notifications: [Notification; 7] = [
        AgentCompleted {
            agent_id: "a".into(),
            status: AgentStatus::Failed,
            ..Default::default()
        }
        .into(),
        AgentIdle {
            agent_id: "a".into(),
            ..Default::default()
        }
        .into(),
        NewInboxMessage::default().into(),
        ShellCompleted {
            shell_id: "s".into(),
            exit_code: Some(-1),
            description: None,
        }
        .into(),
        ShellDetachedCompleted {
            shell_id: "s".into(),
            description: None,
        }
        .into(),
        InstructionDiscovered::default().into(),
        Unclassified {
            metadata: Some(json!({"a": 1})),
        }
        .into(),
    ];
    let mut all: Vec<Payload> = vec![
        UserMessage {
            content: "hi".into(),
            message_id: text("u"),
            transformed_content: text("<hi>"),
            attachments: Some(attachments),
            source: text("cli"),
            delivery: Some(Delivery::Idle),
            agent_mode: Some(AgentMode::Shell),
            interaction_id: text("i"),
            ..Default::default()
        }
        .into(),
        PendingMessagesModified {}.into(),
        SystemMessage {
            content: "be good".into(),
            role: SystemRole::Developer,
            metadata: Some(PromptMetadata {
                prompt_version: text("1"),
                variables: Some(map(json!({"a": 1}))),
            }),
            ..Default::default()
        }
        .into(),
        Abort {
            reason: AbortReason::UserInitiated,
        }
        .into(),
    ];
    all.extend(notifications.map(|kind| {
        SystemNotification {
            content: "…".into(),
            kind,
        }
        .into()
    }));
    all
}
