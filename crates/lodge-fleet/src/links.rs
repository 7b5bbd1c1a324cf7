//! Links: a stream of bytes from one host of a fleet to another, over the servers that both are connected to. A host hands
//! a client's words on by one when the session that they are about is in use on another host.
//!
//! Nothing is repeated: a link over which a message gets lost, or nothing comes for a while, is broken, and both ends see the end
//! of their stream. Whoever sends waits until the other end has taken what was sent before.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_nats::{Client, Subscriber};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{Notify, mpsc},
    time::timeout,
};
use uuid::Uuid;

use crate::{Fleet, FleetError, Reply, Request, names};

/// The most that one message carries.
const PIECE: usize = 32 << 10;
/// So many bytes may be on their way in one direction.
const WINDOW: u64 = 1 << 20;
/// So many bytes are taken before the other end is told.
const TAKEN: u64 = WINDOW / 4;
/// How often an end that has nothing to say says so.
const PULSE: Duration = Duration::from_secs(3);
/// A link over which nothing comes for so long is broken.
const SILENCE: Duration = Duration::from_secs(10);

/// Kind and number.
const HEAD: usize = 9;
const DATA: u8 = b'd';
const ACK: u8 = b'a';
const STILL_HERE: u8 = b'p';
const END: u8 = b'e';

impl Fleet {
    /// Links the host of this name to what another one serves under a name: nothing when that host does not answer, or serves no such thing.
    ///
    /// # Errors
    /// When the connection to the servers does not work.
    pub async fn link(
        &self,
        from: &str,
        host: &str,
        serves: &str,
    ) -> Result<Option<tokio::io::DuplexStream>, FleetError> {
        let link = Uuid::new_v4().to_string();
        let client = self.jetstream().client().clone();
        let incoming = listen(self, down(&link)).await?;
        let outgoing = up(&link);
        let request = Request::Link {
            serves: serves.to_owned(),
            link,
            from: from.to_owned(),
        };
        if self.ask(host, &request).await? != Some(Reply::Linked) {
            return Ok(None);
        }
        let (near, far) = tokio::io::duplex(PIECE);
        tokio::spawn(carry(far, client, incoming, outgoing));
        Ok(Some(near))
    }

    /// The other end of a link that another host asked for. It is carried as soon as the future that this answers with is polled;
    /// the host that asked is to be answered after this.
    ///
    /// # Errors
    /// When the connection to the servers does not work.
    pub async fn accept_link<S>(
        &self,
        link: &str,
        stream: S,
    ) -> Result<impl Future<Output = ()> + Send + use<S>, FleetError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let client = self.jetstream().client().clone();
        let incoming = listen(self, up(link)).await?;
        Ok(carry(stream, client, incoming, down(link)))
    }
}

fn up(link: &str) -> String {
    format!("lodge.link.{}.up", names::word(link))
}

fn down(link: &str) -> String {
    format!("lodge.link.{}.down", names::word(link))
}

async fn listen(fleet: &Fleet, subject: String) -> Result<Subscriber, FleetError> {
    let incoming = fleet.jetstream().subscribe(subject).await;
    incoming.map_err(|failure| FleetError::Unavailable {
        action: "link two hosts".into(),
        seconds: 0,
        reason: failure.to_string(),
    })
}

/// How much the other end has taken of what was sent.
#[derive(Default)]
struct Window {
    taken: AtomicU64,
    changed: Notify,
}

impl Window {
    fn take(&self, taken: u64) {
        self.taken.fetch_max(taken, Ordering::AcqRel);
        self.changed.notify_one();
    }

    async fn room(&self, sent: u64) {
        while sent.saturating_sub(self.taken.load(Ordering::Acquire)) >= WINDOW {
            self.changed.notified().await;
        }
    }
}

/// Carries bytes until either end closes the stream, or the link breaks.
async fn carry<S>(stream: S, client: Client, incoming: Subscriber, outgoing: String)
where
    S: AsyncRead + AsyncWrite + Send,
{
    let (input, output) = tokio::io::split(stream);
    let (window, written) = (Window::default(), AtomicU64::new(0));
    let (arriving, arrived) = mpsc::unbounded_channel();
    tokio::select! {
        () = send(input, &client, &outgoing, &window) => {}
        () = pulse(&client, &outgoing) => {}
        () = receive(incoming, &window, arriving, &written) => {}
        () = write(output, &client, &outgoing, arrived, &written) => {}
    }
    // Best effort: who does not hear it hears nothing more, which means the same.
    let _ = client.publish(outgoing, message(END, 0, &[])).await;
}

async fn send(mut input: impl AsyncRead + Unpin, client: &Client, outgoing: &str, window: &Window) {
    let mut sent = 0;
    let mut piece = vec![0; PIECE];
    loop {
        window.room(sent).await;
        let Ok(read @ 1..) = input.read(&mut piece).await else {
            return;
        };
        let text = message(DATA, sent, &piece[..read]);
        if client.publish(outgoing.to_owned(), text).await.is_err() {
            return;
        }
        sent += read as u64;
    }
}

async fn pulse(client: &Client, outgoing: &str) {
    loop {
        tokio::time::sleep(PULSE).await;
        let still_here = client.publish(outgoing.to_owned(), message(STILL_HERE, 0, &[]));
        if still_here.await.is_err() {
            return;
        }
    }
}

/// Takes what arrives, without waiting for whoever reads the stream: how far the other end has come must be heard meanwhile. What
/// waits to be written is bounded by the window.
async fn receive(
    mut incoming: Subscriber,
    window: &Window,
    arrived: mpsc::UnboundedSender<Bytes>,
    written: &AtomicU64,
) {
    let mut taken = 0;
    while let Ok(Some(message)) = timeout(SILENCE, incoming.next()).await {
        let Some((kind, number, piece)) = read(&message.payload) else {
            return;
        };
        match kind {
            // A piece is missing, or came twice; or it would count as nothing and still take room.
            DATA if number != taken || piece.is_empty() => return,
            DATA => {
                taken += piece.len() as u64;
                let waits = taken - written.load(Ordering::Acquire);
                if waits > WINDOW + PIECE as u64 || arrived.send(message.payload.slice(HEAD..)).is_err() {
                    return;
                }
            }
            ACK => window.take(number),
            STILL_HERE => {}
            END => {
                // What came before it is still written.
                drop(arrived);
                return std::future::pending().await;
            }
            _ => return,
        }
    }
}

/// Writes what arrived to the stream, and tells the other end how far that has come.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    client: &Client,
    outgoing: &str,
    mut arrived: mpsc::UnboundedReceiver<Bytes>,
    written: &AtomicU64,
) {
    let mut told = 0;
    while let Some(piece) = arrived.recv().await {
        if output.write_all(&piece).await.is_err() || output.flush().await.is_err() {
            return;
        }
        let now = written.fetch_add(piece.len() as u64, Ordering::AcqRel) + piece.len() as u64;
        if now - told >= TAKEN {
            told = now;
            if client
                .publish(outgoing.to_owned(), message(ACK, now, &[]))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

fn message(kind: u8, number: u64, piece: &[u8]) -> Bytes {
    let mut text = BytesMut::with_capacity(HEAD + piece.len());
    text.put_u8(kind);
    text.put_u64(number);
    text.put_slice(piece);
    text.freeze()
}

fn read(text: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (head, piece) = text.split_at_checked(HEAD)?;
    let number = u64::from_be_bytes(head[1..].try_into().ok()?);
    Some((head[0], number, piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_short_ones_are_refused() {
        assert_eq!(read(&message(DATA, 7, b"abc")), Some((DATA, 7, &b"abc"[..])));
        assert_eq!(read(&message(END, u64::MAX, b"")), Some((END, u64::MAX, &b""[..])));
        assert_eq!(read(b"d1234567"), None);
    }
}
