//! The client at the other end: what it is to be told, and what it was asked.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{Notify, oneshot},
};
use tokio_util::sync::CancellationToken;

use crate::rpc::Error;

/// So much may wait to be written. A client that reads so little is dropped: no client can slow a session.
const LIMIT: usize = 64 << 20;
/// What is read from disk waits until no more than this waits to be written.
const LOW: usize = 1 << 20;

#[derive(Serialize)]
struct Notification<'a, T> {
    jsonrpc: &'static str,
    method: &'a str,
    params: &'a T,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// Whether nothing more comes.
    finished: bool,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    /// Something is there to be written, or nothing will be any more.
    arrived: Notify,
    /// Something was written.
    written: Notify,
    closed: CancellationToken,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    next: u64,
    open: HashMap<u64, oneshot::Sender<Result<Value, Error>>>,
}

/// The client. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Peer(Arc<Inner>);

impl Peer {
    fn send(&self, message: &impl Serialize) {
        let mut line = match serde_json::to_vec(message) {
            Ok(line) => line,
            Err(error) => return tracing::error!(%error, "a message cannot be written"),
        };
        line.push(b'\n');
        let mut queue = self.0.queue.lock();
        if queue.finished || self.0.closed.is_cancelled() {
            return;
        }
        queue.bytes += line.len();
        if queue.bytes > LIMIT && !queue.lines.is_empty() {
            drop(queue);
            tracing::warn!("an ACP client reads too little and is dropped");
            return self.close();
        }
        queue.lines.push_back(line.into());
        drop(queue);
        self.0.arrived.notify_one();
    }

    pub(crate) fn notify<T: Serialize>(&self, method: &str, params: &T) {
        self.send(&Notification {
            jsonrpc: "2.0",
            method,
            params,
        });
    }

    pub(crate) fn respond(&self, id: &Value, result: Result<Value, Error>) {
        self.send(&match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        });
    }

    /// Asks the client. The answer never comes when the connection ends first.
    pub(crate) fn request<T: Serialize>(&self, method: &str, params: &T) -> ClientRequest {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut requests = self.0.requests.lock();
            requests.next += 1;
            let id = requests.next;
            requests.open.insert(id, answer);
            id
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        ClientRequest {
            id,
            peer: self.clone(),
            answered,
        }
    }

    /// Takes the answer to a request. False when there is no such request, or no longer.
    pub(crate) fn answered(&self, id: &Value, result: Result<Value, Error>) -> bool {
        let open = id.as_u64().and_then(|id| self.0.requests.lock().open.remove(&id));
        open.is_some_and(|answer| answer.send(result).is_ok())
    }

    /// Waits until there is room for much more.
    pub(crate) async fn room(&self) {
        loop {
            let written = self.0.written.notified();
            if self.0.queue.lock().bytes <= LOW || self.0.closed.is_cancelled() {
                return;
            }
            written.await;
        }
    }

    /// Nothing more is to be said; what waits is still written.
    pub(crate) fn finish(&self) {
        self.0.queue.lock().finished = true;
        self.0.arrived.notify_one();
    }

    /// Ends the connection at once.
    pub(crate) fn close(&self) {
        self.0.closed.cancel();
        // Whoever waits for an answer waits no longer.
        self.0.requests.lock().open.clear();
        self.0.written.notify_waiters();
    }

    pub(crate) async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Writes what is to be said, until the connection ends.
    pub(crate) async fn write_to(self, mut output: impl AsyncWrite + Unpin) {
        let write = async {
            let mut buffer = Vec::new();
            loop {
                let arrived = self.0.arrived.notified();
                let finished = {
                    let mut queue = self.0.queue.lock();
                    for line in queue.lines.drain(..) {
                        buffer.extend_from_slice(&line);
                    }
                    queue.finished
                };
                if buffer.is_empty() {
                    match finished {
                        true => break,
                        false => arrived.await,
                    }
                    continue;
                }
                output.write_all(&buffer).await?;
                output.flush().await?;
                {
                    let mut queue = self.0.queue.lock();
                    queue.bytes -= buffer.len();
                }
                self.0.written.notify_waiters();
                // A burst does not keep its memory.
                match buffer.capacity() > LOW {
                    true => buffer = Vec::new(),
                    false => buffer.clear(),
                }
            }
            output.shutdown().await
        };
        let written: std::io::Result<()> = tokio::select! {
            written = write => written,
            () = self.closed() => Ok(()),
        };
        if let Err(error) = written {
            tracing::debug!(%error, "an ACP client is gone");
        }
        self.close();
    }
}

/// A request to the client. Dropped before it is answered, the client is told that it need not answer any more.
pub(crate) struct ClientRequest {
    id: u64,
    peer: Peer,
    answered: oneshot::Receiver<Result<Value, Error>>,
}

impl ClientRequest {
    /// The answer; none when the connection ends first.
    pub(crate) async fn answer(&mut self) -> Option<Result<Value, Error>> {
        (&mut self.answered).await.ok()
    }
}

impl Drop for ClientRequest {
    fn drop(&mut self) {
        if self.peer.0.requests.lock().open.remove(&self.id).is_some() {
            let params = json!({ "requestId": self.id });
            self.peer.notify("$/cancel_request", &params);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_said_is_written_in_order_and_a_dropped_request_is_cancelled() {
        let peer = Peer::default();
        peer.notify("one", &1);
        drop(peer.request("ask", &"?"));
        let mut kept = peer.request("ask", &"again");
        assert!(!peer.answered(&1.into(), Ok(Value::Null)), "it was cancelled");
        assert!(peer.answered(&2.into(), Ok("yes".into())));
        assert_eq!(kept.answer().await, Some(Ok("yes".into())));
        drop(kept);
        peer.respond(&"x".into(), Err(Error::cancelled()));
        peer.finish();
        peer.notify("late", &2);
        let mut written = Vec::new();
        peer.write_to(&mut written).await;
        let lines: Vec<Value> = String::from_utf8(written)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<_> = lines
            .iter()
            .map(|line| line["method"].as_str().unwrap_or_else(|| line["id"].as_str().unwrap()))
            .collect();
        assert_eq!(names, ["one", "ask", "$/cancel_request", "ask", "x"]);
        assert_eq!(lines[2]["params"]["requestId"], lines[1]["id"]);
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_dropped() {
        let peer = Peer::default();
        let much = "x".repeat(LIMIT / 2);
        peer.notify("a", &much);
        peer.notify("b", &much);
        peer.closed().await;
        peer.room().await;
    }
}
