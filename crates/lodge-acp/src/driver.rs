//! One session that a client has open: passes prompts and answers to the agent, and the agent's events to the client.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use lodge_events::{AbortReason, Event, Payload};
use lodge_host::{
    AgentError, AnsweredBy, Attachment, AwaitedTurn, AwaitedTurns, Prompt, QueueChange, Session, Subscription, ToStop,
    TurnEnding, tool_calls::PermissionChoice,
};
use lodge_rpc::{AUTH_REQUIRED, Error, NOT_FOUND, Peer};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    connection::{Client, Connection, failed},
    content,
    projection::{self, Projector},
    questions::{self, Kind, Meaning, Question},
    session_options, sessions,
    wire::{Chunk, Update},
};

/// A client's commands to a session.
pub(crate) enum Command {
    /// The prompt contains the id of its message.
    Prompt(Box<Prompt>, oneshot::Sender<Stopped>),
    /// The outcome of sending a message: the agent has it, or a command answered it and no turn follows.
    Said(String, Result<Option<String>, Error>),
    /// Stops everything that runs.
    Cancel,
    /// Stops the turn of this message, or drops the message.
    CancelPrompt(String),
    /// Sends the options again: others can be chosen now.
    SendOptions,
    /// Stops the client's prompts, reports how they ended, and ends.
    Close(oneshot::Sender<()>),
}

/// Why a turn stopped, or an error.
pub(crate) type Stopped = Result<&'static str, Error>;

pub(crate) const CANCELLED: &str = "cancelled";

/// The end of a turn as a stop reason of the protocol.
fn stopped(ending: TurnEnding) -> Stopped {
    match ending {
        TurnEnding::Completed => Ok("end_turn"),
        TurnEnding::Cut => Ok("max_tokens"),
        TurnEnding::Filtered => Ok("refusal"),
        TurnEnding::Cancelled => Ok(CANCELLED),
        TurnEnding::Failed { kind, message } if kind == "authentication" => Err(Error::new(AUTH_REQUIRED, message)),
        TurnEnding::Failed { message, .. } => Err(Error::internal(message)),
    }
}

/// A question that the client shows. Dropping it withdraws it.
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
    /// A channel to itself, open as long as the client has the session open.
    sender: mpsc::WeakUnboundedSender<Command>,
    inbox: mpsc::UnboundedReceiver<Command>,
    turns: AwaitedTurns<oneshot::Sender<Stopped>>,
    /// Ends when the attachments of all prompts so far have been looked at: prompts keep their order.
    looking: Option<oneshot::Receiver<()>>,
    asked: HashMap<String, Asked>,
    /// What an approval for longer than once covers, by the permission request that it would answer.
    lasting: HashMap<String, String>,
    commands: Vec<Value>,
    /// Whether the client shows a to-do list.
    has_plan: bool,
    closing: Option<oneshot::Sender<()>>,
}

impl Driver {
    pub(crate) fn new(
        connection: &Arc<Connection>,
        client: Arc<Client>,
        attachment: Attachment,
        events: Subscription,
        projector: Projector,
    ) -> (Self, mpsc::UnboundedSender<Command>) {
        let (sender, inbox) = mpsc::unbounded_channel();
        let driver = Self {
            connection: Arc::downgrade(connection),
            session: attachment.session().clone(),
            events,
            projector,
            peer: connection.peer.clone(),
            client,
            _attachment: attachment,
            sender: sender.downgrade(),
            inbox,
            turns: AwaitedTurns::default(),
            looking: None,
            asked: HashMap::new(),
            lasting: HashMap::new(),
            commands: Vec::new(),
            has_plan: false,
            closing: None,
        };
        (driver, sender)
    }

    /// Runs until the client or the session is gone.
    pub(crate) async fn run(mut self: Box<Self>) {
        self.send_commands().await;
        self.send_plan().await;
        if let Some(usage) = self.session.context_usage() {
            self.send(&projection::usage(&usage));
        }
        for open in self.session.pending() {
            self.ask(&open.event);
        }
        loop {
            tokio::select! {
                batch = self.events.next_batch() => match batch {
                    Some(batch) if batch.is_empty() => {
                        return self.peer.drop_slow();
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
            // Dropping this notifies the waiting request.
            if self.closing.is_some() && self.turns.is_empty() {
                return;
            }
        }
    }

    fn send(&self, update: &Update) {
        sessions::show(&self.peer, self.session.id(), update);
    }

    async fn event(&mut self, event: &Event) {
        self.settle(event);
        let is_own_failure =
            event.agent_id().is_none() && matches!(event.payload(), Payload::SessionError(_)) && self.turns.any_begun();
        // A failure of the client's own turn is the response to its prompt.
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
            | Payload::LodgeApproval(_) => self.send_options(),
            Payload::CommandsChanged(_)
            | Payload::SessionMcpServersLoaded(_)
            | Payload::SessionMcpServerStatusChanged(_)
            | Payload::McpPromptsListChanged(_) => self.send_commands().await,
            _ => {}
        }
    }

    fn send_options(&self) {
        if let Some(connection) = self.connection.upgrade() {
            let options = session_options::all(&connection.host(), &self.session);
            let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
            self.send(&Update::Other(update));
        }
    }

    /// Sends the list of commands, unless the client has it.
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

    /// Sends the agent's to-do list. An empty one is sent only in place of another.
    async fn send_plan(&mut self) {
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
        let has_plan = !entries.is_empty();
        if std::mem::replace(&mut self.has_plan, has_plan) || has_plan {
            self.send(&Update::Other(json!({ "sessionUpdate": "plan", "entries": entries })));
        }
    }

    /// Puts a question to the client, if the event is one that it can answer.
    fn ask(&mut self, event: &Event) {
        let session = self.session.id();
        let question = match event.payload() {
            Payload::LodgeQuestion(asked) => {
                let lasting = PermissionChoice::lasting(asked).map(str::to_owned);
                self.lasting
                    .extend(lasting.map(|lasting| (asked.request_id.clone(), lasting)));
                return;
            }
            Payload::PermissionRequested(asked) if asked.resolved_by_hook != Some(true) => {
                let (updates, call) = self.projector.asked(&asked.request_id, &asked.permission_request);
                for update in updates {
                    self.send(&update);
                }
                let lasting = self.lasting.remove(&asked.request_id);
                Some(questions::permission(
                    session,
                    &asked.request_id,
                    &call,
                    lasting.as_deref(),
                ))
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
                let all = self.turns.cancel_all();
                self.stop(all);
            }
            Command::CancelPrompt(message_id) => {
                if let Some(what) = self.turns.cancel(&message_id) {
                    self.stop(what);
                }
            }
            Command::SendOptions => self.send_options(),
            Command::Close(done) => {
                self.closing = Some(done);
                if !self.turns.is_empty() {
                    self.perform(Command::Cancel);
                }
            }
        }
    }

    fn stop(&self, what: ToStop) {
        let session = self.session.clone();
        tokio::spawn(async move {
            let take_back = async |id| session.change_queue(QueueChange::Remove(id)).await;
            let waited = match what {
                ToStop::Turn => false,
                ToStop::Message(id) => !matches!(take_back(id).await, Ok(0)),
                ToStop::All(waiting) => {
                    for id in waiting {
                        let _ = take_back(id).await;
                    }
                    false
                }
            };
            if !waited {
                let _ = session.abort(AbortReason::UserInitiated).await;
            }
        });
    }

    fn prompt(&mut self, mut prompt: Prompt, answer: oneshot::Sender<Stopped>) {
        let message_id = prompt.message_id.clone().unwrap_or_default();
        self.projector.own.insert(message_id.clone());
        self.turns.add(&message_id, answer);
        let (session, sender) = (self.session.clone(), self.sender.clone());
        let (looked, looking) = oneshot::channel();
        let (connection, before) = (self.connection.clone(), self.looking.replace(looking));
        tokio::spawn(async move {
            content::find_directories(&mut prompt.attachments).await;
            if let Some(before) = before {
                let _ = before.await;
            }
            drop(looked);
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
        match said {
            Ok(None) => {
                if let Some(what) = self.turns.sent(message_id) {
                    self.stop(what);
                }
                self.drop_stranded();
            }
            Ok(Some(answer)) => {
                self.send(&Update::AgentMessageChunk(Chunk {
                    content: answer.into(),
                    message_id: None,
                }));
                if let Some(turn) = self.turns.take(message_id) {
                    self.finish(turn, Ok(TurnEnding::Completed));
                }
            }
            Err(error) => {
                if let Some(turn) = self.turns.take(message_id) {
                    let ending = turn.refused(error);
                    self.finish(turn, ending);
                }
            }
        }
    }

    fn finish(&mut self, turn: AwaitedTurn<oneshot::Sender<Stopped>>, ending: Result<TurnEnding, Error>) {
        self.projector.own.remove(&turn.message_id);
        let stopped = ending.and_then(stopped);
        let wants_key = stopped.as_ref().is_err_and(|error| error.code == AUTH_REQUIRED);
        if let Some(connection) = self.connection.upgrade().filter(|_| wants_key) {
            connection.want_key();
        }
        let _ = turn.answer.send(stopped);
    }

    /// Answers the prompts whose turns end with this event.
    fn settle(&mut self, event: &Event) {
        for (turn, ending) in self.turns.event(event) {
            self.finish(turn, Ok(ending));
        }
        if matches!(event.payload(), Payload::SessionIdle(_)) {
            self.drop_stranded();
        }
    }

    /// Removes messages from the queue that nobody will send.
    fn drop_stranded(&mut self) {
        if self.session.is_busy() {
            return;
        }
        for id in self.turns.stranded() {
            let session = self.session.clone();
            tokio::spawn(async move { session.change_queue(QueueChange::Remove(id)).await });
        }
    }

    fn session_ended(&mut self) {
        for turn in self.turns.take_all() {
            self.finish(
                turn,
                Err(Error::new(NOT_FOUND, "The session has ended. Load it again.")),
            );
        }
    }
}

/// Sends a message, and records the answer if it was a command. The answer to a command given beside a running turn has
/// no place in the log, and is returned.
async fn say(session: &Session, message_id: &str, prompt: Prompt) -> Result<Option<String>, Error> {
    let text = prompt.display_text.clone().unwrap_or_else(|| prompt.text.clone());
    let Some(answer) = session.say(prompt).await.map_err(failed)? else {
        return Ok(None);
    };
    match session.commanded(message_id.to_owned(), text, answer.clone()).await {
        Ok(()) => Ok(None),
        Err(AgentError::Busy) => Ok(Some(answer)),
        Err(error) => Err(failed(error)),
    }
}

/// Asks the client and passes its answer to the agent, unless somebody else answers first.
async fn put(question: Question, peer: Peer, session: Session, by: AnsweredBy, over: CancellationToken) {
    let mut request = peer.request(question.method, &question.params);
    let answer = tokio::select! {
        answer = request.answer() => answer,
        () = over.cancelled() => None,
    };
    let Some(answer) = answer else { return };
    let done = match questions::meaning(&question, answer) {
        Meaning::Answer(answer) => session.answer(&question.request_id, *answer, by).await,
        Meaning::Cancelled => session.abort(AbortReason::UserInitiated).await,
    };
    if let Err(error) = done {
        tracing::warn!(session = session.id(), %error, "an answer did not reach the agent");
    }
}
