//! Exports spans to a file or a collector; a collector also gets metrics made from them.

use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{fs::OpenOptions, io::AsyncWriteExt, sync::mpsc};

use crate::{Exporter, TraceOptions, collector::Collector, meter::Meter, otlp, protobuf, spans::Span, traces::Message};

/// Gives metrics that others count, in the shapes of OTLP.
pub(crate) type Counted = dyn Fn() -> Vec<Value> + Send + Sync;

/// How many spans go out at once.
const BATCH: usize = 256;

/// Exports until nobody is left who could send anything. What is counted elsewhere goes along.
pub(crate) async fn run(options: TraceOptions, mut messages: mpsc::Receiver<Message>, counted: Box<Counted>) {
    let mut batch = Vec::new();
    let mut failing = false;
    let mut meter = Meter::new();
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
                Exporter::Otlp(collector) => post(collector, &options.source, &spans, &mut meter, &counted).await,
            };
            // Said once, until it works again.
            if let (Err(error), false) = (&sent, failing) {
                tracing::warn!(%error, "cannot export traces");
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

/// What was counted goes along with the spans it was counted from.
async fn post(
    collector: &Collector,
    source: &str,
    spans: &[Span],
    meter: &mut Meter,
    counted: &Counted,
) -> Result<(), String> {
    let traces = otlp::traces(source, &spans.iter().map(written).collect::<Vec<_>>());
    let sent = collector.traces.send(&traces, protobuf::TRACES).await;
    spans.iter().for_each(|span| meter.count(span));
    let mut metrics = meter.metrics();
    metrics.extend(counted());
    if !metrics.is_empty() {
        let metrics = otlp::metrics_of(source, &metrics);
        collector.metrics.send(&metrics, protobuf::METRICS).await?;
    }
    sent
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
