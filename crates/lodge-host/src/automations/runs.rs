//! Runs: started in a session of their own, followed to the end of their turn, cancelled on request.

use std::{sync::Arc, time::Duration};

use super::{AutomationError, Automations, NAME_BYTES, RunOutcome, watch::TurnWatch};
use crate::{Host, HostError, LogError, Notice, Session};

/// Limit for queued events of a run, in bytes. Beyond it, the log is read again.
const QUEUE: usize = 16 << 20;
/// How long a face may take to show the end of a turn before the end of its run.
const CATCH_UP: Duration = Duration::from_secs(5);

/// A run and its session.
struct Begun {
    session: String,
    message: String,
}

impl Automations {
    /// Starts a run on request, once for each request id. Returns the run's id.
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

    /// Cancels a run. If it has a session, it ends with its turn.
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

    /// Starts a recorded run, and follows it to its end.
    pub(super) fn start_run(self: &Arc<Self>, run: String) {
        let automations = self.clone();
        tokio::spawn(async move {
            let outcome = match automations.begin(&run).await {
                Ok(None) => return,
                Ok(Some(begun)) => match automations.follow(&begun).await {
                    Some(outcome) => {
                        if let Some(face) = automations.face() {
                            // A face that hangs must not delay the end of a run.
                            let _ = tokio::time::timeout(CATCH_UP, face.caught_up(begun.session)).await;
                        }
                        outcome
                    }
                    // The host stops; the next one records the end.
                    None => return,
                },
                Err(reason) => RunOutcome::failed(reason),
            };
            automations.end_run(&run, outcome).await;
        });
    }

    /// Creates the session of a run and sends it the message. `None` if it was cancelled before, or the host stops.
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
        // Nothing runs that is not recorded.
        let kept = self.keep(&automation).await;
        kept.map_err(|error| format!("cannot save the run: {error}"))?;
        let message = prepared.start.await?;
        // Clients that are notified of the session must find it.
        self.show(automation);
        Ok(Some(Begun { session, message }))
    }

    /// Waits for the end of a run's turn. `None` if the host stops first.
    async fn follow(&self, begun: &Begun) -> Option<RunOutcome> {
        loop {
            let host = Host(self.host.upgrade()?, None);
            let session = match host.open_session(&begun.session).await {
                Ok(session) => session,
                // The session was deleted.
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

/// How the turn of a message ended. `None` if the session left memory, or its events overran the queue.
async fn follow_session(session: Session, message: &str) -> Result<Option<RunOutcome>, LogError> {
    let (history, mut events) = session.history_and_subscribe(QUEUE)?;
    // Read after the subscription: a turn that ends later sends an event.
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
