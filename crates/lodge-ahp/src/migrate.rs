//! What earlier builds kept in this face's files and belongs into logs.

use std::sync::Arc;

use ahp_types::state::MessageKind;
use lodge_events::Uuid;
use lodge_host::{CarriedMessage, Delivery, HostError};

use crate::{
    chats::shown_message,
    conversation::{Effect, accept_message},
    face::Face,
};

/// Brings queued messages into the logs of their sessions. Each is there before the register forgets it, and one that is
/// brought in again is recognised.
pub(crate) async fn bring_in_queues(face: Arc<Face>) {
    for (id, messages) in face.host.marks().carried_messages() {
        if let Err(error) = bring_in(&face, &id, messages).await {
            tracing::error!(session = id, %error, "queued messages of this session stay in the file of an earlier build");
        }
    }
}

async fn bring_in(face: &Face, id: &str, messages: Vec<CarriedMessage>) -> Result<(), HostError> {
    let session = face.host.open_session(id).await?;
    for queued in messages {
        if session.state().pending.was_said(&queued.id) {
            continue;
        }
        let send = Effect::Send {
            id: queued.id,
            message: Box::new(shown_message(queued.message, MessageKind::User)),
            delivery: Delivery::Enqueue,
            chats: Vec::new(),
            client: None,
        };
        let accepted = accept_message(&session, Uuid::new_v4(), &send, false, None);
        accepted.map_err(|refusal| HostError::Invalid(refusal.to_string()))?;
    }
    let forgotten = face.host.marks().forget_carried(id);
    forgotten.map_err(|error| HostError::Invalid(error.to_string()))
}
