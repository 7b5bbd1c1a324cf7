//! Models behind HTTP: three wires over one transport.

mod anthropic;
mod assembly;
mod auto_model;
mod chat;
mod endpoint;
mod failure;
mod lenient;
mod quota;
mod receive;
mod responses;
mod sse;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde::de::DeserializeOwned;

pub use endpoint::{Auth, CopilotAccess, Endpoint, ProviderType, WireApi};

use crate::{
    AssistantMessage, Chunk, HttpRequest, HttpResponse, Message, Model, ModelError, ModelInfo, ModelRequest, Part,
    Transport,
};
use assembly::{Assembly, Decoder};
pub(crate) use failure::Target;
use receive::{Form, Receiver};
use sse::Parser;

/// No response may be longer.
const MOST_BODY: u64 = 64 << 20;

/// How long a provider may say nothing before the call counts as broken.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A model that is reached by HTTP.
#[derive(Clone)]
pub struct HttpModel {
    inner: Arc<Inner>,
}

struct Inner {
    info: ModelInfo,
    /// The model's name at the provider.
    wire_model: String,
    endpoint: Endpoint,
    transport: Arc<dyn Transport>,
}

impl HttpModel {
    /// A model under its name at the provider, reached through a transport.
    pub fn new(info: ModelInfo, wire_model: String, endpoint: Endpoint, transport: Arc<dyn Transport>) -> Self {
        Self {
            inner: Arc::new(Inner {
                info,
                wire_model,
                endpoint,
                transport,
            }),
        }
    }
}

impl Model for HttpModel {
    fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    fn chosen_by_provider(&self, tier: Option<&str>) -> Option<BoxFuture<'static, Result<Arc<dyn Model>, ModelError>>> {
        self.choice(tier)
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let inner = Arc::clone(&self.inner);
        stream::once(async move { inner.open(&request).await })
            .try_flatten()
            .boxed()
    }
}

impl Inner {
    /// Sends the request and returns what the answer is read from.
    async fn open(&self, request: &ModelRequest) -> Result<Receiver, ModelError> {
        let continued = continued(request);
        let request = continued.as_ref().unwrap_or(request);
        let endpoint = &self.endpoint;
        let mut target = endpoint.target(&self.wire_model);
        let headers = endpoint.headers(request, &mut target).await?;
        let (response, form) = match self.open_socket(request, &headers, &target).await? {
            Some(response) => (response, Form::Messages),
            None => {
                let body = match endpoint.wire {
                    WireApi::Completions => chat::body(request, &self.wire_model),
                    WireApi::Responses => responses::body(request, &self.wire_model, &self.info, false),
                    WireApi::Messages => anthropic::body(request, &self.wire_model, &self.info),
                };
                let sent = self.http_request(request, "POST", headers, body, &target)?;
                let response = send(&*self.transport, sent, endpoint.idle_timeout, &target).await?;
                let form = match response.header("content-type") {
                    Some(kind) if kind.contains("event-stream") => Form::Streamed(Parser::default()),
                    Some(kind) if kind.contains("json") => Form::Whole(Vec::new()),
                    _ if request.stream => Form::Streamed(Parser::default()),
                    _ => Form::Whole(Vec::new()),
                };
                (response, form)
            }
        };
        let mut assembly = Assembly::new(request);
        assembly.provider_call_id = failure::request_id(&response);
        assembly.quotas = quota::quotas(&response);
        assembly.endpoint = endpoint.path();
        let decoder: Box<dyn Decoder> = match endpoint.wire {
            WireApi::Completions => Box::new(chat::Reader::default()),
            WireApi::Responses => Box::new(responses::Reader::default()),
            WireApi::Messages => Box::new(anthropic::Reader::new(request)),
        };
        Ok(Receiver::new(
            response.body,
            form,
            decoder,
            assembly,
            target,
            endpoint.idle_timeout,
        ))
    }

    fn http_request(
        &self,
        request: &ModelRequest,
        method: &'static str,
        headers: Vec<(String, String)>,
        body: serde_json::Result<Vec<u8>>,
        target: &Target,
    ) -> Result<HttpRequest, ModelError> {
        let body = body.map_err(|error| target.refused(&format!("cannot write the request as JSON: {error}")))?;
        Ok(HttpRequest {
            method,
            url: self.endpoint.url(&self.wire_model),
            headers,
            body: Bytes::from(body),
            sub_agent: request.sub_agent.clone(),
        })
    }

    /// Asks over a WebSocket, where the provider and the transport have them. One that does not open is no failure: what it
    /// stands for can be had by a request, too.
    async fn open_socket(
        &self,
        request: &ModelRequest,
        headers: &[(String, String)],
        target: &Target,
    ) -> Result<Option<HttpResponse>, ModelError> {
        if !self.endpoint.sockets || self.endpoint.wire != WireApi::Responses {
            return Ok(None);
        }
        let body = responses::body(request, &self.wire_model, &self.info, true);
        let mut sent = self.http_request(request, "GET", headers.to_vec(), body, target)?;
        // http becomes ws, https becomes wss.
        sent.url = sent.url.replacen("http", "ws", 1);
        let Some(opening) = self.transport.open_socket(sent) else {
            return Ok(None);
        };
        let opened = tokio::time::timeout(self.endpoint.idle_timeout, opening).await;
        Ok(match opened {
            Ok(Ok(response)) if response.status == 101 => Some(response),
            _ => None,
        })
    }
}

/// Asks the model to go on with an answer that broke off.
const GO_ON: &str = "<system_reminder>\nThe connection broke while you were answering. The user has seen what you wrote so \
                     far. Continue exactly where it ends: do not repeat anything, do not start over, and do not mention the \
                     interruption.\n</system_reminder>";

/// The request with the part of the answer that is there already; nothing when there is none.
fn continued(request: &ModelRequest) -> Option<ModelRequest> {
    if request.partial.trim().is_empty() {
        return None;
    }
    let mut request = request.clone();
    let text = std::mem::take(&mut request.partial);
    request.messages.push(Message::Assistant(AssistantMessage {
        text,
        ..AssistantMessage::default()
    }));
    request.messages.push(Message::User(vec![Part::Text(GO_ON.into())]));
    Some(request)
}

/// Sends a request; every failure, including an HTTP status, becomes an error.
async fn send(
    transport: &dyn Transport,
    request: HttpRequest,
    patience: Duration,
    target: &Target,
) -> Result<HttpResponse, ModelError> {
    let sent = tokio::time::timeout(patience, transport.send(request)).await;
    let response = sent
        .map_err(|_| target.silent(patience))?
        .map_err(|error| target.unreachable(&error))?;
    if (200..300).contains(&response.status) {
        return Ok(response);
    }
    Err(target.status_error(response, patience).await)
}

/// Sends a request and reads the whole of its answer, which is JSON. Failures call it `what`.
pub(crate) async fn fetch<T: DeserializeOwned>(
    transport: &dyn Transport,
    request: HttpRequest,
    patience: Duration,
    target: &Target,
    what: &str,
) -> Result<T, ModelError> {
    let mut response = send(transport, request, patience, target).await?;
    let mut body = Vec::new();
    while let Some(piece) = tokio::time::timeout(patience, response.body.next())
        .await
        .map_err(|_| target.silent(patience))?
    {
        body.extend_from_slice(&piece.map_err(|error| target.broken(&error.to_string()))?);
        if body.len() as u64 > MOST_BODY {
            return Err(target.broken(&format!("{what} is longer than 64 MB")));
        }
    }
    serde_json::from_slice(&body).map_err(|error| target.broken(&format!("{what} is malformed: {error}")))
}
