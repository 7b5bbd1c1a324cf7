//! Text from a program: streamed to clients, then recorded as messages.

use lodge_events::{
    AssistantMessage, AssistantMessageDelta, AssistantMessageStart, AssistantReasoning, AssistantReasoningDelta,
    ToolRequest,
};
use lodge_log::LogError;
use lodge_models::ErrorKind;
use uuid::Uuid;

use super::{TURN_ID, Work, failed};
use crate::{partial::Partial, redact::Held, turn::Stop};

/// A program that says more than this in one message is stopped.
const LONGEST_TEXT: usize = 8 << 20;

/// Thoughts that stream.
pub(super) struct Thoughts {
    id: String,
    /// The program's own id of them.
    said_as: Option<String>,
    text: String,
    held: Held,
}

impl Default for Thoughts {
    fn default() -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            said_as: None,
            text: String::new(),
            held: Held::default(),
        }
    }
}

/// An answer that streams.
pub(super) struct Answer {
    pub(super) partial: Partial,
    /// The program's own id of it.
    said_as: Option<String>,
    text: String,
    held: Held,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            partial: Partial::new(Uuid::new_v4().to_string(), String::new()),
            said_as: None,
            text: String::new(),
            held: Held::default(),
        }
    }
}

/// Whether a text of this id is another message than the one that was said as the known id. Only some programs give ids.
fn is_another(known: &mut Option<String>, id: Option<String>) -> bool {
    let Some(id) = id else { return false };
    let before = known.replace(id);
    before.is_some() && before != *known
}

impl Work<'_> {
    pub(super) fn text(&mut self, text: String, id: Option<String>) -> Result<(), Stop> {
        if text.is_empty() {
            return Ok(());
        }
        self.end_thoughts();
        if is_another(&mut self.answer.said_as, id.clone()) {
            self.record_message(None)?;
            self.answer.said_as = id;
        }
        let recorder = &self.turn.shared.recorder;
        if self.answer.text.is_empty() {
            recorder.note(AssistantMessageStart {
                message_id: self.answer.partial.message_id.clone(),
                ..AssistantMessageStart::default()
            });
        }
        self.answer.text.push_str(&text);
        self.bounded(self.answer.text.len())?;
        let text = self.secrets.pass(&mut self.answer.held, text);
        self.tell_text(text);
        Ok(())
    }

    fn tell_text(&mut self, text: String) {
        if self.streaming && !text.is_empty() {
            self.answer.partial.push(&text);
            self.turn.shared.recorder.note(AssistantMessageDelta {
                message_id: self.answer.partial.message_id.clone(),
                delta_content: text,
                ..AssistantMessageDelta::default()
            });
            self.answer.partial.keep_if_long(self.turn, TURN_ID);
        }
    }

    pub(super) fn thought(&mut self, text: String, id: Option<String>) -> Result<(), Stop> {
        if text.is_empty() {
            return Ok(());
        }
        // What was said before it comes before it.
        if !self.answer.text.is_empty() {
            self.record_message(None)?;
        }
        if is_another(&mut self.thoughts.said_as, id.clone()) {
            self.end_thoughts();
            self.thoughts.said_as = id;
        }
        self.thoughts.text.push_str(&text);
        self.bounded(self.thoughts.text.len())?;
        let text = self.secrets.pass(&mut self.thoughts.held, text);
        self.tell_thought(text);
        Ok(())
    }

    fn tell_thought(&self, text: String) {
        if self.streaming && !text.is_empty() {
            self.turn.shared.recorder.note(AssistantReasoningDelta {
                reasoning_id: self.thoughts.id.clone(),
                delta_content: text,
            });
        }
    }

    fn bounded(&self, bytes: usize) -> Result<(), Stop> {
        if bytes <= LONGEST_TEXT {
            return Ok(());
        }
        let why = format!(
            "The agent {} said more than {LONGEST_TEXT} bytes at once and was stopped.",
            self.agent
        );
        Err(failed(ErrorKind::Connection, why))
    }

    /// Records thoughts as a whole once something else follows them.
    fn end_thoughts(&mut self) {
        if self.thoughts.text.is_empty() {
            return;
        }
        if let Some(rest) = self.thoughts.held.rest() {
            self.tell_thought(rest);
        }
        let Thoughts { id, text, .. } = std::mem::take(&mut self.thoughts);
        self.count_recorded(text.len());
        self.turn.shared.recorder.note(AssistantReasoning {
            reasoning_id: id,
            content: text,
            ..AssistantReasoning::default()
        });
    }

    /// Records what was said so far, with the call that follows it.
    pub(super) fn record_message(&mut self, request: Option<ToolRequest>) -> Result<(), LogError> {
        self.end_thoughts();
        if self.answer.text.is_empty() && request.is_none() {
            return Ok(());
        }
        if let Some(rest) = self.answer.held.rest() {
            self.tell_text(rest);
        }
        let Answer { partial, text, .. } = std::mem::take(&mut self.answer);
        if let Some(sub) = &self.turn.shared.sub
            && !text.trim().is_empty()
        {
            sub.task.activity.lock().response = Some(text.clone());
        }
        self.record(AssistantMessage {
            message_id: partial.message_id,
            model: Some(self.agent.clone()),
            content: text,
            tool_requests: Some(request.into_iter().collect()),
            interaction_id: Some(self.turn.interaction_id.clone()),
            turn_id: Some(TURN_ID.into()),
            originating_message_id: self.turn.message_id.clone(),
            ..AssistantMessage::default()
        })
    }
}
