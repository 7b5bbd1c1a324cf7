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

/// How deep sub-agents may start sub-agents, unless the settings say otherwise.
const MAX_DEPTH: usize = 3;
/// How many may run at the same time in a session, unless the settings say otherwise.
const MAX_RUNNING: usize = 16;

/// What is set about sub-agents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubagentSettings {
    /// By kind of agent.
    pub agents: BTreeMap<String, SubagentOverride>,
    /// Kinds that cannot be started.
    pub disabled: Vec<String>,
    /// How many may run at the same time.
    pub max_running: Option<usize>,
    /// How deep they may start others.
    pub max_depth: Option<usize>,
}

/// What is set about one kind of agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubagentOverride {
    /// The model it runs with.
    pub model: Option<String>,
    /// The effort it reasons with.
    pub effort: Option<String>,
}

/// What makes a [`Shared`] that of a sub-agent.
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
    /// The session's own: settings that hold for everybody in it are there.
    pub(crate) fn root(&self) -> &Shared {
        self.sub.as_ref().map_or(self, |sub| &sub.root)
    }

    fn depth(&self) -> usize {
        self.sub.as_ref().map_or(0, |sub| sub.depth)
    }

    /// Whether this agent may start others.
    pub(crate) fn may_delegate(&self) -> bool {
        let most = self.root().settings.lock().subagents.max_depth.unwrap_or(MAX_DEPTH);
        self.depth() < most
    }
}
