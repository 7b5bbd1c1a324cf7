//! Sessions that another host of the fleet has in use: what a client says of one is handed on to that host, and what that host
//! says goes to the client, under numbers of this host. The client sees one connection; the other host sees a client of its
//! own, with the same id. This host lets the client in, so it also says what the client may do.

mod link;

use std::{collections::HashMap, sync::Arc};

use lodge_host::{Link, Wire};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;
use tokio_tungstenite::{client_async_with_config, tungstenite::protocol::WebSocketConfig};

pub(crate) use self::link::Hold;
use self::link::{Asked, By, PATIENCE, Relay, carry};
use crate::{
    actions, annotations,
    changesets::Kind,
    face::Face,
    methods,
    rpc::{self, Incoming, RpcError, code},
    state::{Conn, Peer},
    uri,
    version::Dialect,
};

/// How many messages wait for the other host before the client's next one is not read.
const WAITING: usize = 64;

/// The sessions of other hosts that a connection has to do with, by their addresses.
#[derive(Default)]
pub(crate) struct Relays(Mutex<HashMap<String, Arc<Relay>>>);

impl Relays {
    fn get(&self, session: &str) -> Option<Arc<Relay>> {
        self.0.lock().get(session).cloned()
    }

    /// Leaves one. False when it was left before.
    fn remove(&self, session: &str) -> bool {
        let removed = self.0.lock().remove(session);
        removed.is_some()
    }

    /// Leaves all of them.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }
}

/// What messages name. What is none of this is about no session.
#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    session: Option<Value>,
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    action: Option<Value>,
}

/// Hands a message on when it is about a session that another host has in use; gives it back otherwise.
pub(crate) async fn hand_on(face: &Arc<Face>, conn: &Arc<Conn>, incoming: Incoming) -> Option<Incoming> {
    let Some(peer) = conn.peer().filter(|peer| peer.dialect == Dialect::Modern) else {
        return Some(incoming);
    };
    let (Incoming::Request { method, params, .. } | Incoming::Notification { method, params }) = &incoming else {
        return Some(incoming);
    };
    let Ok(names) = rpc::params::<Names>(params.as_deref()) else {
        return Some(incoming);
    };
    let allowed = match (method.as_str(), &names.action) {
        ("dispatchAction", Some(action)) => actions::may_dispatch(&conn.admission, action),
        _ => methods::find(method, Some(peer)).map_or(Ok(()), |method| conn.admission.check(method.role)),
    };
    if allowed.is_err() {
        return Some(incoming);
    }
    let relay = match find_any(face, conn, peer, &names).await {
        Ok(Some(relay)) => relay,
        Ok(None) => return Some(incoming),
        // Whoever asks is told; an action for a channel that cannot be reached is ignored like one for a channel that is not there.
        Err(error) => {
            if let Incoming::Request { id, .. } = &incoming {
                conn.push(rpc::response(Some(id), &Err(error)));
            }
            return None;
        }
    };
    let text = params.as_deref().map_or("{}", RawValue::get);
    if let Incoming::Request { id, .. } = &incoming {
        let asked = Asked {
            by: By::Client(id.clone()),
            listens_to: names.channel.filter(|_| method == "subscribe"),
        };
        relay.ask(method, text, asked).await;
        return None;
    }
    relay.notify(method, text).await;
    if let Some(channel) = names.channel.filter(|_| method == "unsubscribe") {
        let mut inner = relay.inner.lock();
        if inner.channels.remove(&channel) && inner.channels.is_empty() {
            conn.relays.remove(&relay.session);
        }
    }
    None
}

/// Listens, for a client that comes or comes back, to something of a session that another host has in use. The client hears nothing
/// of it until the second of the answer is dropped. Nothing when it is no session of another host.
pub(crate) async fn listen(
    face: &Arc<Face>,
    conn: &Arc<Conn>,
    peer: &Peer,
    channel: &str,
) -> Option<(Option<Box<RawValue>>, Hold)> {
    if !face.host.is_kept() || peer.dialect != Dialect::Modern {
        return None;
    }
    let listened = match find(face, conn, peer, channel).await {
        Ok(None) => return None,
        Ok(Some(relay)) => relay.listen(channel).await,
        Err(error) => Err(error),
    };
    listened
        .inspect_err(|error| tracing::debug!(channel, error = error.message, "cannot be reached"))
        .ok()
}

async fn find_any(
    face: &Arc<Face>,
    conn: &Arc<Conn>,
    peer: &Peer,
    names: &Names,
) -> Result<Option<Arc<Relay>>, RpcError> {
    let session = names.session.as_ref().and_then(Value::as_str);
    for uri in [names.channel.as_deref(), session, names.uri.as_deref()]
        .into_iter()
        .flatten()
    {
        if let Some(relay) = find(face, conn, peer, uri).await? {
            return Ok(Some(relay));
        }
    }
    Ok(None)
}

/// The way to the host that has the session of this address in use; nothing when it is here or can be.
async fn find(face: &Arc<Face>, conn: &Arc<Conn>, peer: &Peer, uri: &str) -> Result<Option<Arc<Relay>>, RpcError> {
    if uri == ahp_types::ROOT_RESOURCE_URI {
        return Ok(None);
    }
    let within = Kind::parse(uri).map(|(session, _)| session);
    let within = within.or_else(|| annotations::session_of(uri));
    let within = within.or_else(|| uri::session_of_content(uri).map(|(session, _)| session));
    let Some((session, id)) = face.locate(within.unwrap_or(uri)).await else {
        return Ok(None);
    };
    if let Some(relay) = conn.relays.get(&session) {
        return Ok(Some(relay));
    }
    let link = face.host.way_to(&id, Wire::Ahp).await;
    let link = link.map_err(|error| RpcError::new(code::INTERNAL_ERROR, error.to_string()))?;
    match link {
        Some(link) => connect(face, conn, peer, session, link).await.map(Some),
        None => Ok(None),
    }
}

/// Introduces the client to the other host.
async fn connect(
    face: &Arc<Face>,
    conn: &Arc<Conn>,
    peer: &Peer,
    session: String,
    link: Box<dyn Link>,
) -> Result<Arc<Relay>, RpcError> {
    let failed = |what: &str| RpcError::new(code::INTERNAL_ERROR, format!("the host that has the session {what}"));
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let greeted = client_async_with_config("ws://localhost/", link, Some(config));
    let (socket, _) = match tokio::time::timeout(PATIENCE, greeted).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return Err(failed(&format!("does not let its clients in: {error}"))),
        Err(_) => return Err(failed("does not answer")),
    };
    let (out, queue) = mpsc::channel(WAITING);
    let relay = Relay::new(face, conn, session.clone(), out);
    conn.relays.0.lock().insert(session, relay.clone());
    face.tasks
        .spawn(carry(conn.clone(), Arc::downgrade(&relay), socket, queue));
    let initialize = json!({
        "channel": ahp_types::ROOT_RESOURCE_URI,
        "protocolVersions": [peer.version],
        "clientId": &*peer.client,
        "clientInfo": { "name": peer.name, "version": "" },
    });
    match relay.call("initialize", &initialize).await {
        Ok(_) => Ok(relay),
        Err(error) => {
            conn.relays.remove(&relay.session);
            Err(error)
        }
    }
}
