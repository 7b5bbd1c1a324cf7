//! On the way out of the state: what is told leaves at once, or when what it tells is kept.

use std::sync::Arc;

use super::{Conn, Core, Sent, Spelt, Uri};
use crate::{
    version::Dialect,
    wire::{Envelope, Frame, Origin, Unnumbered},
};

/// Something that waits until it may leave. It has no number yet: others send meanwhile.
pub(super) enum Held {
    /// An action, for those who listened when it was published.
    Action {
        channel: Uri,
        spelt: Spelt,
        to: Vec<(Arc<Conn>, Dialect)>,
    },
    /// What becomes of an action, for the one who dispatched it.
    Answer(Arc<Conn>, Unnumbered),
    Frame(Arc<Conn>, Frame),
}

impl Core {
    /// From now on nothing leaves: whoever is told something must find it again after a crash, so it is kept first.
    pub(crate) fn hold(&mut self) {
        self.held.get_mut().get_or_insert_default();
    }

    /// Numbers and sends what was held back, in order.
    pub(crate) fn release(&mut self) {
        let held = self.held.get_mut().take().unwrap_or_default();
        if held.is_empty() {
            return;
        }
        let sent = self.numbers.step(|numbering| {
            let mut actions: Vec<(Uri, Arc<Sent>)> = Vec::new();
            for held in held {
                match held {
                    Held::Action { channel, spelt, to } => {
                        let sent = numbering.number(spelt);
                        for (conn, dialect) in to {
                            numbering.push_sent(&conn, dialect, &sent);
                        }
                        actions.push((channel, sent));
                    }
                    Held::Answer(conn, answer) => numbering.answer(&conn, answer),
                    Held::Frame(conn, frame) => numbering.push(&conn, frame),
                }
            }
            actions
        });
        let limit = self.bounds.ring_bytes;
        for (channel, sent) in sent {
            if let Some(channel) = self.channel_mut(&channel) {
                channel.ring.push(sent, limit);
            }
        }
    }

    /// Sends what has no number.
    pub(super) fn deliver(&self, conn: &Arc<Conn>, frame: Frame) {
        match &mut *self.held.borrow_mut() {
            Some(held) => held.push(Held::Frame(conn.clone(), frame)),
            None => conn.push(frame),
        }
    }

    /// Sends an action to everybody who listens to a channel.
    pub(super) fn send(&mut self, uri: &str, mut spelt: Spelt) {
        let (numbers, limit) = (self.numbers.clone(), self.bounds.ring_bytes);
        let is_held = self.held.get_mut().is_some();
        let Some(channel) = self.channel_mut(uri) else { return };
        channel.prepare(&mut spelt);
        if !is_held {
            return numbers.step(|numbering| channel.publish(numbering, spelt, limit));
        }
        let listeners = channel.subscribers.iter();
        let to = listeners.map(|listener| (listener.conn.clone(), listener.peer.dialect));
        let to = to.collect();
        self.hold_action(uri, spelt, to);
    }

    /// Sends an action to one of those who listen to a channel.
    pub(super) fn send_to(&mut self, uri: &str, spelt: Spelt, conn: &Arc<Conn>, dialect: Dialect) {
        if self.held.get_mut().is_some() {
            return self.hold_action(uri, spelt, vec![(conn.clone(), dialect)]);
        }
        let (numbers, limit) = (self.numbers.clone(), self.bounds.ring_bytes);
        let Some(channel) = self.channel_mut(uri) else { return };
        let sent = numbers.step(|numbering| {
            let sent = numbering.number(spelt);
            numbering.push_sent(conn, dialect, &sent);
            sent
        });
        channel.ring.push(sent, limit);
    }

    fn hold_action(&mut self, uri: &str, spelt: Spelt, to: Vec<(Arc<Conn>, Dialect)>) {
        let action = Held::Action {
            channel: uri.into(),
            spelt,
            to,
        };
        self.held.get_mut().get_or_insert_default().push(action);
    }

    /// Tells one connection that its action was not accepted. It takes no number: nothing happened.
    pub(crate) fn reject(
        &self,
        conn: &Arc<Conn>,
        channel: &str,
        action: &impl serde::Serialize,
        origin: &Origin,
        reason: &(impl std::fmt::Display + ?Sized),
    ) {
        self.answer(conn, channel, action, origin, Some(&reason.to_string()));
    }

    /// Tells one connection that its action was accepted and changed nothing.
    pub(crate) fn echo(&self, conn: &Arc<Conn>, channel: &str, action: &impl serde::Serialize, origin: &Origin) {
        self.answer(conn, channel, action, origin, None);
    }

    fn answer(
        &self,
        conn: &Arc<Conn>,
        channel: &str,
        action: &impl serde::Serialize,
        origin: &Origin,
        rejection_reason: Option<&str>,
    ) {
        let seed = conn.peer().is_some_and(|peer| peer.dialect == Dialect::Seed);
        let envelope = Envelope {
            channel: (!seed).then_some(channel),
            action,
            origin: Some(origin),
            rejection_reason,
        };
        let answer = envelope.spell();
        match &mut *self.held.borrow_mut() {
            Some(held) => held.push(Held::Answer(conn.clone(), answer)),
            None => self.numbers.step(|numbering| numbering.answer(conn, answer)),
        }
    }
}
