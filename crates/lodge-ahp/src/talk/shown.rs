//! What drivers tell the face.

use std::path::PathBuf;

use ahp_types::{
    StateAction,
    actions::{
        ChatErrorAction, ChatPendingMessageRemovedAction, SessionTitleChangedAction,
        SessionWorkingDirectoryReplacedAction,
    },
    state::{ErrorInfo, ErrorResponsePart, PendingMessageKind},
};
use lodge_host::Prompt;

use crate::{
    actions::{further, renamed},
    face::{Face, Inner},
    projection::{Scope, Step},
    state::Uri,
};

impl Face {
    /// Shows what an agent did.
    pub(super) fn events(&self, chat: &Uri, events: &[lodge_events::Event]) {
        let mut inner = self.inner.lock();
        for event in events {
            let Some(talk) = inner.talks.get_mut(chat) else { return };
            let steps = talk.projector.event(event);
            if steps.is_empty() {
                continue;
            }
            let title = steps.iter().find_map(|step| match step {
                Step::Act(Scope::Session, action) => match &**action {
                    StateAction::SessionTitleChanged(changed) => Some(changed.title.clone()),
                    _ => None,
                },
                _ => None,
            });
            if inner.take(chat, steps) {
                self.keep(&inner, chat);
            }
            if let Some(title) = title {
                self.titled(&mut inner, chat, &title);
            }
        }
        let session = inner.talks.get(chat).map(|talk| talk.session.clone());
        drop(inner);
        if let Some(session) = session {
            self.telemetry.events(&session, events);
        }
    }

    /// The session behind a further chat was given a title: that is the chat's.
    fn titled(&self, inner: &mut Inner, chat: &Uri, title: &str) {
        let Some(place) = further(inner, chat) else { return };
        let title = title.to_owned();
        let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title: title.clone() });
        let known = inner.talks.get_mut(chat).is_some_and(|talk| talk.is_known(&action));
        let shown = inner.core.chats.get(chat).map(|chat| &chat.store.head().title);
        if !known && shown != Some(&title) {
            // A title that cannot be one is not shown.
            let _ = renamed(self, inner, chat, &place, &title);
        }
    }

    /// Shows what waits at an agent.
    pub(super) fn queue_changed(&self, chat: &Uri, waiting: &[Prompt]) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let (Some(entry), Some(talk)) = (inner.core.chats.get(chat), inner.talks.get_mut(chat)) else {
            return;
        };
        let steps = talk.projector.queue_changed(entry.store.head(), waiting);
        if inner.take(chat, steps) {
            self.keep(inner, chat);
        }
    }

    /// A conversation rests without its agent saying so: what waits may begin.
    pub(super) fn rested(&self, chat: &Uri) {
        let mut inner = self.inner.lock();
        if inner.take(chat, vec![Step::Rested]) {
            self.keep(&inner, chat);
        }
    }

    /// The agent could not be given a message: the turn that waited for it has failed, or it no longer steers one.
    pub(crate) fn turn_failed(&self, chat: &Uri, id: &str, message: &str) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(talk) = inner.talks.get_mut(chat) else { return };
        let session = talk.session.clone();
        self.host.automations().message_failed(&talk.host_id, message);
        let action = if talk.projector.send_failed(id) {
            let error = ErrorInfo {
                error_type: "sendFailed".into(),
                message: message.to_owned(),
                stack: None,
                meta: None,
            };
            let part = ErrorResponsePart { error, resumable: None };
            StateAction::ChatError(ChatErrorAction {
                turn_id: id.to_owned(),
                duration: 0,
                part,
                meta: None,
            })
        } else {
            tracing::warn!(chat = &**chat, message, "a message could not be given to the agent");
            let kind = PendingMessageKind::Steering;
            StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction {
                kind,
                id: id.to_owned(),
            })
        };
        inner.core.publish(chat, &action, None);
        inner.core.settle(&session);
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
        if let Some(talk) = self.inner.lock().talks.get_mut(chat) {
            talk.is_detached = true;
            talk.agent = None;
        }
    }
}
