//! Methods for features that this host does not have. They answer in the form that clients understand, so that clients do
//! without the feature.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{
    connection::Ctx,
    rpc::RpcError,
    session::{Attached, SessionId},
};

pub(crate) static UNAVAILABLE: Capability = Capability {
    title: "Answered, but not available",
    methods: &[
        method!(session "session.completions.getTriggerCharacters", 1, "none: clients complete by themselves", triggers),
        method!(session "session.completions.request", 1, "none", completions),
        method!(session "session.visibility.get", 1, "never shared: sessions stay in the home", visibility),
        method!(session "session.visibility.set", 1, "never shared: sessions stay in the home", visibility),
        method!(session "session.telemetry.getEngagementId", 1, "none: Lodge reports nothing to anybody", engagement),
        method!(session "session.telemetry.setFeatureOverrides", 1, "does nothing: Lodge reports nothing to anybody", nothing),
        method!(session "session.lsp.initialize", 1, "does nothing: there are no language servers", nothing),
        method!(session "session.sandbox.getEnforcementStatus", 0, "never required: policy cannot demand the sandbox", enforcement),
        method!(
            "managedSettings.clearCache",
            1,
            "does nothing: nobody manages settings remotely",
            nothing_kept
        ),
        method!(
            session "session.mcp.headers.handlePendingHeadersRefreshRequest",
            1,
            "always `false`: Lodge sends no such request",
            never_open
        ),
        method!(
            "sessions.findByTaskId",
            1,
            "none: no session belongs to a GitHub task",
            find_by_task_id
        ),
        method!(
            "agentRegistry.spawn",
            1,
            "always refused: a host starts no other hosts",
            spawn
        ),
        method!(
            "sessions.connect",
            1,
            "always refused: a session stays with its host",
            connect
        ),
    ],
};

async fn triggers(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"triggerCharacters": []}))
}

async fn completions(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"items": []}))
}

async fn nothing_kept(_: Ctx, _: Nothing) -> Result<(), RpcError> {
    Ok(())
}

async fn visibility(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"synced": false}))
}

async fn engagement(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({}))
}

async fn enforcement(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"required": false, "blocked": false}))
}

async fn nothing(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(Value::Null)
}

/// Headers of MCP servers stay as they are.
async fn never_open(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"success": false}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskParams {
    #[serde(rename = "taskId")]
    _task_id: String,
}

async fn find_by_task_id(_: Ctx, _: TaskParams) -> Result<Value, RpcError> {
    Ok(json!({}))
}

async fn spawn(_: Ctx, _: Nothing) -> Result<(), RpcError> {
    Err(RpcError::failed(
        "agentRegistry.spawn is not enabled: this host starts no other hosts",
    ))
}

async fn connect(_: Ctx, SessionId { session_id }: SessionId) -> Result<(), RpcError> {
    Err(RpcError::failed(format!(
        "Session not found: {session_id}. Sessions on other machines cannot be connected to; use sessions.open for one of this \
         host."
    )))
}
