//! What clients dispatch: every action is checked against the rules of who may and in which state, then applied and
//! echoed to all with its origin, or refused to its sender alone. Nothing else a client sends changes state.

mod accept;
mod agent;
mod chat;
mod configure;
mod directories;
mod finish;
mod host;
mod input;
mod plan;
mod queue;
mod refusal;
mod roles;
mod rules;
mod service;
mod session;
mod settings;
mod tools;
mod write;

use std::{path::PathBuf, sync::Arc};

use ahp_types::state::MessageKind;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use self::{accept::Asked, refusal::DirectoryRefusal};
pub(crate) use self::{
    chat::{further, list_chats, renamed},
    directories::{MOST_DIRECTORIES, existing, is_same},
    host::{begin, begin_automation, cancel_automation},
    refusal::{Refusal, TurnRefusal},
    rules::fill_lists,
    settings::shown as shown_settings,
    tools::{fail_call, fail_calls_of},
    write::{Reviewed, Write},
};
use crate::{
    automations,
    conversation::Conversation,
    dialect::seed,
    face::{Face, Inner},
    rpc,
    state::{ChatEntry, ChatStore, Conn, Peer, Uri},
    version::Dialect,
    wire::Origin,
};

/// Who dispatches and where.
pub(crate) struct Dispatch<'a> {
    pub(crate) face: &'a Face,
    pub(crate) peer: &'a Peer,
    pub(crate) channel: Uri,
    /// In whose name messages are sent.
    speaker: MessageKind,
    /// The directory that the action adds to a session.
    added: Option<Result<PathBuf, DirectoryRefusal>>,
}

impl Dispatch<'_> {
    /// The chat that the action is about.
    fn chat<'a>(&self, inner: &'a Inner) -> Result<&'a ChatStore, Refusal> {
        let chat = inner.core.chats.get(&self.channel);
        chat.map(ChatEntry::store).ok_or(Refusal::NoChat)
    }

    /// The conversation behind that chat.
    fn talk<'a>(&self, inner: &'a Inner) -> Option<&'a Conversation> {
        inner.conversation(&self.channel).map(|(_, talk)| talk)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    channel: Option<String>,
    client_seq: serde_json::Number,
    action: Box<RawValue>,
}

/// Whether an action may be dispatched by whoever this is.
pub(crate) fn may_dispatch(admission: &lodge_door::Admission, action: &Value) -> Result<(), Refusal> {
    roles::check(admission, action)
}

/// Takes a `dispatchAction`. What cannot be read, or is about a channel that is not there, is ignored, as the protocol
/// says; everything else is answered by an echo or a refusal.
pub(crate) async fn dispatch(face: &Arc<Face>, conn: &Arc<Conn>, peer: &Peer, params: Option<&RawValue>) {
    let Ok(params) = rpc::params::<Params>(params) else {
        tracing::debug!(client = &*peer.client, "a dispatchAction could not be read");
        return;
    };
    let client_seq = params
        .client_seq
        .as_i64()
        .or_else(|| params.client_seq.as_f64().map(|seq| seq as i64));
    let origin = Origin {
        client_id: peer.client.clone(),
        client_seq: client_seq.unwrap_or_default(),
    };
    let Ok(value) = serde_json::from_str::<Value>(params.action.get()) else {
        return;
    };
    let named = value.get("session").and_then(Value::as_str).map(str::to_owned);
    let respelt = match peer.dialect {
        Dialect::Modern => params.channel.map(|channel| (channel, value)).ok_or(Refusal::NoChannel),
        Dialect::Seed => match seed::incoming(&value, &peer.client) {
            Ok(incoming) if incoming.to_chat => {
                let chat = face.default_chat(&incoming.uri).await;
                Ok((chat, Value::Object(incoming.action)))
            }
            Ok(incoming) if incoming.uri == seed::ROOT => {
                Ok((ahp_types::ROOT_RESOURCE_URI.to_owned(), Value::Object(incoming.action)))
            }
            Ok(incoming) => Ok((incoming.uri, Value::Object(incoming.action))),
            Err(reason) => Err(reason.into()),
        },
    };
    let (channel, action) = match respelt {
        Ok(found) => found,
        Err(reason) => {
            let channel = named.unwrap_or_default();
            return face
                .inner
                .lock()
                .core
                .reject(conn, &channel, &params.action, &origin, &reason);
        }
    };
    let channel = if channel.starts_with("ahp-root:") {
        ahp_types::ROOT_RESOURCE_URI.to_owned()
    } else {
        automations::meant(&channel).to_owned()
    };
    if let Err(reason) = roles::check(&conn.admission, &action) {
        let inner = face.inner.lock();
        return inner.core.reject(conn, &channel, &params.action, &origin, &reason);
    }
    for chat in attached_chats(&action) {
        // One that is not there is refused in a moment.
        let _ = face.open(chat).await;
    }
    if channel != ahp_types::ROOT_RESOURCE_URI && face.open(&channel).await.is_err() {
        tracing::debug!(channel, "an action for a channel that is not there");
        return;
    }
    if automations::is_channel(&channel) && peer.dialect == Dialect::Modern {
        return face
            .automation_said(conn, peer, &channel, action, &params.action, &origin)
            .await;
    }
    let request = Asked {
        conn,
        peer,
        channel: &channel,
        action: &action,
        // Before anybody waits for the state.
        read: rules::parse(action.clone()),
        raw: &params.action,
        origin: &origin,
        added: directories::added(&action).await,
    };
    request.accept_or_reject(face).await;
}

/// The chats and annotations that a message in an action refers to.
pub(crate) fn attached_chats(action: &Value) -> impl Iterator<Item = &str> {
    let attachments = action["message"]["attachments"].as_array();
    let chats = attachments
        .into_iter()
        .flatten()
        .filter(|attachment| attachment["type"] == "chat" || attachment["type"] == "annotations");
    chats.filter_map(|chat| chat["resource"].as_str()).take(16)
}
