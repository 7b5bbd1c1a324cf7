//! A host of the fleet: its lease, which says that it lives, and what it tells the others about itself.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::HeaderMap;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tokio::{task::JoinHandle, time::sleep};
use uuid::Uuid;

use crate::{Fleet, FleetError, clock::Moment, fleet::HOSTS, jetstream::Stored, names, record::hex};

/// How long a host counts as alive after it last said so.
pub const LEASE: Duration = Duration::from_secs(10);
/// How often it says so.
const RENEW: Duration = Duration::from_secs(3);
/// By how much a host gives itself up before others may: clocks do not all run at the same speed.
const MARGIN: Duration = Duration::from_secs(2);

/// So many characters at the end of a host's id tell its starts apart.
const START: usize = 8;
/// The subjects of all leases.
const LEASES: &str = "$KV.lodge-hosts.*";

/// What a host says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The name that people know it by.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Which home it serves. People know hosts by their names, so two homes cannot share one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// Whether it takes no more sessions, because it is about to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// How many sessions it has in memory.
    #[serde(default)]
    pub live: usize,
}

/// A host that lives, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInfo {
    /// Its id: its name, its home, and which start of it.
    pub id: String,
    /// What it says of itself.
    pub announcement: Announcement,
}

/// This process as a host of the fleet. Its lease is given back with [`Host::leave`]; otherwise it runs out.
pub struct Host {
    fleet: Fleet,
    id: String,
    lease: Lease,
    announcement: Arc<Mutex<Announcement>>,
    renewing: JoinHandle<()>,
}

/// Whether this host's lease still holds. Cheap to ask, to be asked right before something that must not happen twice.
#[derive(Clone)]
pub struct Lease {
    /// Until when, in milliseconds of [`Moment`].
    until: Arc<AtomicU64>,
    /// How many terms there were: a lease that had run out begins another one.
    terms: Arc<AtomicU64>,
    guard: Arc<Guard>,
}

/// Hears of each term of a lease, before anybody goes by it: when it was taken and when it ends, as times since the boot.
type Guard = dyn Fn(Duration, Duration) + Send + Sync;

impl Lease {
    /// Whether others still have to leave this host's sessions alone.
    pub fn holds(&self) -> bool {
        Moment::now().0.as_millis() < u128::from(self.until.load(Ordering::Acquire))
    }

    /// The number of the term that the lease is in, while it holds. Between two terms, another host may have taken any session.
    pub fn term(&self) -> Option<u64> {
        // A term is counted before it begins to hold.
        self.holds().then(|| self.terms.load(Ordering::Acquire))
    }

    /// How long ago the servers last took a renewal.
    pub fn age(&self) -> Duration {
        let renewed = Duration::from_millis(self.until.load(Ordering::Acquire)).saturating_sub(LEASE - MARGIN);
        Moment::now().0.saturating_sub(renewed)
    }

    fn extend(&self, asked: Moment) {
        let until = asked.0 + LEASE - MARGIN;
        (self.guard)(Moment::now().0, until);
        if !self.holds() {
            self.terms.fetch_add(1, Ordering::AcqRel);
        }
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.until.fetch_max(millis, Ordering::AcqRel);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Host {
    /// Joins the fleet. Every start is a host of its own: what an earlier process of the same name sent may still be on its way.
    ///
    /// # Errors
    /// When the servers do not take the lease; [`FleetError::NameTaken`] when a host of another home has the name.
    pub async fn join(fleet: &Fleet, announcement: Announcement) -> Result<Self, FleetError> {
        Self::join_with_guard(fleet, announcement, |_, _| {}).await
    }

    /// The same for a host that starts programs. `guard` hears of each term of the lease, before anybody goes by it: when it was
    /// taken and when it ends, as times since the machine was started. It ends the host's programs with the lease, also while the
    /// host itself is stopped.
    ///
    /// # Errors
    /// As [`Host::join`].
    pub async fn join_with_guard(
        fleet: &Fleet,
        announcement: Announcement,
        guard: impl Fn(Duration, Duration) + Send + Sync + 'static,
    ) -> Result<Self, FleetError> {
        let home = hex(&digest(&SHA256, announcement.home.as_bytes()).as_ref()[..4]);
        let start = Uuid::new_v4().simple().to_string();
        let id = format!("{}-{home}{}", announcement.name, &start[..START]);
        let lease = Lease {
            until: Arc::default(),
            terms: Arc::default(),
            guard: Arc::new(guard),
        };
        fleet
            .until_answered("take a lease", || renew(fleet, &id, announcement.clone(), &lease))
            .await?;
        let announcement = Arc::new(Mutex::new(announcement));
        let renewing = tokio::spawn({
            let (fleet, id, lease, announcement) = (fleet.clone(), id.clone(), lease.clone(), announcement.clone());
            async move {
                let said = || announcement.lock().unwrap_or_else(PoisonError::into_inner).clone();
                loop {
                    sleep(RENEW).await;
                    while let Err(error) = renew(&fleet, &id, said(), &lease).await {
                        tracing::warn!(host = id, %error, "the lease could not be renewed");
                        sleep(Duration::from_millis(300)).await;
                    }
                }
            }
        });
        let host = Self {
            fleet: fleet.clone(),
            id,
            lease,
            announcement,
            renewing,
        };
        // After it has a lease, so that of two which come at once at least one sees the other.
        if let Some(other) = host.namesake().await? {
            host.leave().await?;
            return Err(FleetError::NameTaken {
                name: host.name().to_owned(),
                other,
            });
        }
        Ok(host)
    }

    /// Another host of this name that serves another home. Hosts of earlier versions do not say which they serve.
    async fn namesake(&self) -> Result<Option<String>, FleetError> {
        let Announcement { name, home, .. } = self.announcement.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_other = |other: &Announcement| other.name == name && other.home != home && !other.home.is_empty();
        if home.is_empty() {
            return Ok(None);
        }
        // From the leader: of two hosts that come at once, other servers may know neither.
        let leases = self
            .fleet
            .until_answered("list hosts", || self.fleet.jetstream().all(HOSTS, LEASES))
            .await?;
        let mut others = leases.iter().filter_map(host_info);
        Ok(others.find(|other| is_other(&other.announcement)).map(|other| other.id))
    }

    /// Whether an id is that of this host, or of an earlier start of it: of the same name, with the same home.
    pub fn was(&self, id: &str) -> bool {
        is_start_of(&self.id, id)
    }

    /// The host's name, which stays when it is started again.
    pub fn name(&self) -> &str {
        name_of(&self.id)
    }

    /// The host's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The fleet.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Changes what this host says of itself with the next renewal of the lease.
    pub fn announce(&self, change: impl FnOnce(&mut Announcement)) {
        change(&mut self.announcement.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Gives the lease back: others may take this host's sessions at once.
    ///
    /// # Errors
    /// When the servers cannot be told. The lease then runs out by itself.
    pub async fn leave(&self) -> Result<(), FleetError> {
        self.renewing.abort();
        self.lease.until.store(0, Ordering::Release);
        let purged = self.fleet.jetstream().purge(HOSTS, &key(&self.id), None, LEASE).await;
        purged.map_err(|failure| failure.into_error("give a lease back", LEASE))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

impl Fleet {
    /// The hosts that live.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn hosts(&self) -> Result<Vec<HostInfo>, FleetError> {
        let leases = self
            .until_answered("list hosts", || self.jetstream().last_of_each(HOSTS, LEASES))
            .await?;
        Ok(leases.iter().filter_map(host_info).collect())
    }

    /// Whether a host's lease has not run out, as the leader of the leases has it.
    pub(crate) async fn is_alive(&self, host: &str) -> Result<bool, FleetError> {
        let key = key(host);
        let lease = self
            .until_answered("read a lease", || self.jetstream().last(HOSTS, &key))
            .await?;
        Ok(lease.is_some_and(|lease| !lease.payload.is_empty()))
    }
}

async fn renew(
    fleet: &Fleet,
    id: &str,
    announcement: Announcement,
    lease: &Lease,
) -> Result<(), crate::jetstream::Failure> {
    // From before it is asked: the servers count from later on.
    let asked = Moment::now();
    let text = serde_json::to_vec(&announcement).expect("an announcement is plain data");
    fleet.jetstream().put(&key(id), HeaderMap::new(), text.into()).await?;
    lease.extend(asked);
    Ok(())
}

fn key(host: &str) -> String {
    format!("$KV.lodge-hosts.{}", names::word(host))
}

fn host_info(lease: &Stored) -> Option<HostInfo> {
    Some(HostInfo {
        id: names::session(lease.subject.rsplit('.').next()?)?,
        announcement: serde_json::from_slice(&lease.payload).ok()?,
    })
}

fn name_of(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(name, _)| name)
}

/// Whether an id is that of a start of the host that now has the id `host`.
fn is_start_of(host: &str, id: &str) -> bool {
    // In ids that earlier versions gave, only the start follows the name.
    let start = id.strip_prefix(name_of(host)).and_then(|rest| rest.strip_prefix('-'));
    let is_earlier = start.is_some_and(|start| start.len() == START && start.bytes().all(|b| b.is_ascii_hexdigit()));
    is_earlier || without_start(id) == without_start(host)
}

/// What every start of a host has in its id. Nothing where an id is of another shape.
fn without_start(id: &str) -> Option<&str> {
    id.get(..id.len().checked_sub(START)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_knows_its_earlier_starts_also_those_of_an_earlier_version() {
        let host = "my-laptop-0123456789abcdef";
        for (id, expected) in [
            (host, true),
            ("my-laptop-01234567ffffffff", true),
            ("my-laptop-ffffffff", true),
            ("my-laptop-ffffffffffffffff", false),
            ("my-laptop-fffffff", false),
            ("my-laptop-gggggggg", false),
            ("my-laptop-x-ffffffff", false),
            ("laptop-ffffffff", false),
            ("my-laptop", false),
            ("", false),
        ] {
            assert_eq!(is_start_of(host, id), expected, "{id:?}");
        }
    }
}
