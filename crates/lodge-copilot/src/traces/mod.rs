//! OpenTelemetry traces of sessions, for apps that ask for them: `TelemetryConfig` in the SDKs, variables on the wire.
//!
//! Spans are made from the events of a session (`spans`), in the words of the conventions for generative AI, and go to a
//! file or to a collector (`export`). A session never waits for either: what cannot be taken in is dropped.

mod export;
mod spans;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Weak},
};

use lodge_events::Event;
use lodge_host::{Listening, Publish, Session};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use spans::{Fold, Span};

/// How many spans may wait for the exporter.
const WAITING: usize = 4096;

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exporter {
    /// A file with one span per line.
    File(PathBuf),
    /// The address of a collector that speaks OTLP over HTTP.
    Otlp(String),
}

/// Which traces are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOptions {
    /// Where they go.
    pub exporter: Exporter,
    /// The name of the instrumentation scope.
    pub source: String,
    /// Whether they hold what was said.
    pub content: bool,
}

impl TraceOptions {
    /// What the SDKs' variables ask for, or nothing.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let is = |name: &str| variable(name).is_some_and(|value| matches!(value.to_lowercase().as_str(), "true" | "1"));
        let file = variable("COPILOT_OTEL_FILE_EXPORTER_PATH");
        if !is("COPILOT_OTEL_ENABLED") && file.is_none() {
            return None;
        }
        let to_collector = variable("COPILOT_OTEL_EXPORTER_TYPE").is_some_and(|kind| kind == "otlp-http");
        let exporter = match file {
            Some(path) if !to_collector => Exporter::File(path.into()),
            _ => Exporter::Otlp(
                variable("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| "http://localhost:4318".to_owned()),
            ),
        };
        Some(Self {
            exporter,
            source: variable("COPILOT_OTEL_SOURCE_NAME").unwrap_or_else(|| "github.copilot".to_owned()),
            content: is("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        })
    }
}

enum Message {
    Span(Box<Span>),
    Flush(oneshot::Sender<()>),
}

/// The traces of all sessions that clients have open.
pub(crate) struct Traces {
    content: bool,
    exporter: mpsc::Sender<Message>,
    open: Mutex<HashMap<String, Weak<Trace>>>,
}

impl Traces {
    /// Starts the exporter.
    pub(crate) fn start(options: TraceOptions) -> Self {
        let (exporter, spans) = mpsc::channel(WAITING);
        let content = options.content;
        tokio::spawn(export::run(options, spans));
        Self {
            content,
            exporter,
            open: Mutex::default(),
        }
    }

    /// Follows a session for as long as anybody holds what this gives. All its clients share one trace.
    pub(crate) fn follow(&self, session: &Session) -> Arc<Trace> {
        let mut open = self.open.lock();
        if let Some(trace) = open.get(session.id()).and_then(Weak::upgrade) {
            return trace;
        }
        open.retain(|_, trace| trace.strong_count() > 0);
        let follower = Arc::new(Follower {
            fold: Mutex::new(Fold::new(session.id(), self.content)),
            exporter: self.exporter.clone(),
        });
        let trace = Arc::new(Trace {
            _listening: session.listen(follower.clone()),
            follower,
        });
        open.insert(session.id().to_owned(), Arc::downgrade(&trace));
        trace
    }

    /// Waits until all spans that have ended are where they go.
    pub(crate) async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        if self.exporter.send(Message::Flush(done)).await.is_ok() {
            let _ = waiting.await;
        }
    }
}

/// One session that is followed.
pub(crate) struct Trace {
    _listening: Listening,
    follower: Arc<Follower>,
}

impl Trace {
    /// The next turn belongs to a span of the client: a W3C `traceparent`.
    pub(crate) fn belongs_to(&self, traceparent: &str) {
        self.follower.fold.lock().belongs_to(traceparent);
    }

    /// The span of a tool call that runs, as a W3C `traceparent`.
    pub(crate) fn of_tool(&self, tool_call_id: &str) -> Option<String> {
        self.follower.fold.lock().of_tool(tool_call_id)
    }
}

struct Follower {
    fold: Mutex<Fold>,
    exporter: mpsc::Sender<Message>,
}

impl Follower {
    fn export(&self, spans: Vec<Span>) {
        for span in spans {
            if self.exporter.try_send(Message::Span(span.into())).is_err() {
                tracing::warn!("a span was dropped: the exporter does not keep up");
            }
        }
    }
}

impl Publish for Follower {
    fn publish(&self, event: &Event) {
        let ended = self.fold.lock().take(event);
        self.export(ended);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let left = self.fold.lock().end(jiff::Timestamp::now());
        self.export(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<(Exporter, &str, bool)>) {
        let found = TraceOptions::of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        let expected = expected.map(|(exporter, source, content)| TraceOptions {
            exporter,
            source: source.to_owned(),
            content,
        });
        assert_eq!(found, expected, "{variables:?}");
    }

    #[test]
    fn variables_say_which_traces_are_wanted() {
        let otlp = |url: &str| Exporter::Otlp(url.to_owned());
        check(&[], None);
        check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")], None);
        check(
            &[("COPILOT_OTEL_ENABLED", "true")],
            Some((otlp("http://localhost:4318"), "github.copilot", false)),
        );
        check(
            &[
                ("COPILOT_OTEL_ENABLED", "true"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
                ("COPILOT_OTEL_SOURCE_NAME", "mine"),
                ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "True"),
            ],
            Some((otlp("http://c"), "mine", true)),
        );
        check(
            &[
                ("COPILOT_OTEL_FILE_EXPORTER_PATH", "t.jsonl"),
                ("COPILOT_OTEL_EXPORTER_TYPE", "file"),
            ],
            Some((Exporter::File("t.jsonl".into()), "github.copilot", false)),
        );
    }
}
