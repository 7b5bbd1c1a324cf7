//! `session.lifecycle`: everybody connected learns of every session that is made, changed or removed.

use std::sync::Arc;

use jiff::Timestamp;
use lodge_host::{Host, Lifecycle};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::{frame::Frame, server::Peers};

/// Tells for as long as it is polled.
pub(crate) async fn tell(host: Host, peers: Arc<Peers>) {
    let mut changes = host.lifecycle();
    loop {
        let change = match changes.recv().await {
            Ok(change) => change,
            // What was missed were updates of sessions that will be updated again.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if !peers.is_empty() {
            let (kind, id) = match &change {
                Lifecycle::Created(id) => ("session.created", id),
                Lifecycle::Updated(id) => ("session.updated", id),
                Lifecycle::Deleted { id, .. } => ("session.deleted", id),
            };
            // Serialised once for all of them.
            let frame = Frame::whole(notification(&host, kind, id).to_string());
            peers.each(|peer| peer.push(frame.clone()));
        }
    }
}

fn notification(host: &Host, kind: &str, id: &str) -> Value {
    let mut params = json!({"type": kind, "sessionId": id});
    // A session that something happens to is in memory; the catalogue on disk need not be asked.
    if let Some(session) = host.live(id) {
        let facts = session.state();
        let started = Timestamp::from_millisecond(facts.started_ms).unwrap_or_default();
        params["metadata"] = json!({
            "startTime": lodge_events::timestamp_text(started),
            "modifiedTime": lodge_events::timestamp_text(Timestamp::now()),
        });
        if let Some(summary) = session.settings().name.or_else(|| facts.title()) {
            params["metadata"]["summary"] = json!(summary);
        }
    }
    json!({"jsonrpc": "2.0", "method": "session.lifecycle", "params": params})
}
