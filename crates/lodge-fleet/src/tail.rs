//! Following a session's log as it grows. The servers say each message again once it is stored; such words can get lost, and
//! then the log itself is read.

use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use tokio::time::timeout;

use crate::{
    FleetError, FleetLog, Reader, Record, Tip,
    jetstream::{Stored, announced},
    reader,
};

/// How soon the log is looked at after a silence; each further silence doubles it.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// How long a lost word can go unnoticed at most.
const LAST_LOOK: Duration = Duration::from_secs(60);

/// What a log holds from a place on, without an end.
#[derive(Debug)]
pub struct Tail {
    log: FleetLog,
    tip: Tip,
    stored: Subscriber,
    /// What the log has and nobody said.
    missed: Option<Reader>,
    look_after: Duration,
}

impl Tail {
    pub(crate) async fn new(log: FleetLog, tip: Tip) -> Result<Self, FleetError> {
        let subscribed = log.jetstream().subscribe(log.place().tail.clone()).await;
        let stored = subscribed.map_err(|error| unavailable(&log, error))?;
        let mut tail = Self {
            log,
            tip,
            stored,
            missed: None,
            look_after: FIRST_LOOK,
        };
        tail.look().await?;
        Ok(tail)
    }

    /// Where the log is after what was given out.
    pub fn tip(&self) -> Tip {
        self.tip
    }

    /// The next message, when there is one.
    ///
    /// # Errors
    /// [`FleetError::Deleted`] when there will be none, [`FleetError::Damaged`] when one is not what was written.
    pub async fn next(&mut self) -> Result<Record, FleetError> {
        loop {
            if let Some(missed) = &mut self.missed {
                match missed.next().await? {
                    Some(record) => {
                        self.tip = record.tip;
                        return Ok(record);
                    }
                    None => self.missed = None,
                }
            }
            match timeout(self.look_after, self.stored.next()).await {
                Ok(Some(word)) => {
                    self.look_after = FIRST_LOOK;
                    let Some((message, previous)) = announced(word) else {
                        self.look().await?;
                        continue;
                    };
                    if let Some(record) = self.take(&message, previous).await? {
                        return Ok(record);
                    }
                }
                Ok(None) => return Err(unavailable(&self.log, "the connection was closed")),
                Err(_) => {
                    self.look_after = (self.look_after * 2).min(LAST_LOOK);
                    self.look().await?;
                }
            }
        }
    }

    async fn take(&mut self, message: &Stored, previous: u64) -> Result<Option<Record>, FleetError> {
        if message.sequence <= self.tip.sequence {
            return Ok(None);
        }
        if previous != self.tip.sequence {
            self.look().await?;
            return Ok(None);
        }
        let record = reader::check(&self.log, message, &self.tip).await?;
        self.tip = record.tip;
        Ok(Some(record))
    }

    /// Has what the log holds beyond what is known read next.
    async fn look(&mut self) -> Result<(), FleetError> {
        self.missed = match self.log.read(self.tip).await {
            Err(FleetError::NotFound { .. }) if self.tip == Tip::START => None,
            other => Some(other?),
        };
        Ok(())
    }
}

fn unavailable(log: &FleetLog, reason: impl std::fmt::Display) -> FleetError {
    FleetError::Unavailable {
        action: format!("follow session {:?}", log.session()),
        seconds: 0,
        reason: reason.to_string(),
    }
}
