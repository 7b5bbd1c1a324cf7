//! The list of a fleet's sessions: one key per session, in which its owner describes it. Every host follows all of them.

use std::{collections::VecDeque, time::Duration};

use async_nats::{HeaderMap, Subscriber};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Fleet, FleetError,
    fleet::SESSIONS,
    jetstream::{Stored, announced, keep_for},
    log::PATIENCE,
    names,
};

/// The subjects of all keys, and what the servers repeat them on.
pub(crate) const KEYS: &str = "$KV.lodge-sessions.*";
pub(crate) const REPEATED: &str = "lodge.listed.";
/// How long the list says that a session was deleted. A host that hears nothing of its fleet for longer is started again.
const DELETED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How soon the list is read after a silence: a lost word goes unnoticed for no longer.
const LOOK: Duration = Duration::from_secs(10);

/// What the list says of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The host that says it.
    pub host: String,
    /// The epoch in which that host owns or owned the session.
    pub epoch: u64,
    /// Whether the session is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// What the host says; this room does not read it.
    #[serde(default)]
    pub about: Value,
}

impl Entry {
    /// Whether this may take the place of another: no host describes a session that a later owner described.
    fn may_replace(&self, other: &Entry) -> bool {
        self.epoch > other.epoch || self.epoch == other.epoch && !other.deleted
    }
}

impl Fleet {
    /// Describes a session. Answers false, and changes nothing, when a later owner did so already.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn describe(&self, session: &str, entry: &Entry) -> Result<bool, FleetError> {
        let subject = self.listed_at(session)?;
        let text = serde_json::to_vec(entry).expect("an entry is plain data");
        let mut headers = HeaderMap::new();
        if entry.deleted {
            keep_for(&mut headers, DELETED_FOR);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self
                .until_answered("read the list of sessions", || {
                    self.jetstream().last(SESSIONS, &subject)
                })
                .await?;
            let known = found
                .as_ref()
                .and_then(|found| serde_json::from_slice(&found.payload).ok());
            if known.is_some_and(|known: Entry| !entry.may_replace(&known)) {
                return Ok(false);
            }
            let revision = found.map_or(0, |found| found.sequence);
            // Whether a message that nobody acknowledged was written does not matter: it says the same.
            let sent = self
                .jetstream()
                .publish(&subject, revision, headers.clone(), text.clone().into());
            match sent.await {
                Ok(_) => return Ok(true),
                Err(failure) if Instant::now() >= deadline => {
                    return Err(failure.into_error("write the list of sessions", PATIENCE));
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn listed_at(&self, session: &str) -> Result<String, FleetError> {
        Ok(format!("$KV.lodge-sessions.{}", self.log(session)?.place().word))
    }

    /// What the list says of one session.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn listed(&self, session: &str) -> Result<Option<Entry>, FleetError> {
        let subject = self.listed_at(session)?;
        let found = self
            .until_answered("read the list of sessions", || {
                self.jetstream().last(SESSIONS, &subject)
            })
            .await?;
        Ok(found.and_then(|found| serde_json::from_slice(&found.payload).ok()))
    }

    /// Follows the list from its beginning on.
    ///
    /// # Errors
    /// When the servers cannot be reached.
    pub async fn listing(&self) -> Result<Listing, FleetError> {
        let repeated = self.jetstream().subscribe(format!("{REPEATED}*")).await;
        let repeated = repeated.map_err(unavailable)?;
        Ok(Listing {
            fleet: self.clone(),
            repeated,
            next: 1,
            read: VecDeque::new(),
            complete: false,
        })
    }
}

/// The list as it changes.
pub struct Listing {
    fleet: Fleet,
    repeated: Subscriber,
    /// The sequence that was not read yet.
    next: u64,
    read: VecDeque<Stored>,
    complete: bool,
}

/// What changed in the list.
#[derive(Debug, Clone, PartialEq)]
pub enum Listed {
    /// A session, and what is said of it now.
    Session(String, Entry),
    /// Nothing for a while: all that the servers have was given out.
    Nothing,
}

impl Listing {
    /// Gives everything out once more.
    pub fn restart(&mut self) {
        self.next = 1;
        self.complete = false;
        self.read.clear();
    }

    /// The next change; or that there is none so far.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn next(&mut self) -> Result<Listed, FleetError> {
        loop {
            if let Some(stored) = self.read.pop_front() {
                self.next = stored.sequence + 1;
                match change(&stored) {
                    Some(change) => return Ok(change),
                    None => continue,
                }
            }
            if !self.complete {
                self.look().await?;
                self.complete = self.read.is_empty();
                if self.complete {
                    return Ok(Listed::Nothing);
                }
                continue;
            }
            match timeout(LOOK, self.repeated.next()).await {
                Ok(Some(word)) => match announced(word) {
                    Some((stored, _)) if stored.sequence == self.next => self.read.push_back(stored),
                    Some((stored, _)) if stored.sequence < self.next => {}
                    // Some were missed. A server that lags behind may not have them yet.
                    _ => self.complete = false,
                },
                Ok(None) => return Err(unavailable("the connection was closed")),
                Err(_) => self.complete = false,
            }
        }
    }

    async fn look(&mut self) -> Result<(), FleetError> {
        let (fleet, from) = (&self.fleet, self.next);
        let page = fleet.until_answered("read the list of sessions", || {
            fleet.jetstream().batch(SESSIONS, KEYS, from)
        });
        self.read = page.await?.into();
        Ok(())
    }
}

fn change(stored: &Stored) -> Option<Listed> {
    let session = names::session(stored.subject.rsplit('.').next()?)?;
    Some(Listed::Session(session, serde_json::from_slice(&stored.payload).ok()?))
}

fn unavailable(reason: impl std::fmt::Display) -> FleetError {
    FleetError::Unavailable {
        action: "follow the list of sessions".into(),
        seconds: 0,
        reason: reason.to_string(),
    }
}
