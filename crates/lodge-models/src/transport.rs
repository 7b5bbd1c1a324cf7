//! The interface between the wires and the network. Requests can also go through something else, such as a client that
//! carries the traffic for the host.

use std::fmt;

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};

/// Sends HTTP requests. Dropping the future or the body closes the exchange at once.
pub trait Transport: Send + Sync {
    /// Sends a request and gives the response as soon as its headers are there, whatever its status.
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>>;

    /// Opens a WebSocket (the response's status is then 101) and sends the request's body as its first message; every
    /// piece of the response's body is one message. Nothing where there are only requests.
    fn open_socket(&self, _: HttpRequest) -> Option<BoxFuture<'static, Result<HttpResponse, TransportError>>> {
        None
    }
}

/// A request.
#[derive(Clone)]
pub struct HttpRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The whole address.
    pub url: String,
    /// Headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; empty for `GET`.
    pub body: Bytes,
    /// The sub-agent whose request it is.
    pub sub_agent: Option<crate::SubAgent>,
}

impl fmt::Debug for HttpRequest {
    /// Without the values of headers and the query, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url.split('?').next())
            .field("headers", &names)
            .field("body", &self.body.len())
            .finish()
    }
}

/// A response whose body is still to come.
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as it arrives.
    pub body: BoxStream<'static, Result<Bytes, TransportError>>,
}

impl HttpResponse {
    /// The first value of a header, asked by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The exchange failed below HTTP. The message must not hold secrets.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    /// The request cannot be sent as it is, so trying again is of no use.
    #[error("{0}")]
    Invalid(String),
    /// The connection failed or broke.
    #[error("{0}")]
    Failed(String),
}
