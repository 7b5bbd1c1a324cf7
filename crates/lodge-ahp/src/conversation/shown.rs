//! What drivers tell the face.

use std::path::PathBuf;

use ahp_types::{StateAction, actions::SessionWorkingDirectoryReplacedAction};
use lodge_events::Payload;

use super::stream::{Feed, Sending};
use crate::{
    conversation::Conversation,
    face::{Face, Held},
    projection::Step,
    state::{Handle, Uri},
};

impl Face {
    /// What deltas need on their way.
    pub(super) fn sending(&self) -> Sending<'_> {
        Sending {
            numbers: &self.numbers,
            ring_bytes: self.config.limits.replay_bytes,
            telemetry: &self.telemetry,
        }
    }

    /// Shows what an agent did. The way of the deltas that come after it, unless the conversation is closed.
    pub(super) fn events(&self, chat: &Uri, events: &[lodge_events::Event]) -> Option<Handle<Feed>> {
        let mut inner = self.inner.lock();
        for event in events {
            match event.payload() {
                Payload::LodgeDirectories(told) => self.works_in(&mut inner, chat, told),
                Payload::LodgeSwitched(told) => self.switched(&mut inner, chat, &told.switches),
                _ => {}
            }
            let talk = inner.conversations.get_mut(chat)?;
            if let Payload::LodgeMessageBegun(begun) = event.payload() {
                talk.beginning.take_if(|beginning| *beginning == begun.message_id);
            }
            let steps = talk.projector_mut().event(event);
            let cause = talk.causes.remove(&event.id());
            if steps.is_empty() && cause.is_none() {
                continue;
            }
            // What must not be lost is kept before anybody hears of it.
            let mut held = Held::new(&mut inner);
            if held.apply_steps(chat, steps, cause) {
                self.first_turn(&mut held, chat);
            }
        }
        let talk = inner.conversations.get(chat)?;
        let (session, stream) = (talk.session.clone(), talk.stream());
        drop(inner);
        self.telemetry.events(&session, events);
        Some(stream)
    }

    /// A conversation was read anew: if it was about to begin with a message, it does so again.
    pub(super) fn begin_again(&self, chat: &Uri) {
        let mut inner = self.inner.lock();
        let begun = inner.conversations.get(chat).is_some_and(|talk| {
            let next = talk.projector().next_to_prepare().zip(talk.agent());
            next.is_some_and(|(id, agent)| agent.has_begun(id))
        });
        if begun {
            inner.apply_steps(chat, vec![Step::Queued], None);
        }
    }

    /// A conversation rests without its agent saying so: what waits may begin.
    pub(super) fn rested(&self, chat: &Uri) {
        self.inner.lock().apply_steps(chat, vec![Step::Rested], None);
    }

    /// A session works somewhere else than it was said when it was a draft.
    pub(super) fn moved(&self, chat: &Uri, to: Option<PathBuf>) {
        let mut inner = self.inner.lock();
        let session = inner.core.session_of(chat);
        let Some((session, to)) = session.zip(to) else { return };
        let directories = inner
            .core
            .sessions
            .get(&session)
            .and_then(|entry| entry.state.working_directories.clone());
        let Some(directory) = directories.and_then(|all| all.into_iter().next()) else {
            return;
        };
        let action = SessionWorkingDirectoryReplacedAction {
            directory,
            replacement: crate::uri::file(to),
        };
        inner
            .core
            .publish(&session, &StateAction::SessionWorkingDirectoryReplaced(action), None);
        inner.core.settle(&session);
    }

    /// The host let a session go that is shown here.
    pub(super) fn detached(&self, chat: &Uri) {
        let mut inner = self.inner.lock();
        let waiting = inner.conversations.get_mut(chat).map(Conversation::detach);
        for cause in waiting.into_iter().flatten() {
            cause.reject(&inner.core, "the session ended before the message was sent; try again");
        }
    }
}
