//! Prompts that a session has scheduled for itself. They are folded from its log; a register names the sessions that have any,
//! so that a new host finds them.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use lodge_agent::{OpenSchedule, Prompt};
use lodge_events::{Event, LodgeScheduleRan, Payload, SessionScheduleCancelled, SessionScheduleCreated};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Clock, Cron, time_zone};
use crate::{
    Host, HostError, Session,
    host::Inner,
    registers::{Register, Registers},
};

/// Nothing is due more often than that.
const SHORTEST: u64 = 1000;
/// How long after it was due another host may send what a host of the fleet did not, and how often that is looked at.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// A prompt that is sent at set times.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledPrompt {
    /// How it was scheduled.
    pub created: SessionScheduleCreated,
    /// When it is sent next.
    pub next_run: Option<Timestamp>,
}

impl ScheduledPrompt {
    fn new(open: &OpenSchedule) -> Self {
        Self {
            created: open.created.clone(),
            next_run: next_due(open),
        }
    }
}

/// When a schedule is due for the first time after it last ran. That can be long ago.
fn next_due(open: &OpenSchedule) -> Option<Timestamp> {
    let created = &open.created;
    let last = open.last_run_ms();
    let recurring = created.recurring.unwrap_or(false);
    let due = if created.self_paced == Some(true) {
        let rearmed = i64::try_from(open.rearmed_ms?).ok()?;
        (last.is_none_or(|last| last < rearmed)).then_some(rearmed)
    } else if let Some(at) = created.at {
        last.is_none().then_some(i64::try_from(at).ok()?)
    } else if let Some(cron) = &created.cron {
        let zone = time_zone(created.tz.as_deref().unwrap_or("UTC")).ok()?;
        let after = Timestamp::from_millisecond(last.unwrap_or(open.created_ms)).ok()?;
        let next = Cron::parse(cron).ok()?.next(&zone, after)?;
        (recurring || last.is_none()).then_some(next.as_millisecond())
    } else {
        let interval = i64::try_from(created.interval_ms?.max(SHORTEST)).ok()?;
        let ran = last.map_or(0, |last| last.saturating_sub(open.created_ms).max(0) / interval);
        let due = interval.checked_mul(ran + 1)?.checked_add(open.created_ms)?;
        (recurring || last.is_none()).then_some(due)
    };
    Timestamp::from_millisecond(due?).ok()
}

pub(crate) struct SessionSchedules {
    host: Weak<Inner>,
    /// The sessions that have some.
    index: Register<()>,
    clock: Clock,
    /// When each of them is due next.
    next: Mutex<HashMap<String, Timestamp>>,
    /// When the sessions of other hosts are due next, as those say, or when they were looked at after that.
    elsewhere: Mutex<HashMap<String, Timestamp>>,
    /// Sessions to look at anew.
    stale: Mutex<HashSet<String>>,
    changed: Notify,
    /// One schedule is made at a time, so that each has a number of its own.
    making: tokio::sync::Mutex<()>,
    started: AtomicBool,
    stop: CancellationToken,
}

impl SessionSchedules {
    pub(crate) fn new(
        host: Weak<Inner>,
        registers: &Arc<dyn Registers>,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        Self {
            host,
            index: Register::new(registers, "scheduled"),
            clock,
            next: Mutex::default(),
            elsewhere: Mutex::default(),
            stale: Mutex::default(),
            changed: Notify::new(),
            making: tokio::sync::Mutex::default(),
            started: AtomicBool::new(false),
            stop,
        }
    }

    /// Keeps the time from now on, for all sessions of the home, or for those alone that are in memory here.
    pub(crate) fn start(self: &Arc<Self>, all: bool) {
        if !self.started.swap(true, Ordering::Relaxed) {
            if all {
                let indexed = self.index.list().into_iter().map(|(id, ())| id);
                self.stale.lock().extend(indexed);
            }
            tokio::spawn(self.clone().keep_time());
        }
    }

    /// A session was opened.
    pub(crate) fn opened(&self, id: &str) {
        if self.index.get(id).is_some() {
            self.note(id);
        }
    }

    /// A session was opened that another host may have had before.
    pub(crate) fn opened_after_others(&self, session: &Session) {
        self.elsewhere.lock().remove(session.id());
        let has_some = session.agent().look(|facts| !facts.schedules.open.is_empty());
        if has_some && let Err(error) = self.index(session.id()) {
            tracing::warn!(session = session.id(), %error, "its schedules are kept until this host stops");
        }
        self.opened(session.id());
    }

    /// Another host says when a session is due next.
    pub(crate) fn said_elsewhere(&self, id: &str, due: Option<Timestamp>) {
        let mut elsewhere = self.elsewhere.lock();
        match due {
            Some(due) => drop(elsewhere.insert(id.to_owned(), due)),
            None => drop(elsewhere.remove(id)),
        }
        drop(elsewhere);
        self.changed.notify_one();
    }

    /// When a session is due next, for other hosts.
    pub(crate) fn next_due(&self, id: &str, session: Option<&Session>) -> Option<Timestamp> {
        match session {
            Some(session) => session
                .agent()
                .look(|facts| facts.schedules.open.values().filter_map(next_due).min()),
            None => self.next.lock().get(id).copied(),
        }
    }

    /// A session was removed.
    pub(crate) fn removed(&self, id: &str) {
        self.elsewhere.lock().remove(id);
        self.opened(id);
    }

    /// Looks whether an event of a session has to do with its schedules. A session that has come to rest can take what was
    /// due meanwhile.
    pub(crate) fn event(&self, id: &str, event: &Event) {
        let concerns = match event.payload() {
            Payload::SessionScheduleCreated(_)
            | Payload::SessionScheduleCancelled(_)
            | Payload::SessionScheduleRearmed(_) => true,
            Payload::SessionIdle(_) => self.next.lock().contains_key(id),
            _ => false,
        };
        if concerns {
            self.note(id);
        }
    }

    fn index(&self, id: &str) -> Result<(), HostError> {
        let noted = self.index.set(id, &());
        noted.map_err(|error| HostError::Invalid(format!("Cannot save the schedule: {error}")))
    }

    fn note(&self, id: &str) {
        self.stale.lock().insert(id.to_owned());
        self.changed.notify_one();
    }

    async fn keep_time(self: Arc<Self>) {
        loop {
            let stale = std::mem::take(&mut *self.stale.lock());
            let now = self.clock.now();
            let due = self
                .next
                .lock()
                .iter()
                .filter(|(_, next)| **next <= now)
                .map(|(id, _)| id.clone())
                .collect();
            for id in stale.union(&due) {
                self.look(id).await;
            }
            for id in self.left_undone(now) {
                self.look(&id).await;
            }
            // What is due and waits for its session to rest is looked at when it does.
            let next = self.next.lock().values().filter(|next| **next > now).min().copied();
            let left = self.elsewhere.lock().values().map(|due| *due + GRACE).min();
            let next = next.into_iter().chain(left).min();
            let moment = async {
                match next {
                    Some(next) => self.clock.reach(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = moment => {}
                () = self.changed.notified() => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Sessions of other hosts in which something was due and nothing was sent. They are looked at again after a while.
    fn left_undone(&self, now: Timestamp) -> Vec<String> {
        let mut elsewhere = self.elsewhere.lock();
        let overdue = elsewhere.iter_mut().filter(|(_, due)| **due + GRACE <= now);
        overdue
            .map(|(id, due)| {
                *due = now;
                id.clone()
            })
            .collect()
    }

    /// Sends what is due in a session, and finds out when something is due next.
    async fn look(&self, id: &str) {
        let Some(host) = self.host.upgrade().map(|inner| Host(inner, None)) else {
            return;
        };
        if let Some(keeper) = host.keeper()
            && host.live(id).is_none()
        {
            match keeper.is_free(id).await {
                Ok(true) => {}
                Ok(false) => {
                    // Whoever has it sends what is due.
                    self.next.lock().remove(id);
                    self.elsewhere.lock().entry(id.to_owned()).or_insert(self.clock.now());
                    return;
                }
                Err(error) => {
                    tracing::warn!(session = id, %error, "cannot tell who keeps the schedules of a session");
                    return self.look_again(id);
                }
            }
        }
        let next = match host.open_session(id).await {
            Ok(session) => self.send_due(&session).await,
            Err(HostError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        };
        match next {
            Ok(Some(next)) => drop(self.next.lock().insert(id.to_owned(), next)),
            Ok(None) => {
                self.next.lock().remove(id);
                if let Err(error) = self.index.remove(id) {
                    tracing::warn!(session = id, %error, "cannot record that a session has no schedules");
                }
            }
            Err(error) => {
                tracing::warn!(session = id, %error, "cannot read the schedules of a session");
                self.look_again(id);
            }
        }
    }

    /// Has a session looked at again after a while. A time that has passed would wake nobody.
    fn look_again(&self, id: &str) {
        self.next.lock().insert(id.to_owned(), self.clock.now() + GRACE);
    }

    /// When something is due next; `None` when nothing is scheduled.
    async fn send_due(&self, session: &Session) -> Result<Option<Timestamp>, HostError> {
        let mut next: Option<Timestamp> = None;
        for open in session.state().schedules.open.into_values() {
            let mut due = next_due(&open);
            if let Some(time) = due.filter(|due| *due <= self.clock.now() && !session.is_busy()) {
                due = self.send(session, &open, time).await?;
            } else if due.is_none() && open.created.self_paced != Some(true) {
                // It has run, and the host did not live to say that it is over.
                session.record(SessionScheduleCancelled { id: open.created.id }).await?;
                continue;
            }
            next = next.into_iter().chain(due).min();
        }
        Ok(next)
    }

    /// Sends a prompt that is due. All times that were missed are one. When it is due again.
    async fn send(
        &self,
        session: &Session,
        open: &OpenSchedule,
        due: Timestamp,
    ) -> Result<Option<Timestamp>, HostError> {
        let created = &open.created;
        // The same in every host that comes to this time, so that it is sent once.
        let name = format!("{}/{}/{}", session.id(), created.id, due.as_millisecond());
        let message_id = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string();
        let (waiting, steering) = session.queue();
        let mut queued = waiting.iter().chain(&steering);
        if !queued.any(|prompt| prompt.message_id.as_deref() == Some(&message_id)) {
            let prompt = Prompt {
                text: created.prompt.clone(),
                display_text: created.display_prompt.clone(),
                source: Some(format!("schedule-{}", created.id)),
                message_id: Some(message_id.clone()),
                ..Prompt::default()
            };
            session.send(prompt).await?;
        }
        let now = self.clock.now();
        let ran = LodgeScheduleRan {
            id: created.id,
            time: now.as_millisecond().max(0).cast_unsigned(),
            message_id,
        };
        session.record(ran).await?;
        let mut after = open.clone();
        after.ran_ms = Some(now.as_millisecond());
        let next = next_due(&after);
        if next.is_none() && created.self_paced != Some(true) {
            session.record(SessionScheduleCancelled { id: created.id }).await?;
        }
        Ok(next)
    }
}

impl Session {
    /// The prompts that it has scheduled. Those of a log that came from elsewhere, or of a build that kept no time, are
    /// sent from now on.
    pub fn scheduled(&self) -> Result<Vec<ScheduledPrompt>, HostError> {
        let open = self.state().schedules.open;
        if let Some(host) = self.host().filter(|_| !open.is_empty()) {
            host.inner().schedules.index(self.id())?;
            host.inner().schedules.note(self.id());
        }
        Ok(open.values().map(ScheduledPrompt::new).collect())
    }

    /// Schedules a prompt. Its number is chosen here.
    pub async fn schedule(&self, mut created: SessionScheduleCreated) -> Result<ScheduledPrompt, HostError> {
        let host = self.host().ok_or_else(|| HostError::NotFound(self.id().to_owned()))?;
        let schedules = host.inner().schedules.clone();
        let _making = schedules.making.lock().await;
        created.id = self.state().schedules.last + 1;
        // First: a host that ends right after this finds nothing to do in the session, instead of nothing of it.
        schedules.index(self.id())?;
        let event = self.record(created.clone()).await?;
        let open = OpenSchedule::new(created, event.timestamp().as_millisecond());
        Ok(ScheduledPrompt::new(&open))
    }

    /// Takes a scheduled prompt back. `None` when there is none of this number.
    pub async fn unschedule(&self, id: u64) -> Result<Option<ScheduledPrompt>, HostError> {
        let Some(open) = self.state().schedules.open.remove(&id) else {
            return Ok(None);
        };
        self.record(SessionScheduleCancelled { id }).await?;
        Ok(Some(ScheduledPrompt::new(&open)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(created: SessionScheduleCreated, created_ms: i64) -> OpenSchedule {
        OpenSchedule::new(created, created_ms)
    }

    #[test]
    fn schedules_are_due_on_their_grid_and_missed_times_are_one() {
        let interval = |recurring: bool| SessionScheduleCreated {
            interval_ms: Some(5000),
            recurring: Some(recurring),
            ..SessionScheduleCreated::default()
        };
        let at = SessionScheduleCreated {
            at: Some(70_000),
            ..SessionScheduleCreated::default()
        };
        let cron = SessionScheduleCreated {
            cron: Some("0 * * * *".into()),
            tz: Some("UTC".into()),
            recurring: Some(true),
            ..SessionScheduleCreated::default()
        };
        let paced = SessionScheduleCreated {
            self_paced: Some(true),
            recurring: Some(true),
            ..SessionScheduleCreated::default()
        };
        let hour = 3_600_000;
        for (created, ran, rearmed, expected) in [
            (interval(true), None, None, Some(6000)),
            (interval(true), Some(6000), None, Some(11_000)),
            (interval(true), Some(6003), None, Some(11_000)),
            // Four of them were missed; the run at 29 seconds stands for all.
            (interval(true), Some(29_000), None, Some(31_000)),
            (interval(false), None, None, Some(6000)),
            (interval(false), Some(6000), None, None),
            (at.clone(), None, None, Some(70_000)),
            (at, Some(70_000), None, None),
            (cron.clone(), None, None, Some(hour)),
            (cron, Some(5 * hour + 3), None, Some(6 * hour)),
            (paced.clone(), None, None, None),
            (paced.clone(), None, Some(9000), Some(9000)),
            (paced, Some(9000), Some(9000), None),
            (SessionScheduleCreated::default(), None, None, None),
        ] {
            let mut open = open(created.clone(), 1000);
            (open.ran_ms, open.rearmed_ms) = (ran, rearmed);
            let due = next_due(&open).map(|due| due.as_millisecond());
            assert_eq!(due, expected, "{created:?} {ran:?} {rearmed:?}");
        }
    }
}
