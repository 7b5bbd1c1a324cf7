//! The driver of one conversation: takes what clients want to its agent, in order, and what the agent does back to the
//! state. A draft has no agent yet; it gets one with its first message.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ahp_types::state::{Message, SessionActiveClient, ToolDefinition};
use lodge_host::{
    Answer, AnsweredBy, Attachment, Capabilities, Change, ClientSpec, ClientTool, Delivery, HostError, Interpreted,
    ModelChoice, NewSession, NoCalls, Prompt, Session, Subscription, Worktree,
};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tokio_util::sync::DropGuard;

use super::{
    Draft, Effect, Setting,
    acceptance::{command_of, prompt_of},
    follower::Follower,
    reading::{Outgoing, Reading},
};
use crate::{
    attachments::Given,
    customizations::{Custom, Watchers},
    face::Face,
    session_config::Isolation,
    state::Uri,
};

/// Bytes of events that may wait to be shown. Beyond that the conversation is read anew from its log.
const QUEUE: usize = 64 << 20;
/// While somebody looks at a session, its files are looked at so often.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Live {
    pub(crate) session: Session,
    /// This face answers questions as one client; its clients' tools are attached one by one.
    _face: Attachment,
    clients: HashMap<String, Attachment>,
}

/// The driver.
pub(crate) struct Driver {
    pub(crate) face: Arc<Face>,
    pub(crate) chat: Uri,
    host_id: String,
    effects: mpsc::UnboundedReceiver<Effect>,
    pub(super) reading: Option<Reading>,
    /// What was said while a message is read.
    pub(super) said_later: VecDeque<Effect>,
    /// The other end, for who follows the session.
    to_self: mpsc::WeakUnboundedSender<Effect>,
    pub(crate) live: Option<Live>,
    /// Who follows the session, from when on the conversation is shown.
    follower: Option<Follower>,
    following: Option<DropGuard>,
    pub(crate) draft: Option<Draft>,
    /// Whether a client of this face chose the custom agent at work.
    chose_agent: bool,
    pub(crate) clients: Vec<SessionActiveClient>,
    pub(crate) custom: Custom,
    /// Said to the agent, not to people, with the first message: what a side chat is about.
    pub(crate) preface: Option<String>,
}

impl Driver {
    /// A driver, and the way to tell it something.
    pub(crate) fn new(face: Arc<Face>, chat: Uri, host_id: String) -> (Self, mpsc::UnboundedSender<Effect>) {
        let (sender, effects) = mpsc::unbounded_channel();
        let driver = Self {
            face,
            chat,
            host_id,
            effects,
            reading: None,
            said_later: VecDeque::new(),
            to_self: sender.downgrade(),
            live: None,
            follower: None,
            following: None,
            draft: None,
            chose_agent: false,
            clients: Vec::new(),
            custom: Custom::default(),
            preface: None,
        };
        (driver, sender)
    }

    /// A conversation that has no agent yet.
    pub(crate) fn with_draft(self, draft: Draft) -> Self {
        Self {
            draft: Some(draft),
            ..self
        }
    }

    /// A conversation that is read up to where these events begin.
    pub(crate) async fn with_session(mut self, session: Session, events: Subscription) -> Result<Self, HostError> {
        self.attach(session, events).await?;
        Ok(self)
    }

    /// Attaches the face as the client that asks people.
    async fn attach_face(&self, session: &Session) -> Result<Attachment, HostError> {
        let can = Capabilities {
            permissions: true,
            user_input: true,
            elicitation: true,
            exit_plan_mode: true,
            prepares: true,
            ..Capabilities::default()
        };
        let spec = ClientSpec {
            name: "ahp".into(),
            can,
            tools: Vec::new(),
            commands: Vec::new(),
            calls: Arc::new(Watchers {
                face: Arc::downgrade(&self.face),
                chat: self.chat.clone(),
            }),
        };
        Ok(session.attach_client(spec).await?)
    }

    /// Goes on with a turn that waited for a person when the host went down: what was answered is done, what was not is
    /// asked again. Everything else that was under way counts as interrupted until a person resumes it.
    pub(crate) async fn take_up(&self, session: &Session) -> Result<Option<Attachment>, HostError> {
        if session.is_busy() || !session.facts().waits_for_people() {
            return Ok(None);
        }
        let people = self.attach_face(session).await?;
        session.continue_pending().await?;
        Ok(Some(people))
    }

    async fn attach(&mut self, session: Session, events: Subscription) -> Result<(), HostError> {
        let face = self.attach_face(&session).await?;
        let (to_self, chat) = (self.to_self.clone(), self.chat.clone());
        self.follower = Some(Follower::new(self.face.clone(), chat, &session, events, to_self));
        self.live = Some(Live {
            session,
            _face: face,
            clients: HashMap::new(),
        });
        Ok(())
    }

    /// Lets clients see what the session does.
    fn follow(&mut self) {
        if let Some(follower) = self.follower.take() {
            self.following = Some(follower.start());
        }
    }

    /// Works until the conversation is closed here.
    pub(crate) async fn run(mut self) {
        self.follow();
        self.follow_files().await;
        self.customize().await;
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let reading = self.reading.is_some();
            let next = async {
                match self.said_later.pop_front_if(|_| !reading) {
                    Some(effect) => Some(effect),
                    None => self.effects.recv().await,
                }
            };
            tokio::select! {
                effect = next => match effect {
                    Some(effect) => self.perform(effect).await,
                    None => return,
                },
                given = Reading::done(&mut self.reading) => self.message_read(given).await,
                () = self.custom.fetched() => self.customize().await,
                _ = looks.tick() => if self.face.is_looked_at(&self.chat) {
                    self.follow_files().await;
                },
                () = self.face.stop.cancelled() => return,
            }
        }
    }

    /// The session left memory.
    fn ended(&mut self) {
        if self.live.as_ref().is_some_and(|live| live.session.has_ended()) {
            self.live = None;
            self.face.detached(&self.chat);
        }
    }

    /// Lets the agent that a message is for take over. A message that names none is for the session's own agent, unless
    /// somebody elsewhere chose another.
    async fn choose_agent(&mut self, wanted: Option<&str>) -> Result<(), HostError> {
        if wanted.is_none() && !self.chose_agent {
            return Ok(());
        }
        let session = self.session().await?.session.clone();
        let name = match wanted {
            Some(uri) => {
                let missing = || HostError::Invalid(format!("there is no agent {uri:?} in this session"));
                Some(self.agent_at(&session, uri).await?.ok_or_else(missing)?)
            }
            None => None,
        };
        let current = session.current_agent().await?.map(|agent| agent.name);
        if current != name {
            session.select_agent(name.clone()).await?;
        }
        self.chose_agent = name.is_some();
        Ok(())
    }

    /// The agent's session, brought to life if need be.
    async fn session(&mut self) -> Result<&mut Live, HostError> {
        if self.open().await? {
            self.equip().await;
        }
        self.live
            .as_mut()
            .ok_or_else(|| HostError::NotFound(self.host_id.clone()))
    }

    /// Makes or opens the session behind the conversation. False when that was done before.
    async fn open(&mut self) -> Result<bool, HostError> {
        self.ended();
        if self.live.is_some() {
            return Ok(false);
        }
        let session = match self.draft.take() {
            Some(draft) => self.create(draft).await?,
            None => self.face.open_session(&self.host_id).await?,
        };
        let events = session.subscribe(QUEUE);
        self.attach(session.clone(), events).await?;
        self.follow();
        if let Some(talk) = self.face.inner.lock().talks.get_mut(&self.chat) {
            (talk.is_draft, talk.is_detached) = (false, false);
            talk.agent = Some(session);
        }
        Ok(true)
    }

    /// Gives a session that was just opened what clients bring and persons decided.
    async fn equip(&mut self) {
        self.attach_clients().await;
        self.customize().await;
    }

    async fn create(&mut self, draft: Draft) -> Result<Session, HostError> {
        let worktree = match self.worktree(&draft).await {
            Ok(made) => made,
            Err(error) => {
                self.draft = Some(draft);
                return Err(HostError::Invalid(error.to_string()));
            }
        };
        let moved = worktree.as_ref().zip(draft.cwd.as_ref());
        let moved = moved.map(|(worktree, cwd)| worktree.directory(cwd));
        let new = NewSession {
            id: Some(self.host_id.clone()),
            model: draft.model.clone().map_or(ModelChoice::Default, ModelChoice::Named),
            cwd: moved.clone().or_else(|| draft.cwd.clone()),
            additional_directories: draft.further.clone(),
            mode: draft.mode,
            approval: draft.approval,
            name: draft.title.clone(),
            client_name: Some(draft.client.clone()),
            ..NewSession::default()
        };
        let made = self.face.host.create(new).await;
        match (&made, worktree) {
            (Ok(_), Some(worktree)) => {
                self.face
                    .store
                    .update(&self.host_id, |record| record.worktree = Some(worktree));
                self.face.moved(&self.chat, moved);
            }
            (Err(_), Some(worktree)) => remove_worktree(worktree),
            _ => {}
        }
        if made.is_err() {
            self.draft = Some(draft);
        }
        made
    }

    /// The work tree that a draft wants, if it wants one.
    async fn worktree(&self, draft: &Draft) -> Result<Option<Worktree>, HostError> {
        let Some(cwd) = draft.cwd.clone().filter(|_| draft.isolation == Isolation::Worktree) else {
            return Ok(None);
        };
        let base = draft.branch.clone().unwrap_or_else(|| "HEAD".to_owned());
        let place = self.face.host.home().path().join("worktrees");
        let id = self.host_id.clone();
        let made = tokio::task::spawn_blocking(move || Worktree::create(&place, &cwd, &base, &id));
        let made = made.await.map_err(|error| HostError::Invalid(error.to_string()))?;
        made.map(Some).map_err(|error| HostError::Invalid(error.to_string()))
    }

    async fn perform(&mut self, effect: Effect) {
        let Some(effect) = self.unless_reading(effect) else {
            return;
        };
        let failed = match effect {
            Effect::Send {
                id,
                message,
                delivery,
                chats,
            } => {
                let outgoing = Outgoing {
                    id,
                    message,
                    delivery,
                    chats,
                };
                return self.take_message(outgoing).await;
            }
            Effect::Resume { turn } => {
                let gone_on = match self.resume().await {
                    Ok(true) => return,
                    Ok(false) => "there is nothing to go on with".to_owned(),
                    Err(error) => error.to_string(),
                };
                return self.face.turn_failed(&self.chat, None, &turn, &gone_on);
            }
            Effect::Create(made) => {
                let opened = self.open().await;
                let fresh = matches!(opened, Ok(true));
                // Whoever waits only needs it to be there.
                let _ = made.send(opened.map(drop));
                if fresh {
                    self.equip().await;
                }
                return;
            }
            Effect::Clients(clients) => {
                self.clients = clients;
                if self.live.is_some() {
                    self.attach_clients().await;
                }
                return self.clients_bring().await;
            }
            // What was still to be read for it is not read.
            Effect::Withdrawn(_) => return,
            Effect::Ended => return self.ended(),
            Effect::Customized => return self.show_customizations().await,
            Effect::Decided => return self.decided().await,
            Effect::Server { id, wish } => return self.wish(&id, wish).await,
            Effect::Change(setting) => self.change(setting).await,
            Effect::Directories(further) => self.work_in(further).await,
            // What was never made alive has nothing to stop or answer.
            _ if self.draft.is_some() => Ok(()),
            Effect::Cancel { turn } => self.cancel(&turn).await,
            Effect::Answer { request_id, answer, by } => self.answer(&request_id, *answer, by).await,
        };
        if let Err(error) = failed {
            tracing::warn!(chat = &*self.chat, %error, "the agent did not do what a client wanted");
        }
    }

    /// Gives the agent a message, with what was read of its attachments.
    pub(super) async fn hand_over(&mut self, outgoing: Outgoing, given: Given) {
        let Outgoing {
            id,
            message,
            delivery,
            chats,
        } = outgoing;
        if let Err(error) = self.send(&id, &message, delivery, chats, given).await {
            let session = self.live.as_ref().map(|live| &live.session);
            self.face.turn_failed(&self.chat, session, &id, &error.to_string());
        }
    }

    async fn send(
        &mut self,
        id: &str,
        message: &Message,
        delivery: Delivery,
        chats: Vec<String>,
        given: Given,
    ) -> Result<(), HostError> {
        if command_of(message).is_some() {
            let session = self.session().await?.session.clone();
            session.begin(prompt_of(id, message, delivery, Vec::new(), [])).await?;
            return Ok(());
        }
        self.plugins_ready().await;
        self.follow_files().await;
        self.choose_agent(message.agent.as_ref().map(|agent| agent.uri.as_str()))
            .await?;
        let preface = self.preface.take().map(|text| format!("This is about:\n\n{text}"));
        let session = self.session().await?.session.clone();
        if let Some(model) = &message.model {
            Setting::Model(model.id.clone())
                .apply(&self.face.host, &session)
                .await?;
        }
        let added = given.texts.into_iter().chain(chats).chain(preface);
        let prompt = prompt_of(id, message, delivery, given.attachments, added);
        if delivery == Delivery::Immediate {
            session.begin(prompt).await?;
        } else if session.is_for_client(&prompt.text) {
            // Beside everything else: a client takes as long as it likes.
            let (face, chat) = (self.face.clone(), self.chat.clone());
            let (id, text) = (id.to_owned(), message.text.clone());
            tokio::spawn(async move {
                if let Err(error) = say(&session, &id, text, prompt).await {
                    face.turn_failed(&chat, Some(&session), &id, &error.to_string());
                }
            });
        } else {
            say(&session, id, message.text.clone(), prompt).await?;
        }
        Ok(())
    }

    async fn resume(&mut self) -> Result<bool, HostError> {
        Ok(self.session().await?.session.resume_failed().await?)
    }

    async fn cancel(&mut self, turn: &str) -> Result<(), HostError> {
        self.session().await?.session.cancel(turn).await?;
        Ok(())
    }

    async fn answer(&mut self, request_id: &str, answer: Answer, by: AnsweredBy) -> Result<(), HostError> {
        if !self.session().await?.session.answer(request_id, answer, by).await? {
            tracing::debug!(request_id, "somebody else answered first");
        }
        Ok(())
    }

    async fn change(&mut self, setting: Setting) -> Result<(), HostError> {
        if let Some(draft) = &mut self.draft {
            match setting {
                Setting::Title(title) => draft.title = Some(title),
                Setting::Mode(mode) => draft.mode = mode,
                Setting::Approval(approval) => draft.approval = approval,
                Setting::Isolation(isolation) => draft.isolation = isolation,
                Setting::Branch(branch) => draft.branch = Some(branch),
                Setting::Model(model) => draft.model = Some(model),
            }
            return Ok(());
        }
        let session = self.session().await?.session.clone();
        setting.apply(&self.face.host, &session).await
    }

    /// Lets the agent work in other directories, too. One that sleeps is told when it wakes.
    async fn work_in(&mut self, further: Vec<PathBuf>) -> Result<(), HostError> {
        if let Some(draft) = &mut self.draft {
            draft.further = further;
        } else if let Some(live) = &self.live {
            live.session.configure(Change::AdditionalDirectories(further)).await?;
        }
        Ok(())
    }

    /// Attaches each active client with its tools, and lets those go that are no longer active.
    async fn attach_clients(&mut self) {
        let Some(live) = &mut self.live else { return };
        live.clients
            .retain(|id, _| self.clients.iter().any(|client| client.client_id == *id));
        for client in &self.clients {
            let spec = ClientSpec {
                name: client.display_name.clone().unwrap_or_else(|| client.client_id.clone()),
                can: Capabilities::default(),
                tools: client.tools.iter().map(client_tool).collect(),
                commands: Vec::new(),
                calls: Arc::new(NoCalls),
            };
            match live.clients.get(&client.client_id) {
                Some(attached) => attached.update(spec),
                None => match live.session.attach_client(spec).await {
                    Ok(attached) => drop(live.clients.insert(client.client_id.clone(), attached)),
                    Err(error) => tracing::warn!(%error, "a client's tools could not be attached"),
                },
            }
        }
    }
}

/// Removes a work tree, beside everything else, unless there is work in it.
pub(crate) fn remove_worktree(worktree: Worktree) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = worktree.remove() {
            tracing::warn!(path = %worktree.path.display(), %error, "a worktree stays");
        }
    });
}

/// Says something, and notes the answer where it was a command.
async fn say(session: &Session, id: &str, text: String, prompt: Prompt) -> Result<(), HostError> {
    match session.interpret(prompt).await? {
        Interpreted::Prompt(prompt) => drop(session.begin(*prompt).await?),
        Interpreted::Answer(answer) => session.commanded(id.to_owned(), text, answer).await?,
    }
    Ok(())
}

fn client_tool(tool: &ToolDefinition) -> ClientTool {
    let schema = tool
        .input_schema
        .clone()
        .unwrap_or_else(|| serde_json::json!({ "type": "object", "properties": {} }));
    ClientTool {
        name: tool.name.clone(),
        description: tool
            .description
            .clone()
            .or_else(|| tool.title.clone())
            .unwrap_or_default(),
        parameters: Arc::new(schema),
        overrides_builtin: false,
        // The client asks its own person where it needs to.
        skip_permission: true,
        terminal: false,
        read_only: tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true),
    }
}
