//! Traces of the sessions that apps have open, if they ask for them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use lodge_events::Event;
use lodge_host::{APPEND_BUCKETS, Host, KeeperCounts, Listening, Publish, Session};
use lodge_telemetry::{Follower, TraceOptions, otlp};
use parking_lot::Mutex;
use serde_json::Value;

/// The traces of all sessions that clients have open.
pub(crate) struct Traces {
    spans: lodge_telemetry::Traces,
    open: Mutex<HashMap<String, Weak<Trace>>>,
}

impl Traces {
    /// Starts the exporter.
    pub(crate) fn start(options: TraceOptions, host: Host) -> Self {
        let since = otlp::now();
        let counted = move || {
            host.keeper_counts()
                .map_or_else(Vec::new, |counts| fleet(&counts, since))
        };
        Self {
            spans: lodge_telemetry::Traces::start(options, counted),
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

/// What a host of a fleet counts.
fn fleet(counts: &KeeperCounts, since: u128) -> Vec<Value> {
    let change = |kind: &str| [("lodge.fleet.change", Value::from(kind))];
    let (taken, released, lost) = (change("taken"), change("released"), change("lost"));
    let changes: [(&[_], u64); 3] = [
        (&taken, counts.taken),
        (&released, counts.released),
        (&lost, counts.lost),
    ];
    let (bounds, time) = (&APPEND_BUCKETS, counts.append_time.as_secs_f64());
    vec![
        otlp::histogram("lodge.fleet.append.duration", "s", since, bounds, &counts.appends, time),
        otlp::sum("lodge.fleet.ownership_changes", "{session}", since, &changes),
        otlp::gauge("lodge.fleet.lag", "s", counts.lag.as_secs_f64()),
    ]
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_collector_gets_what_a_host_of_a_fleet_counts() {
        let counts = KeeperCounts {
            appends: vec![3, 2, 0, 0, 0, 0, 0, 0, 0, 1],
            append_time: Duration::from_millis(4500),
            taken: 7,
            released: 5,
            lost: 1,
            lag: Duration::from_millis(1500),
        };
        let [appends, changes, lag] = &fleet(&counts, 1)[..] else {
            panic!("three metrics");
        };
        let appends = &appends["histogram"]["dataPoints"][0];
        assert_eq!((&appends["count"], &appends["sum"]), (&"6".into(), &4.5.into()));
        assert_eq!(
            appends["bucketCounts"].as_array().unwrap().len(),
            APPEND_BUCKETS.len() + 1
        );
        let points = changes["sum"]["dataPoints"].as_array().unwrap();
        let numbers: Vec<_> = points.iter().map(|point| point["asInt"].as_str().unwrap()).collect();
        assert_eq!(numbers, ["7", "5", "1"]);
        assert_eq!(points[2]["attributes"][0]["value"]["stringValue"], "lost");
        assert_eq!(lag["gauge"]["dataPoints"][0]["asDouble"], 1.5);
    }
}
