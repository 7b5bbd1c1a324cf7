//! How the turn of one message ends, read from the events of its session.

use lodge_events::{COMMAND_SOURCE, Event, Payload};

use super::{RunOutcome, RunUsage};

/// Watches events for the end of a message's turn.
pub struct TurnWatch {
    message: String,
    /// Whether the turn has begun.
    begun: bool,
    /// Whether the agent's loop became idle. Results of sub-agents can make it continue.
    rested: bool,
    aborted: bool,
    failed: Option<(String, String)>,
    usage: RunUsage,
}

impl TurnWatch {
    /// Watches the turn of the message with this id.
    pub fn new(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            begun: false,
            rested: false,
            aborted: false,
            failed: None,
            usage: RunUsage::default(),
        }
    }

    /// Handles an event. Returns how the turn ended, if it ended with this event.
    pub fn event(&mut self, event: &Event) -> Option<RunOutcome> {
        let own = event.agent_id().is_none();
        match event.payload() {
            Payload::UserMessage(said) if own && said.message_id.as_deref() == Some(&self.message) => {
                (self.begun, self.aborted, self.rested) = (true, false, false);
            }
            // The next message has its own turn; a steering message comes before the loop is idle.
            Payload::UserMessage(_) if own && self.begun && self.rested => return Some(self.outcome()),
            Payload::LodgeUsage(used) if self.begun => {
                self.usage.model = Some(used.model.clone());
                self.usage.input += used.input_tokens.unwrap_or_default();
                self.usage.output += used.output_tokens.unwrap_or_default();
                self.usage.cache_read += used.cache_read_tokens.unwrap_or_default();
            }
            Payload::AssistantTurnStart(_) if own => {
                self.rested = false;
                self.failed = None;
            }
            Payload::SessionError(error) if own && self.begun => {
                self.failed = Some((error.error_type.clone(), error.message.clone()));
            }
            // It may have been aborted before it was recorded.
            Payload::Abort(_) if own => self.aborted = true,
            Payload::AssistantIdle(_) if own => self.rested = true,
            // The answer of a command is its whole turn.
            Payload::SessionInfo(info) if own && self.begun && info.info_type == COMMAND_SOURCE => self.rested = true,
            Payload::SessionIdle(_) => return self.at_rest(),
            _ => {}
        }
        None
    }

    /// How the turn ended, for a session that is idle now. `None` if it has not begun.
    pub(super) fn at_rest(&self) -> Option<RunOutcome> {
        (self.begun || self.aborted).then(|| self.outcome())
    }

    fn outcome(&self) -> RunOutcome {
        match &self.failed {
            _ if self.aborted => RunOutcome::Cancelled,
            Some((kind, message)) => RunOutcome::Failed {
                kind: kind.clone(),
                message: message.clone(),
            },
            None => RunOutcome::Completed(self.usage.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{
        Abort, AbortReason, AssistantIdle, AssistantTurnStart, LodgeUsage, SessionError, SessionIdle, UserMessage,
    };

    use super::*;

    fn said(id: &str) -> Payload {
        UserMessage {
            message_id: Some(id.into()),
            ..UserMessage::default()
        }
        .into()
    }

    fn check(events: Vec<Payload>, expected: &[Option<&str>]) {
        let mut watch = TurnWatch::new("mine");
        for (at, payload) in events.into_iter().enumerate() {
            let outcome = watch.event(&Event::new(None, None, payload));
            let name = outcome.map(|outcome| match outcome {
                RunOutcome::Completed(usage) => format!("completed {} {}", usage.input, usage.output),
                RunOutcome::Cancelled => "cancelled".to_owned(),
                RunOutcome::Failed { kind, message } => format!("failed {kind} {message}"),
            });
            assert_eq!(name.as_deref(), expected[at], "event {at}");
        }
    }

    fn usage(input: u64, output: u64) -> Payload {
        LodgeUsage {
            model: "m".into(),
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..LodgeUsage::default()
        }
        .into()
    }

    fn error() -> Payload {
        SessionError {
            error_type: "quota".into(),
            message: "none left".into(),
            ..SessionError::default()
        }
        .into()
    }

    fn abort() -> Payload {
        let reason = AbortReason::UserInitiated;
        Abort { reason }.into()
    }

    fn start() -> Payload {
        AssistantTurnStart::default().into()
    }

    fn rests() -> Payload {
        AssistantIdle::default().into()
    }

    fn idle() -> Payload {
        SessionIdle::default().into()
    }

    #[test]
    fn a_run_ends_as_the_events_of_its_turn_say() {
        // Earlier messages do not count.
        check(
            vec![
                said("other"),
                usage(9, 9),
                error(),
                idle(),
                said("mine"),
                start(),
                usage(1, 2),
                usage(3, 4),
                rests(),
                idle(),
            ],
            &[
                None,
                None,
                None,
                None,
                None,
                None,
                None,
                None,
                None,
                Some("completed 4 6"),
            ],
        );
        check(
            vec![said("mine"), start(), error(), rests(), idle()],
            &[None, None, None, None, Some("failed quota none left")],
        );
        // A successful retry is no failure.
        check(
            vec![said("mine"), start(), error(), start(), rests(), idle()],
            &[None, None, None, None, None, Some("completed 0 0")],
        );
        check(
            vec![said("mine"), start(), abort(), rests(), idle()],
            &[None, None, None, None, Some("cancelled")],
        );
        check(vec![abort(), idle()], &[None, Some("cancelled")]);
        // A steering message is part of the turn; a queued one is not.
        check(
            vec![said("mine"), start(), said("steers"), start(), rests(), said("next")],
            &[None, None, None, None, None, Some("completed 0 0")],
        );
    }
}
