//! Actions that change the messages that wait. The log has the change before their senders hear of it.

use lodge_events::Uuid;
use tokio::sync::oneshot;

use super::{
    Refusal, TurnRefusal,
    accept::{Asked, Verdict},
    plan::QueueAction,
};
use crate::{face::Inner, state::Uri, talk::Talk};

/// Changes the messages that wait: the log has it when this returns.
pub(super) fn change_queue(inner: &mut Inner, chat: &Uri, change: QueueAction, request: &Asked<'_>) -> Verdict {
    let Asked { conn, raw, origin, .. } = *request;
    match inner.change_queue(chat, change) {
        Ok(Some((talk, event))) => {
            let (told, heard) = oneshot::channel();
            talk.causes.insert(event, request.cause(told));
            Verdict::Recorded(heard)
        }
        Ok(None) => {
            inner.core.echo(conn, request.channel, &raw, origin);
            Verdict::Settled
        }
        Err(reason) => {
            inner.core.reject(conn, request.channel, &raw, origin, &reason);
            Verdict::Settled
        }
    }
}

impl Inner {
    /// Changes the messages that wait in a conversation. The conversation and the event that says it, unless nothing changed.
    pub(super) fn change_queue(
        &mut self,
        chat: &Uri,
        change: QueueAction,
    ) -> Result<Option<(&mut Talk, Uuid)>, Refusal> {
        let talk = self.talk_mut(chat).ok_or(Refusal::NoChat)?;
        let agent = talk.agent().cloned().ok_or(Refusal::NotOpen)?;
        let event = match change {
            QueueAction::Begin { send, instead_of } => talk.accept(&send, true, instead_of)?,
            QueueAction::Set(send) => talk.accept(&send, false, None)?,
            QueueAction::Steer { send, replaces } => match talk.accept(&send, false, replaces) {
                // It is not replaced any more: it is being said.
                Err(Refusal::Turn(TurnRefusal::Taken)) => talk.accept(&send, false, None)?,
                event => event?,
            },
            QueueAction::Remove(id) => {
                let removed = agent.withdraw(&id)?;
                Some(removed.ok_or(TurnRefusal::Taken)?)
            }
            QueueAction::Reorder(order) => Some(agent.reorder(order)?),
        };
        Ok(event.map(|event| (talk, event)))
    }
}
