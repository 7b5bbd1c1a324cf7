//! The one place where events of a session come into being: chained, written, folded, then published, in that order
//! and under one lock, so that the log, the state and what clients see can never disagree.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lodge_events::{Event, Payload, SessionError, SessionSnapshotRewind};
use lodge_log::{LogError, Position, SessionLog, Snapshot, SyncTicket};
use lodge_models::{Message, ToolCall};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{AgentError, facts::Facts, redact::Secrets, rewound, transcript::Transcript};

/// How often the facts are saved at most while turns follow each other quickly.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Where events go once they are safe. Must not block: the session's lock is held.
pub trait Publish: Send + Sync {
    /// Takes an event.
    fn publish(&self, event: &Event);
}

/// Opens a session's log anew, after another process has written to it.
pub type Reopen = Box<dyn Fn() -> Result<Box<dyn SessionLog>, LogError> + Send>;

struct Inner {
    log: Box<dyn SessionLog>,
    reopen: Reopen,
    head: Option<Uuid>,
    facts: Facts,
    /// Read from the log when the first model call needs it, so that opening a session costs nothing that grows with it.
    transcript: Option<Transcript>,
    /// When the facts were last saved.
    saved: Option<Instant>,
    /// What no event may hold.
    secrets: Arc<Secrets>,
    /// Whether clients know that the last sync failed.
    told_unsynced: bool,
}

/// Records and publishes.
pub(crate) struct Recorder {
    inner: Arc<Mutex<Inner>>,
    publish: Arc<dyn Publish>,
    /// Set for the recorder of a sub-agent.
    lane: Option<Lane>,
}

/// What makes events those of one sub-agent. They stand in the session's log among all others; what they add up to is
/// the sub-agent's own.
struct Lane {
    agent_id: Arc<str>,
    tool_call_id: String,
    own: Mutex<(Facts, Transcript)>,
}

impl Recorder {
    /// Over an opened log whose facts are known.
    pub(crate) fn new(
        log: Box<dyn SessionLog>,
        reopen: Reopen,
        facts: Facts,
        publish: Arc<dyn Publish>,
        secrets: Arc<Secrets>,
    ) -> Self {
        let head = log.last_id();
        Self {
            inner: Arc::new(Mutex::new(Inner {
                log,
                reopen,
                head,
                facts,
                transcript: None,
                saved: None,
                secrets,
                told_unsynced: false,
            })),
            publish,
            lane: None,
        }
    }

    /// A recorder for a sub-agent of this session that a tool call started.
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

    /// Makes an event of the agent that this recorder is for, and sends it on its way.
    pub(crate) fn record(&self, payload: impl Into<Payload>) -> Result<Event, LogError> {
        self.inner
            .lock()
            .record(payload.into(), self.lane.as_ref(), &*self.publish)
    }

    /// Like [`Recorder::record`] for an event that nobody needs later and whose loss nobody can mend: a failure to write
    /// has been told already by the event before it.
    pub(crate) fn note(&self, payload: impl Into<Payload>) {
        if let Err(error) = self.record(payload) {
            tracing::warn!(%error, "an event could not be recorded");
        }
    }

    /// Tells clients, and nobody else, of something that could not be written.
    pub(crate) fn publish_unrecorded(&self, payload: impl Into<Payload>) -> Event {
        let inner = self.inner.lock();
        let agent = self.lane.as_ref().map(|lane| lane.agent_id.clone());
        let event = Event::new_ephemeral(inner.head, agent, payload.into());
        let event = inner.secrets.hide(event);
        self.publish.publish(&event);
        event
    }

    /// What no event may hold.
    pub(crate) fn secrets(&self) -> Arc<Secrets> {
        self.inner.lock().secrets.clone()
    }

    /// Keeps tool-call arguments for the message that is recorded next.
    pub(crate) fn keep_verbatim(&self, calls: &[ToolCall]) -> Result<(), LogError> {
        self.with_transcript(|transcript| transcript.keep_verbatim(calls))
    }

    /// The messages for a call of a model that takes images, or does not.
    pub(crate) fn messages(&self, vision: bool) -> Result<Vec<Message>, LogError> {
        self.with_transcript(|transcript| transcript.messages(vision))
    }

    /// Number of entries in the conversation and about how many tokens they take.
    pub(crate) fn size(&self) -> Result<(usize, u64), LogError> {
        self.with_transcript(|transcript| (transcript.len(), transcript.tokens()))
    }

    /// The tool calls that have no result.
    pub(crate) fn open_calls(&self) -> Result<Option<(Uuid, Vec<ToolCall>)>, LogError> {
        self.with_transcript(|transcript| transcript.open_calls())
    }

    fn with_transcript<T>(&self, look: impl FnOnce(&mut Transcript) -> T) -> Result<T, LogError> {
        match &self.lane {
            None => self.inner.lock().with_transcript(look),
            Some(lane) => Ok(look(&mut lane.own.lock().1)),
        }
    }

    /// Looks at the facts of the agent that this recorder is for.
    pub(crate) fn facts<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        match &self.lane {
            None => look(&self.inner.lock().facts),
            Some(lane) => look(&lane.own.lock().0),
        }
    }

    /// Changes what no event says: sums over the whole session that are counted as they happen.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.inner.lock().facts);
    }

    /// Asks for what was written to reach the disk, as the policy says.
    pub(crate) fn sync(&self) {
        let ticket = self.inner.lock().log.request_sync();
        self.tell_failure(ticket);
    }

    /// Tells clients when a sync that was asked for fails: what they saw may not survive the machine.
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
                        "The session's log could not be brought to the disk: {error}. What was said last may be lost if \
                         the machine stops. Nothing more is accepted until the log can be written again: free some space \
                         or mend the disk."
                    ),
                    ..SessionError::default()
                };
                let event = Event::new_ephemeral(inner.head, None, payload);
                publish.publish(&inner.secrets.hide(event));
            }
        });
    }

    /// As [`Recorder::sync`], and now and then the facts with it: what a killed host had counted since is read from the
    /// log, or was no more than a second's worth.
    pub(crate) fn sync_and_save(&self) {
        let mut inner = self.inner.lock();
        let ticket = match inner.saved {
            Some(saved) if saved.elapsed() < SAVE_EVERY => inner.log.request_sync(),
            _ => inner.save_facts(),
        };
        drop(inner);
        self.tell_failure(ticket);
    }

    /// As [`Recorder::sync`], with the facts.
    pub(crate) fn save(&self) {
        let ticket = self.inner.lock().save_facts();
        self.tell_failure(ticket);
    }

    /// Runs something between two events: nothing is recorded or published meanwhile.
    pub(crate) fn paused<T>(&self, run: impl FnOnce(&dyn SessionLog) -> T) -> T {
        run(&*self.inner.lock().log)
    }

    /// Takes an event and everything after it out of the log, and forgets what was folded from it. Answers how many
    /// events went.
    pub(crate) fn truncate(&self, from: Uuid) -> Result<u64, AgentError> {
        let mut inner = self.inner.lock();
        let mut position = None;
        for recorded in inner.log.read_back()? {
            let recorded = recorded?;
            if recorded.event.id() == from {
                position = Some(recorded.position);
                break;
            }
        }
        let position = position.ok_or_else(|| AgentError::Refused(format!("Event not found: {from}")))?;
        let before = inner.log.count();
        rewound::keep(&*inner.log, position)?;
        inner.log.truncate(position)?;
        inner.read_anew()?;
        Ok(before - inner.log.count())
    }

    /// Puts back what was taken out last, and tells it again. Nothing, when there is nothing to put back; refused when
    /// something was said since. Answers with the first event that is back.
    pub(crate) fn put_back(&self) -> Result<Option<Uuid>, AgentError> {
        let mut inner = self.inner.lock();
        let Some(events) = rewound::kept(&*inner.log)? else {
            return Ok(None);
        };
        let Some(first) = events.first() else { return Ok(None) };
        if let Some(back) = events.iter().position(|event| Some(event.id()) == inner.log.last_id()) {
            // A process that died put back these; the rest follows, if there is any.
            let rest = &events[back + 1..];
            if !rest.is_empty() {
                inner.log.append_all(rest)?;
                inner.read_anew()?;
            }
            rewound::forget(&*inner.log);
            rest.iter().for_each(|event| self.publish.publish(event));
            return Ok(rest.first().map(Event::id));
        }
        let mut since = None;
        for recorded in inner.log.read_back()? {
            let recorded = recorded?;
            if Some(recorded.event.id()) == first.parent_id() {
                break;
            }
            if !rewound::may_go(&recorded.event) {
                return Err(AgentError::Refused(
                    "Something happened since the conversation was taken back; it cannot be put back any more.".into(),
                ));
            }
            since = Some((recorded.position, recorded.event.id()));
        }
        if let Some((position, event)) = since {
            let before = inner.log.count();
            inner.log.truncate(position)?;
            let gone = Event::new(
                inner.log.last_id(),
                None,
                SessionSnapshotRewind {
                    up_to_event_id: event.to_string(),
                    events_removed: before - inner.log.count(),
                },
            );
            self.publish.publish(&gone);
        }
        if inner.log.last_id() != first.parent_id() {
            return Err(AgentError::Refused("What was taken back does not fit any more.".into()));
        }
        inner.log.append_all(&events)?;
        rewound::forget(&*inner.log);
        inner.read_anew()?;
        for event in &events {
            self.publish.publish(event);
        }
        Ok(Some(first.id()))
    }
}

impl Inner {
    /// Folds the log anew, after more than an append.
    fn read_anew(&mut self) -> Result<(), LogError> {
        self.head = self.log.last_id();
        self.transcript = None;
        let totals = std::mem::take(&mut self.facts.totals);
        self.facts = Facts {
            totals,
            ..Facts::default()
        }
        .read_on(&*self.log, Position::START)?;
        Ok(())
    }

    fn record(&mut self, payload: Payload, lane: Option<&Lane>, publish: &dyn Publish) -> Result<Event, LogError> {
        let agent = lane.map(|lane| lane.agent_id.clone());
        let payload = match lane {
            Some(lane) => payload.with_parent_tool_call(&lane.tool_call_id),
            None => payload,
        };
        let mut event = self.secrets.hide(Event::new(self.head, agent.clone(), payload));
        if !event.is_ephemeral() {
            match self.log.append(&event) {
                Err(LogError::Moved { .. }) => {
                    self.catch_up(publish)?;
                    event = Event::new(self.head, agent, event.payload().clone());
                    self.log.append(&event)?;
                }
                other => drop(other?),
            }
            self.head = Some(event.id());
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
        publish.publish(&event);
        Ok(event)
    }

    /// Another process has this session open, too, and wrote to its log. What it wrote is taken in as if it had happened
    /// here.
    fn catch_up(&mut self, publish: &dyn Publish) -> Result<(), LogError> {
        self.log = (self.reopen)()?;
        let mut missed = Vec::new();
        let mut known = self.head.is_none();
        for recorded in self.log.read_back()? {
            let event = recorded?.event;
            if Some(event.id()) == self.head {
                known = true;
                break;
            }
            missed.push(event);
        }
        self.head = self.log.last_id();
        if !known {
            // The log was cut back to before what we know: begin again.
            self.transcript = None;
            self.facts = Facts::default().read_on(&*self.log, Position::START)?;
            return Ok(());
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
            for event in self.log.read(Position::START, Position::END)?.events() {
                transcript.fold(&event?);
            }
            self.transcript = Some(transcript);
        }
        Ok(look(self.transcript.as_mut().expect("it was just put there")))
    }

    fn save_facts(&mut self) -> SyncTicket {
        self.saved = Some(Instant::now());
        if let Ok(facts) = serde_json::to_vec(&self.facts) {
            self.log.save_snapshot(Snapshot {
                at: self.log.end(),
                bytes: facts.into(),
            });
        }
        self.log.request_sync()
    }
}
