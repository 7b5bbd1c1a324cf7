//! Messages whose sender waits for the end of the turn, and how each turn ended.

use lodge_events::{Event, Payload, RemovalReason};

use crate::{RunOutcome, TurnWatch};

/// How a turn that somebody waits for ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnding {
    /// The agent came to rest.
    Completed,
    /// The answer is cut off.
    Cut,
    /// The provider withheld the answer.
    Filtered,
    /// Somebody cancelled it.
    Cancelled,
    /// It failed.
    Failed {
        /// What kind of failure it is.
        kind: String,
        /// What failed.
        message: String,
    },
}

/// A message whose sender waits. `T` is how the sender is told.
pub struct AwaitedTurn<T> {
    /// The message's id.
    pub message_id: String,
    watch: TurnWatch,
    /// Whether the agent has the message; before that nothing can be stopped.
    sent: bool,
    /// Whether the message is part of the conversation.
    begun: bool,
    cancelled: bool,
    completed: TurnEnding,
    /// Why the message did not become part of the conversation, if it does not.
    error: Option<String>,
    /// How the sender is told.
    pub answer: T,
}

/// What has to be stopped for a message that is cancelled.
#[derive(Debug, PartialEq)]
pub enum ToStop {
    /// The turn that runs.
    Turn,
    /// It waits, or is about to begin.
    Message(String),
    /// These messages, and whatever runs.
    All(Vec<String>),
}

/// The messages whose senders wait.
pub struct AwaitedTurns<T> {
    open: Vec<AwaitedTurn<T>>,
    /// Whether the last turn of the session failed or was stopped.
    failed: bool,
}

impl<T> Default for AwaitedTurns<T> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            failed: false,
        }
    }
}

impl<T> AwaitedTurns<T> {
    /// Waits for the turn of this message, too.
    pub fn add(&mut self, message_id: &str, answer: T) {
        self.open.push(AwaitedTurn {
            watch: TurnWatch::new(message_id),
            message_id: message_id.to_owned(),
            sent: false,
            begun: false,
            cancelled: false,
            completed: TurnEnding::Completed,
            error: None,
            answer,
        });
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether one of these turns runs.
    pub fn any_begun(&self) -> bool {
        self.open.iter().any(|turn| turn.begun)
    }

    /// Cancels all. What is not sent yet is stopped when it is.
    pub fn cancel_all(&mut self) -> ToStop {
        for turn in &mut self.open {
            turn.cancelled = true;
        }
        let waiting = self.open.iter().filter(|turn| turn.sent && !turn.begun);
        ToStop::All(waiting.map(|turn| turn.message_id.clone()).collect())
    }

    /// Cancels one. What is not sent yet is stopped when it is.
    pub fn cancel(&mut self, message_id: &str) -> Option<ToStop> {
        let turn = self.open.iter_mut().find(|turn| turn.message_id == message_id)?;
        turn.cancelled = true;
        match (turn.sent, turn.begun) {
            (false, _) => None,
            (true, true) => Some(ToStop::Turn),
            (true, false) => Some(ToStop::Message(message_id.to_owned())),
        }
    }

    /// The agent has a message. It may have to be stopped already.
    pub fn sent(&mut self, message_id: &str) -> Option<ToStop> {
        let turn = self.open.iter_mut().find(|turn| turn.message_id == message_id)?;
        turn.sent = true;
        match turn.cancelled {
            true => self.cancel(message_id),
            false => None,
        }
    }

    /// Takes out one that no event ends.
    pub fn take(&mut self, message_id: &str) -> Option<AwaitedTurn<T>> {
        let at = self.open.iter().position(|turn| turn.message_id == message_id)?;
        Some(self.open.remove(at))
    }

    /// Takes out all.
    pub fn take_all(&mut self) -> Vec<AwaitedTurn<T>> {
        std::mem::take(&mut self.open)
    }

    /// The turns that end with this event, and how.
    pub fn event(&mut self, event: &Event) -> Vec<(AwaitedTurn<T>, TurnEnding)> {
        let own = event.agent_id().is_none();
        match event.payload() {
            Payload::SessionError(_) | Payload::Abort(_) if own => self.failed = true,
            Payload::AssistantTurnStart(_) if own => self.failed = false,
            _ => {}
        }
        let mut ended = Vec::new();
        for mut turn in std::mem::take(&mut self.open) {
            match turn.event(event) {
                Some(ending) => ended.push((turn, ending)),
                None => self.open.push(turn),
            }
        }
        ended
    }

    /// The messages that nobody takes up while the session rests: what was queued before a turn failed waits for a word of the
    /// person, and a sender who waits for its end has none. Their removal from the queue ends them.
    pub fn stranded(&mut self) -> Vec<String> {
        if !self.failed {
            return Vec::new();
        }
        let stranded = self.open.iter_mut().filter(|turn| turn.sent && !turn.begun);
        let unsent = "The turn before this message failed, so it was not sent. Send it again.";
        stranded
            .map(|turn| {
                turn.error = Some(unsent.to_owned());
                turn.message_id.clone()
            })
            .collect()
    }
}

impl<T> AwaitedTurn<T> {
    /// How the turn ended, if it did with this event.
    fn event(&mut self, event: &Event) -> Option<TurnEnding> {
        let own = event.agent_id().is_none();
        match event.payload() {
            Payload::UserMessage(said) if own && said.message_id.as_deref() == Some(&self.message_id) => {
                self.begun = true;
            }
            Payload::LodgeMessageRemoved(removed) if !self.begun && removed.ids.contains(&self.message_id) => {
                return Some(match self.error.take() {
                    Some(error) if removed.why != RemovalReason::Aborted && !self.cancelled => failed(error),
                    _ => TurnEnding::Cancelled,
                });
            }
            Payload::SessionError(error) if own && !self.begun => {
                self.error = Some(error.message.clone());
            }
            Payload::SessionWarning(warning) if own => match warning.warning_type.as_str() {
                "answer_cut" => self.completed = TurnEnding::Cut,
                "answer_filtered" => self.completed = TurnEnding::Filtered,
                _ => {}
            },
            // What the model said after that stands for it.
            Payload::AssistantMessage(_) if own => self.completed = TurnEnding::Completed,
            _ => {}
        }
        let outcome = self.watch.event(event)?;
        // A message that was not taken up is told by its removal.
        self.begun.then_some(match outcome {
            RunOutcome::Completed(_) => self.completed.clone(),
            RunOutcome::Cancelled => TurnEnding::Cancelled,
            RunOutcome::Failed { kind, message } => TurnEnding::Failed { kind, message },
        })
    }

    /// How it ends if its message was refused for this reason.
    pub fn refused<E>(&self, error: E) -> Result<TurnEnding, E> {
        if self.cancelled {
            Ok(TurnEnding::Cancelled)
        } else {
            Err(error)
        }
    }
}

fn failed(message: String) -> TurnEnding {
    let kind = "unsent".to_owned();
    TurnEnding::Failed { kind, message }
}

#[cfg(test)]
mod tests {
    use lodge_events::{LodgeMessageRemoved, SessionError, SessionIdle};

    use super::*;

    #[test]
    fn a_message_that_is_known_as_sent_only_after_the_turn_before_it_failed_is_answered() {
        let mut turns = AwaitedTurns::default();
        turns.add("mine", ());
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
        let TurnEnding::Failed { message, .. } = &ended[0].1 else {
            panic!("{:?}", ended[0].1)
        };
        assert!(message.contains("Send it again"), "{message}");
        assert!(turns.is_empty());
    }

    #[test]
    fn a_prompt_that_is_cancelled_before_the_agent_has_it_is_stopped_when_it_has() {
        let mut turns = AwaitedTurns::default();
        turns.add("mine", ());
        assert_eq!(turns.cancel("mine"), None);
        assert_eq!(turns.sent("mine"), Some(ToStop::Message("mine".into())));
    }

    #[test]
    fn a_prompt_that_waits_while_nothing_runs_is_taken_back_when_its_session_is_cancelled() {
        let mut turns = AwaitedTurns::default();
        for id in ["waits", "unsent"] {
            turns.add(id, ());
        }
        assert_eq!(turns.sent("waits"), None);
        assert_eq!(turns.cancel_all(), ToStop::All(vec!["waits".into()]));
        let removed = LodgeMessageRemoved {
            ids: vec!["waits".into()],
            why: RemovalReason::Removed,
        };
        let ended = turns.event(&Event::new(None, None, removed));
        assert_eq!(ended[0].1, TurnEnding::Cancelled);
        assert_eq!(turns.sent("unsent"), Some(ToStop::Message("unsent".into())));
    }
}
