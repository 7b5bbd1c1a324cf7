//! Sessions that are also stored in a fleet, where another host can continue them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use lodge_agent::{Ending, Remote};
use lodge_events::Event;
use lodge_log::FileStore;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Host, HostError, Session, host::Inner, session::Live};

/// What a host serves to clients, by which another host can hand a client's words on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// The Agent Host Protocol.
    Ahp,
    /// The SDKs' JSON-RPC.
    Sdk,
    /// The Agent Client Protocol.
    Acp,
    /// Commands of this program.
    Command,
}

/// A stream of bytes to another host.
pub trait Link: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

impl Host {
    /// The way to the host that uses a session at this moment. Nothing when this host has it or can have it, and where
    /// there are no other hosts.
    ///
    /// # Errors
    /// When who has the session is not known, or the host that has it cannot be reached.
    pub async fn way_to(&self, id: &str, wire: Wire) -> Result<Option<Box<dyn Link>>, HostError> {
        self.end_if_lost(id).await;
        match self.keeper() {
            Some(keeper) if self.live(id).is_none() => keeper.way_to(id, wire).await,
            _ => Ok(None),
        }
    }

    /// The way to another host that is to make a session in a directory, because this host does not have it or takes no more sessions.
    /// Nothing when the session is this host's to make, and where there are no other hosts.
    ///
    /// # Errors
    /// When the other hosts cannot be asked, or the one that has the directory cannot be reached.
    pub async fn way_for(&self, directory: &str, wire: Wire) -> Result<Option<Box<dyn Link>>, HostError> {
        match self.keeper() {
            Some(keeper) => keeper.way_for(directory, wire).await,
            None => Ok(None),
        }
    }
}

impl Host {
    /// The events of a session of several hosts, without making it this host's. Nothing where it is this home's alone.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn read_kept(&self, id: &str) -> Result<Option<Vec<Event>>, HostError> {
        match self.keeper() {
            Some(keeper) => keeper.read(id).await,
            None => Ok(None),
        }
    }
}

/// Upper bounds of the buckets for the time that storing events takes, in seconds.
pub const APPEND_BUCKETS: [f64; 9] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];

/// What a keeper counted since the host started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeeperCounts {
    /// Runs of events that were stored, by the bounds of [`APPEND_BUCKETS`]; the last number is of those that took longer.
    pub appends: Vec<u64>,
    /// Time that all of them took together.
    pub append_time: Duration,
    /// Sessions that this host made or took over.
    pub taken: u64,
    /// Sessions that it let go.
    pub released: u64,
    /// Sessions that it could not write to any more: another host has them, or the servers were away for too long.
    pub lost: u64,
    /// How long ago the servers last heard that this host lives.
    pub lag: Duration,
}

impl Host {
    /// What is counted where sessions are stored for more than one host.
    pub fn keeper_counts(&self) -> Option<KeeperCounts> {
        self.keeper().map(|keeper| keeper.counts())
    }
}

/// What is kept of a session that several hosts know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Whether this host used it last.
    pub ours: bool,
    /// When it was used last, as far as the others were told.
    pub modified: Timestamp,
}

/// Keeps sessions for more than one host. A host without a keeper has its sessions in its home alone.
pub trait Keeper: Send + Sync {
    /// Takes a session in that was just made: its log is empty, here and there.
    fn create<'a>(&'a self, id: &'a str, files: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>>;
    /// Makes a session this host's, and its log in this home what is kept of it; or says whose it is.
    fn open<'a>(&'a self, id: &'a str, files: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>>;
    /// The way to the host that uses a session at this moment; nothing when this host can have it.
    fn way_to<'a>(&'a self, id: &'a str, wire: Wire) -> BoxFuture<'a, Result<Option<Box<dyn Link>>, HostError>>;
    /// The way to a host that is to make a session in a directory; nothing when this host is to make it.
    fn way_for<'a>(&'a self, directory: &'a str, wire: Wire)
    -> BoxFuture<'a, Result<Option<Box<dyn Link>>, HostError>>;
    /// Whether this host can have a session, and no other host that lives has it.
    fn is_free<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, HostError>>;
    /// The events of a session as they are kept, wherever it is in use; nothing where it is not kept.
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<Event>>, HostError>>;
    /// Has the host that uses a session let it go, so that this one can delete it.
    ///
    /// # Errors
    /// When it is in use there.
    fn check_unused<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), HostError>>;
    /// What is kept of every session, as the servers have it now.
    fn kept(&self) -> BoxFuture<'_, Result<HashMap<String, Kept>, HostError>>;
    /// The same of one session; nothing where nothing is kept of it.
    fn kept_of<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Kept>, HostError>>;
    /// Removes what is kept of a session. Answers whether there was anything.
    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, HostError>>;
    /// What it counted.
    fn counts(&self) -> KeeperCounts;
}

/// Ends a session here when its log is lost to this host: its turn and the programs that it started with it.
pub(crate) fn end_when_lost(host: Weak<Inner>, session: &Session) {
    let (lost, id) = (session.0.agent.lost(), session.0.agent.id().to_owned());
    let live = Arc::downgrade(&session.0);
    tokio::spawn(async move {
        if !lost.await {
            return;
        }
        let (Some(host), Some(live)) = (host.upgrade(), live.upgrade()) else {
            return;
        };
        // Whoever opened it again meanwhile has another.
        if host.forget_if(&id, |kept| Arc::ptr_eq(kept, &live)).is_some() {
            end(&live).await;
        }
    });
}

impl Host {
    /// Ends a session here that another host has taken without this one noticing, because nothing was recorded here since. `is_lost` is
    /// asked when nobody is opening it.
    pub async fn end_lost(&self, id: &str, is_lost: impl FnOnce() -> bool) {
        let gate = self.0.gate(id);
        let _open = gate.lock().await;
        if let Some(live) = self.0.forget_if(id, |_| is_lost()) {
            // Clients hear it when it is out of the way: they may open it again at once.
            live.agent.lose("another host has it now");
            end(&live).await;
        }
    }
}

impl Host {
    /// Ends a session whose log is lost to this host, where that has not happened yet: its clients know it already, and open it again.
    pub(crate) async fn end_if_lost(&self, id: &str) {
        let Some(session) = self.live(id).filter(|session| session.0.agent.is_lost()) else {
            return;
        };
        if self.0.forget_if(id, |kept| Arc::ptr_eq(kept, &session.0)).is_some() {
            end(&session.0).await;
        }
    }
}

async fn end(live: &Live) {
    tracing::warn!(session = live.agent.id(), "this host no longer has the session");
    live.agent.close(Ending::Routine).await;
    live.hub.close();
}
