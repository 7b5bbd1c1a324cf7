//! What earlier builds kept in this face's files and belongs elsewhere.

use std::sync::Arc;

use lodge_host::{Delivery, HostError};

use crate::{
    face::Face,
    talk::{Effect, accept_message},
};

/// Brings queued messages into the logs of their sessions. Each is there before the file forgets it, and one that is brought
/// in again is recognised.
pub(crate) async fn bring_in_queues(face: Arc<Face>) {
    for id in face.store.with_queues() {
        if let Err(error) = bring_in(&face, &id).await {
            tracing::error!(session = id, %error, "messages that waited in this session stay in the files of an earlier build");
        }
    }
}

async fn bring_in(face: &Face, id: &str) -> Result<(), HostError> {
    let session = face.open_session(id).await?;
    for queued in face.store.session(id).queue {
        if session.facts().pending.was_said(&queued.id) {
            continue;
        }
        let send = Effect::Send {
            id: queued.id,
            message: Box::new(queued.message),
            delivery: Delivery::Enqueue,
            chats: Vec::new(),
        };
        accept_message(&session, &face.said, &send, false).map_err(HostError::Invalid)?;
    }
    face.store.update(id, |record| record.queue.clear());
    Ok(())
}
