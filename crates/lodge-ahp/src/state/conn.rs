//! A connection as the state sees it: an identity and a bounded queue of frames. Whoever publishes only ever appends; a
//! client that does not read fills its own queue, loses its connection and nothing else.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{version::Dialect, wire::Frame};

/// Who is at the other end, known after the handshake.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) client: Arc<str>,
    pub(crate) version: String,
    pub(crate) dialect: Dialect,
    /// What the client's program calls itself, where it said so.
    pub(crate) name: String,
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
    /// The other end is gone.
    Gone,
}

impl Closing {
    /// Close code and reason of the WebSocket.
    pub(crate) fn frame(self) -> (u16, &'static str) {
        match self {
            Self::TooSlow => (1013, "too slow: reconnect to catch up"),
            Self::NoCommonVersion => (1002, "no common protocol version"),
            Self::GoingAway => (1001, "the host stops"),
            Self::Gone => (1000, ""),
        }
    }
}

/// A frame that waits to be sent.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) frame: Frame,
    /// For a large answer: no other one is made until this one is sent.
    _large: Option<OwnedSemaphorePermit>,
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
    /// No more is read.
    end: CancellationToken,
    /// Not even what is queued is sent.
    cut: CancellationToken,
    peer: OnceLock<Peer>,
    large: Arc<Semaphore>,
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
    pub(crate) fn new(id: u64, limit: usize) -> Self {
        Self {
            id,
            limit,
            queue: Mutex::default(),
            unsent: AtomicUsize::new(0),
            wake: Notify::new(),
            end: CancellationToken::new(),
            cut: CancellationToken::new(),
            peer: OnceLock::new(),
            large: Arc::new(Semaphore::new(1)),
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
        let mut queue = self.queue.lock();
        if queue.closing.is_some() {
            return;
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
            queue.frames.push_back(Queued { frame, _large: None });
        }
        let first = queue.frames.len() <= 1;
        drop(queue);
        if first {
            self.wake.notify_one();
        }
    }

    /// The turn of a large answer. One at a time is made and sent, and it does not count as lag.
    pub(crate) async fn large(&self) -> Option<OwnedSemaphorePermit> {
        self.large.clone().acquire_owned().await.ok()
    }

    /// Queues a large answer.
    pub(crate) fn push_large(&self, frame: Frame, turn: Option<OwnedSemaphorePermit>) {
        if turn.is_none() {
            return self.push(frame);
        }
        let mut queue = self.queue.lock();
        if queue.closing.is_none() {
            self.unsent.fetch_add(frame.len(), Ordering::Relaxed);
            queue.frames.push_back(Queued { frame, _large: turn });
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// The socket took so many bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.unsent.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that the socket has yet to take.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Ends the connection after what is queued.
    pub(crate) fn close(&self, why: Closing) {
        self.queue.lock().closing.get_or_insert(why);
        self.end.cancel();
        if matches!(why, Closing::Gone | Closing::TooSlow) {
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
        let conn = Conn::new(1, 1000);
        for _ in 0..100 {
            conn.push(Frame::from("x".repeat(100)));
        }
        let mut frames = VecDeque::new();
        assert_eq!(conn.take(&mut frames).await, Err(Closing::TooSlow));
        assert!(frames.is_empty());
    }

    #[tokio::test]
    async fn one_frame_may_be_larger_than_the_queue() {
        let conn = Conn::new(1, 10);
        conn.push(Frame::from("x".repeat(100)));
        let mut frames = VecDeque::new();
        assert_eq!(conn.take(&mut frames).await, Ok(()));
        assert_eq!(frames.len(), 1);
    }

    #[tokio::test]
    async fn what_is_queued_goes_out_before_the_end() {
        let conn = Conn::new(1, 1000);
        conn.push(Frame::from("last words".to_owned()));
        conn.close(Closing::GoingAway);
        let mut frames = VecDeque::new();
        assert_eq!(conn.take(&mut frames).await, Ok(()));
        assert_eq!(conn.take(&mut VecDeque::new()).await, Err(Closing::GoingAway));
    }
}
