//! Automations of earlier builds: one file each, in AHP's format.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    MigrateError, set,
    words::{OldAgent, OldMessage, OldModel},
};
use crate::{
    Automation, Definition, Misfire, Run, RunCause, RunEnd, RunOutcome, RunSession, RunUsage, Schedule,
    SessionTemplate, StopRule, registers::Registers,
};

/// What the addresses of automations and of their runs begin with.
const ADDRESS: &str = "ahp-automation:";
const RUN_ADDRESS: &str = "ahp-automation-run:/";

/// The id of the automation at an address.
pub(super) fn id(address: &str) -> String {
    address.strip_prefix(ADDRESS).unwrap_or(address).to_owned()
}

/// The id of the run at an address.
pub(super) fn run_id(address: &str) -> String {
    address.strip_prefix(RUN_ADDRESS).unwrap_or(address).to_owned()
}

pub(super) fn bring_in(text: &[u8], registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let automation = Automation::from(serde_json::from_slice::<OldRecord>(text)?);
    set(registers, &format!("automation/{}", automation.id), &automation)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldRecord {
    resource: String,
    definition: OldDefinition,
    created_at: Timestamp,
    modified_at: Timestamp,
    #[serde(default)]
    run_count: Option<i64>,
    #[serde(default)]
    due: BTreeMap<String, Timestamp>,
    #[serde(default)]
    runs: Vec<OldRun>,
    #[serde(default)]
    requests: Vec<OldRequest>,
}

#[derive(Deserialize)]
struct OldRequest {
    id: String,
    run: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldDefinition {
    title: String,
    message: OldMessage,
    session: OldSession,
    enabled: bool,
    triggers: Vec<OldTrigger>,
    #[serde(default)]
    disable_conditions: Vec<OldCondition>,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldSession {
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    model: Option<OldModel>,
    #[serde(default)]
    agent: Option<OldAgent>,
    #[serde(default)]
    working_directories: Option<Vec<String>>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldTrigger {
    id: String,
    schedule: OldSchedule,
    #[serde(default)]
    misfire_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldSchedule {
    expression: String,
    time_zone: String,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum OldCondition {
    AfterRuns { max: i64 },
    AfterDate { date: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldRun {
    resource: String,
    origin: OldOrigin,
    lifecycle: OldLifecycle,
    #[serde(default)]
    primary_session: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum OldOrigin {
    Manual {},
    #[serde(rename_all = "camelCase")]
    Trigger {
        trigger_id: String,
        #[serde(default)]
        scheduled_for: Option<Timestamp>,
        #[serde(default)]
        catch_up: Option<bool>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldLifecycle {
    status: String,
    created_at: Timestamp,
    #[serde(default)]
    started_at: Option<Timestamp>,
    #[serde(default)]
    completed_at: Option<Timestamp>,
    #[serde(default)]
    usage: Option<OldUsage>,
    #[serde(default)]
    error: Option<OldError>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OldUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    model: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldError {
    error_type: String,
    message: String,
}

impl From<OldRecord> for Automation {
    fn from(old: OldRecord) -> Self {
        let requests = old.requests.into_iter().map(|asked| (asked.id, run_id(&asked.run)));
        Self::restored(
            id(&old.resource),
            old.definition.into(),
            (old.created_at, old.modified_at),
            old.run_count,
            old.due,
            old.runs.into_iter().map(Into::into).collect(),
            requests,
        )
    }
}

impl From<OldDefinition> for Definition {
    fn from(old: OldDefinition) -> Self {
        let stop = old.disable_conditions.into_iter().map(|condition| match condition {
            OldCondition::AfterRuns { max } => StopRule::AfterRuns(max),
            OldCondition::AfterDate { date } => StopRule::At(date),
        });
        let schedules = old.triggers.into_iter().map(|trigger| Schedule {
            id: trigger.id,
            cron: trigger.schedule.expression,
            time_zone: trigger.schedule.time_zone,
            misfire: trigger.misfire_policy.map(|policy| match policy.as_str() {
                "skip" => Misfire::Skip,
                _ => Misfire::CatchUp,
            }),
        });
        Self {
            title: old.title,
            message: old.message.into(),
            session: SessionTemplate {
                provider: old.session.provider,
                model: old.session.model.map(Into::into),
                agent: old.session.agent.map(|agent| agent.uri),
                directories: old.session.working_directories,
                settings: old.session.config,
            },
            enabled: old.enabled,
            schedules: schedules.collect(),
            stop: stop.collect(),
            notes: old.meta,
        }
    }
}

impl From<OldRun> for Run {
    fn from(old: OldRun) -> Self {
        let OldLifecycle {
            status,
            created_at,
            started_at,
            completed_at,
            usage,
            error,
        } = old.lifecycle;
        let outcome = match (status.as_str(), error) {
            ("cancelled", _) => RunOutcome::Cancelled,
            (_, Some(error)) => RunOutcome::Failed {
                kind: error.error_type,
                message: error.message,
            },
            _ => {
                let usage = usage.unwrap_or_default();
                RunOutcome::Completed(RunUsage {
                    model: usage.model,
                    input: usage.input_tokens.unwrap_or_default(),
                    output: usage.output_tokens.unwrap_or_default(),
                    cache_read: usage.cache_read_tokens.unwrap_or_default(),
                })
            }
        };
        let session = old.primary_session.and_then(|address| {
            let (_, id) = address.split_once(":/")?;
            let id = id.trim_start_matches('/').to_owned();
            Some(RunSession { id, address })
        });
        Self {
            id: run_id(&old.resource),
            cause: match old.origin {
                OldOrigin::Manual {} => RunCause::Asked,
                OldOrigin::Trigger {
                    trigger_id,
                    scheduled_for,
                    catch_up,
                } => RunCause::Schedule {
                    id: trigger_id,
                    due: scheduled_for.unwrap_or(created_at),
                    caught_up: catch_up == Some(true),
                },
            },
            created: created_at,
            started: started_at,
            ended: completed_at.map(|time| RunEnd { time, outcome }),
            session,
        }
    }
}
