//! Scheduled prompts.

use std::sync::Arc;

use lodge_events::{SessionScheduleCreated, timestamp_text};
use lodge_host::ScheduledPrompt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static SCHEDULE: Capability = Capability {
    title: "Schedules",
    methods: &[
        method!(session "session.schedule.list", 2, "scheduled prompts", list),
        method!(session "session.schedule.add", 0, "sends a prompt after a delay (`5m`), once or repeatedly", add),
        method!(session "session.schedule.addAt", 0, "sends a prompt at a time", add_at),
        method!(session "session.schedule.stop", 1, "cancels a scheduled prompt", stop),
    ],
};

/// A scheduled prompt in the SDKs' shape.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: u64,
    prompt: String,
    recurring: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_prompt: Option<String>,
}

impl From<ScheduledPrompt> for Entry {
    fn from(scheduled: ScheduledPrompt) -> Self {
        let ScheduledPrompt { created, next_run } = scheduled;
        Self {
            id: created.id,
            prompt: created.prompt,
            recurring: created.recurring.unwrap_or(false),
            next_run_at: next_run.map(timestamp_text),
            interval_ms: created.interval_ms,
            cron: created.cron,
            tz: created.tz,
            at: created.at,
            display_prompt: created.display_prompt,
        }
    }
}

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let entries = session.session().scheduled()?.into_iter().map(Entry::from);
    Ok(json!({"entries": entries.collect::<Vec<_>>()}))
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
        return Ok(
            json!({"error": format!("Invalid interval {:?}. Use a form like 30s, 5m, 2h or 1d.", params.interval)}),
        );
    };
    let created = SessionScheduleCreated {
        interval_ms: Some(interval_ms),
        prompt: params.prompt,
        recurring: Some(params.recurring.unwrap_or(true)),
        display_prompt: params.display_prompt,
        ..SessionScheduleCreated::default()
    };
    Ok(json!({"entry": Entry::from(session.session().schedule(created).await?)}))
}

async fn add_at(session: Arc<Attached>, params: AddParams) -> Result<Value, RpcError> {
    let created = SessionScheduleCreated {
        at: Some(params.at),
        prompt: params.prompt,
        recurring: Some(false),
        display_prompt: params.display_prompt,
        ..SessionScheduleCreated::default()
    };
    Ok(json!({"entry": Entry::from(session.session().schedule(created).await?)}))
}

#[derive(Debug, Deserialize)]
struct StopParams {
    id: u64,
}

async fn stop(session: Arc<Attached>, params: StopParams) -> Result<Value, RpcError> {
    let stopped = session.session().unschedule(params.id).await?;
    Ok(stopped.map_or_else(|| json!({}), |entry| json!({"entry": Entry::from(entry)})))
}

/// `30s`, `5m`, `2h`, `1d`.
fn interval(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.trim().parse().ok().filter(|number| *number > 0)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    number.checked_mul(unit * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_a_number_and_a_unit() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            (" 5m ", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("0s", None),
            ("s", None),
            ("", None),
            ("5", None),
            ("5ü", None),
            ("-5m", None),
        ] {
            assert_eq!(interval(text), expected, "{text:?}");
        }
    }
}
