//! Settings of sessions. The logs have them before their senders hear of them, and clients are told what the events say: so
//! nobody is told of an older setting after a newer one, whoever made it.

use ahp_types::StateAction;
use lodge_events::Uuid;
use lodge_host::Session;
use tokio::sync::oneshot;

use super::{
    Refusal,
    accept::{Asked, Verdict},
    plan::Plan,
};
use crate::{
    conversation::{Conversation, Effect, Setting},
    face::{Face, Held, Inner},
    state::Uri,
};

/// Settings that a client makes for a chat or, by its default chat, for a session.
pub(super) struct NewSettings {
    chat: Uri,
    /// In order, with the ids of the events that say them.
    settings: Vec<(Session, Setting, Uuid)>,
    /// The event that its sender waits for.
    last: Uuid,
    /// The chats that share some of them and sleep.
    asleep: Vec<Uri>,
}

/// What an action sets that the log of a session has to say. Whoever sent it hears of it with the event that says the last of it.
pub(super) fn new_settings(
    inner: &mut Inner,
    channel: &Uri,
    plan: &Plan,
    action: &StateAction,
    request: &Asked<'_>,
) -> Option<NewSettings> {
    let chat = match inner.core.sessions.get(channel) {
        Some(session) => session.default_chat.clone(),
        None => channel.clone(),
    };
    let (chat, talk) = inner.conversation(&chat)?;
    let agent = talk.agent().filter(|_| !talk.is_draft)?;
    let told = plan.settings().filter(|setting| setting.is_told_by_events());
    let last = Uuid::new_v4();
    let (shared, own): (Vec<&Setting>, Vec<&Setting>) = told.partition(|setting| setting.is_shared());
    let mut settings: Vec<_> = own.iter().map(|setting| (agent, *setting)).collect();
    let mut asleep = Vec::new();
    for (other, talk) in inner.others(channel, chat) {
        match talk.agent() {
            Some(agent) => settings.extend(shared.iter().map(|setting| (agent, *setting))),
            None if shared.is_empty() => {}
            None => asleep.push(other.clone()),
        }
    }
    settings.extend(shared.iter().map(|setting| (agent, *setting)));
    let settings = settings.into_iter();
    let mut settings: Vec<_> = settings
        .map(|(agent, setting)| (agent.clone(), setting.clone(), Uuid::new_v4()))
        .collect();
    settings.last_mut()?.2 = last;
    let new = NewSettings {
        chat: chat.clone(),
        settings,
        last,
        asleep,
    };
    Some(new.expected(inner, Some(action.clone()), request))
}

/// The title of a further chat, which its own log says. It stands in the list of its session, so no action here says it.
pub(super) fn new_title(inner: &mut Inner, chat: &str, agent: Session, title: &str, request: &Asked<'_>) -> Verdict {
    let last = Uuid::new_v4();
    let new = NewSettings {
        chat: chat.into(),
        settings: vec![(agent, Setting::Title(title.to_owned()), last)],
        last,
        asleep: Vec::new(),
    };
    Verdict::Settings(new.expected(inner, None, request))
}

impl NewSettings {
    /// With their sender waiting for the last of them.
    fn expected(self, inner: &mut Inner, setting: Option<StateAction>, request: &Asked<'_>) -> Self {
        if let Some(talk) = inner.conversations.get_mut(&self.chat) {
            // Nobody waits for it: what is not told by then is settled when all is recorded.
            let (told, _) = oneshot::channel();
            let mut cause = request.cause(told);
            cause.setting = setting.map(Box::new);
            talk.causes.insert(self.last, cause);
        }
        self
    }
}

impl Face {
    /// Has logs say what a client set, and waits until clients see it. The client is told in any case.
    pub(super) async fn configure(&self, new: NewSettings) {
        let NewSettings {
            chat,
            settings,
            last,
            asleep,
        } = new;
        let mut done: Result<(), Refusal> = Ok(());
        let (mut shared, mut before) = (Vec::new(), Vec::new());
        for (session, setting, id) in settings {
            let now = setting.now(&session);
            done = setting
                .clone()
                .apply_as(id, &self.host, &session)
                .await
                .map_err(Refusal::from);
            if done.is_err() {
                break;
            }
            if let Some(now) = now {
                shared.push(setting);
                before.push((session, now));
            }
        }
        if done.is_err() {
            // The chats of a session share it: all of them change, or none.
            for (session, before) in before.into_iter().rev() {
                if let Err(error) = before.apply(&self.host, &session).await {
                    tracing::warn!(session = session.id(), %error, "a chat keeps a setting that was refused");
                }
            }
        }
        let shown = self
            .inner
            .lock()
            .conversation(&chat)
            .map(|(_, talk)| talk.shown.clone());
        if let Some(shown) = shown {
            shown.caught_up().await;
        }
        let mut guard = self.inner.lock();
        let mut inner = Held::new(&mut guard);
        let talk = inner.conversations.get_mut(&chat);
        let (session, cause) = match talk {
            Some(talk) => (talk.session.clone(), talk.causes.remove(&last)),
            None => return,
        };
        if done.is_ok() {
            for talk in asleep.iter().filter_map(|chat| inner.conversations.get(chat)) {
                for setting in &shared {
                    talk.tell(Effect::Change(setting.clone()));
                }
            }
        }
        match (cause, done) {
            (Some(cause), Err(reason)) => cause.reject(&inner.core, &reason),
            // The log said the same before.
            (Some(cause), Ok(())) => {
                inner.publish_setting(&session, None, cause);
                inner.core.settle(&session);
            }
            (None, _) => {}
        }
    }
}

impl Inner {
    /// The other conversations of a session, by their chats.
    fn others(&self, session: &str, chat: &str) -> impl Iterator<Item = (&Uri, &Conversation)> {
        let others = self.conversations.iter();
        others.filter(move |(uri, talk)| *talk.session == *session && ***uri != *chat)
    }
}
