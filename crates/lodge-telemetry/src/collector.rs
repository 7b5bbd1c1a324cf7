//! An OTLP collector over HTTP: its address, which signals it accepts, and how they are sent.

use std::time::Duration;

use futures_util::StreamExt;
use lodge_models::{HttpRequest, Network, Transport};
use serde_json::Value;
use tokio::time::timeout;

use crate::protobuf;

/// Where a collector is by default.
const USUAL: &str = "http://localhost:4318";
/// How long a collector may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Headers for all signals, and per signal. They can contain credentials.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
const METRICS_HEADERS: &str = "OTEL_EXPORTER_OTLP_METRICS_HEADERS";

/// The variables that credentials are read from.
pub const CREDENTIAL_VARIABLES: [&str; 3] = [HEADERS, TRACES_HEADERS, METRICS_HEADERS];

/// How things are written on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `http/json`
    Json,
    /// `http/protobuf`
    Protobuf,
}

/// One kind of things, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    pub(crate) url: String,
    headers: Vec<(String, String)>,
    protocol: Protocol,
}

/// A collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    pub(crate) traces: Signal,
    pub(crate) metrics: Signal,
}

impl Collector {
    /// What the variables of OpenTelemetry say.
    pub fn from_env(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let signal = |name: &str, own_headers: &str, path: &str| {
            // What is said of one kind counts before what is said of all.
            let of_kind = |what: &str| variable(&format!("OTEL_EXPORTER_OTLP_{name}_{what}"));
            let said = |what: &str| of_kind(what).or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{what}")));
            let all = variable("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| USUAL.to_owned());
            let mut headers = variable(HEADERS).map_or_else(Vec::new, |text| list(&text));
            for (key, value) in variable(own_headers).map_or_else(Vec::new, |text| list(&text)) {
                headers.retain(|(known, _)| *known != key);
                headers.push((key, value));
            }
            Signal {
                url: of_kind("ENDPOINT").unwrap_or_else(|| format!("{}{path}", all.trim_end_matches('/'))),
                headers,
                protocol: match said("PROTOCOL").as_deref() {
                    Some("http/protobuf") => Protocol::Protobuf,
                    _ => Protocol::Json,
                },
            }
        };
        Self {
            traces: signal("TRACES", TRACES_HEADERS, "/v1/traces"),
            metrics: signal("METRICS", METRICS_HEADERS, "/v1/metrics"),
        }
    }
}

/// `key=value` by commas, with what is special in a URL escaped.
fn list(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (plain(key.trim()).to_lowercase(), plain(value.trim())))
        .filter(|(key, _)| !key.is_empty())
        .collect()
}

/// Text without `%xx`.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%').then(|| after.get(..2)).flatten();
        let byte = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Signal {
    /// Sends a request of OTLP, given as its JSON.
    pub(crate) async fn send(&self, request: &Value, message: &protobuf::Message) -> Result<(), String> {
        let (kind, body) = match self.protocol {
            Protocol::Json => ("application/json", request.to_string().into_bytes()),
            Protocol::Protobuf => ("application/x-protobuf", protobuf::encode(request, message)),
        };
        let mut headers = vec![("content-type".to_owned(), kind.to_owned())];
        headers.extend(self.headers.iter().cloned());
        let request = HttpRequest {
            method: "POST",
            url: self.url.clone(),
            headers,
            body: body.into(),
            sub_agent: None,
        };
        let send = async {
            let mut response = Network::default()
                .send(request)
                .await
                .map_err(|error| error.to_string())?;
            while response.body.next().await.is_some_and(|piece| piece.is_ok()) {}
            match response.status {
                200..=299 => Ok(()),
                status => Err(format!("the collector answered with HTTP {status}")),
            }
        };
        let answer = timeout(LIMIT, send).await;
        answer.unwrap_or_else(|_| Err("the collector did not answer".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_say_where_a_collector_is_and_what_it_is_told() {
        let of = |variables: &[(&str, &str)]| {
            Collector::from_env(&|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let usual = of(&[]);
        assert_eq!(usual.traces.url, "http://localhost:4318/v1/traces");
        assert_eq!((usual.traces.protocol, usual.traces.headers.len()), (Protocol::Json, 0));
        let told = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/otlp/"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://m/push"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "Authorization=Bearer%20a=b,x-team = one ,broken",
            ),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-team=two"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"),
        ]);
        assert_eq!(told.traces.url, "https://c/otlp/v1/traces");
        assert_eq!(told.metrics.url, "https://m/push");
        let owned = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let bearer = owned("authorization", "Bearer a=b");
        assert_eq!(told.traces.headers, [bearer.clone(), owned("x-team", "two")]);
        assert_eq!(told.metrics.headers, [bearer, owned("x-team", "one")]);
        assert_eq!(
            (told.traces.protocol, told.metrics.protocol),
            (Protocol::Protobuf, Protocol::Json)
        );
        assert_eq!(plain("100%zz%2"), "100%zz%2");
    }
}
