//! Appending to a session's log. Every append names the message that it follows: that is the fence. If another message
//! is there instead, nothing is written, and this writer never writes again.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    FileChange, FleetError, FleetLog, Owner,
    bodies::{self, MOST},
    jetstream::{Failure, keep_for},
    record::{self, Draft, Kind, Tip},
};

/// How long an append is tried while nobody says whether it was done.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many leaders of a stream are replaced at most for one append.
const LEADERS: u32 = 3;
/// How long the log of a deleted session says so. Nobody who was shut out writes to it after that.
const DELETED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The one who may write to a session's log, until somebody else claims it.
#[derive(Debug)]
pub struct Writer {
    log: FleetLog,
    owner: Owner,
    tip: Tip,
    /// Whether an append failed: where the log ends is not known any more.
    poisoned: bool,
}

/// What became of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in the log, at this sequence.
    Written(u64),
    /// Something else is in its place, and it can never be written.
    Replaced,
    /// Nothing is in its place: send it again.
    Open,
}

/// Decides by what the log holds right after the message that this one was to follow. Messages there never change, so
/// either answer but `Open` is for ever.
pub(crate) fn outcome(ours: Uuid, next: Option<(u64, Option<Uuid>)>) -> Outcome {
    match next {
        None => Outcome::Open,
        Some((sequence, Some(append))) if append == ours => Outcome::Written(sequence),
        Some(_) => Outcome::Replaced,
    }
}

impl Writer {
    pub(crate) fn new(log: FleetLog, owner: Owner, tip: Tip) -> Self {
        Self {
            log,
            owner,
            tip,
            poisoned: false,
        }
    }

    /// The log.
    pub fn log(&self) -> &FleetLog {
        &self.log
    }

    /// As whom this writes.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Where the log ends.
    pub fn tip(&self) -> Tip {
        self.tip
    }

    /// Whether an append failed, so that nothing more can be written.
    pub fn has_failed(&self) -> bool {
        self.poisoned
    }

    /// Looks whether the session is still this owner's, after a time in which others could take it: nothing was written since by anybody
    /// else, and its key is as it was.
    ///
    /// # Errors
    /// [`FleetError::Fenced`] or [`FleetError::Deleted`] when it is not; when the servers do not answer.
    pub async fn verify(&self) -> Result<(), FleetError> {
        let session = self.log.session().to_owned();
        if self.poisoned {
            return Err(FleetError::Poisoned { session });
        }
        if let Some(next) = self.log.next(self.tip.sequence + 1).await? {
            return Err(self.log.replaced(&next));
        }
        match self.log.fleet().key_owner(&self.log).await? {
            owner if owner == self.owner => Ok(()),
            by => Err(FleetError::Fenced { session, by }),
        }
    }

    /// Appends events as one message: all of them or none. When this returns, the quorum has them.
    ///
    /// # Errors
    /// [`FleetError::Fenced`] when somebody else wrote instead. After any error but those about the events themselves, the
    /// writer is good for nothing more: what was sent may or may not be in the log.
    pub async fn append(&mut self, events: &[Bytes]) -> Result<Tip, FleetError> {
        let size = events.iter().map(|event| event.len() + 1).sum::<usize>();
        if size > MOST {
            return Err(FleetError::TooLarge {
                bytes: size,
                most: MOST,
            });
        }
        let mut body = BytesMut::with_capacity(size);
        for event in events {
            if event.is_empty() || event.contains(&b'\n') {
                return Err(FleetError::NotOneLine {
                    session: self.log.session().to_owned(),
                });
            }
            if !body.is_empty() {
                body.extend_from_slice(b"\n");
            }
            body.extend_from_slice(event);
        }
        if body.is_empty() {
            return Ok(self.tip);
        }
        self.write(Kind::Events, events.len() as u64, body.freeze()).await
    }

    /// Says what became of files that the session keeps beside its log.
    pub(crate) async fn record_files(&mut self, changes: &[FileChange]) -> Result<Tip, FleetError> {
        let body = serde_json::to_vec(changes).expect("what became of files is plain data");
        self.write(Kind::Files, 0, body.into()).await
    }

    /// Claims the log: no earlier owner can write to it from here on.
    pub(crate) async fn claim(&mut self) -> Result<Tip, FleetError> {
        self.write(Kind::Claim, 0, Bytes::new()).await
    }

    /// Deletes the log. What stays for a day is a message that says so.
    pub async fn delete(mut self) -> Result<(), FleetError> {
        let deleted = self.write(Kind::Deleted, 0, Bytes::new()).await?;
        self.log.purge(deleted).await
    }

    async fn write(&mut self, kind: Kind, count: u64, body: Bytes) -> Result<Tip, FleetError> {
        if self.poisoned {
            return Err(FleetError::Poisoned {
                session: self.log.session().to_owned(),
            });
        }
        // Also for a caller that stops waiting: what it sent may be written later.
        self.poisoned = true;
        let tip = self.send(kind, count, body).await?;
        self.tip = tip;
        self.poisoned = false;
        Ok(tip)
    }

    async fn send(&self, kind: Kind, count: u64, body: Bytes) -> Result<Tip, FleetError> {
        let mut draft = Draft {
            append: Uuid::new_v4(),
            kind,
            owner: self.owner.clone(),
            count,
            body,
            elsewhere: None,
        };
        if draft.body.len() > self.log.inline() {
            draft.elsewhere = Some(bodies::put(&self.log, &draft.body).await?);
        }
        let (js, place) = (self.log.jetstream(), self.log.place());
        let payload = if draft.elsewhere.is_some() {
            Bytes::new()
        } else {
            draft.body.clone()
        };
        let mut headers = draft.headers(&self.tip);
        if kind == Kind::Deleted {
            keep_for(&mut headers, DELETED_FOR);
        }
        let after = draft.after(&self.tip);
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(20);
        let mut leaders = LEADERS;
        loop {
            let sent = js.publish(&place.log, self.tip.sequence, headers.clone(), payload.clone());
            let failure = match sent.await {
                Ok(sequence) => return Ok(Tip { sequence, ..after }),
                Err(failure) => failure,
            };
            let next = js.next(&place.stream, &place.log, self.tip.sequence + 1).await;
            if let Ok(next) = next {
                let found = next.as_ref().map(|next| (next.sequence, record::append_id(next)));
                match (outcome(draft.append, found), next) {
                    (Outcome::Written(sequence), _) => return Ok(Tip { sequence, ..after }),
                    (Outcome::Replaced, Some(next)) => return Err(self.log.replaced(&next)),
                    // Nothing follows, and yet the log does not end there: the leader has damaged its end.
                    _ if failure.is_wrong_last_sequence() && leaders > 0 => {
                        leaders -= 1;
                        js.change_leader(&place.stream).await;
                    }
                    _ => {}
                }
            }
            if let Failure::Refused { code: 0, .. } = failure {
                return Err(failure.into_error("append to a log", PATIENCE));
            }
            if Instant::now() >= deadline {
                return Err(failure.into_error(format!("append to session {:?}", self.log.session()), PATIENCE));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}
