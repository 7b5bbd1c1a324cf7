//! What clients may say about terminals, changesets, annotations and watches.

use ahp_types::StateAction;

use super::{Dispatch, Plan, Refusal};
use crate::state::Service;

/// The rules of service channels. What stands behind a channel is told by an effect of the plan.
pub(super) fn check(service: &Service, _dispatch: &Dispatch<'_>, _action: &StateAction) -> Result<Plan, Refusal> {
    match service {
        Service::Terminal(_) => Err("only the host says this about a terminal".to_owned()),
        Service::Changeset(_) => Err("only the host says this about changes".to_owned()),
        Service::Annotations(_) => Err("only the host says this about annotations".to_owned()),
        Service::Watch(_) => Err("only the host says what it watched".to_owned()),
    }
}
