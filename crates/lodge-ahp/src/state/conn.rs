//! A connection as the state sees it: an identity and a bounded queue of frames. Whoever publishes only ever appends; a
//! client that does not read fills its own queue, loses its connection and nothing else.

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

/// Requests of the host that may wait for one client.
const CALLS: usize = 64;

/// Who is at the other end, known after the handshake.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) client: Arc<str>,
    pub(crate) version: String,
    pub(crate) dialect: Dialect,
    /// What the client's program calls itself, where it said so.
    pub(crate) name: String,
}

impl Peer {
    /// The host itself, where it does what clients do otherwise.
    pub(crate) fn host() -> Self {
        Self {
            client: "".into(),
            version: String::new(),
            dialect: Dialect::Modern,
            name: String::new(),
        }
    }

    /// Whether it is an editor of the VS Code family, which makes sessions before anybody says something, and disposes of
    /// sessions that it still shows.
    pub(crate) fn is_editor(&self) -> bool {
        self.name.starts_with("vscode")
    }
}

/// Why the host ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The queue is full: the client does not keep up. It may come back and gets what it missed, or fresh snapshots.
    TooSlow,
    /// No common version; the response was sent.
    NoCommonVersion,
    /// The host stops.
    GoingAway,
    /// What came is not WebSocket.
    Broken,
    /// A message is larger than the host takes.
    TooLarge,
    /// A file could not be read to its end, after the beginning of the answer was sent.
    Unreadable,
    /// The other end is gone.
    Gone,
    /// Its device may not come in any more.
    Revoked,
    /// The host that has a session of it in use is gone.
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

/// What waits to be sent.
#[derive(Debug)]
pub(crate) enum Queued {
    Frame(Frame),
    /// A large answer, made while it is sent. No other one is begun on this connection until it is.
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
    /// Bytes that the socket has not taken yet, queued or on their way.
    unsent: AtomicUsize,
    wake: Notify,
    sent: Notify,
    /// No more is read.
    end: CancellationToken,
    /// Not even what is queued is sent.
    cut: CancellationToken,
    peer: OnceLock<Peer>,
    /// Who was let in, and what they may do.
    pub(crate) admission: Admission,
    large: Arc<Semaphore>,
    calls: Mutex<Calls>,
    /// Sessions of other hosts that it has to do with.
    pub(crate) relays: Relays,
}

/// Requests of the host that wait for the client.
#[derive(Default)]
struct Calls {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<RpcResult>>,
}

/// A request of the host that waits for the client. Dropped, it waits no more, also when its asker gave up early.
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

    /// Who it is, once known.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.peer.get()
    }

    /// Says who it is; false when that was said before.
    pub(crate) fn introduce(&self, peer: Peer) -> bool {
        self.peer.set(peer).is_ok()
    }

    /// Queues a frame. A full queue is emptied and the connection ends: what it missed it gets when it comes back.
    pub(crate) fn push(&self, frame: Frame) {
        if self.enqueue(frame) {
            self.wake();
        }
    }

    /// The same, but wakes nobody. True when somebody has to be woken.
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

    /// Wakes whoever sends what is queued.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The turn of a large answer. One at a time is made and sent, and it does not count as lag.
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

    /// The socket took so many bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.unsent.fetch_sub(bytes, Ordering::Relaxed);
        self.sent.notify_waiters();
    }

    /// Resolves when the client has read enough that it may be given more, or is gone.
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

    /// Bytes that the socket has yet to take.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Asks the client for something. Who does not answer within `patience`, or goes, has failed to.
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

    /// The client answers a request of the host.
    pub(crate) fn answered(&self, id: Option<u64>, result: RpcResult) {
        let waiting = id.and_then(|id| self.calls.lock().waiting.remove(&id));
        match waiting {
            // Whoever waited may be gone.
            Some(waiting) => drop(waiting.send(result)),
            None => tracing::debug!(?id, "a response to an unknown request"),
        }
    }

    /// Ends the connection after what is queued.
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

    /// Resolves when it ends at once.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// The queued frames, as soon as there are some; `Err` when there will be no more.
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
