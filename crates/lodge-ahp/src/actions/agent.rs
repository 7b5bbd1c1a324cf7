//! Actions that an agent carries out. Their senders hear of them when the log says that it did.

use tokio::sync::oneshot;

use super::{
    Refusal,
    accept::{Asked, Verdict},
};
use crate::{
    conversation::ForAgent,
    face::{Face, Inner},
    state::{ChatEntry, Uri},
};

/// Has the agent of a chat do something. The action waits for the event that says so.
pub(super) fn ask_agent(inner: &mut Inner, chat: &Uri, action: ForAgent, request: &Asked<'_>) -> Verdict {
    let Some((talk, agent)) = inner.conversation_mut(chat).and_then(|talk| {
        let agent = talk.agent().cloned()?;
        Some((talk, agent))
    }) else {
        let Asked { conn, raw, origin, .. } = *request;
        let reason = "the session is not open; try again";
        inner.core.reject(conn, request.channel, &raw, origin, reason);
        return Verdict::Settled;
    };
    if !matches!(action, ForAgent::Rest(_)) {
        // Nobody waits for it: what is not told by then is settled when the agent has answered.
        let (told, _) = oneshot::channel();
        talk.asked = Some((action.clone(), request.cause(told)));
    }
    let chat = chat.clone();
    Verdict::Agent { chat, agent, action }
}

impl Face {
    /// Has the agent of a chat do what a client wants, and waits until clients see what it did. The client is told in any case.
    pub(super) async fn has_done(
        &self,
        chat: &Uri,
        agent: &lodge_host::Session,
        action: &ForAgent,
    ) -> Result<(), Refusal> {
        let done = match action {
            ForAgent::Cancel(turn) | ForAgent::Rest(turn) => agent.cancel(turn).await,
            ForAgent::Resume(_) => agent.resume_failed().await,
            ForAgent::Truncate(before) => agent.truncate(*before).await.map(|_| true),
        };
        let done = done.map_err(Refusal::from);
        let shown = self.inner.lock().conversation(chat).map(|(_, talk)| talk.shown.clone());
        if let Some(shown) = shown {
            shown.caught_up().await;
        }
        let mut inner = self.inner.lock();
        if let Some((_, cause)) = inner.conversation_mut(chat).and_then(|talk| talk.asked.take()) {
            match (&done, action) {
                (Err(reason), _) => cause.reject(&inner.core, reason),
                (Ok(false), ForAgent::Resume(_)) => cause.reject(&inner.core, "there is nothing to continue"),
                (Ok(false), _) => cause.reject(&inner.core, "no such turn is running"),
                (Ok(true), ForAgent::Cancel(turn)) if inner.knows_turn(chat, turn) => {
                    cause.reject(&inner.core, "the turn ended before it could be stopped");
                }
                // It came about in other words: a message that was not said does not wait any more.
                (Ok(true), _) => cause.echo(&inner.core),
            }
        }
        done.map(drop)
    }
}

impl Inner {
    fn knows_turn(&self, chat: &str, turn: &str) -> bool {
        let store = self.core.chats.get(chat).map(ChatEntry::store);
        store.is_some_and(|store| store.position(turn).is_some())
    }
}
