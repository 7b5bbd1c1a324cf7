//! Sessions that another host of the fleet is using: relays the client's messages to that host, and the host's messages to the
//! client. The client sees one connection; the other host sees an ordinary client.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use lodge_host::{HostError, Link, Wire};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::io::AsyncRead;
use uuid::Uuid;

use crate::{
    connection::Ctx,
    frame::{Frame, FrameReader, Inbound},
    peer::{CallError, Peer},
    rpc::{Incoming, Params, Reply, RpcError},
};

/// The request for a new session.
pub(crate) const CREATE: &str = "session.create";
const RESUME: &str = "session.resume";
const DELETE: &str = "session.delete";
/// Requests for a session that the client does not have open.
pub(crate) const OPENING: [&str; 3] = [RESUME, "sessions.fork", DELETE];
/// Requests that close a session.
const CLOSING: [&str; 2] = ["session.destroy", DELETE];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    session_id: String,
}

/// The session that a request names.
pub(crate) fn session_of(params: &Params) -> Option<String> {
    params.parse::<Named>().ok().map(|named| named.session_id)
}

/// A forwarded request.
struct Asked {
    id: Box<RawValue>,
    method: String,
}

/// The relay to the host that has one of the client's sessions in use.
pub(crate) struct Relay {
    session: String,
    client: Peer,
    owner: Peer,
    /// Whether the client has it open there.
    is_open: AtomicBool,
    asked: Mutex<HashMap<u64, Asked>>,
    last: AtomicU64,
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Requests that still wait get an error.
        for Asked { id, method } in std::mem::take(self.asked.get_mut()).into_values() {
            let gone = RpcError::failed("the client left the session before this was answered");
            self.client.answer(&id, Err(gone.of_method(&method)));
        }
        self.owner.close("the client has left the session");
    }
}

/// Finds the host that uses a session now; `None` if this host can have it.
pub(crate) async fn reach(ctx: &Ctx, method: &str, session: &str) -> Result<Option<Arc<Relay>>, HostError> {
    let link = match ctx.host.way_to(session, Wire::Sdk).await {
        // Deleting needs neither the session's directory nor its host.
        Err(_) if method == DELETE => return Ok(None),
        link => link?,
    };
    Ok(link.map(|link| begin(ctx, session, link)))
}

/// Finds the host that is to make a new session, with the parameters that name the session; `None` if this host is to make it.
pub(crate) async fn place(ctx: &Ctx, params: &Params) -> Result<Option<(Arc<Relay>, Params)>, HostError> {
    let Ok(mut new) = params.parse::<serde_json::Map<String, Value>>() else {
        return Ok(None);
    };
    let Some(directory) = new.get("workingDirectory").and_then(Value::as_str) else {
        return Ok(None);
    };
    let Some(link) = ctx.host.way_for(directory, Wire::Sdk).await? else {
        return Ok(None);
    };
    let named = new.get("sessionId").and_then(Value::as_str).map(str::to_owned);
    let session = named.unwrap_or_else(|| Uuid::new_v4().to_string());
    new.insert("sessionId".into(), session.clone().into());
    let params = serde_json::value::to_raw_value(&new).expect("JSON is written as it was read");
    Ok(Some((begin(ctx, &session, link), Params::new(Some(&params)))))
}

/// A relay by a link. If the session has one already, that one.
fn begin(ctx: &Ctx, session: &str, link: Box<dyn Link>) -> Arc<Relay> {
    let relay = Arc::new(Relay {
        session: session.to_owned(),
        client: ctx.peer.clone(),
        is_open: AtomicBool::new(false),
        owner: Peer::new(ctx.shared.options.queue_bytes),
        asked: Mutex::default(),
        last: AtomicU64::new(0),
    });
    let kept = ctx.keep_relay(session, relay.clone());
    if !Arc::ptr_eq(&kept, &relay) {
        return kept;
    }
    let (input, mut output) = tokio::io::split::<Box<dyn Link>>(link);
    let owner = relay.owner.clone();
    tokio::spawn(async move { owner.write_to(&mut output).await });
    tokio::spawn(listen(ctx.clone(), relay.owner.clone(), Arc::downgrade(&relay), input));
    if let Some(greeting) = ctx.greeting() {
        relay.send("connect", &greeting);
    }
    relay
}

impl Relay {
    /// Forwards a request. Its response goes to the client under the client's id.
    pub(crate) fn forward(&self, id: &RawValue, method: &str, params: &Params) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = Asked {
            id: id.to_owned(),
            method: method.to_owned(),
        };
        self.asked.lock().insert(number, asked);
        self.push(number, method, params.raw());
    }

    /// Sends a request whose response is ignored.
    fn send(&self, method: &str, params: &Value) {
        self.push(0, method, &params.to_string());
    }

    fn push(&self, number: u64, method: &str, params: &str) {
        let method = Value::from(method);
        let text = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":{method},"params":{params}}}"#);
        self.owner.push(Frame::whole(text));
    }

    /// The other host's response.
    fn answered(&self, ctx: &Ctx, number: u64, answer: Result<Reply, RpcError>) {
        let (asked, is_last) = {
            let mut all = self.asked.lock();
            (all.remove(&number), all.is_empty())
        };
        let Some(Asked { id, method }) = asked else { return };
        if answer.is_ok() && [CREATE, RESUME].contains(&method.as_str()) {
            self.is_open.store(true, Ordering::Relaxed);
        }
        let closes = answer.is_ok() && CLOSING.contains(&method.as_str());
        // A session that is open stays open, and other waiting requests get responses.
        let is_over = closes || is_last && !self.is_open.load(Ordering::Relaxed);
        ctx.peer.answer(&id, answer);
        if is_over {
            ctx.forget_relay(&self.session);
        }
    }
}

/// Forwards the other host's messages until the link ends. Then the client has to reconnect: it cannot know what it
/// missed.
async fn listen(ctx: Ctx, owner: Peer, relay: std::sync::Weak<Relay>, input: impl AsyncRead + Unpin) {
    let mut frames = FrameReader::new(input);
    loop {
        let next = tokio::select! {
            next = frames.next() => next,
            () = owner.closed() => break,
            () = ctx.peer.closed() => break,
        };
        let Ok(Some(Inbound::Body(body))) = next else { break };
        let Some(relay) = relay.upgrade() else { return };
        if !take(&ctx, &relay, body) {
            break;
        }
    }
    let Some(relay) = relay.upgrade() else { return };
    if ctx.forget_relay(&relay.session) {
        ctx.peer
            .close("the host that runs one of its sessions is gone; it can reconnect");
    }
}

/// Forwards one message. False if the message cannot be read.
fn take(ctx: &Ctx, relay: &Arc<Relay>, body: Vec<u8>) -> bool {
    let Ok(message) = serde_json::from_slice::<Incoming<'_>>(&body) else {
        return false;
    };
    if let (Some(method), None) = (&message.method, message.id) {
        // This host itself notifies its clients of session changes.
        let is_own = method == "session.lifecycle";
        drop(message);
        if !is_own {
            ctx.peer.push(Frame::whole(body));
        }
        return true;
    }
    match (message.method, message.id) {
        (Some(method), Some(id)) => {
            let (method, id) = (method.into_owned(), id.to_owned());
            let params = message.params.map(ToOwned::to_owned);
            let (client, owner) = (ctx.peer.clone(), relay.owner.clone());
            tokio::spawn(async move {
                let answer = match client.call(&method, &params).await {
                    Ok(value) => Reply::of(&value),
                    Err(CallError::Refused(error)) => Err(error),
                    Err(CallError::Gone) => return,
                };
                owner.answer(&id, answer);
            });
        }
        (None, Some(id)) => {
            let answer = match (message.error, message.result) {
                (Some(error), _) => Err(error),
                (None, result) => Ok(Reply::raw(result.map_or("null", RawValue::get).to_owned())),
            };
            if let Ok(number) = id.get().parse() {
                relay.answered(ctx, number, answer);
            }
        }
        (_, None) => return false,
    }
    true
}
