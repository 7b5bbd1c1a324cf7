//! Definitions of automations, as clients write them and as the host keeps them, and this protocol's rules for them.

use ahp_types::state::{
    AgentSelection, AutomationAfterDateCondition, AutomationAfterRunsCondition, AutomationDefinition,
    AutomationDefinitionPatch, AutomationDisableCondition, AutomationMisfirePolicy, AutomationSchedule,
    AutomationScheduleTrigger, AutomationSessionTemplate, AutomationTrigger, MessageKind,
};
use lodge_host::{Definition, Misfire, Schedule, SessionTemplate, StopRule, TitleError, check_title};

use crate::{
    actions::MOST_DIRECTORIES,
    chats::{kept_message, kept_model, shown_message, shown_model},
    methods::session_settings,
    uri,
};

/// The longest address of an automation.
const NAME_BYTES: usize = 1 << 10;

/// Why a definition is not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum DefinitionError {
    #[error("{0:?} is not the address of an automation (ahp-automation:/ and an id)")]
    Address(String),
    #[error(transparent)]
    Title(#[from] TitleError),
    #[error("the message's origin must be \"automation\"")]
    Origin,
    #[error("there is no provider {0:?}")]
    NoProvider(String),
    #[error("this host captures no plugins for automations")]
    Plugins,
    #[error("a session has at most {MOST_DIRECTORIES} directories")]
    TooManyDirectories,
    #[error("{0:?} is not the address of a directory")]
    NotADirectory(String),
    /// The message of the error.
    #[error("{0}")]
    Settings(String),
    #[error("this host has no event trigger {0:?}")]
    EventTrigger(String),
    #[error("there is no misfire policy {0:?}")]
    MisfirePolicy(String),
}

/// The scheme and the id that an automation's address is made of.
pub(super) fn check_address(resource: &str) -> Result<(), DefinitionError> {
    let id = resource.strip_prefix("ahp-automation:").unwrap_or_default();
    let id = id.trim_start_matches('/');
    if id.is_empty() || resource.len() > NAME_BYTES || resource.chars().any(char::is_control) {
        return Err(DefinitionError::Address(resource.to_owned()));
    }
    Ok(())
}

/// Checks a definition against the rules of this protocol. The host has more.
pub(super) fn check(definition: &AutomationDefinition) -> Result<(), DefinitionError> {
    // It becomes the title of its sessions.
    check_title(&definition.title)?;
    if definition.message.origin.kind != MessageKind::Automation {
        return Err(DefinitionError::Origin);
    }
    template(&definition.session)
}

/// Checks what can be checked before a run. Whether the models and directories exist is checked when a run begins.
fn template(template: &AutomationSessionTemplate) -> Result<(), DefinitionError> {
    if let Some(provider) = template.provider.as_deref().filter(|name| !uri::is_provider(name)) {
        return Err(DefinitionError::NoProvider(provider.to_owned()));
    }
    if template.customizations.as_ref().is_some_and(|list| !list.is_empty()) {
        return Err(DefinitionError::Plugins);
    }
    let directories = template.working_directories.as_deref().unwrap_or_default();
    if directories.len() > MOST_DIRECTORIES {
        return Err(DefinitionError::TooManyDirectories);
    }
    // Folders that are on no machine are an editor's; beside others they are seen to when a run begins.
    if let Some(odd) = directories.first()
        && directories.iter().all(|directory| uri::path(directory).is_none())
    {
        return Err(DefinitionError::NotADirectory(odd.clone()));
    }
    session_settings(template.config.as_ref())
        .map(drop)
        .map_err(|error| DefinitionError::Settings(error.message))
}

/// A definition as the host keeps it.
pub(super) fn kept(definition: AutomationDefinition) -> Result<Definition, DefinitionError> {
    let schedules = definition.triggers.into_iter().map(|trigger| match trigger {
        AutomationTrigger::Schedule(trigger) => schedule(trigger),
        AutomationTrigger::Event(trigger) => Err(DefinitionError::EventTrigger(trigger.r#type)),
    });
    let stop = definition.disable_conditions.into_iter().flatten();
    let stop = stop.map(|condition| match condition {
        AutomationDisableCondition::AfterRuns(runs) => StopRule::AfterRuns(runs.max),
        AutomationDisableCondition::AfterDate(after) => StopRule::At(after.date),
    });
    let session = definition.session;
    Ok(Definition {
        title: definition.title,
        message: kept_message(&definition.message),
        session: SessionTemplate {
            provider: session.provider,
            model: session.model.map(kept_model),
            agent: session.agent.map(|agent| agent.uri),
            directories: session.working_directories,
            settings: session.config,
        },
        enabled: definition.enabled,
        schedules: schedules.collect::<Result<_, _>>()?,
        stop: stop.collect(),
        notes: definition.meta,
    })
}

fn schedule(trigger: AutomationScheduleTrigger) -> Result<Schedule, DefinitionError> {
    let misfire = match trigger.misfire_policy {
        None => None,
        Some(AutomationMisfirePolicy::Skip) => Some(Misfire::Skip),
        Some(AutomationMisfirePolicy::RunOnce) => Some(Misfire::CatchUp),
        Some(AutomationMisfirePolicy::Unknown(odd)) => return Err(DefinitionError::MisfirePolicy(odd)),
    };
    Ok(Schedule {
        id: trigger.id,
        cron: trigger.schedule.expression,
        time_zone: trigger.schedule.time_zone,
        misfire,
    })
}

/// A definition that the host keeps, as clients see it.
pub(super) fn shown(definition: &Definition) -> AutomationDefinition {
    let Definition {
        title,
        message,
        session,
        enabled,
        schedules,
        stop,
        notes,
    } = definition.clone();
    let conditions = stop.into_iter().map(|rule| match rule {
        StopRule::AfterRuns(max) => AutomationDisableCondition::AfterRuns(AutomationAfterRunsCondition { max }),
        StopRule::At(date) => AutomationDisableCondition::AfterDate(AutomationAfterDateCondition { date }),
    });
    let conditions: Vec<_> = conditions.collect();
    AutomationDefinition {
        title,
        message: shown_message(message, MessageKind::Automation),
        session: AutomationSessionTemplate {
            provider: session.provider,
            model: session.model.map(shown_model),
            agent: session.agent.map(|uri| AgentSelection { uri }),
            working_directories: session.directories,
            config: session.settings,
            customizations: None,
        },
        enabled,
        triggers: schedules.into_iter().map(trigger).collect(),
        disable_conditions: (!conditions.is_empty()).then_some(conditions),
        meta: notes,
    }
}

fn trigger(schedule: Schedule) -> AutomationTrigger {
    AutomationTrigger::Schedule(AutomationScheduleTrigger {
        id: schedule.id,
        schedule: AutomationSchedule {
            expression: schedule.cron,
            time_zone: schedule.time_zone,
        },
        misfire_policy: schedule.misfire.map(|misfire| match misfire {
            Misfire::Skip => AutomationMisfirePolicy::Skip,
            Misfire::CatchUp => AutomationMisfirePolicy::RunOnce,
        }),
    })
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
