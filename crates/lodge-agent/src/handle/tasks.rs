//! Background work (sub-agents and shells), as people and apps control it.

use std::sync::Arc;

use lodge_models::ResponseFormat;
use lodge_tools::BackgroundShell;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Agent;
use crate::{
    AgentError,
    actor::Command,
    settings::Prompt,
    subagents::{Spawn, Task, TaskInfo, TaskStatus},
};

/// A sub-agent that a client wants started.
#[derive(Debug, Clone, Default)]
pub struct NewTask {
    /// Its kind.
    pub agent_type: String,
    /// Its name, which becomes its id.
    pub name: String,
    /// What it is told.
    pub prompt: String,
    /// What it is about.
    pub description: Option<String>,
    /// Another model than the session's.
    pub model: Option<String>,
    /// Effort to reason with.
    pub effort: Option<String>,
    /// The form that its answer must have.
    pub response_format: Option<Arc<ResponseFormat>>,
}

/// A sub-agent that works for a factory run. Dropping it stops the agent.
pub struct FactoryAgent(Arc<Task>);

/// How a sub-agent ended.
#[derive(Debug, Clone)]
pub struct AgentEnd {
    /// Its state.
    pub status: TaskStatus,
    /// Its answer, or the reason why there is none.
    pub result: String,
    /// What its model calls cost, in the provider's unit.
    pub cost: f64,
    /// How long it ran, in milliseconds.
    pub active_ms: u64,
}

impl FactoryAgent {
    /// Its id in events.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The tool call that its events belong to.
    pub fn tool_call_id(&self) -> &str {
        &self.0.tool_call_id
    }

    /// Its model.
    pub fn model(&self) -> &str {
        &self.0.model
    }

    /// Asks it to stop.
    pub fn stop(&self) {
        self.0.cancel.cancel();
    }

    /// Waits for its end.
    pub async fn ended(&self) -> AgentEnd {
        let state = self.0.ended().await;
        AgentEnd {
            status: state.status,
            result: state.result,
            cost: state.cost,
            active_ms: state.took.unwrap_or_default().as_millis() as u64,
        }
    }
}

impl Drop for FactoryAgent {
    fn drop(&mut self) {
        self.0.cancel.cancel();
    }
}

impl Agent {
    /// The sub-agents that run, and those that ended in the background.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.shared.agents.list()
    }

    /// Commands that go on, or went on, in the background, without secrets.
    pub fn background_shells(&self) -> Vec<BackgroundShell> {
        let secrets = self.shared.recorder.secrets();
        let shells = self.shared.tool_state.background_shells().into_iter();
        let shown = shells.map(|shell| BackgroundShell {
            command: secrets.hide_in(shell.command),
            recent: secrets.hide_in(shell.recent),
            ..shell
        });
        shown.collect()
    }

    /// Counts up when a command continues in the background, and when one of those ends.
    pub fn background_changed(&self) -> watch::Receiver<u64> {
        self.shared.tool_state.background_changed()
    }

    /// Starts a sub-agent in the background. Answers with its id.
    pub async fn start_agent(&self, new: NewTask) -> Result<String, AgentError> {
        Ok(self.spawn_task(new, None).await?.id.to_string())
    }

    /// Starts a sub-agent for a factory run. The conversation hears nothing of its answer.
    pub async fn start_factory_agent(&self, new: NewTask, run_id: &str) -> Result<FactoryAgent, AgentError> {
        Ok(FactoryAgent(self.spawn_task(new, Some(run_id.to_owned())).await?))
    }

    async fn spawn_task(&self, new: NewTask, factory_run: Option<String>) -> Result<Arc<Task>, AgentError> {
        self.ask(Command::Load).await?;
        let definition = self.shared.startable(&new.agent_type).map_err(AgentError::Refused)?;
        if let Some(model) = &new.model {
            self.shared.find_model(model).await.map_err(AgentError::Refused)?;
        }
        let spawn = Spawn {
            description: new.description.unwrap_or_else(|| new.name.clone()),
            name: new.name,
            prompt: new.prompt,
            model: new.model,
            effort: new.effort,
            tool_call_id: None,
            background: factory_run.is_none(),
            cancel: CancellationToken::new(),
            response_format: new.response_format,
            factory_run,
            definition,
        };
        self.shared.spawn_agent(spawn).await.map_err(AgentError::Refused)
    }

    /// Stops a sub-agent, or a command in the background. False when it does not run.
    pub async fn cancel_task(&self, id: &str) -> bool {
        let Some(task) = self.shared.agents.find(id).filter(|task| task.running()) else {
            return self.shared.tool_state.stop_background_shell(id).await;
        };
        task.cancel.cancel();
        task.ended().await;
        true
    }

    /// Stops all sub-agents in the background. Answers how many.
    pub async fn cancel_background_agents(&self) -> usize {
        self.shared.agents.stop(|task| task.state.borrow().background).await
    }

    /// Forgets a sub-agent, or a command in the background, that has ended.
    pub fn remove_task(&self, id: &str) -> bool {
        let removed = self.shared.agents.remove(id);
        if removed {
            self.shared.agents.drop_notice(id);
        }
        removed || self.shared.tool_state.forget_background_shell(id)
    }

    /// Lets a turn go on that waits for a sub-agent. False when none waits for it.
    pub fn promote_task(&self, id: &str) -> bool {
        let Some(task) = self.shared.agents.find(id).filter(|task| task.parent.is_none()) else {
            return false;
        };
        let promoted = task.state.send_if_modified(|state| {
            let waits = state.status == TaskStatus::Running && !state.background;
            state.background |= waits;
            waits
        });
        if promoted {
            self.shared.agents.changed.notify_one();
        }
        promoted
    }

    /// Says something to a sub-agent that works. False when it does not.
    pub fn tell_task(&self, id: &str, message: &str) -> bool {
        let Some(task) = self.shared.agents.find(id).filter(|task| task.running()) else {
            return false;
        };
        let prompt = Prompt {
            text: message.to_owned(),
            ..Prompt::default()
        };
        task.interjections.add(prompt);
        true
    }

    /// Waits until no sub-agent works and no turn runs.
    pub async fn tasks_settled(&self) {
        while self.is_busy() {
            match self.shared.agents.running().first() {
                Some(task) => drop(task.ended().await),
                None => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    }
}
