//! Traces of sessions, for apps that ask for them: `TelemetryConfig` in the SDKs, variables on the wire.
//!
//! Spans are made from a session's events (`spans`), by the OpenTelemetry conventions for generative AI, and go to a
//! file or a collector (`export`). A session never waits for either: what does not fit into the queue is dropped.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use lodge_events::Event;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::{
    collector::Collector,
    export,
    spans::{Fold, Span},
};

/// How many events of a session may wait to be looked at.
const UNREAD: usize = 4096;
/// How many spans may wait for the exporter.
const WAITING: usize = 4096;

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exporter {
    /// A file with one span per line.
    File(PathBuf),
    /// A collector that speaks OTLP over HTTP.
    Otlp(Box<Collector>),
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
            _ => Exporter::Otlp(Box::new(Collector::from_env(&variable))),
        };
        Some(Self {
            exporter,
            source: variable("COPILOT_OTEL_SOURCE_NAME").unwrap_or_else(|| "github.copilot".to_owned()),
            content: is("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        })
    }
}

/// What the exporter is sent.
pub(crate) enum Message {
    /// A span that has ended.
    Span(Box<Span>),
    /// Events of a session wait to be looked at.
    Unread(Weak<Follower>),
    /// Waiters for everything queued before.
    Flush(oneshot::Sender<()>),
}

/// Where the spans of all sessions go.
pub struct Traces {
    content: bool,
    exporter: mpsc::Sender<Message>,
}

impl Traces {
    /// Starts the exporter. A collector also gets the metrics that `counted` gives, in the shapes of [`otlp`](crate::otlp).
    pub fn start(options: TraceOptions, counted: impl Fn() -> Vec<Value> + Send + Sync + 'static) -> Self {
        let (exporter, messages) = mpsc::channel(WAITING);
        let content = options.content;
        tokio::spawn(export::run(options, messages, Box::new(counted)));
        Self { content, exporter }
    }

    /// Makes spans of the events of a session that it is given.
    pub fn follower(&self, session_id: &str) -> Arc<Follower> {
        Arc::new_cyclic(|itself| Follower {
            itself: itself.clone(),
            unread: Mutex::default(),
            fold: Mutex::new(Fold::new(session_id, self.content)),
            exporter: self.exporter.clone(),
        })
    }

    /// Waits until all spans that have ended are where they go.
    pub async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        if self.exporter.send(Message::Flush(done)).await.is_ok() {
            let _ = waiting.await;
        }
    }
}

/// Events that are not spans yet, and whether the exporter knows of them.
#[derive(Default)]
struct Unread {
    events: Vec<Event>,
    told: bool,
}

/// Makes spans of a session's events.
pub struct Follower {
    itself: Weak<Follower>,
    unread: Mutex<Unread>,
    fold: Mutex<Fold>,
    exporter: mpsc::Sender<Message>,
}

impl Follower {
    /// Adds an event. The publisher holds the session's lock, so it is only queued here.
    pub fn publish(&self, event: &Event) {
        if !Fold::reads(event) {
            return;
        }
        let mut unread = self.unread.lock();
        if unread.events.len() >= UNREAD {
            tracing::warn!("an event is missing from the traces: the exporter cannot keep up");
            return;
        }
        unread.events.push(event.clone());
        if !unread.told {
            unread.told = self.exporter.try_send(Message::Unread(self.itself.clone())).is_ok();
        }
    }

    /// The next turn belongs to a span of the client: a W3C `traceparent`.
    pub fn belongs_to(&self, traceparent: &str) {
        self.caught_up().belongs_to(traceparent);
    }

    /// The span of a tool call that runs, as a W3C `traceparent`.
    pub fn of_tool(&self, tool_call_id: &str) -> Option<String> {
        self.caught_up().of_tool(tool_call_id)
    }

    /// The spans that end with what was published so far.
    pub(crate) fn ended(&self) -> Vec<Span> {
        self.read_on(&mut self.fold.lock())
    }

    fn caught_up(&self) -> MutexGuard<'_, Fold> {
        let mut fold = self.fold.lock();
        let ended = self.read_on(&mut fold);
        self.export(ended);
        fold
    }

    fn read_on(&self, fold: &mut Fold) -> Vec<Span> {
        let Unread { events, .. } = std::mem::take(&mut *self.unread.lock());
        events.iter().flat_map(|event| fold.apply(event)).collect()
    }

    fn export(&self, spans: Vec<Span>) {
        for span in spans {
            if self.exporter.try_send(Message::Span(span.into())).is_err() {
                tracing::warn!("a span was dropped: the exporter cannot keep up");
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let left = self.caught_up().end(jiff::Timestamp::now());
        self.export(left);
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{SessionIdle, ToolExecutionStart, UserMessage};

    use super::*;

    fn event(payload: impl Into<lodge_events::Payload>) -> Event {
        Event::new(None, None, payload)
    }

    #[tokio::test]
    async fn spans_are_made_where_nobody_waits_and_known_when_they_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("traces.jsonl");
        let traces = Traces::start(
            TraceOptions {
                exporter: Exporter::File(path.clone()),
                source: "s".into(),
                content: false,
            },
            Vec::new,
        );
        let follower = traces.follower("one");
        follower.publish(&event(UserMessage::default()));
        assert_eq!(follower.unread.lock().events.len(), 1, "publishing only puts aside");
        follower.publish(&event(ToolExecutionStart {
            tool_call_id: "c".into(),
            tool_name: "echo".into(),
            ..Default::default()
        }));
        assert!(follower.of_tool("c").is_some_and(|parent| parent.starts_with("00-")));
        follower.publish(&event(SessionIdle::default()));
        traces.flush().await;
        let names = |text: &str| -> Vec<String> {
            let spans = text
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            spans.map(|span| span["name"].as_str().unwrap().to_owned()).collect()
        };
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            names(&text),
            ["execute_tool echo", "invoke_agent"],
            "all that ended before the flush"
        );
        follower.publish(&event(UserMessage::default()));
        drop(follower);
        traces.flush().await;
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(names(&text).len(), 3, "what is open when nobody follows any more ends");
    }

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
        let otlp = |url: &str| {
            let endpoint = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| url.to_owned());
            Exporter::Otlp(Box::new(Collector::from_env(&endpoint)))
        };
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
