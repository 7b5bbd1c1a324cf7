//! Sessions that are kept elsewhere as well, where another host can go on with them.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use lodge_agent::{Ending, Remote};
use lodge_log::FileStore;

use crate::{HostError, Session, host::Inner};

/// Keeps sessions for more than one host. A host without a keeper has its sessions in its home alone.
pub trait Keeper: Send + Sync {
    /// Takes a session in that was just made: its log is empty, here and there.
    fn create<'a>(&'a self, id: &'a str, files: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>>;
    /// Makes a session this host's, and its log in this home what is kept of it; or says whose it is.
    fn open<'a>(&'a self, id: &'a str, files: &'a Arc<FileStore>) -> BoxFuture<'a, Result<Remote, HostError>>;
    /// Removes what is kept of a session. Answers whether there was anything.
    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, HostError>>;
}

/// Ends a session here when another host has taken it: its turn and the programs that it started with it.
pub(crate) fn end_when_lost(host: Weak<Inner>, session: &Session) {
    let (lost, id) = (session.0.agent.lost(), session.0.agent.id().to_owned());
    tokio::spawn(async move {
        if !lost.await {
            return;
        }
        let live = host.upgrade().and_then(|host| host.forget(&id));
        if let Some(live) = live {
            tracing::warn!(session = id, "another host has the session now");
            live.agent.close(Ending::Routine).await;
            live.hub.close();
        }
    });
}
