//! Messages that were accepted and are no part of the conversation yet. Which ones, and in which order, is a fold of the
//! log; here is only what this process does with them.

mod older;
mod pending;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::OnceLock,
};

use lodge_events::{
    LodgeMessageEdited, LodgeMessageMoved, LodgeMessageQueued, LodgeMessageRemoved, MessageLane, QueuedMessage,
    RemovalReason,
};
use lodge_log::LogError;
use parking_lot::Mutex;
use uuid::Uuid;

pub use self::pending::{PendingMessage, PendingMessages};
use crate::{recorder::Recorder, redact::is_redacted, session::Shared, settings::Prompt};

/// What is said to the running turn and no person sent: advice of hooks, and what a sub-agent is told. Kept in memory.
#[derive(Debug, Default)]
pub(crate) struct Interjections(Mutex<VecDeque<Prompt>>);

impl Interjections {
    pub(crate) fn add(&self, prompt: Prompt) {
        self.0.lock().push_back(prompt);
    }

    pub(crate) fn next(&self) -> Option<Prompt> {
        self.0.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// The queue of a session.
#[derive(Default)]
pub(crate) struct Queue {
    live: Mutex<Live>,
    damage: OnceLock<String>,
}

#[derive(Default)]
struct Live {
    /// The message whose turn has begun, until the log has it as `user.message`.
    starting: Option<String>,
    /// Accepted by a face that still prepares what they need.
    held: HashSet<String>,
    /// Not wanted any more, and the log could not be told.
    unwanted: Vec<String>,
    /// Messages as they were sent to this process, with what no log may hold: headers, and secrets in commands.
    sent: HashMap<String, Prompt>,
}

impl Live {
    fn waits(&self, message: &PendingMessage) -> bool {
        !self.held.contains(&message.id) && self.starting.as_ref() != Some(&message.id)
    }

    /// The message that can begin next.
    fn next<'a>(&self, pending: &'a PendingMessages) -> Option<&'a PendingMessage> {
        pending.all().find(|message| self.waits(message) && !message.parked)
    }

    fn prompt(&self, message: &PendingMessage, lane: &MessageLane) -> Prompt {
        self.sent
            .get(&message.id)
            .cloned()
            .unwrap_or_else(|| message.prompt(lane))
    }
}

/// Where a message is put.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) lane: MessageLane,
    pub(crate) at: Option<usize>,
}

impl Place {
    pub(crate) const LAST: Self = Self {
        lane: MessageLane::Next,
        at: None,
    };
    pub(crate) const FIRST: Self = Self {
        lane: MessageLane::Next,
        at: Some(0),
    };
    pub(crate) const STEER: Self = Self {
        lane: MessageLane::Steer,
        at: None,
    };
}

impl Queue {
    /// Brings what an earlier build kept in a file into the log.
    pub(crate) fn migrate(shared: &Shared) {
        if let Some(damage) = older::migrate(shared) {
            let _ = shared.queue.damage.set(damage);
        }
    }

    /// That messages of an earlier build cannot be read, and where their file is now.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Accepts a message that has an id: the log has it when this returns. One that waits already stays where it is. With
    /// `hold` it does not begin before it is accepted again without.
    pub(crate) fn accept(
        &self,
        recorder: &Recorder,
        mut prompt: Prompt,
        place: Place,
        hold: bool,
    ) -> Result<(), LogError> {
        let Some(id) = prompt.message_id.clone() else {
            debug_assert!(false, "every message has an id before it is accepted");
            return Ok(());
        };
        for earlier in &mut prompt.before {
            earlier.message_id.get_or_insert_with(|| Uuid::new_v4().to_string());
        }
        let mut live = self.live.lock();
        if !live.unwanted.is_empty() {
            let ids = live.unwanted.clone();
            let why = RemovalReason::Failed;
            recorder.record(LodgeMessageRemoved { ids, why })?;
            live.unwanted.clear();
        }
        let item = QueuedMessage::from(&prompt);
        let known = recorder.facts(|facts| facts.pending.get(&id).map(|known| known.item == item && !known.parked));
        match known {
            None => drop(recorder.record(LodgeMessageQueued {
                message_id: id.clone(),
                item,
                lane: place.lane,
                at: place.at.map(|at| at as u64),
            })?),
            Some(false) => drop(recorder.record(LodgeMessageEdited {
                message_id: id.clone(),
                item,
            })?),
            Some(true) => {}
        }
        match hold {
            true => live.held.insert(id.clone()),
            false => live.held.remove(&id),
        };
        live.sent.insert(id, prompt);
        Ok(())
    }

    /// Forgets messages that wait. Answers whether there were any.
    pub(crate) fn remove(&self, recorder: &Recorder, ids: Vec<String>, why: RemovalReason) -> Result<usize, LogError> {
        let known = |id: &String| recorder.facts(|facts| facts.pending.get(id).is_some());
        let ids: Vec<String> = ids.into_iter().filter(known).collect();
        if !ids.is_empty() {
            let ids = ids.clone();
            recorder.record(LodgeMessageRemoved { ids, why })?;
        }
        let mut live = self.live.lock();
        for id in &ids {
            live.held.remove(id);
            live.sent.remove(id);
        }
        Ok(ids.len())
    }

    /// Messages that wait for after the turn, and those for the running turn. Without a running turn the latter come first
    /// among the former.
    pub(crate) fn waiting(&self, recorder: &Recorder, running: bool) -> (Vec<PendingMessage>, Vec<PendingMessage>) {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let waiting =
                |lane: &[PendingMessage]| lane.iter().filter(|message| live.waits(message)).cloned().collect();
            let (next, steer): (Vec<_>, Vec<_>) = (waiting(&facts.pending.next), waiting(&facts.pending.steer));
            match running {
                true => (next, steer),
                false => (steer.into_iter().chain(next).collect(), Vec::new()),
            }
        })
    }

    /// Whether a message waits that can begin.
    pub(crate) fn has_next(&self, recorder: &Recorder) -> bool {
        let live = self.live.lock();
        recorder.facts(|facts| live.next(&facts.pending).is_some())
    }

    /// The message that comes next. Its turn begins.
    pub(crate) fn take_next(&self, recorder: &Recorder) -> Option<Prompt> {
        let mut live = self.live.lock();
        let prompt = recorder.facts(|facts| {
            let next = live.next(&facts.pending)?;
            Some(live.prompt(next, &MessageLane::Next))
        })?;
        live.starting.clone_from(&prompt.message_id);
        Some(prompt)
    }

    /// The id of the message that comes next.
    pub(crate) fn next_id(&self, recorder: &Recorder) -> Option<String> {
        let live = self.live.lock();
        recorder.facts(|facts| Some(live.next(&facts.pending)?.id.clone()))
    }

    /// Whether a turn has begun whose message is no part of the conversation yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.live.lock().starting.is_some()
    }

    /// The message whose turn has begun is part of the conversation.
    pub(crate) fn begun(&self) {
        let mut live = self.live.lock();
        if let Some(id) = live.starting.take() {
            live.sent.remove(&id);
        }
    }

    /// The turn ends before it came to its message, which waits on.
    pub(crate) fn begins_later(&self) {
        self.live.lock().starting = None;
    }

    /// The turn is over. If its message did not become part of the conversation, it is not wanted any more.
    pub(crate) fn turn_ended(&self, recorder: &Recorder, why: RemovalReason) {
        let Some(id) = self.live.lock().starting.take() else {
            return;
        };
        if let Err(error) = self.remove(recorder, vec![id.clone()], why) {
            tracing::warn!(%error, "the log cannot be told that a message waits no more");
            let mut live = self.live.lock();
            live.held.insert(id.clone());
            live.unwanted.push(id);
        }
    }

    /// What is to be said to the running turn next.
    pub(crate) fn next_steering(&self, recorder: &Recorder) -> Option<Prompt> {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let next = facts
                .pending
                .steer
                .iter()
                .find(|message| live.waits(message) && !message.parked)?;
            Some(live.prompt(next, &MessageLane::Steer))
        })
    }

    /// A message was said to the running turn.
    pub(crate) fn steered(&self, id: Option<&String>) {
        if let Some(id) = id {
            self.live.lock().sent.remove(id);
        }
    }

    /// Gives a message that waits another text. Answers whether that changed anything.
    pub(crate) fn reword(
        &self,
        recorder: &Recorder,
        id: &str,
        text: String,
        display_text: Option<String>,
    ) -> Result<bool, LogError> {
        let Some(known) = recorder.facts(|facts| facts.pending.get(id).map(|known| known.item.clone())) else {
            return Ok(false);
        };
        let item = QueuedMessage {
            text: text.clone(),
            display_text: display_text.clone(),
            ..known.clone()
        };
        let changed = item != known;
        if changed {
            let message_id = id.to_owned();
            recorder.record(LodgeMessageEdited { message_id, item })?;
        }
        if let Some(sent) = self.live.lock().sent.get_mut(id) {
            (sent.text, sent.display_text) = (text, display_text);
        }
        Ok(changed)
    }

    /// Puts messages first, in this order. Only the message that a turn is about to begin with stays ahead of them.
    pub(crate) fn put_first(
        &self,
        recorder: &Recorder,
        lane: MessageLane,
        mut order: Vec<String>,
    ) -> Result<(), LogError> {
        if lane == MessageLane::Next {
            let starting = self.live.lock().starting.clone().filter(|id| !order.contains(id));
            let waits = |id: &String| recorder.facts(|facts| facts.pending.next.iter().any(|known| known.id == *id));
            order.splice(..0, starting.filter(waits));
        }
        recorder.record(LodgeMessageMoved { lane, order }).map(drop)
    }

    /// The message that comes next, if it is a command of which only the log tells, with stars where a secret was.
    pub(crate) fn next_garbled(&self, recorder: &Recorder) -> Option<String> {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let next = live.next(&facts.pending)?;
            let garbled = !live.sent.contains_key(&next.id) && next.item.command.as_deref().is_some_and(is_redacted);
            garbled.then(|| next.id.clone())
        })
    }
}
