//! Moving chats: within the list of their session, to another session, or out of it to a session of their own.

use ahp_types::{
    StateAction,
    actions::{
        ChatMovableChangedAction, SessionChatAddedAction, SessionChatRemovedAction, SessionChatsReorderedAction,
    },
    commands::{ChatMoveDestination, ChatMoveToSessionDestination, MoveChatResult},
    state::SessionStatus,
};
use lodge_events::{LodgeChats, Timestamp};
use lodge_host::{Session, Storing};
use serde::Deserialize;

use super::{Request, chats::no_session, sessions::host_error};
use crate::{
    changesets::catalogue,
    chats::{self, Chat},
    conversation::Conversation,
    face::{Face, Inner, summary_of},
    load::branching_of,
    projection::timestamp,
    rpc::{self, RpcError, RpcResult},
    state::{ChatEntry, SessionEntry, Uri},
    uri,
};

#[derive(Deserialize)]
struct Move {
    channel: String,
    destination: ChatMoveDestination,
}

pub(super) async fn move_chat(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let params: Move = rpc::params(request.params)?;
    face.open(&params.channel)
        .await
        .map_err(|_| no_session(&params.channel))?;
    let to = match params.destination {
        ChatMoveDestination::Session(to) => to,
        ChatMoveDestination::NewSession(_) => return to_new_session(request, &params.channel).await,
        ChatMoveDestination::Unknown(_) => return Err(RpcError::params("a chat cannot be moved there")),
    };
    face.open(&to.session).await.map_err(|_| no_session(&to.session))?;
    let gate = face.gate(&params.channel);
    let _one = gate.lock().await;
    wake(face, &params.channel).await?;
    wake(face, &face.default_chat(&to.session).await).await?;
    // The logs have it before anybody is told: what the chat is in its own, where it stands in that of its session.
    let (plan, storing) = {
        let inner = face.inner.lock();
        let plan = plan(&inner, &params.channel, &to)?;
        let mut storing = Vec::new();
        if plan.source.from != plan.to {
            storing.push(plan.source.record(Some(&plan.to_id))?);
        }
        let chats = LodgeChats {
            order: plan.order.clone(),
            ..plan.main.state().about.chats
        };
        storing.push(plan.main.set_chats(chats).map_err(RpcError::failed)?);
        (plan, storing)
    };
    stored(storing).await?;
    let (chat, from, to) = (&plan.source.chat, &plan.source.from, &plan.to);
    let mut guard = face.inner.lock();
    let inner = &mut *guard;
    if from != to {
        if let Some(talk) = inner.conversations.get_mut(chat) {
            talk.move_to(to.clone());
        }
        for chat in &plan.source.all {
            let added = inner.core.chats.get_mut(chat).map(|entry| {
                entry.session = to.clone();
                summary_of(entry.store().head())
            });
            let removed = SessionChatRemovedAction { chat: chat.to_string() };
            inner
                .core
                .publish(from, &StateAction::SessionChatRemoved(removed), None);
            if let Some(summary) = added {
                let added = SessionChatAddedAction { summary };
                inner.core.publish(to, &StateAction::SessionChatAdded(added), None);
            }
        }
        inner.clients_changed(to);
        inner.tell_directories(to);
    }
    let reordered = SessionChatsReorderedAction { chats: plan.order };
    inner
        .core
        .publish(to, &StateAction::SessionChatsReordered(reordered), None);
    inner.core.settle(from);
    inner.core.settle(to);
    rpc::ok(MoveChatResult {
        session: to.to_string(),
    })
}

async fn stored(storing: impl IntoIterator<Item = Storing>) -> Result<(), RpcError> {
    for storing in storing {
        storing.done().await.map_err(RpcError::failed)?;
    }
    Ok(())
}

/// Brings a session back that left memory: its log is about to be written.
async fn wake(face: &Face, chat: &str) -> Result<(), RpcError> {
    let sleeps = |talk: &Conversation| !talk.is_draft && talk.agent().is_none();
    let sleeps = face
        .inner
        .lock()
        .conversation(chat)
        .is_some_and(|(_, talk)| sleeps(talk));
    match sleeps {
        true => face.materialise_chat(chat).await.map_err(host_error),
        false => Ok(()),
    }
}

/// Makes a chat a session of its own, whose default chat it is. All that was said stays where it is.
async fn to_new_session(request: &Request<'_>, chat: &str) -> RpcResult {
    let face = request.face;
    let gate = face.gate(chat);
    let _one = gate.lock().await;
    wake(face, chat).await?;
    let id = source(&face.inner.lock(), chat, true)?.chat_id;
    let session = face.host.open_session(&id).await.map_err(host_error)?;
    let mut directories = session.state().about.directories;
    if let Some(chosen) = &directories.chosen {
        directories.further = chosen.iter().skip(1).cloned().collect();
        session.set_directories(&directories).await.map_err(RpcError::failed)?;
    }
    let title = Chat::of(&id, &session.state().about).map(|chat| chat.title);
    if let Some(title) = title.filter(|title| !title.is_empty()) {
        session.rename(Some(title)).await.map_err(RpcError::failed)?;
    }
    let summary = face.summary(&id).await;
    let git = lodge_host::git_context(session.settings().cwd).await;
    let to: Uri = uri::session(&id).into();
    // It is kept before anybody is told.
    let (source, storing) = {
        let source = source(&face.inner.lock(), chat, true)?;
        let storing = source.record(None)?;
        (source, storing)
    };
    stored([storing]).await?;
    let mut guard = face.inner.lock();
    let inner = &mut *guard;
    let Source { chat, all, from, .. } = source;
    let was_read = inner.core.sessions.get(&from).map(|entry| entry.state.status);
    let kept = face.host.marks().update(&id, |marks| {
        marks.address = Some(to.to_string());
        marks.read = was_read.is_some_and(|status| status & SessionStatus::IsRead.bits() != 0);
    });
    kept.map_err(RpcError::failed)?;
    let mut state = face.session_state(&session, &chat, git);
    state.changesets = Some(catalogue(&to, state.project.is_some(), true));
    state.customizations = inner
        .core
        .sessions
        .get(&from)
        .and_then(|from| from.state.customizations.clone());
    let schema = face.config_schema(branching_of(&state).as_ref(), &[], true);
    let created = timestamp(summary.map_or_else(Timestamp::now, |summary| summary.created));
    let mut entry = SessionEntry::new(state, Some(schema), created, chat.clone());
    entry.changes = face.host.marks().get(&id).changes.map(chats::changes);
    inner.core.insert_session(to.clone(), entry);
    if let Some(talk) = inner.conversations.get_mut(&chat) {
        talk.move_to(to.clone());
    }
    for chat in &all {
        if let Some(entry) = inner.core.chats.get_mut(chat) {
            entry.session = to.clone();
        }
        let removed = SessionChatRemovedAction { chat: chat.to_string() };
        let removed = StateAction::SessionChatRemoved(removed);
        inner.core.publish(&from, &removed, None);
    }
    let stays = StateAction::ChatMovableChanged(ChatMovableChangedAction { movable: false });
    inner.core.publish(&chat, &stays, None);
    let shown = all.iter().filter_map(|chat| inner.core.head(chat));
    let shown = shown.map(summary_of).collect();
    if let Some(entry) = inner.core.sessions.get_mut(&to) {
        entry.state.chats = shown;
    }
    inner.clients_changed(&to);
    inner.core.announce(&to);
    face.count_changes(inner, &to);
    inner.core.settle(&from);
    inner.core.settle(&to);
    rpc::ok(MoveChatResult {
        session: to.to_string(),
    })
}

/// A chat that may be moved, and where it is.
struct Source {
    chat: Uri,
    /// The chat, and those of the sub-agents that it started, which go where it goes.
    all: Vec<Uri>,
    chat_id: String,
    agent: Session,
    from: Uri,
}

impl Source {
    /// Has the log say whose chat it is from now on. What it has keeps the address that it got where it was made.
    fn record(&self, session: Option<&str>) -> Result<Storing, RpcError> {
        let mut chat = Chat::of(&self.chat_id, &self.agent.state().about).ok_or_else(|| no_session(&self.chat))?;
        chat.born.get_or_insert_with(|| self.from.to_string());
        self.agent.set_chat(chat.event(session)).map_err(RpcError::failed)
    }
}

fn refused(why: &str) -> RpcError {
    RpcError::params(why.to_owned())
}

/// Whether a chat may be moved, and out of its session.
fn source(inner: &Inner, chat: &str, leaves: bool) -> Result<Source, RpcError> {
    let (chat, entry) = inner.core.chats.get_key_value(chat).ok_or_else(|| no_session(chat))?;
    let head = entry.store().head();
    let talk = inner.conversations.get(chat).filter(|_| head.movable == Some(true));
    let talk = talk.ok_or_else(|| refused("this chat cannot be moved"))?;
    let subs = inner.core.sessions.get(&entry.session).into_iter();
    let subs = subs
        .flat_map(|session| &session.state.chats)
        .map(|sub| sub.resource.as_str());
    let subs = subs.filter(|sub| inner.subs.get(*sub) == Some(chat)).map(Uri::from);
    let all: Vec<Uri> = std::iter::once(chat.clone()).chain(subs).collect();
    let is_busy = |chat: &Uri| {
        let entry = inner.core.chats.get(chat);
        entry.is_some_and(ChatEntry::is_running)
    };
    if leaves && all.iter().any(is_busy) {
        return Err(refused("the chat is busy with a turn"));
    }
    Ok(Source {
        chat: chat.clone(),
        all,
        chat_id: talk.host_id.clone(),
        agent: talk
            .agent()
            .ok_or_else(|| refused("the chat is not open; try again"))?
            .clone(),
        from: entry.session.clone(),
    })
}

/// The directories of a chat, when it has not all of its session's.
fn entry_of<'a>(inner: &'a Inner, chat: &str) -> Option<&'a Vec<String>> {
    inner.core.head(chat)?.working_directories.as_ref()
}

/// A move that can be made.
struct Plan {
    source: Source,
    to: Uri,
    to_id: String,
    main: Session,
    /// The chats of the destination, as they stand afterwards.
    order: Vec<String>,
}

/// Looks at everything before anything is done.
fn plan(inner: &Inner, chat: &str, to: &ChatMoveToSessionDestination) -> Result<Plan, RpcError> {
    let leaves = inner.core.session_of(chat).is_some_and(|from| *from != *to.session);
    let source = source(inner, chat, leaves)?;
    let sessions = &inner.core.sessions;
    let (to_uri, into) = sessions
        .get_key_value(to.session.as_str())
        .ok_or_else(|| no_session(&to.session))?;
    let mut order: Vec<String> = into.state.chats.iter().map(|chat| chat.resource.clone()).collect();
    order.retain(|known| **known != *source.chat);
    let at = match &to.after {
        Some(after) => {
            let found = order.iter().position(|known| known == after);
            found.ok_or_else(|| refused("there is no such chat to place it after"))? + 1
        }
        None => 0,
    };
    let moved = if leaves { &source.all[..] } else { &source.all[..1] };
    order.splice(at..at, moved.iter().map(|chat| chat.to_string()));
    if leaves {
        let theirs = into.state.working_directories.as_deref().unwrap_or_default();
        let directories = inner.directories_of(&source.chat);
        // A chat that has all directories of its session runs in the first, and will have all of the other one.
        let runs_there = entry_of(inner, &source.chat).is_some() || theirs.first() == directories.first();
        if !runs_there || directories.iter().any(|directory| !theirs.contains(directory)) {
            return Err(refused("the other session does not work in the directory of the chat"));
        }
        if into.announced.is_none() {
            return Err(refused("the other session has no messages yet"));
        }
    }
    let main = inner
        .conversations
        .get(&into.default_chat)
        .ok_or_else(|| no_session(&to.session))?;
    Ok(Plan {
        source,
        to_id: main.host_id.clone(),
        main: main
            .agent()
            .ok_or_else(|| refused("the session is not open; try again"))?
            .clone(),
        to: to_uri.clone(),
        order,
    })
}
