//! The HTTP+SSE transport, the predecessor of streamable HTTP: one event stream, and an endpoint to post to.

use futures_util::{StreamExt, stream::BoxStream};
use http::header;
use reqwest::Url;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, streamable_http_client::SseError},
};
use sse_stream::Sse;

use crate::{
    connection::strip_added_meta,
    http::{Http, HttpError, events},
};

/// A connection of the older form.
pub(crate) struct SseWire {
    http: Http,
    endpoint: Url,
    events: BoxStream<'static, Result<Sse, SseError>>,
}

impl SseWire {
    /// Opens the stream and waits for the endpoint to post to.
    pub(crate) async fn open(http: Http, url: &str) -> Result<Self, HttpError> {
        let base = Url::parse(url).map_err(|error| HttpError::Odd(error.to_string()))?;
        let response = http
            .send(|client| client.get(base.clone()).header(header::ACCEPT, "text/event-stream"))
            .await?;
        if !response.status().is_success() {
            return Err(HttpError::Status(response.status()));
        }
        let mut events = events(response, http.tasks.clone());
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| HttpError::Odd(error.to_string()))?;
            if event.event.as_deref() != Some("endpoint") {
                continue;
            }
            let endpoint = base
                .join(event.data.unwrap_or_default().trim())
                .map_err(|error| HttpError::Odd(error.to_string()))?;
            // What goes there may hold secrets that are meant for this server alone.
            if endpoint.origin() != base.origin() {
                return Err(HttpError::Odd(
                    "the server names an endpoint on another server".to_owned(),
                ));
            }
            return Ok(Self { http, endpoint, events });
        }
        Err(HttpError::Odd(
            "the stream ended before the server named its endpoint".to_owned(),
        ))
    }
}

impl Transport<RoleClient> for SseWire {
    type Error = HttpError;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        strip_added_meta(&mut item);
        let (http, endpoint) = (self.http.clone(), self.endpoint.clone());
        async move {
            let body = serde_json::to_vec(&item).map_err(|error| HttpError::Odd(error.to_string()))?;
            let response = http
                .send(|client| {
                    let request = client.post(endpoint.clone()).body(body.clone());
                    request.header(header::CONTENT_TYPE, "application/json")
                })
                .await?;
            match response.status() {
                status if status.is_success() => Ok(()),
                status => Err(HttpError::Status(status)),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while let Some(event) = self.events.next().await {
            let event = event.ok()?;
            let is_message = event.event.as_deref().is_none_or(|name| name == "message");
            if let Some(message) = event.data.filter(|_| is_message)
                && let Ok(message) = serde_json::from_str(&message)
            {
                return Some(message);
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}
