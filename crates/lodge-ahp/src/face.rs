//! The face as a whole: the state, the conversations behind it, and the host they belong to.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ahp_types::{
    StateAction,
    actions::{
        ChatPendingMessageRemovedAction, ChatTurnStartedAction, RootAgentsChangedAction,
        SessionActiveClientRemovedAction, SessionChatAddedAction,
    },
    state::{
        AgentCapabilities, AgentInfo, BackgroundWork, ChatInteractivity, ChatOrigin, ChatState, ChatSummary,
        MultipleChatsCapability, PendingMessageKind, RootState, SessionModelInfo, SessionState, SessionStatus,
        ToolResultContent,
    },
};
use lodge_events::Timestamp;
use lodge_host::{Delivery, Host, HostError};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    changesets::Followers,
    completions::Indexes,
    config::AhpConfig,
    grants::Grants,
    projection::{Projector, Scope, Step, timestamp},
    state::{Bounds, ChatStore, Conn, Core, Keep, Seq, Uri},
    store::Store,
    talk::Effect,
    terminals::Terminals,
    uri,
    watch::Watch,
};

/// One conversation: an event stream of the host, the chat it is shown as, and the way to its agent.
pub(crate) struct Talk {
    pub(crate) session: Uri,
    /// The host's id of the session behind it.
    pub(crate) host_id: String,
    pub(crate) projector: Projector,
    pub(crate) effects: mpsc::UnboundedSender<Effect>,
    /// Whether the host has a session behind it yet.
    pub(crate) is_draft: bool,
    /// Whether the host let the session go: what others do to it then is not heard here.
    pub(crate) is_detached: bool,
    /// What clients set and the host will tell again: it is known already, and may be outdated by then.
    expected: VecDeque<StateAction>,
}

impl Talk {
    pub(crate) fn new(
        session: Uri,
        host_id: String,
        projector: Projector,
        effects: mpsc::UnboundedSender<Effect>,
        is_draft: bool,
    ) -> Self {
        Self {
            session,
            host_id,
            projector,
            effects,
            is_draft,
            is_detached: false,
            expected: VecDeque::new(),
        }
    }

    /// A client set something that the host will tell as an event.
    pub(crate) fn expect(&mut self, action: StateAction) {
        // A draft has nobody to tell it.
        if !self.is_draft {
            self.expected.push_back(action);
        }
    }

    /// Whether an event only tells what a client set here.
    fn is_known(&mut self, action: &StateAction) -> bool {
        let at = self.expected.iter().position(|expected| expected == action);
        if let Some(at) = at {
            self.expected.remove(at);
        }
        at.is_some()
    }

    /// Gives its agent something to do, in order.
    pub(crate) fn tell(&self, effect: Effect) {
        // The driver only ends when the conversation is closed, and then nobody waits for this.
        let _ = self.effects.send(effect);
    }
}

/// Everything that changes together, under one lock.
pub(crate) struct Inner {
    pub(crate) core: Core,
    /// By the URI of the chat.
    pub(crate) talks: HashMap<Uri, Talk>,
    /// From a sub-agent's chat to the chat of its conversation.
    pub(crate) subs: HashMap<Uri, Uri>,
    pub(crate) terminals: Terminals,
    /// Who follows what sessions change.
    pub(crate) followers: Followers,
}

/// The face.
pub(crate) struct Face {
    pub(crate) host: Host,
    pub(crate) config: AhpConfig,
    pub(crate) store: Store,
    pub(crate) inner: Mutex<Inner>,
    /// One at a time may open or make a session of a given URI.
    gates: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Where the windows of clients began that are away.
    pub(crate) windows: Mutex<HashMap<Arc<str>, HashMap<Uri, usize>>>,
    pub(crate) watches: Mutex<HashMap<Uri, Watch>>,
    pub(crate) indexes: Arc<Indexes>,
    pub(crate) grants: Grants,
    /// Sessions that this face is removing, so that it need not hear of it.
    pub(crate) removing: Mutex<HashSet<String>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    next_conn: AtomicU64,
}

impl Face {
    pub(crate) fn new(host: Host, config: AhpConfig) -> std::io::Result<Arc<Self>> {
        let dir = host.home().path().join("ahp");
        let store = Store::open(&dir)?;
        let grants = Grants::of_home(host.home().path());
        grants.begin();
        let seq = Seq::open(&dir.join("seq"))?;
        let root = RootState {
            agents: agents(&host),
            active_sessions: Some(0),
            terminals: None,
            config: None,
            meta: None,
        };
        let bounds = Bounds {
            ring_bytes: config.limits.replay_bytes,
            keep: Keep {
                bytes: config.limits.kept_bytes,
                dir: dir.as_path().into(),
            },
            window_bytes: config.limits.window_bytes,
            whole_bytes: config.limits.whole_bytes,
            subscriptions: config.limits.subscriptions,
        };
        let inner = Inner {
            core: Core::new(seq, root, bounds),
            talks: HashMap::new(),
            subs: HashMap::new(),
            terminals: Terminals::new(config.limits.terminal_bytes),
            followers: Followers::default(),
        };
        Ok(Arc::new(Self {
            host,
            config,
            store,
            inner: Mutex::new(inner),
            gates: Mutex::default(),
            windows: Mutex::default(),
            watches: Mutex::default(),
            indexes: Arc::default(),
            grants,
            removing: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            next_conn: AtomicU64::new(1),
        }))
    }

    /// A new connection; none when there are too many.
    pub(crate) fn connect(&self) -> Option<Arc<Conn>> {
        let mut inner = self.inner.lock();
        if inner.core.conns.len() >= self.config.limits.connections {
            return None;
        }
        let id = self.next_conn.fetch_add(1, Ordering::Relaxed);
        let conn = Arc::new(Conn::new(id, self.config.limits.queue_bytes));
        inner.core.conns.insert(id, conn.clone());
        Some(conn)
    }

    /// A connection is gone. Its client may come back: its windows are remembered, and its tools wait a while.
    pub(crate) fn disconnect(self: &Arc<Self>, conn: &Conn) {
        let (starts, left) = {
            let mut inner = self.inner.lock();
            let starts = inner.core.starts(conn.id);
            (starts, inner.core.disconnect(conn.id))
        };
        self.watchers_changed();
        let Some(peer) = conn.peer().cloned() else { return };
        self.somebody_left();
        {
            let mut windows = self.windows.lock();
            if windows.len() > 10_000 {
                windows.clear();
            }
            windows.insert(peer.client.clone(), starts.into_iter().collect());
        }
        if left.is_empty() {
            return;
        }
        let (face, grace) = (self.clone(), self.config.limits.client_grace);
        self.later(grace, move || {
            for channel in &left {
                face.client_left(channel, &peer.client);
            }
        });
        let (face, unwatched) = (self.clone(), self.config.limits.unwatched);
        self.later(unwatched, move || face.unload_unwatched());
    }

    /// Does something after a while, unless the face stops before.
    pub(crate) fn later(self: &Arc<Self>, after: std::time::Duration, run: impl FnOnce() + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(after) => run(),
                () = stop.cancelled() => {}
            }
        });
    }

    /// A client no longer listens to a session: its tools are gone, and what it was running has failed.
    pub(crate) fn client_left(&self, channel: &str, client: &str) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(session) = inner.core.sessions.get(channel) else {
            return;
        };
        let active = session
            .state
            .active_clients
            .iter()
            .any(|active| active.client_id == client);
        if !active || inner.core.listens(client, channel) {
            return;
        }
        let action = SessionActiveClientRemovedAction {
            client_id: client.to_owned(),
        };
        inner
            .core
            .publish(channel, &StateAction::SessionActiveClientRemoved(action), None);
        inner.clients_changed(channel);
        inner.fail_client_calls(channel, client);
        inner.core.settle(channel);
    }

    /// Closes sessions that nobody watches and that do nothing. They come back from their logs.
    pub(crate) fn unload_unwatched(&self) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let idle: Vec<Uri> = inner
            .core
            .sessions
            .keys()
            .filter(|uri| !inner.is_needed(uri))
            .cloned()
            .collect();
        for uri in idle {
            inner.remove_session(&uri);
        }
    }

    /// The lock that makes opening and making a session one at a time.
    pub(crate) fn gate(&self, uri: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.gates.lock();
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        gates.entry(uri.to_owned()).or_default().clone()
    }

    /// Whether a session is shown here of which this face no longer hears.
    pub(crate) fn is_detached(&self, id: &str) -> bool {
        self.inner
            .lock()
            .talks
            .values()
            .any(|talk| talk.host_id == id && talk.is_detached)
    }

    /// The URI under which clients know a session of the host's.
    pub(crate) fn uri_of(&self, id: &str) -> String {
        self.store.session(id).uri.unwrap_or_else(|| uri::session(id))
    }

    /// Removes a session of the host's for good.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), HostError> {
        self.removing.lock().insert(id.to_owned());
        let worktree = self.store.session(id).worktree;
        let deleted = self.host.delete(id).await;
        if let Some(worktree) = worktree.filter(|_| deleted.is_ok()) {
            crate::talk::remove_worktree(worktree);
        }
        self.store.forget(id);
        match deleted {
            Err(HostError::NotFound(_)) => {
                self.removing.lock().remove(id);
                Ok(())
            }
            other => other,
        }
    }

    /// Tells clients when the models changed since they were told.
    pub(crate) fn refresh_agents(&self) {
        let agents = agents(&self.host);
        let mut inner = self.inner.lock();
        if inner.core.root.agents != agents {
            let root = inner.core.root_uri.clone();
            let action = StateAction::RootAgentsChanged(RootAgentsChangedAction { agents });
            inner.core.publish(&root, &action, None);
        }
    }

    /// Stops: connections are told, conversations are let go.
    pub(crate) fn shut(&self) {
        self.stop.cancel();
        self.watches.lock().clear();
        let mut inner = self.inner.lock();
        for conn in inner.core.conns.values() {
            conn.close(crate::state::Closing::GoingAway);
        }
        inner.talks.clear();
    }
}

impl Inner {
    /// The conversation that a chat belongs to.
    pub(crate) fn talk_of(&self, chat: &str) -> Option<(&Uri, &Talk)> {
        let main = self.subs.get(chat).map_or(chat, |main| main);
        self.talks.get_key_value(main)
    }

    /// The conversation that a chat belongs to, to change it.
    pub(crate) fn talk_mut(&mut self, chat: &str) -> Option<&mut Talk> {
        let main = self.subs.get(chat).cloned();
        self.talks.get_mut(main.as_deref().unwrap_or(chat))
    }

    fn is_needed(&self, session: &str) -> bool {
        let running = |chat: &Uri| {
            self.core
                .chats
                .get(chat)
                .is_some_and(|chat| chat.store.head().active_turn.is_some())
        };
        self.core.has_audience(session) || self.core.chats_of(session).iter().any(running)
    }

    /// Closes a session here. Whoever was subscribed hears no more of it.
    pub(crate) fn remove_session(&mut self, session: &str) {
        self.followers.end(session);
        self.talks.retain(|_, talk| &*talk.session != session);
        for chat in self.core.chats_of(session) {
            self.subs.remove(&chat);
        }
        self.core.remove_session(session);
        self.terminals_changed();
    }

    /// Where an action of a conversation goes.
    pub(crate) fn channel(&self, chat: &Uri, scope: &Scope) -> Option<Uri> {
        let session = &self.talks.get(chat)?.session;
        Some(match scope {
            Scope::Main => chat.clone(),
            Scope::Session => session.clone(),
            Scope::Sub(call) => uri::sub_chat(session, call).into(),
        })
    }

    /// Does what the projection says, and lets what is derived follow.
    pub(crate) fn take(&mut self, chat: &Uri, steps: Vec<Step>) {
        let Some(session) = self.talks.get(chat).map(|talk| talk.session.clone()) else {
            return;
        };
        let default = self
            .core
            .sessions
            .get(&session)
            .is_some_and(|session| session.default_chat == *chat);
        let mut rested = false;
        for step in steps {
            match step {
                // A session is named and set up by its default chat; what its other chats say of that is their own.
                Step::Act(Scope::Session, _) if !default => {}
                Step::Act(Scope::Session, action) => {
                    let known = self.talks.get_mut(chat).is_some_and(|talk| talk.is_known(&action));
                    let news = self
                        .core
                        .sessions
                        .get(&session)
                        .is_some_and(|entry| is_news(&entry.state, &action));
                    if !known && news {
                        self.core.publish(&session, &action, None);
                    }
                }
                Step::Act(scope, mut action) => {
                    point_to_chats(&session, &mut action);
                    if let Some(channel) = self.channel(chat, &scope) {
                        self.core.publish(&channel, &action, None);
                    }
                }
                Step::OpenSub {
                    tool_call_id,
                    parent,
                    title,
                } => self.open_sub(chat, &session, &tool_call_id, &parent, title),
                Step::Terminal { tool_call_id, news } => self.agent_terminal(chat, &session, &tool_call_id, news),
                Step::Rested => rested = true,
            }
        }
        if rested {
            self.start_queued(chat);
            self.followers.wake(&session);
        }
        self.core.settle(&session);
    }

    fn open_sub(&mut self, chat: &Uri, session: &Uri, tool_call_id: &str, parent: &Scope, title: String) {
        let Some(parent) = self.channel(chat, parent) else {
            return;
        };
        let sub: Uri = uri::sub_chat(session, tool_call_id).into();
        if self.core.chats.contains_key(&sub) {
            return;
        }
        let state = sub_state(&sub, title, &parent, tool_call_id);
        let action = SessionChatAddedAction {
            summary: summary_of(&state),
        };
        let store = ChatStore::new(state, self.core.bounds.keep.clone());
        self.core.insert_chat(sub.clone(), session.clone(), store);
        self.subs.insert(sub, chat.clone());
        self.core.publish(session, &StateAction::SessionChatAdded(action), None);
    }

    /// Starts the next queued message, if the conversation is at rest.
    pub(crate) fn start_queued(&mut self, chat: &Uri) {
        let (Some(entry), Some(talk)) = (self.core.chats.get(chat), self.talks.get_mut(chat)) else {
            return;
        };
        let head = entry.store.head();
        if head.active_turn.is_some() {
            return;
        }
        let Some(next) = head
            .queued_messages
            .iter()
            .flatten()
            .find(|queued| !talk.projector.was_sent(&queued.id))
        else {
            return;
        };
        let (id, message) = (next.id.clone(), next.message.clone());
        let removed = ChatPendingMessageRemovedAction {
            kind: PendingMessageKind::Queued,
            id: id.clone(),
        };
        let now = Timestamp::now();
        let started = ChatTurnStartedAction {
            turn_id: id.clone(),
            started_at: timestamp(now),
            message: message.clone(),
            queued_message_id: Some(id.clone()),
            meta: None,
        };
        let send = self.core.for_agent(id.clone(), message.clone(), Delivery::Enqueue);
        talk.projector.turn_started(&id, message, now);
        talk.is_draft = false;
        talk.tell(send);
        self.core
            .publish(chat, &StateAction::ChatPendingMessageRemoved(removed), None);
        self.core.publish(chat, &StateAction::ChatTurnStarted(started), None);
        self.steer(chat);
    }

    /// Gives the agent the message that waits to steer the turn that runs now.
    pub(crate) fn steer(&mut self, chat: &Uri) {
        let Some(head) = self.core.chats.get(chat).map(|chat| chat.store.head()) else {
            return;
        };
        let (Some(_), Some(waiting)) = (&head.active_turn, &head.steering_message) else {
            return;
        };
        let effect = self
            .core
            .for_agent(waiting.id.clone(), waiting.message.clone(), Delivery::Immediate);
        let id = waiting.id.clone();
        if let Some(talk) = self.talks.get_mut(chat).filter(|talk| !talk.projector.was_sent(&id)) {
            talk.projector.steered(&id);
            talk.tell(effect);
        }
    }

    /// Who runs which tools may have changed: the agents are told.
    pub(crate) fn clients_changed(&mut self, session: &str) {
        let Some(entry) = self.core.sessions.get(session) else {
            return;
        };
        let clients = entry.state.active_clients.clone();
        let mut tools = HashMap::new();
        for client in &clients {
            tools.extend(
                client
                    .tools
                    .iter()
                    .map(|tool| (tool.name.clone(), client.client_id.clone())),
            );
        }
        for talk in self.talks.values_mut().filter(|talk| &*talk.session == session) {
            talk.projector.set_client_tools(tools.clone());
            talk.tell(Effect::Clients(clients.clone()));
        }
    }

    /// What a client was running for the agents of a session has failed.
    fn fail_client_calls(&mut self, session: &str, client: &str) {
        for chat in self.core.chats_of(session) {
            crate::actions::fail_calls_of(self, &chat, client);
        }
    }
}

/// Whether an action about a session says something that its state does not.
fn is_news(state: &SessionState, action: &StateAction) -> bool {
    match action {
        StateAction::SessionTitleChanged(changed) => changed.title != state.title,
        StateAction::SessionActivityChanged(changed) => changed.activity != state.activity,
        StateAction::SessionConfigChanged(changed) => {
            let known = |key: &String| state.config.as_ref().and_then(|config| config.values.get(key));
            changed.config.iter().any(|(key, value)| known(key) != Some(value))
        }
        _ => true,
    }
}

/// A sub-agent's chat, before anything happened in it.
pub(crate) fn sub_state(sub: &Uri, title: String, parent: &str, tool_call_id: &str) -> ChatState {
    let origin = ChatOrigin::Tool {
        chat: parent.to_owned(),
        tool_call_id: tool_call_id.to_owned(),
    };
    ChatState {
        interactivity: Some(ChatInteractivity::ReadOnly),
        ..chat_state(sub, title, origin)
    }
}

/// A chat, before anything happened in it.
pub(crate) fn chat_state(uri: &str, title: String, origin: ChatOrigin) -> ChatState {
    ChatState {
        resource: uri.to_owned(),
        title,
        status: SessionStatus::Idle.bits(),
        activity: None,
        modified_at: timestamp(Timestamp::now()),
        changes: None,
        origin: Some(origin),
        movable: None,
        interactivity: None,
        working_directories: None,
        changesets: None,
        background_work: None,
        canvases: None,
        turns: Vec::new(),
        turns_next_cursor: None,
        active_turn: None,
        steering_message: None,
        queued_messages: None,
        draft: None,
        meta: None,
    }
}

/// The chat's line in its session.
pub(crate) fn summary_of(state: &ChatState) -> ChatSummary {
    ChatSummary {
        resource: state.resource.clone(),
        title: state.title.clone(),
        status: state.status,
        activity: None,
        modified_at: state.modified_at.clone(),
        changes: None,
        origin: state.origin.clone(),
        movable: state.movable,
        interactivity: state.interactivity,
        working_directories: state.working_directories.clone(),
    }
}

/// The projection names a sub-agent's chat and a command's terminal by the tool call; clients want their addresses.
pub(crate) fn point_to_chats(session: &str, action: &mut StateAction) {
    let (call, content) = match action {
        StateAction::ChatBackgroundWorkSet(set) => {
            if let BackgroundWork::Subagent(work) = &mut set.work {
                work.chat = uri::sub_chat(session, &work.id);
            }
            return;
        }
        StateAction::ChatToolCallContentChanged(changed) => (&changed.tool_call_id, Some(&mut changed.content)),
        StateAction::ChatToolCallComplete(done) => (&done.tool_call_id, done.result.content.as_mut()),
        _ => return,
    };
    for part in content.into_iter().flatten() {
        if let ToolResultContent::Subagent(sub) = part
            && sub.resource == *call
        {
            sub.resource = uri::sub_chat(session, call);
        }
        if let ToolResultContent::Resource(content) = part
            && uri::session_of_content(&content.uri).is_some_and(|(of, _)| of.is_empty())
        {
            content.uri.insert_str(0, session);
        }
        if let ToolResultContent::Terminal(terminal) = part
            && terminal.resource == *call
        {
            terminal.resource = uri::tool_terminal(session, call);
        }
    }
}

/// What the root state says about the host's agent.
fn agents(host: &Host) -> Vec<AgentInfo> {
    let models = host.models().list().into_iter().map(|model| SessionModelInfo {
        id: model.id,
        provider: uri::PROVIDER.to_owned(),
        name: model.name,
        max_context_window: model.context_window.try_into().ok().filter(|size| *size > 0),
        max_output_tokens: model.max_output_tokens.try_into().ok().filter(|size| *size > 0),
        max_prompt_tokens: None,
        supports_vision: Some(model.vision),
        policy_state: None,
        config_schema: None,
        meta: None,
    });
    vec![AgentInfo {
        provider: uri::PROVIDER.to_owned(),
        display_name: "Lodge".to_owned(),
        description: "The agent of this host".to_owned(),
        models: models.collect(),
        protected_resources: None,
        customizations: None,
        capabilities: Some(AgentCapabilities {
            multiple_chats: Some(MultipleChatsCapability {
                fork: Some(true),
                side_chat: Some(true),
            }),
            multiple_working_directories: None,
        }),
    }]
}
