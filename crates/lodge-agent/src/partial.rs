//! Records a streaming answer as it grows, so that a killed host loses only the last moment of it.

use std::{pin::Pin, time::Duration};

use lodge_events::LodgePartial;
use tokio::time::Sleep;

use crate::turn::Turn;

/// It is written down whenever so much of it has come, …
const KEEP_BYTES: usize = 4096;
/// … and so long after something of it came at the latest.
const KEEP_AFTER: Duration = Duration::from_secs(1);

/// What clients were told of an answer, and how much of it is written down.
pub(crate) struct Partial {
    pub(crate) message_id: String,
    told: String,
    kept: usize,
    /// When the rest has to be written down, while there is one.
    due: Option<Pin<Box<Sleep>>>,
}

impl Partial {
    /// An answer of which so much was told and written down before.
    pub(crate) fn new(message_id: String, told: String) -> Self {
        Self {
            message_id,
            kept: told.len(),
            told,
            due: None,
        }
    }

    /// Takes what clients are told next.
    pub(crate) fn push(&mut self, text: &str) {
        self.told.push_str(text);
        if self.kept < self.told.len() {
            self.due.get_or_insert_with(|| Box::pin(tokio::time::sleep(KEEP_AFTER)));
        }
    }

    /// Waits until the rest has to be written down; for ever while there is none.
    pub(crate) async fn due(&mut self) {
        match &mut self.due {
            Some(due) => due.as_mut().await,
            None => std::future::pending().await,
        }
    }

    /// Writes the rest down if it is long.
    pub(crate) fn keep_if_long(&mut self, turn: &Turn, turn_id: &str) {
        if self.told.len() - self.kept >= KEEP_BYTES {
            self.keep(turn, turn_id);
        }
    }

    /// Writes down what clients were told since the last time.
    pub(crate) fn keep(&mut self, turn: &Turn, turn_id: &str) {
        self.due = None;
        if self.kept == self.told.len() {
            return;
        }
        let piece = LodgePartial {
            message_id: self.message_id.clone(),
            at: self.kept as u64,
            content: self.told[self.kept..].to_owned(),
            turn_id: Some(turn_id.into()),
            interaction_id: Some(turn.interaction_id.clone()),
            originating_message_id: turn.message_id.clone(),
        };
        self.kept = self.told.len();
        turn.shared.recorder.note(piece);
    }
}
