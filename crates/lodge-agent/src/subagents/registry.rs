//! The running sub-agents of a session, and the ended ones whose result can still be read.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use lodge_events::SystemNotification;
use lodge_models::ResponseFormat;
use lodge_tools::custom::AgentDefinition;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::queue::Interjections;

/// How many ended sub-agents are remembered.
const MAX_ENDED: usize = 64;
/// How many lines of activity of each are remembered.
const MAX_LINES: usize = 20;

/// The state of a sub-agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// It is running.
    Running,
    /// It has answered.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl TaskStatus {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The changing state of a sub-agent.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) status: TaskStatus,
    pub(crate) background: bool,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) took: Option<Duration>,
    /// What its model calls cost, in the provider's unit.
    pub(crate) cost: f64,
    /// The answer, or the reason why there is none.
    pub(crate) result: String,
    /// Whether a person rejected one of its requests.
    pub(crate) rejected: bool,
}

/// One sub-agent.
pub(crate) struct Task {
    /// Its id in events.
    pub(crate) id: Arc<str>,
    /// The tool call that started it.
    pub(crate) tool_call_id: String,
    pub(crate) definition: Arc<AgentDefinition>,
    /// Its name for people.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) prompt: String,
    /// The model requested by name.
    pub(crate) asked_model: Option<String>,
    /// The form that its answer must have.
    pub(crate) response_format: Option<Arc<ResponseFormat>>,
    /// The factory run that started it.
    pub(crate) factory_run: Option<String>,
    pub(crate) model: String,
    /// The sub-agent that started it.
    pub(crate) parent: Option<Arc<str>>,
    pub(crate) started: Timestamp,
    pub(crate) began: Instant,
    pub(crate) cancel: CancellationToken,
    /// Messages sent to it while it runs.
    pub(crate) interjections: Arc<Interjections>,
    pub(crate) state: watch::Sender<State>,
    pub(crate) activity: Mutex<Activity>,
}

/// The visible activity of a sub-agent.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    pub(crate) lines: VecDeque<(String, Timestamp)>,
    pub(crate) intent: Option<String>,
    pub(crate) response: Option<String>,
    pub(crate) tool_calls: u64,
    /// The answer that a hook put in place of its own.
    pub(crate) changed: Option<String>,
}

impl Activity {
    pub(crate) fn line(&mut self, line: String) {
        if self.lines.len() >= MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((line, Timestamp::now()));
    }

    /// A tool call ended.
    pub(crate) fn call_ended(&mut self, name: &str, success: bool) {
        self.tool_calls += 1;
        self.line(format!("{} {name}", if success { "✓" } else { "✗" }));
    }
}

impl Task {
    pub(crate) fn running(&self) -> bool {
        self.state.borrow().status == TaskStatus::Running
    }

    /// Whether the session's own turn waits for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.parent.is_none() && !self.state.borrow().background
    }

    /// Waits until it ends, or is moved to the background.
    pub(crate) async fn wait(&self, until: impl FnMut(&State) -> bool) -> State {
        let mut changes = self.state.subscribe();
        match changes.wait_for(until).await {
            Ok(state) => state.clone(),
            Err(_) => unreachable!("the sender is in self"),
        }
    }

    pub(crate) async fn ended(&self) -> State {
        self.wait(|state| state.status != TaskStatus::Running).await
    }

    fn info(&self) -> TaskInfo {
        let state = self.state.borrow().clone();
        let activity = self.activity.lock();
        TaskInfo {
            id: self.id.to_string(),
            tool_call_id: self.tool_call_id.clone(),
            agent_type: self.definition.name.clone(),
            display_name: self.name.clone(),
            description: self.description.clone(),
            prompt: self.prompt.clone(),
            status: state.status,
            background: state.background,
            can_promote: !state.background && state.status == TaskStatus::Running && self.parent.is_none(),
            started: self.started,
            ended: state.ended,
            active: state.took.unwrap_or_else(|| self.began.elapsed()),
            asked_model: self.asked_model.clone(),
            model: self.model.clone(),
            error: (state.status == TaskStatus::Failed).then(|| state.result.clone()),
            result: (state.status == TaskStatus::Completed).then(|| state.result.clone()),
            latest_response: activity.response.clone(),
            latest_intent: activity.intent.clone(),
            lines: activity.lines.iter().cloned().collect(),
        }
    }
}

/// A sub-agent's description for clients.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    /// Its id in events.
    pub id: String,
    /// The tool call that started it.
    pub tool_call_id: String,
    /// Its kind.
    pub agent_type: String,
    /// Its name for people.
    pub display_name: String,
    /// A short description.
    pub description: String,
    /// Its prompt.
    pub prompt: String,
    /// Its state.
    pub status: TaskStatus,
    /// Whether nobody waits for it.
    pub background: bool,
    /// Whether it can be put in the background.
    pub can_promote: bool,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How long it ran.
    pub active: Duration,
    /// The model requested by name.
    pub asked_model: Option<String>,
    /// Its model.
    pub model: String,
    /// Why it failed.
    pub error: Option<String>,
    /// What it answered.
    pub result: Option<String>,
    /// Its latest text.
    pub latest_response: Option<String>,
    /// Its latest stated intent.
    pub latest_intent: Option<String>,
    /// Its latest activity.
    pub lines: Vec<(String, Timestamp)>,
}

/// The sub-agents of a session.
#[derive(Default)]
pub(crate) struct Agents {
    inner: Mutex<Inner>,
    /// Tells the actor that one began or ended in the background.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct Inner {
    tasks: Vec<Arc<Task>>,
    notices: VecDeque<(Arc<str>, SystemNotification)>,
}

impl Agents {
    /// Adds one, unless too many are running.
    pub(crate) fn add(&self, task: Arc<Task>, most: usize) -> Result<(), String> {
        let mut inner = self.inner.lock();
        let running = inner.tasks.iter().filter(|task| task.running()).count();
        if running >= most {
            return Err(format!(
                "{running} agents are already running, which is the limit. Wait for one to end and try again."
            ));
        }
        inner.tasks.push(task);
        while inner.tasks.iter().filter(|task| !task.running()).count() > MAX_ENDED {
            let oldest = inner.tasks.iter().position(|task| !task.running());
            inner.tasks.remove(oldest.expect("there are more than enough"));
        }
        Ok(())
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.inner.lock().tasks.iter().any(|task| &*task.id == id)
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Task>> {
        self.inner.lock().tasks.iter().find(|task| &*task.id == id).cloned()
    }

    pub(crate) fn list(&self) -> Vec<TaskInfo> {
        self.inner.lock().tasks.iter().map(|task| task.info()).collect()
    }

    /// Those that are running.
    pub(crate) fn running(&self) -> Vec<Arc<Task>> {
        let inner = self.inner.lock();
        inner.tasks.iter().filter(|task| task.running()).cloned().collect()
    }

    /// Removes one that has ended.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let mut inner = self.inner.lock();
        let before = inner.tasks.len();
        inner.tasks.retain(|task| &*task.id != id || task.running());
        inner.tasks.len() < before
    }

    /// Stops all of them, and waits until each has ended.
    pub(crate) async fn stop_all(&self) {
        self.stop(|_| true).await;
    }

    /// Stops some of them, and waits until each has ended. Returns how many.
    pub(crate) async fn stop(&self, which: impl Fn(&Task) -> bool) -> usize {
        let mut running = self.running();
        running.retain(|task| which(task));
        for task in &running {
            task.cancel.cancel();
        }
        for task in &running {
            task.ended().await;
        }
        running.len()
    }

    /// Waits for those that a sub-agent started: they end with it.
    pub(crate) async fn children_ended(&self, parent: &str) {
        for task in self.running() {
            if task.parent.as_deref() == Some(parent) {
                task.cancel.cancel();
                task.ended().await;
            }
        }
    }

    pub(crate) fn notify(&self, id: Arc<str>, notice: SystemNotification) {
        self.inner.lock().notices.push_back((id, notice));
    }

    /// The next notice for the model, oldest first.
    pub(crate) fn take_notice(&self) -> Option<SystemNotification> {
        self.inner.lock().notices.pop_front().map(|(_, notice)| notice)
    }

    pub(crate) fn has_notices(&self) -> bool {
        !self.inner.lock().notices.is_empty()
    }

    /// The model has read the result itself.
    pub(crate) fn drop_notice(&self, id: &str) {
        self.inner.lock().notices.retain(|(of, _)| &**of != id);
    }
}
