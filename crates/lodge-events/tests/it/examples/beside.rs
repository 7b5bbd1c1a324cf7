//! Types of Lodge's own.

use lodge_events::*;

use super::text;

pub(super) fn beside() -> Vec<Payload> {
    let metric = ModelMetric {
        requests: ModelRequests {
            count: Some(3),
            cost: Some(0.5),
        },
        ..Default::default()
    };
    let rule = |effect, kind: &str, argument: &str| SessionRule {
        effect,
        kind: kind.into(),
        argument: argument.into(),
    };
    let item = QueuedMessage {
        text: "Now the tests.".into(),
        display_text: text("tests"),
        agent_mode: Some(AgentMode::Plan),
        source: text("user"),
        required_tool: text("view"),
        response_format: Some(serde_json::json!({"name": "answer", "schema": {"type": "object"}})),
        attachments: Some(vec![Attachment::File(FileAttachment {
            path: "/home/me/a.rs".into(),
            display_name: "a.rs".into(),
            ..Default::default()
        })]),
        message_id: text("m-1"),
        before: Some(vec![QueuedMessage {
            text: "First this.".into(),
            message_id: text("m-0"),
            ..Default::default()
        }]),
        command: text("make test"),
        client: text("editor-1"),
        needs_preparation: Some(true),
    };
    vec![
        LodgeMessageWritten {
            message_id: "m-1".into(),
            attachments: Some(vec![serde_json::json!({ "type": "simple", "label": "a note" })]),
            model: text("rehearsal"),
            model_options: Some(serde_json::json!({ "effort": "high" })),
            agent: text("file:///agents/reviewer.md"),
            notes: Some(serde_json::json!({ "kind": "edit" })),
            by_automation: Some(true),
        }
        .into(),
        LodgeMessageQueued {
            message_id: "m-1".into(),
            item: item.clone(),
            lane: MessageLane::Next,
            at: Some(0),
            begins: Some(true),
            replaces: text("m-2"),
        }
        .into(),
        LodgeMessageBegun {
            message_id: "m-1".into(),
            replaces: text("m-2"),
        }
        .into(),
        LodgeMessageEdited {
            message_id: "m-1".into(),
            item,
            replaces: text("m-2"),
        }
        .into(),
        LodgeMessageMoved {
            lane: MessageLane::Steer,
            order: vec!["m-1".into()],
        }
        .into(),
        LodgeMessageRemoved {
            ids: vec!["m-1".into()],
            why: RemovalReason::Aborted,
        }
        .into(),
        LodgeMessageParked {
            message_id: "m-1".into(),
        }
        .into(),
        LodgeTurnRetried {
            message_id: "m-1".into(),
        }
        .into(),
        LodgePartial {
            message_id: "a-1".into(),
            at: 4096,
            content: "and so the tests".into(),
            turn_id: text("0"),
            interaction_id: text("i-1"),
            originating_message_id: text("m-1"),
        }
        .into(),
        LodgeTurnResumed {
            message_id: "m-1".into(),
        }
        .into(),
        LodgeWorktreeWanted { base: "main".into() }.into(),
        LodgeQuestion {
            request_id: "q-1".into(),
            kind: AskedKind::Permission,
            tool_call_id: text("call-1"),
            digest: "d-1".into(),
            message: "bash: make test".into(),
            shown: Some(serde_json::json!({"summary": "Test it"})),
        }
        .into(),
        LodgeAnswered {
            request_id: "q-1".into(),
            kind: AskedKind::Permission,
            tool_call_id: text("call-1"),
            digest: "d-1".into(),
            by: AnsweredBy {
                client: text("page"),
                device: text("dev-1"),
                role: text("approve-only"),
                rule: Some(false),
            },
            answer: serde_json::json!({"decision": "approve-once"}),
        }
        .into(),
        LodgeUsage {
            model: "rehearsal".into(),
            input_tokens: Some(100),
            output_tokens: Some(20),
            cache_read_tokens: Some(50),
            cache_write_tokens: Some(10),
            reasoning_tokens: Some(5),
            cost: Some(0.25),
            total_nano_aiu: Some(1.0),
            duration: Some(1200),
            initiator: text("compaction"),
            attempt: Some(2),
            estimated_input_tokens: Some(90),
        }
        .into(),
        LodgeUsageCarried {
            model_metrics: [("rehearsal".to_owned(), metric)].into(),
            total_api_duration_ms: 900,
        }
        .into(),
        LodgeApproval {
            mode: ApprovalMode::ApproveAll,
        }
        .into(),
        LodgeRules {
            rules: vec![
                rule(RuleEffect::Allow, "shell", "git log"),
                rule(RuleEffect::Deny, "write", "*.lock"),
            ],
        }
        .into(),
        LodgeScheduleRan {
            id: 3,
            time: 1_794_834_864_655,
            message_id: "m-1".into(),
        }
        .into(),
        LodgeProgram {
            agent: "opencode".into(),
            session_id: "ses_1".into(),
        }
        .into(),
        LodgeRewound {
            up_to_event_id: "0b5f7d9e-3c1a-4f62-9d8e-7a6b5c4d3e2f".into(),
            events_removed: 7,
            message_ids: Some(vec!["m-1".into()]),
        }
        .into(),
        LodgeNamed {
            name: text("The carpet"),
            automatic: Some(true),
        }
        .into(),
        LodgeDirectories {
            further: vec!["/work/two".into(), "/work/three".into()],
            chosen: Some(vec!["/work/two".into()]),
        }
        .into(),
        LodgeWorktree {
            path: "/home/me/.lodge/worktrees/carpet".into(),
            repository: "/work".into(),
            branch: "lodge/01234567".into(),
            base: "main".into(),
        }
        .into(),
        LodgeSwitched {
            switches: [("skill:weaving".to_owned(), false)].into(),
        }
        .into(),
        LodgeChat {
            session: text("s-1"),
            address: "ahp-chat:/side".into(),
            origin: ChatSource {
                kind: ChatBeginning::SideChat,
                chat: text("ahp-chat:/main"),
                turn_id: text("m-1"),
                selection: text("over and under"),
                part_id: text("p-1"),
            },
            hidden_turns: Some(2),
            born: text("lodge:/s-0"),
        }
        .into(),
        LodgeChats {
            order: vec!["ahp-chat:/side".into(), "ahp-chat:/main".into()],
            default_title: text("The carpet"),
        }
        .into(),
    ]
}
