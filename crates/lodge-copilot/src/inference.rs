//! Model traffic through the client: a client that offers it gets requests to models as calls, and returns the model's
//! response in calls of its own.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream};
use lodge_models::{HttpRequest, HttpResponse, Transport, TransportError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::peer::{CallError, Peer};

/// A piece of a response's body, or the reason why there is no more.
type Piece = Result<Bytes, TransportError>;

/// Exchanges that wait for the client's response.
#[derive(Default)]
pub(crate) struct Exchanges(Mutex<HashMap<String, Exchange>>);

struct Exchange {
    head: Option<oneshot::Sender<Result<Head, TransportError>>>,
    body: mpsc::UnboundedSender<Piece>,
}

/// Status and headers.
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
}

impl Exchanges {
    /// The client supplies status and headers. False if nothing waits for them.
    pub(crate) fn started(&self, id: &str, status: u16, headers: BTreeMap<String, Vec<String>>) -> bool {
        let mut exchanges = self.0.lock();
        let Some(head) = exchanges.get_mut(id).and_then(|exchange| exchange.head.take()) else {
            return false;
        };
        let headers = headers
            .into_iter()
            .flat_map(|(name, values)| values.into_iter().map(move |value| (name.to_ascii_lowercase(), value)))
            .collect();
        head.send(Ok(Head { status, headers })).is_ok()
    }

    /// The client supplies a piece of the body. False if nothing waits for it.
    pub(crate) fn piece(&self, id: &str, piece: Piece, end: bool) -> bool {
        let mut exchanges = self.0.lock();
        let Some(exchange) = exchanges.get_mut(id) else {
            return false;
        };
        let failed = piece.is_err();
        let taken = match (piece, exchange.head.take_if(|_| failed)) {
            // It failed before it began.
            (Err(error), Some(head)) => head.send(Err(error)).is_ok(),
            (Ok(bytes), _) if bytes.is_empty() => !exchange.body.is_closed(),
            (piece, _) => exchange.body.send(piece).is_ok(),
        };
        if end || failed {
            exchanges.remove(id);
        }
        taken
    }
}

/// Decodes a body from the client.
pub(crate) fn decode(data: &str, binary: bool) -> Result<Bytes, String> {
    if !binary {
        return Ok(Bytes::copy_from_slice(data.as_bytes()));
    }
    BASE64_STANDARD
        .decode(data)
        .map(Bytes::from)
        .map_err(|error| format!("the data is not base64: {error}"))
}

/// Model requests through the client.
#[derive(Clone)]
pub(crate) struct SdkTransport {
    pub(crate) peer: Peer,
    pub(crate) exchanges: Arc<Exchanges>,
    /// The session that makes the request; none for lists of models.
    pub(crate) session_id: Option<String>,
}

impl Transport for SdkTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        Box::pin(self.clone().exchange(request, false))
    }

    fn open_socket(&self, request: HttpRequest) -> Option<BoxFuture<'static, Result<HttpResponse, TransportError>>> {
        Some(Box::pin(self.clone().exchange(request, true)))
    }
}

impl SdkTransport {
    async fn exchange(self, request: HttpRequest, socket: bool) -> Result<HttpResponse, TransportError> {
        let id = Uuid::new_v4().to_string();
        let (head, waiting) = oneshot::channel();
        let (body, pieces) = mpsc::unbounded_channel();
        self.exchanges
            .0
            .lock()
            .insert(id.clone(), Exchange { head: Some(head), body });
        // From here on, dropping this notifies the client.
        let open = Open {
            transport: self.clone(),
            id: id.clone(),
            socket,
        };
        self.call("llmInference.httpRequestStart", &self.start(&id, &request, socket))
            .await?;
        let data = String::from_utf8_lossy(&request.body);
        let chunk = json!({"requestId": id, "data": data, "binary": false, "end": !socket, "cancel": false});
        let head = async {
            tokio::select! {
                head = waiting => head.map_err(|_| TransportError::Failed("the client gave no response".to_owned()))?,
                () = self.peer.closed() => Err(gone()),
            }
        };
        let head = if socket {
            // Before the response begins, nothing can be sent.
            let head = head.await?;
            if head.status == 101 {
                self.call("llmInference.httpRequestChunk", &chunk).await?;
            }
            head
        } else {
            self.call("llmInference.httpRequestChunk", &chunk).await?;
            head.await?
        };
        let peer = self.peer.clone();
        let body = stream::unfold((pieces, open, peer), async |(mut pieces, open, peer)| {
            let piece = tokio::select! {
                biased;
                piece = pieces.recv() => piece?,
                () = peer.closed() => Err(gone()),
            };
            Some((piece, (pieces, open, peer)))
        });
        Ok(HttpResponse {
            status: head.status,
            headers: head.headers,
            body: body.boxed(),
        })
    }

    fn start(&self, id: &str, request: &HttpRequest, socket: bool) -> Value {
        let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, value) in &request.headers {
            headers.entry(name).or_default().push(value);
        }
        let mut start = json!({
            "requestId": id, "method": request.method, "url": request.url, "headers": headers,
            "transport": if socket { "websocket" } else { "http" },
        });
        if let Some(session) = &self.session_id {
            start["sessionId"] = json!(session);
            start["agentId"] = json!(session);
            start["agentInvocationId"] = json!(id);
            start["interactionType"] = json!("conversation-agent");
            if let Some(agent) = &request.sub_agent {
                start["agentId"] = json!(agent.id);
                start["parentAgentId"] = json!(agent.parent.as_ref().unwrap_or(session));
                start["interactionType"] = json!("conversation-subagent");
            }
        }
        start
    }

    async fn call(&self, method: &str, params: &Value) -> Result<(), TransportError> {
        match self.peer.call(method, params).await {
            Ok(_) => Ok(()),
            Err(CallError::Refused(error)) => Err(TransportError::Failed(error.message)),
            Err(CallError::Gone) => Err(gone()),
        }
    }
}

fn gone() -> TransportError {
    TransportError::Failed("the client that carries model requests disconnected".to_owned())
}

/// An unfinished exchange. Dropping it cancels it; a socket is closed, which is its end.
struct Open {
    transport: SdkTransport,
    id: String,
    socket: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.transport.exchanges.0.lock().remove(&self.id).is_none() {
            return;
        }
        let (transport, id, cancel) = (self.transport.clone(), std::mem::take(&mut self.id), !self.socket);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let cancel = json!({"requestId": id, "data": "", "binary": false, "end": true, "cancel": cancel});
                let _ = transport.call("llmInference.httpRequestChunk", &cancel).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_text_or_base64() {
        assert_eq!(decode("ü", false).unwrap(), "ü".as_bytes());
        assert_eq!(decode("AAE=", true).unwrap(), [0, 1].as_slice());
        assert!(decode("not base64!", true).is_err());
    }
}
