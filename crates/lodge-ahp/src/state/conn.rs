//! A connection as the state sees it: an identity and a bounded queue of frames. Publishing only appends. A client that does
//! not read fills its own queue and loses its connection; others are not affected.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lodge_door::Admission;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    contents::LargeAnswer,
    relay::Relays,
    rpc::{RpcError, RpcResult, code},
    version::Dialect,
    wire::Frame,
};

/// How many requests of the host may wait for one client.
const CALLS: usize = 64;

/// The client at the other end, known after the handshake.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) client: Arc<str>,
    pub(crate) version: String,
    pub(crate) dialect: Dialect,
    /// The name of the client's program, empty if it gave none.
    pub(crate) name: String,
}

impl Peer {
    /// The host itself, where it acts like a client.
    pub(crate) fn host() -> Self {
        Self {
            client: "".into(),
            version: String::new(),
            dialect: Dialect::Modern,
            name: String::new(),
        }
    }

    /// Whether it is an editor of the VS Code family. These create sessions before the first message, and dispose of sessions
    /// that they still show.
    pub(crate) fn is_editor(&self) -> bool {
        self.name.starts_with("vscode")
    }
}

/// Why the host ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The queue is full. The client may reconnect and gets what it missed, or fresh snapshots.
    TooSlow,
    /// No common version; the response was sent.
    NoCommonVersion,
    /// The host stops.
    GoingAway,
    /// A frame is not valid WebSocket.
    Broken,
    /// A message is larger than the limit.
    TooLarge,
    /// Reading a file failed after the beginning of the answer was sent.
    Unreadable,
    /// The other end is gone.
    Gone,
    /// Its device was revoked.
    Revoked,
    /// The host that owns a session of this client is gone.
    OwnerGone,
}

impl Closing {
    /// Close code and reason of the WebSocket.
    pub(crate) fn frame(self) -> (u16, &'static str) {
        match self {
            Self::TooSlow => (1013, "too slow: reconnect to catch up"),
            Self::NoCommonVersion => (1002, "no common protocol version"),
            Self::GoingAway => (1001, "the host is stopping"),
            Self::Broken => (1002, "the frame is malformed"),
            Self::TooLarge => (1009, "the message is too large: send files of this size in parts"),
            Self::Unreadable => (1011, "a file could not be read to its end"),
            Self::Gone => (1000, ""),
            Self::Revoked => (4401, "this device was revoked"),
            Self::OwnerGone => (1012, "the host that has a session is gone: reconnect"),
        }
    }
}

/// An entry of the queue.
#[derive(Debug)]
pub(crate) enum Queued {
    Frame(Frame),
    /// A large answer, which is produced while it is sent. A connection sends one at a time.
    Large(LargeAnswer, OwnedSemaphorePermit),
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Queued>,
    bytes: usize,
    closing: Option<Closing>,
}

/// One connection.
pub(crate) struct Conn {
    pub(crate) id: u64,
    limit: usize,
    queue: Mutex<Queue>,
    /// Bytes that the socket has not accepted yet.
    unsent: AtomicUsize,
    wake: Notify,
    sent: Notify,
    /// Ends reading.
    end: CancellationToken,
    /// Ends writing, even of queued frames.
    cut: CancellationToken,
    peer: OnceLock<Peer>,
    /// Identity and rights of the client.
    pub(crate) admission: Admission,
    large: Arc<Semaphore>,
    calls: Mutex<Calls>,
    /// Its links to sessions of other hosts.
    pub(crate) relays: Relays,
}

/// Requests of the host that wait for an answer of the client.
#[derive(Default)]
struct Calls {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<RpcResult>>,
}

/// A waiting request. Dropping it makes room for another one, also when its future is dropped before the answer.
struct Waiting<'a> {
    conn: &'a Conn,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.conn.calls.lock().waiting.remove(&self.id);
    }
}

impl std::fmt::Debug for Conn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conn")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Conn {
    pub(crate) fn new(id: u64, limit: usize, admission: Admission) -> Self {
        Self {
            id,
            admission,
            limit,
            queue: Mutex::default(),
            unsent: AtomicUsize::new(0),
            wake: Notify::new(),
            sent: Notify::new(),
            end: CancellationToken::new(),
            cut: CancellationToken::new(),
            peer: OnceLock::new(),
            large: Arc::new(Semaphore::new(1)),
            calls: Mutex::default(),
            relays: Relays::default(),
        }
    }

    /// The client, after the handshake.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.peer.get()
    }

    /// Sets the client. False when it is set already.
    pub(crate) fn introduce(&self, peer: Peer) -> bool {
        self.peer.set(peer).is_ok()
    }

    /// Queues a frame. If the queue is full, empties it and ends the connection. The client gets what it missed when it
    /// reconnects.
    pub(crate) fn push(&self, frame: Frame) {
        if self.enqueue(frame) {
            self.wake();
        }
    }

    /// Queues a frame without waking the sender. True when the sender must be woken.
    pub(super) fn enqueue(&self, frame: Frame) -> bool {
        let mut queue = self.queue.lock();
        if queue.closing.is_some() {
            return false;
        }
        if queue.bytes + frame.len() > self.limit && !queue.frames.is_empty() {
            queue.frames.clear();
            queue.bytes = 0;
            queue.closing = Some(Closing::TooSlow);
            self.end.cancel();
            self.cut.cancel();
        } else {
            queue.bytes += frame.len();
            self.unsent.fetch_add(frame.len(), Ordering::Relaxed);
            queue.frames.push_back(Queued::Frame(frame));
        }
        queue.frames.len() <= 1
    }

    /// Wakes the task that sends queued frames.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for the right to send a large answer. Only one is sent at a time, and it does not count as lag.
    pub(crate) async fn large(&self) -> Option<OwnedSemaphorePermit> {
        self.large.clone().acquire_owned().await.ok()
    }

    /// Queues a large answer.
    pub(crate) fn push_large(&self, answer: LargeAnswer, turn: OwnedSemaphorePermit) {
        let mut queue = self.queue.lock();
        if queue.closing.is_none() {
            queue.frames.push_back(Queued::Large(answer, turn));
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// Notes that the socket accepted so many bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.unsent.fetch_sub(bytes, Ordering::Relaxed);
        self.sent.notify_waiters();
    }

    /// Resolves when the client has read enough to get more, or is gone.
    pub(crate) async fn drained(&self) {
        loop {
            let sent = self.sent.notified();
            if self.unsent() <= self.limit / 2 {
                return;
            }
            tokio::select! {
                () = sent => {}
                () = self.ended() => return,
            }
        }
    }

    /// Bytes that the socket has not accepted yet.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Sends a request to the client. Fails if the client does not answer within `patience`, or disconnects.
    pub(crate) async fn call(&self, method: &str, params: &str, patience: Duration) -> RpcResult {
        let gone = || {
            RpcError::new(
                code::INTERNAL_ERROR,
                "the client to which this request was sent has disconnected",
            )
        };
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut calls = self.calls.lock();
            if calls.waiting.len() >= CALLS {
                return Err(RpcError::new(code::TOO_BUSY, "too many pending requests"));
            }
            calls.last += 1;
            let id = calls.last;
            calls.waiting.insert(id, sender);
            id
        };
        let _waiting = Waiting { conn: self, id };
        self.push(Frame::from(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        )));
        let answer = tokio::select! {
            answer = tokio::time::timeout(patience, answer) => answer,
            () = self.ended() => return Err(gone()),
        };
        match answer {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(RpcError::new(
                code::INTERNAL_ERROR,
                "the client to which this request was sent does not answer",
            )),
        }
    }

    /// Takes an answer of the client to a request of the host.
    pub(crate) fn answered(&self, id: Option<u64>, result: RpcResult) {
        let waiting = id.and_then(|id| self.calls.lock().waiting.remove(&id));
        match waiting {
            // Whoever waited may be gone.
            Some(waiting) => drop(waiting.send(result)),
            None => tracing::debug!(?id, "a response to an unknown request"),
        }
    }

    /// Ends the connection after the queued frames are sent.
    pub(crate) fn close(&self, why: Closing) {
        let mut queue = self.queue.lock();
        queue.closing.get_or_insert(why);
        if why == Closing::Revoked {
            queue.frames.clear();
            queue.bytes = 0;
        }
        drop(queue);
        self.end.cancel();
        if matches!(why, Closing::Gone | Closing::TooSlow | Closing::Revoked) {
            self.cut.cancel();
        }
        self.wake.notify_one();
    }

    /// Resolves when the connection ends.
    pub(crate) async fn ended(&self) {
        self.end.cancelled().await;
    }

    /// Resolves when the connection ends without sending the rest of the queue.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// Takes the queued frames, as soon as there are some. `Err` when there will be no more.
    pub(crate) async fn take(&self, into: &mut VecDeque<Queued>) -> Result<(), Closing> {
        loop {
            {
                let mut queue = self.queue.lock();
                if !queue.frames.is_empty() {
                    std::mem::swap(&mut queue.frames, into);
                    queue.bytes = 0;
                    return Ok(());
                }
                if let Some(why) = queue.closing {
                    return Err(why);
                }
            }
            self.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_is_cut_off_and_costs_no_more_memory() {
        let conn = Conn::new(1, 1000, Admission::owner());
        for _ in 0..100 {
            conn.push(Frame::from("x".repeat(100)));
        }
        let mut frames = VecDeque::new();
        assert_eq!(conn.take(&mut frames).await, Err(Closing::TooSlow));
        assert!(frames.is_empty());
    }

    #[tokio::test]
    async fn requests_whose_askers_gave_up_take_no_room() {
        let conn = Conn::new(1, 1 << 20, Admission::owner());
        for _ in 0..=CALLS {
            let mut call = Box::pin(conn.call("resourceRead", "{}", Duration::from_secs(3600)));
            assert!(futures_util::poll!(&mut call).is_pending());
            // Its turn was cancelled.
            drop(call);
        }
        let (result, ()) = tokio::join!(conn.call("resourceRead", "{}", Duration::from_secs(3600)), async {
            conn.answered(Some(CALLS as u64 + 2), Ok(Box::default()));
        });
        assert!(result.is_ok(), "{result:?}");
    }

    #[tokio::test]
    async fn one_frame_may_be_larger_than_the_queue() {
        let conn = Conn::new(1, 10, Admission::owner());
        conn.push(Frame::from("x".repeat(100)));
        let mut frames = VecDeque::new();
        assert_eq!(conn.take(&mut frames).await, Ok(()));
        assert_eq!(frames.len(), 1);
    }

    #[tokio::test]
    async fn what_is_queued_goes_out_before_the_end() {
        let conn = Conn::new(1, 1000, Admission::owner());
        conn.push(Frame::from("last words".to_owned()));
        conn.close(Closing::GoingAway);
        let mut frames = VecDeque::new();
        assert_eq!(conn.take(&mut frames).await, Ok(()));
        assert_eq!(conn.take(&mut VecDeque::new()).await, Err(Closing::GoingAway));
    }
}
