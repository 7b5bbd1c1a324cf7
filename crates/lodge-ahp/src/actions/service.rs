//! What clients may say about terminals, changesets, annotations and watches.

use ahp_types::StateAction;

use super::{After, Dispatch, NoChange, Plan, Refusal};
use crate::{face::Inner, state::Service, terminals};

/// The rules of service channels. What stands behind a channel is told by an effect of the plan.
pub(super) fn check(
    inner: &Inner,
    service: &Service,
    dispatch: &Dispatch<'_>,
    action: &StateAction,
) -> Result<Plan, Refusal> {
    match service {
        Service::Terminal(state) => {
            let deed = terminals::check(inner, dispatch.peer, &dispatch.channel, state, action)?;
            let same = matches!(action, StateAction::TerminalResized(to) if state.cols == Some(to.cols) && state.rows == Some(to.rows));
            Ok(if same {
                Plan::nothing(NoChange::Echo)
            } else {
                Plan::default().then(After::Terminal(deed))
            })
        }
        Service::Changeset(_) => Err("only the host says this about changes".to_owned()),
        Service::Annotations(_) => Err("only the host says this about annotations".to_owned()),
        Service::Watch(_) => Err("only the host says what it watched".to_owned()),
    }
}
