//! The definition of an automation: its message, its sessions and its schedules.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::AutomationError;
use crate::schedules::{Cron, time_zone};

/// A definition is at most so long, and its names and ids.
const BYTES: usize = 256 << 10;
const NAME_BYTES: usize = 1 << 10;
const SCHEDULES: usize = 32;

/// How names end behind which secrets stand.
const SECRETS: [&str; 8] = [
    "password",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "credentials",
    "privatekey",
];

/// What an automation does, and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// What people call it. Its sessions are called so.
    pub title: String,
    /// What the agent is told.
    pub message: MessageTemplate,
    /// The session that each run is made in.
    #[serde(default)]
    pub session: SessionTemplate,
    /// Whether its schedules are in force.
    pub enabled: bool,
    /// When it runs by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<Schedule>,
    /// What turns its schedules off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<StopRule>,
    /// What the client that made it adds for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<Map<String, Value>>,
}

/// A message that is sent in every run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageTemplate {
    /// What is said.
    pub text: String,
    /// Files and the like, as the client that made it names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Value>>,
    /// The model that answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<NamedModel>,
    /// The address of the custom agent that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the client that made it adds for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<Map<String, Value>>,
}

/// The session that a run is made in. What it does not say is as in any new session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionTemplate {
    /// What the agent is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<NamedModel>,
    /// The address of a custom agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The addresses of the directories that it works in, its own first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directories: Option<Vec<String>>,
    /// Mode, approval, isolation and the like, by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
}

/// A model by its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedModel {
    /// The name.
    pub id: String,
    /// Values for what can be set about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
}

/// A calendar rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Tells it from the automation's other schedules.
    pub id: String,
    /// Minute, hour, day of month, month, day of week.
    pub cron: String,
    /// The zone of the IANA database in whose local time the rule holds.
    pub time_zone: String,
    /// What becomes of missed times. Absent, they are caught up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
}

/// What becomes of times that passed while nothing could run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Misfire {
    /// They are left out.
    Skip,
    /// All of them together are one run.
    CatchUp,
}

/// What turns the schedules of an automation off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopRule {
    /// So many scheduled runs.
    AfterRuns(i64),
    /// An RFC 3339 time.
    At(String),
}

impl Definition {
    /// Whether it can be kept and run.
    pub(super) fn check(&self) -> Result<(), AutomationError> {
        let invalid = |reason: String| Err(AutomationError::Invalid(reason));
        if self.schedules.len() > SCHEDULES {
            return invalid(format!("an automation has at most {SCHEDULES} triggers"));
        }
        let mut ids = HashSet::new();
        for schedule in &self.schedules {
            let id = &schedule.id;
            if id.trim().is_empty() || id.len() > NAME_BYTES || !ids.insert(id) {
                return invalid(format!("every trigger needs a unique id, and {id:?} is not"));
            }
            schedule.check()?;
        }
        for (at, rule) in self.stop.iter().enumerate() {
            let kind = std::mem::discriminant(rule);
            if self.stop[..at]
                .iter()
                .any(|other| std::mem::discriminant(other) == kind)
            {
                return invalid("each kind of disable condition can be used only once".to_owned());
            }
            rule.check()?;
        }
        let notes = [&self.session.settings, &self.notes, &self.message.notes];
        for (key, value) in notes.into_iter().flatten().flatten() {
            no_secret(key, value).map_err(AutomationError::Invalid)?;
        }
        if serde_json::to_vec(self).map_or(usize::MAX, |json| json.len()) > BYTES {
            return invalid(format!("an automation has at most {} KiB", BYTES / 1024));
        }
        Ok(())
    }

    /// After how many scheduled runs its schedules are turned off.
    pub(super) fn most_runs(&self) -> Option<i64> {
        self.stop.iter().find_map(|rule| match rule {
            StopRule::AfterRuns(most) => Some(*most),
            StopRule::At(_) => None,
        })
    }

    /// When its schedules are turned off.
    pub(super) fn last_moment(&self) -> Option<Timestamp> {
        self.stop.iter().find_map(|rule| match rule {
            StopRule::At(time) => time.parse().ok(),
            StopRule::AfterRuns(_) => None,
        })
    }
}

impl Schedule {
    fn check(&self) -> Result<(), AutomationError> {
        // Longer ones say the same twice.
        if self.cron.len() > NAME_BYTES {
            return Err(AutomationError::Invalid(format!(
                "a schedule has at most {NAME_BYTES} bytes"
            )));
        }
        Cron::parse(&self.cron).map_err(AutomationError::Invalid)?;
        time_zone(&self.time_zone).map(drop).map_err(AutomationError::Invalid)
    }

    /// The first time after another at which it is due.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let zone = time_zone(&self.time_zone).ok()?;
        Cron::parse(&self.cron).ok()?.next(&zone, after)
    }
}

impl StopRule {
    fn check(&self) -> Result<(), AutomationError> {
        let reason = match self {
            Self::AfterRuns(most) if *most < 1 => "an automation can be disabled after at least one run".to_owned(),
            Self::At(time) if time.parse::<Timestamp>().is_err() => {
                format!("{time:?} is not an RFC 3339 time")
            }
            _ => return Ok(()),
        };
        Err(AutomationError::Invalid(reason))
    }
}

/// Definitions are shown to everybody, and hold no keys to anything.
fn no_secret(key: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) if !text.is_empty() => {
            let name: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
            let name = name.to_ascii_lowercase();
            if SECRETS.iter().any(|word| name.ends_with(word)) {
                return Err(format!(
                    "an automation holds no credentials, and {key:?} looks like one"
                ));
            }
            Ok(())
        }
        Value::Object(map) => map.iter().try_for_each(|(key, value)| no_secret(key, value)),
        Value::Array(list) => list.iter().try_for_each(|value| no_secret(key, value)),
        _ => Ok(()),
    }
}
