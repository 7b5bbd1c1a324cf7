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
    compaction::{self, Compacted},
    customize::Customized,
    hooks::Step,
    queue::{Place, Readiness},
    session::Shared,
    settings::{Change, Delivery, Prompt},
    supply::Supply,
    turn::{self, Ended, Halt, Start},
};

/// Everything a session can be told. Closed: nothing else changes a session.
pub enum Command {
    /// A message from a person or a program.
    Send(Box<Prompt>, oneshot::Sender<Result<String, AgentError>>),
    /// The turn of a message that was accepted may begin. Answers whether it waits still.
    Begin(Box<Prompt>, oneshot::Sender<Result<bool, AgentError>>),
    /// Stop the running turn, and forget what waits for after it. Answers whether there was one.
    Abort(AbortReason, oneshot::Sender<bool>),
    /// Stop the turn of a message, or take the message back. What waits for after it waits on. Answers whether there was
    /// anything to stop.
    Cancel(String, oneshot::Sender<Result<bool, AgentError>>),
    /// Stop the running turn, and leave what works in the background alone. With `true` what waits comes next, or it is
    /// forgotten. Answers whether there was a turn.
    Interrupt(bool, oneshot::Sender<bool>),
    /// Take up tool calls that were open when the host went down. Answers whether there were any.
    Continue(oneshot::Sender<Result<bool, AgentError>>),
    /// Close what was open when the host went down: it counts as interrupted. Answers whether there was anything.
    Settle(oneshot::Sender<Result<bool, AgentError>>),
    /// Go on with the turn that failed, or that the host did not live to finish. Answers whether there was one.
    Resume(oneshot::Sender<Result<bool, AgentError>>),
    /// An answer to an open question, and who gives it. Answers whether it was the first.
    Answer(
        String,
        Box<(Answer, AnsweredBy)>,
        oneshot::Sender<Result<bool, AgentError>>,
    ),
    /// Somebody attaches.
    Attach(ClientSpec, oneshot::Sender<ClientId>),
    /// What an attached client can do has changed.
    Update(ClientId, ClientSpec),
    /// Somebody leaves.
    Detach(ClientId),
    /// Change a setting.
    Configure(Change, oneshot::Sender<Result<(), AgentError>>),
    /// Use something that a client or the host brings.
    Supply(Supply, oneshot::Sender<Result<(), AgentError>>),
    /// Record an event that a client asks for (`session.log`, `session.workspace_file_changed`, …).
    Record(Box<lodge_events::Payload>, oneshot::Sender<Result<Event, AgentError>>),
    /// Publish an event that a client asks for and that nobody needs later.
    Tell(Box<lodge_events::Payload>, oneshot::Sender<Event>),
    /// Write, replace or (with nothing) delete the plan.
    Plan(Option<String>, oneshot::Sender<Result<(), AgentError>>),
    /// Change the queue of waiting messages. Answers how many were changed.
    Queue(QueueChange, oneshot::Sender<Result<usize, AgentError>>),
    /// Replace the conversation by a summary.
    Compact(Option<String>, oneshot::Sender<Result<Compacted, AgentError>>),
    /// Stop a compaction. Answers whether one ran.
    CancelCompaction(oneshot::Sender<bool>),
    /// Take the session back to before an event. Answers how many events went.
    Truncate(Uuid, oneshot::Sender<Result<u64, AgentError>>),
    /// Put back what was taken back last. Answers whether there was anything.
    PutBack(oneshot::Sender<Result<bool, AgentError>>),
    /// A command was given to the host as a message, and answered: its message id, its text, its answer.
    Commanded(Box<[String; 3]>, oneshot::Sender<Result<(), AgentError>>),
    /// Forget the conversation, keep the session.
    ClearContext(oneshot::Sender<Result<u64, AgentError>>),
    /// Look for skills and agents, unless that was done.
    Load(oneshot::Sender<()>),
    /// Look for skills anew.
    ReloadSkills(oneshot::Sender<()>),
    /// Look for agents anew.
    ReloadAgents(oneshot::Sender<()>),
    /// Turn a skill on or off. Answers whether there is such a skill.
    Enable(Customized, bool, oneshot::Sender<Result<bool, AgentError>>),
    /// Choose a custom agent, or none.
    SelectAgent(Option<String>, oneshot::Sender<Result<(), AgentError>>),
    /// End the session's life in memory.
    Close(Ending, oneshot::Sender<()>),
    /// Leave memory without an end, if the turn only waits for clients and there are none. Answers whether it did.
    Rest(oneshot::Sender<bool>),
}

/// Why a session's life in memory ends.
#[derive(Debug, Clone, Default)]
pub enum Ending {
    /// Nobody needs it any more.
    #[default]
    Routine,
    /// A client says that something went wrong, and perhaps what.
    Error(Option<String>),
    /// The host stops, for this reason. What waits stays for the next one.
    HostStops(AbortReason),
}

/// A change of the queue.
#[derive(Debug, Clone)]
pub enum QueueChange {
    /// Forget all of it.
    Clear,
    /// Forget the newest.
    RemoveLast,
    /// Forget the one with this message id.
    Remove(String),
    /// Put the ones with these message ids first, in this order.
    Reorder(Vec<String>),
    /// Put a new one at a place. It is next when nothing runs.
    Insert(usize, Box<Prompt>),
    /// Give the one with this message id another text, and another one for people.
    Reword(String, String, Option<String>),
    /// Tell the running turn the one with this message id. Nothing happens when none runs.
    Steer(String),
}

/// What becomes of the messages that wait when a turn is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Forgotten,
    Kept,
    /// And the message of the turn waits on with them, if it was not said yet.
    KeptWithStarting,
    /// They come now.
    Next,
}

struct Running {
    task: JoinHandle<Ended>,
    cancel: CancellationToken,
    halt: Arc<Mutex<Halt>>,
    compaction: bool,
}

/// The actor's own state; what the turn needs too is in [`Shared`].
pub(crate) struct Actor {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Command>,
    running: Option<Running>,
    /// The session's directory, open; locked while a turn runs.
    lease: Option<std::fs::File>,
    /// Whether something was said when clients knew already that the turn is over, and it was not quite.
    said_late: bool,
    /// Whether the turn takes up what was open when the host went down.
    taking_up: bool,
    /// Whether what waits comes next and only rests behind a message that its client still prepares.
    held_back: bool,
    /// How the last turn ended, while sub-agents in the background keep the session from being idle.
    idle_owed: Option<Ended>,
    /// Whether clients were told of the skills.
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

    /// Lives until it is closed, or until nobody holds a handle.
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
                        // Whoever hears of it finds it ended.
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
                    // Nobody holds the session: it leaves memory without having ended.
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
            Command::Configure(change, reply) => drop(reply.send(self.configure(change))),
            Command::Supply(supply, reply) => drop(reply.send(self.supply(supply))),
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
            // Both rewrite what is in the file. When the log is lost, they fail.
            Command::Truncate(event, reply) => {
                let _ = self.shared.recorder.durable().await;
                let _ = reply.send(self.truncate(event));
            }
            Command::PutBack(reply) => {
                let _ = self.shared.recorder.durable().await;
                let _ = reply.send(self.put_back());
            }
            Command::Commanded(said, reply) => drop(reply.send(self.commanded(*said))),
            Command::ClearContext(reply) => drop(reply.send(self.clear_context())),
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
        // Sent again by a client that did not hear that it was accepted.
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
        // What is to steer a turn waits for one that is about to begin.
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

    /// Puts a message where it belongs in the queue, or at a place.
    fn accept(&mut self, prompt: Prompt, at: Option<usize>) -> Result<(), AgentError> {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        let running = self.running.is_some();
        let over = recorder.facts(|facts| facts.open_turn.is_none());
        self.said_late |= running && over && !queue.is_starting();
        let place = match prompt.delivery {
            _ if at.is_some() => Place { at, ..Place::LAST },
            // A command is nothing to tell the model now: it is what comes next.
            Delivery::Immediate if running && prompt.command.is_some() => Place::FIRST,
            Delivery::Immediate if running => Place::STEER,
            _ if prompt.prepend => Place::FIRST,
            _ => Place::LAST,
        };
        queue.accept(recorder, prompt, place, Readiness::Ready)?;
        // Told when it is so: whoever hears it looks at the queue.
        recorder.note(PendingMessagesModified::default());
        if running {
            // Nobody else asks for it soon.
            recorder.sync();
        }
        Ok(())
    }

    /// Starts the turn of the message that waits longest. False when none does.
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

    /// What comes after a turn: what was said too late to steer it, then what waits, then idle. A compaction that was asked
    /// for has an answer of its own, and an idle after that would be taken for the end of what is said next.
    fn turn_ended(&mut self, ended: Ended, compaction: bool) {
        self.taking_up = false;
        let unsaid = match ended {
            Ended::Aborted => RemovalReason::Aborted,
            Ended::Finished | Ended::Failed => RemovalReason::Failed,
        };
        self.shared.queue.turn_ended(&self.shared.recorder, unsaid);
        // Looked at before the notices: one that ends right now has left its notice before it stops working.
        let agents_work = !self.shared.agents.running().is_empty();
        // What was queued before a turn failed waits for a word of the person; what was said after that is this word.
        let go_on = std::mem::take(&mut self.said_late) || ended == Ended::Finished;
        // Nobody is let past a message that its client has to prepare: the client hears that the session rests, and begins it.
        self.held_back = go_on && self.shared.queue.next_needs_preparation(&self.shared.recorder);
        if go_on && !self.held_back && self.start_next(lodge_events::Delivery::Queued) {
            // The next turn runs.
        } else if ended != Ended::Aborted && self.shared.agents.has_notices() {
            self.start(Start::Notices);
        } else if !compaction && agents_work {
            // The session is not idle while agents work for it; the one that ends last has the model told.
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

    /// The message that the others rest behind may be gone, or not the next one any more.
    fn queue_changed(&mut self) {
        if self.held_back {
            self.go_on();
        }
    }

    /// Sub-agents began or ended in the background.
    fn agents_changed(&mut self) {
        self.shared.recorder.note(SessionBackgroundTasksChanged::default());
        if self.running.is_some() {
            return;
        }
        let agents_work = !self.shared.agents.running().is_empty();
        if agents_work {
            // One that a client started out of the blue.
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
        // The session is not idle while agents work, so there are none to tell of.
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
        // The turn of the next message may begin already; that one is not what was to be stopped.
        let another_begins = queue.is_starting() && !queue.is_starting_with(id);
        if another_begins && recorder.facts(|facts| facts.pending.was_said(id)) {
            return Err(AgentError::Refused("The turn is over.".into()));
        }
        Ok(self.abort(AbortReason::UserInitiated, Waiting::Kept).await)
    }

    /// A turn was cancelled that people saw and that had not come to its message: both are part of the conversation.
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
        // To keep what waits can be the word that lets it come next.
        self.said_late = waiting == Waiting::Next;
        match waiting {
            // What was queued for after this turn was meant for after this turn: stopping it takes that back too.
            Waiting::Forgotten => self.forget_queue(),
            // It was not said, so it waits on.
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

    /// Stops what works in the background when no turn runs. False when nothing does.
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

    /// Changes who is attached and tells the others what that changes for them.
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
            let result = match compaction::compact(&shared, &system, instructions.as_deref(), &stop).await {
                Ok(Some(compacted)) => Ok(compacted),
                Ok(None) if stop.is_cancelled() => Err(AgentError::Refused("The compaction was cancelled.".into())),
                Ok(None) => Err(AgentError::Refused(
                    "The model could not summarise the conversation.".into(),
                )),
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
        // Ending processes looks through all of the system's: not on a thread that serves others.
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
