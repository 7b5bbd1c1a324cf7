//! The way of a delta: from the event to the queues of clients under the locks of its conversation alone. Nothing here
//! knows the state that sessions share; what needs more than a conversation's own goes the other way (`Face::events`).

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use ahp::reducers::ReduceOutcome;
use lodge_events::Event;

use crate::{
    projection::{Projector, Scope, Step},
    state::{Handle, LiveChat, Numbers, Uri, spell},
    telemetry::Telemetry,
};

/// From the events of a conversation to the chats that show them.
pub(crate) struct Feed {
    pub(crate) projector: Projector,
    pub(super) session: Uri,
    routes: HashMap<Scope, Route>,
}

/// A chat that shows a part of a conversation.
pub(crate) struct Route {
    pub(crate) channel: Uri,
    /// The name under which the seed's dialect shows it.
    pub(crate) shown: Option<Uri>,
    pub(crate) chat: Handle<LiveChat>,
}

/// What every conversation needs to send something.
pub(crate) struct Sending<'a> {
    pub(crate) numbers: &'a Numbers,
    pub(crate) ring_bytes: usize,
    pub(crate) telemetry: &'a Telemetry,
}

impl Feed {
    pub(crate) fn new(session: Uri, projector: Projector) -> Self {
        Self {
            projector,
            session,
            routes: HashMap::new(),
        }
    }

    /// It is part of another session from now on.
    pub(super) fn move_to(&mut self, session: Uri) {
        self.session = session;
        self.routes.clear();
    }

    /// Whether it is known where this goes.
    pub(crate) fn knows(&self, scope: &Scope) -> bool {
        self.routes.contains_key(scope)
    }

    /// What goes here is shown there.
    pub(crate) fn add(&mut self, scope: Scope, route: Route) {
        self.routes.insert(scope, route);
    }

    /// Shows the events at the beginning that only continue what streams. How many these were.
    pub(super) fn stream(&mut self, sending: &Sending<'_>, events: &[Event]) -> usize {
        let mut shown = 0;
        loop {
            match self.stream_to_one_chat(sending, &events[shown..]) {
                0 => break,
                more => shown += more,
            }
        }
        sending.telemetry.events(&self.session, &events[..shown]);
        shown
    }

    fn stream_to_one_chat(&mut self, sending: &Sending<'_>, events: &[Event]) -> usize {
        let Self { projector, routes, .. } = self;
        let scope = events.first().and_then(|event| projector.continues(event));
        let route = scope.and_then(|scope| routes.get_key_value(&scope));
        let Some((scope, route)) = route else { return 0 };
        let shown = route.chat.with(|chat| {
            let (mut shown, mut actions) = (0, Vec::new());
            for event in events {
                if projector.continues(event).as_ref() != Some(scope) {
                    break;
                }
                for step in projector.event(event) {
                    if let Step::Act(_, action) = step
                        && chat.store.apply(&action) == ReduceOutcome::Applied
                    {
                        let mut spelt = spell(&route.channel, &action, None, route.shown.clone());
                        chat.channel.prepare(&mut spelt);
                        actions.push(spelt);
                    }
                }
                shown += 1;
            }
            sending.numbers.step(|numbering| {
                for spelt in actions {
                    chat.channel.publish(numbering, spelt, sending.ring_bytes);
                }
            });
            shown
        });
        shown.unwrap_or(0)
    }
}
