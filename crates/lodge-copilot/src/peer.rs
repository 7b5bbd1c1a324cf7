//! The client's end of a connection: sends it notifications, responses and calls.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use lodge_events::Event;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tokio::{io::AsyncWrite, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    frame::Frame,
    generation::Generation,
    outbox::{Outbox, Refused},
    rpc::{Reply, RpcError},
};

/// A handle to the client of one connection; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outbox: Outbox,
    calls: Mutex<HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>>,
    next_id: AtomicU64,
    closed: CancellationToken,
    /// Whether the client called `connect`.
    greeted: AtomicBool,
}

/// Why a call to the client failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The client answered with an error.
    #[error("{0}")]
    Refused(RpcError),
    /// The client disconnected.
    #[error("the client disconnected")]
    Gone,
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    error: RpcError,
}

impl Peer {
    pub(crate) fn new(queue_bytes: usize) -> Self {
        Self(Arc::new(Inner {
            outbox: Outbox::new(queue_bytes),
            calls: Mutex::default(),
            next_id: AtomicU64::new(1),
            closed: CancellationToken::new(),
            greeted: AtomicBool::new(false),
        }))
    }

    /// The client has called `connect`.
    pub(crate) fn greet(&self) {
        self.0.greeted.store(true, Ordering::Relaxed);
    }

    /// The generation of the client's parsers.
    pub(crate) fn generation(&self) -> Generation {
        match self.0.greeted.load(Ordering::Relaxed) {
            true => Generation::Current,
            false => Generation::BeforeConnect,
        }
    }

    /// Sends an event. `prefix` comes from [`event_prefix`]; the event's own bytes are shared, not copied, except for
    /// the few events that the client's generation cannot read.
    pub(crate) fn event(&self, prefix: &Bytes, event: &Event) {
        self.push(Frame::of([
            prefix.clone(),
            self.generation().json(event),
            Bytes::from_static(b"}}"),
        ]));
    }

    /// Answers a request. The id goes back exactly as it came.
    pub(crate) fn answer(&self, id: &RawValue, answer: Result<Reply, RpcError>) {
        match answer {
            Ok(Reply(result)) => {
                let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.get());
                self.push(Frame::of([head.into(), result, Bytes::from_static(b"}")]));
            }
            Err(error) => self.fail(Some(id), error),
        }
    }

    /// Responds with an error; without an id if the request's id could not be read.
    pub(crate) fn fail(&self, id: Option<&RawValue>, error: RpcError) {
        self.send_json(&Failure {
            jsonrpc: "2.0",
            id,
            error,
        });
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: &impl Serialize) {
        self.send_json(&Outgoing {
            jsonrpc: "2.0",
            id: None,
            method,
            params,
        });
    }

    /// Calls the client and waits for its response while it is connected. Dropping the future forgets the call; a late
    /// response is ignored.
    pub(crate) async fn call(&self, method: &str, params: &impl Serialize) -> Result<Value, CallError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.0.calls.lock().insert(id, sender);
        let _forget = Forget { peer: self, id };
        self.send_json(&Outgoing {
            jsonrpc: "2.0",
            id: Some(id),
            method,
            params,
        });
        tokio::select! {
            answer = receiver => match answer {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => Err(CallError::Refused(error)),
                Err(_) => Err(CallError::Gone),
            },
            () = self.0.closed.cancelled() => Err(CallError::Gone),
        }
    }

    /// Passes on the client's response to a call. A response to an unknown call is dropped.
    pub(crate) fn answered(&self, id: u64, answer: Result<Value, RpcError>) -> bool {
        let waiting = self.0.calls.lock().remove(&id);
        let known = waiting.is_some();
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
        known
    }

    /// Ends the connection.
    pub(crate) fn close(&self, reason: &str) {
        self.0.outbox.close(reason);
        self.0.closed.cancel();
    }

    /// Ends the connection once the waiting frames are written.
    pub(crate) fn finish(&self) {
        self.0.outbox.finish();
    }

    /// Resolves when the connection has ended.
    pub(crate) async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }

    /// Whether the connection has ended because the client reads too slowly.
    pub(crate) fn was_too_slow(&self) -> bool {
        self.0.outbox.overflowed()
    }

    /// Why the connection has ended.
    pub(crate) fn reason(&self) -> Option<Arc<str>> {
        self.0.outbox.closed()
    }

    /// Writes the queue until the connection ends.
    pub(crate) async fn write_to<W: AsyncWrite + Unpin>(&self, output: &mut W) {
        let result = tokio::select! {
            result = self.0.outbox.write_to(output) => result,
            () = self.closed() => return,
        };
        match result {
            Ok(()) => self.close("closed"),
            Err(error) => self.close(&format!("writing failed: {error}")),
        }
    }

    fn send_json(&self, message: &impl Serialize) {
        match serde_json::to_vec(message) {
            Ok(json) => self.push(Frame::whole(json)),
            Err(error) => tracing::error!(%error, "a message could not be serialised"),
        }
    }

    /// Sends a finished frame.
    pub(crate) fn push(&self, frame: Frame) {
        if self.0.outbox.push(frame) == Err(Refused::Full) {
            self.0.closed.cancel();
        }
    }
}

/// The text before the event in a `session.event` notification of one session.
pub(crate) fn event_prefix(session_id: &str) -> Bytes {
    let id = Value::from(session_id);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"session.event\",\"params\":{{\"sessionId\":{id},\"event\":").into()
}

struct Forget<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.peer.0.calls.lock().remove(&self.id);
    }
}
