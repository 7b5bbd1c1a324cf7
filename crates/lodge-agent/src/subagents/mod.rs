//! Sub-agents: agents that work on a task for another agent or a client. Each runs the same turn loop as the session's own
//! agent, with its own conversation and in its own task. Its events are in the session's log under its id.

pub(crate) mod builtin;
mod registry;
mod run;
mod tools;

use std::{collections::BTreeMap, sync::Arc};

use lodge_tools::custom::AgentDefinition;

use crate::session::Shared;
pub(crate) use registry::{Agents, Task};
pub use registry::{TaskInfo, TaskStatus};
pub(crate) use run::{Spawn, settle_interrupted};
pub(crate) use tools::{read_agent_spec, skill_spec, task_spec};

/// Default for how deeply sub-agents may be nested.
const MAX_DEPTH: usize = 3;
/// Default for how many sub-agents may run at the same time in a session.
const MAX_RUNNING: usize = 16;

/// Settings of sub-agents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubagentSettings {
    /// By kind of agent.
    pub agents: BTreeMap<String, SubagentOverride>,
    /// How many may run at the same time.
    pub max_running: Option<usize>,
    /// How deeply they may be nested.
    pub max_depth: Option<usize>,
}

/// Settings of one kind of agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubagentOverride {
    /// Its model.
    pub model: Option<String>,
    /// Its reasoning effort.
    pub effort: Option<String>,
}

/// The part of a [`Shared`] that makes it a sub-agent's.
pub(crate) struct Sub {
    /// The session itself.
    pub(crate) root: Arc<Shared>,
    /// The sub-agent.
    pub(crate) task: Arc<Task>,
    pub(crate) definition: Arc<AgentDefinition>,
    /// 1 for one that the session's own agent started.
    pub(crate) depth: usize,
}

impl Shared {
    /// The session's own, with the settings that apply to all its agents.
    pub(crate) fn root(&self) -> &Shared {
        self.sub.as_ref().map_or(self, |sub| &sub.root)
    }

    fn depth(&self) -> usize {
        self.sub.as_ref().map_or(0, |sub| sub.depth)
    }

    /// Whether this agent may start sub-agents.
    pub(crate) fn may_delegate(&self) -> bool {
        let most = self.root().settings.lock().subagents.max_depth.unwrap_or(MAX_DEPTH);
        self.depth() < most
    }
}
