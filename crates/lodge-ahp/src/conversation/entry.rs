//! A conversation as the state knows it.

use std::{collections::HashMap, sync::Arc};

use ahp_types::StateAction;
use lodge_events::Uuid;
use lodge_host::Session;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::{Effect, follower::Shown, stream::Feed};
use crate::{
    projection::Projector,
    state::{Conn, Core, Handle, Lent, Uri},
    wire::Origin,
};

/// An accepted action that is told when the event comes that says it.
pub(crate) struct Cause {
    /// The action of a client; none for what the host does itself.
    pub(crate) dispatched: Option<Dispatched>,
    /// The setting of a session that it changes. Others are told it in the same words.
    pub(crate) setting: Option<Box<StateAction>>,
    /// Who waits until it was told.
    pub(crate) told: oneshot::Sender<()>,
}

/// An action as a client dispatched it.
pub(crate) struct Dispatched {
    pub(crate) conn: Arc<Conn>,
    /// Where the client sent it.
    pub(crate) channel: Uri,
    /// The action in the client's words.
    pub(crate) raw: Box<RawValue>,
    pub(crate) origin: Origin,
}

/// Something that an agent does for a client.
#[derive(Debug, Clone)]
pub(crate) enum ForAgent {
    /// Stop a turn.
    Cancel(String),
    /// Stop a turn before the action is looked at again.
    Rest(String),
    /// Go on with the turn that failed.
    Resume(String),
    /// Take the conversation back to before an event.
    Truncate(Uuid),
}

impl ForAgent {
    fn is_said_by(&self, action: &StateAction) -> bool {
        match (self, action) {
            (Self::Cancel(turn), StateAction::ChatTurnCancelled(cancelled)) => *turn == cancelled.turn_id,
            (Self::Resume(turn), StateAction::ChatTurnResume(resumed)) => *turn == resumed.turn_id,
            (Self::Truncate(_), StateAction::ChatTruncated(_)) => true,
            _ => false,
        }
    }
}

/// One conversation: an event stream of the host, the chat it is shown as, and the way to its agent.
pub(crate) struct Conversation {
    pub(crate) session: Uri,
    /// The session that it was made in. Addresses of what it has name that one, also when it was moved.
    pub(crate) born: Uri,
    /// The host's id of the session behind it.
    pub(crate) host_id: String,
    feed: Lent<Feed>,
    pub(crate) effects: mpsc::UnboundedSender<Effect>,
    /// Whether the host has no session behind it yet.
    pub(crate) is_draft: bool,
    /// The session behind it, while it is in memory.
    pub(crate) agent: Option<Session>,
    /// Whether the host let the session go: what others do to it then is not heard here.
    pub(crate) is_detached: bool,
    /// Before there is a session: the plugins that clients brought.
    pub(crate) plugins: Vec<lodge_host::Plugin>,
    /// The actions that the events of these ids tell.
    pub(crate) causes: HashMap<Uuid, Cause>,
    /// What its agent was asked to do, and the action that waits for it. Actions on a session are settled one by one.
    pub(crate) asked: Option<(ForAgent, Cause)>,
    /// Who shows what the session does.
    pub(crate) shown: Shown,
    /// The message that waited and whose turn the log says to have begun; clients see it in a moment.
    pub(crate) beginning: Option<String>,
}

impl Cause {
    /// Tells the client where it sent the action.
    pub(crate) fn echo(self, core: &Core) {
        if let Some(Dispatched {
            conn,
            channel,
            raw,
            origin,
        }) = &self.dispatched
        {
            core.echo(conn, channel, raw, origin);
        }
        self.done();
    }

    /// Tells the client that it came to nothing.
    pub(crate) fn reject(self, core: &Core, reason: &(impl std::fmt::Display + ?Sized)) {
        if let Some(Dispatched {
            conn,
            channel,
            raw,
            origin,
        }) = &self.dispatched
        {
            core.reject(conn, channel, raw, origin, reason);
        }
        self.done();
    }

    /// The client was told.
    pub(crate) fn done(self) {
        // Nobody waits any more where the connection is gone.
        let _ = self.told.send(());
    }
}

impl Conversation {
    pub(crate) fn new(
        session: Uri,
        born: Uri,
        host_id: String,
        feed: Lent<Feed>,
        effects: mpsc::UnboundedSender<Effect>,
        agent: Option<Session>,
        shown: Shown,
    ) -> Self {
        Self {
            session,
            born,
            host_id,
            feed,
            effects,
            is_draft: agent.is_none(),
            agent,
            is_detached: false,
            plugins: Vec::new(),
            causes: HashMap::new(),
            asked: None,
            shown,
            beginning: None,
        }
    }

    /// What its events mean.
    pub(crate) fn projector(&self) -> &Projector {
        &self.feed.get().projector
    }

    /// What its events mean, to tell it more.
    pub(crate) fn projector_mut(&mut self) -> &mut Projector {
        &mut self.feed.get_mut().projector
    }

    /// Where its events go.
    pub(crate) fn feed_mut(&mut self) -> &mut Feed {
        self.feed.get_mut()
    }

    /// The way of its deltas.
    pub(super) fn stream(&self) -> Handle<Feed> {
        self.feed.handle()
    }

    /// Puts back what the holder of the state's lock borrowed.
    pub(crate) fn put_back(&mut self) {
        self.feed.put_back();
    }

    /// It is part of another session from now on.
    pub(crate) fn move_to(&mut self, session: Uri) {
        self.feed.get_mut().move_to(session.clone());
        self.session = session;
    }

    /// The action of a client that this one says.
    pub(crate) fn cause_of(&mut self, action: &StateAction) -> Option<Cause> {
        let asked = self.asked.take_if(|(asked, _)| asked.is_said_by(action));
        asked.map(|(_, cause)| cause)
    }

    /// Whether the log says that a turn begins which clients do not see yet.
    pub(crate) fn is_beginning(&self) -> bool {
        self.beginning.is_some() || !self.causes.is_empty()
    }

    /// The session behind it is gone. The actions that waited for its events, which do not come any more.
    #[must_use = "their senders wait"]
    pub(crate) fn detach(&mut self) -> Vec<Cause> {
        self.is_detached = true;
        self.agent = None;
        self.beginning = None;
        let asked = self.asked.take().map(|(_, cause)| cause);
        self.causes.drain().map(|(_, cause)| cause).chain(asked).collect()
    }

    /// The session behind it, if it can be told something.
    pub(crate) fn agent(&self) -> Option<&Session> {
        self.agent.as_ref().filter(|session| !session.has_ended())
    }

    /// Gives its agent something to do, in order.
    pub(crate) fn tell(&self, effect: Effect) {
        // The driver only ends when the conversation is closed, and then nobody waits for this.
        let _ = self.effects.send(effect);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Borrowed;

    #[tokio::test]
    async fn who_waits_for_an_event_of_a_session_that_ended_hears_that_it_does_not_come() {
        let (effects, _driver) = mpsc::unbounded_channel();
        let session: Uri = "lodge:/one".into();
        let feed = Feed::new(session.clone(), Projector::default());
        let mut talk = Conversation::new(
            session.clone(),
            session.clone(),
            "one".to_owned(),
            Lent::new(session, feed, Borrowed::default()),
            effects,
            None,
            Shown::default(),
        );
        let waits = || {
            let (told, heard) = oneshot::channel();
            let cause = Cause {
                dispatched: None,
                setting: None,
                told,
            };
            (cause, heard)
        };
        let ((cause, recorded), (other, asked)) = (waits(), waits());
        talk.causes.insert(Uuid::new_v4(), cause);
        talk.asked = Some((ForAgent::Cancel("t1".to_owned()), other));
        talk.beginning = Some("t1".to_owned());
        for cause in talk.detach() {
            cause.done();
        }
        assert!(recorded.await.is_ok() && asked.await.is_ok());
        assert!(!talk.is_beginning() && talk.is_detached);
    }
}
