//! The sessions of other hosts named in `lodge hosts`, in the session list.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ahp::ahp_types::state::SessionSummary;
use anyhow::{Context, Result};
use lodge_terminal::HostName;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{link::Link, pick, place::Place};
use crate::{
    host_file,
    remote::{self, Forward},
};

/// Pause before a host that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(15);
/// Time limit for a host to list its sessions.
const PATIENCE: Duration = Duration::from_secs(20);

/// All hosts but the current one.
pub(super) struct Others {
    home: PathBuf,
    /// The host that this conversation uses.
    pub(super) current: HostName,
    known: BTreeMap<HostName, Arc<Other>>,
}

/// Another host.
pub(super) struct Other {
    pub(super) name: HostName,
    home: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    failed: Option<Instant>,
}

struct Connection {
    place: Place,
    way: Option<Arc<Forward>>,
    link: Link,
}

impl Others {
    pub(super) fn new(home: &Path, current: HostName) -> Self {
        Self {
            home: home.to_owned(),
            current,
            known: BTreeMap::new(),
        }
    }

    /// The hosts known now: those with a name, and the one of this machine while it runs.
    pub(super) fn all(&mut self) -> Vec<Arc<Other>> {
        let names = remote::names(&self.home).unwrap_or_else(|error| {
            tracing::warn!("{}", crate::describe(&error));
            Vec::new()
        });
        let here = host_file::running(&self.home).is_ok_and(|note| note.is_some());
        let names = names.into_iter().map(Some).chain(here.then_some(None));
        let names: Vec<HostName> = names.filter(|name| *name != self.current).collect();
        names.into_iter().map(|name| self.other(name)).collect()
    }

    fn other(&mut self, name: HostName) -> Arc<Other> {
        let other = self.known.entry(name.clone()).or_insert_with(|| {
            Arc::new(Other {
                name,
                home: self.home.clone(),
                state: Mutex::default(),
            })
        });
        other.clone()
    }

    /// The way to a host, for a separate connection.
    pub(super) async fn way_to(&mut self, name: &HostName) -> Result<(Place, Option<Arc<Forward>>)> {
        let other = self.other(name.clone());
        let mut state = other.state.lock().await;
        let connection = other.connection(&mut state).await?;
        Ok((connection.place.clone(), connection.way.clone()))
    }
}

impl Other {
    /// Its sessions. `None` while a request is running, or if it did not answer a moment ago.
    pub(super) async fn list(&self) -> Option<Result<Vec<SessionSummary>>> {
        let mut state = self.state.try_lock().ok()?;
        if state.failed.is_some_and(|failed| failed.elapsed() < PAUSE) {
            return None;
        }
        let listed = tokio::time::timeout(PATIENCE, async {
            let connection = self.connection(&mut state).await?;
            pick::many(&connection.link.client).await
        });
        let listed = listed
            .await
            .context("The host did not answer")
            .and_then(|listed| listed);
        if listed.is_err() {
            *state = State {
                connection: None,
                failed: Some(Instant::now()),
            };
        }
        Some(listed)
    }

    async fn connection<'a>(&self, state: &'a mut State) -> Result<&'a Connection> {
        let connection = match state.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(state.connection.insert(connection))
    }

    async fn connect(&self) -> Result<Connection> {
        let (place, way) = match &self.name {
            None => (Place::of_home(&self.home), None),
            Some(name) => {
                let reached = remote::reach(&self.home, name).await?;
                let place = Place::at(&self.home, reached.url, reached.token);
                (place, reached.way.map(Arc::new))
            }
        };
        let (link, _) = Link::connect(&place, &format!("lodge-list-{}", Uuid::new_v4())).await?;
        Ok(Connection { place, way, link })
    }
}
