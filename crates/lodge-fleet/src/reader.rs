//! Reading a session's log in pages, each message checked against the one before it.

use std::collections::VecDeque;

use crate::{
    FleetError, FleetLog, Record, Tip, bodies,
    jetstream::Stored,
    record::{self, Kind},
};

/// Gives the messages of a log one by one.
#[derive(Debug)]
pub struct Reader {
    log: FleetLog,
    tip: Tip,
    /// The last message that is read.
    end: u64,
    page: VecDeque<Stored>,
}

impl Reader {
    pub(crate) fn new(log: FleetLog, tip: Tip, end: u64) -> Self {
        Self {
            log,
            tip,
            end,
            page: VecDeque::new(),
        }
    }

    /// Where the log is after what was read.
    pub fn tip(&self) -> Tip {
        self.tip
    }

    /// The next message; nothing at the end.
    ///
    /// # Errors
    /// [`FleetError::Damaged`] when a message is missing or is not what was written.
    pub async fn next(&mut self) -> Result<Option<Record>, FleetError> {
        if self.tip.sequence >= self.end {
            return Ok(None);
        }
        if self.page.is_empty() {
            self.page = self.fetch().await?.into();
        }
        let Some(message) = self.page.pop_front() else {
            return Err(self.log.damaged(self.end, "the messages up to it are gone".into()));
        };
        let record = check(&self.log, &message, &self.tip).await?;
        self.tip = record.tip;
        Ok(Some(record))
    }

    /// Whether the log has no events: somebody claimed it to create a session, and went no further.
    pub(crate) async fn has_claims_only(mut self) -> Result<bool, FleetError> {
        while let Some(record) = self.next().await? {
            if !record.events.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All events up to the end.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub async fn events(mut self) -> Result<(Vec<bytes::Bytes>, Tip), FleetError> {
        let mut events = Vec::new();
        while let Some(record) = self.next().await? {
            events.extend(record.events);
        }
        Ok((events, self.tip))
    }

    async fn fetch(&self) -> Result<Vec<Stored>, FleetError> {
        let (js, place) = (self.log.jetstream(), self.log.place());
        let from = self.tip.sequence + 1;
        // Any copy will do for what it has; what it has not is asked of the leader.
        if let Ok(page) = js.batch(&place.stream, &place.log, from).await
            && !page.is_empty()
        {
            return Ok(page);
        }
        let next = self.log.next(from).await?;
        Ok(next.into_iter().collect())
    }
}

/// Fetches the body of a message where it is elsewhere, and checks that the message follows.
pub(crate) async fn check(log: &FleetLog, message: &Stored, tip: &Tip) -> Result<Record, FleetError> {
    if record::kind(message) == Some(Kind::Deleted) {
        // What was before it is gone or going.
        return Err(log.replaced(message));
    }
    let damaged = |reason| log.damaged(message.sequence, reason);
    let body = match record::body_elsewhere(message) {
        Some(name) => bodies::get(log, name).await?.map_err(damaged)?,
        None => message.payload.clone(),
    };
    record::check(message, body, tip).map_err(damaged)
}
