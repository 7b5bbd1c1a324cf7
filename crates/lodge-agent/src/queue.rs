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
    /// Whether a client is attached that prepares messages.
    has_preparer: bool,
    /// Being prepared.
    held: HashSet<String>,
    /// Prepared: their turns may begin.
    prepared: HashSet<String>,
    /// Not wanted any more, and the log could not be told.
    unwanted: Vec<String>,
    /// Messages as they were sent to this process, with what no log may hold: headers, and secrets in commands.
    sent: HashMap<String, Prompt>,
}

impl Live {
    fn waits(&self, message: &PendingMessage) -> bool {
        !self.held.contains(&message.id) && self.starting.as_ref() != Some(&message.id)
    }

    fn needs_preparation(&self, message: &PendingMessage) -> bool {
        self.has_preparer && message.needs_preparation() && !self.prepared.contains(&message.id)
    }

    /// The message that can begin next.
    fn next<'a>(&self, pending: &'a PendingMessages) -> Option<&'a PendingMessage> {
        let mut waiting = pending.all().filter(|message| self.waits(message) && !message.parked);
        waiting.find(|message| !self.needs_preparation(message))
    }

    fn forget(&mut self, id: &str) {
        self.held.remove(id);
        self.prepared.remove(id);
        self.sent.remove(id);
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

/// What a message that is accepted waits for before its turn can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing.
    Ready,
    /// A client that is attached prepares it right now.
    Preparing,
    /// Its preparation, if it needs any, which begins when those before it are done.
    Waiting,
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

    /// Accepts a message that has an id: the log has it when this returns. One that waits already stays where it is. Answers
    /// with the event that says it, unless the log said the same before.
    pub(crate) fn accept(
        &self,
        recorder: &Recorder,
        mut prompt: Prompt,
        place: Place,
        readiness: Readiness,
    ) -> Result<Option<Uuid>, LogError> {
        let Some(id) = prompt.message_id.clone() else {
            debug_assert!(false, "every message has an id before it is accepted");
            return Ok(None);
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
        let mut item = QueuedMessage::from(&prompt);
        let known = recorder.facts(|facts| {
            let known = facts.pending.get(&id)?;
            // That it is prepared now is nothing that it says.
            item.needs_preparation = known.item.needs_preparation;
            Some(known.item == item && !known.parked)
        });
        let message_id = id.clone();
        let recorded = match known {
            None => Some(recorder.record(LodgeMessageQueued {
                message_id,
                item,
                lane: place.lane,
                at: place.at.map(|at| at as u64),
            })?),
            Some(false) => Some(recorder.record(LodgeMessageEdited { message_id, item })?),
            Some(true) => None,
        };
        live.forget(&id);
        match readiness {
            Readiness::Ready => drop(live.prepared.insert(id.clone())),
            Readiness::Preparing => drop(live.held.insert(id.clone())),
            Readiness::Waiting => {}
        }
        live.sent.insert(id, prompt);
        Ok(recorded.map(|event| event.id()))
    }

    /// Whether clients that prepare messages are attached.
    pub(crate) fn set_preparer(&self, attached: bool) {
        self.live.lock().has_preparer = attached;
    }

    /// A client begins to prepare a message. False when it waits no more.
    pub(crate) fn prepare(&self, recorder: &Recorder, id: &str) -> bool {
        let mut live = self.live.lock();
        let waits = recorder.facts(|facts| facts.pending.get(id).is_some_and(|message| live.waits(message)));
        if waits {
            live.held.insert(id.to_owned());
        }
        waits
    }

    /// Whether the message that comes next has to be prepared first.
    pub(crate) fn next_needs_preparation(&self, recorder: &Recorder) -> bool {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let mut waiting = facts
                .pending
                .all()
                .filter(|message| live.waits(message) && !message.parked);
            waiting.next().is_some_and(|next| live.needs_preparation(next))
        })
    }

    /// Forgets messages that wait. Answers how many there were.
    pub(crate) fn remove(&self, recorder: &Recorder, ids: Vec<String>, why: RemovalReason) -> Result<usize, LogError> {
        let known = |id: &String| recorder.facts(|facts| facts.pending.get(id).is_some());
        let ids: Vec<String> = ids.into_iter().filter(known).collect();
        if !ids.is_empty() {
            recorder.record(LodgeMessageRemoved { ids: ids.clone(), why })?;
            let mut live = self.live.lock();
            ids.iter().for_each(|id| live.forget(id));
        }
        Ok(ids.len())
    }

    /// Forgets one message that waits. Answers with the event that says it, if it waited: one with which a turn begins right now
    /// is said.
    pub(crate) fn withdraw(&self, recorder: &Recorder, id: &str) -> Result<Option<Uuid>, LogError> {
        let mut live = self.live.lock();
        let is_starting = live.starting.as_deref() == Some(id);
        if is_starting || recorder.facts(|facts| facts.pending.get(id).is_none()) {
            return Ok(None);
        }
        let (ids, why) = (vec![id.to_owned()], RemovalReason::Removed);
        let removed = recorder.record(LodgeMessageRemoved { ids, why })?;
        live.forget(id);
        Ok(Some(removed.id()))
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

    /// Whether the turn of this message has begun, and the message is no part of the conversation yet.
    pub(crate) fn is_starting_with(&self, id: &str) -> bool {
        self.live.lock().starting.as_deref() == Some(id)
    }

    /// The message whose turn has begun is part of the conversation.
    pub(crate) fn begun(&self) {
        let mut live = self.live.lock();
        if let Some(id) = live.starting.take() {
            live.forget(&id);
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
            self.live.lock().forget(id);
        }
    }

    /// A message was a command, and is done.
    pub(crate) fn commanded(&self, id: &str) {
        self.live.lock().forget(id);
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
    ) -> Result<Uuid, LogError> {
        if lane == MessageLane::Next {
            let starting = self.live.lock().starting.clone().filter(|id| !order.contains(id));
            let waits = |id: &String| recorder.facts(|facts| facts.pending.next.iter().any(|known| known.id == *id));
            order.splice(..0, starting.filter(waits));
        }
        Ok(recorder.record(LodgeMessageMoved { lane, order })?.id())
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
