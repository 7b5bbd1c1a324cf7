//! Scheduled prompts of a session, and when each ran last.

use std::collections::BTreeMap;

use lodge_events::{Payload, SessionScheduleCreated};
use serde::{Deserialize, Serialize};

/// How `source` of a scheduled prompt begins, before the number of its schedule.
const SOURCE: &str = "schedule-";

/// The schedules of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedules {
    /// The number of the newest: none is used twice.
    pub last: u64,
    /// Those that are not cancelled, by their numbers.
    pub open: BTreeMap<u64, OpenSchedule>,
}

/// A schedule that is not cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenSchedule {
    /// How it was scheduled.
    pub created: SessionScheduleCreated,
    /// When, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it ran last.
    #[serde(default)]
    pub ran_ms: Option<i64>,
    /// When its prompt was last taken up. Logs of builds that did not record runs say it so.
    #[serde(default)]
    pub said_ms: Option<i64>,
    /// What a self-paced one chose for its next run.
    #[serde(default)]
    pub rearmed_ms: Option<u64>,
}

impl OpenSchedule {
    /// One that was just made.
    pub fn new(created: SessionScheduleCreated, created_ms: i64) -> Self {
        Self {
            created,
            created_ms,
            ran_ms: None,
            said_ms: None,
            rearmed_ms: None,
        }
    }

    /// When it ran last, as far as the log knows.
    pub fn last_run_ms(&self) -> Option<i64> {
        self.ran_ms.max(self.said_ms)
    }
}

impl Schedules {
    pub(super) fn fold(&mut self, payload: &Payload, time_ms: i64) {
        match payload {
            Payload::SessionScheduleCreated(created) => {
                self.last = self.last.max(created.id);
                self.open
                    .insert(created.id, OpenSchedule::new((**created).clone(), time_ms));
            }
            Payload::SessionScheduleCancelled(cancelled) => drop(self.open.remove(&cancelled.id)),
            Payload::SessionScheduleRearmed(rearmed) => {
                if let Some(open) = self.open.get_mut(&rearmed.id) {
                    open.rearmed_ms = Some(rearmed.next_run_at);
                }
            }
            Payload::LodgeScheduleRan(ran) => {
                if let Some(open) = self.open.get_mut(&ran.id) {
                    open.ran_ms = open.ran_ms.max(i64::try_from(ran.time).ok());
                }
            }
            Payload::UserMessage(message) => {
                let number = message.source.as_deref().and_then(|source| source.strip_prefix(SOURCE));
                let open = number.and_then(|number| self.open.get_mut(&number.parse().ok()?));
                if let Some(open) = open {
                    open.said_ms = open.said_ms.max(Some(time_ms));
                }
            }
            _ => {}
        }
    }
}
