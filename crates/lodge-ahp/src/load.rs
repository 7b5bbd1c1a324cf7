//! Bringing sessions into the state: made by a client, or read from their logs.

use std::{collections::HashMap, sync::Arc};

use ahp_types::state::{
    ChatOrigin, ChatState, Message, MessageKind, ProjectInfo, SessionConfigSchema, SessionConfigState,
    SessionLifecycle, SessionOrigin, SessionState, SessionStatus,
};
use lodge_events::Timestamp;
use lodge_host::{Approval, GitContext, HostError, Session};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    annotations, automations,
    changesets::{Kind, catalogue},
    chats::{self, Chat},
    conversation::{Conversation, Draft, Driver, Effect, Feed, Shown},
    face::{Face, chat_state, summary_of},
    projection::{Projector, Scope, object, timestamp},
    reading::{Read, read},
    session_config::{Branching, DEFAULT_EFFORT, EFFORT, Isolation, approval_values},
    state::{ChatStore, Closing, SessionEntry, Uri},
    telemetry::Signal,
    uri,
};

/// The title of a session or chat that nobody named. Clients show a word of their own; any word here would be taken for a
/// name.
pub(crate) const UNTITLED: &str = "";

/// A conversation that was read, before it is shown.
struct Opened {
    chat: Uri,
    id: String,
    effects: mpsc::UnboundedSender<Effect>,
    read: Read,
    driver: Driver,
}

impl Face {
    /// What the catalogue says about a session.
    pub(crate) async fn summary(&self, id: &str) -> Option<lodge_host::SessionSummary> {
        self.host.find(id).await.ok()?
    }

    /// Whether the host has a session of this id.
    pub(crate) async fn exists(&self, id: &str) -> bool {
        self.host.live(id).is_some() || self.summary(id).await.is_some()
    }

    /// Whether the host has a session of this URI.
    pub(crate) async fn is_kept(&self, uri: &str) -> bool {
        match (self.host.marks().id_at(uri), uri::id_in(uri)) {
            (None, Some(id)) => self.exists(id).await,
            (known, _) => known.is_some(),
        }
    }

    /// The session that a URI belongs to: its URI and the host's id of it.
    pub(crate) async fn locate(&self, uri: &str) -> Option<(String, String)> {
        let of_chat = uri::session_of_default_chat(uri).or_else(|| uri::session_of_sub_chat(uri));
        let of_call = || uri::call_of_tool_terminal(uri).map(|(session, _)| session);
        let within = of_chat.or_else(of_call);
        let uri = within.as_deref().unwrap_or(uri);
        if let Some(id) = self.host.marks().id_at(uri) {
            return Some((self.uri_of(&id), id));
        }
        if uri.starts_with(uri::CHAT) {
            let line = self.host.chat_at(uri).await.ok()??;
            let id = line.about.chat_of().unwrap_or(&line.id);
            return Some((self.uri_of(id), id.to_owned()));
        }
        let id = uri.strip_prefix(uri::PROVIDER)?.strip_prefix(":/")?;
        if self.host.marks().get(id).address.is_some() {
            return None;
        }
        let is_chat = match (self.host.live(id), self.summary(id).await) {
            (Some(session), _) => session.state().about.chat_of().is_some(),
            (None, Some(line)) => line.about.chat_of().is_some(),
            (None, None) => true,
        };
        (!is_chat).then(|| (uri.to_owned(), id.to_owned()))
    }

    /// Opens the session that a URI belongs to, if there is one and it is not open already.
    pub(crate) async fn open(self: &Arc<Self>, uri: &str) -> Result<(), HostError> {
        self.open_session_of(uri).await?;
        let kept = self.inner.lock().past_output(uri);
        let limit = self.config.limits.terminal_bytes;
        let whole = match kept {
            Some(path) => {
                // Commands print what they like: the path is read only where every client may read.
                self.shared_files().end_of(path, limit as u64).await.ok()
            }
            None => None,
        };
        self.inner.lock().show_past_terminal(uri, whole);
        Ok(())
    }

    async fn open_session_of(self: &Arc<Self>, uri: &str) -> Result<(), HostError> {
        let is_open = |face: &Self| {
            let core = &face.inner.lock().core;
            core.session_of(uri).is_some() || core.services.contains_key(uri)
        };
        if is_open(self) {
            return Ok(());
        }
        if let Some((session, kind)) = Kind::parse(uri) {
            Box::pin(self.open(session)).await?;
            return self.open_changeset(uri, session, kind);
        }
        if let Some(session) = annotations::session_of(uri) {
            Box::pin(self.open(session)).await?;
            return self.open_annotations(uri, session);
        }
        if uri.starts_with(automations::RUN) {
            return self.open_run(uri).await;
        }
        if let Some(signal) = Signal::parse(uri) {
            self.open_signal(uri, signal);
            return Ok(());
        }
        let of_call = || uri::call_of_tool_terminal(uri).map(|(session, _)| session);
        if let Some(born) = uri::session_of_sub_chat(uri).or_else(of_call) {
            return self.open_born(&born).await;
        }
        let (session_uri, id) = self
            .locate(uri)
            .await
            .ok_or_else(|| HostError::NotFound(uri.to_owned()))?;
        let gate = self.gate(&session_uri);
        let _one = gate.lock().await;
        if self.inner.lock().core.sessions.contains_key(session_uri.as_str()) {
            return Ok(());
        }
        self.open_held(&session_uri.into(), &id).await
    }

    /// Opens what has what was made in a session. It keeps its address when its chat is moved, so that is the session itself, and
    /// whichever its chats were moved to.
    pub(crate) async fn open_born(self: &Arc<Self>, born: &str) -> Result<(), HostError> {
        let chats = self.host.chats().await?;
        let is_moved = |line: &&lodge_host::SessionSummary| {
            let chat = line.about.chat.as_ref();
            chat.is_some_and(|chat| chat.born.as_deref() == Some(born))
        };
        let moved: Vec<_> = chats.iter().filter(is_moved).collect();
        for line in &moved {
            let id = line.about.chat_of().unwrap_or(&line.id);
            Box::pin(self.open_session_of(&self.uri_of(id))).await?;
        }
        match Box::pin(self.open_session_of(born)).await {
            Err(_) if !moved.is_empty() => Ok(()),
            opened => opened,
        }
    }

    /// Opens a session whose gate is held by the caller.
    pub(crate) async fn open_held(self: &Arc<Self>, session_uri: &Uri, id: &str) -> Result<(), HostError> {
        let marks = self.host.marks().get(id);
        let session = self.host.open_session(id).await?;
        let about = session.state().about;
        let own = Chat::of(id, &about).filter(|chat| chat.is_own);
        let chat = own.as_ref().map(|own| own.uri.clone());
        let chat: Uri = chat.unwrap_or_else(|| uri::default_chat(session_uri)).into();
        let created = self
            .summary(id)
            .await
            .map_or_else(Timestamp::now, |summary| summary.created);
        let main = match &own {
            Some(own) => self.open_extra(session_uri, own).await?,
            None => {
                let head = self.default_head(&chat, id);
                self.open_talk(session_uri, id, head, 0).await?
            }
        };
        let mut opened = vec![main];
        let chats = self.host.chats_of(id).await?;
        for extra in &chats.iter().filter_map(Chat::of_line).collect::<Vec<_>>() {
            match self.open_extra(session_uri, extra).await {
                Ok(talk) => opened.push(talk),
                Err(error) => tracing::warn!(chat = extra.uri, %error, "a chat cannot be opened"),
            }
        }
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let mut state = opened[0].read.state.clone();
        let schema = self.config_schema(branching_of(&state).as_ref(), &[], true);
        state.changesets = Some(catalogue(session_uri, state.project.is_some(), true));
        let mut entry = SessionEntry::new(state, Some(schema), timestamp(created), chat);
        entry.changes = marks.changes.map(chats::changes);
        entry.decisions = session.switches();
        entry.annotations = annotations::counted(session_uri, &self.host.marks().annotations(id));
        entry.state.annotations.clone_from(&entry.annotations);
        inner.core.insert_session(session_uri.clone(), entry);
        for talk in opened {
            self.tasks.spawn(inner.show(session_uri, talk).run());
        }
        if let Some(entry) = inner.core.sessions.get_mut(session_uri) {
            let chats = &mut entry.state.chats;
            if let (Some(title), Some(default)) = (&about.chats.default_title, chats.first_mut()) {
                default.title.clone_from(title);
            }
            chats::sort(chats, &about.chats.order, &entry.default_chat, |chat| &chat.resource);
        }
        // What was asked elsewhere before anybody looked at it here.
        inner.core.input_needed(session_uri);
        self.count_changes(inner, session_uri);
        // It is in the list of sessions already, as it is now.
        let summary = inner
            .core
            .summary(session_uri)
            .and_then(|summary| serde_json::to_value(summary).ok());
        if let Some(entry) = inner.core.sessions.get_mut(session_uri) {
            entry.announced = summary.map(object);
        }
        Ok(())
    }

    /// Reads one conversation of the host's and gets ready to drive it.
    async fn open_talk(
        self: &Arc<Self>,
        born: &Uri,
        id: &str,
        head: ChatState,
        hidden: usize,
    ) -> Result<Opened, HostError> {
        let session = self.host.open_session(id).await?;
        let chat: Uri = head.resource.as_str().into();
        let head = ChatState {
            working_directories: chats::chosen_directories(&session.state().about),
            ..head
        };
        let git = lodge_host::git_context(session.settings().cwd).await;
        let state = self.session_state(&session, &chat, git);
        let keep = self.inner.lock().core.bounds.keep.clone();
        let unread = Read::new(born.clone(), chat.clone(), state, head, keep);
        let (driver, effects) = self.driver(&chat, id);
        let _people = driver.take_up(&session).await?;
        let (mut read, events) = read(session.clone(), unread).await?;
        read.hide(hidden);
        let driver = driver.with_session(session, events).await?;
        Ok(Opened {
            chat,
            id: id.to_owned(),
            effects,
            read,
            driver,
        })
    }

    async fn open_extra(self: &Arc<Self>, session_uri: &Uri, record: &Chat) -> Result<Opened, HostError> {
        let head = self.extra_head(record);
        let born = record.born.as_deref().map_or_else(|| session_uri.clone(), Uri::from);
        let mut opened = self.open_talk(&born, &record.id, head, record.hidden_turns).await?;
        let fresh = opened
            .read
            .chats
            .get(&Scope::Main)
            .is_some_and(|chat| chat.turns().is_empty());
        opened.driver.preface = record.selection().filter(|_| fresh);
        Ok(opened)
    }

    fn extra_head(&self, record: &Chat) -> ChatState {
        let head = chat_state(&record.uri, record.title.clone(), record.origin.clone());
        ChatState {
            draft: self.draft_of(&record.id),
            movable: Some(!record.is_own),
            ..head
        }
    }

    fn default_head(&self, chat: &Uri, id: &str) -> ChatState {
        ChatState {
            draft: self.draft_of(id),
            ..chat_state(chat, UNTITLED.to_owned(), ChatOrigin::User)
        }
    }

    /// What somebody was about to say in a chat.
    fn draft_of(&self, id: &str) -> Option<Message> {
        let draft = self.host.marks().draft(id)?;
        Some(chats::shown_message(draft, MessageKind::User))
    }

    fn driver(self: &Arc<Self>, chat: &Uri, id: &str) -> (Driver, mpsc::UnboundedSender<Effect>) {
        Driver::new(self.clone(), chat.clone(), id.to_owned())
    }

    /// Puts a session into the state that has nothing behind it yet.
    pub(crate) fn insert_draft(self: &Arc<Self>, session: &Uri, id: &str, mut state: SessionState, draft: Draft) {
        let chat: Uri = uri::default_chat(session).into();
        let (driver, effects) = self.driver(&chat, id);
        let head = chat_state(&chat, UNTITLED.to_owned(), ChatOrigin::User);
        state.chats = vec![summary_of(&head)];
        let schema = self.config_schema(branching_of(&state).as_ref(), &[], false);
        state.changesets = Some(catalogue(session, state.project.is_some(), false));
        let entry = SessionEntry::new(state, Some(schema), head.modified_at.clone(), chat.clone());
        {
            let mut inner = self.inner.lock();
            let keep = inner.core.bounds.keep.clone();
            inner.core.insert_session(session.clone(), entry);
            inner
                .core
                .insert_chat(chat.clone(), session.clone(), ChatStore::new(head, keep));
            let feed = Feed::new(session.clone(), Projector::default());
            let talk = Conversation::new(
                session.clone(),
                session.clone(),
                id.to_owned(),
                inner.core.lend(chat.clone(), feed),
                effects,
                None,
                Shown::default(),
            );
            inner.conversations.insert(chat, talk);
            self.count_changes(&mut inner, session);
        }
        self.tasks.spawn(driver.with_draft(draft).run());
    }

    /// How many turns a session of the host's has.
    pub(crate) async fn count_turns(self: &Arc<Self>, id: &str) -> Result<usize, HostError> {
        let head = chat_state("", String::new(), ChatOrigin::User);
        let opened = self.open_talk(&"".into(), id, head, 0).await?;
        Ok(opened.read.chats.get(&Scope::Main).map_or(0, |chat| chat.turns().len()))
    }

    /// Puts a further chat into an open session.
    pub(crate) async fn insert_extra(self: &Arc<Self>, session: &Uri, record: &Chat) -> Result<(), HostError> {
        let opened = self.open_extra(session, record).await?;
        let driver = self.inner.lock().show(session, opened);
        self.tasks.spawn(driver.run());
        Ok(())
    }

    /// Reads a session anew: whoever watches it is cut off, comes back and gets snapshots.
    pub(crate) fn reload(&self, chat: &str) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(session) = inner.core.session_of(chat) else {
            return;
        };
        for channel in inner.core.chats_of(&session).iter().chain(std::iter::once(&session)) {
            for subscriber in inner
                .core
                .channel(channel)
                .iter()
                .flat_map(|channel| &channel.subscribers)
            {
                subscriber.conn.close(Closing::TooSlow);
            }
        }
        inner.remove_session(&session);
    }

    pub(crate) fn session_state(&self, session: &Session, chat: &Uri, git: GitContext) -> SessionState {
        let marks = self.host.marks().get(session.id());
        let settings = session.settings();
        let facts = session.state();
        let base = facts.about.worktree.as_ref().map(|worktree| worktree.base.clone());
        let branching = match base.or_else(|| facts.worktree_wanted.clone()) {
            Some(branch) => Some(Branching {
                isolation: Isolation::Worktree,
                branch,
            }),
            None => Branching::folder(&git),
        };
        let title = settings
            .name
            .clone()
            .or_else(|| facts.title())
            .unwrap_or_else(|| UNTITLED.to_owned());
        new_state(NewState {
            provider: chats::provider(&marks),
            title,
            cwd: Some(settings.cwd.clone()),
            further: chats::addresses(&facts.about.directories.further),
            git_root: git.root,
            chat,
            mode: settings.mode.as_str(),
            approval: settings.approval,
            model: Some(settings.model.id.clone()),
            effort: settings.reasoning_effort.clone(),
            branching,
            lifecycle: SessionLifecycle::Ready,
            flags: chats::flags(&marks),
            origin: chats::made_by(&marks),
        })
    }
}

/// What a session's state is made of.
pub(crate) struct NewState<'a> {
    pub(crate) provider: String,
    pub(crate) title: String,
    pub(crate) cwd: Option<std::path::PathBuf>,
    /// Directories beside that, by their addresses.
    pub(crate) further: Vec<String>,
    pub(crate) git_root: Option<String>,
    pub(crate) chat: &'a Uri,
    pub(crate) mode: &'a str,
    pub(crate) approval: Approval,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) branching: Option<Branching>,
    pub(crate) lifecycle: SessionLifecycle,
    pub(crate) flags: u32,
    pub(crate) origin: Option<SessionOrigin>,
}

/// The state of a session, before its log is read.
pub(crate) fn new_state(new: NewState<'_>) -> SessionState {
    let mut values = object(json!({ "mode": new.mode }));
    values.extend(approval_values(new.approval).map(|(key, value)| (key.to_owned(), value.into())));
    if let Some(model) = new.model {
        values.insert("model".to_owned(), model.into());
    }
    let effort = new.effort.unwrap_or_else(|| DEFAULT_EFFORT.to_owned());
    values.insert(EFFORT.to_owned(), effort.into());
    if let Some(git) = new.branching {
        values.insert("isolation".to_owned(), git.isolation.as_str().into());
        values.insert("branch".to_owned(), git.branch.into());
    }
    let project = new.git_root.map(|root| ProjectInfo {
        display_name: root.rsplit('/').next().unwrap_or(&root).to_owned(),
        uri: uri::file(&root),
    });
    let head = chat_state(new.chat, UNTITLED.to_owned(), ChatOrigin::User);
    SessionState {
        provider: new.provider,
        title: new.title,
        status: SessionStatus::Idle.bits() | new.flags,
        activity: None,
        origin: new.origin,
        project,
        working_directories: new
            .cwd
            .map(|cwd| std::iter::once(uri::file(cwd)).chain(new.further).collect()),
        annotations: None,
        lifecycle: new.lifecycle,
        creation_error: None,
        server_tools: None,
        active_clients: Vec::new(),
        chats: vec![summary_of(&head)],
        default_chat: Some(new.chat.to_string()),
        config: Some(SessionConfigState {
            // The real one, with its properties in order, is spelt when the state is.
            schema: SessionConfigSchema {
                r#type: "object".to_owned(),
                properties: HashMap::new(),
                required: None,
            },
            values,
        }),
        customizations: None,
        changesets: None,
        input_needed: None,
        meta: None,
    }
}

/// What a session's values say about git.
pub(crate) fn branching_of(state: &SessionState) -> Option<Branching> {
    let values = &state.config.as_ref()?.values;
    Some(Branching {
        isolation: Isolation::parse(values.get("isolation")?.as_str()?)?,
        branch: values.get("branch")?.as_str()?.to_owned(),
    })
}

impl crate::face::Inner {
    /// Puts a conversation that was read into the state.
    fn show(&mut self, session: &Uri, opened: Opened) -> Driver {
        let Opened {
            chat,
            id,
            effects,
            mut read,
            driver,
        } = opened;
        let live = driver.live.as_ref();
        let agent = live.map(|live| live.session.clone());
        let shown = live.map(|live| live.shown.clone()).unwrap_or_default();
        let born = read.born.clone();
        let feed = Feed::new(session.clone(), read.projector);
        let feed = self.core.lend(chat.clone(), feed);
        let talk = Conversation::new(session.clone(), born, id, feed, effects, agent, shown);
        let mut summaries = Vec::new();
        for scope in &read.order {
            let Some(store) = read.chats.remove(scope) else {
                continue;
            };
            let uri: Uri = match scope {
                Scope::Sub(call) => uri::sub_chat(&read.born, call).into(),
                Scope::Main | Scope::Session => chat.clone(),
            };
            // A fork has the calls of the chat that it was made from: the sub-agents of those stay that chat's.
            if self.subs.get(&uri).is_some_and(|owner| *owner != chat) {
                continue;
            }
            summaries.push(summary_of(store.head()));
            if uri != chat {
                self.subs.insert(uri.clone(), chat.clone());
            }
            self.core.insert_chat(uri, session.clone(), store);
        }
        if let Some(entry) = self.core.sessions.get_mut(session) {
            for summary in summaries {
                match entry
                    .state
                    .chats
                    .iter_mut()
                    .find(|known| known.resource == summary.resource)
                {
                    Some(known) => *known = summary,
                    None => entry.state.chats.push(summary),
                }
            }
        }
        self.conversations.insert(chat, talk);
        driver
    }
}
