//! One connection: frames in, in order; frames out, fed and flushed when the queue drains.
//!
//! Nothing that a client sends is dropped. What has to wait for its turn is held up to a number of bytes; beyond that the
//! socket is not read, and the client's own writes wait.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use lodge_door::Admission;
use lodge_http::Socket;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tokio_tungstenite::tungstenite::{
    self, Message, Utf8Bytes,
    protocol::{
        CloseFrame,
        frame::{
            Frame,
            coding::{Data, OpCode},
        },
    },
};

use crate::{
    actions,
    contents::LargeAnswer,
    face::Face,
    methods::{self, Method, Order, Reply, Request},
    relay,
    rpc::{self, Incoming, RpcError, code},
    state::{Closing, Conn, Queued},
    version::Dialect,
};

/// So long who is sent away may take to read why.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// So much of a message that is too large is read and forgotten, and for so long.
const DISCARDED: usize = 256 << 20;
const DISCARDING: Duration = Duration::from_secs(10);

/// What a message costs beside its bytes while it waits.
const MESSAGE_COST: usize = 256;

/// A message that waits for its turn, and the room that it takes until it is dealt with.
type Waiting = (Incoming, OwnedSemaphorePermit);

/// Lives as long as the socket does.
pub(crate) async fn run(face: Arc<Face>, socket: Socket, admission: Admission) {
    let conn = face.connect(admission);
    if conn.admission.identity.device().is_some() {
        tokio::spawn(watch_device(conn.clone()));
    }
    let (sink, mut stream) = socket.split();
    let mut writer = tokio::spawn(write(face.clone(), conn.clone(), sink));
    let limits = face.config.limits.clone();
    let room = Arc::new(Semaphore::new(limits.waiting_bytes));
    let (work, queue) = mpsc::unbounded_channel::<Waiting>();
    let worker = tokio::spawn(process(face.clone(), conn.clone(), queue));
    let mut too_large = false;
    let ended_here = loop {
        let message = tokio::select! {
            message = stream.next() => message,
            () = conn.ended() => break true,
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(bytes))) => match Utf8Bytes::try_from(bytes) {
                Ok(text) => text,
                Err(_) => {
                    answer(&conn, None, Err(RpcError::new(code::PARSE_ERROR, "not text")));
                    continue;
                }
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Err(error)) => {
                too_large = matches!(error, tungstenite::Error::Capacity(_));
                conn.close(if too_large { Closing::TooLarge } else { Closing::Broken });
                break too_large;
            }
            Some(Ok(Message::Close(_))) | None => break false,
        };
        match rpc::parse(&text, limits.json_depth) {
            // Answered out of turn, so that a slow request does not make the host look dead.
            Ok(Incoming::Request { id, method, .. }) if method == "ping" => answer(&conn, Some(&id), rpc::null()),
            // Whoever waits for it may be what the queue waits for.
            Ok(Incoming::Response { id, result }) => conn.answered(id, result),
            Ok(incoming) => {
                let cost = (text.len() + MESSAGE_COST).min(limits.waiting_bytes);
                let cost = u32::try_from(cost).unwrap_or(u32::MAX);
                let room = tokio::select! {
                    room = room.clone().acquire_many_owned(cost) => room,
                    () = conn.ended() => break true,
                };
                // The worker takes everything until the connection ends, and nobody closes the semaphore.
                if let Ok(room) = room {
                    let _ = work.send((incoming, room));
                }
            }
            Err((id, error)) => answer(&conn, id.as_deref(), Err(error)),
        }
    };
    drop(work);
    // What was said last says why it ends: nothing cuts it off, unless nobody reads it.
    let mut written = None;
    if ended_here {
        written = timeout(LAST_WORDS, &mut writer).await.ok();
    }
    conn.close(Closing::Gone);
    let _ = worker.await;
    conn.relays.clear();
    face.disconnect(&conn);
    let written = match written {
        Some(written) => written,
        None => writer.await,
    };
    if too_large
        && let Ok(sink) = written
        && let Ok(mut socket) = stream.reunite(sink)
    {
        discard(socket.get_mut()).await;
    }
}

/// Reads what a client is still sending. It looks for the reason only when it is done, and a connection that is closed on
/// it loses the reason.
async fn discard(socket: &mut (impl AsyncRead + Unpin)) {
    let mut left = DISCARDED;
    let mut buffer = vec![0; 64 << 10];
    let reading = async {
        while left > 0
            && let Ok(read @ 1..) = socket.read(&mut buffer).await
        {
            left = left.saturating_sub(read);
        }
    };
    let _ = timeout(DISCARDING, reading).await;
}

/// Ends the connection at once when its device is revoked, whatever it waits for.
async fn watch_device(conn: Arc<Conn>) {
    tokio::select! {
        () = conn.admission.revoked() => conn.close(Closing::Revoked),
        () = conn.ended() => {}
    }
}

fn answer(conn: &Conn, id: Option<&RawValue>, result: rpc::RpcResult) {
    conn.push(rpc::response(id, &result));
}

/// Why nothing more is written.
enum Unwritten {
    /// The client does not read, or is gone.
    Cut,
    /// Writing failed.
    Broken,
    /// What was to be written cannot be had.
    Unreadable,
}

impl From<tungstenite::Error> for Unwritten {
    fn from(_: tungstenite::Error) -> Self {
        Self::Broken
    }
}

type Sink = SplitSink<Socket, Message>;

/// Feeds a message to the socket. A client that does not read would keep this waiting for ever.
async fn feed(conn: &Conn, sink: &mut Sink, message: Message) -> Result<(), Unwritten> {
    tokio::select! {
        sent = sink.feed(message) => Ok(sent?),
        () = conn.cut() => Err(Unwritten::Cut),
    }
}

/// Sends an answer in pieces as it is made: one message of several frames.
async fn feed_large(conn: &Conn, sink: &mut Sink, mut answer: LargeAnswer) -> Result<(), Unwritten> {
    let mut opcode = OpCode::Data(Data::Text);
    loop {
        let Ok((piece, last)) = answer.next().await else {
            return Err(Unwritten::Unreadable);
        };
        feed(conn, sink, Message::Frame(Frame::message(piece, opcode, last))).await?;
        if last {
            return Ok(());
        }
        opcode = OpCode::Data(Data::Continue);
    }
}

/// Sends what is queued. Frames are fed to the socket and flushed once nothing more waits.
async fn write(face: Arc<Face>, conn: Arc<Conn>, mut sink: Sink) -> Sink {
    let mut frames = VecDeque::new();
    let why = loop {
        if let Err(why) = conn.take(&mut frames).await {
            break why;
        }
        match write_all(&conn, &mut sink, &mut frames).await {
            Ok(()) => {}
            Err(Unwritten::Cut) => frames.clear(),
            Err(Unwritten::Broken) => {
                conn.close(Closing::Gone);
                return sink;
            }
            // The client has half a message: it can only begin anew.
            Err(Unwritten::Unreadable) => {
                conn.close(Closing::Unreadable);
                break Closing::Unreadable;
            }
        }
    };
    if why == Closing::TooSlow {
        face.host.metrics().client_dropped();
    }
    let (code, reason) = why.frame();
    let bye = Message::Close(Some(CloseFrame {
        code: code.into(),
        reason: reason.into(),
    }));
    let _ = timeout(LAST_WORDS, sink.send(bye)).await;
    sink
}

async fn write_all(conn: &Conn, sink: &mut Sink, frames: &mut VecDeque<Queued>) -> Result<(), Unwritten> {
    while let Some(queued) = frames.pop_front() {
        match queued {
            Queued::Frame(frame) => {
                let bytes = frame.len();
                feed(conn, sink, Message::Text(frame.into_bytes())).await?;
                conn.sent(bytes);
            }
            Queued::Large(answer, _turn) => feed_large(conn, sink, answer).await?,
        }
    }
    tokio::select! {
        flushed = sink.flush() => Ok(flushed?),
        () = conn.cut() => Err(Unwritten::Cut),
    }
}

#[derive(Deserialize)]
struct Unsubscribe {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    resource: Option<String>,
}

/// Takes messages one after the other; what needs no order runs beside.
async fn process(face: Arc<Face>, conn: Arc<Conn>, mut queue: mpsc::UnboundedReceiver<Waiting>) {
    let taking = Taking {
        face,
        conn,
        beside: Arc::new(Semaphore::new(16)),
    };
    let mut lanes = Lanes::default();
    while let Some(waiting) = queue.recv().await {
        if let Some(waiting) = lanes.defer(&taking, waiting).await {
            taking.take(waiting).await;
        }
    }
    lanes.end().await;
}

/// Messages about sessions whose host is not known yet. Finding a host can take as long as its lease, and meanwhile only the messages
/// about this session wait, in their order.
#[derive(Default)]
struct Lanes {
    /// By the addresses of the sessions.
    lanes: HashMap<String, Lane>,
    tasks: JoinSet<()>,
}

struct Lane {
    queue: mpsc::UnboundedSender<Waiting>,
    /// How many messages it has not dealt with.
    left: Arc<AtomicUsize>,
}

impl Lanes {
    /// Takes a message that has to wait. Gives others back.
    async fn defer(&mut self, taking: &Taking, waiting: Waiting) -> Option<Waiting> {
        if !taking.face.host.is_kept() {
            return Some(waiting);
        }
        self.lanes.retain(|_, lane| lane.left.load(Ordering::Acquire) > 0);
        while self.tasks.try_join_next().is_some() {}
        let Some((session, is_known)) = relay::session_of(&taking.face, &taking.conn, &waiting.0).await else {
            return Some(waiting);
        };
        if is_known && !self.lanes.contains_key(&session) {
            return Some(waiting);
        }
        let tasks = &mut self.tasks;
        let lane = self.lanes.entry(session).or_insert_with(|| {
            let (queue, mut waiting) = mpsc::unbounded_channel();
            let (taking, left) = (taking.clone(), Arc::new(AtomicUsize::new(0)));
            let undone = left.clone();
            tasks.spawn(async move {
                while let Some(next) = waiting.recv().await {
                    taking.take(next).await;
                    undone.fetch_sub(1, Ordering::Release);
                }
            });
            Lane { queue, left }
        });
        lane.left.fetch_add(1, Ordering::Relaxed);
        lane.queue.send(waiting).err().map(|unsent| unsent.0)
    }

    /// Deals with what is left.
    async fn end(mut self) {
        self.lanes.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Deals with the messages of a connection.
#[derive(Clone)]
struct Taking {
    face: Arc<Face>,
    conn: Arc<Conn>,
    beside: Arc<Semaphore>,
}

impl Taking {
    async fn take(&self, (mut incoming, room): Waiting) {
        let Self { face, conn, beside } = self;
        if face.host.is_kept() {
            match relay::hand_on(face, conn, incoming).await {
                Some(ours) => incoming = ours,
                None => return,
            }
        }
        match incoming {
            Incoming::Request { id, method, params } => {
                // A client that asks faster than it reads waits for its own answers.
                conn.drained().await;
                let Some(found) = methods::find(&method, conn.peer()) else {
                    tracing::debug!(method, "no such method here");
                    let mut error = RpcError::method(&method);
                    if conn.peer().is_none() {
                        error.message += " before initialize";
                    }
                    answer(conn, Some(&id), Err(error));
                    return;
                };
                match found.order {
                    Order::InTurn => respond(face, conn, found, &id, params.as_deref()).await,
                    Order::Beside => {
                        let Ok(slot) = beside.clone().acquire_owned().await else {
                            return;
                        };
                        let (face, conn) = (face.clone(), conn.clone());
                        tokio::spawn(async move {
                            respond(&face, &conn, found, &id, params.as_deref()).await;
                            drop((slot, room));
                        });
                    }
                }
            }
            Incoming::Notification { method, params } => notified(face, conn, &method, params.as_deref()).await,
            Incoming::Response { .. } => {}
        }
    }
}

async fn respond(face: &Arc<Face>, conn: &Arc<Conn>, method: &Method, id: &RawValue, params: Option<&RawValue>) {
    let request = Request {
        face,
        conn,
        peer: conn.peer().cloned(),
        id,
        params,
    };
    if let Reply::Result(result) = methods::call(method, &request).await {
        answer(conn, Some(id), result);
    }
}

async fn notified(face: &Arc<Face>, conn: &Arc<Conn>, method: &str, params: Option<&RawValue>) {
    let Some(peer) = conn.peer() else { return };
    match method {
        // Large, because it may open a session: no connection keeps room for it.
        "dispatchAction" => Box::pin(actions::dispatch(face, conn, peer, params)).await,
        "unsubscribe" => {
            let Ok(params) = rpc::params::<Unsubscribe>(params) else {
                return;
            };
            let named = if peer.dialect == Dialect::Seed {
                params.resource.or(params.channel)
            } else {
                params.channel
            };
            let Some(uri) = named else { return };
            let left = face.inner.lock().core.unsubscribe(conn.id, peer, &uri);
            if left {
                face.listeners_changed();
                face.somebody_left();
                face.client_left(&uri, &peer.client);
                let (again, unwatched) = (face.clone(), face.config.limits.unwatched);
                face.later(unwatched, move || again.unload_unwatched());
            }
        }
        _ => tracing::debug!(method, "an unknown notification"),
    }
}
