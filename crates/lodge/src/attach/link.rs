//! The connection to the host, and reconnecting when it is lost.

use std::{
    borrow::Cow,
    time::{Duration, Instant},
};

use ahp::{
    Client, ClientConfig, ClientError, Transport, TransportError, TransportMessage,
    ahp_types::{
        ActionEnvelope, ROOT_RESOURCE_URI, SUPPORTED_PROTOCOL_VERSIONS, Uri,
        commands::{Implementation, InitializeParams, InitializeResult, ReconnectResult},
        errors::ahp_error_codes,
        notifications::SessionRemovedParams,
        state::Snapshot,
    },
};
use ahp_ws::WebSocketTransport;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinHandle},
    time::{sleep, timeout},
};
use tokio_tungstenite::tungstenite;

use super::place::{Address, Place};

/// Time limit for one attempt to reach the host.
const TRY: Duration = Duration::from_secs(10);
/// First and longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// A connection without any response for this long counts as dead.
const PING: Duration = Duration::from_secs(20);
/// Longer messages end the connection. A whole session is longer than what the host sends of it at a time, so reconnecting would
/// end at the same message if this were small.
const LONGEST: usize = 256 << 20;
/// After this many refusals in a row, the client gives up.
const REFUSALS: u32 = 5;
/// After this many failed starts, the client stops trying to start the host.
const REVIVALS: u32 = 3;

/// Messages that the host sends unasked.
pub(super) enum Inbound {
    Action(Box<ActionEnvelope>),
    SessionRemoved(Uri),
}

/// Passes the host's messages to us before the client library sees them. The library's own streams drop messages when a
/// reader is slow, and a mirror that misses one stays wrong.
struct Tap<T> {
    inner: T,
    out: mpsc::UnboundedSender<Inbound>,
}

impl<T: Transport> Transport for Tap<T> {
    /// A lost connection is not an error to report: the stream of messages ends, and that is reported.
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        if let Err(error) = self.inner.send(message).await {
            tracing::debug!(%error, "the connection is lost");
        }
        Ok(())
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        loop {
            let message = match self.inner.recv().await {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(None),
                Err(error) => {
                    tracing::debug!(%error, "the connection is lost");
                    return Ok(None);
                }
            };
            let text = match message {
                TransportMessage::Text(text) => text,
                TransportMessage::Binary(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                parsed @ TransportMessage::Parsed(_) => return Ok(Some(parsed)),
            };
            match read(&text) {
                // Nobody listens any more when the program is about to end.
                Ok(Read::Inbound(inbound)) => drop(self.out.send(inbound)),
                Ok(Read::Answer) => return Ok(Some(TransportMessage::Text(text))),
                Ok(Read::Other) => {}
                Err(error) => tracing::warn!(%error, "the host sent something unexpected"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.inner.close().await
    }
}

/// The kinds of messages from the host.
enum Read {
    Inbound(Inbound),
    /// A response, for the client library.
    Answer,
    /// A notification that we do not use.
    Other,
}

/// The envelope of a message. Its content is parsed only once its kind is known: an answer consists of many small
/// messages.
#[derive(Deserialize)]
struct Outside<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    id: Option<IgnoredAny>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

fn read(text: &str) -> serde_json::Result<Read> {
    let outside: Outside = serde_json::from_str(text)?;
    let (Some(method), None) = (&outside.method, &outside.id) else {
        return Ok(Read::Answer);
    };
    let params = outside.params.map_or("null", RawValue::get);
    Ok(match method.as_ref() {
        "action" => Read::Inbound(Inbound::Action(serde_json::from_str(params)?)),
        "root/sessionRemoved" => {
            let removed: SessionRemovedParams = serde_json::from_str(params)?;
            Read::Inbound(Inbound::SessionRemoved(removed.session))
        }
        _ => Read::Other,
    })
}

/// A WebSocket over a local socket.
#[cfg(unix)]
struct UnixTransport(tokio_tungstenite::WebSocketStream<tokio::net::UnixStream>);

#[cfg(unix)]
impl Transport for UnixTransport {
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        use futures_util::SinkExt;
        let frame = match message {
            TransportMessage::Parsed(message) => {
                let text =
                    serde_json::to_string(&message).map_err(|error| TransportError::Protocol(error.to_string()))?;
                tungstenite::Message::text(text)
            }
            TransportMessage::Text(text) => tungstenite::Message::text(text),
            TransportMessage::Binary(bytes) => tungstenite::Message::binary(bytes),
        };
        self.0
            .send(frame)
            .await
            .map_err(|error| TransportError::Io(error.to_string()))
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        use futures_util::StreamExt;
        loop {
            match self.0.next().await {
                Some(Ok(tungstenite::Message::Text(text))) => {
                    return Ok(Some(TransportMessage::Text(text.to_string())));
                }
                Some(Ok(tungstenite::Message::Binary(bytes))) => {
                    return Ok(Some(TransportMessage::Binary(bytes.into())));
                }
                Some(Ok(tungstenite::Message::Close(_))) | None => return Ok(None),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(TransportError::Io(error.to_string())),
            }
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.0
            .close(None)
            .await
            .map_err(|error| TransportError::Io(error.to_string()))
    }
}

/// A connection.
pub(super) struct Link {
    pub(super) client: Client,
    inbound: mpsc::UnboundedReceiver<Inbound>,
    pinger: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.pinger.abort();
    }
}

/// The host answers, but refuses the connection.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// Limits of what the host sends.
fn limits() -> tungstenite::protocol::WebSocketConfig {
    tungstenite::protocol::WebSocketConfig::default()
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST))
}

impl Link {
    /// Connects to the host, without sending anything.
    async fn open(place: &Place) -> Result<Self> {
        let (out, inbound) = mpsc::unbounded_channel();
        let client = match place.find()? {
            Address::Url(url) => {
                let host = url.split('?').next().unwrap_or_default();
                let address: tungstenite::http::Uri = url.parse().with_context(|| format!("{host:?} is not a URL"))?;
                let connected = tokio_tungstenite::connect_async_with_config(address, Some(limits()), false).await;
                let (socket, _) = connected.map_err(|error| explain(error, host, shows_token(&url)))?;
                let inner = WebSocketTransport::from_stream(socket);
                Client::connect(Tap { inner, out }, ClientConfig::default()).await?
            }
            #[cfg(unix)]
            Address::Unix(path, request) => {
                let shown = path.display().to_string();
                let stream = tokio::net::UnixStream::connect(&path)
                    .await
                    .with_context(|| format!("No host answers at {shown}. Start one with `lodge`"))?;
                let address = format!("ws://localhost{request}");
                let (socket, _) = tokio_tungstenite::client_async_with_config(address, stream, Some(limits()))
                    .await
                    .map_err(|error| explain(error, &shown, shows_token(&request)))?;
                let inner = UnixTransport(socket);
                Client::connect(Tap { inner, out }, ClientConfig::default()).await?
            }
            #[cfg(not(unix))]
            Address::Unix(..) => bail!("Unix sockets cannot be used here"),
        };
        let pinged = client.clone();
        let pinger = tokio::spawn(async move {
            loop {
                sleep(PING).await;
                if pinged.ping().await.is_err() {
                    pinged.shutdown().await;
                    return;
                }
            }
        });
        Ok(Self {
            client,
            inbound,
            pinger: pinger.abort_handle(),
        })
    }

    /// Connects to the host and initializes the connection.
    pub(super) async fn connect(place: &Place, me: &str) -> Result<(Self, InitializeResult)> {
        let link = timeout(TRY, Self::open(place))
            .await
            .context("The host did not answer")??;
        let hello = link.initialize(me, vec![ROOT_RESOURCE_URI.to_owned()]).await?;
        Ok((link, hello))
    }

    async fn initialize(&self, me: &str, subscriptions: Vec<Uri>) -> Result<InitializeResult> {
        let params = InitializeParams {
            channel: ROOT_RESOURCE_URI.to_owned(),
            meta: None,
            protocol_versions: SUPPORTED_PROTOCOL_VERSIONS.iter().map(ToString::to_string).collect(),
            client_id: me.to_owned(),
            client_info: Some(Implementation {
                name: "lodge-attach".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                title: Some("lodge attach".to_owned()),
            }),
            initial_subscriptions: Some(subscriptions),
            locale: None,
            capabilities: None,
        };
        let hello = self.client.request("initialize", params).await;
        hello.map_err(|error| anyhow::anyhow!("The host refused the connection: {}", reason(&error)))
    }

    /// The host's next message; `None` when the connection is lost.
    pub(super) async fn next(&mut self) -> Option<Inbound> {
        self.inbound.recv().await
    }

    /// A message that has already arrived.
    pub(super) fn ready(&mut self) -> Option<Inbound> {
        self.inbound.try_recv().ok()
    }
}

fn shows_token(url: &str) -> bool {
    url.contains("tkn=")
}

fn explain(error: tungstenite::Error, host: &str, with_token: bool) -> anyhow::Error {
    match error {
        tungstenite::Error::Http(response) if response.status() == 403 => {
            let said = response.body().as_deref().map(String::from_utf8_lossy);
            let why = match said.as_deref().map(str::trim) {
                Some(said) if !said.is_empty() => format!("The host at {host} refused the connection: {said}"),
                _ if with_token => format!("The host at {host} refused the token"),
                _ => format!("The host at {host} needs a token, and none was given. Use --token or LODGE_TOKEN."),
            };
            Refused(why).into()
        }
        tungstenite::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("No host answers at {host}. Start one with `lodge`.")
        }
        error if error.to_string().contains("certificate") => anyhow::Error::new(error).context(format!(
            "Cannot connect to {host}. To trust a certificate of your own, name it in SSL_CERT_FILE"
        )),
        error => anyhow::Error::new(error).context(format!("Cannot connect to {host}")),
    }
}

/// An error of a request, as text.
pub(super) fn reason(error: &ClientError) -> String {
    match error {
        ClientError::Rpc(error) => error.message.clone(),
        other => other.to_string(),
    }
}

/// State at the time when the connection was lost.
#[derive(Clone)]
pub(super) struct Leftover {
    pub(super) me: String,
    pub(super) seen: u64,
    pub(super) subscriptions: Vec<Uri>,
    /// The session that is shown.
    pub(super) session: Uri,
}

/// The host's response to a client that reconnects.
pub(super) enum Missed {
    /// The missed actions, and channels that no longer exist.
    Actions(Vec<ActionEnvelope>, Vec<Uri>),
    /// Snapshots of everything that still exists.
    Snapshots(Vec<Snapshot>),
}

impl Missed {
    /// Whether a channel is none of those that still exist.
    fn lacks(&self, channel: &Uri) -> bool {
        match self {
            Self::Actions(_, missing) => missing.contains(channel),
            Self::Snapshots(snapshots) => snapshots.iter().all(|snapshot| snapshot.resource != *channel),
        }
    }
}

/// A connection, or the search for one.
pub(super) enum Wire {
    Up(Link),
    Away(Search),
}

/// A search for the host.
pub(super) struct Search {
    looking: JoinHandle<Result<(Link, Missed)>>,
    /// Why the host cannot be restarted.
    trouble: mpsc::UnboundedReceiver<String>,
}

/// News from the connection.
pub(super) enum News {
    Said(Inbound),
    Lost,
    /// The host cannot be restarted, for this reason; the search continues.
    Trouble(String),
    Back(Link, Missed),
}

impl Wire {
    /// Searches for the host until it is back, or until patience runs out, if it is limited.
    pub(super) fn look(place: &Place, left: Leftover, patience: Option<Duration>) -> Self {
        let (told, trouble) = mpsc::unbounded_channel();
        Self::Away(Search {
            looking: tokio::spawn(look(place.clone(), left, patience, told)),
            trouble,
        })
    }

    /// The next news. An error means that continuing is pointless.
    pub(super) async fn next(&mut self) -> Result<News> {
        match self {
            Self::Up(link) => Ok(link.next().await.map_or(News::Lost, News::Said)),
            Self::Away(search) => tokio::select! {
                biased;
                Some(why) = search.trouble.recv() => Ok(News::Trouble(why)),
                found = &mut search.looking => {
                    let (link, missed) = found.context("The search for the host failed")??;
                    Ok(News::Back(link, missed))
                }
            },
        }
    }

    pub(super) fn link(&mut self) -> Option<&mut Link> {
        match self {
            Self::Up(link) => Some(link),
            Self::Away(_) => None,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Self::Away(search) = self {
            search.looking.abort();
        }
    }
}

async fn look(
    place: Place,
    left: Leftover,
    patience: Option<Duration>,
    trouble: mpsc::UnboundedSender<String>,
) -> Result<(Link, Missed)> {
    let began = Instant::now();
    let mut pause = PAUSE.0;
    let (mut refusals, mut revivals) = (0, 0);
    loop {
        // The note is read each time: a restarted host may listen elsewhere.
        let error = match timeout(TRY, come_back(&place, &left)).await {
            Ok(Ok(back)) => return Ok(back),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("The host did not answer"),
        };
        tracing::debug!(%error, "the host is not back yet");
        if revivals < REVIVALS
            && let Err(error) = place.revive().await
        {
            revivals += 1;
            // Nobody listens any more when the program is about to end.
            let _ = trouble.send(format!("Cannot restart the host: {error:#}"));
        }
        refusals += u32::from(error.is::<Refused>());
        if refusals >= REFUSALS || patience.is_some_and(|patience| began.elapsed() > patience) {
            return Err(error);
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

async fn come_back(place: &Place, left: &Leftover) -> Result<(Link, Missed)> {
    let link = Link::open(place).await?;
    let seen = i64::try_from(left.seen).unwrap_or(i64::MAX);
    let subscriptions = left.subscriptions.clone();
    let missed = match link.client.reconnect(left.me.clone(), seen, subscriptions).await {
        Ok(ReconnectResult::Replay(replay)) => Missed::Actions(replay.actions, replay.missing),
        Ok(ReconnectResult::Snapshot(fresh)) => Missed::Snapshots(fresh.snapshots),
        // The host has forgotten us, or it is another host on the same home.
        Err(ClientError::Rpc(error)) if error.code == ahp_error_codes::NOT_FOUND => {
            let hello = link.initialize(&left.me, left.subscriptions.clone()).await?;
            Missed::Snapshots(hello.snapshots)
        }
        Err(error) => bail!("{}", reason(&error)),
    };
    // A session lacks if it was deleted, and also if another host has it and cannot be reached at this moment.
    if missed.lacks(&left.session) {
        match link.client.subscribe(left.session.clone()).await {
            Err(ClientError::Rpc(error)) if error.code == ahp_error_codes::SESSION_NOT_FOUND => {}
            Err(error) => bail!("Cannot open the session: {}", reason(&error)),
            Ok(_) => bail!("The session could not be reached until now"),
        }
    }
    Ok((link, missed))
}
