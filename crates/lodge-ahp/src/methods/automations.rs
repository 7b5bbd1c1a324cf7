//! What can be asked for about automations. All else about them is said by actions.

use ahp_types::commands::{ListAutomationTriggerDefinitionsResult, RunAutomationResult};
use serde::Deserialize;

use super::Request;
use crate::rpc::{self, RpcResult};

/// There are no event triggers: schedules are the protocol's own, and are not listed.
pub(super) async fn list_triggers(request: &Request<'_>) -> RpcResult {
    request.face.check_allowed()?;
    rpc::ok(ListAutomationTriggerDefinitionsResult { items: Vec::new() })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    automation: String,
    request_id: String,
}

pub(super) async fn run(request: &Request<'_>) -> RpcResult {
    let params: Run = rpc::params(request.params)?;
    let run = request.face.run_automation(&params.automation, params.request_id);
    rpc::ok(RunAutomationResult { resource: run.await? })
}

#[derive(Deserialize)]
struct FetchRuns {
    automation: String,
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) async fn fetch_runs(request: &Request<'_>) -> RpcResult {
    let params: FetchRuns = rpc::params(request.params)?;
    let cursor = params.cursor.as_deref();
    request.face.show_runs(&params.automation, cursor).await?;
    rpc::empty()
}
