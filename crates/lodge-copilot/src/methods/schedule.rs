//! Prompts at set times.

use std::sync::Arc;

use lodge_events::SessionScheduleCreated;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{rpc::RpcError, schedule::interval, session::Attached};

pub(crate) static SCHEDULE: Capability = Capability {
    title: "Schedules",
    methods: &[
        method!(session "session.schedule.list", 2, "prompts that will be sent", list),
        method!(session "session.schedule.add", 0, "sends a prompt after a while (`5m`), once or again and again", add),
        method!(session "session.schedule.addAt", 0, "sends a prompt at a time", add_at),
        method!(session "session.schedule.stop", 1, "cancels one", stop),
    ],
};

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"entries": session.board().schedules().list(session.session()).await?}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddParams {
    #[serde(default)]
    interval: String,
    #[serde(default)]
    at: u64,
    prompt: String,
    #[serde(default)]
    recurring: Option<bool>,
    #[serde(default)]
    display_prompt: Option<String>,
}

async fn add(session: Arc<Attached>, params: AddParams) -> Result<Value, RpcError> {
    let Some(interval_ms) = interval(&params.interval) else {
        return Ok(json!({"error": format!("Not an interval: {:?}. Say it like 30s, 5m, 2h or 1d.", params.interval)}));
    };
    let created = SessionScheduleCreated {
        interval_ms: Some(interval_ms),
        prompt: params.prompt,
        recurring: Some(params.recurring.unwrap_or(true)),
        display_prompt: params.display_prompt,
        ..SessionScheduleCreated::default()
    };
    Ok(json!({"entry": session.board().schedules().add(session.session(), created).await?}))
}

async fn add_at(session: Arc<Attached>, params: AddParams) -> Result<Value, RpcError> {
    let created = SessionScheduleCreated {
        at: Some(params.at),
        prompt: params.prompt,
        recurring: Some(false),
        display_prompt: params.display_prompt,
        ..SessionScheduleCreated::default()
    };
    Ok(json!({"entry": session.board().schedules().add(session.session(), created).await?}))
}

#[derive(Debug, Deserialize)]
struct StopParams {
    id: u64,
}

async fn stop(session: Arc<Attached>, params: StopParams) -> Result<Value, RpcError> {
    let stopped = session.board().schedules().stop(session.session(), params.id).await?;
    Ok(stopped.map_or_else(|| json!({}), |entry| json!({"entry": entry})))
}
