//! Keeps the lists of sessions and of models right for what happens elsewhere.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use lodge_host::Lifecycle;
use serde_json::{Map, Value};
use tokio::sync::broadcast::error::RecvError;

use crate::{face::Face, methods::Chats};

/// Tells clients of sessions that are not open here, until the face stops.
pub(crate) async fn watch_list(face: Arc<Face>) {
    let mut lifecycle = face.host.lifecycle();
    let mut decisions = face.host.decisions().changed();
    let mut models = face.host.models_changed();
    let mut list = List::default();
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            event = lifecycle.recv() => match event {
                Ok(event) => list.note(&face, event),
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "clients may show outdated sessions"),
                Err(RecvError::Closed) => return,
            },
            Ok(()) = decisions.changed() => face.decided_for_all(),
            Ok(()) = models.changed() => face.refresh_agents(),
            _ = tick.tick(), if !list.changed.is_empty() => {
                for id in std::mem::take(&mut list.changed) {
                    list.tell(&face, &id).await;
                    // Telling takes a while, and what piles up meanwhile would be lost.
                    while let Ok(event) = lifecycle.try_recv() {
                        list.note(&face, event);
                    }
                }
            }
            () = face.stop.cancelled() => return,
        }
    }
}

/// What is to be told about sessions that are not open here.
#[derive(Default)]
struct List {
    /// What clients were told, by the ids.
    told: HashMap<String, Map<String, Value>>,
    changed: HashSet<String>,
    made: HashSet<String>,
}

impl List {
    fn note(&mut self, face: &Arc<Face>, event: Lifecycle) {
        match event {
            Lifecycle::Created(id) => {
                self.made.insert(id.clone());
                self.changed.insert(id);
            }
            Lifecycle::Updated(id) => {
                self.changed.insert(id);
            }
            Lifecycle::Deleted { id, address, chat_of } => {
                self.changed.remove(&id);
                self.made.remove(&id);
                self.told.remove(&id);
                if face.removals.is_own(&id) {
                    return;
                }
                match chat_of {
                    Some(_) => face.chat_gone(&id),
                    None => face.forget(&address.unwrap_or_else(|| crate::uri::session(&id))),
                }
            }
        }
    }

    /// Tells clients about a session that is not open here; open ones speak for themselves.
    async fn tell(&mut self, face: &Face, id: &str) {
        let session = face.uri_of(id);
        if face.host.live(id).is_some() && face.is_detached(id) {
            // Somebody else took up a session that is shown here: it is read anew.
            return face.reload(&session);
        }
        {
            let inner = face.inner.lock();
            if inner.core.conns.is_empty() || inner.core.sessions.contains_key(session.as_str()) {
                self.made.remove(id);
                return;
            }
        }
        let Ok(chats) = Chats::of(&face.host, id).await else {
            return;
        };
        let Some(line) = face.summary(id).await.and_then(|line| face.line(&line, &chats)) else {
            return;
        };
        let Ok(Value::Object(map)) = serde_json::to_value(&line) else {
            return;
        };
        let inner = face.inner.lock();
        if self.made.remove(id) {
            inner.core.notify_added(&line);
        } else {
            let empty = Map::new();
            let changes = crate::state::session::changes(self.told.get(id).unwrap_or(&empty), &map);
            if !changes.is_empty() {
                inner.core.notify_changes(&session, changes);
            }
        }
        drop(inner);
        self.told.insert(id.to_owned(), map);
    }
}
