//! The life of a session.

use std::collections::BTreeMap;

use lodge_events::*;
use serde_json::Value;

use super::{WHEN, text};

pub(super) fn session() -> Vec<Payload> {
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
        SessionAutoTierSwitchFailed {
            effective_auto_tier: Some(AutoTier::Balance),
            requested_auto_tier: Value::Null,
            reason: AutoTierFailure::RequestFailed,
        }
        .into(),
        SessionModeChanged {
            previous_mode: SessionMode::Interactive,
            new_mode: SessionMode::Plan,
        }
        .into(),
        SessionAutopilotStopped {
            reason: "task_complete".into(),
            request_id: text("m"),
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
