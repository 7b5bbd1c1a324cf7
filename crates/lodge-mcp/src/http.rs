//! Remote servers over streamable HTTP, and what the older SSE transport shares with it.

use std::{
    collections::HashMap,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Client, RequestBuilder, Response, redirect};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Sse, SseStream};

use crate::{
    config::Remote,
    connection::{MESSAGE_BYTES, strip_added_meta},
    credentials::{Auth, Challenge},
    tasks::TaskOnly,
};

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// How often one request may lead to somebody being asked for credentials.
const SIGN_INS: usize = 3;

/// A server elsewhere, and what it takes to be heard by it.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    headers: HeaderMap,
    auth: Arc<Auth>,
    /// Whether the server answered a message as one does that knows nothing of streamable HTTP.
    no_posts: Arc<AtomicBool>,
    /// What the server's lists say of tasks.
    pub(crate) tasks: TaskOnly,
}

/// Why a request did not get through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{}", chain(.0))]
    Network(#[from] reqwest::Error),
    #[error("the response is longer than {MESSAGE_BYTES} bytes")]
    TooLong,
    #[error("the server requires credentials")]
    NeedsAuth,
    #[error("the server answered with HTTP {0}")]
    Status(StatusCode),
    #[error("{0}")]
    Odd(String),
}

/// What went wrong below says more than what went wrong above. Addresses are left out: they may hold secrets.
fn chain(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut deepest = None;
    while let Some(inner) = source {
        deepest = Some(inner.to_string());
        source = inner.source();
    }
    deepest.unwrap_or_else(|| "the request failed".to_owned())
}

impl Http {
    pub(crate) fn new(remote: &Remote, auth: Arc<Auth>) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &remote.headers {
            let name =
                HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` is not a valid header name."))?;
            let mut value = HeaderValue::try_from(value.as_str())
                .map_err(|_| format!("The value of the header `{name}` is not valid."))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self {
            client: client().map_err(|error| error.to_string())?,
            headers,
            auth,
            no_posts: Arc::default(),
            tasks: TaskOnly::default(),
        })
    }

    /// Whether the server refused a message in a way that MCP takes for a sign of the older form.
    pub(crate) fn takes_no_posts(&self) -> bool {
        self.no_posts.load(Ordering::Relaxed)
    }

    /// Sends a request; where the server requires credentials, gets some and sends it again.
    pub(crate) async fn send(&self, build: impl Fn(&Client) -> RequestBuilder) -> Result<Response, HttpError> {
        for _ in 0..=SIGN_INS {
            let token = self.auth.token();
            let mut request = build(&self.client).headers(self.headers.clone());
            if let Some(token) = &token {
                request = request.bearer_auth(token);
            }
            let response = request.send().await?;
            let Some(challenge) = Challenge::from_response(&response, token.is_some()) else {
                return Ok(response);
            };
            if !self.auth.renew(&self.client, challenge, token).await {
                return Err(HttpError::NeedsAuth);
            }
        }
        Err(HttpError::NeedsAuth)
    }

    /// Reads an answer to its end, if that comes in time.
    pub(crate) async fn body(response: Response) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            if body.len() + chunk.len() > MESSAGE_BYTES {
                return Err(HttpError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Says once by what TLS is done here.
pub(crate) fn secure() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// One client for all servers: it keeps their connections.
pub(crate) fn client() -> reqwest::Result<Client> {
    static CLIENT: parking_lot::Mutex<Option<Client>> = parking_lot::Mutex::new(None);
    let mut kept = CLIENT.lock();
    if let Some(client) = &*kept {
        return Ok(client.clone());
    }
    secure();
    // Headers may hold secrets that are meant for this server alone.
    let same_origin = redirect::Policy::custom(|attempt| {
        let first = attempt.previous().first().map(reqwest::Url::origin);
        if attempt.previous().len() > 5 || first.is_some_and(|first| first != attempt.url().origin()) {
            attempt.stop()
        } else {
            attempt.follow()
        }
    });
    let client = Client::builder()
        .user_agent(concat!("lodge/", env!("CARGO_PKG_VERSION")))
        .redirect(same_origin)
        .connect_timeout(std::time::Duration::from_secs(15))
        .build()?;
    *kept = Some(client.clone());
    Ok(client)
}

/// The events of an answer, none longer than a message may be.
pub(crate) fn events(response: Response, tasks: TaskOnly) -> BoxStream<'static, Result<Sse, SseError>> {
    let look = move |event: &Result<Sse, SseError>| {
        if let Ok(Sse { data: Some(data), .. }) = event {
            tasks.observe(data.as_bytes());
        }
    };
    SseStream::from_bytes_stream(bounded(response.bytes_stream()))
        .inspect(look)
        .boxed()
}

fn bounded(
    chunks: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    let (mut event, mut line) = (0, 0);
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        for byte in &chunk {
            event += 1;
            match byte {
                b'\n' if line == 0 => event = 0,
                b'\n' => line = 0,
                b'\r' => {}
                _ => line += 1,
            }
        }
        if event > MESSAGE_BYTES {
            return Err(io::Error::other(HttpError::TooLong));
        }
        Ok(chunk)
    })
}

type Answer<T> = Result<T, StreamableHttpError<HttpError>>;

fn failed(error: HttpError) -> StreamableHttpError<HttpError> {
    match error {
        HttpError::NeedsAuth => StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())),
        other => StreamableHttpError::Client(other),
    }
}

fn odd(what: impl fmt::Display) -> StreamableHttpError<HttpError> {
    StreamableHttpError::Client(HttpError::Odd(what.to_string()))
}

fn kind(response: &Response) -> &str {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

fn with(mut request: RequestBuilder, session: Option<&str>, more: &HashMap<HeaderName, HeaderValue>) -> RequestBuilder {
    if let Some(session) = session {
        request = request.header(SESSION, session);
    }
    for (name, value) in more {
        request = request.header(name, value);
    }
    request
}

impl StreamableHttpClient for Http {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        mut message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        more: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<StreamableHttpPostResponse> {
        strip_added_meta(&mut message);
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let asks = matches!(message, ClientJsonRpcMessage::Request(_));
        let response = self
            .send(|client| {
                let request = client
                    .post(&*uri)
                    .header(header::ACCEPT, [EVENT_STREAM, JSON].join(", "))
                    .header(header::CONTENT_TYPE, JSON)
                    .body(body.clone());
                with(request, session_id.as_deref(), &more)
            })
            .await
            .map_err(failed)?;
        let status = response.status();
        if session_id.is_none()
            && matches!(
                status,
                StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
            )
        {
            self.no_posts.store(true, Ordering::Relaxed);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) || (status.is_success() && !asks) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response
            .headers()
            .get(SESSION)
            .and_then(|id| id.to_str().ok())
            .map(str::to_owned);
        if status.is_success() && kind(&response).starts_with(EVENT_STREAM) {
            return Ok(StreamableHttpPostResponse::Sse(
                events(response, self.tasks.clone()),
                session,
            ));
        }
        if !kind(&response).starts_with(JSON) {
            return Err(StreamableHttpError::Client(HttpError::Status(status)));
        }
        let body = Self::body(response).await.map_err(failed)?;
        self.tasks.observe(&body);
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer) if status.is_success() || matches!(answer, ServerJsonRpcMessage::Error(_)) => {
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            Err(error) if status.is_success() => Err(odd(format!("the response is not valid MCP: {error}"))),
            _ => Err(StreamableHttpError::Client(HttpError::Status(status))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        more: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<()> {
        // Not worth asking anybody for credentials.
        let mut request = with(self.client.delete(&*uri), Some(&session_id), &more).headers(self.headers.clone());
        if let Some(token) = self.auth.token() {
            request = request.bearer_auth(token);
        }
        request.send().await.map_err(|error| failed(error.into()))?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        more: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        let response = self
            .send(|client| {
                let mut request = client.get(&*uri).header(header::ACCEPT, EVENT_STREAM);
                if let Some(last) = &last_event_id {
                    request = request.header(LAST_EVENT, last);
                }
                with(request, session_id.as_deref(), &more)
            })
            .await
            .map_err(failed)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(StreamableHttpError::Client(HttpError::Status(status))),
            _ if !kind(&response).starts_with(EVENT_STREAM) => Ok(stream::empty().boxed()),
            _ => Ok(events(response, self.tasks.clone())),
        }
    }
}
