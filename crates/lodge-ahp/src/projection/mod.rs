//! From session events to actions. A state machine without clock, lock or socket: the same events give the same actions,
//! live and from the log, so a restart rebuilds what clients had seen.
//!
//! A turn's id is the `messageId` of the message that opened it, so it is the same after a restart. Sub-agents are chats
//! of their own. Actions that change nothing are not filtered here; the state does that when it applies them.

mod answers;
mod edits;
mod from_clients;
mod input;
mod message;
mod queue;
mod shells;
mod sign_in;
mod subagents;
mod taken;
mod tools;
mod turns;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use ahp_types::{
    StateAction,
    state::{ErrorInfo, Message, UsageInfo},
};
use lodge_events::{Event, Timestamp, Uuid};
use lodge_host::{Delivery, StreamedText};
use serde_json::{Map, Value};

pub use self::shells::TerminalNews;
use self::turns::End;
pub(crate) use self::{
    edits::{Proposed, Side, difference_in, side_named},
    input::{Question, number_value, one_answer},
    message::{embedded, message_of, message_of_prompt},
    tools::{ContentKind, EditError, said_in},
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
    /// The agent waits for a tool of a client that is gone.
    Orphaned {
        /// The chat that the call is in.
        scope: Scope,
        /// The call.
        tool_call_id: String,
    },
    /// The turn of this message has begun, or it is for the turn that runs: it is prepared and given to the agent.
    Prepare {
        /// Its id.
        id: String,
        /// What it says.
        message: Box<Message>,
        /// Whether it begins a turn or is for the one that runs.
        delivery: Delivery,
    },
    /// The conversation came to rest after a turn that went well: a queued message may start.
    Rested,
    /// A message waits that this face prepares and begins: if the conversation is at rest, at once.
    Queued,
}

/// A turn that is running, as far as the projection knows.
#[derive(Debug, Clone)]
struct Turn {
    id: String,
    started: Timestamp,
    /// Whether its message is said. Until then events belong to something before it.
    taken_up: bool,
    /// Whether a person runs a command in it: no model can go on with that.
    command: bool,
}

#[derive(Debug, Default)]
struct Chat {
    turn: Option<Turn>,
    last_turn: Option<String>,
    /// The last turn, when it failed and can be resumed.
    failed: Option<Turn>,
    /// Whether the last turn came to its end, rather than failed or was stopped.
    completed: bool,
    text: StreamedText,
    reasoning: StreamedText,
    /// Usage of the last turn.
    usage: Option<UsageInfo>,
    /// Usage since, which no turn has.
    usage_between: Option<UsageInfo>,
    /// A person cancelled the turn; what still comes of it is not shown.
    muted: bool,
    /// When the model gave its last answer, if that asked for nothing more.
    answered_at: Option<Timestamp>,
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
    /// What an approval for longer than once covers, by the permission request that it would answer.
    lasting: HashMap<String, String>,
    /// Questions that were answered in the turn that runs.
    answered: HashSet<String>,
    /// Which client runs the tool of this name.
    client_tools: HashMap<String, String>,
    /// Tools that clients took along when they left. The agent may still call them: it was told of them before.
    left_tools: HashSet<String>,
    /// The messages that wait, and what clients see of them.
    queue: queue::Queue,
    /// Whether the log is read. A turn that began there and came no further is a message that waits.
    reading: bool,
    /// Messages as clients wrote them, of which the log tells only a part.
    said: HashMap<String, Message>,
    /// Whether another program's agent runs the conversation.
    is_program: bool,
    /// Whether the activity says that the model is called again.
    retrying: bool,
    /// The message whose beginning was missed: it is shown when it is complete.
    joined_late: bool,
    /// The recorded events that each shown turn begins and ends with, for forks and cuts.
    marks: Vec<Mark>,
    now: Timestamp,
    /// When the agent last did something.
    worked: Timestamp,
    /// Where the session works: the log says it, and for who follows a session from its beginning its driver.
    directory: PathBuf,
    /// Commands that go on in the background: from the shell's name to the call that started it.
    shells: HashMap<String, String>,
    out: Vec<Step>,
}

/// What the agent does at the moment that its log was read up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// It works on the last turn.
    Busy,
    /// It does nothing; the host did not live to finish the last turn, or what worked beside it.
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
        self.take(event);
        // What an event ends had worked up to the one before.
        if taken::is_work(event.payload()) {
            self.worked = self.now;
        }
        if !event.is_ephemeral()
            && !event.is_beside()
            && let Some(mark) = self.marks.last_mut()
        {
            mark.last = event.id();
        }
        std::mem::take(&mut self.out)
    }

    /// After the log was read. When the agent still works on the last turn, the message that streams right now began
    /// before anybody here listened. When it does not, the turn is over; it failed when the host did not live to finish it.
    pub fn caught_up(&mut self, now: Now) -> Vec<Step> {
        self.reading = false;
        self.queue.caught_up();
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
        for agent in self.background.clone() {
            self.background_ended(&agent);
        }
        for scope in self.scopes() {
            let info = error_info(lodge_host::INTERRUPTED_INFO, lodge_host::INTERRUPTED_TURN);
            self.end_turn(&scope, End::Error(info, scope == Scope::Main));
        }
    }

    /// Of a session that works in this directory, whose beginning may be missed.
    pub fn in_directory(directory: impl AsRef<Path>) -> Self {
        let mut projector = Self::default();
        projector.works_in(directory);
        projector
    }

    /// The session works in this directory.
    pub(crate) fn works_in(&mut self, directory: impl AsRef<Path>) {
        self.directory = directory.as_ref().to_owned();
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
}

/// What failed, by a word for programs and in words for people.
pub(crate) fn error_info(kind: &str, message: impl ToString) -> ErrorInfo {
    ErrorInfo {
        error_type: kind.to_owned(),
        message: message.to_string(),
        stack: None,
        meta: None,
    }
}

/// A time as the protocol writes it: RFC 3339 in UTC with milliseconds.
pub(crate) fn timestamp(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// The object in a value that is known to be one.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
