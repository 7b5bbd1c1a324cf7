//! The session actor: one task that owns one live session. It reacts only to its inbox and never blocks, so it always hears an
//! abort; blocking work runs beside it.

mod configure;
mod custom;
mod interrupted;
mod supply;

use std::sync::{Arc, atomic::Ordering};

use lodge_events::{
    AbortReason, AnsweredBy, BackgroundShell, BackgroundTasks, CapabilitiesChanged, CommandsChanged, Event,
    PendingMessagesModified, RemovalReason, SessionBackgroundTasksChanged, SessionIdle, SessionShutdown,
    SessionWarning, ShutdownType, UiCapabilities,
};
use lodge_log::LogError;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    AgentError,
    answer::Answer,
    client::{ClientId, ClientSpec},
    compaction::Compacted,
    customize::Customized,
    hooks::Step,
    queue::{Place, Readiness},
    session::Shared,
    settings::{Change, Delivery, Prompt},
    supply::Supply,
    turn::{self, Ended, Halt, Start, Turn},
};

/// Everything that can be sent to a session. Closed: nothing else changes a session.
pub enum Command {
    /// A message from a person or a program.
    Send(Box<Prompt>, oneshot::Sender<Result<String, AgentError>>),
    /// Starts the turn of an accepted message. Replies whether the message was still queued.
    Begin(Box<Prompt>, oneshot::Sender<Result<bool, AgentError>>),
    /// Stops the running turn and clears the queue. Replies whether a turn ran.
    Abort(AbortReason, oneshot::Sender<bool>),
    /// Stops the turn of a message, or withdraws the message. The rest of the queue stays. Replies whether there was
    /// anything to stop.
    Cancel(String, oneshot::Sender<Result<bool, AgentError>>),
    /// Stops the running turn, but not the background work. With `true` the queue continues, otherwise it is cleared.
    /// Replies whether a turn ran.
    Interrupt(bool, oneshot::Sender<bool>),
    /// Resumes tool calls that were open when the host stopped. Replies whether there were any.
    Continue(oneshot::Sender<Result<bool, AgentError>>),
    /// Closes everything that was open when the host stopped as interrupted. Replies whether there was anything.
    Settle(oneshot::Sender<Result<bool, AgentError>>),
    /// Continues a turn that failed, or that was running when the host stopped. Replies whether there was one.
    Resume(oneshot::Sender<Result<bool, AgentError>>),
    /// An answer to an open question, and who gives it. Replies whether it was the first.
    Answer(
        String,
        Box<(Answer, AnsweredBy)>,
        oneshot::Sender<Result<bool, AgentError>>,
    ),
    /// Attaches a client.
    Attach(ClientSpec, oneshot::Sender<ClientId>),
    /// Changes the capabilities of an attached client.
    Update(ClientId, ClientSpec),
    /// Detaches a client.
    Detach(ClientId),
    /// Changes a setting, by an event with this id.
    Configure(Change, Uuid, oneshot::Sender<Result<(), AgentError>>),
    /// Uses something that a client or the host supplies. A change of the model is an event with this id.
    Supply(Supply, Uuid, oneshot::Sender<Result<(), AgentError>>),
    /// Records an event for a client (`session.log`, `session.workspace_file_changed`, …).
    Record(Box<lodge_events::Payload>, oneshot::Sender<Result<Event, AgentError>>),
    /// Publishes an ephemeral event for a client.
    Tell(Box<lodge_events::Payload>, oneshot::Sender<Event>),
    /// Writes or replaces the plan; `None` deletes it.
    Plan(Option<String>, oneshot::Sender<Result<(), AgentError>>),
    /// Changes the queue. Replies how many messages changed.
    Queue(QueueChange, oneshot::Sender<Result<usize, AgentError>>),
    /// Replaces the conversation with a summary.
    Compact(Option<String>, oneshot::Sender<Result<Compacted, AgentError>>),
    /// Stops a compaction. Replies whether one ran.
    CancelCompaction(oneshot::Sender<bool>),
    /// Rewinds the session to before an event. Replies how many events were removed.
    Truncate(Uuid, oneshot::Sender<Result<u64, AgentError>>),
    /// Undoes the last rewind. Replies whether there was one.
    PutBack(oneshot::Sender<Result<bool, AgentError>>),
    /// A slash command that was sent as a message: its message id, its text, its answer.
    Commanded(Box<[String; 3]>, oneshot::Sender<Result<(), AgentError>>),
    /// Clears the conversation and keeps the session.
    ClearContext(Option<String>, oneshot::Sender<Result<u64, AgentError>>),
    /// Looks for skills and agents, unless that was already done.
    Load(oneshot::Sender<()>),
    /// Looks for skills again.
    ReloadSkills(oneshot::Sender<()>),
    /// Looks for agents again.
    ReloadAgents(oneshot::Sender<()>),
    /// Turns a skill on or off. Replies whether it exists.
    Enable(Customized, bool, oneshot::Sender<Result<bool, AgentError>>),
    /// Chooses a custom agent, or none.
    SelectAgent(Option<String>, oneshot::Sender<Result<(), AgentError>>),
    /// Ends the session's life in memory.
    Close(Ending, oneshot::Sender<()>),
    /// Leaves memory without an end, if the turn only waits for clients and none is attached. Replies whether it did.
    Rest(oneshot::Sender<bool>),
}

/// Why a session leaves memory.
#[derive(Debug, Clone, Default)]
pub enum Ending {
    /// Nobody needs it any more.
    #[default]
    Routine,
    /// A client reports an error, perhaps with a text.
    Error(Option<String>),
    /// The host stops, for this reason. The queue stays for the next host.
    HostStops(AbortReason),
}

/// A change of the queue.
#[derive(Debug, Clone)]
pub enum QueueChange {
    /// Removes all messages.
    Clear,
    /// Removes the newest message.
    RemoveLast,
    /// Removes the message with this id.
    Remove(String),
    /// Moves the messages with these ids to the front, in this order.
    Reorder(Vec<String>),
    /// Inserts a new message at a position. It is next if nothing runs.
    Insert(usize, Box<Prompt>),
    /// Changes the text of the message with this id, and its text for people.
    Reword(String, String, Option<String>),
    /// Sends the message with this id into the running turn. Does nothing if none runs.
    Steer(String),
}

/// What a stop does to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Forgotten,
    Kept,
    /// It stays, and so does the message of the turn, if it is not part of the conversation yet.
    KeptWithStarting,
    /// It continues now.
    Next,
}

struct Running {
    task: JoinHandle<Ended>,
    cancel: CancellationToken,
    halt: Arc<Mutex<Halt>>,
    compaction: bool,
}

/// The actor's own state; state that the turn needs, too, is in [`Shared`].
pub(crate) struct Actor {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Command>,
    running: Option<Running>,
    /// The session's directory, open. It is locked while a turn runs.
    lease: Option<std::fs::File>,
    /// Whether a message arrived when clients already saw the turn as over, but it was not quite.
    said_late: bool,
    /// Whether the turn resumes work that was open when the host stopped.
    taking_up: bool,
    /// Whether the queue continues, and only waits for a message that its client still prepares.
    held_back: bool,
    /// How the last turn ended, while background sub-agents keep the session from being idle.
    idle_owed: Option<Ended>,
    /// Whether clients were notified of the skills.
    skills_told: bool,
}

impl Actor {
    pub(crate) fn new(shared: Arc<Shared>, inbox: mpsc::UnboundedReceiver<Command>) -> Self {
        Self {
            shared,
            inbox,
            running: None,
            lease: None,
            said_late: false,
            taking_up: false,
            held_back: false,
            idle_owed: None,
            skills_told: false,
        }
    }

    /// Runs until the session is closed, or nobody holds a handle.
    pub(crate) async fn run(mut self) {
        loop {
            let ended = async {
                match &mut self.running {
                    Some(running) => (&mut running.task).await,
                    None => std::future::pending().await,
                }
            };
            let shared = self.shared.clone();
            tokio::select! {
                () = shared.agents.changed.notified() => self.agents_changed(),
                () = shared.queue.changed.notified() => self.queue_changed(),
                ended = ended => {
                    let compaction = self.running.take().is_some_and(|running| running.compaction);
                    let ended = match ended {
                        Ok(ended) => ended,
                        Err(panic) => self.turn_panicked(&panic).await,
                    };
                    self.turn_ended(ended, compaction);
                }
                command = self.inbox.recv() => match command {
                    Some(Command::Close(ending, done)) => {
                        self.close(ending).await;
                        // Clients that are notified find it ended.
                        self.inbox.close();
                        let _ = done.send(());
                        return;
                    }
                    Some(Command::Rest(done)) => {
                        let rests = self.waits_for_nobody();
                        if rests {
                            self.rest_in_the_log().await;
                        }
                        let _ = done.send(rests);
                        if rests {
                            return;
                        }
                    }
                    Some(command) => self.handle(command).await,
                    // Nobody holds the session: it leaves memory without an end.
                    None => {
                        if let Some(mut running) = self.running.take() {
                            running.cancel.cancel();
                            let _ = (&mut running.task).await;
                            self.end_lease();
                        }
                        self.shared.agents.stop_all().await;
                        return self.leave().await;
                    }
                }
            }
        }
    }

    async fn handle(&mut self, command: Command) {
        if matches!(command, Command::Send(..) | Command::Begin(..) | Command::Continue(_)) {
            self.load().await;
        }
        if matches!(
            command,
            Command::Send(..) | Command::Begin(..) | Command::Continue(_) | Command::Settle(_) | Command::Resume(_)
        ) {
            self.wait_for_others().await;
        }
        match command {
            Command::Send(prompt, reply) => drop(reply.send(self.send(*prompt))),
            Command::Begin(prompt, reply) => drop(reply.send(self.begin(*prompt))),
            Command::Abort(reason, reply) => drop(reply.send(self.abort(reason, Waiting::Forgotten).await)),
            Command::Cancel(id, reply) => drop(reply.send(self.cancel(&id).await)),
            Command::Interrupt(keep_queue, reply) => drop(reply.send(self.interrupt(keep_queue).await)),
            Command::Continue(reply) => drop(reply.send(self.take_up())),
            Command::Settle(reply) => drop(reply.send(self.settle_alone())),
            Command::Resume(reply) => drop(reply.send(self.resume())),
            Command::Answer(id, answer, reply) => self.answer(id, *answer, reply),
            Command::Attach(spec, reply) => {
                let id = self.with_clients(|clients| clients.attach(spec));
                let _ = reply.send(id);
            }
            Command::Update(id, spec) => self.with_clients(|clients| clients.update(id, spec)),
            Command::Detach(id) => {
                self.with_clients(|clients| drop(clients.detach(id)));
                self.shared.pending.for_client(id).clear();
            }
            Command::Configure(change, id, reply) => drop(reply.send(self.configure(change, id))),
            Command::Supply(supply, id, reply) => drop(reply.send(self.supply(supply, id))),
            Command::Record(payload, reply) => {
                let _ = reply.send(self.shared.recorder.record(*payload).map_err(AgentError::from));
            }
            Command::Plan(plan, reply) => drop(reply.send(self.plan(plan))),
            Command::Queue(change, reply) => drop(reply.send(self.change_queue(change))),
            Command::Tell(payload, reply) => drop(reply.send(self.shared.recorder.publish_unrecorded(*payload))),
            Command::Compact(instructions, reply) => self.compact(instructions, reply),
            Command::CancelCompaction(reply) => {
                let asked_for = self.running.as_ref().filter(|running| running.compaction);
                if let Some(running) = asked_for {
                    running.cancel.cancel();
                }
                let beside = self.shared.compacting.cancel();
                let _ = reply.send(asked_for.is_some() || beside);
            }
            // Both rewrite the file. If the log is lost, they fail.
            Command::Truncate(event, reply) => {
                let _ = self.shared.recorder.durable().await;
                let _ = reply.send(self.truncate(event));
            }
            Command::PutBack(reply) => {
                let _ = self.shared.recorder.durable().await;
                let _ = reply.send(self.put_back());
            }
            Command::Commanded(said, reply) => drop(reply.send(self.commanded(*said))),
            Command::ClearContext(first, reply) => drop(reply.send(self.clear_context(first))),
            Command::Load(reply) => {
                self.load().await;
                let _ = reply.send(());
            }
            Command::ReloadSkills(reply) => {
                self.load_skills().await;
                self.tell_skills();
                let _ = reply.send(());
            }
            Command::ReloadAgents(reply) => {
                self.load_agents().await;
                self.tell_agents();
                let _ = reply.send(());
            }
            Command::Enable(what, on, reply) => drop(reply.send(self.enable(what, on).await)),
            Command::SelectAgent(name, reply) => drop(reply.send(self.select_agent(name).await)),
            Command::Close(..) | Command::Rest(_) => unreachable!("the loop takes it"),
        }
    }

    fn send(&mut self, mut prompt: Prompt) -> Result<String, AgentError> {
        let id = prompt
            .message_id
            .get_or_insert_with(|| Uuid::new_v4().to_string())
            .clone();
        // Sent again by a client that did not learn that it was accepted.
        if self.shared.recorder.facts(|facts| facts.pending.was_said(&id)) {
            return Ok(id);
        }
        if self.running.is_none() {
            self.lease()?;
        }
        let running = self.running.is_some();
        if let Err(error) = self.settle_interrupted().and_then(|_| self.accept(prompt, None)) {
            if !running {
                self.end_lease();
            }
            return Err(error);
        }
        // A steering message waits for a turn that is about to begin.
        if !running && !self.start_next(lodge_events::Delivery::Idle) {
            self.end_lease();
        }
        Ok(id)
    }

    fn begin(&mut self, prompt: Prompt) -> Result<bool, AgentError> {
        let recorder = &self.shared.recorder;
        let waits = |id: &String| recorder.facts(|facts| facts.pending.get(id).is_some());
        if !prompt.message_id.as_ref().is_some_and(waits) {
            return Ok(false);
        }
        self.send(prompt)?;
        Ok(true)
    }

    /// Adds a message to its place in the queue, or at a position.
    fn accept(&mut self, prompt: Prompt, at: Option<usize>) -> Result<(), AgentError> {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        let running = self.running.is_some();
        let over = recorder.facts(|facts| facts.open_turn.is_none());
        self.said_late |= running && over && !queue.is_starting();
        let place = match prompt.delivery {
            _ if at.is_some() => Place { at, ..Place::LAST },
            // A command cannot be sent to the model now: it comes next.
            Delivery::Immediate if running && prompt.command.is_some() => Place::FIRST,
            Delivery::Immediate if running => Place::STEER,
            _ if prompt.prepend => Place::FIRST,
            _ => Place::LAST,
        };
        queue.accept(recorder, prompt, place, Readiness::Ready)?;
        // Published once it is true, because listeners look at the queue.
        recorder.note(PendingMessagesModified::default());
        if running {
            // Nobody else asks for it soon.
            recorder.sync();
        }
        Ok(())
    }

    /// Starts the turn of the next queued message. False if there is none.
    fn start_next(&mut self, delivery: lodge_events::Delivery) -> bool {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        while let Some(id) = queue.next_garbled(recorder) {
            let removed = queue.remove(recorder, vec![id], RemovalReason::Failed);
            recorder.note(SessionWarning {
                warning_type: "command_redacted".into(),
                message:
                    "The host stopped before a command with a secret could run. No log keeps secrets: send it again."
                        .into(),
                ..SessionWarning::default()
            });
            if let Err(error) = removed {
                tracing::warn!(session = %self.shared.id, %error, "a command that cannot be run stays in the queue");
                return false;
            }
        }
        if delivery == lodge_events::Delivery::Queued && queue.has_next(recorder) {
            recorder.note(PendingMessagesModified::default());
        }
        let Some(prompt) = queue.take_next(recorder) else {
            return false;
        };
        self.start(Start::Prompt(Box::new(prompt), delivery));
        true
    }

    fn start(&mut self, start: Start) {
        self.idle_owed = None;
        self.held_back = false;
        if !std::mem::replace(&mut self.skills_told, true) {
            self.tell_skills();
        }
        let cancel = CancellationToken::new();
        let halt = Arc::<Mutex<Halt>>::default();
        let task = tokio::spawn(turn::run(self.shared.clone(), start, cancel.clone(), halt.clone()));
        self.set_running(Running {
            task,
            cancel,
            halt,
            compaction: false,
        });
    }

    fn set_running(&mut self, running: Running) {
        self.shared.busy.store(true, Ordering::Release);
        self.running = Some(running);
    }

    async fn turn_panicked(&self, panic: &tokio::task::JoinError) -> Ended {
        tracing::error!(session = %self.shared.id, %panic, "a turn panicked");
        turn::crashed(&self.shared).await;
        Ended::Failed
    }

    /// What follows a turn: first steering messages that came too late, then the queue, then idle. A compaction has an
    /// answer of its own, and an idle after it would be taken for the end of the next message.
    fn turn_ended(&mut self, ended: Ended, compaction: bool) {
        self.taking_up = false;
        let unsaid = match ended {
            Ended::Aborted => RemovalReason::Aborted,
            Ended::Finished | Ended::Failed => RemovalReason::Failed,
        };
        self.shared.queue.turn_ended(&self.shared.recorder, unsaid);
        // Read before the notices: a sub-agent that ends now leaves its notice before it stops working.
        let agents_work = !self.shared.agents.running().is_empty();
        // Messages queued before a failed turn wait for the person; a later message is the person's answer.
        let go_on = std::mem::take(&mut self.said_late) || ended == Ended::Finished;
        // No message overtakes one that its client has to prepare: the client sees that the session is idle, and starts
        // it.
        self.held_back = go_on && self.shared.queue.next_needs_preparation(&self.shared.recorder);
        if go_on && !self.held_back && self.start_next(lodge_events::Delivery::Queued) {
            // The next turn runs.
        } else if ended != Ended::Aborted && self.shared.agents.has_notices() {
            self.start(Start::Notices);
        } else if !compaction && agents_work {
            // The session is not idle while sub-agents work for it; the last one to end notifies the model.
            self.idle_owed = Some(ended);
        } else {
            self.rest(ended, compaction);
        }
    }

    fn rest(&mut self, ended: Ended, compaction: bool) {
        self.end_lease();
        self.shared.busy.store(false, Ordering::Release);
        if !compaction {
            self.tell_idle(ended);
        }
    }

    /// The message for which the others wait may be gone, or no longer the next one.
    fn queue_changed(&mut self) {
        if self.held_back {
            self.go_on();
        }
    }

    /// Background sub-agents began or ended.
    fn agents_changed(&mut self) {
        self.shared.recorder.note(SessionBackgroundTasksChanged::default());
        if self.running.is_some() {
            return;
        }
        let agents_work = !self.shared.agents.running().is_empty();
        if agents_work {
            // One that a client started without a turn.
            if self.idle_owed.is_none() {
                if let Err(error) = self.lease() {
                    tracing::warn!(session = %self.shared.id, %error, "a sub-agent runs beside another process");
                }
                self.shared.busy.store(true, Ordering::Release);
                self.idle_owed = Some(Ended::Finished);
            }
        }
        if self.shared.agents.has_notices() {
            self.shared.busy.store(true, Ordering::Release);
            self.start(Start::Notices);
        } else if !agents_work && let Some(ended) = self.idle_owed.take() {
            self.rest(ended, false);
        }
    }

    fn agents_open(&self) -> bool {
        self.shared.agents.running().is_empty() && self.shared.recorder.facts(|facts| !facts.open_agents.is_empty())
    }

    pub(in crate::actor) fn tell_idle(&self, ended: Ended) {
        let aborted = (ended == Ended::Aborted).then_some(true);
        let shells = self.shared.tool_state.background_shells().into_iter();
        let shells: Vec<BackgroundShell> = shells
            .filter(|shell| shell.exit_code.is_none())
            .map(|shell| BackgroundShell {
                shell_id: shell.id,
                description: Some(shell.command),
            })
            .collect();
        // The session is not idle while sub-agents work, so there are none to report.
        let background_tasks = (!shells.is_empty()).then(|| BackgroundTasks {
            agents: Vec::new(),
            shells,
        });
        self.shared.recorder.note(SessionIdle {
            aborted,
            background_tasks,
            ..SessionIdle::default()
        });
    }

    async fn abort(&mut self, reason: AbortReason, waiting: Waiting) -> bool {
        if self.running.is_none() {
            return self.abort_agents(reason).await;
        }
        let halt = Halt {
            reason,
            spare_background: false,
            keeps_unsaid: waiting == Waiting::KeptWithStarting,
        };
        self.stop_turn(halt, waiting).await
    }

    async fn cancel(&mut self, id: &str) -> Result<bool, AgentError> {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        if self.running.is_none()
            && let Some(unsaid) = queue.unsaid(recorder, id)
        {
            self.held_back = false;
            self.conclude_cancelled(unsaid)?;
            return Ok(true);
        }
        if !queue.is_starting_with(id) && queue.remove(recorder, vec![id.to_owned()], RemovalReason::Aborted)? > 0 {
            recorder.note(PendingMessagesModified::default());
            return Ok(true);
        }
        // The turn of the next message may have begun already; that is not the one to stop.
        let another_begins = queue.is_starting() && !queue.is_starting_with(id);
        if another_begins && recorder.facts(|facts| facts.pending.was_said(id)) {
            return Err(AgentError::Refused("The turn is over.".into()));
        }
        Ok(self.abort(AbortReason::UserInitiated, Waiting::Kept).await)
    }

    /// A turn was cancelled that people saw, but that had not reached its message: both are part of the conversation.
    fn conclude_cancelled(&self, prompt: Prompt) -> Result<(), AgentError> {
        let recorder = &self.shared.recorder;
        turn::record_unsaid(&self.shared, prompt)?;
        recorder.note(PendingMessagesModified::default());
        let reason = AbortReason::UserInitiated;
        recorder.record(lodge_events::Abort { reason })?;
        self.tell_idle(Ended::Aborted);
        Ok(())
    }

    async fn interrupt(&mut self, keep_queue: bool) -> bool {
        if self.running.as_ref().is_some_and(|running| running.compaction) {
            return false;
        }
        let halt = Halt {
            reason: AbortReason::UserInitiated,
            spare_background: true,
            keeps_unsaid: false,
        };
        let waiting = if keep_queue { Waiting::Next } else { Waiting::Forgotten };
        self.stop_turn(halt, waiting).await
    }

    async fn stop_turn(&mut self, halt: Halt, waiting: Waiting) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        *running.halt.lock() = halt;
        running.cancel.cancel();
        let ended = (&mut running.task).await;
        self.running = None;
        // Keeping the queue can be the person's decision that it continues.
        self.said_late = waiting == Waiting::Next;
        match waiting {
            // Messages queued after this turn were meant for after this turn, so stopping it removes them, too.
            Waiting::Forgotten => self.forget_queue(),
            // It is not part of the conversation yet, so it stays queued.
            Waiting::KeptWithStarting => self.shared.queue.begins_later(),
            Waiting::Kept | Waiting::Next => {}
        }
        if let Err(panic) = &ended {
            self.turn_panicked(panic).await;
        }
        self.turn_ended(ended.unwrap_or(Ended::Aborted), false);
        true
    }

    fn forget_queue(&self) {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        self.shared.interjections.clear();
        let (next, steer) = queue.waiting(recorder, true);
        let ids = next.into_iter().chain(steer).map(|message| message.id).collect();
        match queue.remove(recorder, ids, RemovalReason::Aborted) {
            Ok(0) => {}
            Ok(_) => recorder.note(PendingMessagesModified::default()),
            Err(error) => tracing::warn!(session = %self.shared.id, %error, "messages stay in the queue"),
        }
    }

    /// Stops background work when no turn runs. False if there is none.
    async fn abort_agents(&mut self, reason: AbortReason) -> bool {
        if self.shared.agents.running().is_empty() {
            return false;
        }
        self.shared.agents.stop_all().await;
        self.shared.recorder.note(lodge_events::Abort { reason });
        self.shared.recorder.note(SessionBackgroundTasksChanged::default());
        self.idle_owed = None;
        self.rest(Ended::Aborted, false);
        true
    }

    /// Changes the attached clients, and notifies the others of the consequences.
    fn with_clients<T>(&mut self, change: impl FnOnce(&mut crate::client::Clients) -> T) -> T {
        let told = |clients: &crate::client::Clients| (clients.any(|can| can.elicitation), clients.commands());
        let (result, before, after) = {
            let mut clients = self.shared.clients.lock();
            let before = told(&clients);
            let result = change(&mut clients);
            self.shared.queue.set_preparer(clients.any(|can| can.prepares));
            (result, before, told(&clients))
        };
        if before.0 != after.0 {
            let ui = UiCapabilities {
                elicitation: Some(after.0),
                ..UiCapabilities::default()
            };
            self.shared.recorder.note(CapabilitiesChanged { ui: Some(ui) });
        }
        if before.1 != after.1 {
            self.shared.recorder.note(CommandsChanged { commands: after.1 });
        }
        self.shared.retell_tools();
        result
    }

    /// Summarising takes a model call, so it runs beside the actor like a turn, and an abort ends it like one.
    fn compact(&mut self, instructions: Option<String>, reply: oneshot::Sender<Result<Compacted, AgentError>>) {
        let ready = match self.running.is_some() {
            true => Err(AgentError::Busy),
            false => self.only_with_models("be asked for a summary"),
        };
        if let Err(error) = ready {
            let _ = reply.send(Err(error));
            return;
        }
        let (shared, cancel) = (self.shared.clone(), CancellationToken::new());
        let stop = cancel.clone();
        let task = tokio::spawn(async move {
            let system = shared
                .recorder
                .facts(|facts| facts.system_prompt.clone())
                .unwrap_or_default()
                .into();
            let mut turn = Turn::new(shared.clone(), stop);
            turn.system = system;
            turn.find_own_model().await;
            let result = match turn.compact_for_person(instructions.as_deref()).await {
                Ok(Ok(compacted)) => Ok(compacted),
                Ok(Err(why)) => Err(AgentError::Refused(why)),
                Err(turn::Stop::Log(error)) => Err(error.into()),
                Err(_) => Err(AgentError::Refused("The compaction did not finish.".into())),
            };
            let ended = if result.is_ok() { Ended::Finished } else { Ended::Failed };
            let _ = reply.send(result);
            ended
        });
        self.set_running(Running {
            task,
            cancel,
            halt: Arc::default(),
            compaction: true,
        });
    }

    async fn close(&mut self, ending: Ending) {
        let (reason, waiting) = match &ending {
            Ending::HostStops(reason) => (reason.clone(), Waiting::KeptWithStarting),
            Ending::Routine | Ending::Error(_) => (AbortReason::UserInitiated, Waiting::Forgotten),
        };
        self.abort(reason, waiting).await;
        let (shutdown_type, error_reason) = match ending {
            Ending::Error(why) => (ShutdownType::Error, why),
            Ending::Routine | Ending::HostStops(_) => (ShutdownType::Routine, None),
        };
        let reason = match shutdown_type {
            ShutdownType::Error => "error",
            _ => "complete",
        };
        let _ = self.shared.hook(Step::SessionEnd { reason }).await;
        if let Err(error) = self.record_shutdown(shutdown_type, error_reason) {
            tracing::warn!(session = %self.shared.id, %error, "the end of the session could not be recorded");
        }
        self.leave().await;
    }

    async fn leave(&self) {
        self.shared.compacting.cancel();
        if !self.shared.mcp.is_empty() {
            self.shared.mcp.shutdown().await;
        }
        let (tools, changes) = (self.shared.tool_state.clone(), self.shared.changes.clone());
        // Ending processes scans all processes of the system: not on an async thread.
        let end = move || {
            tools.shutdown();
            changes.tidy();
        };
        let _ = tokio::task::spawn_blocking(end).await;
        self.shared.recorder.save();
    }

    fn record_shutdown(&self, shutdown_type: ShutdownType, error_reason: Option<String>) -> Result<(), LogError> {
        let recorder = &self.shared.recorder;
        let (facts, model) = (
            recorder.facts(Clone::clone),
            self.shared.settings.lock().model.info().id.clone(),
        );
        recorder.record(SessionShutdown {
            shutdown_type,
            error_reason,
            current_model: Some(model),
            ..facts.shutdown()
        })?;
        Ok(())
    }
}
