//! Plugins that clients bring: directories of theirs with skills, agents, rules, commands, hooks and MCP servers.

use std::collections::BTreeMap;

use ahp_types::state::ClientPluginCustomization;
use lodge_host::{BroughtPlugin, decision_key};

use super::{
    Decisions, decision,
    fetch::{Copied, FetchError},
};

/// A client brings at most so many.
pub(super) const MOST: usize = 32;

/// A plugin of a client.
pub(super) struct Plugin {
    pub(super) brought: BroughtPlugin,
    pub(super) client: String,
    pub(super) given: ClientPluginCustomization,
    /// None while it is being read.
    pub(super) fetched: Option<Result<Copied, FetchError>>,
}

/// What the host knows of plugins.
pub(super) fn brought(plugins: &[Plugin]) -> Vec<&BroughtPlugin> {
    plugins.iter().map(|plugin| &plugin.brought).collect()
}

/// What a client says of the parts of its plugin.
pub(super) fn parts(given: &ClientPluginCustomization) -> BTreeMap<String, bool> {
    let said = given.child_enablement.iter().flatten();
    said.filter_map(|(name, said)| Some((name.clone(), decision(said)?)))
        .collect()
}

impl Plugin {
    /// Whether it is on: as decided here, else as its client says.
    pub(super) fn is_on(&self, decisions: &Decisions) -> bool {
        let given = || decision(self.given.enablement.as_deref().unwrap_or_default());
        let decided = decisions.all.is_on(&decision_key(&self.brought.id));
        decided.or_else(given).unwrap_or(true)
    }

    /// What was read of it.
    pub(super) fn copied(&self) -> Option<&lodge_host::Plugin> {
        Some(&self.fetched.as_ref()?.as_ref().ok()?.plugin)
    }
}
