//! From session events to actions. A state machine without clock, lock or socket: the same events give the same actions,
//! live and from the log, so a restart rebuilds what clients had seen.
//!
//! A turn's id is the `messageId` of the message that opened it, so it is the same after a restart. Sub-agents are chats
//! of their own. Actions that change nothing are not filtered here; the state does that when it applies them.

mod answers;
mod input;
mod message;
mod shells;
mod text;
mod tools;
mod turns;

use std::collections::{HashMap, HashSet};

use ahp_types::{
    StateAction,
    actions::{
        ChatBackgroundWorkRemovedAction, ChatBackgroundWorkSetAction, ChatPendingMessageRemovedAction,
        ChatPendingMessageSetAction, ChatTurnResumeAction, SessionActivityChangedAction, SessionConfigChangedAction,
        SessionTitleChangedAction,
    },
    state::{
        BackgroundSubagentWork, BackgroundWork, ChatState, ErrorInfo, Message, MessageKind, MessageOrigin,
        PendingMessageKind, UsageInfo,
    },
};
use lodge_events::{Event, Payload, SubagentStarted, Timestamp, Uuid};
use lodge_host::Prompt;
use serde_json::{Map, Value, json};

pub use self::shells::TerminalNews;
use self::{answers::markdown, message::message_of_prompt, turns::End};
pub(crate) use self::{
    input::{Question, answers_of, one_answer},
    message::{attachments_of, check_attachments, message_of},
    text::timestamp,
    tools::{ALLOW_SESSION, said_in},
};

/// Where an action goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The session's channel.
    Session,
    /// The chat that the event stream belongs to.
    Main,
    /// The chat of the sub-agent that this tool call started.
    Sub(String),
}

/// What the state has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Publish an action.
    Act(Scope, Box<StateAction>),
    /// A sub-agent has begun: make its chat. Comes before everything that happens in it.
    OpenSub {
        /// The tool call that started it, which names it from here on.
        tool_call_id: String,
        /// The chat that the tool call is in.
        parent: Scope,
        /// Its name for people.
        title: String,
    },
    /// A command of the agent has something to show.
    Terminal {
        /// The tool call that runs it.
        tool_call_id: String,
        /// What it has.
        news: TerminalNews,
    },
    /// The conversation came to rest after a turn that went well: a queued message may start.
    Rested,
}

/// A turn that is running, as far as the projection knows.
#[derive(Debug, Clone)]
struct Turn {
    id: String,
    started: Timestamp,
    message: Message,
    /// Whether the agent has taken it up. Until then events belong to something before it.
    taken_up: bool,
    /// Whether a client reopened it, and the agent has not taken it up again.
    resumed: bool,
}

/// Text that streams in: the part it goes to and how much of it came.
#[derive(Debug, Clone, Default)]
struct Streaming {
    id: String,
    length: usize,
}

#[derive(Debug, Default)]
struct Chat {
    turn: Option<Turn>,
    last_turn: Option<String>,
    /// The last turn, when it failed and can be resumed.
    failed: Option<Turn>,
    /// Whether the last turn came to its end, rather than failed or was stopped.
    completed: bool,
    text: Streaming,
    reasoning: Streaming,
    usage: Option<UsageInfo>,
    /// A person cancelled the turn; what still comes of it is not shown.
    muted: bool,
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Projector {
    main: Chat,
    subs: HashMap<String, Chat>,
    /// Which tool call started the agent of this id.
    agents: HashMap<String, String>,
    /// Calls whose sub-agents work in the background.
    background: HashSet<String>,
    /// What the agent was told while it had nothing to do: the turn it begins because of that says so.
    told: Option<String>,
    calls: HashMap<String, tools::Call>,
    questions: HashMap<String, Question>,
    /// Which client runs the tool of this name.
    client_tools: HashMap<String, String>,
    /// Messages that the agent was already given, in the order of sending.
    sent: Vec<String>,
    /// The message whose beginning was missed: it is shown when it is complete.
    joined_late: bool,
    /// The recorded events that each shown turn begins and ends with, for forks and cuts.
    marks: Vec<Mark>,
    now: Timestamp,
    /// When the agent last did something.
    worked: Timestamp,
    /// Commands that go on in the background: from the shell's name to the call that started it.
    shells: HashMap<String, String>,
    out: Vec<Step>,
}

/// What the agent does at the moment that its log was read up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// It works on the last turn.
    Busy,
    /// It does nothing; the host did not live to finish the last turn.
    Interrupted,
    /// It does nothing.
    AtRest,
}

/// Where a turn is in the log.
#[derive(Debug, Clone)]
struct Mark {
    turn: String,
    first: Uuid,
    last: Uuid,
}

impl Projector {
    /// Takes one event and returns what it does.
    pub fn event(&mut self, event: &Event) -> Vec<Step> {
        self.now = event.timestamp();
        if is_work(event.payload()) {
            self.worked = self.now;
        }
        self.take(event);
        if !event.is_ephemeral()
            && let Some(mark) = self.marks.last_mut()
        {
            mark.last = event.id();
        }
        std::mem::take(&mut self.out)
    }

    /// After the log was read. When the agent still works on the last turn, the message that streams right now began
    /// before anybody here listened. When it does not, the turn is over; it failed when the host did not live to finish it.
    pub fn caught_up(&mut self, now: Now) -> Vec<Step> {
        match now {
            Now::Busy => self.joined_late = true,
            Now::Interrupted => self.interrupted(),
            Now::AtRest => {
                for scope in self.scopes() {
                    self.end_turn(&scope, End::Complete);
                }
            }
        }
        std::mem::take(&mut self.out)
    }

    /// The host went down in the middle of the last turn: what ran then has failed. That may be found out much later.
    fn interrupted(&mut self) {
        self.now = self.worked;
        let mut open: Vec<String> = self.calls.keys().cloned().collect();
        open.sort_unstable();
        for call in open {
            self.interrupt_call(&call);
        }
        for scope in self.scopes() {
            let info = ErrorInfo {
                error_type: lodge_host::INTERRUPTED_INFO.to_owned(),
                message: lodge_host::INTERRUPTED_TURN.to_owned(),
                stack: None,
                meta: None,
            };
            self.end_turn(&scope, End::Error(info, scope == Scope::Main));
        }
    }

    /// A client (or the queue) opened a turn; the agent is about to be given its message.
    pub(crate) fn turn_started(&mut self, id: &str, message: Message, started: Timestamp) {
        self.sent.push(id.to_owned());
        self.main.turn = Some(Turn {
            id: id.to_owned(),
            started,
            message,
            taken_up: false,
            resumed: false,
        });
        self.main.usage = None;
        self.main.muted = false;
        self.main.failed = None;
    }

    /// Whether this is the last turn, and failed in a way that it can be resumed.
    pub(crate) fn can_resume(&self, id: &str) -> bool {
        self.main.turn.is_none() && self.main.failed.as_ref().is_some_and(|turn| turn.id == id)
    }

    /// A client reopened the turn that failed; the agent is about to be told.
    pub(crate) fn turn_resumed(&mut self) {
        self.main.turn = self.main.failed.take().map(|turn| Turn {
            taken_up: false,
            resumed: true,
            ..turn
        });
        self.main.muted = false;
    }

    /// A client closed the running turn; what still comes of it is dropped until the agent has come to rest.
    pub(crate) fn turn_cancelled(&mut self) -> Vec<Step> {
        if let Some(turn) = self.main.turn.take() {
            self.sent.retain(|sent| *sent != turn.id);
            self.main.last_turn = Some(turn.id);
        }
        self.main.completed = false;
        self.main.muted = true;
        for scope in self.scopes() {
            if scope != Scope::Main {
                self.end_turn(&scope, End::Cancelled);
            }
        }
        std::mem::take(&mut self.out)
    }

    /// The first turns are not shown.
    pub(crate) fn hide(&mut self, turns: usize) {
        self.marks.drain(..turns.min(self.marks.len()));
        if self.marks.is_empty() {
            self.main.last_turn = None;
        }
    }

    /// The last recorded event of a turn.
    pub(crate) fn last_event_of(&self, turn: &str) -> Option<Uuid> {
        self.marks.iter().find(|mark| mark.turn == turn).map(|mark| mark.last)
    }

    /// The first recorded event after a turn; with none, that of the first turn.
    pub(crate) fn first_event_after(&self, turn: Option<&str>) -> Option<Uuid> {
        let next = match turn {
            Some(turn) => self.marks.iter().position(|mark| mark.turn == turn)? + 1,
            None => 0,
        };
        self.marks.get(next).map(|mark| mark.first)
    }

    /// The conversation was cut after this turn.
    pub(crate) fn truncated(&mut self, last: Option<&str>) {
        let keep = last
            .and_then(|turn| self.marks.iter().position(|mark| mark.turn == turn))
            .map_or(0, |at| at + 1);
        self.marks.truncate(keep);
        self.main.turn = None;
        self.main.failed = None;
        self.main.last_turn = last.map(str::to_owned);
        self.main.muted = true;
    }

    /// A message that steers the running turn was given to the agent.
    pub(crate) fn steered(&mut self, id: &str) {
        self.sent.push(id.to_owned());
    }

    /// The agent could not be given a message. True when a turn was waiting for that.
    pub(crate) fn send_failed(&mut self, id: &str) -> bool {
        self.sent.retain(|sent| sent != id);
        let turn = self.main.turn.take_if(|turn| turn.id == id);
        turn.is_some()
    }

    /// Whether the agent was already given this message.
    pub(crate) fn was_sent(&self, id: &str) -> bool {
        self.sent.iter().any(|sent| sent == id)
    }

    /// The queue of the agent, which other faces fill and a host that was killed leaves behind, as it is now. Messages that
    /// clients of this face queued are given to the agent one by one and wait in the chat meanwhile.
    pub(crate) fn queue_changed(&mut self, head: &ChatState, waiting: &[Prompt]) -> Vec<Step> {
        let id_of = |prompt: &Prompt| prompt.message_id.clone();
        let shown: Vec<&String> = head
            .queued_messages
            .iter()
            .flatten()
            .map(|message| &message.id)
            .collect();
        let running = head.active_turn.as_ref().map(|turn| &turn.id);
        for id in &shown {
            let is_agents = self.was_sent(id) && running != Some(*id);
            if is_agents && !waiting.iter().any(|prompt| prompt.message_id.as_ref() == Some(*id)) {
                self.sent.retain(|sent| sent != *id);
                let (kind, id) = (PendingMessageKind::Queued, (*id).clone());
                let action = ChatPendingMessageRemovedAction { kind, id };
                self.act(&Scope::Main, StateAction::ChatPendingMessageRemoved(action));
            }
        }
        for (prompt, id) in waiting.iter().filter_map(|prompt| Some((prompt, id_of(prompt)?))) {
            if shown.contains(&&id) || running == Some(&id) || prompt.source.is_some() {
                continue;
            }
            if !self.was_sent(&id) {
                self.sent.push(id.clone());
            }
            let (kind, message) = (PendingMessageKind::Queued, message_of_prompt(prompt));
            let action = ChatPendingMessageSetAction { kind, id, message };
            self.act(&Scope::Main, StateAction::ChatPendingMessageSet(action));
        }
        std::mem::take(&mut self.out)
    }

    /// Which client runs which tool.
    pub(crate) fn set_client_tools(&mut self, tools: HashMap<String, String>) {
        self.client_tools = tools;
    }

    /// The open question of this id, or about this tool call.
    pub(crate) fn question(&self, about: &str) -> Option<(&str, &Question)> {
        let direct = self.questions.get_key_value(about);
        let found = direct.or_else(|| {
            self.questions
                .iter()
                .find(|(_, question)| question.tool_call_id() == Some(about))
        });
        found.map(|(id, question)| (id.as_str(), question))
    }

    fn scopes(&self) -> Vec<Scope> {
        std::iter::once(Scope::Main)
            .chain(self.subs.keys().cloned().map(Scope::Sub))
            .collect()
    }

    fn chat(&mut self, scope: &Scope) -> &mut Chat {
        match scope {
            Scope::Sub(call) => self.subs.entry(call.clone()).or_default(),
            Scope::Session | Scope::Main => &mut self.main,
        }
    }

    fn act(&mut self, scope: &Scope, action: StateAction) {
        self.out.push(Step::Act(scope.clone(), Box::new(action)));
    }

    /// The chat an event belongs to; `None` when it belongs to an agent nobody has heard of.
    fn scope(&self, event: &Event, parent_call: Option<&str>) -> Option<Scope> {
        if let Some(call) = parent_call {
            return Some(Scope::Sub(call.to_owned()));
        }
        match event.agent_id() {
            None => Some(Scope::Main),
            Some(agent) => self.agents.get(agent).cloned().map(Scope::Sub),
        }
    }

    fn take(&mut self, event: &Event) {
        let of_agent = self.scope(event, None);
        if of_agent == Some(Scope::Main) && goes_on(event.payload()) {
            self.resume();
        }
        match event.payload() {
            Payload::UserMessage(message) => self.user_message(event, message, of_agent),
            Payload::AssistantTurnStart(_) => {
                self.joined_late = false;
                if let Some(scope) = of_agent {
                    self.running_turn(&scope);
                }
            }
            Payload::AssistantIntent(intent) if of_agent == Some(Scope::Main) => {
                let action = SessionActivityChangedAction {
                    activity: Some(intent.intent.clone()),
                };
                self.act(&Scope::Session, StateAction::SessionActivityChanged(action));
            }
            Payload::AssistantMessageDelta(delta) => {
                let scope = self.scope(event, delta.parent_tool_call_id.as_deref());
                self.text_delta(scope, &delta.message_id, &delta.delta_content);
            }
            Payload::AssistantReasoningDelta(delta) => {
                self.reasoning_delta(of_agent, &delta.reasoning_id, &delta.delta_content);
            }
            Payload::AssistantReasoning(reasoning) => {
                self.complete_reasoning(of_agent, &reasoning.reasoning_id, &reasoning.content);
            }
            Payload::AssistantMessage(message) => {
                let scope = self.scope(event, message.parent_tool_call_id.as_deref());
                self.assistant_message(scope, message);
            }
            Payload::AssistantUsage(usage) => {
                let scope = self.scope(event, usage.parent_tool_call_id.as_deref());
                self.usage(scope, usage);
            }
            Payload::SessionIdle(idle) => {
                let end = if idle.aborted == Some(true) {
                    End::Cancelled
                } else {
                    End::Complete
                };
                self.end_turn(&Scope::Main, end);
                self.main.muted = false;
                self.act(
                    &Scope::Session,
                    StateAction::SessionActivityChanged(SessionActivityChangedAction::default()),
                );
                if self.main.completed {
                    self.out.push(Step::Rested);
                }
            }
            Payload::SessionInfo(info) if info.info_type == lodge_host::INTERRUPTED_INFO => self.interrupted(),
            // The turn is over for people, also when sub-agents go on in the background and the session is not idle.
            Payload::AssistantIdle(idle) if of_agent == Some(Scope::Main) && idle.aborted != Some(true) => {
                if self.subs.values().any(|chat| chat.turn.is_some()) {
                    self.end_turn(&Scope::Main, End::Complete);
                    if self.main.completed {
                        self.out.push(Step::Rested);
                    }
                }
            }
            Payload::Abort(_) => {
                for scope in self.scopes() {
                    self.end_turn(&scope, End::Cancelled);
                }
                self.main.muted = true;
            }
            Payload::SessionError(error) => {
                let info = ErrorInfo {
                    error_type: error.error_type.clone(),
                    message: error.message.clone(),
                    stack: None,
                    meta: error.status_code.map(|status| object(json!({ "statusCode": status }))),
                };
                let scope = of_agent.unwrap_or(Scope::Main);
                // What cannot be written down cannot be gone on from.
                let resumable = scope == Scope::Main && error.error_type != "storage";
                self.end_turn(&scope, End::Error(info, resumable));
            }
            Payload::SessionTitleChanged(changed) => {
                let action = SessionTitleChangedAction {
                    title: changed.title.clone(),
                };
                self.act(&Scope::Session, StateAction::SessionTitleChanged(action));
            }
            Payload::SessionModeChanged(changed) if of_agent == Some(Scope::Main) => {
                self.config(json!({ "mode": changed.new_mode }));
            }
            Payload::SessionModelChange(changed) if of_agent == Some(Scope::Main) => {
                self.config(json!({ "model": changed.new_model }));
            }
            Payload::SystemNotification(note) => {
                let content = note.content.replace("<system_notification>", "");
                let content = content.replace("</system_notification>", "");
                let content = content.trim();
                if of_agent == Some(Scope::Main) && self.main.turn.is_none() {
                    self.told = Some(content.to_owned());
                }
                self.notice(of_agent, content);
            }
            Payload::SessionInfo(info) if info.info_type == lodge_events::COMMAND_SOURCE => {
                self.command_answer(event, &info.message, of_agent);
            }
            Payload::SessionWarning(warning) => self.notice(of_agent, &warning.message),
            Payload::SessionCompactionComplete(done) if done.success => {
                self.notice(of_agent, "The conversation was summarised to make room.");
            }
            Payload::SessionTaskComplete(done) => {
                if let (Some(summary), Some(scope)) = (&done.summary, of_agent) {
                    self.part(&scope, markdown(event.id().to_string(), summary.clone()));
                }
            }
            Payload::SessionSnapshotRewind(rewind) => self.rewound(&rewind.up_to_event_id),
            Payload::SubagentStarted(started) => self.subagent_started(event, started),
            Payload::SubagentCompleted(done) => {
                let end = if done.cancelled == Some(true) {
                    End::Cancelled
                } else {
                    End::Complete
                };
                self.end_turn(&Scope::Sub(done.tool_call_id.clone()), end);
                self.background_ended(&done.tool_call_id);
            }
            Payload::SubagentFailed(failed) => {
                let info = ErrorInfo {
                    error_type: "subagent".into(),
                    message: failed.error.clone(),
                    stack: None,
                    meta: None,
                };
                self.end_turn(&Scope::Sub(failed.tool_call_id.clone()), End::Error(info, false));
                self.background_ended(&failed.tool_call_id);
            }
            _ => {
                if !self.tool_event(event) {
                    self.input_event(event);
                }
            }
        }
    }

    /// The agent goes on with a turn that failed, whoever told it to.
    fn resume(&mut self) {
        if let Some(turn) = self.main.turn.as_mut().filter(|turn| turn.resumed) {
            (turn.taken_up, turn.resumed) = (true, false);
        }
        if self.main.turn.is_none()
            && !self.main.muted
            && let Some(failed) = self.main.failed.take()
        {
            let turn_id = failed.id.clone();
            self.main.turn = Some(failed);
            self.act(
                &Scope::Main,
                StateAction::ChatTurnResume(ChatTurnResumeAction { turn_id }),
            );
        }
    }

    fn config(&mut self, config: Value) {
        let action = SessionConfigChangedAction {
            config: object(config),
            replace: None,
        };
        self.act(&Scope::Session, StateAction::SessionConfigChanged(action));
    }

    fn subagent_started(&mut self, event: &Event, started: &SubagentStarted) {
        let call = started.tool_call_id.clone();
        let parent = self.calls.get(&call).map_or(Scope::Main, |call| call.scope.clone());
        if let Some(agent) = event.agent_id() {
            self.agents.insert(agent.to_owned(), call.clone());
        }
        let title = started.agent_display_name.clone();
        self.out.push(Step::OpenSub {
            tool_call_id: call.clone(),
            parent,
            title,
        });
        let prompt = self
            .calls
            .get(&call)
            .and_then(|call| call.prompt())
            .unwrap_or(&started.agent_description)
            .to_owned();
        let message = Message {
            text: prompt,
            origin: MessageOrigin {
                kind: MessageKind::Tool,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        };
        let now = self.now;
        self.open_turn(&Scope::Sub(call.clone()), event.id().to_string(), message, now, false);
        self.show_subagent(&call, started);
        if started.execution_mode.as_deref() == Some("background") {
            self.background.insert(call.clone());
            let work = BackgroundSubagentWork {
                id: call.clone(),
                label: started.agent_display_name.clone(),
                started_at: text::timestamp(now),
                meta: None,
                // The state fills in the chat's address.
                chat: call,
            };
            let action = ChatBackgroundWorkSetAction {
                work: BackgroundWork::Subagent(work),
            };
            self.act(&Scope::Main, StateAction::ChatBackgroundWorkSet(action));
        }
    }

    fn background_ended(&mut self, call: &str) {
        if self.background.remove(call) {
            let action = ChatBackgroundWorkRemovedAction { id: call.to_owned() };
            self.act(&Scope::Main, StateAction::ChatBackgroundWorkRemoved(action));
        }
    }
}

/// Whether an event shows that the agent works on a turn. Tool calls that were closed after a crash do not; they tell no
/// turn.
fn goes_on(payload: &Payload) -> bool {
    match payload {
        Payload::AssistantTurnStart(_) | Payload::PermissionRequested(_) => true,
        Payload::ToolExecutionStart(start) => start.turn_id.is_some(),
        _ => false,
    }
}

/// Whether an event tells of something that the agent did, rather than of what was found out or set about it.
fn is_work(payload: &Payload) -> bool {
    match payload {
        Payload::ToolExecutionComplete(done) => {
            let code = done.error.as_ref().and_then(|error| error.code.as_deref());
            code != Some(lodge_host::INTERRUPTED_INFO)
        }
        Payload::UserMessage(_) | Payload::AssistantMessage(_) | Payload::AssistantUsage(_) => true,
        other => goes_on(other),
    }
}

/// The object in a value that is known to be one.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
