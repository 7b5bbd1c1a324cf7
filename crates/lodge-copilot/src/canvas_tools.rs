//! Tools with which the model opens and uses canvases.

use std::sync::Arc;

use lodge_host::{ClientTool, ExternalResult};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    canvas::{Canvases, Opening},
    rpc::RpcError,
    session::Attached,
};

const LIST: &str = "list_canvas_capabilities";
const OPEN: &str = "open_canvas";
const INVOKE: &str = "invoke_canvas_action";

/// Whether a tool is one of the canvas tools.
pub(crate) fn is_one(name: &str) -> bool {
    [LIST, OPEN, INVOKE].contains(&name)
}

pub(crate) fn tools() -> [ClientTool; 3] {
    let tool = |name: &str, description: &str, read_only: bool, parameters: Value| ClientTool {
        name: name.into(),
        description: description.into(),
        parameters: Arc::new(parameters),
        overrides_builtin: false,
        // Listing needs no permission.
        skip_permission: read_only,
        read_only,
        terminal: false,
    };
    let input = json!({"description": "Input for the canvas or the action, as its schema describes."});
    [
        tool(
            LIST,
            "List the canvases that can be opened for the person, with the actions and input schemas of each, and those that are open.",
            true,
            json!({"type": "object", "properties": {}}),
        ),
        tool(
            OPEN,
            "Open a canvas for the person: a panel beside the conversation. A canvas that is open under the same instanceId is \
             shown again.",
            false,
            json!({
                "type": "object",
                "properties": {
                    "canvasId": {"type": "string", "description": "The canvas."},
                    "extensionId": {"type": "string", "description": "Its provider, where several have a canvas of this name."},
                    "instanceId": {"type": "string", "description": "A name for the open canvas. Default: a new one."},
                    "input": input,
                },
                "required": ["canvasId"]
            }),
        ),
        tool(
            INVOKE,
            "Do something in an open canvas.",
            false,
            json!({
                "type": "object",
                "properties": {
                    "instanceId": {"type": "string", "description": "The open canvas."},
                    "actionName": {"type": "string", "description": "The action, as list_canvas_capabilities names it."},
                    "input": input,
                },
                "required": ["instanceId", "actionName"]
            }),
        ),
    ]
}

pub(crate) async fn run(attached: &Attached, tool: &str, arguments: Value) -> ExternalResult {
    match answer(attached, tool, arguments).await {
        Ok(answer) => ExternalResult {
            text: answer.to_string(),
            ..ExternalResult::default()
        },
        Err(error) => failed(error.message),
    }
}

/// The result of a tool that could not run.
pub(crate) fn failed(why: String) -> ExternalResult {
    ExternalResult {
        text: why,
        result_type: "failure".into(),
        ..ExternalResult::default()
    }
}

async fn answer(attached: &Attached, tool: &str, mut arguments: Value) -> Result<Value, RpcError> {
    let (canvases, session) = (attached.board().canvases(), attached.session());
    let text = |name: &str| {
        let value = arguments[name].as_str().map(str::to_owned);
        value.ok_or_else(|| RpcError::params(format!("{tool} needs `{name}`")))
    };
    match tool {
        LIST => Ok(json!({"canvases": canvases.list(), "openCanvases": canvases.list_open(session)})),
        INVOKE => {
            let (instance, action) = (text("instanceId")?, text("actionName")?);
            let input = arguments.get_mut("input").map(Value::take);
            let result = canvases.invoke(session, &instance, &action, input).await?;
            Ok(json!({"result": result}))
        }
        _ => {
            text("canvasId")?;
            if arguments["instanceId"].as_str().is_none_or(str::is_empty) {
                arguments["instanceId"] = json!(Uuid::new_v4().to_string());
            }
            let opening: Opening =
                serde_json::from_value(arguments).map_err(|error| RpcError::params(error.to_string()))?;
            Ok(json!(Canvases::open(attached.board(), session, opening).await?))
        }
    }
}
