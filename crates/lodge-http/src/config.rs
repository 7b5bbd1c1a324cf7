//! The configuration of the port.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use axum::{
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use lodge_door::Door;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// TCP; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A unix socket, readable by its owner alone.
    Unix(PathBuf),
}

impl Listen {
    /// Whether only this machine can connect.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// How the port is set up.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Where to listen.
    pub listen: Listen,
    /// Whether a free port does where the one to listen on is taken.
    pub any_port: bool,
    /// Who may come in.
    pub door: Arc<Door>,
    /// `Host` names that are accepted besides `localhost` and bare addresses.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may connect, such as `https://lodge.example`. Pages served by this host always may.
    pub allowed_origins: Vec<String>,
    /// What browsers are shown that open the address.
    pub pages: Option<Pages>,
    /// TLS, required for anything but loopback.
    pub tls: Option<TlsFiles>,
}

impl HttpConfig {
    /// Loopback, any free port.
    pub fn loopback(door: Arc<Door>) -> Self {
        Self {
            listen: Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
            any_port: false,
            door,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            pages: None,
            tls: None,
        }
    }
}

/// Serves files to browsers: GET and HEAD requests that nothing else here answers. Anybody may see what it serves.
#[derive(Clone)]
pub struct Pages(pub(crate) Arc<Serve>);

type Serve = dyn Fn(&Method, &Uri, &HeaderMap) -> Response + Send + Sync;

impl Pages {
    /// From what answers a request. It must not wait for anything.
    pub fn new(serve: impl Fn(&Method, &Uri, &HeaderMap) -> Response + Send + Sync + 'static) -> Self {
        Self(Arc::new(serve))
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pages")
    }
}
