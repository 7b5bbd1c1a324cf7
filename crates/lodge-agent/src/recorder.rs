//! The only place that creates events of a session: each is chained, written, folded, then published, in this order and
//! under one lock, so that the log, the state and clients can never disagree.

mod outbox;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lodge_events::{
    Event, LodgeRewound, LodgeUsage, Payload, SessionError, SessionSnapshotRewind, Timestamp, UserMessage,
};
use lodge_log::{LogError, Position, Recorded, SessionLog, Snapshot, SyncTicket, goes_with_chain, hide, is_rewind};
use lodge_models::{Message, ToolCall};
use parking_lot::Mutex;
use uuid::Uuid;

use self::outbox::Outbox;
pub use self::outbox::{Remote, RemoteLog};
use crate::{AgentError, facts::Facts, redact::Secrets, rewound, transcript::Transcript};

/// How often the facts are saved at most while turns follow each other quickly.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Receives events once they are safe. Must not block: the session's lock is held.
pub trait Publish: Send + Sync {
    /// Takes an event.
    fn publish(&self, event: &Event);
}

/// Opens a session's log again, after another process has written to it.
pub type Reopen = Box<dyn Fn() -> Result<Box<dyn SessionLog>, LogError> + Send>;

struct Inner {
    log: Box<dyn SessionLog>,
    reopen: Reopen,
    head: Option<Uuid>,
    facts: Facts,
    /// Read from the log when the first model call needs it, so that opening a session costs nothing that grows with
    /// the log.
    transcript: Option<Transcript>,
    /// When the facts were last saved.
    saved: Option<Instant>,
    /// Secrets that no event may hold.
    secrets: Arc<Secrets>,
    /// Whether clients know that the last sync failed.
    told_unsynced: bool,
    /// Whether the last rewind can still be undone.
    can_undo: bool,
    /// Events that wait for a log elsewhere, if there is one.
    outbox: Option<Outbox>,
}

/// Records and publishes.
pub(crate) struct Recorder {
    inner: Arc<Mutex<Inner>>,
    publish: Arc<dyn Publish>,
    /// Set for the recorder of a sub-agent.
    lane: Option<Lane>,
}

/// The identity of a sub-agent, stamped on its events. They are in the session's log with all others; the facts folded
/// from them are the sub-agent's own.
struct Lane {
    agent_id: Arc<str>,
    tool_call_id: String,
    own: Mutex<(Facts, Transcript)>,
}

impl Recorder {
    /// A recorder for an opened log with known facts.
    pub(crate) fn new(
        log: Box<dyn SessionLog>,
        reopen: Reopen,
        facts: Facts,
        publish: Arc<dyn Publish>,
        secrets: Arc<Secrets>,
        remote: Option<Remote>,
    ) -> Self {
        let (head, can_undo) = (log.last_id(), rewound::is_kept(&*log));
        let inner = |outbox| {
            Arc::new(Mutex::new(Inner {
                log,
                reopen,
                head,
                facts,
                transcript: None,
                saved: None,
                secrets,
                told_unsynced: false,
                can_undo,
                outbox,
            }))
        };
        let inner = match remote {
            None => inner(None),
            Some(remote) => outbox::start(remote, |outbox| inner(Some(outbox)), publish.clone()),
        };
        Self {
            inner,
            publish,
            lane: None,
        }
    }

    /// Waits until everything recorded so far is safe, wherever it has to be. To be awaited before a client gets an
    /// answer, and before anything that must not be done twice.
    pub(crate) async fn durable(&self) -> Result<(), LogError> {
        outbox::durable(&self.inner).await
    }

    /// Whether everything recorded so far is safe, wherever it has to be.
    pub(crate) fn is_durable(&self) -> bool {
        self.inner.lock().outbox.as_ref().is_none_or(Outbox::has_sent_all)
    }

    /// Waits until a log elsewhere is lost to this host; false if that can no longer happen.
    pub(crate) fn lost(&self) -> impl Future<Output = bool> + Send + use<> {
        outbox::lost_to_us(&self.inner)
    }

    /// Whether a log elsewhere is lost to this host.
    pub(crate) fn is_lost(&self) -> bool {
        self.inner.lock().outbox.as_ref().is_some_and(Outbox::is_lost)
    }

    /// Gives up a log elsewhere: this host can no longer write to it.
    pub(crate) fn lose(&self, reason: &str) {
        outbox::lose(&mut self.inner.lock(), &*self.publish, reason);
    }

    /// A recorder for a sub-agent that a tool call started.
    pub(crate) fn for_agent(&self, agent_id: Arc<str>, tool_call_id: &str) -> Self {
        Self {
            inner: self.inner.clone(),
            publish: self.publish.clone(),
            lane: Some(Lane {
                agent_id,
                tool_call_id: tool_call_id.to_owned(),
                own: Mutex::default(),
            }),
        }
    }

    /// Creates an event of this recorder's agent: chains, writes, folds and publishes it.
    pub(crate) fn record(&self, payload: impl Into<Payload>) -> Result<Event, LogError> {
        self.record_as(Uuid::new_v4(), payload)
    }

    /// Like [`Recorder::record`], for an event whose id somebody waits for.
    pub(crate) fn record_as(&self, id: Uuid, payload: impl Into<Payload>) -> Result<Event, LogError> {
        let mut inner = self.inner.lock();
        inner.record_as(id, payload.into(), self.lane.as_ref(), &*self.publish)
    }

    /// Turns an unfinished answer into a message, if nobody continues it. Only while no model is called.
    pub(crate) fn settle_answer(&self) -> Result<(), LogError> {
        if let Some(message) = self.facts(|facts| facts.unfinished.message()) {
            self.record(message)?;
        }
        Ok(())
    }

    /// Like [`Recorder::record`], for an event made from the conversation at the moment of recording.
    pub(crate) fn record_from<P: Into<Payload>>(
        &self,
        make: impl FnOnce(&mut Transcript) -> P,
    ) -> Result<Event, LogError> {
        let mut inner = self.inner.lock();
        let payload = match &self.lane {
            None => inner.with_transcript(make)?,
            Some(lane) => make(&mut lane.own.lock().1),
        };
        inner.record(payload.into(), self.lane.as_ref(), &*self.publish)
    }

    /// Like [`Recorder::record`], for an event that may be lost: a failure to write was already reported by the event
    /// before it.
    pub(crate) fn note(&self, payload: impl Into<Payload>) {
        if let Err(error) = self.record(payload) {
            tracing::warn!(%error, "an event could not be recorded");
        }
    }

    /// Publishes an event to clients only, because it could not be written.
    pub(crate) fn publish_unrecorded(&self, payload: impl Into<Payload>) -> Event {
        let mut inner = self.inner.lock();
        let agent = self.lane.as_ref().map(|lane| lane.agent_id.clone());
        let event = Event::new_ephemeral(inner.head, agent, payload.into());
        let event = inner.secrets.hide(event);
        inner.publish(&event, &*self.publish);
        event
    }

    /// Secrets that no event may hold.
    pub(crate) fn secrets(&self) -> Arc<Secrets> {
        self.inner.lock().secrets.clone()
    }

    /// Keeps the exact arguments of tool calls for the next message.
    pub(crate) fn keep_verbatim(&self, calls: &[ToolCall]) -> Result<(), LogError> {
        self.with_transcript(|transcript| transcript.keep_verbatim(calls))
    }

    /// The messages for a model call, with or without images.
    pub(crate) fn messages(&self, vision: bool) -> Result<Vec<Message>, LogError> {
        self.with_transcript(|transcript| transcript.messages(vision))
    }

    /// Number of entries in the conversation, and their size for a model.
    pub(crate) fn size(&self) -> Result<(usize, usize), LogError> {
        self.with_transcript(|transcript| (transcript.len(), transcript.size()))
    }

    /// Tool calls without a result.
    pub(crate) fn open_calls(&self) -> Result<Option<(Uuid, Vec<ToolCall>)>, LogError> {
        self.with_transcript(|transcript| transcript.open_calls())
    }

    fn with_transcript<T>(&self, look: impl FnOnce(&mut Transcript) -> T) -> Result<T, LogError> {
        match &self.lane {
            None => self.inner.lock().with_transcript(look),
            Some(lane) => Ok(look(&mut lane.own.lock().1)),
        }
    }

    /// Reads the facts of this recorder's agent.
    pub(crate) fn facts<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        match &self.lane {
            None => look(&self.inner.lock().facts),
            Some(lane) => look(&lane.own.lock().0),
        }
    }

    /// Reads the facts of the whole session, also for a sub-agent.
    pub(crate) fn session_facts<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        look(&self.inner.lock().facts)
    }

    /// Records the usage of a model call. If an earlier build counted usage for the session, that count is recorded
    /// first.
    pub(crate) fn record_usage(&self, usage: LodgeUsage) -> Result<(), LogError> {
        let mut inner = self.inner.lock();
        if let Some(carried) = inner.facts.totals.carried() {
            inner.record(carried.into(), None, &*self.publish)?;
        }
        inner.record(usage.into(), self.lane.as_ref(), &*self.publish)?;
        Ok(())
    }

    /// Changes sums over the whole session that no event contains.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.inner.lock().facts);
    }

    /// Requests a sync to the disk, as the policy says.
    pub(crate) fn sync(&self) {
        let ticket = self.inner.lock().log.request_sync();
        self.tell_failure(ticket);
    }

    /// Warns clients if a requested sync fails: events that they saw may not survive a power cut.
    fn tell_failure(&self, ticket: SyncTicket) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (inner, publish) = (Arc::downgrade(&self.inner), self.publish.clone());
        runtime.spawn(async move {
            let outcome = ticket.await;
            let Some(inner) = inner.upgrade() else { return };
            let mut inner = inner.lock();
            let told = std::mem::replace(&mut inner.told_unsynced, outcome.is_err());
            if let (Err(error), false) = (outcome, told) {
                let payload = SessionError {
                    error_type: "storage".into(),
                    message: format!(
                        "The session's log could not be synced to the disk: {error}. The latest events may be lost if \
                         the machine stops. Lodge accepts nothing more until the log is writable again: free some \
                         space or fix the disk."
                    ),
                    ..SessionError::default()
                };
                let event = Event::new_ephemeral(inner.head, None, payload);
                publish.publish(&inner.secrets.hide(event));
            }
        });
    }

    /// Like [`Recorder::sync`], and from time to time also saves the facts. Anything newer is read from the log again
    /// after a kill, or is at most a second old.
    pub(crate) fn sync_and_save(&self) {
        let mut inner = self.inner.lock();
        inner.compact();
        let ticket = match inner.saved {
            Some(saved) if saved.elapsed() < SAVE_EVERY => inner.log.request_sync(),
            _ => inner.save_facts(),
        };
        drop(inner);
        self.tell_failure(ticket);
    }

    /// Like [`Recorder::sync`], and saves the facts.
    pub(crate) fn save(&self) {
        let mut inner = self.inner.lock();
        inner.compact();
        let ticket = inner.save_facts();
        drop(inner);
        self.tell_failure(ticket);
    }

    /// Runs a function between two events: nothing is recorded or published meanwhile.
    pub(crate) fn paused<T>(&self, run: impl FnOnce(&dyn SessionLog) -> T) -> T {
        run(&*self.inner.lock().log)
    }

    /// Rewinds the conversation to before an event, and folds the rest again. Events beside the chain stay: they
    /// describe the session, not the conversation. Returns how many events were removed.
    pub(crate) fn rewind(&self, to: Uuid) -> Result<u64, AgentError> {
        let mut inner = self.inner.lock();
        inner.check_written()?;
        let mut gone = Vec::new();
        for event in inner.log.read_back()?.events() {
            let event = event?;
            if !goes_with_chain(&event) {
                continue;
            }
            let is_last = event.id() == to;
            gone.push(event);
            if is_last {
                gone.reverse();
                let first = &gone[0];
                rewound::keep(&*inner.log, &gone)?;
                inner.can_undo = true;
                inner.append_after(first.parent_id(), &gone, &[], &*self.publish)?;
                drop(inner);
                self.compact();
                return Ok(chain_length(&gone));
            }
        }
        Err(AgentError::Refused(format!("Event not found: {to}")))
    }

    /// Undoes the last rewind, and publishes the events again. False if there is nothing to undo; refused if messages
    /// were added since. An undo that a dead process began is completed.
    pub(crate) fn put_back(&self) -> Result<bool, AgentError> {
        let mut inner = self.inner.lock();
        inner.check_written()?;
        let Some(kept) = rewound::kept(&*inner.log)? else {
            return Ok(false);
        };
        let went_on = || {
            AgentError::Refused("The conversation continued after the rewind, so the rewind cannot be undone.".into())
        };
        let first = kept.first().ok_or_else(went_on)?;
        let Some(since) = inner.since(first.parent_id())? else {
            return Err(AgentError::Refused(
                "The log has changed since the rewind, so the rewind cannot be undone.".into(),
            ));
        };
        let both = since.iter().zip(&kept);
        let back = both.take_while(|(now, kept)| now.id() == kept.id()).count();
        let (gone, missing) = (&since[back..], &kept[back..]);
        if !missing.is_empty() {
            if !gone.iter().all(rewound::may_go) {
                return Err(went_on());
            }
            inner.append_after(missing[0].parent_id(), gone, missing, &*self.publish)?;
        }
        rewound::forget(&*inner.log);
        inner.can_undo = false;
        drop(inner);
        self.compact();
        Ok(!missing.is_empty())
    }

    /// Removes hidden events from the log's file, and syncs it. Repeated at the next occasion if it fails, or if the
    /// rewind is not in the file yet.
    fn compact(&self) {
        let mut inner = self.inner.lock();
        if inner.outbox.is_some() {
            return;
        }
        inner.compact();
        let ticket = inner.log.request_sync();
        let _ = ticket.clone().wait();
        drop(inner);
        self.tell_failure(ticket);
    }
}

/// An event as clients see it: they get a rewind as the event of the SDKs' schema.
fn shown(event: Event) -> Event {
    let Some(rewound) = event.get::<LodgeRewound>() else {
        return event;
    };
    let told = SessionSnapshotRewind {
        up_to_event_id: rewound.up_to_event_id.clone(),
        events_removed: rewound.events_removed,
    };
    Event::new(event.parent_id(), None, told)
}

/// How many of these events are in the chain.
fn chain_length(events: &[Event]) -> u64 {
    events.iter().filter(|event| !event.is_beside()).count() as u64
}

/// The ids of the messages among these events.
fn messages(events: &[Event]) -> Vec<String> {
    let own = events.iter().filter(|event| event.agent_id().is_none());
    own.filter_map(|event| event.get::<UserMessage>()?.message_id.clone())
        .collect()
}

impl Inner {
    /// Publishes an event, or keeps it until everything before it is safe.
    fn publish(&mut self, event: &Event, publish: &dyn Publish) {
        match &mut self.outbox {
            None => publish.publish(event),
            Some(outbox) => {
                if let Some(event) = outbox.hold(event.clone()) {
                    publish.publish(&event);
                }
            }
        }
    }

    /// Refuses operations that need every recorded event to be in the file.
    fn check_written(&self) -> Result<(), AgentError> {
        match &self.outbox {
            Some(outbox) if !outbox.is_empty() => Err(AgentError::Refused(
                "Something was just recorded that is not stored yet. Try again.".into(),
            )),
            _ => Ok(()),
        }
    }

    /// The events of the log, and those still to be written, without hidden ones.
    fn events(&self) -> Result<impl Iterator<Item = Result<Event, LogError>> + use<>, LogError> {
        let mut waiting: Vec<Event> = self.outbox.iter().flat_map(Outbox::unwritten).cloned().collect();
        // Before a rewind, everything is written.
        let rewind = waiting.first().is_some_and(is_rewind).then(|| waiting.remove(0));
        let written = self.log.read(Position::START, Position::END)?.events();
        Ok(hide(rewind, written).chain(waiting.into_iter().map(Ok)))
    }

    /// The events after one of the chain, or all of them, with those that belong to them, oldest first. `None` if that
    /// event does not exist.
    fn since(&self, parent: Option<Uuid>) -> Result<Option<Vec<Event>>, LogError> {
        let mut since = Vec::new();
        let mut found = parent.is_none();
        for event in self.log.read_back()?.events() {
            let event = event?;
            found = found || Some(event.id()) == parent;
            if found && parent.is_some() {
                break;
            }
            if goes_with_chain(&event) {
                since.push(event);
            }
        }
        since.reverse();
        Ok(found.then_some(since))
    }

    /// Continues the chain from `head` with other events, in place of the removed ones, in one step; publishes both.
    fn append_after(
        &mut self,
        head: Option<Uuid>,
        gone: &[Event],
        new: &[Event],
        publish: &dyn Publish,
    ) -> Result<(), LogError> {
        let up_to = gone.first().map(|event| event.id().to_string());
        let events_removed = chain_length(gone);
        let rewind = up_to.clone().map(|up_to_event_id| {
            let rewound = LodgeRewound {
                up_to_event_id,
                events_removed,
                message_ids: Some(messages(gone)).filter(|ids| !ids.is_empty()),
            };
            Event::new(head, None, rewound)
        });
        let events: Vec<Event> = rewind.into_iter().chain(new.iter().cloned()).collect();
        match &mut self.outbox {
            None => drop(self.log.append_all(&events)?),
            Some(outbox) => {
                outbox.check()?;
                for event in &events {
                    outbox.hold(event.clone());
                }
            }
        }
        self.head = new.iter().rfind(|event| !event.is_beside()).map(Event::id).or(head);
        self.read_anew()?;
        if self.outbox.is_none() {
            for event in events {
                publish.publish(&shown(event));
            }
        }
        Ok(())
    }

    fn compact(&mut self) {
        if let Err(error) = self.log.compact() {
            tracing::warn!(session = self.log.id(), %error, "cannot remove rewound events from the log file yet");
        }
    }

    /// Folds the log again, after more than an append.
    fn read_anew(&mut self) -> Result<(), LogError> {
        self.transcript = None;
        let mut facts = Facts::default();
        for event in self.events()? {
            facts.fold(&event?);
        }
        facts.totals.keep(&self.facts.totals);
        self.facts = facts;
        Ok(())
    }

    fn record(&mut self, payload: Payload, lane: Option<&Lane>, publish: &dyn Publish) -> Result<Event, LogError> {
        self.record_as(Uuid::new_v4(), payload, lane, publish)
    }

    fn record_as(
        &mut self,
        id: Uuid,
        payload: Payload,
        lane: Option<&Lane>,
        publish: &dyn Publish,
    ) -> Result<Event, LogError> {
        let new = |head, agent, payload| Event::with(id, Timestamp::now(), head, agent, payload);
        let agent = lane.map(|lane| lane.agent_id.clone());
        let payload = match lane {
            Some(lane) => payload.with_parent_tool_call(&lane.tool_call_id),
            None => payload,
        };
        let mut event = self.secrets.hide(new(self.head, agent.clone(), payload));
        if !event.is_ephemeral() {
            match &self.outbox {
                // It is written once it is safe elsewhere.
                Some(outbox) => outbox.check()?,
                None => match self.log.append(&event) {
                    Err(LogError::Moved { .. }) => {
                        self.catch_up(publish)?;
                        event = new(self.head, agent, event.payload().clone());
                        self.log.append(&event)?;
                    }
                    other => drop(other?),
                },
            }
            if !event.is_beside() {
                self.head = Some(event.id());
                if self.can_undo && !rewound::may_go(&event) {
                    rewound::give_up(&*self.log);
                    self.can_undo = false;
                }
            }
            if let Some(transcript) = &mut self.transcript {
                transcript.fold(&event);
            }
        }
        self.facts.fold(&event);
        if let Some(lane) = lane {
            let (facts, transcript) = &mut *lane.own.lock();
            facts.fold_own(&event);
            if !event.is_ephemeral() {
                transcript.fold_own(&event);
            }
        }
        self.publish(&event, publish);
        Ok(event)
    }

    /// Another process also has this session open, and wrote to its log. Its events are treated as if they had happened
    /// here.
    fn catch_up(&mut self, publish: &dyn Publish) -> Result<(), LogError> {
        let folded = self.log.end();
        self.log = (self.reopen)()?;
        let mut missed = Vec::new();
        let mut next = self.log.end();
        let mut known = self.head.is_none() && folded == Position::START;
        for recorded in self.log.read_back()? {
            let Recorded { position, event } = recorded?;
            if position < folded {
                // The facts are still valid for the part before: it ends with our last event.
                let ours = Some(event.id()) == self.head || event.is_beside() && event.parent_id() == self.head;
                known = ours && next == folded;
                break;
            }
            next = position;
            missed.push(event);
        }
        self.head = self.log.last_id();
        if !known {
            // The log was cut back to before our state: begin again.
            return self.read_anew();
        }
        for event in missed.iter().rev() {
            if let Some(transcript) = &mut self.transcript {
                transcript.fold(event);
            }
            self.facts.fold(event);
            publish.publish(event);
        }
        Ok(())
    }

    fn with_transcript<T>(&mut self, look: impl FnOnce(&mut Transcript) -> T) -> Result<T, LogError> {
        if self.transcript.is_none() {
            let mut transcript = Transcript::default();
            for event in self.events()? {
                transcript.fold(&event?);
            }
            self.transcript = Some(transcript);
        }
        Ok(look(self.transcript.as_mut().expect("it was just put there")))
    }

    fn save_facts(&mut self) -> SyncTicket {
        // The facts may be ahead of the file, and then they do not match it.
        if self.outbox.as_ref().is_some_and(|outbox| !outbox.is_empty()) {
            return self.log.request_sync();
        }
        self.saved = Some(Instant::now());
        if let Ok(facts) = self.facts.encode() {
            self.log.save_snapshot(Snapshot {
                at: self.log.end(),
                bytes: facts.into(),
            });
        }
        self.log.request_sync()
    }
}
