//! One link to the host that has a session in use: requests with their answers, and what that host says by itself.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use lodge_host::Link;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::{
    face::Face,
    rpc::{self, Incoming, RpcError, RpcResult, code},
    state::{Closing, Conn},
    wire::{Envelope, Frame, Origin},
};

/// How long the other host may take to answer this one.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How long a client may take that the other host asks something.
const CLIENT: Duration = Duration::from_secs(300);

/// How long what a client said is still handed on after it has left.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// The way to the host that has a session in use. It is left when the client neither listens to anything nor waits for anything there.
pub(super) struct Relay {
    pub(super) session: String,
    face: Arc<Face>,
    conn: Arc<Conn>,
    out: mpsc::Sender<Message>,
    pub(super) inner: Mutex<Inner>,
}

#[derive(Default)]
pub(super) struct Inner {
    /// How many are about to ask something.
    claims: usize,
    last: u64,
    asked: HashMap<u64, Asked>,
    /// What the client listens to over there.
    pub(super) channels: HashSet<String>,
    /// How many snapshots are still to be given to the client, and what it is told after them.
    holds: usize,
    held: Vec<Told>,
}

/// Something that the other host says by itself, and its parameters where it is an action.
struct Told {
    frame: Frame,
    action: Option<Box<RawValue>>,
}

/// Who waits for an answer of the other host, and what a good one means.
pub(super) struct Asked {
    pub(super) by: By,
    pub(super) then: Then,
}

pub(super) enum Then {
    Nothing,
    /// The client listens to this channel.
    Listens(String),
    /// There is no session any more.
    IsOver,
}

pub(super) enum By {
    /// The client, under this id.
    Client(Box<RawValue>),
    /// This host.
    Here(oneshot::Sender<RpcResult>),
}

/// While there is one, the relay is not left.
pub(super) struct Claim(Arc<Relay>);

impl Claim {
    pub(super) fn new(relay: &Arc<Relay>) -> Self {
        relay.inner.lock().claims += 1;
        Self(relay.clone())
    }

    pub(super) fn is(&self, relay: &Arc<Relay>) -> bool {
        Arc::ptr_eq(&self.0, relay)
    }
}

impl std::ops::Deref for Claim {
    type Target = Arc<Relay>;

    fn deref(&self) -> &Arc<Relay> {
        &self.0
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.inner.lock().claims -= 1;
        self.0.conn.relays.leave_unused(&self.0);
    }
}

/// Whoever still waits when the relay goes is told that no answer comes.
impl Drop for Relay {
    fn drop(&mut self) {
        let asked = std::mem::take(&mut self.inner.get_mut().asked);
        for Asked { by, .. } in asked.into_values() {
            if let By::Client(id) = by {
                let gone = RpcError::new(
                    code::INTERNAL_ERROR,
                    "the client left the session before this was answered",
                );
                self.conn.push(rpc::response(Some(&id), &Err(gone)));
            }
        }
    }
}

/// While there is one, the client hears nothing of a session: it is to get a snapshot first.
pub(crate) struct Hold(Arc<Relay>);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.holds -= 1;
        if inner.holds == 0 {
            for told in std::mem::take(&mut inner.held) {
                self.0.tell(told);
            }
        }
        drop(inner);
        self.0.conn.relays.leave_unused(&self.0);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action<'a> {
    channel: Cow<'a, str>,
    #[serde(borrow)]
    action: &'a RawValue,
    #[serde(default)]
    origin: Option<Sender>,
    #[serde(default)]
    rejection_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sender {
    client_id: String,
    client_seq: i64,
}

impl Relay {
    pub(super) fn new(face: &Arc<Face>, conn: &Arc<Conn>, session: String, out: mpsc::Sender<Message>) -> Arc<Self> {
        Arc::new(Self {
            session,
            face: face.clone(),
            conn: conn.clone(),
            out,
            inner: Mutex::default(),
        })
    }

    pub(super) async fn ask(&self, method: &str, params: &str, asked: Asked) {
        let number = {
            let mut inner = self.inner.lock();
            inner.last += 1;
            let number = inner.last;
            inner.asked.insert(number, asked);
            number
        };
        let method = Value::from(method);
        let text = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":{method},"params":{params}}}"#);
        // One that is gone is noticed by whoever listens to it.
        let _ = self.out.send(Message::text(text)).await;
    }

    pub(super) async fn notify(&self, method: &str, params: &str) {
        let method = Value::from(method);
        let text = format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#);
        let _ = self.out.send(Message::text(text)).await;
    }

    /// Asks on this host's own behalf.
    pub(super) async fn call(&self, method: &str, params: &Value) -> RpcResult {
        let (sender, answer) = oneshot::channel();
        let by = By::Here(sender);
        let asked = Asked {
            by,
            then: Then::Nothing,
        };
        self.ask(method, &params.to_string(), asked).await;
        self.within_patience(answer).await
    }

    /// Listens to a channel, on behalf of a client that is to get the snapshot from somebody else. Nothing is told of it before
    /// what comes with the snapshot is dropped.
    pub(super) async fn listen(self: &Arc<Self>, channel: &str) -> Result<(Option<Box<RawValue>>, Hold), RpcError> {
        let (sender, answer) = oneshot::channel();
        let asked = Asked {
            by: By::Here(sender),
            then: Then::Listens(channel.to_owned()),
        };
        let hold = {
            self.inner.lock().holds += 1;
            Hold(self.clone())
        };
        let params = json!({ "channel": channel }).to_string();
        self.ask("subscribe", &params, asked).await;
        let result = self.within_patience(answer).await?;
        Ok((self.snapshot(&result), hold))
    }

    /// Whether nobody listens to anything there, waits for anything or is about to.
    pub(super) fn is_unused(&self) -> bool {
        let inner = self.inner.lock();
        inner.claims == 0 && inner.holds == 0 && inner.asked.is_empty() && inner.channels.is_empty()
    }

    async fn within_patience(&self, answer: oneshot::Receiver<RpcResult>) -> RpcResult {
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            _ => Err(RpcError::new(
                code::INTERNAL_ERROR,
                "the host that has the session does not answer",
            )),
        }
    }

    /// The snapshot in an answer, with a number of this host. Everything after it gets higher ones.
    fn snapshot(&self, result: &RawValue) -> Option<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Subscribed {
            #[serde(default)]
            snapshot: Option<serde_json::Map<String, Value>>,
        }
        let mut snapshot = serde_json::from_str::<Subscribed>(result.get()).ok()?.snapshot?;
        snapshot.insert("fromSeq".into(), self.face.numbers.last().into());
        serde_json::value::to_raw_value(&snapshot).ok()
    }

    /// Takes one message of the other host. False when it cannot be read.
    fn take(self: &Arc<Self>, text: &str) -> bool {
        match rpc::parse(text, usize::MAX) {
            Ok(Incoming::Notification { method, params }) => {
                let mut inner = self.inner.lock();
                // Of everything else, this host tells its clients itself.
                if inner.is_heard(params.as_deref()) {
                    let told = Told {
                        frame: Frame::from(text.to_owned()),
                        action: params.filter(|_| method == "action"),
                    };
                    match inner.holds {
                        0 => self.tell(told),
                        _ => inner.held.push(told),
                    }
                }
            }
            Ok(Incoming::Request { id, method, params }) => self.ask_client(method, id, params.as_deref()),
            Ok(Incoming::Response { id, result }) => self.answered(id.unwrap_or_default(), result),
            Err(_) => return false,
        }
        true
    }

    /// Tells the client something. Actions get numbers of this host; a refusal has none of its own.
    fn tell(&self, told: Told) {
        let Told { frame, action } = told;
        let action = action
            .as_deref()
            .map(|params| serde_json::from_str::<Action<'_>>(params.get()));
        let Some(Ok(action)) = action else {
            return self.conn.push(frame);
        };
        let origin = action.origin.map(|origin| Origin {
            client_id: origin.client_id.into(),
            client_seq: origin.client_seq,
        });
        let envelope = Envelope {
            channel: Some(&*action.channel),
            action: &action.action,
            origin: origin.as_ref(),
            rejection_reason: action.rejection_reason.as_deref(),
        };
        let (spelt, is_refusal) = (envelope.spell(), action.rejection_reason.is_some());
        self.face.numbers.step(|step| match is_refusal {
            true => step.answer(&self.conn, spelt),
            false => step.pass_on(&self.conn, spelt),
        });
    }

    /// The other host asks the client something.
    fn ask_client(&self, method: String, id: Box<RawValue>, params: Option<&RawValue>) {
        let params = params.map_or("{}", RawValue::get).to_owned();
        let (conn, out) = (self.conn.clone(), self.out.clone());
        self.face.tasks.spawn(async move {
            let answer = conn.call(&method, &params, CLIENT).await;
            let answer = rpc::response(Some(&id), &answer);
            let _ = out.send(Message::text(answer.as_str())).await;
        });
    }

    fn answered(&self, number: u64, answer: RpcResult) {
        let mut inner = self.inner.lock();
        let Some(Asked { by, then }) = inner.asked.remove(&number) else {
            return;
        };
        let mut is_subscribed = false;
        match then {
            Then::Listens(channel) if answer.is_ok() => {
                is_subscribed = true;
                inner.channels.insert(channel);
            }
            Then::IsOver if answer.is_ok() => inner.channels.clear(),
            _ => {}
        }
        match by {
            By::Here(waiting) => drop(waiting.send(answer)),
            By::Client(id) => {
                let result = answer.as_ref().ok().filter(|_| is_subscribed);
                let snapshot = result.and_then(|result| self.snapshot(result));
                let answer = snapshot.map_or(answer, |snapshot| rpc::ok(json!({ "snapshot": snapshot })));
                self.conn.push(rpc::response(Some(&id), &answer));
            }
        }
        drop(inner);
        self.conn.relays.leave_unused(self);
    }
}

impl Inner {
    /// Whether the client is to hear something: what it listens to over there, and what becomes of what it said.
    fn is_heard(&self, params: Option<&RawValue>) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct About<'a> {
            #[serde(borrow, default)]
            channel: Option<Cow<'a, str>>,
            #[serde(default)]
            rejection_reason: Option<serde::de::IgnoredAny>,
        }
        let about = params.and_then(|params| serde_json::from_str::<About<'_>>(params.get()).ok());
        about.is_some_and(|about| {
            let is_heard = |channel: &str| self.channels.contains(channel);
            about.rejection_reason.is_some() || about.channel.as_deref().is_some_and(is_heard)
        })
    }
}

/// Carries messages both ways until the other host is gone or the relay is left. When it is the other host, the client has to come
/// back: nobody knows what it missed. What a client said before it went is still handed on.
pub(super) async fn carry(
    conn: Arc<Conn>,
    relay: Weak<Relay>,
    socket: WebSocketStream<Box<dyn Link>>,
    mut queue: mpsc::Receiver<Message>,
) {
    let (mut sink, mut stream) = socket.split();
    let sending = async {
        while let Some(message) = queue.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    };
    let listening = async {
        while let Some(Ok(message)) = stream.next().await {
            let Message::Text(text) = message else { continue };
            let Some(relay) = relay.upgrade() else { return };
            if !relay.take(&text) {
                return;
            }
        }
    };
    let last_words = async {
        conn.ended().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        // Nobody has the relay any more: the client has left the session.
        () = sending => {}
        () = listening => {}
        () = last_words => {}
    }
    let Some(relay) = relay.upgrade() else { return };
    if conn.relays.remove(&relay.session) {
        conn.close(Closing::OwnerGone);
    }
}
