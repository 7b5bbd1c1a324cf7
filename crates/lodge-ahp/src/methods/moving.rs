//! Moving chats: within the list of their session, or to another session.

use ahp_types::{
    StateAction,
    actions::{SessionChatAddedAction, SessionChatRemovedAction, SessionChatsReorderedAction},
    commands::{ChatMoveDestination, ChatMoveToSessionDestination},
};
use serde::Deserialize;
use serde_json::json;

use super::{Request, chats::no_session};
use crate::{
    face::{Inner, summary_of},
    rpc::{self, RpcError, RpcResult},
    state::Uri,
};

#[derive(Deserialize)]
struct Move {
    channel: String,
    destination: ChatMoveDestination,
}

pub(super) async fn move_chat(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let params: Move = rpc::params(request.params)?;
    let ChatMoveDestination::Session(to) = params.destination else {
        return Err(RpcError::params(
            "a chat can be moved to a session that is there already",
        ));
    };
    face.open(&params.channel)
        .await
        .map_err(|_| no_session(&params.channel))?;
    face.open(&to.session).await.map_err(|_| no_session(&to.session))?;
    let gate = face.gate(&params.channel);
    let _one = gate.lock().await;
    let mut guard = face.inner.lock();
    let inner = &mut *guard;
    let plan = plan(inner, &params.channel, &to)?;
    let (chat, from, to) = (&plan.chat, &plan.from, &plan.to);
    // It is kept before anybody is told.
    if from != to {
        let (mut moved, chat_id) = (None, plan.chat_id.as_str());
        face.store.update(&plan.from_id, |record| {
            let at = record.chats.iter().position(|known| known.id == chat_id);
            moved = at.map(|at| record.chats.remove(at));
        });
        face.store
            .update(chat_id, |record| record.chat_of = Some(plan.to_id.clone()));
        face.store.update(&plan.to_id, |record| record.chats.extend(moved));
    }
    face.store
        .update(&plan.to_id, |record| record.order.clone_from(&plan.order));
    if from != to {
        if let Some(talk) = inner.talks.get_mut(chat) {
            talk.session = to.clone();
        }
        let added = inner.core.chats.get_mut(chat).map(|entry| {
            entry.session = to.clone();
            summary_of(entry.store.head())
        });
        let removed = SessionChatRemovedAction { chat: chat.to_string() };
        inner
            .core
            .publish(from, &StateAction::SessionChatRemoved(removed), None);
        if let Some(summary) = added {
            let added = SessionChatAddedAction { summary };
            inner.core.publish(to, &StateAction::SessionChatAdded(added), None);
        }
        inner.clients_changed(to);
    }
    let reordered = SessionChatsReorderedAction { chats: plan.order };
    inner
        .core
        .publish(to, &StateAction::SessionChatsReordered(reordered), None);
    inner.core.settle(from);
    inner.core.settle(to);
    rpc::ok(json!({ "session": &**to }))
}

/// A move that can be made.
struct Plan {
    chat: Uri,
    chat_id: String,
    from: Uri,
    from_id: String,
    to: Uri,
    to_id: String,
    /// The chats of the destination, as they stand afterwards.
    order: Vec<String>,
}

/// Looks at everything before anything is done.
fn plan(inner: &Inner, chat: &str, to: &ChatMoveToSessionDestination) -> Result<Plan, RpcError> {
    let refused = |why: &str| RpcError::params(why.to_owned());
    let (chat, entry) = inner.core.chats.get_key_value(chat).ok_or_else(|| no_session(chat))?;
    let talk = inner
        .talks
        .get(chat)
        .filter(|_| entry.store.head().movable == Some(true));
    let talk = talk.ok_or_else(|| refused("this chat cannot be moved"))?;
    let from = entry.session.clone();
    let sessions = &inner.core.sessions;
    let (to_uri, into) = sessions
        .get_key_value(to.session.as_str())
        .ok_or_else(|| no_session(&to.session))?;
    let out_of = sessions.get(&from).ok_or_else(|| no_session(&from))?;
    let mut order: Vec<String> = into.state.chats.iter().map(|chat| chat.resource.clone()).collect();
    order.retain(|known| **known != **chat);
    let at = match &to.after {
        Some(after) => {
            let found = order.iter().position(|known| known == after);
            found.ok_or_else(|| refused("there is no such chat to stand after"))? + 1
        }
        None => 0,
    };
    order.insert(at, chat.to_string());
    if from != *to_uri {
        if entry.store.head().active_turn.is_some() {
            return Err(refused("the chat is busy with a turn"));
        }
        if inner.subs.values().any(|main| main == chat) {
            return Err(refused("a chat stays with the sub-agents that it started"));
        }
        let theirs = into.state.working_directories.as_deref().unwrap_or_default();
        let directories = out_of.state.working_directories.iter().flatten();
        if directories.clone().any(|directory| !theirs.contains(directory)) {
            return Err(refused("the other session does not work in the directory of the chat"));
        }
        if into.announced.is_none() {
            return Err(refused("nothing was said in the other session yet"));
        }
    }
    let id_of = |chat: &Uri| inner.talks.get(chat).map(|talk| talk.host_id.clone());
    let missing = || no_session(&to.session);
    Ok(Plan {
        chat: chat.clone(),
        chat_id: talk.host_id.clone(),
        from_id: id_of(&out_of.default_chat).ok_or_else(missing)?,
        from,
        to_id: id_of(&into.default_chat).ok_or_else(missing)?,
        to: to_uri.clone(),
        order,
    })
}
