//! The network transport: reqwest with rustls, the system's certificates and the system's proxies.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture};
use reqwest::{
    Certificate, Client, ClientBuilder, Method, Url,
    header::{HeaderName, HeaderValue},
    redirect,
};

use crate::{HttpRequest, HttpResponse, Transport, TransportError, unzip};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends requests over the network.
///
/// Nothing is set up before the first request, because reading the system's certificates takes time and memory that a
/// host with no provider need not spend.
#[derive(Debug, Clone, Default)]
pub struct Network {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    extra_certificates: Option<PathBuf>,
    outside: OnceLock<Result<Client, TransportError>>,
    loopback: OnceLock<Result<Client, TransportError>>,
    plain_loopback: OnceLock<Result<Client, TransportError>>,
}

impl Network {
    /// A network that also trusts the certificates in a PEM file (as `NODE_EXTRA_CA_CERTS` names one).
    pub fn with_certificates(file: Option<PathBuf>) -> Self {
        Self {
            inner: Arc::new(Inner {
                extra_certificates: file,
                ..Inner::default()
            }),
        }
    }
}

impl Inner {
    fn client(&self, url: &Url) -> Result<&Client, TransportError> {
        // A model server on this machine is never behind a proxy, whatever the environment says of proxies; and without
        // TLS it needs no certificates, which small containers do not even have.
        let (slot, proxies, certificates) = match (is_loopback(url), url.scheme()) {
            (false, _) => (&self.outside, true, true),
            (true, "https") => (&self.loopback, false, true),
            (true, _) => (&self.plain_loopback, false, false),
        };
        slot.get_or_init(|| self.build(proxies, certificates))
            .as_ref()
            .map_err(Clone::clone)
    }

    fn build(&self, proxies: bool, certificates: bool) -> Result<Client, TransportError> {
        // Fails only when the process has chosen its provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirected POST would arrive as a GET or carry the key to another host; both are better told than done.
        let mut builder: ClientBuilder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none());
        if !proxies {
            builder = builder.no_proxy();
        }
        if !certificates {
            let built = builder.tls_certs_only([]).build();
            return built.map_err(|error| TransportError::Invalid(format!("cannot set up HTTP: {}", causes(&error))));
        }
        if let Some(file) = &self.extra_certificates {
            let told = |error: &dyn std::fmt::Display| {
                TransportError::Invalid(format!("cannot use the certificates in {}: {error}", file.display()))
            };
            let pem = std::fs::read(file).map_err(|error| told(&error))?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| told(&error))?;
            builder = builder.tls_certs_merge(certificates);
        }
        builder
            .build()
            .map_err(|error| TransportError::Invalid(format!("cannot set up HTTP: {}", causes(&error))))
    }
}

impl Transport for Network {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let url =
                Url::parse(&request.url).map_err(|error| TransportError::Invalid(format!("invalid URL: {error}")))?;
            let method = if request.method == "GET" {
                Method::GET
            } else {
                Method::POST
            };
            let mut builder = inner.client(&url)?.request(method, url);
            for (name, value) in &request.headers {
                let wrong = |_| TransportError::Invalid(format!("invalid value for the header {name:?}"));
                let mut value = HeaderValue::from_str(value).map_err(wrong)?;
                value.set_sensitive(is_secret(name));
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| TransportError::Invalid(format!("invalid header name {name:?}")))?;
                builder = builder.header(name, value);
            }
            if !request.body.is_empty() {
                builder = builder.body(request.body);
            }
            let response = builder.send().await.map_err(transport_error)?;
            let headers: Vec<(String, String)> = response
                .headers()
                .iter()
                .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
                .collect();
            let is_gzip = |(name, value): &(String, String)| name == "content-encoding" && value.contains("gzip");
            let gzip = headers.iter().any(is_gzip);
            let status = response.status().as_u16();
            let body = response
                .bytes_stream()
                .map(|piece| piece.map_err(transport_error))
                .boxed();
            Ok(HttpResponse {
                status,
                headers,
                body: if gzip { unzip::stream(body) } else { body },
            })
        })
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn is_secret(header: &str) -> bool {
    ["authorization", "api-key", "x-api-key", "proxy-authorization", "cookie"].contains(&header)
}

/// Without the address, which may hold a key in its query.
fn transport_error(error: reqwest::Error) -> TransportError {
    TransportError::Failed(causes(&error.without_url()))
}

/// An error with all its causes: reqwest's own words alone say only that sending failed.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}
