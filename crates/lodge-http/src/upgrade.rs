//! The upgrade from HTTP to WebSocket. axum's own hides the frames, and large answers are sent in several frames.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use lodge_host::{Link, Slot};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

/// A WebSocket of a client, whatever carries it.
pub type Socket = WebSocketStream<Box<dyn Link>>;

/// How WebSockets of clients are read and written, with messages of at most so many bytes.
pub fn socket_config(message_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(message_bytes))
        .max_frame_size(Some(message_bytes))
        .read_buffer_size(8 << 10)
        .write_buffer_size(32 << 10)
}

/// A request that can become a WebSocket.
pub(crate) struct Upgrade {
    key: HeaderValue,
    upgrade: OnUpgrade,
    slot: Arc<Slot>,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        const NO_UPGRADE: StatusCode = StatusCode::UPGRADE_REQUIRED;
        let names = |name: HeaderName, value: &str| {
            let values = parts.headers.get_all(name).into_iter();
            let mut words = values.flat_map(|values| values.to_str().unwrap_or_default().split(','));
            words.any(|word| word.trim().eq_ignore_ascii_case(value))
        };
        let asked = parts.method == Method::GET
            && names(header::CONNECTION, "upgrade")
            && names(header::UPGRADE, "websocket")
            && names(header::SEC_WEBSOCKET_VERSION, "13");
        if !asked {
            return Err(NO_UPGRADE);
        }
        Ok(Self {
            key: parts
                .headers
                .get(header::SEC_WEBSOCKET_KEY)
                .cloned()
                .ok_or(NO_UPGRADE)?,
            upgrade: parts.extensions.remove().ok_or(NO_UPGRADE)?,
            slot: parts.extensions.get().cloned().ok_or(NO_UPGRADE)?,
        })
    }
}

impl Upgrade {
    /// Lets the client in, unless there are too many. Its place is taken for as long as `serve` runs.
    pub(crate) fn accept<F, R>(self, message_bytes: usize, serve: F) -> Response
    where
        F: FnOnce(Socket) -> R + Send + 'static,
        R: Future<Output = ()> + Send,
    {
        if let Err(error) = self.slot.authenticate() {
            return (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response();
        }
        let (upgrade, slot) = (self.upgrade, self.slot);
        tokio::spawn(async move {
            // A client that left meanwhile.
            let Ok(upgraded) = upgrade.await else { return };
            let stream: Box<dyn Link> = Box::new(TokioIo::new(upgraded));
            let config = socket_config(message_bytes);
            serve(WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await).await;
            drop(slot);
        });
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(self.key.as_bytes())) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
    }
}
