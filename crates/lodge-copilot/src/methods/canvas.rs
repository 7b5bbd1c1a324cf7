//! Canvases that clients of a session provide.

use std::sync::Arc;

use lodge_events::SessionCanvasOpened;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{
    canvas::{Canvases, Opening},
    rpc::RpcError,
    session::Attached,
};

pub(crate) static CANVAS: Capability = Capability {
    title: "Canvases",
    methods: &[
        method!(session "session.canvas.list", 1, "the canvases that clients of the session provide", list),
        method!(session "session.canvas.listOpen", 2, "the canvases that are open", list_open),
        method!(session "session.canvas.open", 3, "opens a canvas, or brings an open one back into view", open),
        method!(session "session.canvas.close", 1, "closes a canvas", close),
        method!(session "session.canvas.action.invoke", 1, "runs an action in an open canvas", invoke),
    ],
};

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"canvases": session.board().canvases().list()}))
}

async fn list_open(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"openCanvases": session.board().canvases().list_open(session.session())}))
}

async fn open(session: Arc<Attached>, opening: Opening) -> Result<SessionCanvasOpened, RpcError> {
    Canvases::open(session.board(), session.session(), opening).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Instance {
    instance_id: String,
}

async fn close(session: Arc<Attached>, Instance { instance_id }: Instance) -> Result<(), RpcError> {
    Canvases::close(session.board(), session.session(), &instance_id).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    instance_id: String,
    action_name: String,
    #[serde(default)]
    input: Option<Value>,
}

async fn invoke(session: Arc<Attached>, asked: Invocation) -> Result<Value, RpcError> {
    let canvases = session.board().canvases();
    let result = canvases
        .invoke(session.session(), &asked.instance_id, &asked.action_name, asked.input)
        .await?;
    Ok(json!({"result": result}))
}
