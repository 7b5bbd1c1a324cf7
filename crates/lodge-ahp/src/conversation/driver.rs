//! The driver of one conversation: takes what clients want to its agent, in order, and what the agent does back to the
//! state. A draft has no agent yet; it gets one with its first message.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use ahp_types::state::{SessionActiveClient, ToolDefinition};
use lodge_host::{
    Answer, AnsweredBy, Attachment, Capabilities, Change, ClientSpec, ClientTool, Delivery, HostError, Interpreted,
    ModelChoice, NewSession, NoCalls, Outcome, Prompt, Session, Subscription,
};
use tokio::{sync::mpsc, task::JoinHandle, time::MissedTickBehavior};
use tokio_util::sync::DropGuard;

use super::{
    Directories, Draft, Effect, Setting,
    acceptance::{command_of, prompt_of},
    follower::{Follower, Shown},
    reading::{Outgoing, Reading},
};
use crate::{
    attachments::Given,
    customizations::{Custom, Watchers},
    face::Face,
    session_config::{Isolation, effort_in, effort_of, takes_effort},
    state::Uri,
};

/// Bytes of events that may wait to be shown. Beyond that the conversation is read anew from its log.
const QUEUE: usize = 64 << 20;
/// While somebody looks at a session, its files are looked at so often.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Live {
    pub(crate) session: Session,
    pub(crate) shown: Shown,
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
    /// The message that may be a command, while that is found out and it is carried out.
    pub(super) interpreting: Option<Interpreting>,
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
            interpreting: None,
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
        if session.is_busy() || !session.state().waits_for_people() {
            return Ok(None);
        }
        let people = self.attach_face(session).await?;
        session.continue_pending().await?;
        Ok(Some(people))
    }

    async fn attach(&mut self, session: Session, events: Subscription) -> Result<(), HostError> {
        let face = self.attach_face(&session).await?;
        let (to_self, chat) = (self.to_self.clone(), self.chat.clone());
        let (follower, shown) = Follower::new(self.face.clone(), chat, &session, events, to_self);
        self.follower = Some(follower);
        self.live = Some(Live {
            session,
            shown,
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

    /// A session that was just made began before anybody followed it.
    fn tell_directory(&self, session: &Session) {
        if let Some(talk) = self.face.inner.lock().conversations.get_mut(&self.chat) {
            talk.projector_mut().works_in(session.settings().cwd);
        }
    }

    /// Works until the conversation is closed here.
    pub(crate) async fn run(mut self) {
        self.follow();
        self.face.begin_again(&self.chat);
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

    /// The session left memory. What it did before is shown first.
    async fn ended(&mut self) {
        if let Some(live) = self.live.take_if(|live| live.session.has_ended()) {
            live.shown.caught_up().await;
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
        self.ended().await;
        if self.live.is_some() {
            return Ok(false);
        }
        let mut has = self.draft.as_ref().map(|draft| Directories {
            further: draft.further.clone(),
            chosen: draft.chosen.clone(),
        });
        let session = match self.draft.take() {
            Some(draft) => self.create(draft).await?,
            None => self.face.host.open_session(&self.host_id).await?,
        };
        let events = session.subscribe(QUEUE);
        self.attach(session.clone(), events).await?;
        self.tell_directory(&session);
        // Where it works may have changed while it was made.
        while let Some(places) = self.go_live(&session, has.as_ref()) {
            let set = Setting::Directories(places.clone()).apply(&self.face.host, &session);
            if let Err(error) = set.await {
                tracing::warn!(chat = &*self.chat, %error, "a session was not notified of its new directories");
            }
            has = Some(places);
        }
        // Only now does the conversation know the agent of which this tells.
        self.follow();
        Ok(true)
    }

    /// Lets clients reach the session itself. One that was just made has first to be told where it works, if that is not what
    /// it `has`.
    fn go_live(&self, session: &Session, has: Option<&Directories>) -> Option<Directories> {
        let mut inner = self.face.inner.lock();
        let places = has.map(|has| (has, inner.work_places(&self.chat)));
        if let Some((_, places)) = places.filter(|(has, places)| *has != places) {
            return Some(places);
        }
        let talk = inner.conversations.get_mut(&self.chat)?;
        (talk.is_draft, talk.is_detached) = (false, false);
        talk.agent = Some(session.clone());
        talk.shown = self.live.as_ref().map(|live| live.shown.clone()).unwrap_or_default();
        None
    }

    /// Gives a session that was just opened what clients bring and persons decided.
    async fn equip(&mut self) {
        self.attach_clients().await;
        self.customize().await;
    }

    async fn create(&mut self, draft: Draft) -> Result<Session, HostError> {
        let made = self.make(&draft).await;
        if made.is_err() {
            self.draft = Some(draft);
        }
        made
    }

    async fn make(&self, draft: &Draft) -> Result<Session, HostError> {
        let base = draft.branch.clone().unwrap_or_else(|| "HEAD".to_owned());
        let isolated = draft.isolation == Isolation::Worktree && draft.cwd.is_some();
        let new = NewSession {
            id: Some(self.host_id.clone()),
            model: draft.model.clone().map_or(ModelChoice::Default, ModelChoice::Named),
            reasoning_effort: draft.effort.clone(),
            cwd: draft.cwd.clone(),
            worktree: isolated.then_some(base),
            additional_directories: draft.further.clone(),
            mode: draft.mode,
            approval: draft.approval,
            name: draft.title.clone(),
            client_name: Some(draft.client.clone()),
            ..NewSession::default()
        };
        let host = &self.face.host;
        let session = match draft.environment.clone() {
            Some(environment) => host.with_environment(environment).create(new).await?,
            None => host.create(new).await?,
        };
        if let Some(chosen) = draft.chosen.clone() {
            let (further, chosen) = (draft.further.clone(), Some(chosen));
            session.configure(Change::ChatDirectories { further, chosen }).await?;
        }
        let switches = session.set_switches(self.face.own_decisions(&self.chat))?;
        switches.done().await?;
        Ok(session)
    }

    /// Makes the work tree that the session is to work in, if that is still to be done.
    async fn worktree_ready(&mut self) -> Result<(), HostError> {
        let session = self.session().await?.session.clone();
        if let Some(directory) = session.make_worktree().await? {
            self.face.moved(&self.chat, Some(directory));
        }
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) {
        let Some(effect) = self.unless_reading(effect) else {
            return;
        };
        let failed = match effect {
            Effect::Send {
                id,
                mut message,
                delivery,
                chats,
                client,
            } => {
                if self.is_done_with(&id) {
                    return;
                }
                // What no log may hold is known where it was sent to.
                let waiting = self.live.as_ref().and_then(|live| live.session.text_of(&id));
                if let Some(text) = waiting {
                    message.text = text;
                }
                let outgoing = Outgoing {
                    client: client.or_else(|| self.sender_of(&id)),
                    id,
                    message,
                    delivery,
                    chats,
                };
                return self.take_message(outgoing).await;
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
            // What was still to be prepared for it is not.
            Effect::Withdrawn(_) | Effect::Said(_) => return,
            Effect::Ended => return self.ended().await,
            Effect::Customized => return self.show_customizations().await,
            Effect::Decided => return self.decided().await,
            Effect::Server { id, request } => return self.request_of_server(&id, request).await,
            Effect::Change(setting) => self.change(setting).await,
            Effect::Directories => self.look_where_to_work().await,
            // What was never made alive has nothing to stop or answer.
            _ if self.draft.is_some() => Ok(()),
            Effect::Cancel { turn } => self.cancel(&turn).await,
            Effect::Answer { request_id, answer, by } => self.answer(&request_id, *answer, by).await,
        };
        if let Err(error) = failed {
            tracing::warn!(chat = &*self.chat, %error, "the agent did not do what a client wanted");
        }
    }

    /// Gives the agent a message, with what was read of its attachments. If it cannot be prepared, that is what its turn says.
    pub(super) async fn hand_over(&mut self, outgoing: Outgoing, given: Given) {
        let id = outgoing.id.clone();
        if let Err(error) = self.send(outgoing, given).await {
            let session = self.live.as_ref().map(|live| live.session.clone());
            fail(&self.chat, session.as_ref(), &id, &error).await;
        }
    }

    /// Whether a message is prepared, is being prepared right now, or waits no more.
    fn is_done_with(&self, id: &str) -> bool {
        let interpreting = self.interpreting.as_ref();
        let runs = interpreting.is_some_and(|interpreting| interpreting.id == id && !interpreting.task.is_finished());
        runs || self
            .live
            .as_ref()
            .is_some_and(|live| !live.session.awaits_preparation(id))
    }

    /// The client that sent a message which waits, as the log says.
    fn sender_of(&self, id: &str) -> Option<String> {
        let facts = self.live.as_ref()?.session.state();
        facts.pending.get(id)?.item.client.clone()
    }

    async fn send(&mut self, outgoing: Outgoing, given: Given) -> Result<(), HostError> {
        let Outgoing {
            id,
            message,
            delivery,
            chats,
            client,
        } = outgoing;
        let prompt_of = |attachments, added| Prompt {
            client,
            ..prompt_of(&id, &message, delivery, attachments, added)
        };
        self.worktree_ready().await?;
        if command_of(&message).is_some() {
            let session = self.session().await?.session.clone();
            session.begin(prompt_of(Vec::new(), Vec::new())).await?;
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
            // A client may remember a level that the model no longer has. Then the model chooses.
            let is_there = |effort: &String| takes_effort(&self.face.host, Some(&model.id), Some(effort));
            let effort = effort_in(model).map(|effort| effort_of(effort).filter(is_there));
            if let Some(effort) = effort.filter(|effort| session.settings().reasoning_effort != *effort) {
                Setting::Effort(effort).apply(&self.face.host, &session).await?;
            }
        }
        let added = given.texts.into_iter().chain(chats).chain(preface);
        let prompt = prompt_of(given.attachments, added.collect());
        if delivery == Delivery::Immediate {
            session.begin(prompt).await?;
        } else {
            // Beside everything else: a command takes as long as it likes.
            let compacts = message.text.trim_start().starts_with("/compact");
            let (chat, failed) = (self.chat.clone(), id.clone());
            let task = tokio::spawn(async move {
                if let Err(error) = say(&session, prompt).await {
                    fail(&chat, Some(&session), &failed, &error).await;
                }
            });
            self.interpreting = Some(Interpreting { id, task, compacts });
        }
        Ok(())
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
                Setting::Effort(effort) => draft.effort = effort,
                Setting::Directories(places) => (draft.further, draft.chosen) = (places.further, places.chosen),
            }
            return Ok(());
        }
        let session = self.session().await?.session.clone();
        setting.apply(&self.face.host, &session).await
    }

    /// Has the agent work where the state says now. What the state knows from the agent's own log it is not told again, and one
    /// that sleeps finds it when it wakes.
    async fn look_where_to_work(&mut self) -> Result<(), HostError> {
        let (places, is_source) = {
            let inner = self.face.inner.lock();
            (
                inner.work_places(&self.chat),
                inner.is_source_of_directories(&self.chat),
            )
        };
        if self.draft.is_some() {
            return self.change(Setting::Directories(places)).await;
        }
        match &self.live {
            Some(live) if !is_source && !live.session.has_ended() => {
                let places = Setting::Directories(places);
                places.apply(&self.face.host, &live.session).await
            }
            _ => Ok(()),
        }
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

/// A message that may be a command.
pub(super) struct Interpreting {
    pub(super) id: String,
    pub(super) task: JoinHandle<()>,
    /// Whether it has the conversation summarised.
    pub(super) compacts: bool,
}

/// Says something, and has the answer told where it was a command.
async fn say(session: &Session, prompt: Prompt) -> Result<(), HostError> {
    let command = prompt.clone();
    let prompt = match session.interpret(prompt).await? {
        Interpreted::Prompt(prompt) => *prompt,
        Interpreted::Answer(answer) => Prompt {
            outcome: Some(Outcome::Answered(answer)),
            ..command
        },
    };
    session.begin(prompt).await?;
    Ok(())
}

/// A message could not be prepared: its turn says so.
async fn fail(chat: &Uri, session: Option<&Session>, id: &str, error: &HostError) {
    let Some(session) = session else {
        return tracing::warn!(chat = &**chat, %error, "a message cannot be sent, because its session cannot be opened");
    };
    if let Err(untold) = session.fail_message(id, &error.to_string()).await {
        tracing::warn!(chat = &**chat, %error, %untold, "a message cannot be prepared and stays in the queue");
    }
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
