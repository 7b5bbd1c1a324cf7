//! Rules for actions on terminals, changesets, annotations and watches.

use ahp_types::{StateAction, state::ChangesetState};

use super::{
    Dispatch, Refusal,
    plan::{After, NoChange, Plan},
    refusal::ServiceRefusal,
};
use crate::{changesets::Kind, face::Inner, state::Service, terminals};

/// Checks an action on a service channel. An effect of the plan carries it out.
pub(super) fn check(
    inner: &Inner,
    service: &Service,
    dispatch: &Dispatch<'_>,
    action: &StateAction,
) -> Result<Plan, Refusal> {
    match service {
        Service::Terminal(state) => {
            let effect = terminals::check(inner, dispatch.peer, &dispatch.channel, state, action)?;
            let same = matches!(action, StateAction::TerminalResized(to) if state.cols == Some(to.cols) && state.rows == Some(to.rows));
            Ok(if same {
                Plan::nothing(NoChange::Echo)
            } else {
                Plan::default().then(After::Terminal(effect))
            })
        }
        Service::Changeset(state) => changes(inner, state, dispatch, action),
        Service::Annotations(state) => {
            let write = inner.new_annotations(&dispatch.channel, state, action)?;
            Ok(Plan::write(write).then(After::Annotated))
        }
        // What clients of today say there never comes here.
        Service::Automations(_) | Service::AutomationRun(_) => Err(ServiceRefusal::NoAutomations.into()),
        Service::Telemetry(_) => Err(ServiceRefusal::Nothing.into()),
        Service::Watch(_) => Err(Refusal::NotFor("a watch")),
    }
}

/// Clients may mark files as reviewed where that is offered. All other actions are the host's.
fn changes(
    inner: &Inner,
    state: &ChangesetState,
    dispatch: &Dispatch<'_>,
    action: &StateAction,
) -> Result<Plan, Refusal> {
    let StateAction::ChangesetFilesReviewChanged(changed) = action else {
        return Err(Refusal::NotFor("changes"));
    };
    if !Kind::parse(&dispatch.channel).is_some_and(|(_, kind)| kind.is_reviewed()) {
        return Err(ServiceRefusal::NotReviewed.into());
    }
    let find = |id: &String| state.files.iter().find(|file| file.id == *id);
    if let Some(unknown) = changed.files.iter().find(|id| find(id).is_none()) {
        return Err(ServiceRefusal::NotChanged(unknown.clone()).into());
    }
    let known = |id: &String| find(id).is_some_and(|file| file.reviewed == Some(changed.reviewed));
    if changed.files.iter().all(known) {
        return Ok(Plan::nothing(NoChange::Echo));
    }
    let write = inner.new_review_marks(&dispatch.channel, state, changed);
    Ok(Plan::write(write).then(After::Reviewed))
}
