//! Actions that change the messages that wait. The log has the change before their senders hear of it, and it is written without
//! the lock of the state.

use ahp_types::state::Message;
use lodge_events::Uuid;
use lodge_host::Session;
use tokio::sync::oneshot;

use super::{Refusal, TurnRefusal, plan::QueueAction};
use crate::{
    conversation::{Cause, Effect, accept_message},
    face::{Face, Inner},
    state::Uri,
};

/// A change of the queue that is about to be recorded.
pub(super) struct QueueChange {
    chat: Uri,
    agent: Session,
    action: QueueAction,
    /// The event that is to say it.
    event: Uuid,
    /// How the message was written before.
    written: Option<Message>,
    heard: oneshot::Receiver<()>,
}

impl Inner {
    /// Gets ready for a change of the messages that wait in a conversation: its cause is told with the event that says it.
    pub(super) fn queue_change(
        &mut self,
        chat: &Uri,
        action: QueueAction,
        cause: impl FnOnce(oneshot::Sender<()>) -> Cause,
    ) -> Result<QueueChange, Refusal> {
        let talk = self.conversation_mut(chat).ok_or(Refusal::NoChat)?;
        let agent = talk.agent().cloned().ok_or(Refusal::NotOpen)?;
        let event = Uuid::new_v4();
        let (told, heard) = oneshot::channel();
        talk.causes.insert(event, cause(told));
        let written = match action.message() {
            Some((id, message)) => talk.projector_mut().accepted(id, Some(message.clone())),
            None => None,
        };
        Ok(QueueChange {
            chat: chat.clone(),
            agent,
            action,
            event,
            written,
            heard,
        })
    }
}

impl QueueAction {
    /// The message that waits from now on, or says something else.
    fn message(&self) -> Option<(&str, &Message)> {
        match self {
            Self::Begin { send, .. } | Self::Set(send) | Self::Steer { send, .. } => match send {
                Effect::Send { id, message, .. } => Some((id, message)),
                _ => None,
            },
            Self::Remove(_) | Self::Reorder(_) => None,
        }
    }

    /// Has the session record it by an event with this id. False if the log said the same before.
    fn run(&self, agent: &Session, event: Uuid) -> Result<bool, Refusal> {
        Ok(match self {
            Self::Begin { send, instead_of } => accept_message(agent, event, send, true, instead_of.clone())?,
            Self::Set(send) => accept_message(agent, event, send, false, None)?,
            Self::Steer { send, replaces } => match accept_message(agent, event, send, false, replaces.clone()) {
                // It is not replaced any more: it is being said.
                Err(Refusal::Turn(TurnRefusal::Taken)) => accept_message(agent, event, send, false, None)?,
                accepted => accepted?,
            },
            Self::Remove(id) => match agent.withdraw_as(event, id)? {
                true => true,
                false => return Err(TurnRefusal::Taken.into()),
            },
            Self::Reorder(order) => {
                agent.reorder_as(event, order.clone())?;
                true
            }
        })
    }
}

impl QueueChange {
    /// Records it, so that the log has it when this returns. Whoever waits hears when clients see it.
    pub(super) fn run(self, face: &Face) -> Result<oneshot::Receiver<()>, Refusal> {
        let recorded = self.action.run(&self.agent, self.event);
        if !matches!(recorded, Ok(true)) {
            let mut inner = face.inner.lock();
            let cause = inner.conversation_mut(&self.chat).and_then(|talk| {
                if let (Err(_), Some((id, _))) = (&recorded, self.action.message()) {
                    talk.projector_mut().accepted(id, self.written);
                }
                talk.causes.remove(&self.event)
            });
            match (&recorded, cause) {
                (Ok(_), Some(cause)) => cause.echo(&inner.core),
                // Its sender was told when the conversation was closed.
                (Err(_), None) => return Ok(self.heard),
                _ => {}
            }
        }
        recorded.map(|_| self.heard)
    }
}
