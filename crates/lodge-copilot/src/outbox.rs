//! The queue of frames for one connection, bounded in bytes, and the task that writes it.
//!
//! Pushing never waits, so a slow client never slows the agent or another client. A connection whose queue exceeds the limit
//! is closed.

use std::{collections::VecDeque, io, io::IoSlice, sync::Arc};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use crate::frame::Frame;

/// Shorter pieces are gathered in one buffer; longer ones are written in place.
const COPY_BELOW: usize = 4 * 1024;
/// The buffer is written when it has this size.
const WRITE_AT: usize = 64 * 1024;

/// The queue of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Outbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    closed: Option<Arc<str>>,
    /// Accepts no more frames, but writes the waiting ones.
    closing: bool,
    /// It exceeded its limit, which closed the connection.
    overflowed: bool,
}

/// Why a frame was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The connection is closed.
    Closed,
    /// The queue exceeded its limit, which closed the connection.
    Full,
}

impl Outbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::default(),
            wake: Notify::new(),
            limit,
        }))
    }

    /// Adds a frame. A single frame may exceed the limit: only frames that already wait count.
    pub(crate) fn push(&self, frame: Frame) -> Result<(), Refused> {
        let mut queue = self.0.queue.lock();
        if queue.closed.is_some() || queue.closing {
            return Err(Refused::Closed);
        }
        if queue.bytes > self.0.limit {
            queue.close("the client reads too slowly");
            queue.overflowed = true;
            drop(queue);
            self.0.wake.notify_one();
            return Err(Refused::Full);
        }
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        let first = queue.frames.len() == 1;
        drop(queue);
        // The writer takes all waiting frames at once, so only the first one wakes it.
        if first {
            self.0.wake.notify_one();
        }
        Ok(())
    }

    /// Closes at once: waiting frames are dropped.
    pub(crate) fn close(&self, reason: &str) {
        self.0.queue.lock().close(reason);
        self.0.wake.notify_one();
    }

    /// Accepts no more frames, and closes once the waiting ones are written.
    pub(crate) fn finish(&self) {
        self.0.queue.lock().closing = true;
        self.0.wake.notify_one();
    }

    /// Whether the connection was closed because its client reads too slowly.
    pub(crate) fn overflowed(&self) -> bool {
        self.0.queue.lock().overflowed
    }

    /// The reason for closing.
    pub(crate) fn closed(&self) -> Option<Arc<str>> {
        self.0.queue.lock().closed.clone()
    }

    /// Writes until closed, flushing whenever the queue is empty.
    pub(crate) async fn write_to<W: AsyncWrite + Unpin>(&self, output: &mut W) -> io::Result<()> {
        let mut batch = VecDeque::new();
        let mut buffer = BytesMut::with_capacity(WRITE_AT);
        loop {
            let woken = self.0.wake.notified();
            {
                let mut queue = self.0.queue.lock();
                if queue.closed.is_some() {
                    return Ok(());
                }
                std::mem::swap(&mut queue.frames, &mut batch);
            }
            if batch.is_empty() {
                output.flush().await?;
                if self.is_finished() {
                    return Ok(());
                }
                woken.await;
                continue;
            }
            for frame in batch.drain(..) {
                let length = frame.len();
                self.write_frame(output, &mut buffer, &frame).await?;
                self.0.queue.lock().bytes -= length;
            }
            write_all(output, &mut buffer).await?;
        }
    }

    fn is_finished(&self) -> bool {
        let queue = self.0.queue.lock();
        queue.closing && queue.frames.is_empty()
    }

    async fn write_frame<W: AsyncWrite + Unpin>(
        &self,
        output: &mut W,
        buffer: &mut BytesMut,
        frame: &Frame,
    ) -> io::Result<()> {
        buffer.put_slice(frame.header().as_bytes());
        for piece in frame.pieces() {
            if piece.len() < COPY_BELOW {
                buffer.put_slice(piece);
            } else {
                write_both(output, buffer, piece.clone()).await?;
            }
        }
        if buffer.len() >= WRITE_AT {
            write_all(output, buffer).await?;
        }
        Ok(())
    }
}

impl Queue {
    fn close(&mut self, reason: &str) {
        if self.closed.is_none() {
            self.closed = Some(reason.into());
            self.frames = VecDeque::new();
        }
    }
}

async fn write_all<W: AsyncWrite + Unpin>(output: &mut W, buffer: &mut BytesMut) -> io::Result<()> {
    output.write_all(buffer).await?;
    buffer.clear();
    Ok(())
}

/// Writes the buffer and a large piece in one call, the piece in place.
async fn write_both<W: AsyncWrite + Unpin>(output: &mut W, buffer: &mut BytesMut, piece: Bytes) -> io::Result<()> {
    let mut both = buffer.split().freeze().chain(piece);
    while both.has_remaining() {
        let mut slices = [IoSlice::new(&[]), IoSlice::new(&[])];
        let count = both.chunks_vectored(&mut slices);
        let written = output.write_vectored(&slices[..count]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        both.advance(written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_out_in_order_whatever_their_size() {
        let outbox = Outbox::new(usize::MAX);
        let mut expected = Vec::new();
        for size in [1, 10, COPY_BELOW, WRITE_AT * 3, 5] {
            let body = vec![b'a' + (size % 26) as u8; size];
            expected.extend(format!("Content-Length: {}\r\n\r\n", size + 2).into_bytes());
            expected.extend(b"<");
            expected.extend(&body);
            expected.extend(b">");
            let frame = Frame::of([Bytes::from_static(b"<"), body.into(), Bytes::from_static(b">")]);
            outbox.push(frame).unwrap();
        }
        let (mut near, mut far) = tokio::io::duplex(1000);
        let writer = tokio::spawn(async move { outbox.write_to(&mut near).await });
        let mut seen = vec![0; expected.len()];
        tokio::io::AsyncReadExt::read_exact(&mut far, &mut seen).await.unwrap();
        assert!(seen == expected);
        writer.abort();
    }

    #[tokio::test]
    async fn what_waits_is_written_before_the_end_and_nothing_after_it() {
        let outbox = Outbox::new(usize::MAX);
        outbox.push(Frame::whole("last words")).unwrap();
        outbox.finish();
        assert_eq!(outbox.push(Frame::whole("more")), Err(Refused::Closed));
        let mut written = Vec::new();
        outbox.write_to(&mut written).await.unwrap();
        assert_eq!(written, b"Content-Length: 10\r\n\r\nlast words");
    }

    #[test]
    fn a_queue_over_its_limit_closes_the_connection_and_frees_what_waited() {
        let outbox = Outbox::new(10);
        assert_eq!(outbox.push(Frame::whole(vec![0; 100])), Ok(()));
        assert_eq!(outbox.push(Frame::whole(vec![0; 1])), Err(Refused::Full));
        assert_eq!(outbox.push(Frame::whole(vec![0; 1])), Err(Refused::Closed));
        assert!(outbox.closed().is_some_and(|reason| reason.contains("too slowly")));
        assert!(outbox.0.queue.lock().frames.is_empty());
    }
}
