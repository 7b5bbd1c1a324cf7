//! Permissions and other questions.

use lodge_events::*;
use serde_json::json;

use super::{map, text};

pub(super) fn permissions() -> Vec<Payload> {
    let shell = ShellPermission {
        full_command_text: "ls > a".into(),
        intention: "list".into(),
        commands: vec![ShellCommand {
            identifier: "ls".into(),
            read_only: true,
        }],
        possible_paths: vec!["a".into()],
        possible_urls: vec![PossibleUrl {
            url: "https://example.test".into(),
        }],
        command_segments: Some(vec![CommandSegment {
            identifier: "ls".into(),
            full_command_text: "ls".into(),
        }]),
        has_write_file_redirection: true,
        can_offer_session_approval: true,
        ..Default::default()
    };
    let requests: [PermissionRequest; 8] = [
        shell.into(),
        WritePermission {
            file_name: "a".into(),
            new_file_contents: text("b"),
            ..Default::default()
        }
        .into(),
        ReadPermission {
            path: "a".into(),
            intention: "look".into(),
            ..Default::default()
        }
        .into(),
        McpPermission {
            server_name: "s".into(),
            args: Some(json!({})),
            ..Default::default()
        }
        .into(),
        UrlPermission {
            url: "https://example.test".into(),
            ..Default::default()
        }
        .into(),
        MemoryPermission {
            action: Some(MemoryAction::Store),
            subject: text("s"),
            fact: "f".into(),
            citations: text("c"),
            direction: Some(MemoryDirection::Upvote),
            scope: Some(MemoryScope::User),
            ..Default::default()
        }
        .into(),
        CustomToolPermission {
            tool_name: "t".into(),
            args: Some(json!({"a": 1})),
            ..Default::default()
        }
        .into(),
        HookPermission {
            tool_name: "t".into(),
            ..Default::default()
        }
        .into(),
    ];
    let results = [
        PermissionResult::approved(),
        PermissionResult::denied_by_rules(vec![PermissionRule {
            kind: "Shell".into(),
            argument: None,
        }]),
        PermissionResult::denied_by_user(text("no")),
        PermissionResult::nobody_to_ask(),
        PermissionResult::excluded("a", "excluded"),
        PermissionResult::denied_by_hook(None),
        PermissionResult::cancelled(None),
        PermissionResult::approved_for_session(json!({"kind": "commands", "commandIdentifiers": ["ls"]})),
        PermissionResult::approved_for_location(json!({"kind": "write"}), "/project"),
    ];
    let requested = requests.map(|request| {
        let request = request.with_tool_call_id(Some("call_1".into()));
        PermissionRequested {
            request_id: "p".into(),
            prompt_request: request.prompt(),
            permission_request: request,
            agent_mode: Some(SessionMode::Plan),
            ..Default::default()
        }
        .into()
    });
    let completed = results.map(|result| {
        PermissionCompleted {
            request_id: "p".into(),
            tool_call_id: text("call_1"),
            result,
            decision_source: Some(PermissionDecisionSource::HumanResponse),
        }
        .into()
    });
    requested.into_iter().chain(completed).collect()
}

pub(super) fn questions() -> Vec<Payload> {
    let request_id = || "q".to_owned();
    let form = ElicitationSchema {
        properties: map(json!({"answer": {"type": "string"}})),
        required: Some(vec!["answer".into()]),
        ..Default::default()
    };
    vec![
        UserInputRequested {
            request_id: request_id(),
            question: "Which?".into(),
            choices: Some(vec!["A".into()]),
            allow_freeform: Some(true),
            tool_call_id: text("call_1"),
        }
        .into(),
        UserInputCompleted {
            request_id: request_id(),
            answer: text("A"),
            was_freeform: Some(false),
        }
        .into(),
        ElicitationRequested {
            request_id: request_id(),
            message: "Need details".into(),
            mode: Some(ElicitationMode::Form),
            requested_schema: Some(form),
            ..Default::default()
        }
        .into(),
        ElicitationCompleted {
            request_id: request_id(),
            action: Some(ElicitationAction::Accept),
            content: Some(json!({"answer": "x", "sure": true})),
        }
        .into(),
        ExternalToolRequested {
            request_id: request_id(),
            session_id: "s".into(),
            tool_call_id: "call_1".into(),
            tool_name: "t".into(),
            arguments: Some(json!({"value": 1})),
            ..Default::default()
        }
        .into(),
        ExternalToolCompleted {
            request_id: request_id(),
        }
        .into(),
        CommandQueued {
            request_id: request_id(),
            command: "/help".into(),
        }
        .into(),
        CommandExecute {
            request_id: request_id(),
            command: "/deploy production".into(),
            command_name: "deploy".into(),
            args: "production".into(),
        }
        .into(),
        CommandCompleted {
            request_id: request_id(),
        }
        .into(),
        ExitPlanModeRequested {
            request_id: request_id(),
            actions: vec![ExitPlanModeAction::Autopilot, ExitPlanModeAction::Interactive],
            recommended_action: ExitPlanModeAction::Interactive,
            ..Default::default()
        }
        .into(),
        ExitPlanModeCompleted {
            request_id: request_id(),
            approved: Some(true),
            selected_action: Some(ExitPlanModeAction::Autopilot),
            ..Default::default()
        }
        .into(),
        AutoModeSwitchRequested {
            request_id: request_id(),
            retry_after_seconds: Some(1),
            error_code: None,
        }
        .into(),
        AutoModeSwitchCompleted {
            request_id: request_id(),
            response: AutoModeSwitchResponse::Yes,
        }
        .into(),
        SessionLimitsExhaustedRequested {
            request_id: request_id(),
            used_ai_credits: 5.0,
            max_ai_credits: 5.0,
        }
        .into(),
        SessionLimitsExhaustedCompleted {
            request_id: request_id(),
            response: LimitsAnswer {
                action: LimitsAction::Add,
                additional_ai_credits: Some(1.0),
                ..Default::default()
            },
        }
        .into(),
    ]
}
