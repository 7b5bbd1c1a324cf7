//! Remote control from GitHub's pages, which this host does not offer: it is always off. Apps that make a session reachable
//! from elsewhere can record that it is steerable.

use std::sync::Arc;

use lodge_events::{Payload, SessionRemoteSteerableChanged};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{
    connection::Ctx,
    rpc::RpcError,
    session::{Attached, SessionId},
};

pub(crate) static REMOTE: Capability = Capability {
    title: "Remote control from GitHub",
    methods: &[
        method!("sessions.getRemoteControlStatus", 1, "always off", status),
        method!("sessions.setRemoteControlSteering", 1, "stays off", status),
        method!("sessions.stopRemoteControl", 2, "nothing to stop", stop),
        method!("sessions.transferRemoteControl", 1, "nothing to transfer", transfer),
        method!("sessions.startRemoteControl", 1, "always refused", start),
        method!(session "session.remote.enable", 1, "refused, unless it turns remote control off", enable),
        method!(session "session.remote.disable", 1, "does nothing: remote control is off", disable),
        method!(
            session "session.remote.notifySteerableChanged",
            1,
            "records whether the session can be steered remotely",
            notify_steerable
        ),
        method!(
            "sessions.getPersistedRemoteSteerable",
            1,
            "the last recorded value",
            steerable
        ),
    ],
};

const REFUSAL: &str = "Remote control is not available: sessions of this host are not shown on GitHub";

fn off() -> Value {
    json!({"state": "off"})
}

async fn status(_: Ctx, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"status": off()}))
}

async fn stop(_: Ctx, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"status": off(), "stopped": false}))
}

async fn transfer(_: Ctx, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"status": off(), "transferred": false}))
}

async fn start(_: Ctx, _: Nothing) -> Result<(), RpcError> {
    Err(RpcError::failed(REFUSAL))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EnableParams {
    mode: Option<String>,
}

async fn enable(_: Arc<Attached>, params: EnableParams) -> Result<Value, RpcError> {
    match params.mode.as_deref() {
        Some("off") => Ok(json!({"remoteSteerable": false})),
        _ => Err(RpcError::failed(REFUSAL)),
    }
}

async fn disable(_: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(Value::Null)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SteerableParams {
    remote_steerable: bool,
}

async fn notify_steerable(session: Arc<Attached>, params: SteerableParams) -> Result<Value, RpcError> {
    let remote_steerable = params.remote_steerable;
    let changed = SessionRemoteSteerableChanged { remote_steerable };
    session.session().record(changed).await?;
    Ok(json!({}))
}

async fn steerable(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    let reader = ctx.host.read(&session_id)?;
    let last = move || {
        let said = reader
            .events()
            .filter_map(Result::ok)
            .filter_map(|event| match event.payload() {
                Payload::SessionRemoteSteerableChanged(changed) => Some(changed.remote_steerable),
                _ => None,
            });
        said.last()
    };
    let last = tokio::task::spawn_blocking(last).await.map_err(RpcError::failed)?;
    Ok(match last {
        Some(remote_steerable) => json!({"remoteSteerable": remote_steerable}),
        None => json!({}),
    })
}
