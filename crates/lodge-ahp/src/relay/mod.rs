//! Sessions that another host of the fleet has in use: what a client says of one is handed on to that host, and what that host
//! says goes to the client, under numbers of this host. The client sees one connection; the other host sees a client of its
//! own, with the same id. This host lets the client in and says who it is; what it may do is checked on both.

mod link;

use std::{collections::HashMap, sync::Arc, time::Duration};

use lodge_door::Introduction;
use lodge_host::{Link, Wire};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};
use tokio_tungstenite::{client_async_with_config, tungstenite::protocol::WebSocketConfig};

pub(crate) use self::link::Hold;
use self::link::{Asked, By, Claim, PATIENCE, Relay, Then, carry};
use crate::{
    actions, annotations,
    changesets::Kind,
    face::Face,
    methods,
    rpc::{self, Incoming, RpcError, code},
    state::{Conn, Peer},
    uri,
    version::Dialect,
    wire::Origin,
};

/// How many messages wait for the other host before the client's next one is not read.
const WAITING: usize = 64;

/// So many sessions of other hosts a connection can have to do with at a time.
const MOST: usize = 256;
/// How long another host may take to say who its client is, and how much that may be.
const INTRODUCTION: (Duration, usize) = (Duration::from_secs(10), 4 << 10);

/// What is handed on, and by what it names the session. Everything else is this host's, and so is what nobody has thought of yet.
const HANDED_ON: [(&str, Field); 15] = [
    ("subscribe", Field::Channel),
    ("unsubscribe", Field::Channel),
    ("dispatchAction", Field::Channel),
    ("disposeSession", Field::Channel),
    ("createChat", Field::Channel),
    ("disposeChat", Field::Channel),
    ("moveChat", Field::Channel),
    ("invokeChangesetOperation", Field::Channel),
    ("fetchTurns", Field::Channel),
    ("completions", Field::Channel),
    ("lodge/todos", Field::Channel),
    ("lodge/signIn", Field::Channel),
    ("lodge/stopWork", Field::Channel),
    ("lodge/workOutput", Field::Channel),
    ("resourceRead", Field::Uri),
];

/// The field in which a message names its session.
#[derive(Clone, Copy, PartialEq)]
enum Field {
    Channel,
    /// The contents of a tool call; other addresses are about no session.
    Uri,
}

/// The sessions of other hosts that a connection has to do with, by their addresses.
#[derive(Default)]
pub(crate) struct Relays(Mutex<HashMap<String, Arc<Relay>>>);

impl Relays {
    fn get(&self, session: &str) -> Option<Claim> {
        self.0.lock().get(session).map(Claim::new)
    }

    fn has(&self, session: &str) -> bool {
        self.0.lock().contains_key(session)
    }

    /// Adds one; answers with the one that is there already, if there is.
    fn add(&self, relay: &Arc<Relay>) -> Result<Claim, RpcError> {
        let mut all = self.0.lock();
        if all.len() >= MOST {
            let text = format!("a connection can use {MOST} sessions of other hosts at a time");
            return Err(RpcError::new(code::TOO_BUSY, text));
        }
        Ok(Claim::new(all.entry(relay.session.clone()).or_insert(relay.clone())))
    }

    /// Leaves one that nobody needs any more.
    fn leave_unused(&self, relay: &Relay) {
        let mut all = self.0.lock();
        let is_it = |kept: &Arc<Relay>| std::ptr::eq(&raw const **kept, relay);
        let left = match all.get(&relay.session).is_some_and(is_it) && relay.is_unused() {
            true => all.remove(&relay.session),
            false => None,
        };
        drop(all);
        drop(left);
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

/// What messages name.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    action: Option<Value>,
    #[serde(default)]
    client_seq: Option<i64>,
}

/// A message that is handed on if another host has its session in use.
struct About<'a> {
    peer: &'a Peer,
    method: &'a str,
    params: Option<&'a RawValue>,
    /// What it names of the session.
    named: String,
    names: Names,
}

fn about<'a>(conn: &'a Conn, incoming: &'a Incoming) -> Option<About<'a>> {
    let peer = conn.peer().filter(|peer| peer.dialect == Dialect::Modern)?;
    let (Incoming::Request { method, params, .. } | Incoming::Notification { method, params }) = incoming else {
        return None;
    };
    let (_, field) = HANDED_ON.iter().find(|(name, _)| name == method)?;
    let names = rpc::params::<Names>(params.as_deref()).ok()?;
    let allowed = match (method.as_str(), &names.action) {
        ("dispatchAction", Some(action)) => actions::may_dispatch(&conn.admission, action).is_ok(),
        _ => methods::find(method, Some(peer)).is_none_or(|method| conn.admission.check(method.role).is_ok()),
    };
    let named = match field {
        Field::Channel => names.channel.as_deref(),
        Field::Uri => {
            let uri = names.uri.as_deref();
            uri.filter(|uri| uri::path(uri).is_none() && uri::session_of_content(uri).is_some())
        }
    };
    let named = named.filter(|_| allowed)?.to_owned();
    Some(About {
        peer,
        method,
        params: params.as_deref(),
        named,
        names,
    })
}

/// The session that a message is about, if it may be another host's, and whether it is known which host has it.
pub(crate) async fn session_of(face: &Arc<Face>, conn: &Arc<Conn>, incoming: &Incoming) -> Option<(String, bool)> {
    let about = about(conn, incoming)?;
    let (session, id) = locate(face, &about.named).await?;
    let is_known = conn.relays.has(&session) || face.host.live(&id).is_some();
    Some((session, is_known))
}

/// Hands a message on when it is about a session that another host has in use; gives it back otherwise.
pub(crate) async fn hand_on(face: &Arc<Face>, conn: &Arc<Conn>, incoming: Incoming) -> Option<Incoming> {
    let Some(About {
        peer,
        method,
        params,
        named,
        names,
    }) = about(conn, &incoming)
    else {
        return Some(incoming);
    };
    let relay = match find(face, conn, peer, &named).await {
        Ok(Some(relay)) => relay,
        Ok(None) => return Some(incoming),
        // Deleting needs nothing of the session, neither its directory nor its host.
        Err(_) if method == "disposeSession" => return Some(incoming),
        Err(error) => {
            match (&incoming, &names.action) {
                (Incoming::Request { id, .. }, _) => conn.push(rpc::response(Some(id), &Err(error))),
                (_, Some(action)) => {
                    let origin = Origin {
                        client_id: peer.client.clone(),
                        client_seq: names.client_seq.unwrap_or_default(),
                    };
                    let core = &face.inner.lock().core;
                    core.reject(conn, &named, action, &origin, &error.message);
                }
                _ => {}
            }
            return None;
        }
    };
    let text = params.map_or("{}", RawValue::get);
    if let Incoming::Request { id, .. } = &incoming {
        let asked = Asked {
            by: By::Client(id.clone()),
            then: match method {
                "subscribe" => Then::Listens(named),
                "disposeSession" => Then::IsOver,
                _ => Then::Nothing,
            },
        };
        relay.ask(method, text, asked).await;
        return None;
    }
    relay.notify(method, text).await;
    if method == "unsubscribe" {
        relay.inner.lock().channels.remove(&named);
    }
    None
}

/// Reads who the client is that another host hands on: one line, before everything else.
pub(crate) async fn introduction(stream: &mut (impl AsyncRead + Unpin)) -> Option<Introduction> {
    let (patience, longest) = INTRODUCTION;
    let mut line = Vec::new();
    let reading = async {
        while line.len() < longest {
            match stream.read_u8().await.ok()? {
                b'\n' => return serde_json::from_slice(&line).ok(),
                byte => line.push(byte),
            }
        }
        None
    };
    tokio::time::timeout(patience, reading).await.ok()?
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

/// The session to which an address leads, with the host's id of it.
async fn locate(face: &Face, uri: &str) -> Option<(String, String)> {
    if uri == ahp_types::ROOT_RESOURCE_URI {
        return None;
    }
    let within = Kind::parse(uri).map(|(session, _)| session);
    let within = within.or_else(|| annotations::session_of(uri));
    let within = within.or_else(|| uri::session_of_content(uri).map(|(session, _)| session));
    face.locate(within.unwrap_or(uri)).await
}

/// The way to the host that has the session of this address in use; nothing when it is here or can be.
async fn find(face: &Arc<Face>, conn: &Arc<Conn>, peer: &Peer, uri: &str) -> Result<Option<Claim>, RpcError> {
    let Some((session, id)) = locate(face, uri).await else {
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
    mut link: Box<dyn Link>,
) -> Result<Claim, RpcError> {
    let failed = |what: &str| RpcError::new(code::INTERNAL_ERROR, format!("the host that has the session {what}"));
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let greeted = async {
        let mut line = serde_json::to_vec(&conn.admission.introduction()).map_err(std::io::Error::from)?;
        line.push(b'\n');
        link.write_all(&line).await?;
        client_async_with_config("ws://localhost/", link, Some(config)).await
    };
    let (socket, _) = match tokio::time::timeout(PATIENCE, greeted).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => return Err(failed(&format!("cannot accept clients: {error}"))),
        Err(_) => return Err(failed("does not answer")),
    };
    let (out, queue) = mpsc::channel(WAITING);
    let relay = Relay::new(face, conn, session, out);
    let claim = conn.relays.add(&relay)?;
    if !claim.is(&relay) {
        return Ok(claim);
    }
    face.tasks
        .spawn(carry(conn.clone(), Arc::downgrade(&relay), socket, queue));
    drop(relay);
    let initialize = json!({
        "channel": ahp_types::ROOT_RESOURCE_URI,
        "protocolVersions": [peer.version],
        "clientId": &*peer.client,
        "clientInfo": { "name": peer.name, "version": "" },
    });
    match claim.call("initialize", &initialize).await {
        Ok(_) => Ok(claim),
        Err(error) => {
            conn.relays.remove(&claim.session);
            Err(error)
        }
    }
}
