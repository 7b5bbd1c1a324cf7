//! Accepts connections and speaks HTTP/1.1 on them until they become WebSockets. Every connection runs in its own task from its
//! first byte, TLS included, so a slow one delays no other.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, header},
};
use hyper::{body::Incoming, server::conn::http1, service::Service as _};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use lodge_host::{Connections, Slot};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    time::{sleep, sleep_until, timeout, timeout_at},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Bytes and number of a request's headers.
const HEAD_BYTES: usize = 32 << 10;
const HEADERS: usize = 64;

/// Where connections come from.
pub(crate) enum Listener {
    Tcp(TcpListener, Option<TlsAcceptor>),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl Listener {
    async fn accept(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                Connections::prepare(&stream);
                Stream::Tcp(stream, peer.ip())
            }
            Self::Unix(listener) => Stream::Unix(listener.accept().await?.0),
        })
    }

    /// Serves connections until it is stopped.
    pub(crate) async fn serve(self, router: Router, connections: Connections, stop: CancellationToken) {
        let tls = match &self {
            Self::Tcp(_, tls) => tls.clone(),
            Self::Unix(_) => None,
        };
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    connections.accept_failed(&error).await;
                    continue;
                }
            };
            let address = match &stream {
                Stream::Tcp(_, address) => Some(*address),
                Stream::Unix(_) => None,
            };
            let slot = Arc::new(connections.admit(address));
            let (router, tls, stop) = (router.clone(), tls.clone(), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = greet(stream, tls, router, slot.clone()) => {}
                    // What became a WebSocket is not here any more.
                    () = slot.displaced() => tracing::debug!("a connection without a token was closed to make room for another"),
                    () = stop.cancelled() => {}
                }
            });
        }
    }
}

/// Goes along with a connection until it has become a WebSocket or is refused.
async fn greet(stream: Stream, tls: Option<TlsAcceptor>, router: Router, slot: Arc<Slot>) {
    match (stream, tls) {
        (Stream::Tcp(stream, _), Some(tls)) => match timeout_at(slot.deadline().into(), tls.accept(stream)).await {
            Ok(Ok(stream)) => speak_http(stream, router, slot).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
        (Stream::Tcp(stream, _), None) => speak_http(stream, router, slot).await,
        (Stream::Unix(stream), _) => speak_http(stream, router, slot).await,
    }
}

/// Speaks HTTP on a connection until it has become a WebSocket or ends.
pub(crate) async fn speak_http<S>(stream: S, router: Router, slot: Arc<Slot>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (patience, deadline) = (slot.limits().authenticate_within, slot.deadline());
    let router = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(slot.clone());
        let (answer, slot) = (router.call(request), slot.clone());
        async move { Ok::<_, Infallible>(refused_slowly(answer.await, &slot).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        () = sleep_until(deadline.into()) => connection.as_mut().graceful_shutdown(),
    }
    // An answer that is on its way may be finished.
    let _ = timeout(patience, connection).await;
}

/// An answer as it is sent: whoever was refused is answered later with every attempt, and has to connect again.
async fn refused_slowly(answer: Result<Response<Body>, Infallible>, slot: &Slot) -> Response<Body> {
    let Ok(mut answer) = answer;
    if [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED].contains(&answer.status()) {
        sleep(slot.wrong_token()).await;
    }
    if answer.status().is_client_error() || answer.status().is_server_error() {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(header::CONNECTION, close);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use axum::response::IntoResponse;
    use lodge_host::ConnectionLimits;

    use super::*;

    #[tokio::test]
    async fn whoever_is_refused_is_answered_later_with_every_attempt() {
        let waits = async |status: StatusCode| {
            let connections = Connections::default();
            connections.set_limits(ConnectionLimits {
                wrong_tokens_per_address: 0,
                ..ConnectionLimits::default()
            });
            let slot = connections.admit(Some(IpAddr::from([192, 0, 2, 1])));
            let begun = Instant::now();
            refused_slowly(Ok(status.into_response()), &slot).await;
            begun.elapsed() >= Duration::from_millis(100)
        };
        assert!(waits(StatusCode::FORBIDDEN).await);
        assert!(waits(StatusCode::UNAUTHORIZED).await);
    }
}
