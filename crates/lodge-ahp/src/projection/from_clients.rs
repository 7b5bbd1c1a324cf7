//! What clients do to a conversation, which the projection is told so that it knows it when it comes back as events.

use std::collections::HashMap;

use ahp_types::state::{Message, MessageKind};
use lodge_events::{LodgeMessageWritten, Uuid};
use lodge_host::Written;

use super::{Projector, Question, message::completed};
use crate::chats::shown_message;

impl Projector {
    /// The log is about to be read. Given is how messages were written where it does not tell.
    pub(crate) fn read_history(&mut self, written: HashMap<String, Written>) {
        let written = written.into_iter().map(|(id, written)| (id, shown(written)));
        (self.said, self.reading) = (written.collect(), true);
    }

    /// The log tells how a message was written. Of one that was accepted just now that is known.
    pub(super) fn written(&mut self, written: &LodgeMessageWritten) {
        if self.reading || !self.said.contains_key(&written.message_id) {
            self.said.insert(written.message_id.clone(), shown(written.into()));
        }
    }

    /// The log was read: only what waits at the agent is still to be shown.
    pub(crate) fn history_read(&mut self) {
        let Self { said, queue, .. } = self;
        said.retain(|id, _| queue.waits(id));
    }

    /// A client's message is about to be accepted: this is how it is written, if more is known than the log tells. How it was
    /// written before.
    pub(crate) fn accepted(&mut self, id: &str, message: Option<Message>) -> Option<Message> {
        match message {
            Some(message) => self.said.insert(id.to_owned(), message),
            None => self.said.remove(id),
        }
    }

    /// A message as its client wrote it, if more is known than the log tells.
    pub(super) fn as_written(&self, id: &str, logged: Message) -> Message {
        match self.said.get(id) {
            Some(kept) => completed(kept.clone(), logged),
            None => logged,
        }
    }

    /// Whether this is the last turn, and failed in a way that it can be resumed.
    pub(crate) fn can_resume(&self, id: &str) -> bool {
        self.main.turn.is_none() && self.main.failed.as_ref().is_some_and(|turn| turn.id == id)
    }

    /// The first turns are not shown.
    pub(crate) fn hide(&mut self, turns: usize) {
        self.marks.drain(..turns.min(self.marks.len()));
        if self.marks.is_empty() {
            self.main.last_turn = None;
        }
    }

    /// The last recorded event of a turn.
    pub(crate) fn last_event_of(&self, turn: &str) -> Option<Uuid> {
        self.marks.iter().find(|mark| mark.turn == turn).map(|mark| mark.last)
    }

    /// The first recorded event after a turn, if there is one; without a turn, the first of all. `None` when the log does not
    /// tell where the turn ends.
    pub(crate) fn first_event_after(&self, turn: Option<&str>) -> Option<Option<Uuid>> {
        let next = match turn {
            Some(turn) => self.marks.iter().position(|mark| mark.turn == turn)? + 1,
            None => 0,
        };
        Some(self.marks.get(next).map(|mark| mark.first))
    }

    /// The conversation was cut after this turn.
    pub(crate) fn truncated(&mut self, last: Option<&str>) {
        let keep = last
            .and_then(|turn| self.marks.iter().position(|mark| mark.turn == turn))
            .map_or(0, |at| at + 1);
        self.marks.truncate(keep);
        self.main.turn = None;
        self.main.failed = None;
        self.main.last_turn = last.map(str::to_owned);
        self.main.muted = true;
    }

    /// Which client runs which tool.
    pub(crate) fn set_client_tools(&mut self, tools: HashMap<String, String>) {
        self.left_tools.extend(self.client_tools.keys().cloned());
        self.left_tools.retain(|name| !tools.contains_key(name));
        self.client_tools = tools;
    }

    /// The open question of this id, or about this tool call.
    pub(crate) fn question(&self, about: &str) -> Option<(&str, &Question)> {
        let direct = self.questions.get_key_value(about);
        let found = direct.or_else(|| {
            self.questions
                .iter()
                .find(|(_, question)| question.tool_call_id() == Some(about))
        });
        found.map(|(id, question)| (id.as_str(), question))
    }
}

fn shown(written: Written) -> Message {
    let kind = match written.by_automation {
        true => MessageKind::Automation,
        false => MessageKind::User,
    };
    shown_message(written.message, kind)
}
