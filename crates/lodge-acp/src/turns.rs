//! The prompts of a client that are not answered yet, and how each ends.

use lodge_events::{Event, Payload, RemovalReason};
use lodge_host::{RunOutcome, TurnWatch};
use lodge_rpc::{AUTH_REQUIRED, Error};
use tokio::sync::oneshot;

/// Why a turn stopped, or what went wrong.
pub(crate) type Stopped = Result<&'static str, Error>;

pub(crate) const END_TURN: &str = "end_turn";
pub(crate) const CANCELLED: &str = "cancelled";

/// A prompt that is not answered yet.
pub(crate) struct Turn {
    pub(crate) message_id: String,
    watch: TurnWatch,
    /// Whether the agent has the message; before that nothing can be stopped.
    sent: bool,
    /// Whether the message is part of the conversation.
    begun: bool,
    cancelled: bool,
    stop_reason: &'static str,
    /// Why the message did not become part of the conversation, if it does not.
    error: Option<Error>,
    pub(crate) answer: oneshot::Sender<Stopped>,
}

/// What has to be stopped for a prompt that is cancelled.
#[derive(Debug, PartialEq)]
pub(crate) enum ToStop {
    Turn,
    /// It waits, or is about to begin.
    Message(String),
    /// These messages, and whatever runs.
    All(Vec<String>),
}

#[derive(Default)]
pub(crate) struct Turns {
    open: Vec<Turn>,
    /// Whether the last turn of the session failed or was stopped.
    failed: bool,
}

impl Turns {
    pub(crate) fn add(&mut self, message_id: &str, answer: oneshot::Sender<Stopped>) {
        self.open.push(Turn {
            watch: TurnWatch::new(message_id),
            message_id: message_id.to_owned(),
            sent: false,
            begun: false,
            cancelled: false,
            stop_reason: END_TURN,
            error: None,
            answer,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a turn of the client's own runs.
    pub(crate) fn any_begun(&self) -> bool {
        self.open.iter().any(|turn| turn.begun)
    }

    /// Cancels all. What is not sent yet is stopped when it is.
    pub(crate) fn cancel_all(&mut self) -> ToStop {
        for turn in &mut self.open {
            turn.cancelled = true;
        }
        let waiting = self.open.iter().filter(|turn| turn.sent && !turn.begun);
        ToStop::All(waiting.map(|turn| turn.message_id.clone()).collect())
    }

    /// Cancels one. What is not sent yet is stopped when it is.
    pub(crate) fn cancel(&mut self, message_id: &str) -> Option<ToStop> {
        let turn = self.open.iter_mut().find(|turn| turn.message_id == message_id)?;
        turn.cancelled = true;
        match (turn.sent, turn.begun) {
            (false, _) => None,
            (true, true) => Some(ToStop::Turn),
            (true, false) => Some(ToStop::Message(message_id.to_owned())),
        }
    }

    /// The agent has a message. It may have to be stopped already.
    pub(crate) fn sent(&mut self, message_id: &str) -> Option<ToStop> {
        let turn = self.open.iter_mut().find(|turn| turn.message_id == message_id)?;
        turn.sent = true;
        match turn.cancelled {
            true => self.cancel(message_id),
            false => None,
        }
    }

    /// Takes out one that no event ends.
    pub(crate) fn take(&mut self, message_id: &str) -> Option<Turn> {
        let at = self.open.iter().position(|turn| turn.message_id == message_id)?;
        Some(self.open.remove(at))
    }

    pub(crate) fn take_all(&mut self) -> Vec<Turn> {
        std::mem::take(&mut self.open)
    }

    /// The prompts whose turns end with this event, and how.
    pub(crate) fn event(&mut self, event: &Event) -> Vec<(Turn, Stopped)> {
        let own = event.agent_id().is_none();
        match event.payload() {
            Payload::SessionError(_) | Payload::Abort(_) if own => self.failed = true,
            Payload::AssistantTurnStart(_) if own => self.failed = false,
            _ => {}
        }
        let mut ended = Vec::new();
        for mut turn in std::mem::take(&mut self.open) {
            match turn.event(event) {
                Some(stopped) => ended.push((turn, stopped)),
                None => self.open.push(turn),
            }
        }
        ended
    }

    /// The messages that nobody takes up while the session rests: what was queued before a turn failed waits for a word of the
    /// person, and a client that waits for its answer has none. Their removal from the queue ends them.
    pub(crate) fn stranded(&mut self) -> Vec<String> {
        if !self.failed {
            return Vec::new();
        }
        let stranded = self.open.iter_mut().filter(|turn| turn.sent && !turn.begun);
        let unsent = "The turn before this message failed, so it was not sent. Send it again.";
        stranded
            .map(|turn| {
                turn.error = Some(Error::internal(unsent));
                turn.message_id.clone()
            })
            .collect()
    }
}

impl Turn {
    /// How the turn ended, if it did with this event.
    fn event(&mut self, event: &Event) -> Option<Stopped> {
        let own = event.agent_id().is_none();
        match event.payload() {
            Payload::UserMessage(said) if own && said.message_id.as_deref() == Some(&self.message_id) => {
                self.begun = true;
            }
            Payload::LodgeMessageRemoved(removed) if !self.begun && removed.ids.contains(&self.message_id) => {
                return Some(match self.error.take() {
                    Some(error) if removed.why != RemovalReason::Aborted && !self.cancelled => Err(error),
                    _ => Ok(CANCELLED),
                });
            }
            Payload::SessionError(error) if own && !self.begun => {
                self.error = Some(Error::internal(&error.message));
            }
            Payload::SessionWarning(warning) if own => match warning.warning_type.as_str() {
                "answer_cut" => self.stop_reason = "max_tokens",
                "answer_filtered" => self.stop_reason = "refusal",
                _ => {}
            },
            // What the model said after that stands for it.
            Payload::AssistantMessage(_) if own => self.stop_reason = END_TURN,
            _ => {}
        }
        let outcome = self.watch.event(event)?;
        // A message that was not taken up is told by its removal.
        self.begun.then_some(match outcome {
            RunOutcome::Completed(_) => Ok(self.stop_reason),
            RunOutcome::Cancelled => Ok(CANCELLED),
            RunOutcome::Failed { kind, message } if kind == "authentication" => Err(Error::new(AUTH_REQUIRED, message)),
            RunOutcome::Failed { message, .. } => Err(Error::internal(message)),
        })
    }

    /// How it ends when what it said was refused.
    pub(crate) fn refused(&self, error: Error) -> Stopped {
        if self.cancelled { Ok(CANCELLED) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{LodgeMessageRemoved, SessionError, SessionIdle};

    use super::*;

    #[test]
    fn a_message_that_is_known_as_sent_only_after_the_turn_before_it_failed_is_answered() {
        let mut turns = Turns::default();
        let (answer, _answered) = oneshot::channel();
        turns.add("mine", answer);
        let event = |payload: Payload| Event::new(None, None, payload);
        let failed = SessionError {
            message: "no".into(),
            ..SessionError::default()
        };
        assert!(turns.event(&event(failed.into())).is_empty());
        assert!(turns.event(&event(SessionIdle::default().into())).is_empty());
        assert!(turns.stranded().is_empty(), "nothing is sent yet");
        assert_eq!(turns.sent("mine"), None);
        assert_eq!(turns.stranded(), ["mine"]);
        let removed = LodgeMessageRemoved {
            ids: vec!["mine".into()],
            why: RemovalReason::Removed,
        };
        let ended = turns.event(&event(removed.into()));
        let error = ended[0].1.as_ref().unwrap_err();
        assert!(error.message.contains("Send it again"), "{error:?}");
        assert!(turns.is_empty());
    }

    #[test]
    fn a_prompt_that_is_cancelled_before_the_agent_has_it_is_stopped_when_it_has() {
        let mut turns = Turns::default();
        let (answer, _answered) = oneshot::channel();
        turns.add("mine", answer);
        assert_eq!(turns.cancel("mine"), None);
        assert_eq!(turns.sent("mine"), Some(ToStop::Message("mine".into())));
    }

    #[test]
    fn a_prompt_that_waits_while_nothing_runs_is_taken_back_when_its_session_is_cancelled() {
        let mut turns = Turns::default();
        for id in ["waits", "unsent"] {
            let (answer, _answered) = oneshot::channel();
            turns.add(id, answer);
        }
        assert_eq!(turns.sent("waits"), None);
        assert_eq!(turns.cancel_all(), ToStop::All(vec!["waits".into()]));
        let removed = LodgeMessageRemoved {
            ids: vec!["waits".into()],
            why: RemovalReason::Removed,
        };
        let ended = turns.event(&Event::new(None, None, removed));
        assert_eq!(ended[0].1.as_ref().unwrap(), &CANCELLED);
        assert_eq!(turns.sent("unsent"), Some(ToStop::Message("unsent".into())));
    }
}
