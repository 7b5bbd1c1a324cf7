//! Listening: TCP and unix sockets, the check at the door, the upgrade to WebSocket.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    path::Path,
    sync::Arc,
};

use axum::{Extension, Router};
use lodge_door::{Admission, LocalListener, SocketFile};
use lodge_host::{Connections, Host, Lifecycle};
use serde_json::{Map, Value};
use tokio::{net::UnixStream, sync::broadcast::error::RecvError};

use crate::{
    auth::Gate,
    config::{AhpConfig, Listen},
    face::Face,
    http::{self, Doorway},
    listener::{Listener, speak_http},
    local,
    methods::Chats,
    migrate, relay,
};

/// Why the face does not listen.
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
    Tls(#[from] crate::tls::TlsError),
    /// The socket or the face's files.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What came of it.
        error: std::io::Error,
    },
}

/// A face that listens. Dropping it does not stop it; [`Server::shutdown`] does.
pub struct Server {
    doorway: Arc<Doorway>,
    router: Router,
    address: Option<SocketAddr>,
    socket: Option<SocketFile>,
    task: tokio::task::JoinHandle<()>,
}

/// Opens the face of a host.
pub async fn serve(host: Host, config: AhpConfig) -> Result<Server, ServeError> {
    let io = |what: &str| {
        let what = what.to_owned();
        move |error| ServeError::Io { what, error }
    };
    let (listen, any_port) = (config.listen.clone(), config.any_port);
    let acceptor = config.tls.as_ref().map(crate::tls::acceptor).transpose()?;
    if let Listen::Tcp(address) = &listen
        && !address.ip().is_loopback()
        && (config.tls.is_none() || config.door.token().is_none())
    {
        return Err(ServeError::Exposed(*address));
    }
    let over_tcp = matches!(listen, Listen::Tcp(_));
    let on_loopback = match &listen {
        Listen::Tcp(address) => address.ip().is_loopback(),
        Listen::Unix(_) => true,
    };
    let secure = config.tls.is_some();
    let gate = Gate::new(
        config.door.clone(),
        config.allowed_hosts.clone(),
        config.allowed_origins.clone(),
        over_tcp,
    );
    let face = Face::new(host, config)
        .await
        .map_err(io("the files of the AHP face cannot be opened"))?;
    let doorway = Arc::new(Doorway {
        face: face.clone(),
        gate,
        secure,
        on_loopback,
    });
    let router = http::router(doorway.clone());
    let served = router.clone();
    let (connections, stop) = (face.host.connections().clone(), face.stop.clone());
    face.tasks.spawn(watch(face.clone()));
    face.tasks.spawn(migrate::bring_in_queues(face.clone()));
    face.begin_automations();
    face.host.keep_schedules();
    let (address, socket, task) = match listen {
        Listen::Tcp(address) => {
            let listener = match tokio::net::TcpListener::bind(address).await {
                Err(error) if any_port && error.kind() == std::io::ErrorKind::AddrInUse => {
                    tokio::net::TcpListener::bind((address.ip(), 0)).await
                }
                bound => bound,
            };
            let listener = listener.map_err(io(&format!("cannot listen on {address}")))?;
            let bound = listener
                .local_addr()
                .map_err(io("the address listened on is not known"))?;
            let listener = Listener::Tcp(listener, acceptor);
            let task = tokio::spawn(listener.serve(router, connections, stop));
            (Some(bound), None, task)
        }
        Listen::Unix(path) => {
            let failed = io(&format!("cannot listen on {}", path.display()));
            let (listener, file) = lodge_door::listen_at(path).map_err(failed)?;
            let task = tokio::spawn(Listener::Unix(listener).serve(router, connections, stop));
            (None, Some(file), task)
        }
    };
    Ok(Server {
        doorway,
        router: served,
        address,
        socket,
        task,
    })
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

    /// Serves a socket of this machine, too, until the face stops.
    pub fn serve_local(&self, listener: LocalListener) {
        let face = &self.doorway.face;
        let connections = face.host.connections().clone();
        let served = local::serve(listener, self.router.clone(), connections, face.stop.clone());
        face.tasks.spawn(served);
    }

    /// Serves streams that lead to clients of other hosts.
    pub fn links(&self) -> Links {
        Links {
            router: self.router.clone(),
            connections: self.doorway.face.host.connections().clone(),
        }
    }

    /// Tells clients that the host stops, and waits until they are let go.
    pub async fn shutdown(self) {
        self.doorway.face.shut();
        self.doorway.face.tasks.close();
        let patience = std::time::Duration::from_secs(5);
        let _ = tokio::time::timeout(patience, self.doorway.face.tasks.wait()).await;
        self.task.abort();
    }
}

/// Serves streams that lead to clients of other hosts. Those hosts let them in and say first who each is; what it may do is checked here
/// as well.
#[derive(Clone)]
pub struct Links {
    router: Router,
    connections: Connections,
}

impl Links {
    /// Serves one that comes from the host of this name, until it ends.
    pub fn serve(&self, mut stream: UnixStream, from: String) -> impl Future<Output = ()> + Send + use<> {
        let (router, slot) = (self.router.clone(), Arc::new(self.connections.admit(None)));
        async move {
            let Some(introduction) = relay::introduction(&mut stream).await else {
                tracing::warn!(from, "a host did not say who its client is");
                return;
            };
            let admission = Admission::introduced(&from, introduction);
            speak_http(stream, router.layer(Extension(admission)), slot).await;
        }
    }
}

/// Keeps the list of sessions right for what other faces do.
async fn watch(face: Arc<Face>) {
    let mut lifecycle = face.host.lifecycle();
    let mut decisions = face.host.decisions().changed();
    let mut list = List::default();
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(200));
    loop {
        tokio::select! {
            event = lifecycle.recv() => match event {
                Ok(event) => list.note(&face, event),
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "clients may show sessions as they were"),
                Err(RecvError::Closed) => return,
            },
            Ok(()) = decisions.changed() => face.decided_for_all(),
            _ = tick.tick(), if !list.changed.is_empty() => {
                for id in std::mem::take(&mut list.changed) {
                    list.tell(&face, &id).await;
                    // Telling takes a while, and what piles up meanwhile would be lost.
                    while let Ok(event) = lifecycle.try_recv() {
                        list.note(&face, event);
                    }
                }
            }
            () = face.stop.cancelled() => return,
        }
    }
}

/// What is to be told about sessions that are not open here.
#[derive(Default)]
struct List {
    /// What clients were told, by the ids.
    told: HashMap<String, Map<String, Value>>,
    changed: HashSet<String>,
    made: HashSet<String>,
}

impl List {
    fn note(&mut self, face: &Arc<Face>, event: Lifecycle) {
        match event {
            Lifecycle::Created(id) => {
                self.made.insert(id.clone());
                self.changed.insert(id);
            }
            Lifecycle::Updated(id) => {
                self.changed.insert(id);
            }
            Lifecycle::Deleted { id, address, chat_of } => {
                self.changed.remove(&id);
                self.made.remove(&id);
                self.told.remove(&id);
                if face.removals.is_own(&id) {
                    return;
                }
                match chat_of {
                    Some(_) => face.chat_gone(&id),
                    None => face.forget(&address.unwrap_or_else(|| crate::uri::session(&id))),
                }
            }
        }
    }

    /// Tells clients about a session that is not open here; open ones speak for themselves.
    async fn tell(&mut self, face: &Face, id: &str) {
        let session = face.uri_of(id);
        if face.host.live(id).is_some() && face.is_detached(id) {
            // Somebody else took up a session that is shown here: it is read anew.
            return face.reload(&session);
        }
        {
            let inner = face.inner.lock();
            if inner.core.conns.is_empty() || inner.core.sessions.contains_key(session.as_str()) {
                self.made.remove(id);
                return;
            }
        }
        let Ok(chats) = Chats::of(&face.host, id).await else {
            return;
        };
        let Some(line) = face.summary(id).await.and_then(|line| face.line(&line, &chats)) else {
            return;
        };
        let Ok(Value::Object(map)) = serde_json::to_value(&line) else {
            return;
        };
        let inner = face.inner.lock();
        if self.made.remove(id) {
            inner.core.notify_added(&line);
        } else {
            let empty = Map::new();
            let changes = crate::state::session::changes(self.told.get(id).unwrap_or(&empty), &map);
            if !changes.is_empty() {
                inner.core.notify_changes(&session, changes);
            }
        }
        drop(inner);
        self.told.insert(id.to_owned(), map);
    }
}
