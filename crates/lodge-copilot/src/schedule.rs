//! Prompts that are sent at set times, for as long as their session is in memory; what was scheduled before that comes
//! back from the log when schedules are asked for.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use lodge_events::{Payload, SessionScheduleCancelled, SessionScheduleCreated, timestamp_text};
use lodge_host::{Prompt, Session};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::rpc::RpcError;

/// The schedules of one session.
#[derive(Default)]
pub(crate) struct Schedules {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// Whether the log was read.
    known: bool,
    last: u64,
    all: BTreeMap<u64, Entry>,
}

struct Entry {
    created: SessionScheduleCreated,
    next_run: i64,
    timer: AbortHandle,
}

impl Entry {
    fn json(&self) -> Value {
        let created = &self.created;
        let mut entry = json!({
            "id": created.id,
            "prompt": created.prompt,
            "recurring": created.recurring.unwrap_or(false),
            "nextRunAt": timestamp_text(Timestamp::from_millisecond(self.next_run).unwrap_or_default()),
        });
        for (key, value) in [("intervalMs", created.interval_ms), ("at", created.at)] {
            if let Some(value) = value {
                entry[key] = json!(value);
            }
        }
        if let Some(text) = &created.display_prompt {
            entry["displayPrompt"] = json!(text);
        }
        entry
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl Schedules {
    /// Everything that is scheduled.
    pub(crate) async fn list(self: &Arc<Self>, session: &Session) -> Result<Vec<Value>, RpcError> {
        self.read_log(session).await?;
        Ok(self.entries.lock().all.values().map(Entry::json).collect())
    }

    /// Schedules a prompt and records it.
    pub(crate) async fn add(
        self: &Arc<Self>,
        session: &Session,
        mut created: SessionScheduleCreated,
    ) -> Result<Value, RpcError> {
        self.read_log(session).await?;
        created.id = {
            let mut entries = self.entries.lock();
            entries.last += 1;
            entries.last
        };
        session.record(created.clone()).await?;
        Ok(self.arm(session, created))
    }

    /// Cancels a schedule.
    pub(crate) async fn stop(self: &Arc<Self>, session: &Session, id: u64) -> Result<Option<Value>, RpcError> {
        self.read_log(session).await?;
        let Some(entry) = self.entries.lock().all.remove(&id) else {
            return Ok(None);
        };
        session.record(SessionScheduleCancelled { id }).await?;
        Ok(Some(entry.json()))
    }

    async fn read_log(self: &Arc<Self>, session: &Session) -> Result<(), RpcError> {
        if std::mem::replace(&mut self.entries.lock().known, true) {
            return Ok(());
        }
        let history = session.history()?;
        let open = tokio::task::spawn_blocking(move || {
            let mut open = BTreeMap::new();
            for event in history.events() {
                match event?.payload() {
                    Payload::SessionScheduleCreated(created) => drop(open.insert(created.id, created.clone())),
                    Payload::SessionScheduleCancelled(cancelled) => drop(open.remove(&cancelled.id)),
                    _ => {}
                }
            }
            Ok::<_, lodge_host::LogError>(open)
        })
        .await
        .map_err(RpcError::failed)??;
        for (id, created) in open {
            {
                let mut entries = self.entries.lock();
                entries.last = entries.last.max(id);
            }
            self.arm(session, *created);
        }
        Ok(())
    }

    fn arm(self: &Arc<Self>, session: &Session, created: SessionScheduleCreated) -> Value {
        let now = now();
        let interval = created.interval_ms.unwrap_or(0) as i64;
        let next_run = created.at.map_or(now + interval, |at| at as i64);
        let timer = tokio::spawn(self.clone().run(session.clone(), created.clone(), next_run)).abort_handle();
        let entry = Entry {
            next_run,
            created,
            timer,
        };
        let json = entry.json();
        self.entries.lock().all.insert(entry.created.id, entry);
        json
    }

    async fn run(self: Arc<Self>, session: Session, created: SessionScheduleCreated, mut next_run: i64) {
        loop {
            let wait = Duration::from_millis((next_run - now()).max(0) as u64);
            tokio::time::sleep(wait).await;
            let prompt = Prompt {
                text: created.prompt.clone(),
                display_text: created.display_prompt.clone(),
                source: Some(format!("schedule-{}", created.id)),
                ..Prompt::default()
            };
            let sent = session.send(prompt).await;
            match created
                .interval_ms
                .filter(|_| created.recurring == Some(true) && sent.is_ok())
            {
                Some(interval) => next_run += interval as i64,
                None => break,
            }
            if let Some(entry) = self.entries.lock().all.get_mut(&created.id) {
                entry.next_run = next_run;
            }
        }
        // Recorded first: forgetting the entry ends this task.
        let _ = session.record(SessionScheduleCancelled { id: created.id }).await;
        self.entries.lock().all.remove(&created.id);
    }
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_millis() as i64)
}

/// `30s`, `5m`, `2h`, `1d`.
pub(crate) fn interval(text: &str) -> Option<u64> {
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
