//! Commands to a session. Each takes plain data, so it could come from another host. When it returns, its effect is in the log.

use lodge_agent::{
    AgentError, Answer, AnsweredBy, Change, Compacted, Customized, NewTask, Prompt, QueueChange, Supply,
};
use lodge_events::{AbortReason, Event, Payload};
use uuid::Uuid;

use super::Session;
use crate::{Host, HostError};

/// Messages.
impl Session {
    /// Says something to the agent. Answers with the message's id at once; the work goes on beside.
    pub async fn send(&self, prompt: Prompt) -> Result<String, AgentError> {
        self.agent().send(prompt).await
    }

    /// Accepts a message whose turn is to begin now: people see the turn as soon as the log says so. The client that prepares
    /// it then begins it with [`Session::begin`]. Answers with the event that says so, unless the log said the same before.
    pub fn accept(&self, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.agent().accept(prompt)
    }

    /// Puts a message at the end of the queue, or gives one that waits another content. Its turn begins in its order, once it
    /// is prepared where it needs that. Answers like [`Session::accept`].
    pub fn enqueue(&self, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.agent().enqueue(prompt)
    }

    /// Begins the turn of a message that waits, as far as people see; whoever prepares messages prepares it and has it said
    /// with [`Session::begin`]. False when it waits no more.
    pub fn prepare_message(&self, message_id: &str) -> Result<bool, AgentError> {
        self.agent().prepare_message(message_id)
    }

    /// A message that was accepted cannot be prepared: its turn fails, when it comes. One that was to steer a turn does not wait
    /// any more, and a warning says why.
    pub async fn fail_message(&self, message_id: &str, reason: &str) -> Result<(), AgentError> {
        self.agent().fail_message(message_id, reason).await
    }

    /// Starts the turn of a message that was accepted and is prepared. False when it was withdrawn meanwhile.
    pub async fn begin(&self, prompt: Prompt) -> Result<bool, AgentError> {
        self.agent().begin(prompt).await
    }

    /// Forgets a message that was accepted and is no part of the conversation. Answers with the event that says so, if the
    /// message waited.
    pub fn withdraw(&self, message_id: &str) -> Result<Option<Uuid>, AgentError> {
        self.agent().withdraw(message_id)
    }

    /// Forgets a message that another one, which was accepted, has taken the place of. See [`lodge_agent::Agent::supersede`].
    pub fn supersede(&self, message_id: &str) {
        self.agent().supersede(message_id);
    }

    /// Puts messages that wait for after the turn into this order, before those that it does not name. Answers with the event
    /// that says so.
    pub fn reorder(&self, order: Vec<String>) -> Result<Uuid, AgentError> {
        self.agent().reorder(order)
    }

    /// Changes the queue. Answers how many messages that changed.
    pub async fn change_queue(&self, change: QueueChange) -> Result<usize, AgentError> {
        self.agent().change_queue(change).await
    }

    /// Records that a slash command was given as a message, and its answer, so that people see both. The model does not.
    pub async fn commanded(&self, message_id: String, text: String, answer: String) -> Result<(), AgentError> {
        self.agent().commanded(message_id, text, answer).await
    }
}

/// Turns.
impl Session {
    /// Stops the running turn. False when there was none.
    pub async fn abort(&self, reason: AbortReason) -> Result<bool, AgentError> {
        self.agent().abort(reason).await
    }

    /// Stops the turn of a message, or takes the message back if its turn has not begun. What else waits stays, unlike with
    /// [`Session::abort`]. False when there was nothing to stop.
    pub async fn cancel(&self, message_id: &str) -> Result<bool, AgentError> {
        self.agent().cancel(message_id).await
    }

    /// Stops the running turn, and leaves what works in the background alone. With `keep_queue` what waits comes next, or it
    /// is forgotten. False when no turn ran.
    pub async fn interrupt(&self, keep_queue: bool) -> Result<bool, AgentError> {
        self.agent().interrupt(keep_queue).await
    }

    /// Takes up what was open when the host went down. False when nothing was.
    pub async fn continue_pending(&self) -> Result<bool, AgentError> {
        self.agent().continue_pending().await
    }

    /// Closes what was open when the host went down as interrupted. False when nothing was.
    pub async fn settle_interrupted(&self) -> Result<bool, AgentError> {
        self.agent().settle_interrupted().await
    }

    /// Goes on with the turn that failed, or that the host did not live to finish, without another message: the model is
    /// called again. False when there is none.
    pub async fn resume_failed(&self) -> Result<bool, AgentError> {
        self.agent().resume_failed().await
    }

    /// Answers an open question. False when it is not (or no longer) open.
    pub async fn answer(&self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<bool, AgentError> {
        self.agent().answer(request_id, answer, by).await
    }

    /// Answers a question that is open right now. False when it is not open.
    pub fn answer_open(&self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<bool, AgentError> {
        self.agent().answer_open(request_id, answer, by)
    }
}

/// Settings.
impl Session {
    /// Changes a setting.
    pub async fn configure(&self, change: Change) -> Result<(), AgentError> {
        self.agent().configure(change).await
    }

    /// Goes on with another model, one of those that whoever asks has. Nothing happens where it has that model already.
    pub async fn select_model(&self, host: &Host, name: &str) -> Result<(), HostError> {
        let model = host.resolve_model(Some(name))?;
        if self.agent().settings().model.info().id == model.info().id {
            return Ok(());
        }
        Ok(self.supply(Supply::model(model)).await?)
    }

    /// Gives the session a name that a person chose, or takes it back.
    pub async fn rename(&self, name: Option<String>) -> Result<(), AgentError> {
        self.configure(Change::Name(name)).await?;
        if let Some(host) = self.0.host.upgrade() {
            host.label(self, self.settings().name);
        }
        Ok(())
    }

    /// Turns a skill, an agent or a file with instructions on or off. False when there is no such thing.
    pub async fn enable(&self, what: Customized, on: bool) -> Result<bool, AgentError> {
        self.agent().enable(what, on).await
    }

    /// Chooses a custom agent, or none.
    pub async fn select_agent(&self, name: Option<String>) -> Result<(), AgentError> {
        self.agent().select_agent(name).await
    }

    /// Looks for skills anew. Answers with warnings and errors.
    pub async fn reload_skills(&self) -> Result<(Vec<String>, Vec<String>), AgentError> {
        self.agent().reload_skills().await
    }

    /// Looks for agents anew.
    pub async fn reload_agents(&self) -> Result<(), AgentError> {
        self.agent().reload_agents().await
    }

    /// Reads the hooks of files and plugins anew. Answers how many there are.
    pub async fn reload_hooks(&self) -> Result<usize, AgentError> {
        self.agent().reload_hooks().await
    }
}

/// The conversation and its plan.
impl Session {
    /// Records an event that a client asks for.
    pub async fn record(&self, payload: impl Into<Payload>) -> Result<Event, AgentError> {
        self.agent().record(payload).await
    }

    /// Publishes an event that a client asks for and that nobody needs later.
    pub async fn tell(&self, payload: impl Into<Payload>) -> Result<Event, AgentError> {
        self.agent().tell(payload).await
    }

    /// Writes the plan, or deletes it.
    pub async fn set_plan(&self, plan: Option<String>) -> Result<(), AgentError> {
        self.agent().set_plan(plan).await
    }

    /// Replaces the conversation by a summary of it.
    pub async fn compact(&self, instructions: Option<String>) -> Result<Compacted, AgentError> {
        self.agent().compact(instructions).await
    }

    /// Stops a compaction, asked for or begun beside a turn. False when none ran.
    pub async fn cancel_compaction(&self) -> Result<bool, AgentError> {
        self.agent().cancel_compaction().await
    }

    /// Takes the conversation back to before an event; files stay as they are. Answers how many events went.
    pub async fn truncate(&self, event: Uuid) -> Result<u64, AgentError> {
        self.agent().truncate(event).await
    }

    /// Forgets the conversation, keeps the session. Answers how many messages were forgotten.
    pub async fn clear_context(&self) -> Result<u64, AgentError> {
        self.agent().clear_context().await
    }
}

/// Sub-agents, and commands in the background.
impl Session {
    /// Starts a sub-agent in the background. Answers with its id.
    pub async fn start_agent(&self, new: NewTask) -> Result<String, AgentError> {
        self.agent().start_agent(new).await
    }

    /// Stops a sub-agent, or a command in the background. False when it does not run.
    pub async fn cancel_task(&self, id: &str) -> bool {
        self.agent().cancel_task(id).await
    }

    /// Stops all sub-agents in the background. Answers how many.
    pub async fn cancel_background_agents(&self) -> usize {
        self.agent().cancel_background_agents().await
    }

    /// Forgets a sub-agent, or a command in the background, that has ended.
    pub fn remove_task(&self, id: &str) -> bool {
        self.agent().remove_task(id)
    }

    /// Lets a turn go on that waits for a sub-agent. False when none waits for it.
    pub fn promote_task(&self, id: &str) -> bool {
        self.agent().promote_task(id)
    }

    /// Says something to a sub-agent that works. False when it does not.
    pub fn tell_task(&self, id: &str, message: &str) -> bool {
        self.agent().tell_task(id, message)
    }
}
