//! Listens on TCP and Unix sockets for a face that speaks over WebSockets.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    path::Path,
    pin::Pin,
    time::Duration,
};

use axum::Router;
use lodge_door::{Admission, LocalListener, SocketFile};
use lodge_host::{Connections, Host};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    HttpConfig, Listen, Socket, TlsError,
    gate::Gate,
    listener::Listener,
    local,
    routes::{self, Doorway},
    tls,
};

/// A face that speaks over WebSockets.
pub trait SocketFace: Send + Sync + 'static {
    /// Bytes that one message of a client may have.
    fn message_bytes(&self, admission: &Admission) -> usize;

    /// Serves a client until it leaves.
    fn serve(&self, socket: Socket, admission: Admission) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Anybody on the network could come in.
    #[error(
        "{0} can be reached from other machines, so it needs a token and TLS. Listen on 127.0.0.1 instead, \
         or give a certificate and a key."
    )]
    Exposed(SocketAddr),
    /// The certificate or its key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What came of it.
        error: io::Error,
    },
}

/// A port that is served. Dropping it does not stop it; [`Server::shutdown`] does.
pub struct Server {
    router: Router,
    address: Option<SocketAddr>,
    socket: Option<SocketFile>,
    connections: Connections,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Serves a face and everything beside it.
pub async fn serve(host: Host, config: HttpConfig, face: impl SocketFace) -> Result<Server, ServeError> {
    let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
    if let Listen::Tcp(address) = &config.listen
        && !config.listen.is_local()
        && (config.tls.is_none() || config.door.token().is_none())
    {
        return Err(ServeError::Exposed(*address));
    }
    let (listener, address, socket) = match &config.listen {
        Listen::Tcp(address) => {
            let failed = failed(format!("cannot listen on {address}"));
            let listener = bind(*address, config.any_port).await.map_err(&failed)?;
            let bound = listener.local_addr().map_err(&failed)?;
            (Listener::Tcp(listener, acceptor), Some(bound), None)
        }
        Listen::Unix(path) => {
            let failed = failed(format!("cannot listen on {}", path.display()));
            let (listener, file) = lodge_door::listen_at(path.clone()).map_err(failed)?;
            (Listener::Unix(listener), None, Some(file))
        }
    };
    let (connections, stop, tasks) = (host.connections().clone(), CancellationToken::new(), TaskTracker::new());
    let router = routes::router(Doorway {
        face: Box::new(face),
        host,
        secure: config.tls.is_some(),
        on_loopback: config.listen.is_local(),
        gate: Gate::new(
            config.door,
            config.allowed_hosts,
            config.allowed_origins,
            address.is_some(),
        ),
        pages: config.pages,
        stop: stop.clone(),
    });
    tasks.spawn(listener.serve(router.clone(), connections.clone(), stop.clone()));
    Ok(Server {
        router,
        address,
        socket,
        connections,
        tasks,
        stop,
    })
}

fn failed(what: String) -> impl Fn(io::Error) -> ServeError {
    move |error| ServeError::Io {
        what: what.clone(),
        error,
    }
}

async fn bind(address: SocketAddr, any_port: bool) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if any_port && error.kind() == ErrorKind::AddrInUse => TcpListener::bind((address.ip(), 0)).await,
        bound => bound,
    }
}

impl Server {
    /// The address listened on, when it is TCP.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The unix socket listened on.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(SocketFile::path)
    }

    /// Serves a socket of this machine, too.
    pub fn serve_local(&self, listener: LocalListener) {
        let served = local::serve(
            listener,
            self.router.clone(),
            self.connections.clone(),
            self.stop.clone(),
        );
        self.tasks.spawn(served);
    }

    /// Lets nobody in any more. What became a WebSocket is the face's.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(Duration::from_secs(5), self.tasks.wait()).await;
    }
}
