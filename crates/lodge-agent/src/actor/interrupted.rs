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

/// How long to wait for a turn of another process. A killed process may take a moment to end, while its killer
/// continues at once.
const DYING: Duration = Duration::from_secs(1);

/// How long an early answer waits for its question.
const EARLY_ANSWER: Duration = Duration::from_secs(5);

/// How often locking a session's directory is tried, and the pause between attempts.
const LEASE_TRIES: u32 = 5;
const LEASE_PAUSE: Duration = Duration::from_millis(1);

impl Actor {
    /// Makes sure that no other process runs a turn in this session while one runs here. The lock is on the session's
    /// directory; if that cannot be locked, there are no other processes.
    pub(super) fn lease(&mut self) -> Result<(), AgentError> {
        if self.lease.is_none() {
            self.lease = std::fs::File::open(&self.shared.dir).ok();
        }
        for _ in 0..LEASE_TRIES {
            match self.lease.as_ref().map(std::fs::File::try_lock) {
                // Another process may only be checking whether it is locked.
                Some(Err(std::fs::TryLockError::WouldBlock)) => std::thread::sleep(LEASE_PAUSE),
                _ => return Ok(()),
            }
        }
        Err(AgentError::InUse)
    }

    /// Waits for a while until no other process runs a turn in this session. If one still runs, [`Actor::lease`]
    /// reports it.
    pub(super) async fn wait_for_others(&mut self) {
        // While work is done here, there is no other process.
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

    /// After a restart, open questions are asked again under the ids that clients know. An answer may come before its
    /// question, and then waits for it.
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

    /// Resumes work that was open or waiting when the host stopped.
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

    /// The message whose turn is running, or comes next.
    fn next_message(&self) -> Option<String> {
        let recorder = &self.shared.recorder;
        let open = recorder.facts(|facts| facts.open_turn.as_ref().and(facts.last_turn.clone()));
        match open {
            Some((message, _)) => Some(message),
            None => self.shared.queue.next_id(recorder),
        }
    }

    /// Parks the message whose turn brought the host down twice, so that it does not happen again and again. Other
    /// messages continue, and a person decides about this one.
    fn park(&mut self) -> Result<(), AgentError> {
        let Some(message_id) = self.next_message().filter(|_| self.running.is_none()) else {
            return Ok(());
        };
        let recorder = &self.shared.recorder;
        let retried = recorder.facts(|facts| facts.retried.clone().filter(|(message, _)| *message == message_id));
        let open = recorder.facts(|facts| facts.open_turn.is_some());
        let text = match (retried.map_or(0, |(_, times)| times), open) {
            // The first time is known from the open turn, the second from its retry.
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

    /// Like [`Actor::settle_interrupted`], if nothing follows it.
    pub(super) fn settle_alone(&mut self) -> Result<bool, AgentError> {
        if self.running.is_some() {
            return Ok(false);
        }
        self.lease()?;
        let settled = self.settle_interrupted();
        self.end_lease();
        settled
    }

    /// Calls the model again after a failed turn. Interrupted tool calls do not run again; the model learns that they
    /// were interrupted.
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

    /// Closes a turn that was running when the host stopped, before anything new begins.
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

    /// Whether the running turn only waits for clients, and none is attached.
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

    /// Stops as if the host had stopped: the log says what is open, and the client that resumes the session decides
    /// about it.
    pub(super) async fn rest_in_the_log(&mut self) {
        if let Some(running) = self.running.take() {
            running.task.abort();
            let _ = running.task.await;
        }
        self.end_lease();
        self.leave().await;
    }
}
