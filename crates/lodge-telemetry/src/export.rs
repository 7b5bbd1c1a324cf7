//! Where spans go: lines of a file, or a collector.

use std::{path::Path, time::Duration};

use futures_util::StreamExt;
use jiff::Timestamp;
use lodge_models::{HttpRequest, Network, Transport};
use serde_json::{Value, json};
use tokio::{fs::OpenOptions, io::AsyncWriteExt, sync::mpsc, time::timeout};

use crate::{Exporter, TraceOptions, otlp, spans::Span, traces::Message};

/// How many spans go out at once.
const BATCH: usize = 256;
/// How long a collector may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Exports until nobody is left who could send anything.
pub(crate) async fn run(options: TraceOptions, mut messages: mpsc::Receiver<Message>) {
    let mut batch = Vec::new();
    let mut failing = false;
    while messages.recv_many(&mut batch, BATCH).await > 0 {
        let (mut spans, mut waiting) = (Vec::new(), Vec::new());
        for message in batch.drain(..) {
            match message {
                Message::Span(span) => spans.push(*span),
                Message::Unread(follower) => spans.extend(follower.upgrade().iter().flat_map(|it| it.ended())),
                Message::Flush(done) => waiting.push(done),
            }
        }
        if !spans.is_empty() {
            let sent = match &options.exporter {
                Exporter::File(path) => append(path, &options.source, &spans).await,
                Exporter::Otlp(url) => post(url, &options.source, &spans).await,
            };
            // Said once, until it works again.
            if let (Err(error), false) = (&sent, failing) {
                tracing::warn!(%error, "traces cannot be exported");
            }
            failing = sent.is_err();
        }
        for done in waiting {
            let _ = done.send(());
        }
    }
}

async fn append(path: &Path, source: &str, spans: &[Span]) -> Result<(), String> {
    let lines: String = spans.iter().map(|span| line(source, span).to_string() + "\n").collect();
    let write = async {
        // Spans may hold what was said: it is nobody else's to read.
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .await?;
        file.write_all(lines.as_bytes()).await?;
        file.flush().await
    };
    write.await.map_err(|error: std::io::Error| error.to_string())
}

fn status(span: &Span) -> Value {
    match &span.error {
        Some(message) => json!({"code": 2, "message": message}),
        None => json!({"code": 0}),
    }
}

fn line(source: &str, span: &Span) -> Value {
    let time = |time: Timestamp| json!([time.as_second(), time.subsec_nanosecond()]);
    let mut line = json!({
        "type": "span",
        "traceId": span.trace,
        "spanId": span.id,
        "name": span.name,
        "kind": span.kind - 1,
        "startTime": time(span.start),
        "endTime": time(span.end),
        "attributes": span.attributes,
        "status": status(span),
        "instrumentationScope": {"name": source, "version": env!("CARGO_PKG_VERSION")},
        "resource": {"attributes": {"service.name": "lodge"}},
    });
    if let Some(parent) = &span.parent {
        line["parentSpanId"] = json!(parent);
    }
    line
}

async fn post(url: &str, source: &str, spans: &[Span]) -> Result<(), String> {
    let body = otlp::traces(source, &spans.iter().map(written).collect::<Vec<_>>());
    let request = HttpRequest {
        method: "POST",
        url: format!("{}/v1/traces", url.trim_end_matches('/')),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.to_string().into(),
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
    answer.unwrap_or_else(|_| Err("the collector does not answer".to_owned()))
}

/// A span as OTLP writes it in JSON.
fn written(span: &Span) -> Value {
    let mut span_json = json!({
        "traceId": span.trace,
        "spanId": span.id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": span.start.as_nanosecond().to_string(),
        "endTimeUnixNano": span.end.as_nanosecond().to_string(),
        "attributes": otlp::attributes(span.attributes.iter().map(|(key, it)| (key.as_str(), it))),
        "status": status(span),
    });
    if let Some(parent) = &span.parent {
        span_json["parentSpanId"] = json!(parent);
    }
    span_json
}
