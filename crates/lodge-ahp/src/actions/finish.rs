//! What an accepted action brings with it, and what is kept of it.

use std::collections::BTreeMap;

use ahp_types::state::SessionStatus;
use lodge_host::RegisterError;

use super::{
    Dispatch, chat, directories,
    plan::{After, Plan},
    tools::fail_calls_of,
};
use crate::{
    annotations, chats,
    conversation::{Effect, Setting},
    face::{Face, Inner},
    state::Uri,
};

/// Gives the agent its work and lets everything follow that an accepted action brings with it.
pub(super) fn finish(dispatch: &Dispatch<'_>, inner: &mut Inner, plan: Plan) {
    let channel = &dispatch.channel;
    for after in plan.after {
        match after {
            After::ClientsChanged => inner.clients_changed(channel),
            After::Directories(moved) => directories::changed(inner, channel, moved),
            After::ClientGone => {
                for chat in inner.core.chats_of(channel) {
                    fail_calls_of(inner, &chat, &dispatch.peer.client);
                }
            }
            After::Terminal(effect) => inner.do_terminal(channel, effect),
            After::Reviewed => dispatch.face.reviewed(inner, channel),
            After::Annotated => dispatch.face.annotated(inner, channel),
            After::Decided(switches) => {
                inner.decided(channel, switches);
                dispatch.face.toggled(inner, channel);
            }
            After::Server(id, request) => {
                let chat = inner.core.sessions.get_mut(channel).map(|entry| {
                    entry.undone += 1;
                    entry.default_chat.clone()
                });
                if let Some(talk) = chat.and_then(|chat| inner.conversations.get(&chat)) {
                    talk.tell(Effect::Server { id, request });
                }
            }
        }
    }
    let to = match inner.core.sessions.get(channel) {
        Some(session) => session.default_chat.clone(),
        None => channel.clone(),
    };
    for effect in plan.effects {
        // Where it works its driver was told to look up.
        if matches!(effect, Effect::Change(Setting::Directories(_))) {
            continue;
        }
        if let Some((_, talk)) = inner.conversation(&to) {
            talk.tell(effect);
        }
    }
    let session = annotations::session_of(channel).unwrap_or(channel);
    if let Some(session) = inner.core.session_of(session) {
        inner.core.settle(&session);
    }
}

impl Inner {
    /// What was decided for a session alone is what its log says by now; before it has one, what was said last.
    fn decided(&mut self, session: &str, switches: BTreeMap<String, bool>) {
        if let Some(entry) = self.core.sessions.get_mut(session) {
            let talk = self.conversations.get(&entry.default_chat);
            entry.decisions = talk
                .and_then(|talk| talk.agent())
                .map_or(switches, |agent| agent.switches());
        }
    }
}

impl Face {
    /// The default chat of a session, open or not.
    pub(crate) async fn default_chat(&self, session: &str) -> String {
        let open = {
            let inner = self.inner.lock();
            let entry = inner.core.sessions.get(session);
            entry.map(|session| session.default_chat.to_string())
        };
        if let Some(open) = open {
            return open;
        }
        let line = match self.host.marks().id_at(session) {
            Some(id) => self.summary(&id).await,
            None => None,
        };
        let own = line.and_then(|line| line.about.chat).map(|chat| chat.address);
        own.unwrap_or_else(|| crate::uri::default_chat(session))
    }

    /// A draft becomes a session with its first turn: it is kept from now on, and others are told.
    pub(crate) fn first_turn(&self, inner: &mut Inner, chat: &str) {
        let Some(session) = inner.core.session_of(chat) else {
            return;
        };
        let announced = inner
            .core
            .sessions
            .get(&session)
            .is_some_and(|entry| entry.announced.is_some());
        if !announced {
            if let Err(error) = self.keep_uri(inner, &session) {
                tracing::error!(session = &*session, %error, "cannot save the address of a session");
            }
            inner.core.announce(&session);
        }
        chat::named(self, inner, chat);
        self.offer_changesets(inner, &session);
        self.keep(inner, chat);
    }

    /// Keeps the URI of a session. One that has it is in the list, also before its log has a message.
    pub(crate) fn keep_uri(&self, inner: &Inner, session: &Uri) -> Result<(), RegisterError> {
        let Some(entry) = inner.core.sessions.get(session) else {
            return Ok(());
        };
        let Some(talk) = inner.conversations.get(&entry.default_chat) else {
            return Ok(());
        };
        self.host.marks().update(&talk.host_id, |marks| {
            marks.address = Some(session.to_string());
            chats::call_provider(marks, &entry.state.provider);
        })
    }

    /// Keeps what people set about a session or a chat that is not in any log: flags and drafts.
    pub(crate) fn keep(&self, inner: &Inner, channel: &str) {
        let Some(session) = inner.core.session_of(channel) else {
            return;
        };
        let Some(entry) = inner
            .core
            .sessions
            .get(&session)
            .filter(|entry| entry.announced.is_some())
        else {
            return;
        };
        let chat = inner
            .core
            .chats
            .get_key_value(channel)
            .map_or(&entry.default_chat, |(uri, _)| uri);
        let (Some((main, talk)), Some(shown)) = (inner.conversation(chat), inner.core.chats.get(chat)) else {
            return;
        };
        if main != chat {
            return;
        }
        let status = entry.state.status;
        let (marks, id) = (self.host.marks(), &talk.host_id);
        let draft = shown.store().head().draft.as_ref().map(chats::kept_message);
        let mut kept = marks.set_draft(id, draft);
        if *chat == entry.default_chat {
            kept = kept.and(marks.update(id, |marks| {
                marks.read = status & SessionStatus::IsRead.bits() != 0;
                marks.archived = status & SessionStatus::IsArchived.bits() != 0;
            }));
        }
        if let Err(error) = kept {
            tracing::error!(session = id, %error, "cannot save the marks of a session");
        }
    }
}
