//! Messages that wait: a fold of the log, and what clients see of it.

use std::collections::HashSet;

use ahp_types::{
    StateAction,
    actions::{ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatQueuedMessagesReorderedAction},
    state::{Message, PendingMessageKind},
};
use lodge_events::{MessageLane, Payload, Timestamp, UserMessage};
use lodge_host::{Delivery, PendingMessage, PendingMessages};

use super::{Projector, Scope, Step, message::message_of_prompt};

/// The messages that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pending: PendingMessages,
    /// Messages that clients see as turns already, until the log says that they are said or gone.
    begun: HashSet<String>,
    /// While the log is read: the message whose turn began and that is not said yet, and when that was.
    began: Option<(String, Timestamp)>,
    /// Those that clients see as queued, in their order.
    queued: Vec<String>,
    /// The one that is prepared to steer a turn, until the log says that it is said or gone.
    steering_prepared: Option<String>,
    /// The one that clients see as steering.
    steering: Option<String>,
}

impl Queue {
    /// Whether a message waits, also when clients see it as a turn.
    pub(super) fn waits(&self, id: &str) -> bool {
        self.pending.get(id).is_some()
    }

    /// When clients saw the turn of a message begin, where the log was read. That may be before it was said.
    pub(super) fn began(&mut self, id: &str) -> Option<Timestamp> {
        let (began, when) = self.began.take()?;
        (began == id).then_some(when)
    }

    /// Whether the log that is read tells of a turn whose message is not said yet.
    pub(super) fn is_beginning(&self) -> bool {
        self.began.is_some()
    }

    /// The log is read: who reads it no more sees turns begin.
    pub(super) fn caught_up(&mut self) {
        self.began = None;
    }

    fn is_shown(&self, message: &PendingMessage) -> bool {
        // What the host sends in a person's name is shown when it is said.
        message.item.source.is_none() && !self.begun.contains(&message.id)
    }

    fn shown(&self, lane: &[PendingMessage]) -> Vec<String> {
        let shown = lane.iter().filter(|message| self.is_shown(message));
        shown.map(|message| message.id.clone()).collect()
    }
}

/// The message that an event replaces with another one.
fn replaced(payload: &Payload) -> Option<&str> {
    match payload {
        Payload::LodgeMessageQueued(queued) => queued.replaces.as_deref(),
        Payload::LodgeMessageBegun(begun) => begun.replaces.as_deref(),
        Payload::LodgeMessageEdited(edited) => edited.replaces.as_deref(),
        _ => None,
    }
}

impl Projector {
    /// Something about the messages that wait changed.
    pub(super) fn queue_event(&mut self, payload: &Payload) {
        self.queue.pending.fold(payload);
        match payload {
            Payload::LodgeMessageEdited(edited) => self.show_again(&edited.message_id),
            Payload::LodgeMessageQueued(queued) if queued.begins == Some(true) => {
                self.begin_message(&queued.message_id)
            }
            Payload::LodgeMessageBegun(begun) => self.begin_message(&begun.message_id),
            _ => {}
        }
        self.show_queue();
        match payload {
            Payload::LodgeMessageQueued(queued)
                if queued.item.needs_preparation == Some(true) && self.queue.queued.contains(&queued.message_id) =>
            {
                self.out.push(Step::Queued);
            }
            Payload::LodgeMessageRemoved(removed) => removed.ids.iter().for_each(|id| self.message_left(id)),
            _ => {}
        }
        if let Some(replaced) = replaced(payload) {
            self.message_left(replaced);
        }
    }

    /// A message is part of the conversation. True when clients saw it as queued: its turn takes it from there.
    pub(super) fn message_said(&mut self, message: &UserMessage) -> bool {
        let Some(id) = &message.message_id else { return false };
        self.queue.pending.fold(&Payload::from(message.clone()));
        let before = self.queue.queued.len();
        self.queue.queued.retain(|known| known != id);
        let was_queued = self.queue.queued.len() < before;
        self.show_queue();
        self.queue.begun.remove(id);
        self.queue.steering_prepared.take_if(|steering| steering == id);
        was_queued
    }

    /// A message is not said. A turn that waited for it is none.
    fn message_left(&mut self, id: &str) {
        self.queue.begun.remove(id);
        self.queue.began.take_if(|(began, _)| began == id);
        self.said.remove(id);
        if self
            .queue
            .steering_prepared
            .take_if(|steering| steering == id)
            .is_some()
        {
            self.out.push(Step::Queued);
        }
        if self
            .main
            .turn
            .as_ref()
            .is_some_and(|turn| turn.id == id && !turn.taken_up)
        {
            self.close_unsaid(&Scope::Main);
        }
    }

    /// The turn of a message begins, unless another one runs: then it waits.
    fn begin_message(&mut self, id: &str) {
        if self.reading {
            self.rested();
            self.queue.began = Some((id.to_owned(), self.now));
        }
        let Some(message) = self
            .queue
            .pending
            .get(id)
            .filter(|_| !self.reading && self.main.turn.is_none())
        else {
            return;
        };
        let message = self.as_written(id, message_of_prompt(&message.prompt(&MessageLane::Next)));
        let before = self.queue.queued.len();
        self.queue.queued.retain(|known| known != id);
        let was_queued = self.queue.queued.len() < before;
        self.queue.begun.insert(id.to_owned());
        if was_queued {
            self.remove_pending(PendingMessageKind::Queued, id.to_owned());
        }
        self.begin_turn(id, message.clone(), was_queued);
        self.prepare(id, message, Delivery::Enqueue);
        self.prepare_steering();
    }

    fn prepare(&mut self, id: &str, message: Message, delivery: Delivery) {
        let (id, message) = (id.to_owned(), Box::new(message));
        self.out.push(Step::Prepare { id, message, delivery });
    }

    /// A turn runs, and a message may wait to steer it.
    pub(super) fn prepare_steering(&mut self) {
        let steering = self.queue.steering.as_ref().and_then(|id| self.queue.pending.get(id));
        let Some(steering) = steering.filter(|message| {
            let waits = message.needs_preparation() && !self.queue.begun.contains(&message.id);
            waits && self.main.turn.is_some()
        }) else {
            return;
        };
        let (id, logged) = (
            steering.id.clone(),
            message_of_prompt(&steering.prompt(&MessageLane::Next)),
        );
        let message = self.as_written(&id, logged);
        self.queue.steering_prepared = Some(id.clone());
        self.prepare(&id, message, Delivery::Immediate);
    }

    /// A message that clients saw as a turn waits again, because another one came first.
    pub(super) fn waits_again(&mut self, id: &str) {
        self.queue.begun.remove(id);
        self.show_queue();
    }

    /// The first message that this face prepares and begins.
    pub(crate) fn next_to_prepare(&self) -> Option<&str> {
        // What steers goes before what waits, also where the turn ended before it was prepared.
        if self.queue.steering_prepared.is_some() {
            return None;
        }
        let waiting = self.queue.queued.iter();
        let mut waiting = waiting.filter_map(|id| self.queue.pending.get(id));
        let next = waiting.find(|message| message.needs_preparation() && !message.parked);
        next.map(|message| message.id.as_str())
    }

    /// A message that clients see says something else.
    fn show_again(&mut self, id: &str) {
        if self.queue.steering.as_deref() == Some(id) {
            self.show_pending(PendingMessageKind::Steering, id);
        } else if self.queue.queued.iter().any(|known| known == id) {
            self.show_pending(PendingMessageKind::Queued, id);
        }
    }

    /// Lets clients see what waits now.
    fn show_queue(&mut self) {
        let queued = self.queue.shown(&self.queue.pending.next);
        let steering = self.queue.shown(&self.queue.pending.steer).pop();
        let mut seen = std::mem::take(&mut self.queue.queued);
        for gone in seen.extract_if(.., |id| !queued.contains(id)) {
            self.remove_pending(PendingMessageKind::Queued, gone);
        }
        for id in queued
            .iter()
            .filter(|id| !seen.contains(id))
            .cloned()
            .collect::<Vec<_>>()
        {
            self.show_pending(PendingMessageKind::Queued, &id);
            seen.push(id);
        }
        if seen != queued {
            let action = ChatQueuedMessagesReorderedAction { order: queued.clone() };
            self.act(&Scope::Main, StateAction::ChatQueuedMessagesReordered(action));
        }
        self.queue.queued = queued;
        let seen = std::mem::replace(&mut self.queue.steering, steering.clone());
        match (seen, steering) {
            (seen, Some(id)) if seen.as_ref() != Some(&id) => {
                self.show_pending(PendingMessageKind::Steering, &id);
                self.prepare_steering();
            }
            (Some(id), None) => self.remove_pending(PendingMessageKind::Steering, id),
            _ => {}
        }
    }

    fn show_pending(&mut self, kind: PendingMessageKind, id: &str) {
        let Some(message) = self.queue.pending.get(id) else {
            return;
        };
        let logged = message_of_prompt(&message.prompt(&MessageLane::Next));
        let (id, message) = (id.to_owned(), self.as_written(id, logged));
        let action = ChatPendingMessageSetAction { kind, id, message };
        self.act(&Scope::Main, StateAction::ChatPendingMessageSet(action));
    }

    fn remove_pending(&mut self, kind: PendingMessageKind, id: String) {
        let action = ChatPendingMessageRemovedAction { kind, id };
        self.act(&Scope::Main, StateAction::ChatPendingMessageRemoved(action));
    }
}
