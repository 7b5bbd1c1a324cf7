//! Serving clients over standard input and output and over TCP.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use lodge_door::{Admission, Door, LocalListener, Refused, turn_away};
use lodge_host::{Connections, Host, Slot};
use lodge_telemetry::TraceOptions;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixStream},
};

use crate::{
    board::Boards, connection::Connection, frame::Frame, lifecycle_notifications, peer::Peer, providers::Tokens,
    rpc::AUTHENTICATION_FAILED, stdio, traces::Traces,
};

/// Options of the face.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The version that clients see.
    pub version: String,
    /// A token that `connect` must carry. Without one and without a door, none is needed.
    pub connection_token: Option<String>,
    /// The door of the home, whose token and devices are also accepted.
    pub door: Option<Arc<Door>>,
    /// Whether the person who started the server accepts connections from other machines without encryption.
    pub insecure_plaintext: bool,
    /// The client's GitHub token, for `auth.getStatus`.
    pub github_token: Option<String>,
    /// The GitHub host that the token is for, e.g. `https://github.com`.
    pub github_host: String,
    /// Address of the GitHub API that tells whose token it is; without it, nobody is asked.
    pub github_api: Option<String>,
    /// Address of the Copilot API, behind which GitHub's own MCP server is.
    pub copilot_api: Option<String>,
    /// Whether sessions approve everything.
    pub approve_all: bool,
    /// Limit for queued bytes before a client is disconnected.
    pub queue_bytes: usize,
    /// Traces of sessions, if they are turned on.
    pub traces: Option<TraceOptions>,
    /// Directories of plugins that every session gets.
    pub plugin_directories: Vec<PathBuf>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            connection_token: None,
            door: None,
            insecure_plaintext: false,
            github_token: None,
            github_host: "https://github.com".to_owned(),
            github_api: None,
            copilot_api: None,
            approve_all: false,
            queue_bytes: 64 * 1024 * 1024,
            traces: None,
            plugin_directories: Vec::new(),
        }
    }
}

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} can be reached from other machines, and this wire is not encrypted. {}",
    if *.no_token {
        "Set COPILOT_CONNECTION_TOKEN to a token that clients must send, and add --insecure-plaintext to accept that \
         anybody on the network can read it; or listen on 127.0.0.1."
    } else {
        "Add --insecure-plaintext to accept that anybody on the network can read the token and everything else; or \
         listen on 127.0.0.1 and connect through an SSH tunnel."
    }
)]
pub struct Exposed {
    address: IpAddr,
    no_token: bool,
}

impl ServerOptions {
    /// Whether a token is needed.
    fn is_locked(&self) -> bool {
        self.connection_token.is_some() || self.door.as_ref().is_some_and(|door| door.token().is_some())
    }

    /// Whether the server may listen on an address: one that other machines can reach needs a token, and explicit
    /// acceptance that nothing is encrypted.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Exposed> {
        if address.is_loopback() || (self.is_locked() && self.insecure_plaintext) {
            return Ok(());
        }
        Err(Exposed {
            address,
            no_token: !self.is_locked(),
        })
    }

    /// The admission that a token gives.
    pub(crate) fn admit(&self, given: &str) -> Option<Admission> {
        if !self.is_locked() {
            return Some(Admission::owner());
        }
        let expected = self.connection_token.as_deref().unwrap_or_default();
        // An empty token is never right. The comparison takes constant time.
        if !expected.is_empty() && bool::from(expected.as_bytes().ct_eq(given.as_bytes())) {
            return Some(Admission::owner());
        }
        self.door.as_ref()?.admit_token(given)
    }
}

/// State shared by all connections of a server.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) tokens: Tokens,
    pub(crate) boards: Arc<Boards>,
    pub(crate) traces: Option<Traces>,
    pub(crate) peers: Arc<Peers>,
}

impl Shared {
    fn new(host: &Host, options: ServerOptions, boards: Arc<Boards>, peers: Arc<Peers>) -> Arc<Self> {
        Arc::new(Self {
            traces: options
                .traces
                .clone()
                .map(|options| Traces::start(options, host.clone())),
            options,
            tokens: Tokens::default(),
            boards,
            peers,
        })
    }
}

/// All admitted clients, which are notified of sessions.
#[derive(Default)]
pub(crate) struct Peers(Mutex<Vec<Peer>>);

impl Peers {
    /// Adds a client.
    pub(crate) fn add(&self, peer: Peer) {
        self.0.lock().push(peer);
    }

    /// Removes closed connections.
    pub(crate) fn sweep(&self) {
        self.0.lock().retain(|peer| peer.reason().is_none());
    }

    /// Whether no client is connected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Calls a function for each client.
    pub(crate) fn each(&self, act: impl Fn(&Peer)) {
        self.0.lock().iter().for_each(act);
    }
}

/// Serves one client on standard input and output, until it closes its side.
pub async fn serve_stdio(host: Host, options: ServerOptions) -> io::Result<()> {
    let (input, output) = stdio::open()?;
    serve_connection(host, input, output, options).await;
    Ok(())
}

/// Serves one client on any pair of byte streams, until it closes its side.
pub async fn serve_connection<R, W>(host: Host, input: R, output: W, options: ServerOptions)
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let server = Server::new(host, options);
    let known = server.known();
    server.connection(None, known).run(input, output).await;
}

/// Serves clients that connect to a TCP listener, until the future is dropped.
pub async fn serve_tcp(host: Host, listener: TcpListener, options: ServerOptions) -> io::Result<()> {
    Server::new(host, options).serve_tcp(listener).await
}

/// A server with several listeners, whose clients share its state.
pub struct Server {
    host: Host,
    shared: Arc<Shared>,
    _lifecycle: AbortOnDrop,
}

impl Server {
    /// A server without listeners. Needs a runtime.
    pub fn new(host: Host, options: ServerOptions) -> Self {
        host.keep_schedules();
        let shared = Shared::new(&host, options, Arc::default(), Arc::default());
        let lifecycle = tokio::spawn(lifecycle_notifications::send(host.clone(), shared.peers.clone()));
        Self {
            host,
            shared,
            _lifecycle: AbortOnDrop(lifecycle),
        }
    }

    fn connection(&self, slot: Option<Slot>, known: Option<Admission>) -> Arc<Connection> {
        Arc::new(Connection::new(self.host.clone(), self.shared.clone(), slot, known))
    }

    /// The identity of every client if no token is needed.
    fn known(&self) -> Option<Admission> {
        (!self.shared.options.is_locked()).then(Admission::owner)
    }

    /// Serves clients that connect to a TCP listener, until the future is dropped.
    pub async fn serve_tcp(&self, listener: TcpListener) -> io::Result<()> {
        let options = &self.shared.options;
        let exposed = |error| io::Error::new(io::ErrorKind::PermissionDenied, error);
        options.check_address(listener.local_addr()?.ip()).map_err(exposed)?;
        let connections = self.host.connections().clone();
        loop {
            let (socket, address): (_, SocketAddr) = match listener.accept().await {
                Ok(accepted) => accepted,
                // A connection that could not be accepted (no descriptors left, reset in the queue) does not end the
                // server.
                Err(error) => {
                    connections.accept_failed(&error).await;
                    continue;
                }
            };
            Connections::prepare(&socket);
            tracing::debug!(%address, "connection accepted");
            let slot = connections.admit(Some(address.ip()));
            let connection = self.connection(Some(slot), self.known());
            let shared = self.shared.clone();
            tokio::spawn(async move {
                let (input, output) = socket.into_split();
                connection.run(input, output).await;
                shared.peers.sweep();
            });
        }
    }

    /// Serves a client of this machine with its own options, until it closes the connection. `host` is the same host,
    /// on the client's behalf. Both servers' clients share their state.
    pub async fn serve_local_client(
        &self,
        host: Host,
        options: ServerOptions,
        stream: UnixStream,
        admission: Admission,
    ) {
        let shared = Shared::new(&host, options, self.shared.boards.clone(), self.shared.peers.clone());
        let slot = self.host.connections().admit(None);
        // A local client with a token of its own must show it.
        let known = (!shared.options.is_locked()).then_some(admission);
        let connection = Arc::new(Connection::new(host, shared, Some(slot), known));
        let (input, output) = stream.into_split();
        connection.run(input, output).await;
        self.shared.peers.sweep();
    }

    /// Serves processes of this machine, until the future is dropped. They need no token.
    pub async fn serve_local(&self, mut listener: LocalListener) {
        loop {
            let (stream, admitted) = listener.accept().await;
            match admitted {
                Ok(admission) => {
                    let slot = self.host.connections().admit(None);
                    let connection = self.connection(Some(slot), Some(admission));
                    let shared = self.shared.clone();
                    tokio::spawn(async move {
                        let (input, output) = stream.into_split();
                        connection.run(input, output).await;
                        shared.peers.sweep();
                    });
                }
                Err(why) => drop(tokio::spawn(async move {
                    turn_away(stream, refusal(why).as_bytes()).await;
                })),
            }
        }
    }
}

fn refusal(why: Refused) -> String {
    let error = serde_json::json!({ "code": AUTHENTICATION_FAILED, "message": why.to_string() });
    let body = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error });
    let frame = Frame::whole(body.to_string());
    format!("{}{body}", frame.header())
}

/// The line on standard output that tells the SDKs the port.
pub fn announcement(port: u16) -> String {
    format!("CLI server listening on port {port}")
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
