//! Keeps this host's sessions in the fleet, and asks other hosts for theirs.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use futures_util::future::BoxFuture;
use lodge_events::Event;
use lodge_fleet::{Entry, FleetError, Host, LEASE, Owner, Reply, Request, SessionFiles, Writer};
use lodge_host::{Described, HostError, Keeper, KeeperCounts, Kept, Link, Listed, Remote, Wire};
use lodge_log::FileStore;
use parking_lot::Mutex;

use super::{
    MOVING,
    counters::Counters,
    held::{Held, HeldSessions},
    writer::SessionWriter,
};

/// How long somebody who wants a session of another host waits for that host's lease to run out.
const OWNER_MAY_BE_DEAD: Duration = Duration::from_secs(LEASE.as_secs() + 2);
/// How long to wait for a session that was let go, and for a lease.
const SOON: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_millis(250);
/// How long looking for a directory may take. Other hosts wait for the answer, a little longer.
const LOOKING: Duration = Duration::from_secs(3);

pub(super) struct FleetKeeper {
    pub(super) host: Arc<Host>,
    /// The epochs in which this host had sessions last.
    epochs: Mutex<HashMap<String, u64>>,
    draining: AtomicBool,
    held: HeldSessions,
    counters: Arc<Counters>,
}

impl FleetKeeper {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self {
            host,
            epochs: Mutex::default(),
            draining: AtomicBool::new(false),
            held: HeldSessions::default(),
            counters: Arc::default(),
        }
    }

    /// The epoch in which this host has a session, or had it last.
    pub(super) fn epoch(&self, session: &str) -> Option<u64> {
        self.epochs.lock().get(session).copied()
    }

    /// All sessions that this host has, or had last.
    pub(super) fn sessions(&self) -> Vec<String> {
        self.epochs.lock().keys().cloned().collect()
    }

    /// Another host described a session in this epoch. Answers whether that host took it from this one.
    pub(super) fn described_elsewhere(&self, session: &str, epoch: u64) -> bool {
        let mut epochs = self.epochs.lock();
        let is_taken = epochs.get(session).is_some_and(|ours| *ours < epoch);
        if is_taken {
            epochs.remove(session);
        }
        is_taken
    }

    /// Takes no more sessions from now on.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.host.announce(|announcement| announcement.draining = true);
    }

    /// Waits until all sessions are let go, with what they keep beside their logs. Only when none is open any more.
    pub(super) async fn released(&self) {
        self.held.all_gone().await;
    }

    /// Frees a session of which nothing is here any more, where it is still this host's.
    pub(super) async fn free(&self, session: &str) {
        let is_unused = || !self.held.has(session);
        if is_unused()
            && let Err(error) = self.host.free(session, is_unused).await
        {
            tracing::warn!(session, %error, "the session stays this host's until somebody asks for it again");
        }
    }

    /// Whether it takes no more sessions.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn accepts(&self) -> Result<(), HostError> {
        match self.is_draining() {
            false => Ok(()),
            true => Err(HostError::Invalid(
                "This host is being drained. Connect to another host of the fleet.".into(),
            )),
        }
    }

    /// The other host that serves a session: the one that uses it, or one that has its directory where this one does not. Nothing
    /// when this host can have it.
    async fn host_for(&self, id: &str) -> Result<Option<String>, HostError> {
        let owner = self.other_owner(id).await?;
        // Who uses it goes on with it, also when its directory is gone.
        if let Some(host) = &owner
            && self.is_used_by(host, id).await?
        {
            return Ok(owner);
        }
        let Some(place) = self.place_of(id).await? else {
            return Ok(None);
        };
        let is_here = self.has(&place).await;
        if is_here && !self.is_draining() {
            return Ok(None);
        }
        match self.host_with(&place.directory, owner.as_deref()).await? {
            Some(host) => Ok(Some(host)),
            // Whoever opens it is told that this host is being drained.
            None if is_here => Ok(None),
            None => Err(place.waits(id)),
        }
    }

    /// The other host that owns a session.
    async fn other_owner(&self, id: &str) -> Result<Option<String>, HostError> {
        let owner = self.host.fleet().owner(id).await.map_err(told)?;
        Ok(owner.map(|owner| owner.host).filter(|host| host != self.host.id()))
    }

    /// Whether a host uses a session. If it does not, it releases the session. One that does not answer is asked again as long as it
    /// lives: the question may have been lost.
    async fn is_used_by(&self, host: &str, id: &str) -> Result<bool, HostError> {
        let fleet = self.host.fleet();
        let began = Instant::now();
        loop {
            let session = id.to_owned();
            match fleet.ask(host, &Request::Release { session }).await.map_err(told)? {
                Some(reply) => return Ok(reply == Reply::InUse),
                None if began.elapsed() >= OWNER_MAY_BE_DEAD => return Ok(false),
                None => {}
            }
            let lives = fleet.hosts().await.map_err(told)?.iter().any(|other| other.id == host);
            if !lives || self.other_owner(id).await?.as_deref() != Some(host) {
                return Ok(false);
            }
            tokio::time::sleep(LATER).await;
        }
    }

    /// Another host that has a directory: this one if it does, or the one with the fewest sessions.
    async fn host_with(&self, directory: &str, first: Option<&str>) -> Result<Option<String>, HostError> {
        let fleet = self.host.fleet();
        let mut hosts = fleet.hosts().await.map_err(told)?;
        hosts.retain(|host| host.id != self.host.id());
        hosts.sort_by_key(|host| (Some(host.id.as_str()) != first, host.announcement.live));
        for host in hosts {
            let path = directory.to_owned();
            let has = fleet.ask(&host.id, &Request::Directory { path }).await.map_err(told)?;
            if has == Some(Reply::Directory { here: true }) {
                return Ok(Some(host.id));
            }
        }
        Ok(None)
    }

    /// The way to what another host serves.
    async fn link(&self, host: &str, wire: Wire) -> Result<Option<Box<dyn Link>>, HostError> {
        let link = self.host.fleet().link(self.host.name(), host, serves(wire));
        let link = link.await.map_err(told)?;
        Ok(link.map(|link| Box::new(link) as Box<dyn Link>))
    }

    /// Where a session works.
    async fn place_of(&self, id: &str) -> Result<Option<Place>, HostError> {
        let entry = self.host.fleet().listed(id).await.map_err(told)?;
        let Some(Entry { host, about, .. }) = entry else {
            return Ok(None);
        };
        let directory = described(about).listed.cwd().map(str::to_owned);
        Ok(directory.map(|directory| Place { directory, host }))
    }

    /// Whether this host can have a session that works there. One that it had last, with this home, it can have without the directory.
    async fn has(&self, place: &Place) -> bool {
        self.host.was(&place.host) || has_directory(place.directory.clone()).await
    }

    /// What an entry of the list means to this host.
    fn kept_as(&self, entry: Entry) -> Kept {
        Kept {
            ours: !entry.deleted && self.host.was(&entry.host),
            modified: described(entry.about).listed.modified(),
        }
    }

    /// `term` is that of the lease, from before the session was taken.
    fn remote(&self, (writer, files): (Writer, SessionFiles), held: Held, term: Option<u64>) -> Remote {
        let session = writer.log().session().to_owned();
        self.epochs.lock().insert(session, writer.owner().epoch);
        let lease = self.host.lease().clone();
        self.counters.taken();
        Remote {
            log: Box::new(SessionWriter {
                host: self.host.clone(),
                taken: Some((writer, files, held)),
                counters: self.counters.clone(),
            }),
            term: Box::new(move || lease.term()),
            taken_in: term.unwrap_or_default(),
        }
    }

    /// Has the owner of a session let it go. When this returns well, it is worth another try.
    async fn ask_for(&self, session: &str, owner: &Owner, began: Instant) -> Result<(), HostError> {
        let request = Request::Release {
            session: session.to_owned(),
        };
        let host = &owner.host;
        let pause = match self.host.fleet().ask(host, &request).await.map_err(told)? {
            Some(Reply::Released) => SOON,
            Some(Reply::InUse) => {
                return Err(in_use(session, host));
            }
            // It may be dead, or this very host before it was started again: then its lease runs out.
            _ => LATER,
        };
        if began.elapsed() >= OWNER_MAY_BE_DEAD {
            return Err(told(FleetError::Owned {
                session: session.to_owned(),
                owner: owner.clone(),
            }));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Lists a session that was just made: whoever was told of it finds it in every list.
    async fn list(&self, session: &str, epoch: u64) -> Result<(), FleetError> {
        let described = Described {
            listed: Listed::made(session, jiff::Timestamp::now()),
            ..Described::default()
        };
        self.describe(session, epoch, Some(described)).await
    }

    /// Does the rest of what a host began that was to delete a session. Answers whether anything was left to do.
    async fn finish_deletion(&self, session: &str) -> Result<bool, FleetError> {
        let fleet = self.host.fleet();
        fleet.log(session)?.finish_deletion().await?;
        match fleet.listed(session).await? {
            Some(entry) if !entry.deleted => {
                self.describe(session, entry.epoch, None).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Describes a session for all hosts; without a description it is gone.
    pub(super) async fn describe(
        &self,
        session: &str,
        epoch: u64,
        described: Option<Described>,
    ) -> Result<(), FleetError> {
        let entry = Entry {
            host: self.host.id().to_owned(),
            epoch,
            deleted: described.is_none(),
            about: serde_json::to_value(described).expect("a description is plain data"),
        };
        self.host.fleet().describe(session, &entry).await.map(drop)
    }
}

impl Keeper for FleetKeeper {
    fn create<'a>(&'a self, id: &'a str, files: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>> {
        Box::pin(async move {
            self.accepts()?;
            let (held, term) = (self.held.hold(id), self.host.lease().term());
            let created = self.host.create_with_copy(id, files, MOVING).await;
            let taken = created.map_err(told)?;
            self.list(id, taken.0.owner().epoch).await.map_err(told)?;
            Ok(self.remote(taken, held, term))
        })
    }

    fn open<'a>(&'a self, id: &'a str, files: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>> {
        Box::pin(async move {
            self.accepts()?;
            if let Some(place) = self.place_of(id).await?
                && !self.has(&place).await
            {
                return Err(place.waits(id));
            }
            let (held, began) = (self.held.hold(id), Instant::now());
            loop {
                let term = self.host.lease().term();
                match self.host.open_with_copy(id, files, MOVING).await {
                    Ok(taken) => return Ok(self.remote(taken, held, term)),
                    Err(FleetError::Owned { owner, .. }) => self.ask_for(id, &owner, began).await?,
                    Err(error) => return Err(told(error)),
                }
            }
        })
    }

    fn way_to<'a>(&'a self, id: &'a str, wire: Wire) -> BoxFuture<'a, Result<Option<Box<dyn Link>>, HostError>> {
        Box::pin(async move {
            let Some(host) = self.host_for(id).await? else {
                return Ok(None);
            };
            // The first request may have been lost.
            for _ in 0..2 {
                if let Some(link) = self.link(&host, wire).await? {
                    return Ok(Some(link));
                }
            }
            Err(in_use(id, &host))
        })
    }

    fn way_for<'a>(
        &'a self,
        directory: &'a str,
        wire: Wire,
    ) -> BoxFuture<'a, Result<Option<Box<dyn Link>>, HostError>> {
        Box::pin(async move {
            if !self.is_draining() && has_directory(directory.to_owned()).await {
                return Ok(None);
            }
            // Where no host has it, this one says what is wrong.
            let Some(host) = self.host_with(directory, None).await? else {
                return Ok(None);
            };
            match self.link(&host, wire).await? {
                Some(link) => Ok(Some(link)),
                None => Err(HostError::Invalid(format!(
                    "Host {host} has the directory {directory} and cannot be reached. Try again."
                ))),
            }
        })
    }

    fn is_free<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, HostError>> {
        Box::pin(async move {
            if self.is_draining() {
                return Ok(false);
            }
            if let Some(owner) = self.other_owner(id).await? {
                let hosts = self.host.fleet().hosts().await.map_err(told)?;
                if hosts.iter().any(|host| host.id == owner) {
                    return Ok(false);
                }
            }
            match self.place_of(id).await? {
                Some(place) => Ok(self.has(&place).await),
                None => Ok(true),
            }
        })
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<Event>>, HostError>> {
        Box::pin(async move {
            match self.host.fleet().events(id).await {
                Ok(events) => Ok(Some(events)),
                Err(FleetError::NotFound { .. } | FleetError::Deleted { .. }) => Ok(None),
                Err(error) => Err(told(error)),
            }
        })
    }

    fn check_unused<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), HostError>> {
        Box::pin(async move {
            match self.other_owner(id).await? {
                Some(host) if self.is_used_by(&host, id).await? => Err(in_use(id, &host)),
                _ => Ok(()),
            }
        })
    }

    fn kept(&self) -> BoxFuture<'_, Result<HashMap<String, Kept>, HostError>> {
        Box::pin(async move {
            let mut listing = self.host.fleet().listing().await.map_err(told)?;
            let mut kept = HashMap::new();
            while let lodge_fleet::Listed::Session(session, entry) = listing.next().await.map_err(told)? {
                kept.insert(session, self.kept_as(entry));
            }
            Ok(kept)
        })
    }

    fn kept_of<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Kept>, HostError>> {
        Box::pin(async move {
            let Some(entry) = self.host.fleet().listed(id).await.map_err(told)? else {
                return Ok(None);
            };
            let mut kept = self.kept_as(entry);
            // Another host may have it and not have said anything of it yet.
            let owner = self.host.fleet().owner(id).await.map_err(told)?;
            kept.ours &= owner.is_none_or(|owner| self.host.was(&owner.host));
            Ok(Some(kept))
        })
    }

    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, HostError>> {
        Box::pin(async move {
            let began = Instant::now();
            loop {
                match self.host.take_to_delete(id).await {
                    Ok(writer) => {
                        let epoch = writer.owner().epoch;
                        writer.delete().await.map_err(told)?;
                        self.describe(id, epoch, None).await.map_err(told)?;
                        return Ok(true);
                    }
                    Err(FleetError::Owned { owner, .. }) => self.ask_for(id, &owner, began).await?,
                    Err(FleetError::NotFound { .. } | FleetError::Deleted { .. }) => {
                        return self.finish_deletion(id).await.map_err(told);
                    }
                    Err(error) => return Err(told(error)),
                }
            }
        })
    }

    fn counts(&self) -> KeeperCounts {
        self.counters.now(self.host.lease().age())
    }
}

/// Where a session works, and the host that had it last.
struct Place {
    directory: String,
    host: String,
}

impl Place {
    fn waits(&self, session: &str) -> HostError {
        let Self { directory, host } = self;
        HostError::Invalid(format!(
            "Session {session} needs a host with its directory {directory}: neither this host nor any other host that \
             answered has it. The session was last on host {host}."
        ))
    }
}

/// What a host said of a session.
fn described(about: serde_json::Value) -> Described {
    serde_json::from_value(about).unwrap_or_default()
}

/// Whether this host has a directory. A directory on a mount that hangs counts as missing.
pub(super) async fn has_directory(path: String) -> bool {
    let looked = tokio::task::spawn_blocking(move || std::path::Path::new(&path).is_dir());
    matches!(tokio::time::timeout(LOOKING, looked).await, Ok(Ok(true)))
}

/// The name of links to this wire.
pub(super) fn serves(wire: Wire) -> &'static str {
    match wire {
        Wire::Ahp => "ahp",
        Wire::Sdk => "sdk",
        Wire::Acp => "acp",
        Wire::Command => "command",
    }
}

fn in_use(session: &str, host: &str) -> HostError {
    HostError::Invalid(format!(
        "Host {host} is using session {session}. Connect to that host, or wait until the turn has ended and its \
         clients have left."
    ))
}

/// An error of the fleet, as clients get it.
fn told(error: FleetError) -> HostError {
    match error {
        FleetError::NotFound { session } | FleetError::Deleted { session } => HostError::NotFound(session),
        FleetError::Exists { session } => HostError::AlreadyExists(session),
        FleetError::Copy(error) => error.into(),
        other => HostError::Invalid(format!("The fleet did not give this host the session: {other}.")),
    }
}
