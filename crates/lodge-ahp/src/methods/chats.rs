//! Further chats, and the past of any chat.

use ahp_types::{
    StateAction,
    actions::{SessionChatAddedAction, SessionChatRemovedAction},
    state::{ChatOrigin, Message, SideChatSelection},
};
use lodge_host::Session;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Reply, Request,
    sessions::{adopt, fork_point, host_error},
};
use crate::{
    actions,
    chats::Chat,
    dialect::seed,
    face::{Face, summary_of},
    load::UNTITLED,
    rpc::{self, RpcError, RpcResult, code},
    state::Uri,
    uri,
};

/// A page of the seed's `fetchTurns` is at most this long.
const PAGE: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    channel: String,
    chat: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default, deserialize_with = "rpc::object")]
    initial_message: Option<Message>,
    #[serde(default, deserialize_with = "rpc::object")]
    source: Option<Source>,
    #[serde(default)]
    working_directories: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    kind: String,
    #[serde(default, deserialize_with = "rpc::or_default")]
    chat: String,
    #[serde(default, deserialize_with = "rpc::or_default")]
    turn_id: String,
    #[serde(default)]
    selection: Option<SideChatSelection>,
}

/// A further chat is a session of the host's that is shown inside another.
pub(super) async fn create(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let params: Create = rpc::params(request.params)?;
    face.open(&params.channel)
        .await
        .map_err(|_| no_session(&params.channel))?;
    let session: Uri = params.channel.as_str().into();
    let (main_id, directories, is_draft) = {
        let inner = face.inner.lock();
        let entry = inner.core.sessions.get(&session);
        let found = entry.and_then(|entry| Some((entry, inner.conversations.get(&entry.default_chat)?)));
        let (entry, talk) = found.ok_or_else(|| no_session(&params.channel))?;
        (
            talk.host_id.clone(),
            entry.state.working_directories.clone().unwrap_or_default(),
            entry.announced.is_none(),
        )
    };
    if !params.chat.starts_with("ahp-chat:") || params.chat.len() > 1024 {
        return Err(RpcError::params("a chat's URI must begin with ahp-chat:"));
    }
    let own = params
        .working_directories
        .as_deref()
        .map(|wanted| subset(&directories, wanted));
    let own = own.transpose()?;
    if let Some(title) = &params.title {
        lodge_host::check_title(title).map_err(RpcError::params)?;
    }
    let gate = face.gate(&params.chat);
    let _one = gate.lock().await;
    let known = face.inner.lock().core.session_of(&params.chat);
    if known.is_some() || face.locate(&params.chat).await.is_some() {
        // The same wish again, after an answer that was lost: it is fulfilled already.
        if known.as_ref() == Some(&session) && is_made_so(request, &params) {
            return rpc::null();
        }
        return Err(RpcError::new(
            code::ALREADY_EXISTS,
            format!("chat {} already exists", params.chat),
        ));
    }
    if is_draft {
        adopt(request, &session, &main_id).await?;
    }
    let main = face.host.open_session(&main_id).await.map_err(host_error)?;
    let own = match &params.source {
        None => own,
        // It works where what it was made from does: that is what was spoken of there.
        Some(source) => {
            let inner = face.inner.lock();
            let head = inner.core.head(&source.chat);
            head.and_then(|head| head.working_directories.clone())
        }
    };
    let id = uuid::Uuid::new_v4().to_string();
    let mut record = Chat {
        uri: params.chat.clone(),
        id: id.clone(),
        title: UNTITLED.to_owned(),
        origin: ChatOrigin::User,
        hidden_turns: 0,
        born: None,
        directories: own,
        is_own: false,
    };
    let chosen = record.directories.as_ref().map(|own| {
        let own = own.iter().filter_map(|directory| uri::path(directory));
        own.collect::<Vec<_>>()
    });
    let made = match &params.source {
        None => {
            let settings = main.settings();
            let own = chosen.as_ref().and_then(|own| own.first().cloned());
            let new = lodge_host::NewSession {
                id: Some(id.clone()),
                cwd: own.or(Some(settings.cwd.clone())),
                mode: settings.mode,
                approval: settings.approval,
                name: params.title.clone(),
                chat: Some(record.event(Some(&main_id))),
                ..lodge_host::NewSession::default()
            };
            face.host.create(new).await.map_err(host_error)?
        }
        Some(source) => from_source(request, &session, &main_id, source, &mut record).await?,
    };
    if let Some(title) = &params.title {
        record.title.clone_from(title);
    }
    if made.settings().name.as_ref() != Some(&record.title) && !record.title.is_empty() {
        made.rename(Some(record.title.clone()))
            .await
            .map_err(RpcError::failed)?;
    }
    let further = main.state().about.directories.further.into_iter();
    let further = further.map(Into::into).collect();
    let directories = lodge_host::Change::ChatDirectories { further, chosen };
    made.configure(directories).await.map_err(RpcError::failed)?;
    face.insert_extra(&session, &record).await.map_err(host_error)?;
    let listed = crate::actions::list_chats(&mut face.inner.lock(), &session, &main, Some(&params.chat));
    let (listed, title) = listed.map_err(RpcError::failed)?;
    listed.done().await.map_err(RpcError::failed)?;
    {
        let mut inner = face.inner.lock();
        if let Some(title) = title {
            inner.core.publish(&session, &title, None);
        }
        if let Some(head) = inner.core.head(&params.chat) {
            let summary = summary_of(head);
            let action = SessionChatAddedAction { summary };
            inner
                .core
                .publish(&session, &StateAction::SessionChatAdded(action), None);
        }
        inner.core.settle(&session);
    }
    if let Some(message) = params.initial_message {
        let begun = crate::actions::begin(face, &params.chat.as_str().into(), message).await;
        begun.map_err(RpcError::params)?;
    }
    rpc::null()
}

/// The directories of a chat as its session spells them. The first is where its agent runs.
fn subset(all: &[String], wanted: &[String]) -> Result<Vec<String>, RpcError> {
    let mut own: Vec<String> = Vec::new();
    for directory in wanted {
        let known = all.iter().find(|known| actions::is_same(known, directory));
        let outside = || RpcError::params(format!("{directory} is not a working directory of the session"));
        let known = known.ok_or_else(outside)?;
        if !own.contains(known) {
            own.push(known.clone());
        }
    }
    match own.is_empty() {
        true => Err(RpcError::params(
            "a chat works in at least one working directory of its session",
        )),
        false => Ok(own),
    }
}

/// Whether a chat is what is asked for again.
fn is_made_so(request: &Request<'_>, params: &Create) -> bool {
    let inner = request.face.inner.lock();
    let origin = inner.core.head(&params.chat).map(|head| &head.origin);
    match (origin, &params.source) {
        (Some(Some(ChatOrigin::User)), None) => true,
        (Some(Some(ChatOrigin::Fork { chat, turn_id })), Some(source)) => {
            source.kind == "fork" && (chat, turn_id) == (&source.chat, &source.turn_id)
        }
        (Some(Some(ChatOrigin::SideChat { chat, turn_id, .. })), Some(source)) => {
            source.kind == "sideChat" && (chat, turn_id) == (&source.chat, &source.turn_id)
        }
        _ => false,
    }
}

/// A chat made from another: a fork shows what was said up to a turn, a side chat only knows it.
async fn from_source(
    request: &Request<'_>,
    session: &Uri,
    main_id: &str,
    source: &Source,
    record: &mut Chat,
) -> Result<Session, RpcError> {
    let face = request.face;
    let of = face.inner.lock().core.session_of(&source.chat);
    if of.as_ref() != Some(session) || source.chat == record.uri {
        return Err(RpcError::params("the source is not a chat of this session"));
    }
    let (chat, turn_id) = (source.chat.clone(), source.turn_id.clone());
    match source.kind.as_str() {
        "fork" => {
            let inner = face.inner.lock();
            let source = inner.core.chats.get(chat.as_str());
            if source.is_some_and(|source| source.store().active(&turn_id).is_some()) {
                return Err(RpcError::params(
                    "the turn is still running; a fork begins after a whole turn",
                ));
            }
            record.title = "Fork".to_owned();
            record.origin = ChatOrigin::Fork { chat, turn_id };
        }
        "sideChat" => {
            if source
                .selection
                .as_ref()
                .is_some_and(|selection| selection.text.trim().is_empty())
            {
                return Err(RpcError::params("the selection is empty"));
            }
            record.title = "Side chat".to_owned();
            record.origin = ChatOrigin::SideChat {
                chat,
                turn_id,
                selection: source.selection.clone(),
            };
        }
        other => return Err(RpcError::params(format!("a chat cannot be created from a {other:?}"))),
    }
    let (source_id, up_to) = fork_point(request, &source.chat, &source.turn_id)?;
    let chat = Some(record.event(Some(main_id)));
    let made = face
        .host
        .fork_as(&source_id, up_to, Some(record.id.clone()), chat)
        .await;
    let made = made.map_err(host_error)?;
    if source.kind == "sideChat" {
        record.hidden_turns = face.count_turns(&record.id).await.map_err(host_error)?;
        let kept = made.set_chat(record.event(Some(main_id))).map_err(RpcError::failed)?;
        kept.done().await.map_err(RpcError::failed)?;
    }
    Ok(made)
}

pub(super) fn no_session(uri: &str) -> RpcError {
    RpcError::new(code::SESSION_NOT_FOUND, format!("there is no session {uri}"))
}

#[derive(Deserialize)]
struct OneChat {
    channel: String,
}

pub(super) async fn dispose(request: &Request<'_>) -> RpcResult {
    let face = request.face;
    let params: OneChat = rpc::params(request.params)?;
    face.open(&params.channel)
        .await
        .map_err(|_| RpcError::params(format!("there is no chat {}", params.channel)))?;
    let id = {
        let inner = face.inner.lock();
        let chat = inner.core.chats.get(params.channel.as_str());
        let chat = chat.ok_or_else(|| RpcError::params(format!("there is no chat {}", params.channel)))?;
        let session = chat.session.clone();
        let entry = inner.core.sessions.get(&session).ok_or_else(|| no_session(&session))?;
        if *entry.default_chat == *params.channel {
            return Err(RpcError::params(
                "a session keeps its default chat; dispose of the session instead",
            ));
        }
        let own = inner
            .conversations
            .get(params.channel.as_str())
            .map(|talk| talk.host_id.clone());
        own.ok_or_else(|| RpcError::params("a sub-agent's chat goes with the chat that started it"))?
    };
    face.delete(&id).await.map_err(host_error)?;
    face.chat_gone(&id);
    rpc::null()
}

impl Face {
    /// The session behind a further chat is gone, and the chats of its sub-agents with it.
    pub(crate) fn chat_gone(&self, id: &str) {
        let mut inner = self.inner.lock();
        let found = inner.conversations.iter().find(|(_, talk)| talk.host_id == id);
        let Some((chat, session)) = found.map(|(chat, talk)| (chat.clone(), talk.session.clone())) else {
            return;
        };
        let subs = inner.subs.iter().filter(|(_, of)| **of == chat);
        let gone: Vec<Uri> = subs.map(|(sub, _)| sub.clone()).chain([chat.clone()]).collect();
        for chat in gone {
            let action = SessionChatRemovedAction { chat: chat.to_string() };
            inner
                .core
                .publish(&session, &StateAction::SessionChatRemoved(action), None);
            inner.core.remove_chat(&chat);
            inner.subs.remove(&chat);
        }
        inner.conversations.remove(&chat);
        inner.core.settle(&session);
    }
}

#[derive(Deserialize)]
struct FetchTurns {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    before: Option<String>,
    #[serde(default)]
    limit: Option<rpc::Whole>,
}

pub(super) async fn fetch_turns(request: &Request<'_>) -> Result<Reply, RpcError> {
    let params: FetchTurns = rpc::params(request.params)?;
    if request.is_seed() {
        return Ok(seed_turns(request, params).await.into());
    }
    let chat = params.channel.ok_or_else(|| RpcError::params("no chat is named"))?;
    let opened = request.face.open(&chat).await;
    let mut inner = request.face.inner.lock();
    if opened.is_err() || !inner.core.chats.contains_key(chat.as_str()) {
        let text = format!("session not found: there is no chat {chat}");
        return Err(RpcError::new(code::SESSION_NOT_FOUND, text));
    }
    // The turns come as an action, and before the response.
    let loaded = inner.core.load_turns(request.conn.id, &chat, params.cursor.as_deref());
    loaded.ok_or_else(|| RpcError::params("unrecognized fetchTurns cursor: it is not one of this chat's"))?;
    request.conn.push(rpc::response(Some(request.id), &rpc::empty()));
    Ok(Reply::Sent)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SeedTurns {
    turns: Vec<Value>,
    has_more: bool,
}

/// The older form: the turns are in the response, and the client's state does not change.
async fn seed_turns(request: &Request<'_>, params: FetchTurns) -> RpcResult {
    let session = params.session.ok_or_else(|| RpcError::params("no session is named"))?;
    request.face.open(&session).await.map_err(|_| no_session(&session))?;
    let inner = request.face.inner.lock();
    let entry = inner.core.sessions.get(session.as_str());
    let chat = entry.and_then(|entry| inner.core.chats.get(&entry.default_chat));
    let store = chat.ok_or_else(|| no_session(&session))?.store();
    let turns = store.turns();
    let end = match &params.before {
        Some(before) => store
            .position(before)
            .ok_or_else(|| RpcError::params(format!("there is no turn {before:?}")))?,
        None => turns.len(),
    };
    let limit = match params.limit {
        // A page without turns would have no next one.
        Some(rpc::Whole(0)) => return Err(RpcError::params("a limit is at least 1")),
        limit => limit.map_or(PAGE, |limit| usize::try_from(limit.0).unwrap_or(PAGE).min(PAGE)),
    };
    let start = end.saturating_sub(limit);
    let page: Vec<Value> = store
        .json_of(start..end)
        .iter()
        .filter_map(|turn| seed::turn(turn.get()))
        .collect();
    rpc::ok(SeedTurns {
        turns: page,
        has_more: start > 0,
    })
}
