//! Accepted messages that are not yet part of the conversation. The queue itself is a fold of the log; this module adds the
//! state of this process.

mod older;
mod pending;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::OnceLock,
};

use lodge_events::{
    LodgeMessageBegun, LodgeMessageEdited, LodgeMessageMoved, LodgeMessageQueued, LodgeMessageRemoved, MessageLane,
    QueuedMessage, RemovalReason,
};
use lodge_log::LogError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

pub use self::pending::{PendingMessage, PendingMessages};
use crate::{AgentError, recorder::Recorder, redact::is_redacted, session::Shared, settings::Prompt};

/// Messages to the running turn that no person sent: advice of hooks, and messages to a sub-agent. Kept in memory.
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
    /// Signals that the next message may have changed.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct Live {
    /// The message whose turn has begun, until it is in the log as `user.message`.
    starting: Option<String>,
    /// Whether a client is attached that prepares messages.
    has_preparer: bool,
    /// Messages that people already see as turns.
    begun: HashSet<String>,
    /// Prepared messages, whose turns may begin.
    prepared: HashSet<String>,
    /// Messages whose turns ended before they were said, and for which the log could not be written.
    unwanted: Vec<String>,
    /// Messages as this process got them, with headers and secrets in commands, which no log may hold.
    sent: HashMap<String, Prompt>,
}

impl Live {
    fn waits(&self, message: &PendingMessage) -> bool {
        !self.unwanted.contains(&message.id) && self.starting.as_ref() != Some(&message.id)
    }

    /// Whether it cannot begin yet. If no client that prepares messages is attached, it waits for one.
    fn needs_preparation(&self, message: &PendingMessage) -> bool {
        message.needs_preparation() && !self.prepared.contains(&message.id)
    }

    /// The next message that can begin. A steering message waits for a message that people see as begun.
    fn next<'a>(&self, pending: &'a PendingMessages) -> Option<&'a PendingMessage> {
        let waits = |message: &&PendingMessage| self.waits(message) && !message.parked;
        let mut begun = pending.next.iter().filter(waits);
        let steers = !begun.any(|message| self.begun.contains(&message.id));
        let mut waiting = pending
            .steer
            .iter()
            .filter(|_| steers)
            .chain(&pending.next)
            .filter(waits);
        waiting.find(|message| !self.needs_preparation(message))
    }

    fn forget(&mut self, id: &str) {
        self.begun.remove(id);
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

/// The place of a message in the queue.
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

/// What an accepted message needs before its turn can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing.
    Ready,
    /// Preparation, if it needs any. Its turn is next, and people see it begin.
    Beginning,
    /// Preparation, if it needs any, once the messages before it are done.
    Waiting,
}

impl Queue {
    /// Brings the queue file of an earlier build into the log.
    pub(crate) fn migrate(shared: &Shared) {
        if let Some(damage) = older::migrate(shared) {
            let _ = shared.queue.damage.set(damage);
        }
    }

    /// The warning about an unreadable queue of an earlier build, with the place of its file.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Accepts a message with an id: it is in the log when this returns. A queued message keeps its place. Returns the
    /// event that says so, unless the log already said the same. The same event removes the message that it replaces, so
    /// never both are in the queue. One whose turn has begun is neither changed nor replaced.
    pub(crate) fn accept(
        &self,
        recorder: &Recorder,
        prompt: Prompt,
        place: Place,
        readiness: Readiness,
    ) -> Result<Option<Uuid>, AgentError> {
        self.accept_as(Uuid::new_v4(), recorder, prompt, place, readiness)
    }

    /// Like [`Queue::accept`], by an event with this id.
    pub(crate) fn accept_as(
        &self,
        event: Uuid,
        recorder: &Recorder,
        mut prompt: Prompt,
        place: Place,
        readiness: Readiness,
    ) -> Result<Option<Uuid>, AgentError> {
        let Some(id) = prompt.message_id.clone() else {
            debug_assert!(false, "every message has an id before it is accepted");
            return Ok(None);
        };
        let replaces = prompt.replaces.take().filter(|replaced| *replaced != id);
        for earlier in &mut prompt.before {
            earlier.message_id.get_or_insert_with(|| Uuid::new_v4().to_string());
        }
        let mut live = self.live.lock();
        let waits =
            |replaced: &String| recorder.facts(|facts| facts.pending.get(replaced).is_some_and(|it| live.waits(it)));
        let is_changed_late = readiness == Readiness::Waiting && live.starting.as_ref() == Some(&id);
        if is_changed_late || !replaces.iter().all(waits) {
            return Err(AgentError::Taken);
        }
        if !live.unwanted.is_empty() {
            let ids = live.unwanted.clone();
            let why = RemovalReason::Failed;
            recorder.record(LodgeMessageRemoved { ids, why })?;
            live.unwanted.clear();
        }
        if let Some(written) = prompt.written.take() {
            recorder.record(*written)?;
        }
        let mut item = QueuedMessage::from(&prompt);
        let known = recorder.facts(|facts| {
            let known = facts.pending.get(&id)?;
            // Whether it is prepared now is no part of its content.
            item.needs_preparation = known.item.needs_preparation;
            Some(known.item == item && !known.parked)
        });
        let message_id = id.clone();
        let begins = readiness == Readiness::Beginning && place.lane == MessageLane::Next;
        // A known message whose turn begins says so last.
        let edit = known.is_some_and(|same| !same || replaces.is_some() && !begins);
        let mut recorded = None;
        if known.is_none() {
            let queued = LodgeMessageQueued {
                message_id,
                item,
                lane: place.lane,
                at: place.at.map(|at| at as u64),
                begins: begins.then_some(true),
                replaces: replaces.clone(),
            };
            recorded = Some(recorder.record_as(event, queued)?);
        } else if edit {
            let event = if begins { Uuid::new_v4() } else { event };
            let edited = LodgeMessageEdited {
                message_id,
                item,
                replaces: replaces.clone().filter(|_| !begins),
            };
            recorded = Some(recorder.record_as(event, edited)?);
        }
        if begins && known.is_some() {
            let begun = LodgeMessageBegun {
                message_id: id.clone(),
                replaces: replaces.clone(),
            };
            recorded = Some(recorder.record_as(event, begun)?);
        }
        if let Some(replaced) = replaces {
            live.forget(&replaced);
            // For builds that do not know that the event before says it.
            let (ids, why) = (vec![replaced], RemovalReason::Removed);
            recorder.note(LodgeMessageRemoved { ids, why });
            self.changed.notify_one();
        }
        let begun = begins || live.begun.contains(&id);
        live.forget(&id);
        if begun {
            live.begun.insert(id.clone());
        }
        if readiness == Readiness::Ready {
            live.prepared.insert(id.clone());
        }
        live.sent.insert(id, prompt);
        Ok(recorded.map(|event| event.id()))
    }

    /// Sets whether a client that prepares messages is attached.
    pub(crate) fn set_preparer(&self, attached: bool) {
        self.live.lock().has_preparer = attached;
        self.changed.notify_one();
    }

    /// Begins the preparation of a queued message: people see its turn from now on. False if it is no longer queued.
    pub(crate) fn prepare(&self, recorder: &Recorder, id: &str) -> Result<bool, LogError> {
        let mut live = self.live.lock();
        let waits = recorder.facts(|facts| facts.pending.get(id).is_some_and(|message| live.waits(message)));
        if waits {
            recorder.record(LodgeMessageBegun {
                message_id: id.to_owned(),
                replaces: None,
            })?;
            live.begun.insert(id.to_owned());
        }
        Ok(waits)
    }

    /// A queued message, as this process got it.
    pub(crate) fn sent(&self, recorder: &Recorder, id: &str) -> Option<(Prompt, MessageLane)> {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let steers = facts.pending.steer.iter().any(|message| message.id == id);
            let lane = if steers { MessageLane::Steer } else { MessageLane::Next };
            Some((live.prompt(facts.pending.get(id)?, &lane), lane))
        })
    }

    /// Whether this process showed a message as a turn that is not part of the conversation yet.
    pub(crate) fn has_begun(&self, id: &str) -> bool {
        self.live.lock().begun.contains(id)
    }

    /// Whether a message is queued and not prepared.
    pub(crate) fn awaits_preparation(&self, recorder: &Recorder, id: &str) -> bool {
        let live = self.live.lock();
        let awaits = |message: &PendingMessage| live.waits(message) && live.needs_preparation(message);
        recorder.facts(|facts| facts.pending.get(id).is_some_and(awaits))
    }

    /// A message that people see as a turn, but that is not part of the conversation yet.
    pub(crate) fn unsaid(&self, recorder: &Recorder, id: &str) -> Option<Prompt> {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let message = facts.pending.get(id).filter(|_| live.begun.contains(id))?;
            live.waits(message).then(|| live.prompt(message, &MessageLane::Next))
        })
    }

    /// The message whose turn has begun, also for people, and that is not part of the conversation yet.
    pub(crate) fn starting_unsaid(&self, recorder: &Recorder) -> Option<Prompt> {
        let live = self.live.lock();
        let id = live.starting.as_ref().filter(|id| live.begun.contains(*id))?;
        recorder.facts(|facts| Some(live.prompt(facts.pending.get(id)?, &MessageLane::Next)))
    }

    /// Whether the next message first has to be prepared by an attached client.
    pub(crate) fn next_needs_preparation(&self, recorder: &Recorder) -> bool {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let mut waiting = facts
                .pending
                .all()
                .filter(|message| live.waits(message) && !message.parked);
            live.has_preparer && waiting.next().is_some_and(|next| live.needs_preparation(next))
        })
    }

    /// Removes queued messages. Returns how many there were.
    pub(crate) fn remove(&self, recorder: &Recorder, ids: Vec<String>, why: RemovalReason) -> Result<usize, LogError> {
        let known = |id: &String| recorder.facts(|facts| facts.pending.get(id).is_some());
        let ids: Vec<String> = ids.into_iter().filter(known).collect();
        if !ids.is_empty() {
            recorder.record(LodgeMessageRemoved { ids: ids.clone(), why })?;
            let mut live = self.live.lock();
            ids.iter().for_each(|id| live.forget(id));
            self.changed.notify_one();
        }
        Ok(ids.len())
    }

    /// Withdraws a queued message by an event with this id, if it is queued. A message whose turn begins now can no longer be
    /// withdrawn.
    pub(crate) fn withdraw(&self, event: Uuid, recorder: &Recorder, id: &str) -> Result<bool, LogError> {
        let mut live = self.live.lock();
        let is_starting = live.starting.as_deref() == Some(id);
        if is_starting || recorder.facts(|facts| facts.pending.get(id).is_none()) {
            return Ok(false);
        }
        let (ids, why) = (vec![id.to_owned()], RemovalReason::Removed);
        recorder.record_as(event, LodgeMessageRemoved { ids, why })?;
        live.forget(id);
        self.changed.notify_one();
        Ok(true)
    }

    /// Messages for after the turn, and those for the running turn. If no turn runs, the latter are the first of the
    /// former.
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

    /// Whether a queued message can begin.
    pub(crate) fn has_next(&self, recorder: &Recorder) -> bool {
        let live = self.live.lock();
        recorder.facts(|facts| live.next(&facts.pending).is_some())
    }

    /// Takes the next message. Its turn begins.
    pub(crate) fn take_next(&self, recorder: &Recorder) -> Option<Prompt> {
        let mut live = self.live.lock();
        let prompt = recorder.facts(|facts| {
            let next = live.next(&facts.pending)?;
            Some(live.prompt(next, &MessageLane::Next))
        })?;
        live.starting.clone_from(&prompt.message_id);
        Some(prompt)
    }

    /// The id of the next message.
    pub(crate) fn next_id(&self, recorder: &Recorder) -> Option<String> {
        let live = self.live.lock();
        recorder.facts(|facts| Some(live.next(&facts.pending)?.id.clone()))
    }

    /// Whether a turn has begun whose message is not part of the conversation yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.live.lock().starting.is_some()
    }

    /// Whether the turn of this message has begun, and it is not part of the conversation yet.
    pub(crate) fn is_starting_with(&self, id: &str) -> bool {
        self.live.lock().starting.as_deref() == Some(id)
    }

    /// The message whose turn has begun is now part of the conversation.
    pub(crate) fn begun(&self) {
        let mut live = self.live.lock();
        if let Some(id) = live.starting.take() {
            live.forget(&id);
        }
    }

    /// The turn ended before it reached its message, which stays queued.
    pub(crate) fn begins_later(&self) {
        self.live.lock().starting = None;
    }

    /// The turn is over. If its message did not become part of the conversation, it is removed.
    pub(crate) fn turn_ended(&self, recorder: &Recorder, why: RemovalReason) {
        let Some(id) = self.live.lock().starting.take() else {
            return;
        };
        if let Err(error) = self.remove(recorder, vec![id.clone()], why) {
            // It is recorded with the next accepted message.
            tracing::warn!(%error, "cannot record that a message left the queue");
            self.live.lock().unwanted.push(id);
            self.changed.notify_one();
        }
    }

    /// The next message for the running turn.
    pub(crate) fn next_steering(&self, recorder: &Recorder) -> Option<Prompt> {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let next = facts
                .pending
                .steer
                .iter()
                .find(|message| live.waits(message) && !message.parked && !live.needs_preparation(message))?;
            Some(live.prompt(next, &MessageLane::Steer))
        })
    }

    /// A message was sent into the running turn.
    pub(crate) fn steered(&self, id: Option<&String>) {
        if let Some(id) = id {
            self.live.lock().forget(id);
        }
    }

    /// A message became part of the conversation without a model turn.
    pub(crate) fn concluded(&self, id: &str) {
        let mut live = self.live.lock();
        live.starting.take_if(|starting| starting == id);
        live.forget(id);
    }

    /// Changes the text of a queued message. Returns whether it changed.
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
            recorder.record(LodgeMessageEdited {
                message_id: id.to_owned(),
                item,
                replaces: None,
            })?;
        }
        if let Some(sent) = self.live.lock().sent.get_mut(id) {
            (sent.text, sent.display_text) = (text, display_text);
        }
        Ok(changed)
    }

    /// Moves messages to the front, in this order, by an event with this id. Only the message with which a turn is about to begin stays ahead of
    /// them.
    pub(crate) fn put_first(
        &self,
        event: Uuid,
        recorder: &Recorder,
        lane: MessageLane,
        mut order: Vec<String>,
    ) -> Result<(), LogError> {
        if lane == MessageLane::Next {
            let starting = self.live.lock().starting.clone().filter(|id| !order.contains(id));
            let waits = |id: &String| recorder.facts(|facts| facts.pending.next.iter().any(|known| known.id == *id));
            order.splice(..0, starting.filter(waits));
        }
        recorder.record_as(event, LodgeMessageMoved { lane, order })?;
        self.changed.notify_one();
        Ok(())
    }

    /// The next message, if it is a command known only from the log, where stars replace a secret.
    pub(crate) fn next_garbled(&self, recorder: &Recorder) -> Option<String> {
        let live = self.live.lock();
        recorder.facts(|facts| {
            let next = live.next(&facts.pending)?;
            let garbled = !live.sent.contains_key(&next.id) && next.item.command.as_deref().is_some_and(is_redacted);
            garbled.then(|| next.id.clone())
        })
    }
}
