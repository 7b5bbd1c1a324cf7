//! Extensions and factories.

use lodge_events::*;
use serde_json::json;

use super::text;

pub(super) fn extensions() -> Vec<Payload> {
    let run_id = || "r-1".to_owned();
    vec![
        SessionExtensionsLoaded {
            extensions: vec![ExtensionInfo {
                id: "project:charts".into(),
                name: "charts".into(),
                source: "project".into(),
                status: "running".into(),
            }],
        }
        .into(),
        FactoryRunStarted {
            run_id: run_id(),
            factory_name: "review".into(),
            attempt: 1,
        }
        .into(),
        FactoryRunUpdated {
            run_id: run_id(),
            revision: 3,
        }
        .into(),
        FactoryRunSettled {
            run_id: run_id(),
            status: "error".into(),
            consumed_subagents: 0,
            consumed_nano_aiu: 0,
            elapsed_ms: 12,
            failure_type: text("factory_limit_reached"),
        }
        .into(),
        LodgeFactoryStarted {
            run_id: run_id(),
            name: "review".into(),
            description: text("Reviews."),
            phases: Some(vec![FactoryPhase {
                title: "read".into(),
                detail: text("Reads all."),
            }]),
            declared_limits: Some(json!({"timeoutSeconds": 60})),
            limits: Some(json!({"timeoutSeconds": 30})),
            args: Some(json!({"path": "."})),
            attempt: 1,
        }
        .into(),
        LodgeFactoryLogged {
            run_id: run_id(),
            lines: vec![FactoryLine {
                seq: 1,
                kind: "phase".into(),
                text: "read".into(),
            }],
        }
        .into(),
        LodgeFactoryAgent {
            run_id: run_id(),
            agent_id: "reader".into(),
            tool_call_id: "reader".into(),
            label: "reader".into(),
            agent_type: "general-purpose".into(),
            requested_model: text("a-model"),
            model: text("a-model"),
            status: "completed".into(),
            cost: Some(0.5),
            active_ms: Some(40),
        }
        .into(),
        LodgeFactoryStep {
            run_id: run_id(),
            key: "files".into(),
            result: json!(["a"]),
        }
        .into(),
        LodgeFactorySettled {
            run_id: run_id(),
            status: "error".into(),
            result: Some(json!([1])),
            error: text("no"),
            reason: text("why"),
            failure: Some(json!({"type": "factory_limit_reached"})),
            elapsed_ms: 12,
        }
        .into(),
    ]
}
