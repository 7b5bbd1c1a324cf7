//! One session's log, for whoever reads it or writes to it.

use std::{fmt, time::Duration};

use crate::{
    Fleet, FleetError, Reader, Tip,
    jetstream::{Failure, JetStream, Stored},
    names::Place,
    reader::COPIES,
    record::{self, Kind},
};

/// How long a request that changes nothing, or nothing the second time, is repeated.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The log of one session in the fleet. There need not be one yet.
#[derive(Clone)]
pub struct FleetLog {
    fleet: Fleet,
    session: String,
    place: Place,
}

impl fmt::Debug for FleetLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetLog").field(&self.session).finish()
    }
}

impl FleetLog {
    pub(crate) fn new(fleet: Fleet, session: &str) -> Result<Self, FleetError> {
        let place = Place::of(session, fleet.shards())?;
        Ok(Self {
            fleet,
            session: session.to_owned(),
            place,
        })
    }

    /// The session's id.
    pub fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub(crate) fn jetstream(&self) -> &JetStream {
        self.fleet.jetstream()
    }

    /// The most bytes that one message holds itself.
    pub(crate) fn inline(&self) -> usize {
        self.fleet.inline()
    }

    /// Reads what comes after a place, up to where the log ends now. Every message is checked.
    ///
    /// # Errors
    /// [`FleetError::NotFound`] when there is no such log, [`FleetError::Deleted`] when there is none any more.
    pub async fn read(&self, after: Tip) -> Result<Reader, FleetError> {
        let end = self.end().await?.sequence;
        let after = match after {
            // Where the leader has it begin: a server that lags behind may still have what was deleted before that.
            Tip::START => self.beginning().await?,
            after => after,
        };
        Ok(Reader::new(self.clone(), after, end))
    }

    /// The place before the first message. An id that is used again has the message that its last session was deleted there.
    async fn beginning(&self) -> Result<Tip, FleetError> {
        let Some(first) = self.next(1).await? else {
            return Ok(Tip::START);
        };
        Ok(record::after_deletion(&first).unwrap_or(Tip {
            sequence: first.sequence - 1,
            ..Tip::START
        }))
    }

    /// The place after the message that the session was deleted, if that is the last one. A session of the same id begins there.
    pub(crate) async fn after_deletion(&self) -> Result<Option<Tip>, FleetError> {
        let last = self.last().await?;
        Ok(last.as_ref().and_then(record::after_deletion))
    }

    /// The last message of a log that is there.
    async fn end(&self) -> Result<Stored, FleetError> {
        let session = self.session.clone();
        match self.last().await? {
            None => Err(FleetError::NotFound { session }),
            Some(last) if record::is_newer(&last) => Err(self.newer()),
            Some(last) if record::kind(&last) == Some(Kind::Deleted) => Err(FleetError::Deleted { session }),
            Some(last) => Ok(last),
        }
    }

    /// Where the log ends, without looking at what is before that.
    pub(crate) async fn claimed_end(&self) -> Result<Tip, FleetError> {
        let last = self.end().await?;
        let unreadable = || self.damaged(last.sequence, "it does not say where the log ends".into());
        record::claimed_tip(&last).ok_or_else(unreadable)
    }

    /// Whether a place is one of this log. Then everything before it is what it was when somebody was there.
    pub(crate) async fn has(&self, tip: &Tip) -> Result<bool, FleetError> {
        let message = self.next(tip.sequence).await?;
        Ok(message.as_ref().and_then(record::claimed_tip).as_ref() == Some(tip))
    }

    /// The last message, as the stream's leader has it. One that the leader cannot read counts, too, if another server has it.
    pub(crate) async fn last(&self) -> Result<Option<Stored>, FleetError> {
        let Place { stream, log, .. } = &self.place;
        self.fleet
            .until_answered(&format!("read session {:?}", self.session), || async {
                let js = self.jetstream();
                if let Some(last) = js.last(stream, log).await? {
                    return Ok(Some(last));
                }
                if js.count(stream, log).await? == 0 {
                    return Ok(None);
                }
                // A server that lags behind has an earlier one.
                let mut found: Option<Stored> = None;
                for _ in 0..COPIES {
                    let last = js.last_of_any(stream, log).await?;
                    found = found.into_iter().chain(last).max_by_key(|last| last.sequence);
                }
                let unreadable = || Failure::unknown("no server that answered could read its last message");
                found.map(Some).ok_or_else(unreadable)
            })
            .await
    }

    /// The first message at or after a sequence, as the stream's leader has it.
    pub(crate) async fn next(&self, from: u64) -> Result<Option<Stored>, FleetError> {
        let Place { stream, log, .. } = &self.place;
        self.fleet
            .until_answered(&format!("read session {:?}", self.session), || {
                self.jetstream().next(stream, log, from)
            })
            .await
    }

    /// Removes what is left of a session that somebody deleted who did not get to the end of that. It can be repeated.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn finish_deletion(&self) -> Result<(), FleetError> {
        match self.last().await? {
            Some(last) => match record::after_deletion(&last) {
                Some(deleted) => self.purge(deleted).await,
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Removes what a deleted session leaves: all that is before the message that says so, and its owner.
    pub(crate) async fn purge(&self, deleted: Tip) -> Result<(), FleetError> {
        let Place {
            stream, log, bodies, ..
        } = &self.place;
        for subjects in [log.clone(), format!("{bodies}.>")] {
            let purged = self
                .jetstream()
                .purge(stream, &subjects, Some(deleted.sequence), PATIENCE)
                .await;
            purged.map_err(|failure| failure.into_error("delete a session", PATIENCE))?;
        }
        self.fleet.free_deleted(self, deleted.epoch).await
    }

    /// The error for whoever finds a message where its own was to be.
    pub(crate) fn replaced(&self, by: &Stored) -> FleetError {
        let session = self.session.clone();
        match (record::kind(by), record::owner(by)) {
            (Some(Kind::Deleted), _) => FleetError::Deleted { session },
            (_, Some(by)) => FleetError::Fenced { session, by },
            (_, None) => FleetError::Damaged {
                session,
                sequence: by.sequence,
                reason: "it was not written by a host".into(),
            },
        }
    }

    /// The error for whoever finds a message of a later version.
    pub(crate) fn newer(&self) -> FleetError {
        let what = format!("session {:?}", self.session);
        FleetError::NewerFormat { what }
    }

    pub(crate) fn damaged(&self, sequence: u64, reason: String) -> FleetError {
        FleetError::Damaged {
            session: self.session.clone(),
            sequence,
            reason,
        }
    }
}
