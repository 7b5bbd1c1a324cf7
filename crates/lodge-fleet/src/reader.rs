//! Reading a session's log in pages, each message checked against the one before it.

use std::{collections::VecDeque, time::Duration};

use tokio::time::sleep;

use crate::{
    FleetError, FleetLog, Record, Tip, bodies,
    jetstream::Stored,
    record::{self, Kind},
};

/// So many times whichever server answers is asked for what the leader has damaged: each time, one of them at random does.
pub(crate) const COPIES: usize = 8;
/// And so many times with a pause: the others may be cut off, and the leader with them, longer than they take to elect another one.
const LATER: usize = 16;
const PAUSE: Duration = Duration::from_secs(1);

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
            self.page = self.fetch().await.into();
        }
        let record = match self.take_next().await {
            Err(FleetError::Damaged { .. }) => {
                self.page.clear();
                self.fetch_undamaged().await?
            }
            other => other?,
        };
        self.tip = record.tip;
        Ok(Some(record))
    }

    async fn take_next(&mut self) -> Result<Record, FleetError> {
        let message = self.page.pop_front();
        self.check(message.as_ref()).await
    }

    /// The next message as the stream's leader has it, or else whichever server has it undamaged.
    async fn fetch_undamaged(&self) -> Result<Record, FleetError> {
        let from = self.tip.sequence + 1;
        let of_leader = self.log.next(from).await?;
        let mut checked = self.check(of_leader.as_ref()).await;
        let (js, place) = (self.log.jetstream(), self.log.place());
        for tried in 0..COPIES + LATER {
            if !matches!(checked, Err(FleetError::Damaged { .. })) {
                break;
            }
            if tried >= COPIES {
                sleep(PAUSE).await;
            }
            // A server that does not answer says nothing about what the others have.
            if let Ok(of_any) = js.next_of_any(&place.stream, &place.log, from).await {
                let again = self.check(of_any.as_ref()).await;
                checked = again.or(checked);
            }
        }
        checked
    }

    async fn check(&self, message: Option<&Stored>) -> Result<Record, FleetError> {
        match message {
            Some(message) => check(&self.log, message, &self.tip).await,
            None => Err(self.log.damaged(self.end, "the messages up to it are gone".into())),
        }
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

    async fn fetch(&self) -> Vec<Stored> {
        let (js, place) = (self.log.jetstream(), self.log.place());
        let from = self.tip.sequence + 1;
        // Any copy will do for what it has; what it has not, or damaged, is asked of the leader.
        js.batch(&place.stream, &place.log, from).await.unwrap_or_default()
    }
}

/// Fetches the body of a message where it is elsewhere, and checks that the message follows.
pub(crate) async fn check(log: &FleetLog, message: &Stored, tip: &Tip) -> Result<Record, FleetError> {
    if record::is_newer(message) {
        return Err(log.newer());
    }
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
