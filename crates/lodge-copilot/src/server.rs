//! Serving clients over standard input and output and over TCP.

use std::{io, path::PathBuf, sync::Arc};

use lodge_host::Host;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

use crate::{
    board::Boards,
    connection::Connection,
    lifecycle,
    peer::Peer,
    providers::Tokens,
    stdio,
    traces::{TraceOptions, Traces},
};

/// How the face behaves.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The version that clients are told.
    pub version: String,
    /// The token that `connect` must carry, where one is wanted.
    pub connection_token: Option<String>,
    /// The GitHub token that the client brought along, for `auth.getStatus`.
    pub github_token: Option<String>,
    /// The GitHub host that the token is for, e.g. `https://github.com`.
    pub github_host: String,
    /// Address of the GitHub API at which a token's owner can be asked for; nobody is asked without it.
    pub github_api: Option<String>,
    /// Address of the Copilot API, behind which GitHub's own MCP server is.
    pub copilot_api: Option<String>,
    /// Whether sessions run everything without asking.
    pub approve_all: bool,
    /// How many bytes may wait for a client before it is disconnected.
    pub queue_bytes: usize,
    /// Traces of sessions, where they are wanted.
    pub traces: Option<TraceOptions>,
    /// Directories of plugins that every session gets.
    pub plugin_directories: Vec<PathBuf>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            connection_token: None,
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

/// What all connections of a server share.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) tokens: Tokens,
    pub(crate) boards: Boards,
    pub(crate) traces: Option<Traces>,
    pub(crate) peers: Arc<Peers>,
}

impl Shared {
    fn new(options: ServerOptions) -> Arc<Self> {
        Arc::new(Self {
            traces: options.traces.clone().map(Traces::start),
            options,
            tokens: Tokens::default(),
            boards: Boards::default(),
            peers: Arc::default(),
        })
    }
}

/// Everybody who is connected and has shown the token, to be told of what happens to sessions.
#[derive(Default)]
pub(crate) struct Peers(Mutex<Vec<Peer>>);

impl Peers {
    /// Adds a client.
    pub(crate) fn add(&self, peer: Peer) {
        self.0.lock().push(peer);
    }

    /// Removes those that are gone.
    pub(crate) fn sweep(&self) {
        self.0.lock().retain(|peer| peer.reason().is_none());
    }

    /// Whether nobody is connected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Does something for each.
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
    let shared = Shared::new(options);
    let _lifecycle = AbortOnDrop(tokio::spawn(lifecycle::tell(host.clone(), shared.peers.clone())));
    let connection = Arc::new(Connection::new(host, shared, None));
    connection.run(input, output).await;
}

/// Serves clients that connect to a TCP listener, for as long as the future is polled.
pub async fn serve_tcp(host: Host, listener: TcpListener, options: ServerOptions) -> io::Result<()> {
    let shared = Shared::new(options);
    let _lifecycle = AbortOnDrop(tokio::spawn(lifecycle::tell(host.clone(), shared.peers.clone())));
    let connections = host.connections().clone();
    loop {
        let (socket, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            // One connection that could not be accepted (out of descriptors, reset in the queue) is not the end.
            Err(error) => {
                connections.accept_failed(&error).await;
                continue;
            }
        };
        // Answers and deltas are small and each is waited for.
        let _ = socket.set_nodelay(true);
        tracing::debug!(%address, "connection accepted");
        let slot = connections.admit(Some(address.ip()));
        let connection = Arc::new(Connection::new(host.clone(), shared.clone(), Some(slot)));
        let shared = shared.clone();
        tokio::spawn(async move {
            let (input, output) = socket.into_split();
            connection.run(input, output).await;
            shared.peers.sweep();
        });
    }
}

/// The line on standard output from which the SDKs learn the port.
pub fn announcement(port: u16) -> String {
    format!("CLI server listening on port {port}")
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
