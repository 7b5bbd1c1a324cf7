//! Traces of the sessions that apps have open, if they ask for them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use lodge_events::Event;
use lodge_host::{Listening, Publish, Session};
use lodge_telemetry::{Follower, TraceOptions};
use parking_lot::Mutex;

/// The traces of all sessions that clients have open.
pub(crate) struct Traces {
    spans: lodge_telemetry::Traces,
    open: Mutex<HashMap<String, Weak<Trace>>>,
}

impl Traces {
    /// Starts the exporter.
    pub(crate) fn start(options: TraceOptions) -> Self {
        Self {
            spans: lodge_telemetry::Traces::start(options),
            open: Mutex::default(),
        }
    }

    /// Follows a session while the returned trace exists. All its clients share one trace.
    pub(crate) fn follow(&self, session: &Session) -> Arc<Trace> {
        let mut open = self.open.lock();
        if let Some(trace) = open.get(session.id()).and_then(Weak::upgrade) {
            return trace;
        }
        open.retain(|_, trace| trace.strong_count() > 0);
        let follower = self.spans.follower(session.id());
        let trace = Arc::new(Trace {
            _listening: session.listen(Arc::new(Listener(follower.clone()))),
            follower,
        });
        open.insert(session.id().to_owned(), Arc::downgrade(&trace));
        trace
    }

    /// Waits until all finished spans are exported.
    pub(crate) async fn flush(&self) {
        self.spans.flush().await;
    }
}

/// A session that is followed.
pub(crate) struct Trace {
    _listening: Listening,
    follower: Arc<Follower>,
}

impl Trace {
    /// Makes the next turn a child of a span of the client: a W3C `traceparent`.
    pub(crate) fn belongs_to(&self, traceparent: &str) {
        self.follower.belongs_to(traceparent);
    }

    /// The span of a running tool call, as a W3C `traceparent`.
    pub(crate) fn of_tool(&self, tool_call_id: &str) -> Option<String> {
        self.follower.of_tool(tool_call_id)
    }
}

struct Listener(Arc<Follower>);

impl Publish for Listener {
    fn publish(&self, event: &Event) {
        self.0.publish(event);
    }
}
