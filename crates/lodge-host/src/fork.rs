//! Forks a session: copies it up to any of its events.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use lodge_events::{Event, EventType, LodgeChat, SessionScheduleCancelled, UserMessage};
use lodge_external::Program;
use lodge_log::{EventReader, LogError, Store};
use lodge_tools::changes::Changes;
use uuid::Uuid;

use crate::{Host, HostError, Lifecycle, host::Inner, session::Session};

impl Host {
    /// Copies a session up to and including an event (or all of it) into a new one.
    pub async fn fork(&self, id: &str, up_to: Option<Uuid>, new_id: Option<String>) -> Result<Session, HostError> {
        self.fork_as(id, up_to, new_id, None).await
    }

    /// The same for a copy that is a chat of a session.
    pub fn fork_as<'a>(
        &'a self,
        id: &'a str,
        up_to: Option<Uuid>,
        new_id: Option<String>,
        chat: Option<LodgeChat>,
    ) -> BoxFuture<'a, Result<Session, HostError>> {
        Box::pin(async move {
            let source = self.open_session(id).await?;
            if let Some(program) = Program::behind(&*source.agent().settings().model) {
                return Err(HostError::Invalid(program.cannot("be copied into another session")));
            }
            let reader = source.history()?;
            let new_id = new_id.unwrap_or_else(|| Uuid::new_v4().to_string());
            let (inner, from, name) = (self.0.clone(), id.to_owned(), new_id.clone());
            tokio::task::spawn_blocking(move || inner.copy(&from, reader, up_to, &name))
                .await
                .map_err(|_| HostError::Invalid(format!("The session {id} could not be copied.")))??;
            let session = self.open_session(&new_id).await?;
            // What is sent at set times is sent in the session that it was scheduled in.
            for id in session.state().schedules.open.into_keys() {
                session.record(SessionScheduleCancelled { id }).await?;
            }
            self.0.label(&session, session.settings().name);
            if let Some(chat) = chat {
                session.set_chat(chat)?.done().await?;
            }
            let _ = self.0.lifecycle.send(Lifecycle::Created(new_id));
            Ok(session)
        })
    }
}

/// Whether an event is part of a copy of its session. What people allowed in a session holds in that one only, and what a
/// newer build recorded may be just that.
pub(crate) fn goes_along(event: &Event) -> bool {
    let along = [
        EventType::LodgeUsage,
        EventType::LodgeUsageCarried,
        EventType::LodgePartial,
        EventType::LodgeMessageWritten,
    ];
    !event.is_beside() || event.event_type().is_some_and(|kind| along.contains(&kind))
}

impl Inner {
    fn copy(&self, id: &str, reader: EventReader, up_to: Option<Uuid>, new_id: &str) -> Result<(), HostError> {
        let mut log = match self.home.sessions().create(new_id) {
            Err(LogError::Exists { .. }) => return Err(HostError::AlreadyExists(new_id.to_owned())),
            other => other?,
        };
        let mut found = up_to.is_none();
        let mut turns = HashSet::new();
        for event in reader.events() {
            let event = event?;
            if goes_along(&event) {
                log.append(&event)?;
            }
            if event.is::<UserMessage>() {
                turns.insert(event.id().to_string());
            }
            if Some(event.id()) == up_to {
                found = true;
                break;
            }
        }
        if !found {
            self.home.sessions().delete(new_id)?;
            return Err(HostError::Invalid(format!(
                "Event not found: {}",
                up_to.expect("not found, so given")
            )));
        }
        let sessions = self.home.sessions();
        if let Err(error) = Changes::copy(&sessions.dir(id)?, &sessions.dir(new_id)?, &turns) {
            tracing::warn!(%error, "cannot copy the recorded file changes of a session");
        }
        // Where there is none, all is in the log.
        let written = |id: &str| crate::written_messages::earlier(self.home_path(), id);
        let _ = std::fs::copy(written(id), written(new_id));
        Ok(())
    }
}
