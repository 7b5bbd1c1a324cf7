//! What the protocol has no word for and people want to see and do in a session: what the agent has noted to do, signing in to an
//! MCP server, stopping a sub-agent.

use lodge_host::{Session, mcp::LoginOptions};
use serde::{Deserialize, Serialize};

use super::{Request, host_error};
use crate::rpc::{self, RpcError, RpcResult, code};

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
    tool_call_id: String,
}

#[derive(Serialize)]
struct Stopped {
    stopped: bool,
}

/// Stops the sub-agent that a tool call started, whether the call waits for it or not.
pub(super) async fn stop(request: &Request<'_>) -> RpcResult {
    let params: Stop = rpc::params(request.params)?;
    let session = session(request, &params.channel).await?;
    let mut tasks = session.tasks().into_iter();
    let task = tasks.find(|task| task.tool_call_id == params.tool_call_id);
    let stopped = match task {
        Some(task) => session.cancel_task(&task.id).await,
        None => false,
    };
    rpc::ok(Stopped { stopped })
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
