//! Work that a stopped host left unfinished in a session: resumed, or closed as interrupted.

use std::{sync::atomic::Ordering, time::Duration};

use lodge_events::{AnsweredBy, LodgeMessageParked, LodgeTurnResumed, LodgeTurnRetried, SessionInfo, SessionWarning};
use tokio::{sync::oneshot, time::Instant};

use super::Actor;
use crate::{
    AgentError,
    answer::Answer,
    facts::{INTERRUPTED_INFO, INTERRUPTED_TURN},
    subagents,
    turn::{self, Start},
};

/// For how long a turn of another process is waited for. One that was killed may take a moment to be gone, and whoever killed
/// it goes on at once.
const DYING: Duration = Duration::from_secs(1);

/// For how long an answer that came before its question waits for it.
const EARLY_ANSWER: Duration = Duration::from_secs(5);

/// How often a session's directory is tried to be locked, and how long is waited in between.
const LEASE_TRIES: u32 = 5;
const LEASE_PAUSE: Duration = Duration::from_millis(1);

impl Actor {
    /// Makes sure that no other process runs a turn in this session, for as long as one runs here. The lock is on the
    /// session's directory; where that cannot be locked there are no other processes to fear.
    pub(super) fn lease(&mut self) -> Result<(), AgentError> {
        if self.lease.is_none() {
            self.lease = std::fs::File::open(&self.shared.dir).ok();
        }
        for _ in 0..LEASE_TRIES {
            match self.lease.as_ref().map(std::fs::File::try_lock) {
                // Perhaps somebody only looks whether it is locked.
                Some(Err(std::fs::TryLockError::WouldBlock)) => std::thread::sleep(LEASE_PAUSE),
                _ => return Ok(()),
            }
        }
        Err(AgentError::InUse)
    }

    /// Waits for a while until no other process runs a turn in this session. If one goes on, [`Actor::lease`] says so.
    pub(super) async fn wait_for_others(&mut self) {
        // While something is done here, there is no other.
        if self.shared.busy.load(Ordering::Acquire) {
            return;
        }
        let deadline = Instant::now() + DYING;
        while self.lease().is_err() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.end_lease();
    }

    pub(super) fn end_lease(&self) {
        if let Some(lease) = &self.lease {
            let _ = lease.unlock();
        }
    }

    /// After a restart open questions are asked again under the ids that clients know: an answer may come before the
    /// question does, and waits for it then.
    pub(super) fn answer(
        &self,
        id: String,
        (answer, by): (Answer, AnsweredBy),
        reply: oneshot::Sender<Result<bool, AgentError>>,
    ) {
        if !self.taking_up {
            let _ = reply.send(self.shared.answer(&id, answer, by).map_err(AgentError::from));
            return;
        }
        let shared = self.shared.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(EARLY_ANSWER, shared.pending.opened(&id)).await;
            let _ = reply.send(shared.answer(&id, answer, by).map_err(AgentError::from));
        });
    }

    /// Goes on with what was open, or waited, when the host went down.
    pub(super) fn take_up(&mut self) -> Result<bool, AgentError> {
        self.park()?;
        let open_turn = self.shared.recorder.facts(|facts| facts.open_turn.clone());
        let command = open_turn.as_ref().is_some_and(|turn| turn.command);
        let open = open_turn.is_some() && !command;
        let waits = self.shared.queue.has_next(&self.shared.recorder);
        if self.running.is_none() && (open || command || waits || self.agents_open()) {
            self.lease()?;
            subagents::settle_interrupted(&self.shared)?;
            // Nobody knows how far it came, and no model waits for it.
            if command {
                self.settle_interrupted()?;
            }
            if (open || waits)
                && let Some(message_id) = self.next_message()
            {
                self.shared.recorder.record(LodgeTurnRetried { message_id })?;
            }
            if open {
                self.taking_up = true;
                self.start(Start::Continue);
            } else if waits {
                self.start_next(lodge_events::Delivery::Queued);
            } else {
                self.end_lease();
            }
        }
        Ok(open || waits)
    }

    /// The message whose turn is under way, or comes next.
    fn next_message(&self) -> Option<String> {
        let recorder = &self.shared.recorder;
        let open = recorder.facts(|facts| facts.open_turn.as_ref().and(facts.last_turn.clone()));
        match open {
            Some((message, _)) => Some(message),
            None => self.shared.queue.next_id(recorder),
        }
    }

    /// Sets aside the message whose turn brought the host down twice: it must not do so again and again. Other messages go
    /// on, and a person decides about this one.
    fn park(&mut self) -> Result<(), AgentError> {
        let Some(message_id) = self.next_message().filter(|_| self.running.is_none()) else {
            return Ok(());
        };
        let recorder = &self.shared.recorder;
        let retried = recorder.facts(|facts| facts.retried.clone().filter(|(message, _)| *message == message_id));
        let open = recorder.facts(|facts| facts.open_turn.is_some());
        let text = match (retried.map_or(0, |(_, times)| times), open) {
            // The first time is known by the turn that was open, the second by its retry.
            (1.., true) => {
                self.lease()?;
                let settled = self.settle_interrupted();
                self.end_lease();
                settled?;
                "The host stopped twice in the middle of this turn, so Lodge did not continue the turn. Resume it, or send \
                 another message."
            }
            (2.., false) => {
                recorder.record(LodgeMessageParked { message_id })?;
                "The host stopped twice when a waiting message was about to begin, so the message was set aside. Send, edit \
                 or move it to try again, or remove it."
            }
            _ => return Ok(()),
        };
        self.shared.recorder.record(SessionWarning {
            warning_type: "turn_parked".into(),
            message: text.into(),
            ..SessionWarning::default()
        })?;
        Ok(())
    }

    /// Like [`Actor::settle_interrupted`], when nothing follows it.
    pub(super) fn settle_alone(&mut self) -> Result<bool, AgentError> {
        if self.running.is_some() {
            return Ok(false);
        }
        self.lease()?;
        let settled = self.settle_interrupted();
        self.end_lease();
        settled
    }

    /// Calls the model again where a turn failed. Tool calls that the host did not live to finish are not run again: the
    /// model is told that they were interrupted.
    pub(super) fn resume(&mut self) -> Result<bool, AgentError> {
        if self.running.is_some() {
            return Err(AgentError::Busy);
        }
        self.lease()?;
        self.settle_interrupted()?;
        let recorder = &self.shared.recorder;
        let failed = recorder.facts(|facts| facts.failed_turn.as_ref().and(facts.last_turn.clone()));
        let Some((message_id, _)) = failed else {
            self.end_lease();
            return Ok(false);
        };
        let resumed = recorder.record(LodgeTurnResumed { message_id });
        if let Err(error) = resumed {
            self.end_lease();
            return Err(error.into());
        }
        self.start(Start::Resume);
        Ok(true)
    }

    /// A turn that the host did not live to finish is closed before anything new begins.
    pub(super) fn settle_interrupted(&mut self) -> Result<bool, AgentError> {
        let recorder = &self.shared.recorder;
        if self.running.is_some() {
            return Ok(false);
        }
        let agents = subagents::settle_interrupted(&self.shared)?;
        if recorder.facts(|facts| facts.open_turn.is_none()) {
            return Ok(agents);
        }
        turn::close_open_calls(&self.shared)?;
        turn::end_model_call(recorder)?;
        recorder.record(SessionInfo {
            info_type: INTERRUPTED_INFO.into(),
            message: INTERRUPTED_TURN.into(),
            ..SessionInfo::default()
        })?;
        Ok(true)
    }

    /// Whether a turn runs that goes on only when a client answers, and no client is there.
    pub(super) fn waits_for_nobody(&self) -> bool {
        let open = self
            .shared
            .recorder
            .facts(|facts| facts.open_turn.as_ref().map_or(0, |turn| turn.calls.len()));
        let asked = self.shared.pending.list().len();
        self.running.as_ref().is_some_and(|running| !running.compaction)
            && self.shared.clients.lock().iter().count() == 0
            && self.shared.agents.running().is_empty()
            && open > 0
            && asked >= open
    }

    /// Stops as if the host had gone down: the log says what is open, and whoever takes the session up decides about it.
    pub(super) async fn rest_in_the_log(&mut self) {
        if let Some(running) = self.running.take() {
            running.task.abort();
            let _ = running.task.await;
        }
        self.end_lease();
        self.leave().await;
    }
}
