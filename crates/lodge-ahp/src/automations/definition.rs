//! What an automation may be: the rules for definitions, before they are kept.

use std::{collections::HashSet, mem::discriminant};

use ahp_types::state::{
    AutomationDefinition, AutomationDefinitionPatch, AutomationDisableCondition, AutomationMisfirePolicy,
    AutomationScheduleTrigger, AutomationSessionTemplate, AutomationTrigger, MessageKind,
};
use jiff::Timestamp;
use serde_json::Value;

use super::cron::{self, Cron};
use crate::{
    actions::{self, MOST_DIRECTORIES},
    methods::session_settings,
    projection::check_attachments,
    uri,
};

/// A definition is at most so long, and its names and ids.
const BYTES: usize = 256 << 10;
const NAME_BYTES: usize = 1 << 10;
const TRIGGERS: usize = 32;

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

/// The scheme and the id that an automation's address is made of.
pub(super) fn address(resource: &str) -> Result<(), String> {
    let id = resource.strip_prefix("ahp-automation:").unwrap_or_default();
    let id = id.trim_start_matches('/');
    if id.is_empty() || resource.len() > NAME_BYTES || resource.chars().any(char::is_control) {
        return Err(format!(
            "{resource:?} is no address of an automation: that is ahp-automation:/ and an id"
        ));
    }
    Ok(())
}

/// Whether a definition can be one. `Err` says why not.
pub(super) fn check(definition: &AutomationDefinition) -> Result<(), String> {
    // Its sessions are called so.
    actions::title(&definition.title)?;
    if definition.message.origin.kind != MessageKind::Automation {
        return Err("the message's origin must be \"automation\"".to_owned());
    }
    check_attachments(&definition.message)?;
    template(&definition.session)?;
    let metas = [&definition.session.config, &definition.meta, &definition.message.meta];
    for (key, value) in metas.into_iter().flatten().flatten() {
        no_secret(key, value)?;
    }
    triggers(&definition.triggers)?;
    conditions(definition.disable_conditions.as_deref().unwrap_or_default())?;
    if serde_json::to_vec(definition).map_or(usize::MAX, |json| json.len()) > BYTES {
        return Err(format!("an automation has at most {} KiB", BYTES / 1024));
    }
    Ok(())
}

/// What can be said about a template before a run: whether its models and directories are there is seen then.
fn template(template: &AutomationSessionTemplate) -> Result<(), String> {
    if let Some(provider) = template.provider.as_deref().filter(|name| !uri::is_provider(name)) {
        return Err(format!("there is no provider {provider:?}"));
    }
    if template.customizations.as_ref().is_some_and(|list| !list.is_empty()) {
        return Err("this host captures no plugins for automations".to_owned());
    }
    let directories = template.working_directories.as_deref().unwrap_or_default();
    if directories.len() > MOST_DIRECTORIES {
        return Err(format!("a session has at most {MOST_DIRECTORIES} directories"));
    }
    // Folders that are on no machine are an editor's; beside others they are seen to when a run begins.
    if let Some(odd) = directories.first()
        && directories.iter().all(|directory| uri::path(directory).is_none())
    {
        return Err(format!("{odd:?} is not the address of a directory"));
    }
    session_settings(template.config.as_ref())
        .map(drop)
        .map_err(|error| error.message)
}

/// Definitions are read by every client, and hold no keys to anything.
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

fn triggers(triggers: &[AutomationTrigger]) -> Result<(), String> {
    if triggers.len() > TRIGGERS {
        return Err(format!("an automation has at most {TRIGGERS} triggers"));
    }
    let mut ids = HashSet::new();
    for trigger in triggers {
        let id = match trigger {
            AutomationTrigger::Schedule(trigger) => &trigger.id,
            AutomationTrigger::Event(trigger) => &trigger.id,
        };
        if id.trim().is_empty() || id.len() > NAME_BYTES || !ids.insert(id) {
            return Err(format!("every trigger has an id of its own, and {id:?} is none"));
        }
        match trigger {
            AutomationTrigger::Schedule(trigger) => schedule(trigger)?,
            AutomationTrigger::Event(trigger) => {
                return Err(format!("this host has no event trigger {:?}", trigger.r#type));
            }
        }
    }
    Ok(())
}

fn schedule(trigger: &AutomationScheduleTrigger) -> Result<(), String> {
    if let Some(AutomationMisfirePolicy::Unknown(odd)) = &trigger.misfire_policy {
        return Err(format!("there is no misfire policy {odd:?}"));
    }
    let schedule = &trigger.schedule;
    // Longer ones say the same twice.
    if schedule.expression.len() > NAME_BYTES {
        return Err(format!("a schedule has at most {NAME_BYTES} bytes"));
    }
    Cron::parse(&schedule.expression)?;
    cron::zone(&schedule.time_zone).map(drop)
}

fn conditions(conditions: &[AutomationDisableCondition]) -> Result<(), String> {
    for (at, condition) in conditions.iter().enumerate() {
        let kind = discriminant(condition);
        if conditions[..at].iter().any(|other| discriminant(other) == kind) {
            return Err("a kind of disable condition is there at most once".to_owned());
        }
        match condition {
            AutomationDisableCondition::AfterRuns(runs) if runs.max < 1 => {
                return Err("an automation is disabled after one run at least".to_owned());
            }
            AutomationDisableCondition::AfterDate(after) if after.date.parse::<Timestamp>().is_err() => {
                return Err(format!("{:?} is not a time as RFC 3339 writes it", after.date));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes up what a patch names. What it does not name stays.
pub(super) fn patch(definition: &mut AutomationDefinition, changes: AutomationDefinitionPatch) {
    fn set<T>(field: &mut T, to: Option<T>) {
        if let Some(to) = to {
            *field = to;
        }
    }
    set(&mut definition.title, changes.title);
    set(&mut definition.message, changes.message);
    set(&mut definition.session, changes.session);
    set(&mut definition.enabled, changes.enabled);
    set(&mut definition.triggers, changes.triggers);
    if changes.disable_conditions.is_some() {
        definition.disable_conditions = changes.disable_conditions;
    }
    if changes.meta.is_some() {
        definition.meta = changes.meta;
    }
}

/// Its schedules.
pub(super) fn schedules(definition: &AutomationDefinition) -> impl Iterator<Item = &AutomationScheduleTrigger> {
    definition.triggers.iter().filter_map(|trigger| match trigger {
        AutomationTrigger::Schedule(trigger) => Some(trigger),
        AutomationTrigger::Event(_) => None,
    })
}

/// After how many scheduled runs it is disabled.
pub(super) fn most_runs(definition: &AutomationDefinition) -> Option<i64> {
    let conditions = definition.disable_conditions.iter().flatten();
    conditions
        .filter_map(|condition| match condition {
            AutomationDisableCondition::AfterRuns(runs) => Some(runs.max),
            AutomationDisableCondition::AfterDate(_) => None,
        })
        .next()
}

/// When it is disabled.
pub(super) fn last_moment(definition: &AutomationDefinition) -> Option<Timestamp> {
    let conditions = definition.disable_conditions.iter().flatten();
    conditions
        .filter_map(|condition| match condition {
            AutomationDisableCondition::AfterDate(after) => after.date.parse().ok(),
            AutomationDisableCondition::AfterRuns(_) => None,
        })
        .next()
}
