//! The handle on a session: the only way to talk to its actor.

mod tasks;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_events::{
    AbortReason, AnsweredBy, CommandCompleted, CommandExecute, CommandInfo, ElicitationCompleted, ElicitationRequested,
    Event, MessageLane, Payload, PendingMessagesModified, PermissionRequest, SessionWarning,
};
use lodge_log::{Opened, Position, Progress, SessionLog};
use lodge_tools::{
    OutputSink, SessionTools, Todos, Tool, UserCommand,
    changes::Changes,
    custom::{AgentDefinition, Skill},
    rules::{Rule, RuleSet},
};
use lodge_trust::Store;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

pub use self::tasks::{AgentEnd, FactoryAgent, NewTask};
use crate::{
    AgentError,
    actor::{Actor, Command, Ending, QueueChange},
    answer::{Answer, ElicitationAnswer, PendingQuestion, QuestionKind},
    changing::Changing,
    client::{ClientId, ClientSpec},
    compaction::Compacted,
    customize::Customized,
    facts::Facts,
    hooks::{FindHooks, Hooks, Step},
    instructions::Instruction,
    permission::{ApprovalForRun, Permissions},
    questions::Question,
    queue::{PendingMessage, Place, Queue, Readiness},
    recorder::{Publish, Recorder, Remote, Reopen},
    redact::Secrets,
    session::{ContextSize, GitContext, Shared},
    settings::{Approval, Change, Delivery, Outcome, Prompt, Settings},
    supply::Supply,
};

/// What an agent is made of.
pub struct NewAgent {
    /// The session's id.
    pub id: String,
    /// The session's own directory.
    pub dir: PathBuf,
    /// The log, opened.
    pub log: Box<dyn SessionLog>,
    /// Opens it anew.
    pub reopen: Reopen,
    /// What the log says, from [`Facts::read`].
    pub facts: Facts,
    /// How it starts.
    pub settings: Settings,
    /// The built-in tools.
    pub builtins: Arc<[Arc<dyn Tool>]>,
    /// Long-lived things of the tools.
    pub tool_state: Arc<SessionTools>,
    /// What the session did to files.
    pub changes: Arc<Changes>,
    /// Permission rules.
    pub rules: RuleSet,
    /// What the person trusts.
    pub trust: Store,
    /// Finds the hooks that files describe.
    pub find_hooks: FindHooks,
    /// What the host has signed in to.
    pub logins: Arc<lodge_mcp::Logins>,
    /// Who gets the events.
    pub publish: Arc<dyn Publish>,
    /// What no event may hold.
    pub secrets: Arc<Secrets>,
    /// Where the log is kept as well, and what is written there before anybody hears of it.
    pub remote: Option<Remote>,
}

/// Something that was recorded and is being stored: where the log is kept elsewhere as well, that takes a moment.
#[must_use = "nobody may hear of it before it is stored"]
pub struct Storing(Arc<Shared>);

impl Storing {
    /// Whether it is stored already, as always where the log is kept in a file alone.
    pub fn is_done(&self) -> bool {
        self.0.recorder.is_durable()
    }

    /// Waits until it is stored.
    pub async fn done(self) -> Result<(), AgentError> {
        Ok(self.0.recorder.durable().await?)
    }
}

/// A live session. When the last handle is gone the session leaves memory; its log stays.
#[derive(Clone)]
pub struct Agent {
    inbox: mpsc::UnboundedSender<Command>,
    pub(crate) shared: Arc<Shared>,
}

impl Facts {
    /// The facts of an opened log: the kept ones, and what came after them.
    pub fn read(opened: &Opened) -> Result<Self, lodge_log::LogError> {
        let kept: Option<(Position, Self)> = opened
            .snapshot
            .as_ref()
            .and_then(|kept| Some((kept.at, serde_json::from_slice(&kept.bytes).ok()?)));
        match kept {
            Some((from, facts)) if facts.is_current() => facts.read_on(&*opened.log, from),
            kept => {
                let mut facts = Self::default().read_on(&*opened.log, Position::START)?;
                if let Some((_, older)) = kept {
                    facts.totals.keep(&older.totals);
                }
                Ok(facts)
            }
        }
    }

    pub(crate) fn read_on(mut self, log: &dyn SessionLog, from: Position) -> Result<Self, lodge_log::LogError> {
        for event in log.read(from, Position::END)?.events() {
            self.fold(&event?);
        }
        Ok(self)
    }
}

impl Agent {
    /// Starts the actor on the current runtime.
    pub fn spawn(new: NewAgent) -> Self {
        let (inbox, commands) = mpsc::unbounded_channel();
        let permissions = Permissions::new(new.rules).with_session(&new.facts.rules);
        let shared = Arc::new_cyclic(|shared| Shared {
            id: new.id.into(),
            dir: new.dir,
            recorder: Recorder::new(new.log, new.reopen, new.facts, new.publish, new.secrets, new.remote),
            pending: Default::default(),
            earlier_answers: Default::default(),
            settings: Changing::new(new.settings),
            clients: Default::default(),
            builtins: new.builtins,
            tool_state: new.tool_state,
            changes: new.changes,
            permissions: Arc::new(permissions),
            trust: Arc::new(new.trust),
            hooks: Arc::new(Hooks::new(new.find_hooks)),
            mcp: crate::mcp::none(shared),
            logins: new.logins,
            offered: Default::default(),
            queue: Queue::default(),
            interjections: Default::default(),
            notice: Default::default(),
            program: crate::program::ProgramSlot::default(),
            program_not_continued: std::sync::atomic::AtomicBool::new(false),
            program_commands: Mutex::default(),
            program_usage: Mutex::default(),
            greeted: Default::default(),
            compacting: Default::default(),
            busy: Default::default(),
            custom: Default::default(),
            agent_servers: Default::default(),
            agents: Default::default(),
            sub: None,
        });
        Queue::migrate(&shared);
        tokio::spawn(Actor::new(shared.clone(), commands).run());
        Self { inbox, shared }
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// The session's own directory.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// The name that models and clients know the session's own directory by.
    pub fn shown_dir(&self) -> &Path {
        self.shared.tool_state.shown_dir()
    }

    /// The mark of a program that is started for the session, so that the program ends with it, also when the host is killed.
    pub fn program_mark(&self) -> (std::ffi::OsString, std::ffi::OsString) {
        self.shared.tool_state.program_mark()
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, AgentError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(command(reply)).map_err(|_| AgentError::Gone)?;
        let answer = answer.await.map_err(|_| AgentError::Gone)?;
        self.shared.recorder.durable().await?;
        Ok(answer)
    }

    /// Says something to the agent. Answers with the message's id at once; the work goes on beside.
    pub async fn send(&self, prompt: Prompt) -> Result<String, AgentError> {
        self.ask(|reply| Command::Send(Box::new(prompt), reply)).await?
    }

    /// Accepts a message whose turn is to begin now: people see the turn as soon as the log says so. The client that prepares
    /// it then begins it with [`Agent::begin`]. Whoever is told that it was accepted finds it again, also when the host is
    /// killed before it is said. Answers with the event that says it, unless the log said the same before.
    pub fn accept(&self, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.accept_as(Uuid::new_v4(), prompt)
    }

    /// Like [`Agent::accept`], by an event with this id.
    pub fn accept_as(&self, event: Uuid, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.queue_as(event, prompt, Readiness::Beginning)
    }

    /// Puts a message at the end of the queue, or gives one that waits another content. Its turn begins in its order, once it
    /// is prepared where it needs that. Answers like [`Agent::accept`].
    pub fn enqueue(&self, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.enqueue_as(Uuid::new_v4(), prompt)
    }

    /// Like [`Agent::enqueue`], by an event with this id.
    pub fn enqueue_as(&self, event: Uuid, prompt: Prompt) -> Result<Option<Uuid>, AgentError> {
        self.queue_as(event, prompt, Readiness::Waiting)
    }

    fn queue_as(&self, event: Uuid, prompt: Prompt, readiness: Readiness) -> Result<Option<Uuid>, AgentError> {
        if self.has_ended() {
            return Err(AgentError::Gone);
        }
        let place = match prompt.delivery {
            Delivery::Immediate => Place::STEER,
            Delivery::Enqueue => Place::LAST,
        };
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        let recorded = queue.accept_as(event, recorder, prompt, place, readiness)?;
        recorder.note(PendingMessagesModified::default());
        recorder.sync();
        Ok(recorded)
    }

    /// Begins the turn of a message that waits, as far as people see; whoever prepares messages prepares it and has it said
    /// with [`Agent::begin`]. False when it waits no more.
    pub fn prepare_message(&self, message_id: &str) -> Result<bool, AgentError> {
        Ok(self.shared.queue.prepare(&self.shared.recorder, message_id)?)
    }

    /// Whether this process began with a message that is not said yet.
    pub fn has_begun(&self, message_id: &str) -> bool {
        self.shared.queue.has_begun(message_id)
    }

    /// Whether a message waits for a client to prepare it and have it said.
    pub fn awaits_preparation(&self, message_id: &str) -> bool {
        self.shared.queue.awaits_preparation(&self.shared.recorder, message_id)
    }

    /// What a message that waits says to people, with what no log may hold if it was sent to this process.
    pub fn text_of(&self, message_id: &str) -> Option<String> {
        let (prompt, _) = self.shared.queue.sent(&self.shared.recorder, message_id)?;
        Some(prompt.display_text.unwrap_or(prompt.text))
    }

    /// Has a message said that was accepted and is prepared. False when it was withdrawn meanwhile.
    pub async fn begin(&self, prompt: Prompt) -> Result<bool, AgentError> {
        self.ask(|reply| Command::Begin(Box::new(prompt), reply)).await?
    }

    /// Forgets a message that was accepted and is no part of the conversation. False if it did not wait.
    pub fn withdraw(&self, message_id: &str) -> Result<bool, AgentError> {
        self.withdraw_as(Uuid::new_v4(), message_id)
    }

    /// Like [`Agent::withdraw`], by an event with this id.
    pub fn withdraw_as(&self, event: Uuid, message_id: &str) -> Result<bool, AgentError> {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        let removed = queue.withdraw(event, recorder, message_id)?;
        if removed {
            recorder.note(PendingMessagesModified::default());
        }
        Ok(removed)
    }

    /// Records what hangs beside the chain. It is no part of the conversation, so it does not wait for its turn.
    pub fn record_beside(&self, payload: impl Into<Payload>) -> Result<Storing, AgentError> {
        let payload = payload.into();
        debug_assert!(lodge_events::is_beside(payload.kind()), "{}", payload.kind());
        if self.has_ended() {
            return Err(AgentError::Gone);
        }
        self.shared.recorder.record(payload)?;
        Ok(self.storing())
    }

    /// All that was recorded so far.
    pub fn storing(&self) -> Storing {
        Storing(self.shared.clone())
    }

    /// A message that was accepted cannot be prepared: its turn fails, when it comes. One that was to steer a turn does not wait
    /// any more, and a warning says why.
    pub async fn fail_message(&self, message_id: &str, reason: &str) -> Result<(), AgentError> {
        let Some((prompt, lane)) = self.shared.queue.sent(&self.shared.recorder, message_id) else {
            return Ok(());
        };
        if lane != MessageLane::Steer {
            let outcome = Some(Outcome::Failed(reason.to_owned()));
            return self.begin(Prompt { outcome, ..prompt }).await.map(drop);
        }
        if self.withdraw(message_id)? {
            let text = prompt.display_text.unwrap_or(prompt.text);
            self.shared.recorder.record(SessionWarning {
                warning_type: "message_dropped".into(),
                message: format!(
                    "The message {:?} was not sent: {reason}",
                    crate::title_of(&text).unwrap_or_default()
                ),
                ..SessionWarning::default()
            })?;
        }
        Ok(())
    }

    /// Puts messages that wait for after the turn into this order, before those that it does not name, by an event with this id.
    pub fn reorder_as(&self, event: Uuid, order: Vec<String>) -> Result<(), AgentError> {
        let (queue, recorder) = (&self.shared.queue, &self.shared.recorder);
        queue.put_first(event, recorder, MessageLane::Next, order)?;
        recorder.note(PendingMessagesModified::default());
        Ok(())
    }

    /// Stops the running turn. False when there was none.
    pub async fn abort(&self, reason: AbortReason) -> Result<bool, AgentError> {
        self.ask(|reply| Command::Abort(reason, reply)).await
    }

    /// Stops the turn of a message, or takes the message back if it was not said yet. What else waits stays, unlike with
    /// [`Agent::abort`]. False when there was nothing to stop.
    pub async fn cancel(&self, message_id: &str) -> Result<bool, AgentError> {
        self.ask(|reply| Command::Cancel(message_id.to_owned(), reply)).await?
    }

    /// Stops the running turn, and leaves what works in the background alone. With `keep_queue` what waits comes next, or it
    /// is forgotten. False when no turn ran.
    pub async fn interrupt(&self, keep_queue: bool) -> Result<bool, AgentError> {
        self.ask(|reply| Command::Interrupt(keep_queue, reply)).await
    }

    /// Takes up what was open when the host went down. False when nothing was.
    pub async fn continue_pending(&self) -> Result<bool, AgentError> {
        self.ask(Command::Continue).await?
    }

    /// Closes what was open when the host went down as interrupted. False when nothing was.
    pub async fn settle_interrupted(&self) -> Result<bool, AgentError> {
        self.ask(Command::Settle).await?
    }

    /// Goes on with the turn that failed, or that the host did not live to finish, without another message: the model is
    /// called again. False when there is none.
    pub async fn resume_failed(&self) -> Result<bool, AgentError> {
        self.ask(Command::Resume).await?
    }

    /// Answers an open question. False when it is not (or no longer) open.
    pub async fn answer(&self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<bool, AgentError> {
        self.ask(|reply| Command::Answer(request_id.to_owned(), Box::new((answer, by)), reply))
            .await?
    }

    /// Answers a question that is open right now. Nothing when it is not open.
    pub fn answer_open(&self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<Option<Storing>, AgentError> {
        let answered = self.shared.answer(request_id, answer, by)?;
        Ok(answered.then(|| self.storing()))
    }

    /// Attaches a client.
    pub async fn attach(&self, client: ClientSpec) -> Result<ClientId, AgentError> {
        self.ask(|reply| Command::Attach(client, reply)).await
    }

    /// Tells what an attached client can do now.
    pub fn update(&self, id: ClientId, client: ClientSpec) {
        let _ = self.inbox.send(Command::Update(id, client));
    }

    /// Detaches a client. Its open questions stay open.
    pub fn detach(&self, id: ClientId) {
        let _ = self.inbox.send(Command::Detach(id));
    }

    /// Changes a setting.
    pub async fn configure(&self, change: Change) -> Result<(), AgentError> {
        self.configure_as(Uuid::new_v4(), change).await
    }

    /// Changes a setting. Where clients see the change as an event, that is the event with this id; there is none if nothing
    /// changed.
    pub async fn configure_as(&self, id: Uuid, change: Change) -> Result<(), AgentError> {
        self.ask(|reply| Command::Configure(change, id, reply)).await?
    }

    /// Uses something that a client or the host brings, for as long as the session is in memory.
    pub async fn supply(&self, supply: Supply) -> Result<(), AgentError> {
        self.supply_as(Uuid::new_v4(), supply).await
    }

    /// Uses something that a client or the host brings. A change of the model is an event with this id.
    pub async fn supply_as(&self, id: Uuid, supply: Supply) -> Result<(), AgentError> {
        self.ask(|reply| Command::Supply(supply, id, reply)).await?
    }

    /// Records an event that a client asks for.
    pub async fn record(&self, payload: impl Into<Payload>) -> Result<Event, AgentError> {
        let payload = Box::new(payload.into());
        self.ask(|reply| Command::Record(payload, reply)).await?
    }

    /// Publishes an event that a client asks for and that nobody needs later.
    pub async fn tell(&self, payload: impl Into<Payload>) -> Result<Event, AgentError> {
        let payload = Box::new(payload.into());
        self.ask(|reply| Command::Tell(payload, reply)).await
    }

    /// Writes the plan, or deletes it.
    pub async fn set_plan(&self, plan: Option<String>) -> Result<(), AgentError> {
        self.ask(|reply| Command::Plan(plan, reply)).await?
    }

    /// Where the plan is, if there is one.
    pub fn plan_path(&self) -> PathBuf {
        self.shared.plan_path()
    }

    /// That messages which waited for their turn were found damaged when the session was opened, for people.
    pub fn queue_damage(&self) -> Option<&str> {
        self.shared.queue.damage()
    }

    /// Changes the queue. Answers how many messages that changed.
    pub async fn change_queue(&self, change: QueueChange) -> Result<usize, AgentError> {
        self.ask(|reply| Command::Queue(change, reply)).await?
    }

    /// Replaces the conversation by a summary of it.
    pub async fn compact(&self, instructions: Option<String>) -> Result<Compacted, AgentError> {
        self.ask(|reply| Command::Compact(instructions, reply)).await?
    }

    /// Stops a compaction, asked for or begun beside a turn. False when none ran.
    pub async fn cancel_compaction(&self) -> Result<bool, AgentError> {
        self.ask(Command::CancelCompaction).await
    }

    /// Takes the session back to before an event. Answers how many events went.
    pub async fn truncate(&self, event: Uuid) -> Result<u64, AgentError> {
        self.ask(|reply| Command::Truncate(event, reply)).await?
    }

    /// Puts back what was taken back last, if nothing was said since. False when there is nothing.
    pub async fn put_back(&self) -> Result<bool, AgentError> {
        self.ask(Command::PutBack).await?
    }

    /// Records that a command was given as a message, and its answer, so that people see both. The model does not.
    pub async fn commanded(&self, message_id: String, text: String, answer: String) -> Result<(), AgentError> {
        self.ask(|reply| Command::Commanded(Box::new([message_id, text, answer]), reply))
            .await?
    }

    /// Forgets the conversation, keeps the session. Answers how many messages were forgotten.
    pub async fn clear_context(&self, first: Option<String>) -> Result<u64, AgentError> {
        self.ask(|reply| Command::ClearContext(first, reply)).await?
    }

    /// Ends the session's life in memory; `session.shutdown` is recorded. Messages that wait are forgotten, unless the host
    /// stops: then they stay for when the session is taken up again.
    pub async fn close(&self, ending: Ending) {
        let _ = self.ask(|reply| Command::Close(ending, reply)).await;
    }

    /// Leaves memory without an end, if its turn only waits for clients and there are none. What is open can be taken up
    /// again from the log. Answers whether it did.
    pub async fn rest(&self) -> bool {
        self.ask(Command::Rest).await.unwrap_or(false)
    }

    /// Waits until the session's log is lost to another host, where one could take it. False when the session leaves memory
    /// first. It does not keep the session there.
    pub fn lost(&self) -> impl Future<Output = bool> + Send + use<> {
        self.shared.recorder.lost()
    }

    /// Whether the session's log is lost to this host.
    pub fn is_lost(&self) -> bool {
        self.shared.recorder.is_lost()
    }

    /// Takes it that the session's log is lost to another host. Nothing more is recorded here.
    pub fn lose(&self, reason: &str) {
        self.shared.recorder.lose(reason);
    }

    /// Whether the session has left memory or is about to, and nothing can be done with it any more.
    pub fn has_ended(&self) -> bool {
        self.inbox.is_closed() || self.is_lost()
    }

    /// Waits until the session has left memory.
    pub async fn ended(&self) {
        self.inbox.closed().await;
    }

    /// Whether a turn runs, or a sub-agent.
    pub fn is_busy(&self) -> bool {
        self.shared.busy.load(std::sync::atomic::Ordering::Acquire) || !self.shared.agents.running().is_empty()
    }

    /// Whether a turn or a sub-agent runs, or a command that was left in the background.
    pub fn has_work(&self) -> bool {
        self.is_busy() || self.shared.tool_state.has_running()
    }

    /// The session's skills, with whether each is on.
    pub async fn skills(&self) -> Result<Vec<(Skill, bool)>, AgentError> {
        self.ask(Command::Load).await?;
        Ok(self.shared.skills())
    }

    /// Looks for skills anew. Answers with warnings and errors.
    pub async fn reload_skills(&self) -> Result<(Vec<String>, Vec<String>), AgentError> {
        self.ask(Command::ReloadSkills).await?;
        let found = self.shared.custom.lock().skills.clone().unwrap_or_default();
        Ok((found.warnings.clone(), found.errors.clone()))
    }

    /// Turns a skill, an agent or a file with instructions on or off. False when there is no such thing.
    pub async fn enable(&self, what: Customized, on: bool) -> Result<bool, AgentError> {
        self.ask(|reply| Command::Enable(what, on, reply)).await?
    }

    /// Agents of clients and files, with whether each is on.
    pub async fn found_agents(&self) -> Result<Vec<(AgentDefinition, bool)>, AgentError> {
        self.ask(Command::Load).await?;
        Ok(self.shared.found_agents())
    }

    /// The custom agents, and with `builtin` those that this program brings.
    pub async fn custom_agents(&self, builtin: bool) -> Result<Vec<AgentDefinition>, AgentError> {
        self.ask(Command::Load).await?;
        let mut agents = self.shared.custom_agents();
        if builtin {
            agents.extend(self.shared.builtin_agents());
        }
        Ok(agents)
    }

    /// Looks for agents anew.
    pub async fn reload_agents(&self) -> Result<(), AgentError> {
        self.ask(Command::ReloadAgents).await
    }

    /// Chooses a custom agent, or none.
    pub async fn select_agent(&self, name: Option<String>) -> Result<(), AgentError> {
        self.ask(|reply| Command::SelectAgent(name, reply)).await?
    }

    /// The custom agent that was chosen, when it is there.
    pub async fn current_agent(&self) -> Result<Option<AgentDefinition>, AgentError> {
        self.ask(Command::Load).await?;
        Ok(self.shared.definition().map(|agent| (*agent).clone()))
    }

    /// Files with instructions for the system prompt, with whether each is on.
    pub async fn instruction_files(&self) -> Vec<(PathBuf, bool)> {
        let settings = self.shared.settings();
        let look = move || {
            let found = settings.found_instructions(GitContext::of(&settings.cwd).root.as_deref());
            let off = &settings.customization.disabled_instructions;
            let files = found.into_iter().map(|found| (!off.contains(&found.path), found.path));
            files.map(|(on, path)| (path, on)).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// The instructions of files that are read into the system prompt.
    pub async fn instructions(&self) -> Vec<Instruction> {
        let shared = self.shared.clone();
        let read = move || shared.instructions(GitContext::of(&shared.settings().cwd).root.as_deref());
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Settings {
        self.shared.settings()
    }

    /// Changes what is asked before tools run until the guard is dropped, for all of the session's agents. It is not recorded.
    pub fn approve_for_run(&self, approval: Approval) -> Result<ApprovalForRun, AgentError> {
        self.shared.approve_for_run(approval)
    }

    /// Whether a person chose the session's name.
    pub fn is_named_by_person(&self) -> bool {
        self.shared.is_named_by_person()
    }

    /// Whether everything may be approved without a question. Policy may forbid it.
    pub fn may_approve_all(&self) -> bool {
        !self.shared.permissions.forbids_bypass()
    }

    /// What the log says, in short.
    pub fn facts(&self) -> Facts {
        self.look(Clone::clone)
    }

    /// Looks at what the log says, in short. Nothing is recorded meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        self.shared.recorder.facts(look)
    }

    /// How far the conversation got, as its log says it.
    pub fn progress(&self) -> Progress {
        self.shared.recorder.facts(|facts| match &facts.open_turn {
            _ if facts.waits_for_people() => Progress::Asking,
            Some(turn) if turn.command => Progress::Running,
            Some(_) => Progress::Working,
            None if facts.failed_turn.is_some() => Progress::Failed,
            None => Progress::Idle,
        })
    }

    /// About how many tokens the next model call would take.
    pub fn context_size(&self) -> Result<ContextSize, AgentError> {
        let system = self
            .shared
            .recorder
            .facts(|facts| facts.system_prompt.as_ref().map_or(0, String::len));
        Ok(self.shared.context_size(system, &self.shared.specs())?)
    }

    /// How full the context is, as clients are told at the end of a turn. `None` if nothing was said yet, or nobody knows.
    pub fn context_usage(&self) -> Option<lodge_events::SessionUsageInfo> {
        let model = self.shared.settings().model;
        if lodge_external::Program::behind(&*model).is_some() {
            return self.shared.program_usage.lock().clone();
        }
        self.shared
            .recorder
            .facts(|facts| facts.first_prompt.is_some().then_some(()))?;
        Some(crate::turn::usage_info(model.info(), &self.context_size().ok()?))
    }

    /// Slash commands that clients run.
    pub fn client_commands(&self) -> Vec<CommandInfo> {
        self.shared.clients.lock().commands()
    }

    /// The slash commands of the program that works for the session, as far as it named them. `None` where a model does.
    pub fn program_commands(&self) -> Option<Vec<lodge_external::Command>> {
        let model = self.shared.settings().model;
        lodge_external::Program::behind(&*model)?;
        Some(self.shared.program_commands.lock().clone())
    }

    /// Has the client that brought a slash command run it, and waits until it did.
    pub async fn run_client_command(&self, name: &str, args: &str) -> Result<(), AgentError> {
        let Some(client) = self.shared.clients.lock().has_command(name) else {
            return Err(AgentError::Refused(format!("Unknown command: {name}")));
        };
        let request_id = Uuid::new_v4().to_string();
        let pending = self.shared.pending.for_client(client);
        let waiting = pending.open(&request_id, QuestionKind::Command);
        self.record(CommandExecute {
            request_id: request_id.clone(),
            command: format!("/{name} {args}").trim_end().to_owned(),
            command_name: name.to_owned(),
            args: args.to_owned(),
        })
        .await?;
        let answer = waiting.await;
        self.record(CommandCompleted { request_id }).await?;
        match answer {
            Ok(Answer::Command(None)) => Ok(()),
            Ok(Answer::Command(Some(error))) => Err(AgentError::Refused(error)),
            _ => Err(AgentError::Refused("The client that has the command went away.".into())),
        }
    }

    /// Does what the first turn would do before it begins: looks for skills and agents, and starts MCP servers.
    pub async fn prepare(&self) -> Result<(), AgentError> {
        self.ask(Command::Load).await?;
        self.shared.mcp_ready().await;
        Ok(())
    }

    /// Asks the model something about the conversation that does not become part of it.
    pub async fn ask_aside(&self, question: String) -> Result<String, AgentError> {
        self.ask(Command::Load).await?;
        crate::side_question::ask(&self.shared, question).await
    }

    /// Asks whoever can show forms, and waits for the answer.
    pub async fn elicit(&self, question: ElicitationRequested) -> Result<ElicitationAnswer, AgentError> {
        if !self.shared.clients.lock().any(|can| can.elicitation) {
            return Err(AgentError::Refused("No attached client can show forms.".into()));
        }
        let id = question.request_id.clone();
        let opened = Question::new(
            &id,
            QuestionKind::Elicitation,
            None,
            &question,
            question.message.clone(),
        );
        let waiting = self.shared.open_question(opened.showing(&question).private())?;
        let event = self.record(question).await?;
        self.shared.pending.asked(&id, event);
        let answer = match waiting.await {
            Ok(Answer::Elicitation(answer)) => answer,
            _ => ElicitationAnswer {
                action: "cancel".into(),
                content: None,
            },
        };
        let completed = ElicitationCompleted {
            request_id: id,
            action: Some(answer.action.as_str().into()),
            content: answer.content.clone(),
        };
        self.record(completed).await?;
        Ok(answer)
    }

    /// The MCP servers. What is done to them is no part of the session's log, so it needs no command.
    pub fn mcp(&self) -> &lodge_mcp::Servers {
        &self.shared.mcp
    }

    /// Adds MCP servers, or gives them another configuration. They start when they are needed.
    pub fn add_mcp_servers(&self, servers: Vec<lodge_mcp::Configured>) {
        self.shared.add_mcp_servers(servers);
    }

    /// Runs a command for a person, beside the agent and in its working directory unless another is named.
    pub async fn run_for_user(
        &self,
        command: &str,
        cwd: Option<&Path>,
        out: OutputSink,
    ) -> Result<UserCommand, AgentError> {
        self.shared.recorder.durable().await?;
        let settings = self.shared.settings();
        let cwd = cwd.map_or(settings.cwd.clone(), |cwd| settings.cwd.join(cwd));
        self.shared
            .tool_state
            .run_for_user(command, &cwd, settings.max_tool_output, out)
            .map_err(|error| AgentError::Refused(error.0))
    }

    /// Tells hooks that an app shows the person a question about permission.
    pub async fn permission_prompt_shown(&self, message: &str) -> Result<(), AgentError> {
        let step = Step::Notification {
            message,
            notification_type: "permission_prompt",
            tool_name: None,
        };
        self.shared.hook(step).await?;
        Ok(())
    }

    /// Reads the hooks of files and plugins anew. Answers how many there are.
    pub async fn reload_hooks(&self) -> Result<usize, AgentError> {
        self.shared.read_hooks().await?;
        Ok(self.shared.hooks.len())
    }

    /// What the agent has noted to do.
    pub async fn todos(&self) -> Todos {
        self.shared.tool_state.clone().read_todos().await
    }

    /// Names and descriptions of the tools that the model may call now.
    pub fn tools(&self) -> Vec<lodge_models::ToolSpec> {
        self.shared.tools().into_iter().map(|(spec, _)| spec).collect()
    }

    /// What the session did to files.
    pub fn changes(&self) -> &Arc<Changes> {
        &self.shared.changes
    }

    /// How many clients are attached.
    pub fn clients(&self) -> usize {
        self.shared.clients.lock().iter().count()
    }

    /// The open questions, oldest first.
    pub fn pending(&self) -> Vec<PendingQuestion> {
        self.shared.pending.list()
    }

    /// What is kept when somebody allows a request for longer than once. Blocks.
    pub fn lasting_rules(&self, request: &PermissionRequest) -> Vec<Rule> {
        self.shared.lasting_rules(request)
    }

    /// Whether the rules in force hide each of these files from every tool. Blocks.
    pub fn excludes(&self, paths: &[String]) -> Vec<bool> {
        paths.iter().map(|path| self.shared.excludes(path)).collect()
    }

    /// Messages that wait, next one first; and those meant for the running turn.
    pub fn queue(&self) -> (Vec<Prompt>, Vec<Prompt>) {
        let running = self.shared.busy.load(std::sync::atomic::Ordering::Acquire);
        let (next, steer) = self.shared.queue.waiting(&self.shared.recorder, running);
        let prompts = |list: &[PendingMessage], lane| list.iter().map(|message| message.prompt(&lane)).collect();
        (prompts(&next, MessageLane::Next), prompts(&steer, MessageLane::Steer))
    }

    /// Runs something between two events: nothing is recorded or published meanwhile. For handing over from the log to
    /// the live stream without a gap or a repetition.
    pub fn paused<T>(&self, run: impl FnOnce(&dyn SessionLog) -> T) -> T {
        self.shared.recorder.paused(run)
    }
}
