//! From session events to actions. A state machine without clock, lock or socket: the same events give the same actions,
//! live and from the log, so a restart rebuilds what clients had seen.
//!
//! A turn's id is the `messageId` of the message that opened it, so it is the same after a restart. Sub-agents are chats
//! of their own. Actions that change nothing are not filtered here; the state does that when it applies them.

mod answers;
mod input;
mod message;
mod text;
mod tools;
mod turns;

use std::collections::HashMap;

use ahp_types::{
    StateAction,
    actions::{SessionActivityChangedAction, SessionConfigChangedAction, SessionTitleChangedAction},
    state::{ErrorInfo, Message, MessageKind, MessageOrigin, UsageInfo},
};
use lodge_events::{Event, Payload, SubagentStarted, Timestamp, Uuid};
use serde_json::{Map, Value, json};

use self::{answers::markdown, turns::End};
pub(crate) use self::{
    input::{Question, answers_of, one_answer},
    message::{attachments_of, message_of},
    text::timestamp,
    tools::ALLOW_SESSION,
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
    /// The conversation came to rest: a queued message may start.
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
    text: Streaming,
    reasoning: Streaming,
    usage: Option<UsageInfo>,
    /// Whether the last answer asked for tools, so that more would have come.
    wants_more: bool,
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
    out: Vec<Step>,
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
        self.take(event);
        if !event.is_ephemeral()
            && let Some(mark) = self.marks.last_mut()
        {
            mark.last = event.id();
        }
        std::mem::take(&mut self.out)
    }

    /// After the log was read: a turn that the agent no longer works on is over. When it still does, the message that
    /// streams right now began before anybody here listened.
    pub fn caught_up(&mut self, busy: bool) -> Vec<Step> {
        if busy {
            self.joined_late = true;
        } else {
            for scope in self.scopes() {
                let wants_more = self.chat(&scope).wants_more;
                self.end_turn(&scope, if wants_more { End::Cancelled } else { End::Complete });
            }
        }
        std::mem::take(&mut self.out)
    }

    /// A client (or the queue) opened a turn; the agent is about to be given its message.
    pub(crate) fn turn_started(&mut self, id: &str, message: Message, started: Timestamp) {
        self.sent.push(id.to_owned());
        self.main.turn = Some(Turn {
            id: id.to_owned(),
            started,
            message,
            taken_up: false,
        });
        self.main.usage = None;
        self.main.muted = false;
    }

    /// A client closed the running turn; what still comes of it is dropped until the agent has come to rest.
    pub(crate) fn turn_cancelled(&mut self) -> Vec<Step> {
        if let Some(turn) = self.main.turn.take() {
            self.sent.retain(|sent| *sent != turn.id);
            self.main.last_turn = Some(turn.id);
        }
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
                self.out.push(Step::Rested);
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
                self.end_turn(&of_agent.unwrap_or(Scope::Main), End::Error(info));
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
                self.config(json!({ "model": { "id": changed.new_model } }));
            }
            Payload::SystemNotification(note) => self.notice(of_agent, &note.content),
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
            }
            Payload::SubagentFailed(failed) => {
                let info = ErrorInfo {
                    error_type: "subagent".into(),
                    message: failed.error.clone(),
                    stack: None,
                    meta: None,
                };
                self.end_turn(&Scope::Sub(failed.tool_call_id.clone()), End::Error(info));
            }
            _ => {
                if !self.tool_event(event) {
                    self.input_event(event);
                }
            }
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
    }
}

/// The object in a value that is known to be one.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
