//! One connection: frames in, in order; frames out, fed and flushed when the queue drains.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use lodge_door::Admission;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};

use crate::{
    actions,
    face::Face,
    methods::{self, Method, Order, Reply, Request},
    rpc::{self, Incoming, RpcError, code},
    state::{Closing, Conn},
    version::Dialect,
};

/// So long who is sent away may take to read why.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Lives as long as the socket does.
pub(crate) async fn run(face: Arc<Face>, socket: WebSocket, admission: Admission) {
    let Some(conn) = face.connect(admission) else {
        tracing::warn!("too many connections");
        return;
    };
    let (sink, mut stream) = socket.split();
    let mut writer = tokio::spawn(write(conn.clone(), sink));
    let limits = face.config.limits.clone();
    let (work, queue) = mpsc::channel::<Incoming>(limits.outstanding);
    let worker = tokio::spawn(process(face.clone(), conn.clone(), queue));
    let ended_here = loop {
        let message = tokio::select! {
            message = stream.next() => message,
            () = conn.ended() => break true,
            () = conn.admission.revoked() => {
                conn.close(Closing::Revoked);
                break true;
            }
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(bytes))) => match bytes.try_into() {
                Ok(text) => text,
                Err(_) => {
                    answer(&conn, None, Err(RpcError::new(code::PARSE_ERROR, "not text")));
                    continue;
                }
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Err(_)) => {
                conn.close(Closing::Broken);
                break false;
            }
            Some(Ok(Message::Close(_))) | None => break false,
        };
        match rpc::parse(&text, limits.json_depth) {
            // Answered out of turn, so that a slow request does not make the host look dead.
            Ok(Incoming::Request { id, method, .. }) if method == "ping" => answer(&conn, Some(&id), rpc::null()),
            // Whoever waits for it may be what the queue waits for.
            Ok(Incoming::Response { id, result }) => conn.answered(id, result),
            Ok(incoming) => {
                if let Err(mpsc::error::TrySendError::Full(Incoming::Request { id, .. })) = work.try_send(incoming) {
                    answer(
                        &conn,
                        Some(&id),
                        Err(RpcError::new(code::TOO_BUSY, "too many requests wait already")),
                    );
                }
            }
            Err((id, error)) => answer(&conn, id.as_deref(), Err(error)),
        }
    };
    drop(work);
    // What was said last says why it ends: nothing cuts it off, unless nobody reads it.
    let written = ended_here && timeout(LAST_WORDS, &mut writer).await.is_ok();
    conn.close(Closing::Gone);
    let _ = worker.await;
    face.disconnect(&conn);
    if !written {
        let _ = writer.await;
    }
}

fn answer(conn: &Conn, id: Option<&RawValue>, result: rpc::RpcResult) {
    conn.push(rpc::response(id, &result));
}

/// Sends what is queued. Frames are fed to the socket and flushed once nothing more waits.
async fn write(conn: Arc<Conn>, mut sink: SplitSink<WebSocket, Message>) {
    let mut frames = VecDeque::new();
    let why = loop {
        if let Err(why) = conn.take(&mut frames).await {
            break why;
        }
        while let Some(queued) = frames.pop_front() {
            let bytes = queued.frame.len();
            let sent = tokio::select! {
                sent = sink.feed(Message::Text(queued.frame.clone().into_bytes())) => sent,
                // A client that does not read would keep this waiting for ever.
                () = conn.cut() => break,
            };
            if sent.is_err() {
                conn.close(Closing::Gone);
                return;
            }
            conn.sent(bytes);
        }
        let flushed = tokio::select! {
            flushed = sink.flush() => flushed,
            () = conn.cut() => continue,
        };
        if flushed.is_err() {
            conn.close(Closing::Gone);
            return;
        }
    };
    let (code, reason) = why.frame();
    let bye = Message::Close(Some(CloseFrame {
        code,
        reason: reason.into(),
    }));
    let _ = timeout(LAST_WORDS, sink.send(bye)).await;
}

#[derive(Deserialize)]
struct Unsubscribe {
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    resource: Option<String>,
}

/// Takes messages one after the other; what needs no order runs beside.
async fn process(face: Arc<Face>, conn: Arc<Conn>, mut queue: mpsc::Receiver<Incoming>) {
    let beside = Arc::new(Semaphore::new(16));
    while let Some(incoming) = queue.recv().await {
        match incoming {
            Incoming::Request { id, method, params } => {
                let Some(found) = methods::find(&method, conn.peer()) else {
                    tracing::debug!(method, "no such method here");
                    answer(&conn, Some(&id), Err(RpcError::method(&method)));
                    continue;
                };
                match found.order {
                    Order::InTurn => respond(&face, &conn, found, &id, params.as_deref()).await,
                    Order::Beside => {
                        let Ok(slot) = beside.clone().acquire_owned().await else {
                            return;
                        };
                        let (face, conn) = (face.clone(), conn.clone());
                        tokio::spawn(async move {
                            respond(&face, &conn, found, &id, params.as_deref()).await;
                            drop(slot);
                        });
                    }
                }
            }
            Incoming::Notification { method, params } => notified(&face, &conn, &method, params.as_deref()).await,
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
        "dispatchAction" => actions::dispatch(face, conn, peer, params).await,
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
        _ => tracing::debug!(method, "a notification that means nothing here"),
    }
}
