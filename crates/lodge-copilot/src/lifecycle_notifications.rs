//! `session.lifecycle`: notifies all clients when a session is created, changed or deleted.

use std::sync::Arc;

use jiff::Timestamp;
use lodge_host::{Host, Lifecycle};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::{frame::Frame, server::Peers};

/// Sends notifications until it is dropped.
pub(crate) async fn send(host: Host, peers: Arc<Peers>) {
    let mut changes = host.lifecycle();
    loop {
        let change = match changes.recv().await {
            Ok(change) => change,
            // Missed are only updates of sessions that will be updated again.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if !peers.is_empty() {
            let (kind, id) = match &change {
                Lifecycle::Created(id) => ("session.created", id),
                Lifecycle::Updated(id) => ("session.updated", id),
                Lifecycle::Deleted { id, .. } => ("session.deleted", id),
            };
            // Serialised once for all clients.
            let frame = Frame::whole(notification(&host, kind, id).to_string());
            peers.each(|peer| peer.push(frame.clone()));
        }
    }
}

fn notification(host: &Host, kind: &str, id: &str) -> Value {
    let mut params = json!({"type": kind, "sessionId": id});
    // A session that changes is in memory, so the catalogue on disk is not needed.
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
