//! Who a session belongs to: a key with host and epoch, changed by whoever knows what it was.

use std::{fmt, time::Duration};

use async_nats::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use crate::{
    Fleet, FleetError, FleetLog, Host, Record, Tip, Writer,
    fleet::OWNERS,
    jetstream::{Failure, Stored, keep_for},
    log::PATIENCE,
    names,
    writer::{Outcome, outcome},
};

/// The subjects of all keys.
const KEYS: &str = "$KV.lodge-owners.*";
/// How long somebody who takes a session over tries to change its key before looking again who owns it. In that time an owner whose
/// lease had run out may be back.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long the key of a deleted session stays: longer than the list says that the session was deleted.
const DELETED_FOR: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// The header that tells one change of a key from another.
const CHANGE: &str = "Lodge-Append";

/// A host as the owner of a session, for the time of one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The host's id; empty when nobody owns the session.
    pub host: String,
    /// Goes up by one whenever somebody takes the session over.
    pub epoch: u64,
}

impl Owner {
    /// Nobody, before the first epoch.
    pub(crate) fn nobody() -> Self {
        Self {
            host: String::new(),
            epoch: 0,
        }
    }

    /// Nobody, in the same epoch.
    fn gone(self) -> Self {
        Self {
            host: String::new(),
            ..self
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {} (epoch {})", self.host, self.epoch)
    }
}

/// What somebody who takes a session expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// No log: [`FleetError::Exists`] otherwise.
    Create,
    /// A log: [`FleetError::NotFound`] otherwise.
    Open,
}

/// The key of a session, as it was read.
struct Key {
    revision: u64,
    owner: Option<Owner>,
}

impl Host {
    /// Takes a session that nobody alive owns, and hands every message of its log to `take_in` on the way, oldest first: from
    /// `known` on, which is what the caller has checked before. When this returns, no earlier owner can write to the log.
    ///
    /// # Errors
    /// [`FleetError::Owned`] while another host lives that owns it; [`FleetError::Fenced`] when another host took it since;
    /// what `take_in` says.
    pub async fn take(
        &self,
        session: &str,
        intent: Intent,
        known: Tip,
        mut take_in: impl FnMut(&Record) -> Result<(), FleetError>,
    ) -> Result<Writer, FleetError> {
        let log = self.fleet().log(session)?;
        // Before the key is touched: a session that will not be taken keeps its owner.
        match (intent, log.read(known).await) {
            (Intent::Open, Ok(_)) => {}
            (Intent::Create, Err(FleetError::NotFound { .. })) => {}
            // Whoever deleted the last session of this id may not have got to the end of that.
            (Intent::Create, Err(FleetError::Deleted { .. })) => log.finish_deletion().await?,
            (Intent::Create, Ok(reader)) => {
                if !reader.has_claims_only().await? {
                    return Err(exists(&log));
                }
            }
            (_, Err(error)) => return Err(error),
        }
        let above = match intent {
            // The list may still say that a session of this id was deleted, and nothing replaces what a later owner said.
            Intent::Create => self.fleet().listed(session).await?.map_or(0, |entry| entry.epoch),
            Intent::Open => 0,
        };
        let mut owner = self.own(&log, above).await?;
        let taken = self.claim(&log, &mut owner, intent, known, &mut take_in).await;
        if taken.is_err()
            && let Err(error) = self.give_back(&log, &owner).await
        {
            tracing::warn!(session, %error, "a session that could not be opened stays with this host until its lease expires");
        }
        taken
    }

    /// Takes a session that is to be deleted. What its log holds is not read.
    ///
    /// # Errors
    /// As [`Host::take`].
    pub async fn take_to_delete(&self, session: &str) -> Result<Writer, FleetError> {
        let end = self.fleet().log(session)?.claimed_end().await?;
        self.take(session, Intent::Open, end, |_| Ok(())).await
    }

    /// Reads the log and claims it as `owner`, whose epoch goes up when the log knows a later one.
    async fn claim(
        &self,
        log: &FleetLog,
        owner: &mut Owner,
        intent: Intent,
        known: Tip,
        take_in: &mut impl FnMut(&Record) -> Result<(), FleetError>,
    ) -> Result<Writer, FleetError> {
        let mut tip = known;
        loop {
            match log.read(tip).await {
                Ok(mut reader) => {
                    while let Some(record) = reader.next().await? {
                        take_in(&record)?;
                        tip = record.tip;
                    }
                }
                Err(FleetError::NotFound { .. }) if tip == Tip::START => {}
                Err(FleetError::Deleted { .. }) if intent == Intent::Create => match log.after_deletion().await? {
                    Some(deleted) => tip = deleted,
                    None => continue,
                },
                Err(error) => return Err(error),
            }
            if intent == Intent::Create && tip.events > 0 {
                return Err(exists(log));
            }
            if tip.epoch >= owner.epoch {
                // The log knows of a later owner than the key did: the key was lost, or another host is faster.
                *owner = self.own(log, tip.epoch).await?;
                continue;
            }
            let mut writer = Writer::new(log.clone(), owner.clone(), tip);
            match writer.claim().await {
                Ok(_) => return Ok(writer),
                // Something of an earlier owner came in between: it counts, and then the claim is tried again.
                Err(FleetError::Fenced { by, .. }) if by.epoch < owner.epoch => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives a session up, so that another host need not wait for the lease to run out.
    ///
    /// # Errors
    /// When the servers do not answer; the session then belongs to this host until its lease runs out.
    pub async fn release(&self, writer: Writer) -> Result<(), FleetError> {
        self.give_back(writer.log(), writer.owner()).await
    }

    async fn give_back(&self, log: &FleetLog, owner: &Owner) -> Result<(), FleetError> {
        self.replace_if(log, |current| current == owner, Owner::gone).await
    }

    /// Gives a session up that is this host's although nothing here writes to it: the servers were away when it was released, for
    /// example. `is_unused` is asked after its key was read, so that a session which this host takes meanwhile stays its own.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn free(&self, session: &str, is_unused: impl FnOnce() -> bool) -> Result<(), FleetError> {
        let log = self.fleet().log(session)?;
        let may_go = |owner: &Owner| owner.host == self.id() && is_unused();
        self.replace_if(&log, may_go, Owner::gone).await
    }

    async fn replace_if(
        &self,
        log: &FleetLog,
        may_go: impl FnOnce(&Owner) -> bool,
        by: impl FnOnce(Owner) -> Owner,
    ) -> Result<(), FleetError> {
        let key = self.fleet().key(log).await?;
        if let Some(owner) = key.owner.filter(|owner| may_go(owner)) {
            self.fleet()
                .change(log, key.revision, &by(owner), None, PATIENCE)
                .await?;
        }
        Ok(())
    }

    /// Refuses a session of another host that lives.
    pub(crate) async fn check_free(&self, session: &str) -> Result<(), FleetError> {
        let log = self.fleet().log(session)?;
        let owner = self.fleet().key(&log).await?.owner;
        self.check_gone(&log, &owner.unwrap_or_else(Owner::nobody)).await
    }

    async fn check_gone(&self, log: &FleetLog, owner: &Owner) -> Result<(), FleetError> {
        let foreign = !owner.host.is_empty() && owner.host != self.id();
        if foreign && self.fleet().is_alive(&owner.host).await? {
            return Err(FleetError::Owned {
                session: log.session().to_owned(),
                owner: owner.clone(),
            });
        }
        Ok(())
    }

    /// Makes this host the owner in the session's key, with an epoch above `above`.
    async fn own(&self, log: &FleetLog, above: u64) -> Result<Owner, FleetError> {
        let fleet = self.fleet();
        let deadline = Instant::now() + PATIENCE;
        let mut former = None;
        loop {
            let key = fleet.key(log).await?;
            let current = key.owner.unwrap_or_else(Owner::nobody);
            self.check_gone(log, &current).await?;
            let owner = Owner {
                host: self.id().to_owned(),
                epoch: current.epoch.max(above) + 1,
            };
            if current.host != self.id() {
                former = Some(current);
            }
            match fleet.change(log, key.revision, &owner, None, ATTEMPT).await {
                Ok(true) => {}
                Ok(false) => continue,
                // Its owner may have come back meanwhile, so everything is looked at again.
                Err(FleetError::Unavailable { .. }) if Instant::now() < deadline => continue,
                Err(error) => return Err(error),
            }
            let Some(former) = former else { return Ok(owner) };
            // As it may have while this was on its way.
            return match self.check_gone(log, &former).await {
                Ok(()) => Ok(owner),
                Err(error) => {
                    self.replace_if(log, |current| *current == owner, |_| former).await?;
                    Err(error)
                }
            };
        }
    }
}

impl Fleet {
    /// Who owns a session; nobody when it was given up, or never was anybody's.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn owner(&self, session: &str) -> Result<Option<Owner>, FleetError> {
        let owner = self.key(&self.log(session)?).await?.owner;
        Ok(owner.filter(|owner| !owner.host.is_empty()))
    }

    /// The sessions that belong to a host, alive or not.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn owners(&self) -> Result<Vec<(String, Owner)>, FleetError> {
        let mut owners = Vec::new();
        let mut from = 1;
        loop {
            // Every session has one key, so all messages of the stream are all keys.
            let page = self
                .until_answered("list owners", || self.jetstream().batch(OWNERS, KEYS, from))
                .await?;
            let Some(last) = page.last() else { return Ok(owners) };
            from = last.sequence + 1;
            for key in page {
                let session = key.subject.rsplit('.').next().and_then(names::session);
                let owner: Option<Owner> = serde_json::from_slice(&key.payload).ok();
                if let (Some(session), Some(owner)) = (session, owner)
                    && !owner.host.is_empty()
                {
                    owners.push((session, owner));
                }
            }
        }
    }

    /// Makes a session that was deleted in this epoch nobody's, whoever had it. The key stays for a while: its epoch is below that of
    /// whoever uses the id again.
    pub(crate) async fn free_deleted(&self, log: &FleetLog, epoch: u64) -> Result<(), FleetError> {
        loop {
            let key = self.key(log).await?;
            let is_its = |owner: &Owner| !owner.host.is_empty() && owner.epoch <= epoch;
            let Some(owner) = key.owner.filter(is_its) else {
                return Ok(());
            };
            let nobody = owner.gone();
            let freed = self.change(log, key.revision, &nobody, Some(DELETED_FOR), PATIENCE);
            if freed.await? {
                return Ok(());
            }
        }
    }

    /// Who the key of a session names.
    pub(crate) async fn key_owner(&self, log: &FleetLog) -> Result<Owner, FleetError> {
        Ok(self.key(log).await?.owner.unwrap_or_else(Owner::nobody))
    }

    async fn key(&self, log: &FleetLog) -> Result<Key, FleetError> {
        let subject = subject(log);
        let found = self
            .until_answered("look up an owner", || self.jetstream().last(OWNERS, &subject))
            .await?;
        Ok(Key {
            revision: found.as_ref().map_or(0, |found| found.sequence),
            owner: found.and_then(|found| serde_json::from_slice(&found.payload).ok()),
        })
    }

    /// Changes a key if it is still as it was at `revision`, for good or for some time. Answers whether it was. It is tried for `patience`.
    async fn change(
        &self,
        log: &FleetLog,
        revision: u64,
        owner: &Owner,
        time: Option<Duration>,
        patience: Duration,
    ) -> Result<bool, FleetError> {
        let change = Uuid::new_v4();
        let mut headers = HeaderMap::new();
        if let Some(time) = time {
            keep_for(&mut headers, time);
        }
        headers.insert(CHANGE, change.to_string());
        let text = serde_json::to_vec(owner).expect("an owner is plain data");
        let (js, subject) = (self.jetstream(), subject(log));
        let deadline = Instant::now() + patience;
        loop {
            let sent = js.publish(&subject, revision, headers.clone(), text.clone().into());
            let sent = timeout_at(deadline, sent).await;
            let failure = match sent.unwrap_or_else(|late| Err(Failure::unknown(late))) {
                Ok(_) => return Ok(true),
                Err(failure) => failure,
            };
            if let Ok(Ok(last)) = timeout_at(deadline, js.last(OWNERS, &subject)).await {
                let after = last.filter(|last| last.sequence > revision);
                match outcome(change, after.as_ref().map(|last| (last.sequence, change_id(last)))) {
                    Outcome::Written(_) => return Ok(true),
                    // It may have been ours for a moment. Whoever changed it since did not wait for us.
                    Outcome::Replaced => return Ok(false),
                    Outcome::Open => {}
                }
            }
            if Instant::now() >= deadline {
                return Err(failure.into_error("change an owner", patience));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn exists(log: &FleetLog) -> FleetError {
    FleetError::Exists {
        session: log.session().to_owned(),
    }
}

fn change_id(message: &Stored) -> Option<Uuid> {
    message.header(CHANGE)?.parse().ok()
}

fn subject(log: &FleetLog) -> String {
    format!("$KV.lodge-owners.{}", log.place().word)
}
