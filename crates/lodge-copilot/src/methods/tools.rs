//! Tools: those that the client runs, and the built-in ones.

use std::sync::Arc;

use lodge_events::Payload;
use lodge_host::Answer;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{
    config::ToolConfig,
    connection::Ctx,
    decisions::{ToolResultParams, tool_answer},
    rpc::RpcError,
    session::Attached,
};

pub(crate) static TOOLS: Capability = Capability {
    title: "Tools",
    methods: &[
        method!(session "session.tools.handlePendingToolCall", 32, "returns the result of a tool that the client ran", handle),
        method!(session "session.tools.listPendingRequests", 0, "calls of clients' tools that wait for a result", pending),
        method!(session "session.tools.set", 0, "replaces the tools that this client runs", set),
        method!(session "session.tools.getCurrentMetadata", 1, "the tools that the model may call now", current),
        method!(
            session "session.tools.initializeAndValidate",
            1,
            "finds skills and agents and starts MCP servers before the first turn",
            initialize
        ),
        method!("tools.list", 1, "the built-in tools", list),
    ],
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HandleParams {
    request_id: String,
    #[serde(default)]
    result: Option<ToolResultParams>,
    #[serde(default)]
    error: Option<String>,
}

async fn handle(session: Arc<Attached>, params: HandleParams) -> Result<Value, RpcError> {
    let answer = tool_answer(params.result, params.error);
    let success = session.answer(&params.request_id, Answer::Tool(answer)).await?;
    Ok(json!({"success": success}))
}

async fn pending(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let mut items = Vec::new();
    for question in session.session().pending() {
        let Payload::ExternalToolRequested(asked) = question.event.payload() else {
            continue;
        };
        let mut item =
            json!({"requestId": asked.request_id, "toolCallId": asked.tool_call_id, "toolName": asked.tool_name});
        if let Some(arguments) = &asked.arguments {
            item["arguments"] = arguments.clone();
        }
        if let Some(agent) = question.event.agent_id() {
            item["agentId"] = json!(agent);
        }
        items.push(item);
    }
    Ok(json!({"items": items}))
}

#[derive(Debug, Deserialize)]
struct SetParams {
    tools: Vec<ToolConfig>,
}

async fn set(session: Arc<Attached>, params: SetParams) -> Result<Value, RpcError> {
    session.set_tools(&params.tools);
    Ok(json!({}))
}

async fn initialize(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    session.session().prepare().await?;
    Ok(json!({}))
}

async fn current(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let tools: Vec<_> = session
        .session()
        .tools()
        .into_iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": *tool.parameters}))
        .collect();
    Ok(json!({"tools": tools}))
}

async fn list(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    let tools: Vec<_> = ctx
        .host
        .builtin_tools()
        .iter()
        .map(|tool| json!({"name": tool.name(), "description": tool.description(), "parameters": *tool.parameters()}))
        .collect();
    Ok(json!({"tools": tools}))
}
