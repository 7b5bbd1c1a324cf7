//! One example or more of every event type, the way Lodge makes them.

use std::collections::BTreeMap;

use lodge_events::*;
use serde_json::{Map, Value, json};

const WHEN: &str = "2026-11-15T06:23:33.176Z";

fn text(text: &str) -> Option<String> {
    Some(text.into())
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

/// Payloads such that every type is there at least once, with all its required fields and the nested shapes.
pub(crate) fn examples() -> Vec<Payload> {
    let mut all = assistant();
    all.extend(tools());
    all.extend(session());
    all.extend(settings());
    all.extend(permissions());
    all.extend(questions());
    all.extend(agents());
    all.extend(conversation());
    all.extend(mcp());
    all
}

fn assistant() -> Vec<Payload> {
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
        AssistantServerToolProgress {
            output_index: 0,
            kind: "web_search".into(),
            status: "searching".into(),
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

fn tools() -> Vec<Payload> {
    let contents = vec![
        TextBlock { text: "a".into() }.into(),
        TerminalBlock {
            text: "a\n".into(),
            exit_code: Some(-1),
            cwd: text("/"),
        }
        .into(),
        ShellExitBlock {
            shell_id: "s".into(),
            exit_code: 0,
            ..Default::default()
        }
        .into(),
        ImageBlock {
            data: "AA==".into(),
            mime_type: "image/png".into(),
        }
        .into(),
        AudioBlock {
            data: "AA==".into(),
            mime_type: "audio/wav".into(),
        }
        .into(),
        ResourceLinkBlock {
            name: "n".into(),
            uri: "file:///n".into(),
            ..Default::default()
        }
        .into(),
        ResourceBlock {
            resource: ResourceContents {
                uri: "file:///n".into(),
                text: text("a"),
                ..Default::default()
            },
        }
        .into(),
        ResourceBlock {
            resource: ResourceContents {
                uri: "file:///n".into(),
                blob: text("AA=="),
                ..Default::default()
            },
        }
        .into(),
    ];
    let result = ToolResult {
        content: "a".into(),
        detailed_content: text("a"),
        contents: Some(contents),
        ..Default::default()
    };
    let error = ToolError {
        message: "no".into(),
        code: text("denied"),
        remediation: Some(Remediation::SignIn),
    };
    vec![
        ToolUserRequested {
            tool_call_id: "c".into(),
            tool_name: "bash".into(),
            arguments: Some(json!({})),
        }
        .into(),
        ToolExecutionStart {
            tool_call_id: "c".into(),
            tool_name: "bash".into(),
            arguments: Some(json!({"command": "ls"})),
            shell_tool_info: Some(ShellToolInfo {
                possible_paths: vec!["a".into()],
                ..Default::default()
            }),
            mcp_server_name: text("files"),
            mcp_tool_name: text("list"),
            mcp_transport: Some(McpTransport::Stdio),
            mcp_config_source: Some(McpSource::User),
            turn_id: text("0"),
            ..Default::default()
        }
        .into(),
        ToolExecutionPartialResult {
            tool_call_id: "c".into(),
            partial_output: "a".into(),
        }
        .into(),
        ToolExecutionProgress {
            tool_call_id: "c".into(),
            progress_message: "half".into(),
        }
        .into(),
        ToolExecutionComplete {
            tool_call_id: "c".into(),
            success: true,
            result: Some(result),
            is_user_requested: Some(true),
            tool_telemetry: Some(json!({"properties": {"outcome": "answered"}})),
            shell_execution: Some(ShellExecution { exit_code: 0 }),
            ..Default::default()
        }
        .into(),
        ToolExecutionComplete {
            tool_call_id: "c".into(),
            error: Some(error),
            ..Default::default()
        }
        .into(),
    ]
}

fn session() -> Vec<Payload> {
    let context = WorkingDirectoryContext {
        cwd: "/project".into(),
        git_root: text("/project"),
        repository: text("owner/name"),
        host_type: Some(RepositoryHostType::Github),
        branch: text("main"),
        ..Default::default()
    };
    let metric = ModelMetric {
        requests: ModelRequests {
            count: Some(2),
            cost: Some(2.0),
        },
        usage: ModelUsage {
            input_tokens: 1,
            ..Default::default()
        },
        token_details: Some(BTreeMap::from([("input".into(), TokenDetail { token_count: 1 })])),
        ..Default::default()
    };
    let metrics = BTreeMap::from([("rehearsal".to_owned(), metric)]);
    let tokens = CompactionTokensUsed {
        input_tokens: Some(1),
        output_tokens: Some(2),
        cache_read_tokens: Some(3),
        copilot_usage: Some(CopilotUsage::default()),
        ..Default::default()
    };
    vec![
        SessionStart {
            session_id: "s".into(),
            version: 1,
            producer: "lodge".into(),
            copilot_version: "0.1.0".into(),
            start_time: WHEN.into(),
            reasoning_summary: Some(ReasoningSummary::Detailed),
            verbosity: Some(Verbosity::Low),
            context_tier: Some(ContextTier::Default),
            auto_tier: Some(AutoTier::Balance),
            session_limits: Some(SessionLimits {
                max_ai_credits: Some(5.0),
            }),
            context: Some(context.clone()),
            github_mcp_tool_config: Some(GithubMcpToolConfig::default()),
            ..Default::default()
        }
        .into(),
        SessionResume {
            resume_time: WHEN.into(),
            event_count: 1,
            context: Some(context),
            ..Default::default()
        }
        .into(),
        SessionIdle {
            mode: Some(SessionMode::Interactive),
            ..Default::default()
        }
        .into(),
        SessionError {
            error_type: "query".into(),
            message: "404".into(),
            status_code: Some(404),
            ..Default::default()
        }
        .into(),
        SessionInfo {
            info_type: "notification".into(),
            message: "!".into(),
            ..Default::default()
        }
        .into(),
        SessionWarning {
            warning_type: "mcp".into(),
            message: "!".into(),
            ..Default::default()
        }
        .into(),
        SessionCompactionStart {
            trigger: Some(CompactionTrigger::Manual),
            ..Default::default()
        }
        .into(),
        SessionCompactionComplete {
            success: true,
            pre_compaction_tokens: Some(9),
            summary_content: text("…"),
            compaction_tokens_used: Some(tokens),
            ..Default::default()
        }
        .into(),
        SessionTruncation {
            performed_by: "lodge".into(),
            ..Default::default()
        }
        .into(),
        SessionContextCleared {
            messages_cleared: 3,
            initial_message: None,
        }
        .into(),
        SessionSnapshotRewind {
            up_to_event_id: Uuid::nil().to_string(),
            events_removed: 11,
        }
        .into(),
        SessionTitleChanged { title: "T".into() }.into(),
        SessionContextChanged {
            cwd: "/".into(),
            pending_git_context: Some(true),
            ..Default::default()
        }
        .into(),
        SessionUsageInfo {
            token_limit: 128_000,
            current_tokens: 1,
            messages_length: 2,
            ..Default::default()
        }
        .into(),
        SessionUsageCheckpoint {
            total_nano_aiu: 1.0,
            model_cache_state: Some(vec![ModelCacheState {
                cache_expires_at: WHEN.into(),
                ..Default::default()
            }]),
            ..Default::default()
        }
        .into(),
        SessionTaskComplete {
            outcome: Some(TaskOutcome::Completed),
            ..Default::default()
        }
        .into(),
        SessionShutdown {
            shutdown_type: ShutdownType::Routine,
            code_changes: CodeChanges {
                files_modified: vec!["a".into()],
                ..Default::default()
            },
            agent_metrics: Some(BTreeMap::from([(
                "main".into(),
                AgentMetric {
                    model_metrics: metrics.clone(),
                    ..Default::default()
                },
            )])),
            model_metrics: metrics,
            token_details: Some(BTreeMap::from([("input".into(), TokenDetail { token_count: 1 })])),
            ..Default::default()
        }
        .into(),
        SessionModelChange {
            new_model: "rehearsal".into(),
            source: Some(ModelChangeSource::Sdk),
            ..Default::default()
        }
        .into(),
        SessionModeChanged {
            previous_mode: SessionMode::Interactive,
            new_mode: SessionMode::Plan,
        }
        .into(),
        SessionPlanChanged {
            operation: FileOperation::Delete,
        }
        .into(),
        SessionTodosChanged {}.into(),
        SessionWorkspaceFileChanged {
            path: "plan.md".into(),
            operation: FileOperation::Create,
        }
        .into(),
        SessionBackgroundTasksChanged {}.into(),
        SessionBinaryAsset {
            asset_id: "sha256:0".into(),
            type_: BinaryType::Image,
            mime_type: "image/png".into(),
            byte_length: 1,
            data: "AA==".into(),
            ..Default::default()
        }
        .into(),
        SessionHandoff {
            handoff_time: WHEN.into(),
            source_type: HandoffSource::Local,
            repository: Some(HandoffRepository {
                owner: "o".into(),
                name: "n".into(),
                branch: None,
            }),
            ..Default::default()
        }
        .into(),
        SessionRemoteSteerableChanged { remote_steerable: true }.into(),
        SessionScheduleCreated {
            id: 1,
            prompt: "p".into(),
            origin: Some(ScheduleOrigin::User),
            ..Default::default()
        }
        .into(),
        SessionScheduleCancelled { id: 1 }.into(),
        SessionScheduleRearmed { id: 1, next_run_at: 1 }.into(),
    ]
}

fn settings() -> Vec<Payload> {
    let agent = CustomAgent {
        id: "a".into(),
        model_policy: Some(ModelPolicy::Required),
        ..Default::default()
    };
    let skill = SkillInfo {
        name: "s".into(),
        source: SkillSource::Project,
        ..Default::default()
    };
    vec![
        SessionPermissionsChanged {
            previous_mode: Some(PermissionMode::Manual),
            mode: Some(PermissionMode::AllowAll),
            assisted_approval_model: None,
        }
        .into(),
        SessionSessionLimitsChanged { session_limits: None }.into(),
        SessionToolsUpdated {
            model: "rehearsal".into(),
        }
        .into(),
        CapabilitiesChanged {
            ui: Some(UiCapabilities {
                elicitation: Some(true),
                ..Default::default()
            }),
        }
        .into(),
        CommandsChanged {
            commands: vec![CommandInfo {
                name: "deploy".into(),
                description: None,
            }],
        }
        .into(),
        SessionCustomAgentsUpdated {
            agents: vec![agent],
            ..Default::default()
        }
        .into(),
        SessionSkillsLoaded { skills: vec![skill] }.into(),
        SessionManagedSettingsResolved {
            source: ManagedSource::None,
            ..Default::default()
        }
        .into(),
        SessionAutoModeResolved {
            chosen_model: "m".into(),
            category_scores: Some(BTreeMap::from([("c".into(), 0.5)])),
            ..Default::default()
        }
        .into(),
        SessionCustomNotification {
            source: "s".into(),
            name: "n".into(),
            subject: Some(BTreeMap::from([("k".into(), "v".into())])),
            payload: json!([1]),
            version: Some(1),
        }
        .into(),
        SessionMemoryChanged {}.into(),
    ]
}

fn permissions() -> Vec<Payload> {
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
        let request = request.with_tool_call_id("call_1");
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

fn questions() -> Vec<Payload> {
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

fn agents() -> Vec<Payload> {
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
        HookProgress {
            message: "half".into(),
            temporary: Some(true),
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

fn conversation() -> Vec<Payload> {
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

fn mcp() -> Vec<Payload> {
    let server_name = || "files".to_owned();
    vec![
        SessionMcpServersLoaded {
            servers: vec![McpServer {
                name: server_name(),
                status: McpStatus::Connected,
                server_metadata: Some(McpServerMetadata { instructions: None }),
                ..Default::default()
            }],
        }
        .into(),
        SessionMcpServerStatusChanged {
            server_name: server_name(),
            status: McpStatus::NeedsAuth,
            error: None,
        }
        .into(),
        SessionMcpServerRemoved {
            server_name: server_name(),
        }
        .into(),
        SessionMcpServerNeedsReconnect {
            server_name: server_name(),
        }
        .into(),
        McpToolsListChanged {
            server_name: server_name(),
        }
        .into(),
        McpResourcesListChanged {
            server_name: server_name(),
        }
        .into(),
        McpPromptsListChanged {
            server_name: server_name(),
        }
        .into(),
        McpOauthRequired {
            request_id: "o".into(),
            server_name: server_name(),
            server_url: "http://127.0.0.1/".into(),
            static_client_config: Some(OauthClientConfig {
                client_id: "c".into(),
                ..Default::default()
            }),
            www_authenticate_params: Some(OauthChallenge {
                scope: text("read"),
                ..Default::default()
            }),
            http_response: Some(OauthHttpResponse {
                status_code: 401,
                headers: vec![HeaderEntry {
                    name: "a".into(),
                    value: "b".into(),
                }],
                body: None,
            }),
            reason: OauthReason::Initial,
            resource_metadata: None,
        }
        .into(),
        McpOauthCompleted {
            request_id: "o".into(),
            outcome: OauthOutcome::Token,
        }
        .into(),
        SamplingRequested {
            request_id: "s".into(),
            server_name: server_name(),
            mcp_request_id: json!(7),
        }
        .into(),
        SamplingCompleted { request_id: "s".into() }.into(),
    ]
}
