//! Automations and their runs as clients see them.

use std::collections::HashMap;

use ahp_types::{
    StateAction,
    actions::{
        AutomationRemovedAction, AutomationRunLifecycleChangedAction, AutomationRunPrimarySessionChangedAction,
        AutomationRunSessionRemovedAction, AutomationRunSessionSetAction, AutomationSetAction,
    },
    state::{
        AutomationCancelledRunLifecycle, AutomationCompletedRunLifecycle, AutomationEntry,
        AutomationFailedRunLifecycle, AutomationManualRunOrigin, AutomationOperation, AutomationPendingRunLifecycle,
        AutomationRunLifecycle, AutomationRunOrigin, AutomationRunState, AutomationRunSummary,
        AutomationRunningRunLifecycle, AutomationTriggeredRunOrigin, UsageInfo,
    },
};
use lodge_host::{Automation, AutomationChange, Run, RunCause, RunEnd, RunOutcome, RunUsage};

use super::{CHANNEL, RUN, address, definition};
use crate::{
    face::Face,
    projection::{error_info, timestamp},
    rpc::RpcError,
    state::Core,
};

/// So many runs that are over are shown at first, and more with every page.
const PAGE: usize = 20;

/// How many of its runs that are over clients see of each automation.
#[derive(Default)]
pub(super) struct Pages(HashMap<String, usize>);

impl Pages {
    fn shown(&self, automation: &Automation) -> usize {
        self.0.get(&automation.id).copied().unwrap_or(PAGE)
    }

    /// Shows a page more of the runs that are over. False: what a cursor stands for is shown already, or there is no more.
    fn show_more(&mut self, automation: &Automation, cursor: Option<&str>) -> Result<bool, RpcError> {
        let over: Vec<&Run> = automation.runs.iter().filter(|run| run.is_over()).collect();
        let shown = self.shown(automation).min(over.len());
        if let Some(cursor) = cursor {
            let at = over.iter().position(|run| cursor.strip_prefix(RUN) == Some(&run.id));
            let odd = || RpcError::params(format!("{cursor:?} is not a cursor of this automation's runs"));
            if at.ok_or_else(odd)? + 1 < shown {
                return Ok(false);
            }
        }
        let more = shown < over.len();
        if more {
            self.0.insert(automation.id.clone(), shown + PAGE);
        }
        Ok(more)
    }

    /// The automation as clients see it.
    pub(super) fn entry(&self, automation: &Automation, allowed: bool) -> AutomationEntry {
        let most = self.shown(automation);
        let mut over = 0;
        let mut last = None;
        let shown = automation.runs.iter().filter(|run| {
            over += usize::from(run.is_over());
            let shown = !run.is_over() || over <= most;
            if run.is_over() && shown {
                last = Some(format!("{RUN}{}", run.id));
            }
            shown
        });
        let runs = shown.map(|run| summary(automation, run)).collect();
        let operations = [
            Some(AutomationOperation::Update),
            (!automation.is_active()).then_some(AutomationOperation::Remove),
            allowed.then_some(AutomationOperation::Run),
        ];
        AutomationEntry {
            resource: address(&automation.id),
            definition: definition::shown(&automation.definition),
            next_run_at: automation.next_run().map(timestamp),
            run_count: automation.run_count,
            runs,
            runs_next_cursor: last.filter(|_| over > most),
            operations: operations.into_iter().flatten().collect(),
            customizations: None,
            created_at: timestamp(automation.created),
            modified_at: timestamp(automation.modified),
            meta: None,
        }
    }
}

/// A run as its own channel shows it.
pub(super) fn run_state(automation: &Automation, run: &Run) -> AutomationRunState {
    let session = run.session.as_ref().map(|session| session.address.clone());
    AutomationRunState {
        resource: format!("{RUN}{}", run.id),
        automation: address(&automation.id),
        origin: origin(&run.cause),
        lifecycle: lifecycle(run),
        sessions: session.clone().into_iter().collect(),
        primary_session: session,
        meta: None,
    }
}

fn summary(automation: &Automation, run: &Run) -> AutomationRunSummary {
    let state = run_state(automation, run);
    AutomationRunSummary {
        session_count: state.sessions.len() as i64,
        resource: state.resource,
        automation: state.automation,
        origin: state.origin,
        lifecycle: state.lifecycle,
        primary_session: state.primary_session,
        meta: None,
    }
}

fn origin(cause: &RunCause) -> AutomationRunOrigin {
    match cause {
        RunCause::Asked => AutomationRunOrigin::Manual(AutomationManualRunOrigin {}),
        RunCause::Schedule { id, due, caught_up } => AutomationRunOrigin::Trigger(AutomationTriggeredRunOrigin {
            trigger_id: id.clone(),
            scheduled_for: Some(timestamp(*due)),
            catch_up: caught_up.then_some(true),
            event: None,
        }),
    }
}

fn lifecycle(run: &Run) -> AutomationRunLifecycle {
    let created_at = timestamp(run.created);
    let started_at = run.started.map(timestamp);
    let Some(RunEnd { time, outcome }) = &run.ended else {
        return match started_at {
            Some(started_at) => {
                AutomationRunLifecycle::Running(AutomationRunningRunLifecycle { created_at, started_at })
            }
            None => AutomationRunLifecycle::Pending(AutomationPendingRunLifecycle { created_at }),
        };
    };
    let completed_at = timestamp(*time);
    match outcome {
        RunOutcome::Completed(used) => AutomationRunLifecycle::Completed(AutomationCompletedRunLifecycle {
            started_at: started_at.unwrap_or_else(|| completed_at.clone()),
            created_at,
            completed_at,
            usage: usage(used),
        }),
        RunOutcome::Cancelled => AutomationRunLifecycle::Cancelled(AutomationCancelledRunLifecycle {
            created_at,
            started_at,
            completed_at,
        }),
        RunOutcome::Failed { kind, message } => AutomationRunLifecycle::Failed(AutomationFailedRunLifecycle {
            created_at,
            started_at,
            completed_at,
            error: error_info(kind, message),
        }),
    }
}

fn usage(used: &RunUsage) -> Option<UsageInfo> {
    let count = |tokens: u64| i64::try_from(tokens).ok();
    used.model.is_some().then(|| UsageInfo {
        input_tokens: count(used.input),
        output_tokens: count(used.output),
        model: used.model.clone(),
        cache_read_tokens: count(used.cache_read).filter(|tokens| *tokens > 0),
        meta: None,
    })
}

/// What those hear who listen to a run.
fn run_actions(before: &Run, now: &Run) -> Vec<StateAction> {
    let mut actions = Vec::new();
    let lifecycle = lifecycle(now);
    if self::lifecycle(before) != lifecycle {
        let action = AutomationRunLifecycleChangedAction { lifecycle };
        actions.push(StateAction::AutomationRunLifecycleChanged(Box::new(action)));
    }
    match (&before.session, &now.session) {
        (None, Some(session)) => {
            let session = session.address.clone();
            let set = AutomationRunSessionSetAction {
                session: session.clone(),
            };
            let primary = AutomationRunPrimarySessionChangedAction {
                primary_session: Some(session),
            };
            actions.push(StateAction::AutomationRunSessionSet(set));
            actions.push(StateAction::AutomationRunPrimarySessionChanged(primary));
        }
        (Some(session), None) => {
            let session = session.address.clone();
            let action = AutomationRunSessionRemovedAction { session };
            actions.push(StateAction::AutomationRunSessionRemoved(action));
        }
        _ => {}
    }
    actions
}

impl Core {
    /// Tells all that an automation is so now.
    fn show_automation(&mut self, pages: &Pages, automation: &Automation, allowed: bool) {
        let automation = pages.entry(automation, allowed);
        let action = StateAction::AutomationSet(Box::new(AutomationSetAction { automation }));
        self.publish(CHANNEL, &action, None);
    }
}

impl Face {
    /// Shows everybody a page more of the runs of an automation.
    pub(crate) async fn show_runs(&self, at: &str, cursor: Option<&str>) -> Result<(), RpcError> {
        self.check_allowed()?;
        let automations = self.host.automations();
        let shown = automations.look(|all| {
            let known = all.iter().find(|one| address(&one.id) == at);
            let missing = || lodge_host::AutomationError::NotFound(super::id_at(at).to_owned());
            let known = known.ok_or_else(|| super::rpc_error(missing()))?;
            let mut pages = self.automations.pages.lock();
            if pages.show_more(known, cursor)? {
                let allowed = automations.are_allowed();
                self.inner.lock().core.show_automation(&pages, known, allowed);
            }
            Ok(())
        });
        shown.await
    }

    /// Tells clients what happened: first of runs, then of the automation.
    pub(super) fn automation_changed(&self, change: AutomationChange<'_>, allowed: bool) {
        let mut pages = self.automations.pages.lock();
        let mut inner = self.inner.lock();
        let core = &mut inner.core;
        let mut forgotten = Vec::new();
        match change {
            AutomationChange::Set { before, now } => {
                for run in before.into_iter().flat_map(|before| &before.runs) {
                    let channel = format!("{RUN}{}", run.id);
                    match now.run(&run.id) {
                        Some(now) => {
                            for action in run_actions(run, now) {
                                core.publish(&channel, &action, None);
                            }
                        }
                        None => forgotten.push(channel),
                    }
                }
                core.show_automation(&pages, now, allowed);
            }
            AutomationChange::Removed(automation) => {
                let resource = address(&automation.id);
                let origin = self.automations.removing.lock().remove(&automation.id);
                let action = StateAction::AutomationRemoved(AutomationRemovedAction { resource });
                core.publish(CHANNEL, &action, origin.as_ref());
                forgotten.extend(automation.runs.iter().map(|run| format!("{RUN}{}", run.id)));
                pages.0.remove(&automation.id);
            }
            AutomationChange::Allowed(all) => {
                for automation in all {
                    core.show_automation(&pages, automation, allowed);
                }
            }
        }
        for run in forgotten {
            core.remove_service(&run);
        }
    }
}
