//! From session events to actions. A state machine without clock, lock or socket: the same events give the same actions,
//! live and from the log, so a restart rebuilds what clients had seen.
//!
//! A turn's id is the `messageId` of the message that opened it, so it is the same after a restart. Sub-agents are chats
//! of their own. Actions that change nothing are not filtered here; the state does that when it applies them.

mod input;
mod message;
mod text;
mod tools;

use std::collections::HashMap;

use ahp_types::{
    StateAction,
    actions::{
        ChatDeltaAction, ChatErrorAction, ChatPendingMessageSetAction, ChatReasoningAction, ChatResponsePartAction,
        ChatTruncatedAction, ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction, ChatUsageAction,
        SessionActivityChangedAction, SessionConfigChangedAction, SessionTitleChangedAction,
    },
    state::{
        ErrorInfo, ErrorResponsePart, MarkdownResponsePart, Message, MessageKind, MessageOrigin, PendingMessageKind,
        ReasoningResponsePart, ResponsePart, SystemNotificationResponsePart, UsageInfo,
    },
};
use lodge_events::{AssistantMessage, Event, Payload, SubagentStarted, Timestamp, UserMessage, Uuid};
use serde_json::{Map, Value, json};

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

    /// Somebody cut the conversation elsewhere. A turn that lost its beginning is gone.
    fn rewound(&mut self, up_to: &str) {
        let Some(at) = self.marks.iter().position(|mark| mark.first.to_string() == up_to) else {
            return;
        };
        let last = at
            .checked_sub(1)
            .and_then(|before| self.marks.get(before))
            .map(|mark| mark.turn.clone());
        self.truncated(last.as_deref());
        self.main.muted = false;
        self.act(
            &Scope::Main,
            StateAction::ChatTruncated(ChatTruncatedAction { turn_id: last }),
        );
    }

    fn config(&mut self, config: Value) {
        let action = SessionConfigChangedAction {
            config: object(config),
            replace: None,
        };
        self.act(&Scope::Session, StateAction::SessionConfigChanged(action));
    }

    fn user_message(&mut self, event: &Event, user: &UserMessage, scope: Option<Scope>) {
        let Some(scope) = scope else { return };
        let id = user.message_id.clone().unwrap_or_else(|| event.id().to_string());
        let from_person = user.source.as_deref().is_none_or(|source| source == "user")
            && user.is_autopilot_continuation != Some(true);
        let now = self.now;
        let was_sent = self.was_sent(&id);
        if scope == Scope::Main && from_person {
            self.marks.push(Mark {
                turn: id.clone(),
                first: event.id(),
                last: event.id(),
            });
        }
        self.sent.retain(|sent| *sent != id);
        let chat = self.chat(&scope);
        chat.muted = false;
        if let Some(turn) = &mut chat.turn {
            if turn.id == id {
                turn.taken_up = true;
                return;
            }
            if !from_person && turn.taken_up {
                return;
            }
            if turn.taken_up {
                self.end_turn(&scope, End::Complete);
            } else {
                self.step_back(&scope);
            }
        }
        let kind = if from_person {
            MessageKind::User
        } else {
            MessageKind::SystemNotification
        };
        let message = message_of(user, kind);
        self.open_turn(&scope, id, message, now, was_sent);
    }

    /// Somebody else's message came first: the turn that waits becomes a queued message again.
    fn step_back(&mut self, scope: &Scope) {
        let chat = self.chat(scope);
        let Some(turn) = chat.turn.take() else { return };
        let last = chat.last_turn.clone();
        self.act(scope, StateAction::ChatTruncated(ChatTruncatedAction { turn_id: last }));
        let action = ChatPendingMessageSetAction {
            kind: PendingMessageKind::Queued,
            id: turn.id.clone(),
            message: turn.message,
        };
        self.act(scope, StateAction::ChatPendingMessageSet(action));
        self.sent.push(turn.id);
    }

    fn open_turn(&mut self, scope: &Scope, id: String, message: Message, started: Timestamp, queued: bool) {
        let chat = self.chat(scope);
        chat.turn = Some(Turn {
            id: id.clone(),
            started,
            message: message.clone(),
            taken_up: true,
        });
        chat.usage = None;
        chat.wants_more = false;
        let action = ChatTurnStartedAction {
            turn_id: id.clone(),
            started_at: text::timestamp(started),
            message,
            queued_message_id: queued.then_some(id),
            meta: None,
        };
        self.act(scope, StateAction::ChatTurnStarted(action));
    }

    /// The id of the turn that an event of the agent belongs to. An agent that works without having been asked gets a
    /// turn that says so.
    fn running_turn(&mut self, scope: &Scope) -> Option<String> {
        let now = self.now;
        let chat = self.chat(scope);
        match &chat.turn {
            Some(turn) if turn.taken_up => return Some(turn.id.clone()),
            Some(_) => return None,
            None if chat.muted => return None,
            None => {}
        }
        let message = Message {
            text: String::new(),
            origin: MessageOrigin {
                kind: MessageKind::SystemNotification,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        };
        let id = match scope {
            Scope::Sub(call) => format!("{call}-{}", now.as_millisecond()),
            Scope::Session | Scope::Main => format!("resumed-{}", now.as_millisecond()),
        };
        self.open_turn(scope, id.clone(), message, now, false);
        Some(id)
    }

    fn part(&mut self, scope: &Scope, part: ResponsePart) {
        if let Some(turn_id) = self.running_turn(scope) {
            self.act(
                scope,
                StateAction::ChatResponsePart(ChatResponsePartAction {
                    turn_id,
                    part,
                    meta: None,
                }),
            );
        }
    }

    fn notice(&mut self, scope: Option<Scope>, content: &str) {
        let Some(scope) = scope else { return };
        if self.chat(&scope).turn.is_some() {
            let part = SystemNotificationResponsePart {
                content: content.into(),
                meta: None,
            };
            self.part(&scope, ResponsePart::SystemNotification(part));
        }
    }

    fn text_delta(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        let Some(scope) = scope.filter(|_| !self.joined_late) else {
            return;
        };
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let chat = self.chat(&scope);
        if chat.text.id == id {
            chat.text.length += content.len();
            let action = ChatDeltaAction {
                turn_id,
                part_id: id.to_owned(),
                content: content.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatDelta(action));
        } else {
            chat.text = Streaming {
                id: id.to_owned(),
                length: content.len(),
            };
            self.part(&scope, markdown(id.to_owned(), content.to_owned()));
        }
    }

    fn reasoning_delta(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        let Some(scope) = scope.filter(|_| !self.joined_late) else {
            return;
        };
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let chat = self.chat(&scope);
        if chat.reasoning.id == id {
            chat.reasoning.length += content.len();
            let action = ChatReasoningAction {
                turn_id,
                part_id: id.to_owned(),
                content: content.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatReasoning(action));
        } else {
            chat.reasoning = Streaming {
                id: id.to_owned(),
                length: content.len(),
            };
            self.part(&scope, reasoning(id.to_owned(), content.to_owned()));
        }
    }

    fn complete_reasoning(&mut self, scope: Option<Scope>, id: &str, content: &str) {
        let Some(scope) = scope else { return };
        let chat = self.chat(&scope);
        let shown = if chat.reasoning.id == id {
            chat.reasoning.length
        } else {
            0
        };
        chat.reasoning = Streaming {
            id: id.to_owned(),
            length: content.len(),
        };
        if shown == 0 && !content.is_empty() {
            self.part(&scope, reasoning(id.to_owned(), content.to_owned()));
        } else if let Some(rest) = content.get(shown..).filter(|rest| !rest.is_empty())
            && let Some(turn_id) = self.running_turn(&scope)
        {
            let action = ChatReasoningAction {
                turn_id,
                part_id: id.to_owned(),
                content: rest.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatReasoning(action));
        }
    }

    fn assistant_message(&mut self, scope: Option<Scope>, message: &AssistantMessage) {
        let Some(scope) = scope else { return };
        self.joined_late = false;
        let id = &message.message_id;
        let chat = self.chat(&scope);
        let shown = if chat.text.id == *id { chat.text.length } else { 0 };
        chat.text = Streaming::default();
        chat.wants_more = message
            .tool_requests
            .as_ref()
            .is_some_and(|requests| !requests.is_empty());
        let told_reasoning = !chat.reasoning.id.is_empty();
        chat.reasoning = Streaming::default();
        if let Some(thought) = message
            .reasoning_text
            .as_ref()
            .filter(|thought| !told_reasoning && !thought.is_empty())
        {
            self.part(&scope, reasoning(format!("{id}-reasoning"), thought.clone()));
        }
        if shown == 0 {
            if !message.content.is_empty() {
                self.part(&scope, markdown(id.clone(), message.content.clone()));
            }
        } else if let Some(rest) = message.content.get(shown..).filter(|rest| !rest.is_empty())
            && let Some(turn_id) = self.running_turn(&scope)
        {
            let action = ChatDeltaAction {
                turn_id,
                part_id: id.clone(),
                content: rest.to_owned(),
                meta: None,
            };
            self.act(&scope, StateAction::ChatDelta(action));
        }
        for request in message.tool_requests.iter().flatten() {
            self.tool_requested(&scope, request);
        }
    }

    /// Tokens of all model calls of a turn, added up; the model is the last one.
    fn usage(&mut self, scope: Option<Scope>, usage: &lodge_events::AssistantUsage) {
        let Some(scope) = scope else { return };
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let sum = self.chat(&scope).usage.get_or_insert_with(UsageInfo::default);
        let add = |sum: &mut Option<i64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0) + more as i64);
            }
        };
        add(&mut sum.input_tokens, usage.input_tokens);
        add(&mut sum.output_tokens, usage.output_tokens);
        add(&mut sum.cache_read_tokens, usage.cache_read_tokens);
        sum.model = Some(usage.model.clone());
        let usage = sum.clone();
        self.act(
            &scope,
            StateAction::ChatUsage(ChatUsageAction {
                turn_id,
                usage,
                meta: None,
            }),
        );
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

    fn end_turn(&mut self, scope: &Scope, end: End) {
        let now = self.now;
        let chat = self.chat(scope);
        // A turn that the agent has not taken up is not ended by the end of what came before it.
        let Some(turn) = chat.turn.take_if(|turn| turn.taken_up) else {
            return;
        };
        chat.last_turn = Some(turn.id.clone());
        chat.text = Streaming::default();
        chat.reasoning = Streaming::default();
        let (turn_id, meta) = (turn.id, None);
        let duration = (now.as_millisecond() - turn.started.as_millisecond()).max(0);
        let action = match end {
            End::Complete => StateAction::ChatTurnComplete(ChatTurnCompleteAction {
                turn_id,
                duration,
                meta,
            }),
            End::Cancelled => StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                turn_id,
                duration,
                meta,
            }),
            End::Error(error) => {
                let part = ErrorResponsePart { error, resumable: None };
                StateAction::ChatError(ChatErrorAction {
                    turn_id,
                    duration,
                    part,
                    meta,
                })
            }
        };
        self.act(scope, action);
    }
}

enum End {
    Complete,
    Cancelled,
    Error(ErrorInfo),
}

fn markdown(id: String, content: String) -> ResponsePart {
    ResponsePart::Markdown(MarkdownResponsePart { id, content })
}

fn reasoning(id: String, content: String) -> ResponsePart {
    ResponsePart::Reasoning(ReasoningResponsePart { id, content })
}

/// The object in a value that is known to be one.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
