//! What drivers tell the face.

use std::path::PathBuf;

use ahp_types::{
    StateAction,
    actions::{ChatErrorAction, SessionTitleChangedAction, SessionWorkingDirectoryReplacedAction},
    state::{ErrorInfo, ErrorResponsePart},
};
use lodge_host::Session;

use crate::{
    actions::{further, renamed},
    face::{Face, Held, Inner},
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
            let cause = talk.causes.remove(&event.id());
            if steps.is_empty() && cause.is_none() {
                continue;
            }
            let title = steps.iter().find_map(|step| match step {
                Step::Act(Scope::Session, action) => match &**action {
                    StateAction::SessionTitleChanged(changed) => Some(changed.title.clone()),
                    _ => None,
                },
                _ => None,
            });
            // What must not be lost is kept before anybody hears of it.
            let mut held = Held::new(&mut inner);
            if held.take_for(chat, steps, cause) {
                self.first_turn(&mut held, chat);
            }
            drop(held);
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

    /// The agent could not be given a message: the turn that waited for it has failed, or it no longer steers one. The message
    /// waits no more in its session.
    pub(crate) fn turn_failed(&self, chat: &Uri, session: Option<&Session>, id: &str, message: &str) {
        self.show_failure(chat, id, message);
        let Some(session) = session else { return };
        match session.withdraw(id) {
            // What came behind it waited for it.
            Ok(_) => session.go_on(),
            Err(error) => tracing::warn!(chat = &**chat, %error, "a message that failed stays in the queue"),
        }
    }

    /// A conversation rests without its agent saying so: what waits may begin.
    pub(super) fn rested(&self, chat: &Uri) {
        let mut inner = self.inner.lock();
        if inner.take(chat, vec![Step::Rested]) {
            self.keep(&inner, chat);
        }
    }

    fn show_failure(&self, chat: &Uri, id: &str, message: &str) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(talk) = inner.talks.get_mut(chat) else { return };
        let session = talk.session.clone();
        self.host.automations().message_failed(&talk.host_id, message);
        if !talk.projector.send_failed(id) {
            tracing::warn!(chat = &**chat, message, "a message could not be given to the agent");
            return;
        }
        let error = ErrorInfo {
            error_type: "sendFailed".into(),
            message: message.to_owned(),
            stack: None,
            meta: None,
        };
        let part = ErrorResponsePart { error, resumable: None };
        let action = StateAction::ChatError(ChatErrorAction {
            turn_id: id.to_owned(),
            duration: 0,
            part,
            meta: None,
        });
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
