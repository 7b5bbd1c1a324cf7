//! The role that each method needs. Methods that are not listed need `full`. The snapshot of this table names every method, so
//! nobody adds one without choosing its role.
//!
//! Devices are made for clients of the Agent Host Protocol. On this wire, opening a session sets everything about it, so it
//! needs `full`; the lesser roles list sessions and read their logs.

use lodge_door::Role;

const VIEW: &[&str] = &[
    "connect",
    "models.list",
    "ping",
    "session.getLastId",
    "session.getMetadata",
    "session.list",
    "sessions.getMetadata",
    "sessions.list",
    "sessions.readPersistedEvents",
    "status.get",
    "tools.list",
];

const APPROVE: &[&str] = &[
    "session.permissions.handlePendingPermissionRequest",
    "session.ui.handlePendingAutoModeSwitch",
    "session.ui.handlePendingElicitation",
    "session.ui.handlePendingExitPlanMode",
    "session.ui.handlePendingUserInput",
];

/// The least role that may call a method.
pub(crate) fn needed(method: &str) -> Role {
    if VIEW.contains(&method) {
        Role::View
    } else if APPROVE.contains(&method) {
        Role::Approve
    } else {
        Role::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::CAPABILITIES;

    #[test]
    fn every_method_has_a_role_that_somebody_looked_at() {
        let methods = CAPABILITIES.iter().flat_map(|capability| capability.methods);
        let mut table: Vec<String> = methods
            .map(|method| format!("{} {}", needed(method.name), method.name))
            .collect();
        table.sort();
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn every_row_is_a_method() {
        for name in VIEW.iter().chain(APPROVE) {
            assert!(crate::methods::find(name).is_some(), "{name}");
        }
    }
}
