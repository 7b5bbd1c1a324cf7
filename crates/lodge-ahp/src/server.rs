//! The face as others see it: opened on a host, given sockets of clients that were let in, shut.

use std::{io, pin::Pin, sync::Arc, time::Duration};

use lodge_door::{Admission, Role};
use lodge_host::{Host, Link};
use lodge_http::{Socket, SocketFace, socket_config};
use tokio::{net::UnixStream, time::timeout_at};
use tokio_tungstenite::accept_async_with_config;

use crate::{config::AhpConfig, connection, face::Face, list, migrate, relay};

/// The AHP face of a host. Dropping it does not stop it; [`Ahp::shutdown`] does.
#[derive(Clone)]
pub struct Ahp(Arc<Face>);

impl Ahp {
    /// Opens the face.
    pub async fn open(host: Host, config: AhpConfig) -> io::Result<Self> {
        let face = Face::new(host, config).await?;
        face.tasks.spawn(list::watch_list(face.clone()));
        face.tasks.spawn(migrate::bring_in_queues(face.clone()));
        face.begin_automations();
        face.host.keep_schedules();
        Ok(Self(face))
    }

    /// Serves a client that the host of this name let in, until it leaves. That host says first who it is; what it may do is
    /// checked here as well.
    pub fn serve_link(&self, mut stream: UnixStream, from: String) -> impl Future<Output = ()> + Send + use<> {
        let face = self.clone();
        async move {
            let slot = face.0.host.connections().admit(None);
            let Some(introduction) = relay::introduction(&mut stream).await else {
                tracing::warn!(from, "another host did not identify its client");
                return;
            };
            if let Err(error) = slot.authenticate() {
                tracing::warn!(from, %error, "a client of another host is not served");
                return;
            }
            let admission = Admission::introduced(&from, introduction);
            let stream: Box<dyn Link> = Box::new(stream);
            let config = socket_config(face.message_bytes(&admission));
            let accepted = accept_async_with_config(stream, Some(config));
            match timeout_at(slot.deadline().into(), accepted).await {
                Ok(Ok(socket)) => connection::run(face.0, socket, admission).await,
                _ => tracing::debug!(from, "a client of another host disconnected before its first message"),
            }
        }
    }

    /// Tells clients that the host stops, and waits until they are let go.
    pub async fn shutdown(self) {
        self.0.shut();
        self.0.tasks.close();
        let _ = tokio::time::timeout(Duration::from_secs(5), self.0.tasks.wait()).await;
    }
}

impl SocketFace for Ahp {
    fn message_bytes(&self, admission: &Admission) -> usize {
        let limits = &self.0.config.limits;
        match admission.check(Role::Full) {
            Ok(()) => limits.writers_frame_bytes(),
            Err(_) => limits.frame_bytes,
        }
    }

    fn serve(&self, socket: Socket, admission: Admission) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(connection::run(self.0.clone(), socket, admission))
    }
}
