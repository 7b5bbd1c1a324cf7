//! A local socket that leads to a host on another machine. Every connection gets its own connection to the far end, so a client
//! that reconnects gets a new one all the way.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
};

use super::{
    pin,
    ssh::{Asking, SshTarget},
};

/// A route to the other machine.
#[derive(Clone)]
pub(super) enum Route {
    Ssh(SshTarget, Asking),
    Tls(pin::Target),
}

/// A connection to the host.
pub(super) struct Way {
    pub(super) from_host: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) to_host: Box<dyn AsyncWrite + Send + Unpin>,
    /// The program that carries it; it ends with the connection.
    pub(super) carrier: Option<tokio::process::Child>,
}

impl Route {
    async fn go(&self) -> Result<Way> {
        match self {
            Self::Ssh(target, asking) => target.connect(*asking).await,
            Self::Tls(target) => target.connect().await,
        }
    }
}

/// An open forward to a host.
pub(crate) struct Forward {
    directory: PathBuf,
    task: JoinHandle<()>,
}

impl Forward {
    /// Opens the forward. Connecting once shows whether the host can be reached, and lets ssh ask for a password.
    pub(super) async fn open(route: Route) -> Result<Self> {
        let first = route.go().await?;
        let directory = std::env::temp_dir().join(format!("lodge-{}", uuid::Uuid::new_v4()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .with_context(|| format!("Cannot create {}", directory.display()))?;
        let socket = directory.join("host");
        let listener = UnixListener::bind(&socket).with_context(|| format!("Cannot listen on {}", socket.display()));
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                return Err(error);
            }
        };
        let task = tokio::spawn(serve(listener, route, first));
        Ok(Self { directory, task })
    }

    /// The socket for clients.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("host")
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_dir_all(Path::new(&self.directory));
    }
}

async fn serve(listener: UnixListener, route: Route, first: Way) {
    let mut first = Some(first);
    while let Ok((client, _)) = listener.accept().await {
        let (route, first) = (route.clone(), first.take());
        tokio::spawn(async move {
            let way = match first {
                Some(way) => way,
                None => match route.go().await {
                    Ok(way) => way,
                    // The client sees the connection end, and tries again.
                    Err(error) => return tracing::debug!("{}", crate::describe(&error)),
                },
            };
            carry(client, way).await;
        });
    }
}

async fn carry(client: UnixStream, mut way: Way) {
    let (mut from_client, mut to_client) = client.into_split();
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut way.to_host) => {}
        _ = tokio::io::copy(&mut way.from_host, &mut to_client) => {}
    }
    // Either end has closed, so the other is closed, too. Dropping ends the carrier.
    drop(way.carrier);
}
