//! Commands to a session. Each takes plain data, so it could come from another host. When it returns, its effect is in the log.

use lodge_agent::{
    AgentError, Answer, AnsweredBy, Change, Compacted, Customized, NewTask, Prompt, QueueChange, Storing, Supply,
};
use lodge_events::{AbortReason, Event, Payload};
use uuid::Uuid;

use super::Session;
use crate::{Host, HostError, titles::check_title};

/// Messages.
impl Session {
    /// Sends a message to the agent. Returns the message's id at once; the turn runs in the background.
    pub async fn send(&self, prompt: Prompt) -> Result<String, AgentError> {
        self.agent().send(prompt).await
    }

    /// Accepts a message whose turn begins now: people see the turn as soon as it is in the log. The client that
    /// prepares the message then starts it with [`Session::begin`]. Returns the event that says so, unless the log
    /// already had it. Refused as taken if the turn of the message that it replaces begins now.
    pub fn accept(&self, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.agent().accept(prompt)
    }

    /// Like [`Session::accept`], by an event with this id.
    pub fn accept_as(&self, event: Uuid, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.agent().accept_as(event, prompt)
    }

    /// Adds a message to the end of the queue, or changes a queued one; refused as taken if its turn begins now. Its turn begins when its place in the queue
    /// comes and it is prepared, if it needs that. Returns the same as [`Session::accept`].
    pub fn enqueue(&self, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.agent().enqueue(prompt)
    }

    /// Like [`Session::enqueue`], by an event with this id.
    pub fn enqueue_as(&self, event: Uuid, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.agent().enqueue_as(event, prompt)
    }

    /// Begins the turn of a queued message, as people see it. The face that prepares messages prepares it, and starts
    /// it with [`Session::begin`]. False if it is no longer queued.
    pub fn prepare_message(&self, message_id: &str) -> Result<bool, AgentError> {
        self.agent().prepare_message(message_id)
    }

    /// Reports that an accepted message cannot be prepared: its turn fails when it comes. If it was to steer a turn, it
    /// is removed with a warning.
    pub async fn fail_message(&self, message_id: &str, reason: &str) -> Result<(), AgentError> {
        self.agent().fail_message(message_id, reason).await
    }

    /// Starts the turn of a message that is accepted and prepared. False if it was withdrawn meanwhile.
    pub async fn begin(&self, prompt: Prompt) -> Result<bool, AgentError> {
        self.agent().begin(prompt).await
    }

    /// Removes an accepted message that is not part of the conversation yet. False if the message was not queued, or its turn
    /// begins now.
    pub fn withdraw(&self, message_id: &str) -> Result<bool, AgentError> {
        self.agent().withdraw(message_id)
    }

    /// Like [`Session::withdraw`], by an event with this id.
    pub fn withdraw_as(&self, event: Uuid, message_id: &str) -> Result<bool, AgentError> {
        self.agent().withdraw_as(event, message_id)
    }

    /// Reorders queued messages by an event with this id; those that are not named follow.
    pub fn reorder_as(&self, event: Uuid, order: Vec<String>) -> Result<(), AgentError> {
        self.agent().reorder_as(event, order)
    }

    /// Changes the queue. Returns how many messages changed.
    pub async fn change_queue(&self, change: QueueChange) -> Result<usize, AgentError> {
        self.agent().change_queue(change).await
    }

    /// Records a slash command that was sent as a message, and its answer. People see both; the model does not.
    pub async fn commanded(&self, message_id: String, text: String, answer: String) -> Result<(), AgentError> {
        self.agent().commanded(message_id, text, answer).await
    }
}

/// Turns.
impl Session {
    /// Stops the running turn. False if there was none.
    pub async fn abort(&self, reason: AbortReason) -> Result<bool, AgentError> {
        self.agent().abort(reason).await
    }

    /// Stops the turn of a message, or withdraws the message if its turn has not begun. Unlike [`Session::abort`], it
    /// leaves the queue. False if there was nothing to stop.
    pub async fn cancel(&self, message_id: &str) -> Result<bool, AgentError> {
        self.agent().cancel(message_id).await
    }

    /// Stops the running turn, but not the background work. Then the queue continues with `keep_queue`, or is cleared.
    /// False if no turn ran.
    pub async fn interrupt(&self, keep_queue: bool) -> Result<bool, AgentError> {
        self.agent().interrupt(keep_queue).await
    }

    /// Resumes open calls and questions after the host stopped. False if there were none.
    pub async fn continue_pending(&self) -> Result<bool, AgentError> {
        self.agent().continue_pending().await
    }

    /// Closes open calls and questions as interrupted after the host stopped. False if there were none.
    pub async fn settle_interrupted(&self) -> Result<bool, AgentError> {
        self.agent().settle_interrupted().await
    }

    /// Continues a turn that failed, or that was running when the host stopped, without another message: the model is
    /// called again. False if there is none.
    pub async fn resume_failed(&self) -> Result<bool, AgentError> {
        self.agent().resume_failed().await
    }

    /// Answers an open question. False if it is not open.
    pub async fn answer(&self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<bool, AgentError> {
        self.agent().answer(request_id, answer, by).await
    }

    /// Answers a question that is open now. Nothing if it is not.
    pub fn answer_open(&self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<Option<Storing>, AgentError> {
        self.agent().answer_open(request_id, answer, by)
    }
}

/// Settings.
impl Session {
    /// Changes a setting.
    pub async fn configure(&self, change: Change) -> Result<(), AgentError> {
        self.agent().configure(change).await
    }

    /// Changes a setting. Where clients see the change as an event, that is the event with this id; there is none if nothing
    /// changed.
    pub async fn configure_as(&self, id: Uuid, change: Change) -> Result<(), AgentError> {
        self.agent().configure_as(id, change).await
    }

    /// Switches to another model of the caller's. Does nothing if the session already has it.
    pub async fn select_model(&self, host: &Host, name: &str) -> Result<(), HostError> {
        self.select_model_as(Uuid::new_v4(), host, name).await
    }

    /// Like [`Session::select_model`], by an event with this id.
    pub async fn select_model_as(&self, id: Uuid, host: &Host, name: &str) -> Result<(), HostError> {
        let model = host.resolve_model(Some(name))?;
        let wanted = &model.info().id;
        // The log may have one that was not available when the session was read back.
        let is_recorded = self.look(|facts| facts.model.as_ref().is_none_or(|known| known == wanted));
        if is_recorded && self.agent().settings().model.info().id == *wanted {
            return Ok(());
        }
        Ok(self.agent().supply_as(id, Supply::model(model)).await?)
    }

    /// Gives the session a name chosen by a person, or removes the name.
    pub async fn rename(&self, name: Option<String>) -> Result<(), AgentError> {
        self.rename_as(Uuid::new_v4(), name).await
    }

    /// Like [`Session::rename`], by an event with this id.
    pub async fn rename_as(&self, id: Uuid, name: Option<String>) -> Result<(), AgentError> {
        name.as_deref().map_or(Ok(()), check_title)?;
        self.configure_as(id, Change::Name { name, automatic: false }).await?;
        if let Some(host) = self.0.host.upgrade() {
            host.label(self, self.settings().name);
        }
        Ok(())
    }

    /// Gives the session a name that an app made up, unless a person chose its name. Answers whether it has it now.
    pub async fn name_automatically(&self, name: String) -> Result<bool, AgentError> {
        check_title(&name)?;
        let name = Some(name);
        self.configure(Change::Name { name, automatic: true }).await?;
        Ok(!self.is_named_by_person())
    }

    /// Whether a person chose the session's name.
    pub fn is_named_by_person(&self) -> bool {
        self.agent().is_named_by_person()
    }

    /// Turns a skill, an agent or an instruction file on or off. False if it does not exist.
    pub async fn enable(&self, what: Customized, on: bool) -> Result<bool, AgentError> {
        self.agent().enable(what, on).await
    }

    /// Chooses a custom agent, or none.
    pub async fn select_agent(&self, name: Option<String>) -> Result<(), AgentError> {
        self.agent().select_agent(name).await
    }

    /// Looks for skills again. Returns warnings and errors.
    pub async fn reload_skills(&self) -> Result<(Vec<String>, Vec<String>), AgentError> {
        self.agent().reload_skills().await
    }

    /// Looks for agents again.
    pub async fn reload_agents(&self) -> Result<(), AgentError> {
        self.agent().reload_agents().await
    }

    /// Reads the hooks of files and plugins again. Returns how many there are.
    pub async fn reload_hooks(&self) -> Result<usize, AgentError> {
        self.agent().reload_hooks().await
    }
}

/// The conversation and its plan.
impl Session {
    /// Records an event for a client.
    pub async fn record(&self, payload: impl Into<Payload>) -> Result<Event, AgentError> {
        self.agent().record(payload).await
    }

    /// Publishes an ephemeral event for a client.
    pub async fn tell(&self, payload: impl Into<Payload>) -> Result<Event, AgentError> {
        self.agent().tell(payload).await
    }

    /// Writes the plan, or deletes it.
    pub async fn set_plan(&self, plan: Option<String>) -> Result<(), AgentError> {
        self.agent().set_plan(plan).await
    }

    /// Replaces the conversation with a summary.
    pub async fn compact(&self, instructions: Option<String>) -> Result<Compacted, AgentError> {
        self.agent().compact(instructions).await
    }

    /// Stops a compaction, requested or automatic. False if none ran.
    pub async fn cancel_compaction(&self) -> Result<bool, AgentError> {
        self.agent().cancel_compaction().await
    }

    /// Rewinds the conversation to before an event; files stay as they are. Returns how many events were removed.
    pub async fn truncate(&self, event: Uuid) -> Result<u64, AgentError> {
        self.agent().truncate(event).await
    }

    /// Clears the conversation and keeps the session. Returns how many messages were cleared.
    pub async fn clear_context(&self, first: Option<String>) -> Result<u64, AgentError> {
        self.agent().clear_context(first).await
    }
}

/// Sub-agents, and commands in the background.
impl Session {
    /// Starts a sub-agent in the background. Returns its id.
    pub async fn start_agent(&self, new: NewTask) -> Result<String, AgentError> {
        self.agent().start_agent(new).await
    }

    /// Stops a sub-agent or a background command. False if it is not running.
    pub async fn cancel_task(&self, id: &str) -> bool {
        self.agent().cancel_task(id).await
    }

    /// Stops all background sub-agents. Returns how many.
    pub async fn cancel_background_agents(&self) -> usize {
        self.agent().cancel_background_agents().await
    }

    /// Removes an ended sub-agent or background command from the list.
    pub fn remove_task(&self, id: &str) -> bool {
        self.agent().remove_task(id)
    }

    /// Lets a turn that waits for a sub-agent continue. False if none waits for it.
    pub fn promote_task(&self, id: &str) -> bool {
        self.agent().promote_task(id)
    }

    /// Sends a message to a running sub-agent. False if it is not running.
    pub fn tell_task(&self, id: &str, message: &str) -> bool {
        self.agent().tell_task(id, message)
    }
}
