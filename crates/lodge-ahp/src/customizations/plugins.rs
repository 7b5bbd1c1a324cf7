//! Plugins that clients bring: directories of theirs with skills, agents, rules, commands, hooks and MCP servers.

use std::path::Path;

use ahp_types::state::ClientPluginCustomization;

use super::{Decisions, decision, fetch::Copied};

/// A client brings at most so many.
pub(super) const MOST: usize = 32;

/// A plugin of a client.
pub(super) struct Plugin {
    /// Its id in the session.
    pub(super) id: String,
    pub(super) client: String,
    pub(super) given: ClientPluginCustomization,
    /// None while it is being read.
    pub(super) fetched: Option<Result<Copied, String>>,
    /// The MCP servers that it brought to the session.
    pub(super) servers: Vec<String>,
}

impl Plugin {
    /// Whether it is on: as decided here, else as its client says.
    pub(super) fn is_on(&self, decisions: &Decisions) -> bool {
        let given = decision(self.given.enablement.as_deref().unwrap_or_default());
        decisions
            .get(&super::key_of(&self.id))
            .copied()
            .or(given)
            .unwrap_or(true)
    }

    /// What its client says of one of its parts.
    pub(super) fn said_of(&self, name: &str) -> Option<bool> {
        decision(self.given.child_enablement.as_ref()?.get(name)?)
    }

    /// What was read of it.
    pub(super) fn copied(&self) -> Option<&lodge_host::Plugin> {
        Some(&self.fetched.as_ref()?.as_ref().ok()?.plugin)
    }

    /// Where a file of the copy is in it.
    pub(super) fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.copied()?.root).ok()
    }
}
