//! `lodge automations`: lists, runs and removes automations. Clients with a screen create them.

use std::{path::Path, process::ExitCode};

use ahp::ahp_types::{
    StateAction,
    actions::AutomationRemovedAction,
    commands::{RunAutomationParams, RunAutomationResult, SubscribeResult},
    state::{AutomationEntry, AutomationRunLifecycle, AutomationRunState, AutomationTrigger, SnapshotState},
};
use anyhow::{Result, anyhow, bail};
use serde_json::json;
use uuid::Uuid;

use super::{
    link::{Inbound, Link, reason},
    place::Place,
};
use crate::{cli::AutomationsCommand, serve::print_line};
use lodge_terminal::plain;

const ALL: &str = "ahp-automations://";
/// Prefix of an automation's address.
const SCHEME: &str = "ahp-automation:/";

/// Lists, runs and removes automations.
pub(crate) async fn automations(home: &Path, command: Option<&AutomationsCommand>) -> Result<ExitCode> {
    let me = format!("lodge-automations-{}", Uuid::new_v4());
    let (mut link, hello) = Link::connect(&Place::of_home(home), &me).await?;
    if hello.automations.is_none() {
        bail!("This host has no automations.");
    }
    let SnapshotState::Automations(all) = subscribe(&link, ALL).await? else {
        bail!("The host did not return its automations.");
    };
    match command {
        None | Some(AutomationsCommand::List) => list(&all.entries),
        Some(AutomationsCommand::Run { id }) => run(&mut link, &find(&all.entries, id)?.resource).await?,
        Some(AutomationsCommand::Remove { id }) => remove(&mut link, &me, &find(&all.entries, id)?.resource).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(entries: &[AutomationEntry]) {
    if entries.is_empty() {
        print_line("There are no automations. Create them on the web page or in an editor such as VS Code.");
    }
    for entry in entries {
        let next = match &entry.next_run_at {
            Some(next) => format!("next {next}"),
            None if !entry.definition.enabled => "off".to_owned(),
            None => "manual".to_owned(),
        };
        let last = entry.runs.first().map_or("never ran", |run| status(&run.lifecycle));
        let schedules = entry.definition.triggers.iter().filter_map(|trigger| match trigger {
            AutomationTrigger::Schedule(trigger) => Some(&trigger.schedule),
            AutomationTrigger::Event(_) => None,
        });
        let schedules = schedules.map(|schedule| format!("  [{} {}]", schedule.expression, schedule.time_zone));
        print_line(&format!(
            "{}  {}  {next}  {last}{}",
            plain(id_of(&entry.resource)),
            plain(&entry.definition.title).replace('\n', " "),
            schedules.collect::<String>()
        ));
    }
}

/// Starts a run, and says where it runs or why it does not.
async fn run(link: &mut Link, automation: &str) -> Result<()> {
    let params = RunAutomationParams {
        channel: ALL.to_owned(),
        meta: None,
        automation: automation.to_owned(),
        request_id: Uuid::new_v4().to_string(),
    };
    let started = link.client.request("runAutomation", params).await;
    let started: RunAutomationResult =
        started.map_err(|error| anyhow!("The automation cannot run: {}", reason(&error)))?;
    let SnapshotState::AutomationRun(run) = subscribe(link, &started.resource).await? else {
        bail!("The host did not return the run.");
    };
    let mut run: AutomationRunState = *run;
    while !is_known(&run) {
        match link.next().await {
            Some(Inbound::Action(said)) if said.channel == started.resource => {
                ahp::apply_action_to_automation_run(&mut run, &said.action);
            }
            Some(_) => {}
            None => bail!("The connection was lost; the run may still be in progress."),
        }
    }
    if let AutomationRunLifecycle::Failed(failed) = &run.lifecycle {
        bail!("The run failed: {}", plain(&failed.error.message));
    }
    let Some(session) = run.primary_session.as_deref() else {
        bail!("Somebody cancelled the run before it began.");
    };
    let session = session.rsplit('/').next().unwrap_or_default();
    print_line(&format!("Running. Watch it with: lodge attach {session}"));
    Ok(())
}

/// Whether a run has started in a session, or is over without one.
fn is_known(run: &AutomationRunState) -> bool {
    use AutomationRunLifecycle as Now;
    run.primary_session.is_some() || !matches!(run.lifecycle, Now::Pending(_) | Now::Running(_))
}

async fn remove(link: &mut Link, me: &str, automation: &str) -> Result<()> {
    let action = AutomationRemovedAction {
        resource: automation.to_owned(),
    };
    let sent = link
        .client
        .dispatch(ALL.to_owned(), StateAction::AutomationRemoved(action))
        .await?;
    loop {
        let Some(news) = link.next().await else {
            bail!(
                "The connection was lost before the host confirmed. `lodge automations` shows whether the automation was removed."
            );
        };
        let Inbound::Action(said) = news else { continue };
        let is_ours = |origin: &ahp::ahp_types::actions::ActionOrigin| {
            origin.client_id == me && origin.client_seq == sent.client_seq
        };
        if said.origin.as_ref().is_some_and(is_ours) {
            return match said.rejection_reason {
                Some(reason) => bail!("The automation cannot be removed: {}", plain(&reason)),
                None => Ok(()),
            };
        }
    }
}

async fn subscribe(link: &Link, channel: &str) -> Result<SnapshotState> {
    let subscribed = link.client.request("subscribe", json!({ "channel": channel })).await;
    let subscribed: SubscribeResult =
        subscribed.map_err(|error| anyhow!("The host did not answer: {}", reason(&error)))?;
    let snapshot = subscribed.snapshot.ok_or_else(|| anyhow!("The host did not answer."))?;
    Ok(snapshot.state)
}

/// Finds an automation by its id, or by a unique beginning of it.
fn find<'a>(entries: &'a [AutomationEntry], id: &str) -> Result<&'a AutomationEntry> {
    let is = |entry: &&AutomationEntry| entry.resource == id || id_of(&entry.resource) == id;
    if let Some(found) = entries.iter().find(is) {
        return Ok(found);
    }
    let begins = |entry: &&AutomationEntry| !id.is_empty() && id_of(&entry.resource).starts_with(id);
    let mut begun = entries.iter().filter(begins);
    match (begun.next(), begun.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => bail!("Several automations begin with {id:?}; `lodge automations` lists them."),
        (None, _) => bail!("There is no automation {id:?}; `lodge automations` lists them."),
    }
}

fn id_of(resource: &str) -> &str {
    resource.strip_prefix(SCHEME).unwrap_or(resource)
}

fn status(lifecycle: &AutomationRunLifecycle) -> &'static str {
    match lifecycle {
        AutomationRunLifecycle::Pending(_) => "pending",
        AutomationRunLifecycle::Running(_) => "running",
        AutomationRunLifecycle::Completed(_) => "succeeded",
        AutomationRunLifecycle::Failed(_) => "failed",
        AutomationRunLifecycle::Cancelled(_) => "was cancelled",
    }
}
