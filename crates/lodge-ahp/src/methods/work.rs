//! What the protocol has no word for and people want to see and do in a session: what the agent has noted to do, signing in to an
//! MCP server, stopping a sub-agent or a command in the background, and what such a command printed.

use lodge_host::{Session, mcp::LoginOptions};
use serde::{Deserialize, Serialize};

use super::{Request, host_error};
use crate::{
    conversation::shell_of,
    rpc::{self, RpcError, RpcResult, code},
};

#[derive(Deserialize)]
struct Todos {
    channel: String,
}

#[derive(Serialize)]
struct Noted<T, D> {
    todos: Vec<T>,
    dependencies: Vec<D>,
}

/// The list of what the agent has noted to do, in the order in which it did.
pub(super) async fn todos(request: &Request<'_>) -> RpcResult {
    let params: Todos = rpc::params(request.params)?;
    let todos = session(request, &params.channel).await?.todos().await;
    rpc::ok(Noted {
        todos: todos.rows,
        dependencies: todos.dependencies,
    })
}

#[derive(Deserialize)]
struct SignIn {
    channel: String,
    server: String,
}

#[derive(Serialize)]
struct ToOpen {
    url: Option<String>,
}

/// Begins to sign in to an MCP server of a session: the address that a person has to open on the host's machine, or nothing when
/// it works without.
pub(super) async fn sign_in(request: &Request<'_>) -> RpcResult {
    let params: SignIn = rpc::params(request.params)?;
    let session = session(request, &params.channel).await?;
    let begun = session.mcp_login(&params.server, LoginOptions::default(), false).await;
    let url = begun.map_err(|error| RpcError::params(error.to_string()))?;
    rpc::ok(ToOpen { url })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stop {
    channel: String,
    /// The sub-agent of this call, or else the command in the background with this id.
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    work_id: Option<String>,
}

#[derive(Serialize)]
struct Stopped {
    stopped: bool,
}

/// Stops the sub-agent that a tool call started, whether the call waits for it or not, or a command in the background.
pub(super) async fn stop(request: &Request<'_>) -> RpcResult {
    let params: Stop = rpc::params(request.params)?;
    let session = session(request, &params.channel).await?;
    let task = match (&params.tool_call_id, &params.work_id) {
        (Some(call), None) => {
            let mut tasks = session.tasks().into_iter();
            tasks.find(|task| task.tool_call_id == *call).map(|task| task.id)
        }
        (None, Some(work)) => shell_of(work).map(str::to_owned),
        _ => return Err(RpcError::params("either toolCallId or workId must be given")),
    };
    let stopped = match task {
        Some(task) => session.cancel_task(&task).await,
        None => false,
    };
    rpc::ok(Stopped { stopped })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    channel: String,
    work_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    output: String,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// The end of what a command in the background printed.
pub(super) async fn output(request: &Request<'_>) -> RpcResult {
    let params: Output = rpc::params(request.params)?;
    let session = session(request, &params.channel).await?;
    let mut shells = session.background_shells().into_iter();
    let shell = shell_of(&params.work_id).and_then(|id| shells.find(|shell| shell.id == id));
    let shell = shell.ok_or_else(|| RpcError::params(format!("there is no work {:?}", params.work_id)))?;
    rpc::ok(Printed {
        running: shell.exit_code.is_none(),
        exit_code: shell.exit_code,
        output: shell.recent,
    })
}

/// The session behind a channel: a session's own, or that of one of its chats.
async fn session(request: &Request<'_>, channel: &str) -> Result<Session, RpcError> {
    let face = request.face;
    let Some((_, main)) = face.locate(channel).await else {
        return Err(RpcError::new(
            code::SESSION_NOT_FOUND,
            format!("there is no session {channel}"),
        ));
    };
    let chat = face.host.chat_at(channel).await.map_err(host_error)?;
    let id = chat.map_or(main, |chat| chat.id);
    face.host.open_session(&id).await.map_err(host_error)
}
