//! One session that a client has open: takes its prompts and answers to the agent, and what the agent does to the client.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use lodge_events::{AbortReason, Event, Payload, RemovalReason};
use lodge_host::{
    AgentError, AnsweredBy, Attachment, Prompt, QueueChange, RunOutcome, Session, Subscription, TurnWatch,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    connection::{Client, Connection},
    options,
    peer::Peer,
    projection::Projector,
    questions::{self, Kind, Meaning, Question},
    rpc::{AUTH_REQUIRED, Error, NOT_FOUND},
    wire::{Chunk, SessionNotification, Update},
};

/// Why a turn stopped, or what went wrong.
pub(crate) type Stopped = Result<&'static str, Error>;

const END_TURN: &str = "end_turn";
const CANCELLED: &str = "cancelled";

/// What a client wants of a session.
pub(crate) enum Command {
    /// The prompt has the id of its message.
    Prompt(Box<Prompt>, oneshot::Sender<Stopped>),
    /// What came of saying a message: the agent has it, or a command answered this and nothing follows.
    Said(String, Result<Option<String>, Error>),
    /// Stop whatever runs.
    Cancel,
    /// Stop the turn of this message, or forget the message.
    CancelPrompt(String),
    /// Stop what the client wanted, tell it how that ended, and end.
    Close(oneshot::Sender<()>),
}

/// A prompt that is not answered yet.
struct Turn {
    message_id: String,
    watch: TurnWatch,
    /// Whether the agent has the message; before that nothing can be stopped.
    sent: bool,
    /// Whether the message is part of the conversation.
    begun: bool,
    cancelled: bool,
    stop_reason: &'static str,
    /// Why the message did not become part of the conversation, if it does not.
    error: Option<Error>,
    answer: oneshot::Sender<Stopped>,
}

/// A question that the client has before it. Dropped, it is taken back.
struct Asked {
    kind: Kind,
    _over: DropGuard,
}

pub(crate) struct Driver {
    connection: Weak<Connection>,
    session: Session,
    events: Subscription,
    projector: Projector,
    peer: Peer,
    client: Arc<Client>,
    _attachment: Attachment,
    /// To itself, for as long as the client has the session open.
    sender: mpsc::WeakUnboundedSender<Command>,
    inbox: mpsc::UnboundedReceiver<Command>,
    turns: Vec<Turn>,
    /// Whether the last turn failed or was stopped.
    failed: bool,
    asked: HashMap<String, Asked>,
    commands: Vec<Value>,
    closing: Option<oneshot::Sender<()>>,
}

/// What a driver needs.
pub(crate) struct Parts {
    pub(crate) connection: Weak<Connection>,
    pub(crate) events: Subscription,
    pub(crate) projector: Projector,
    pub(crate) peer: Peer,
    pub(crate) client: Arc<Client>,
    pub(crate) attachment: Attachment,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> (Self, mpsc::UnboundedSender<Command>) {
        let (sender, inbox) = mpsc::unbounded_channel();
        let driver = Self {
            connection: parts.connection,
            session: parts.attachment.session().clone(),
            events: parts.events,
            projector: parts.projector,
            peer: parts.peer,
            client: parts.client,
            _attachment: parts.attachment,
            sender: sender.downgrade(),
            inbox,
            turns: Vec::new(),
            failed: false,
            asked: HashMap::new(),
            commands: Vec::new(),
            closing: None,
        };
        (driver, sender)
    }

    pub(crate) fn session_id(&self) -> &str {
        self.session.id()
    }

    /// Works until the client or the session is gone.
    pub(crate) async fn run(mut self: Box<Self>) {
        self.send_commands().await;
        self.send_plan().await;
        for open in self.session.pending() {
            self.ask(&open.event);
        }
        loop {
            tokio::select! {
                batch = self.events.next_batch() => match batch {
                    Some(batch) if batch.is_empty() => {
                        tracing::warn!("an ACP client missed events and is dropped");
                        return self.peer.close();
                    }
                    Some(batch) => for event in &batch {
                        self.event(event).await;
                    },
                    None => return self.session_ended(),
                },
                command = self.inbox.recv() => match command {
                    Some(command) => self.perform(command),
                    None => return,
                },
            }
            // Whoever waits for it hears of it when this is dropped.
            if self.closing.is_some() && self.turns.is_empty() {
                return;
            }
        }
    }

    fn send(&self, update: &Update) {
        let notification = SessionNotification {
            session_id: self.session.id(),
            update,
        };
        self.peer.notify("session/update", &notification);
    }

    async fn event(&mut self, event: &Event) {
        self.settle(event);
        let is_own_failure = event.agent_id().is_none()
            && matches!(event.payload(), Payload::SessionError(_))
            && self.turns.iter().any(|turn| turn.begun);
        // A failure of the client's own turn is the answer to its prompt.
        if !is_own_failure {
            for update in self.projector.project(event) {
                self.send(&update);
            }
        }
        self.ask(event);
        if let Some(id) = questions::completed(event)
            && let Some(asked) = self.asked.remove(id)
            && asked.kind == Kind::Page
        {
            let completed = json!({ "elicitationId": id });
            self.peer.notify("elicitation/complete", &completed);
        }
        match event.payload() {
            Payload::SessionTodosChanged(_) => self.send_plan().await,
            Payload::SessionModelChange(_)
            | Payload::SessionModeChanged(_)
            | Payload::SessionPermissionsChanged(_)
            | Payload::LodgeApproval(_) => {
                if let Some(connection) = self.connection.upgrade() {
                    let options = options::all(&connection.host(), &self.session);
                    let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
                    self.send(&Update::Other(update));
                }
            }
            Payload::CommandsChanged(_)
            | Payload::SessionMcpServersLoaded(_)
            | Payload::SessionMcpServerStatusChanged(_)
            | Payload::McpPromptsListChanged(_) => self.send_commands().await,
            _ => {}
        }
    }

    /// Tells the client which commands there are, unless it knows.
    async fn send_commands(&mut self) {
        let commands = self.session.commands().await.into_iter().map(|command| {
            let mut shown = json!({ "name": command.name, "description": command.description });
            if let Some(hint) = command.hint {
                shown["input"] = json!({ "hint": hint });
            }
            shown
        });
        let commands: Vec<Value> = commands.collect();
        if commands != self.commands {
            let update = json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
            self.commands = commands;
            self.send(&Update::Other(update));
        }
    }

    /// Tells the client what the agent has noted to do.
    async fn send_plan(&self) {
        let todos = self.session.todos().await;
        let entries = todos.rows.into_iter().map(|todo| {
            let status = match todo.status.as_deref() {
                Some("done") => "completed",
                Some("in_progress") => "in_progress",
                _ => "pending",
            };
            json!({ "content": todo.title.unwrap_or(todo.id), "priority": "medium", "status": status })
        });
        let entries: Vec<Value> = entries.collect();
        if !entries.is_empty() {
            self.send(&Update::Other(json!({ "sessionUpdate": "plan", "entries": entries })));
        }
    }

    /// Puts a question to the client, if the event is one that it can be asked.
    fn ask(&mut self, event: &Event) {
        let session = self.session.id();
        let question = match event.payload() {
            Payload::PermissionRequested(asked) if asked.resolved_by_hook != Some(true) => {
                let (updates, call) = self.projector.asked(&asked.request_id, &asked.permission_request);
                for update in updates {
                    self.send(&update);
                }
                Some(questions::permission(session, &asked.request_id, &call))
            }
            _ => questions::question(session, event, &self.client.capabilities),
        };
        let Some(question) = question.filter(|question| !self.asked.contains_key(&question.request_id)) else {
            return;
        };
        let over = CancellationToken::new();
        let asked = Asked {
            kind: question.kind,
            _over: over.clone().drop_guard(),
        };
        self.asked.insert(question.request_id.clone(), asked);
        let (peer, session) = (self.peer.clone(), self.session.clone());
        let by = AnsweredBy {
            client: Some(self.client.name.clone()),
            ..AnsweredBy::default()
        };
        tokio::spawn(put(question, peer, session, by, over));
    }

    fn perform(&mut self, command: Command) {
        match command {
            Command::Prompt(prompt, answer) => self.prompt(*prompt, answer),
            Command::Said(message_id, said) => self.said(&message_id, said),
            Command::Cancel => {
                for turn in &mut self.turns {
                    turn.cancelled = true;
                }
                self.abort();
            }
            Command::CancelPrompt(message_id) => {
                let Some(turn) = self.turns.iter_mut().find(|turn| turn.message_id == message_id) else {
                    return;
                };
                turn.cancelled = true;
                match (turn.sent, turn.begun) {
                    (true, true) => self.abort(),
                    (true, false) => self.unqueue(message_id),
                    (false, _) => {}
                }
            }
            Command::Close(done) => {
                self.closing = Some(done);
                if !self.turns.is_empty() {
                    self.perform(Command::Cancel);
                }
            }
        }
    }

    fn abort(&self) {
        let session = self.session.clone();
        tokio::spawn(async move { session.abort(AbortReason::UserInitiated).await });
    }

    /// Forgets a message that waits, or stops its turn if that is about to begin.
    fn unqueue(&self, message_id: String) {
        let session = self.session.clone();
        tokio::spawn(async move {
            if let Ok(0) = session.change_queue(QueueChange::Remove(message_id)).await {
                let _ = session.abort(AbortReason::UserInitiated).await;
            }
        });
    }

    fn prompt(&mut self, prompt: Prompt, answer: oneshot::Sender<Stopped>) {
        let message_id = prompt.message_id.clone().unwrap_or_default();
        self.projector.own.insert(message_id.clone());
        self.turns.push(Turn {
            watch: TurnWatch::new(&message_id),
            message_id: message_id.clone(),
            sent: false,
            begun: false,
            cancelled: false,
            stop_reason: END_TURN,
            error: None,
            answer,
        });
        let (session, sender) = (self.session.clone(), self.sender.clone());
        let connection = self.connection.clone();
        tokio::spawn(async move {
            if let Some(connection) = connection.upgrade() {
                connection.renew_if_wanted().await;
            }
            let said = say(&session, &message_id, prompt).await;
            if said.is_err()
                && let Err(error) = session.withdraw(&message_id)
            {
                tracing::warn!(%error, "a message that failed stays in the queue");
            }
            if let Some(sender) = sender.upgrade() {
                let _ = sender.send(Command::Said(message_id, said));
            }
        });
    }

    fn said(&mut self, message_id: &str, said: Result<Option<String>, Error>) {
        let Some(at) = self.turns.iter().position(|turn| turn.message_id == message_id) else {
            return;
        };
        match said {
            Ok(None) => {
                self.turns[at].sent = true;
                if self.turns[at].cancelled {
                    self.perform(Command::CancelPrompt(message_id.to_owned()));
                }
            }
            Ok(Some(answer)) => {
                self.send(&Update::AgentMessageChunk(Chunk {
                    content: answer.into(),
                    message_id: None,
                }));
                self.finish(at, Ok(END_TURN));
            }
            Err(_) if self.turns[at].cancelled => self.finish(at, Ok(CANCELLED)),
            Err(error) => self.finish(at, Err(error)),
        }
    }

    fn finish(&mut self, at: usize, stopped: Stopped) {
        let turn = self.turns.remove(at);
        self.projector.own.remove(&turn.message_id);
        let wants_key = stopped.as_ref().is_err_and(|error| error.code == AUTH_REQUIRED);
        if let Some(connection) = self.connection.upgrade().filter(|_| wants_key) {
            connection.want_key();
        }
        let _ = turn.answer.send(stopped);
    }

    /// Answers the prompts whose turns end with this event.
    fn settle(&mut self, event: &Event) {
        let mut ended = Vec::new();
        for (at, turn) in self.turns.iter_mut().enumerate() {
            if let Some(stopped) = turn.event(event) {
                ended.push((at, stopped));
            }
        }
        for (at, stopped) in ended.into_iter().rev() {
            self.finish(at, stopped);
        }
        // What was queued before a turn failed waits for a word of the person, and a client that waits for its answer has none.
        let own = event.agent_id().is_none();
        match event.payload() {
            Payload::SessionError(_) | Payload::Abort(_) if own => self.failed = true,
            Payload::AssistantTurnStart(_) if own => self.failed = false,
            _ => {}
        }
        if self.failed && matches!(event.payload(), Payload::SessionIdle(_)) && !self.session.is_busy() {
            for turn in self.turns.iter_mut().filter(|turn| turn.sent && !turn.begun) {
                let unsent = "The turn before this message failed, so it was not sent. Send it again.";
                turn.error = Some(Error::internal(unsent));
                let (session, id) = (self.session.clone(), turn.message_id.clone());
                tokio::spawn(async move { session.change_queue(QueueChange::Remove(id)).await });
            }
        }
    }

    fn session_ended(&mut self) {
        while !self.turns.is_empty() {
            self.finish(0, Err(Error::new(NOT_FOUND, "The session has ended. Load it again.")));
        }
    }
}

impl Turn {
    /// How the turn ended, if it did with this event.
    fn event(&mut self, event: &Event) -> Option<Stopped> {
        let own = event.agent_id().is_none();
        match event.payload() {
            Payload::UserMessage(said) if own && said.message_id.as_deref() == Some(&self.message_id) => {
                self.begun = true;
            }
            Payload::LodgeMessageRemoved(removed) if !self.begun && removed.ids.contains(&self.message_id) => {
                return Some(match self.error.take() {
                    Some(error) if removed.why != RemovalReason::Aborted && !self.cancelled => Err(error),
                    _ => Ok(CANCELLED),
                });
            }
            Payload::SessionError(error) if own && !self.begun => {
                self.error = Some(Error::internal(&error.message));
            }
            Payload::SessionWarning(warning) if own => match warning.warning_type.as_str() {
                "answer_cut" => self.stop_reason = "max_tokens",
                "answer_filtered" => self.stop_reason = "refusal",
                _ => {}
            },
            // What the model said after that stands for it.
            Payload::AssistantMessage(_) if own => self.stop_reason = END_TURN,
            _ => {}
        }
        let outcome = self.watch.event(event)?;
        // A message that was not taken up is told by its removal.
        self.begun.then_some(match outcome {
            RunOutcome::Completed(_) => Ok(self.stop_reason),
            RunOutcome::Cancelled => Ok(CANCELLED),
            RunOutcome::Failed { kind, message } if kind == "authentication" => Err(Error::new(AUTH_REQUIRED, message)),
            RunOutcome::Failed { message, .. } => Err(Error::internal(message)),
        })
    }
}

/// Says something, and records the answer where it was a command. The answer of a command that was given beside a running
/// turn has no place in the log, and is given back.
async fn say(session: &Session, message_id: &str, prompt: Prompt) -> Result<Option<String>, Error> {
    let text = prompt.display_text.clone().unwrap_or_else(|| prompt.text.clone());
    let Some(answer) = session.say(prompt).await? else {
        return Ok(None);
    };
    match session.commanded(message_id.to_owned(), text, answer.clone()).await {
        Ok(()) => Ok(None),
        Err(AgentError::Busy) => Ok(Some(answer)),
        Err(error) => Err(error.into()),
    }
}

/// Asks the client and takes its answer to the agent, unless somebody else answers first.
async fn put(question: Question, peer: Peer, session: Session, by: AnsweredBy, over: CancellationToken) {
    let mut request = peer.request(question.method, &question.params);
    let answer = tokio::select! {
        answer = request.answer() => answer,
        () = over.cancelled() => None,
    };
    let Some(answer) = answer else { return };
    let done = match questions::meaning(question.kind, answer) {
        Meaning::Answer(answer) => session.answer(&question.request_id, *answer, by).await,
        Meaning::Cancelled => session.abort(AbortReason::UserInitiated).await,
    };
    if let Err(error) = done {
        tracing::warn!(session = session.id(), %error, "an answer did not reach the agent");
    }
}
