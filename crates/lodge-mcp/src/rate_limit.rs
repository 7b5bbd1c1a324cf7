//! Rate limits for what a server sends. A server that sends faster has to wait: its pipe fills up, and nothing else is
//! affected.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// A token bucket.
struct Bucket {
    /// When everything taken so far is paid for.
    paid: Instant,
    per_unit: Duration,
    burst: Duration,
}

impl Bucket {
    fn new(per_second: u64, burst: u64) -> Self {
        let per_unit = Duration::from_nanos(1_000_000_000 / per_second);
        Self {
            paid: Instant::now(),
            per_unit,
            burst: per_unit * u32::try_from(burst).unwrap_or(u32::MAX),
        }
    }

    /// Takes units; returns until when to wait, if at all.
    fn take(&mut self, units: u32, now: Instant) -> Option<Instant> {
        self.paid = self.paid.max(now) + self.per_unit * units;
        (self.paid > now + self.burst).then(|| self.paid - self.burst)
    }
}

/// Bytes a server may send per second, and at once.
const BYTES: (u64, u64) = (32 << 20, 64 << 20);
/// Messages a server may send per second, and at once.
const MESSAGES: (u64, u64) = (1_000, 5_000);

/// A server's output, limited in bytes per second.
pub(crate) struct RateLimited<R> {
    inner: R,
    bucket: Bucket,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<R> RateLimited<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            bucket: Bucket::new(BYTES.0, BYTES.1),
            pause: None,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for RateLimited<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(pause) = &mut this.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            this.pause = None;
        }
        let before = buf.filled().len();
        std::task::ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        let read = u32::try_from(buf.filled().len() - before).unwrap_or(u32::MAX);
        this.pause = this
            .bucket
            .take(read, Instant::now())
            .map(|until| Box::pin(sleep_until(until)));
        Poll::Ready(Ok(()))
    }
}

/// Counts messages; waiting for it keeps a server from flooding the host with small ones.
pub(crate) struct MessageLimit {
    bucket: Bucket,
    until: Option<Instant>,
}

impl MessageLimit {
    pub(crate) fn new() -> Self {
        Self {
            bucket: Bucket::new(MESSAGES.0, MESSAGES.1),
            until: None,
        }
    }

    /// Waits until the next message may be taken. May be cancelled and called again.
    pub(crate) async fn wait(&mut self) {
        if let Some(until) = self.until {
            sleep_until(until).await;
            self.until = None;
        }
    }

    /// Counts a message.
    pub(crate) fn count(&mut self) {
        self.until = self.bucket.take(1, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_what_comes_after_it_waits() {
        let mut bucket = Bucket::new(1_000, 10);
        let now = bucket.paid;
        for _ in 0..10 {
            assert_eq!(bucket.take(1, now), None);
        }
        let until = bucket.take(5, now).expect("the burst is spent");
        assert_eq!(until - now, Duration::from_millis(5));
        let later = now + Duration::from_secs(1);
        assert_eq!(bucket.take(10, later), None, "time pays the debt");
    }
}
