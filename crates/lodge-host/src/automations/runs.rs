//! Runs: started in a session of their own, followed to the end of their turn, cancelled on request.

use std::{sync::Arc, time::Duration};

use super::{AutomationError, Automations, NAME_BYTES, RunOutcome, watch::TurnWatch};
use crate::{Host, HostError, LogError, Notice, Session};

/// Bytes of events of a run that may wait to be looked at. Beyond that its log is read anew.
const QUEUE: usize = 16 << 20;
/// So long a face has to show the end of a turn before that of its run.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Where a run takes place.
struct Begun {
    session: String,
    message: String,
}

impl Automations {
    /// Starts a run for somebody, once for each of their keys. Its id.
    pub async fn run(self: &Arc<Self>, id: &str, key: String) -> Result<String, AutomationError> {
        if key.trim().is_empty() || key.len() > NAME_BYTES {
            let reason = format!("a requestId has 1 to {NAME_BYTES} bytes");
            return Err(AutomationError::Invalid(reason));
        }
        let order = self.order.lock().await;
        if !self.are_allowed() {
            return Err(AutomationError::Disabled);
        }
        let known = self.get(id).ok_or_else(|| AutomationError::NotFound(id.to_owned()));
        let mut automation = known?;
        if let Some(run) = automation.asked(&key) {
            return Ok(run);
        }
        let run = automation.ask(key, self.clock.now())?;
        self.put(automation).await?;
        drop(order);
        self.start_run(run.clone());
        Ok(run)
    }

    /// Cancels a run. One that has a session ends with its turn.
    pub async fn cancel(&self, run: &str) -> Result<(), AutomationError> {
        let _order = self.order.lock().await;
        let missing = || AutomationError::NoRun(run.to_owned());
        let mut automation = self.of_run(run).ok_or_else(missing)?;
        let known = automation.run(run).filter(|known| !known.is_over());
        let known = known.ok_or_else(|| AutomationError::Over(run.to_owned()))?;
        if let (Some(session), Some(face)) = (&known.session, self.face()) {
            face.stop(session);
            return Ok(());
        }
        automation.end(run, RunOutcome::Cancelled, self.clock.now());
        self.put(automation).await
    }

    /// Sees to a run that is kept and has not begun.
    pub(super) fn start_run(self: &Arc<Self>, run: String) {
        let automations = self.clone();
        tokio::spawn(async move {
            let outcome = match automations.begin(&run).await {
                Ok(None) => return,
                Ok(Some(begun)) => match automations.follow(&begun).await {
                    Some(outcome) => {
                        if let Some(face) = automations.face() {
                            // A face that is stuck keeps nobody from the end of a run.
                            let _ = tokio::time::timeout(CATCH_UP, face.caught_up(begun.session)).await;
                        }
                        outcome
                    }
                    // The host ends; the next one says so.
                    None => return,
                },
                Err(reason) => RunOutcome::failed(reason),
            };
            automations.end_run(&run, outcome).await;
        });
    }

    /// Makes the session of a run and gives it the message. `None`: it was cancelled before, or the host ends.
    async fn begin(&self, run: &str) -> Result<Option<Begun>, String> {
        let (Some(automation), Some(face)) = (self.of_run(run), self.face()) else {
            return Ok(None);
        };
        let prepared = face.prepare(automation, run.to_owned()).await?;
        let _order = self.order.lock().await;
        let Some(mut automation) = self.of_run(run) else {
            return Ok(None);
        };
        let session = prepared.session.id.clone();
        if !automation.begin(run, prepared.session, self.clock.now()) {
            return Ok(None);
        }
        // Nothing runs that is not written down.
        let kept = self.keep(&automation).await;
        kept.map_err(|error| format!("cannot save the run: {error}"))?;
        let message = prepared.start.await?;
        // Whoever hears of the session finds it.
        self.show(automation);
        Ok(Some(Begun { session, message }))
    }

    /// Waits for the end of a run's turn. `None`: the host ends before.
    async fn follow(&self, begun: &Begun) -> Option<RunOutcome> {
        loop {
            let host = Host(self.host.upgrade()?, None);
            let session = match host.open_session(&begun.session).await {
                Ok(session) => session,
                // Somebody removed the session, and whatever it did with it.
                Err(HostError::NotFound(_)) => return Some(RunOutcome::Cancelled),
                Err(error) => return Some(RunOutcome::failed(error.to_string())),
            };
            drop(host);
            tokio::select! {
                followed = follow_session(session, &begun.message) => match followed {
                    Ok(Some(outcome)) => return Some(outcome),
                    Ok(None) => {}
                    Err(error) => return Some(RunOutcome::failed(error.to_string())),
                },
                () = self.stop.cancelled() => return None,
            }
            if self.stop.is_cancelled() {
                return None;
            }
        }
    }

    async fn end_run(&self, run: &str, outcome: RunOutcome) {
        let _order = self.order.lock().await;
        let Some(mut automation) = self.of_run(run) else { return };
        if automation.end(run, outcome, self.clock.now()) {
            self.put_at_any_rate(automation).await;
        }
    }
}

/// How the turn of a message ended. `None`: the session left memory, or said more than could be followed.
async fn follow_session(session: Session, message: &str) -> Result<Option<RunOutcome>, LogError> {
    let (history, mut events) = session.history_and_subscribe(QUEUE)?;
    // Looked at after the subscription: a turn that ends later says so.
    let is_busy = session.is_busy();
    let mut watch = TurnWatch::new(message);
    let read = tokio::task::spawn_blocking(move || {
        for event in history.events() {
            watch.event(&event?);
        }
        Ok::<_, LogError>(watch)
    });
    let Ok(read) = read.await else { return Ok(None) };
    let mut watch = read?;
    if !is_busy && let Some(outcome) = watch.at_rest() {
        return Ok(Some(outcome));
    }
    while let Some(notice) = events.next().await {
        match notice {
            Notice::Event(event) => {
                if let Some(outcome) = watch.event(&event) {
                    return Ok(Some(outcome));
                }
            }
            Notice::Lagged => return Ok(None),
        }
    }
    Ok(None)
}
