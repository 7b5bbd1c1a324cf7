//! The peer of a connection: messages to it, and requests that wait for its answer.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
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

use crate::{Error, Message};

/// How much may wait to be written. A slower reader is disconnected: nobody can slow a session.
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

struct Inner {
    /// How long somebody who reads nothing is waited for in the end.
    patience: Duration,
    queue: Mutex<Queue>,
    /// There is something to write, or there will be nothing more.
    arrived: Notify,
    /// Something was written.
    written: Notify,
    closed: CancellationToken,
    too_slow: AtomicBool,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    next: u64,
    open: HashMap<u64, oneshot::Sender<Result<Value, Error>>>,
}

/// The other side of a connection. Cheap to clone.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

impl Default for Peer {
    fn default() -> Self {
        Self::with_patience(Duration::from_secs(5))
    }
}

impl Peer {
    fn with_patience(patience: Duration) -> Self {
        Self(Arc::new(Inner {
            patience,
            queue: Mutex::default(),
            arrived: Notify::new(),
            written: Notify::new(),
            closed: CancellationToken::new(),
            too_slow: AtomicBool::new(false),
            requests: Mutex::default(),
        }))
    }

    /// Queues a message as it is. Nobody waits for the other side to read it.
    pub fn send(&self, message: &impl Serialize) {
        let mut line = match serde_json::to_vec(message) {
            Ok(line) => line,
            Err(error) => return tracing::error!(%error, "cannot write a message"),
        };
        line.push(b'\n');
        let mut queue = self.0.queue.lock();
        if queue.finished || self.0.closed.is_cancelled() {
            return;
        }
        queue.bytes += line.len();
        if queue.bytes > LIMIT && !queue.lines.is_empty() {
            drop(queue);
            return self.drop_slow();
        }
        queue.lines.push_back(line.into());
        drop(queue);
        self.0.arrived.notify_one();
    }

    /// Tells it something.
    pub fn notify<T: Serialize>(&self, method: &str, params: &T) {
        self.send(&Notification {
            jsonrpc: "2.0",
            method,
            params,
        });
    }

    /// Answers a request of it.
    pub fn respond(&self, id: &Value, result: Result<Value, Error>) {
        self.send(&match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        });
    }

    /// Asks it. There is no answer when the connection has ended, or ends first.
    pub fn request<T: Serialize>(&self, method: &str, params: &T) -> PeerRequest {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut requests = self.0.requests.lock();
            requests.next += 1;
            let id = requests.next;
            // Under the lock that `close` takes after it has closed: what is entered here is cleared there.
            if !self.0.closed.is_cancelled() {
                requests.open.insert(id, answer);
            }
            id
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        PeerRequest {
            id,
            peer: self.clone(),
            answered,
        }
    }

    /// Takes the answer to a request. False when there is no such request, or no longer.
    pub fn answered(&self, id: &Value, result: Result<Value, Error>) -> bool {
        let open = id.as_u64().and_then(|id| self.0.requests.lock().open.remove(&id));
        open.is_some_and(|answer| answer.send(result).is_ok())
    }

    /// Passes on to this peer what another one said. Answers to requests go back to the other one.
    pub fn pass_on(&self, message: Message, from: &Peer) {
        match message {
            Message::Notification { method, params } => self.notify(&method, &params),
            Message::Response { id, result } => drop(from.answered(&id, result)),
            Message::Request { id, method, params } => {
                let (to, from) = (self.clone(), from.clone());
                tokio::spawn(async move {
                    let mut request = to.request(&method, &params);
                    let answer = tokio::select! {
                        answer = request.answer() => answer,
                        () = from.closed() => return,
                    };
                    if let Some(answer) = answer {
                        from.respond(&id, answer);
                    }
                });
            }
        }
    }

    /// Waits until there is room for much more.
    pub async fn room(&self) {
        loop {
            let written = self.0.written.notified();
            if self.0.queue.lock().bytes <= LOW || self.0.closed.is_cancelled() {
                return;
            }
            written.await;
        }
    }

    /// Nothing more is to be said; what waits is still written.
    pub fn finish(&self) {
        self.0.queue.lock().finished = true;
        self.0.arrived.notify_one();
    }

    /// Waits until everything is written that was said before [`Peer::finish`], but not for somebody who does not read it.
    pub async fn finished(&self) {
        if tokio::time::timeout(self.0.patience, self.closed()).await.is_err() {
            tracing::debug!("the peer does not read the remaining messages");
            self.close();
        }
    }

    /// Ends the connection at once.
    pub fn close(&self) {
        self.0.closed.cancel();
        // Whoever waits for an answer waits no longer.
        self.0.requests.lock().open.clear();
        self.0.written.notify_waiters();
    }

    /// Ends the connection because the other side does not keep up.
    pub fn drop_slow(&self) {
        tracing::warn!("the peer reads too slowly; closing the connection");
        self.0.too_slow.store(true, Ordering::Release);
        self.close();
    }

    /// Whether the connection was ended because the other side did not keep up.
    pub fn was_too_slow(&self) -> bool {
        self.0.too_slow.load(Ordering::Acquire)
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Writes what is to be said, until the connection ends.
    pub async fn write_to(self, mut output: impl AsyncWrite + Unpin) {
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
            tracing::debug!(%error, "the peer closed the connection");
        }
        self.close();
    }
}

/// A request to the peer. Dropping it before the answer cancels it.
pub struct PeerRequest {
    id: u64,
    peer: Peer,
    answered: oneshot::Receiver<Result<Value, Error>>,
}

impl PeerRequest {
    /// The answer; none when the connection ends first.
    pub async fn answer(&mut self) -> Option<Result<Value, Error>> {
        (&mut self.answered).await.ok()
    }
}

impl Drop for PeerRequest {
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
    async fn a_request_has_no_answer_whether_the_connection_ends_before_or_after_it() {
        let peer = Peer::default();
        let mut before = peer.request("ask", &1);
        peer.close();
        let mut after = peer.request("ask", &2);
        for request in [&mut before, &mut after] {
            let answer = tokio::time::timeout(Duration::from_secs(30), request.answer());
            assert_eq!(answer.await.expect("nobody waits for ever"), None);
        }
    }

    #[tokio::test]
    async fn whoever_reads_nothing_in_the_end_is_not_waited_for() {
        let peer = Peer::with_patience(Duration::from_millis(1));
        // Nobody reads the other end.
        let (_held, output) = tokio::io::duplex(8);
        let writer = tokio::spawn(peer.clone().write_to(output));
        peer.notify("long", &"x".repeat(1000));
        peer.finish();
        peer.finished().await;
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_dropped() {
        let peer = Peer::default();
        let much = "x".repeat(LIMIT / 2);
        peer.notify("a", &much);
        assert!(!peer.was_too_slow());
        peer.notify("b", &much);
        peer.closed().await;
        assert!(peer.was_too_slow());
        peer.room().await;
    }
}
