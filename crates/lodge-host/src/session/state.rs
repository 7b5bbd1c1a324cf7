//! The state of a session according to its log: any process that reads the log could tell it.

use lodge_agent::Facts;
use lodge_log::Progress;

use super::Session;
use crate::SessionSummary;

impl Session {
    /// The state of the session, folded from its log.
    pub fn state(&self) -> Facts {
        self.agent().facts()
    }

    /// Reads a part of it. Meanwhile, nothing is recorded.
    pub fn look<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        self.agent().look(look)
    }

    /// The progress of the conversation.
    pub fn progress(&self) -> Progress {
        self.agent().progress()
    }

    /// The session's entry in lists, as it is now.
    pub fn summary(&self) -> Option<SessionSummary> {
        let host = self.0.host.upgrade()?;
        host.summary(self.id()).ok().flatten()
    }
}
