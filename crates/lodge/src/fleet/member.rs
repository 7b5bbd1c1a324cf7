//! This host's place in its fleet: joining, leaving, and what it does when it is asked.

use std::{
    io,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, Result};
use lodge_fleet::{Announcement, Fleet, Host, Options, Reply, Request, Requests};
use lodge_host::{GivenUp, Keeper, Wire};
use lodge_log::Store as _;
use tokio::{
    net::UnixStream,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    FleetArgs,
    keeper::{FleetKeeper, has_directory, serves},
    lists::{Told, describe, follow, publish},
};
use crate::{listing::count, serve::print_line};

/// In a home whose host was in a fleet: what tells the home from others.
const HOME_ID: &str = "fleet.home";
/// How long a host that stops tries to tell the others how its sessions are.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long a host that stops stores what its sessions keep beside their logs.
const LAST_FILES: Duration = Duration::from_secs(20);
/// How often a host counts its sessions for the others.
const LOAD: Duration = Duration::from_secs(1);
/// How often the settings of the servers are checked.
const CHECK: Duration = Duration::from_secs(60);
/// How often a host that is being drained looks whether more turns have ended.
const DRAIN: Duration = Duration::from_millis(250);

/// Serves the other end of a stream to somebody who speaks a wire, of the host of this name.
type Serve = dyn Fn(Wire, UnixStream, &str) + Send + Sync;

/// This host's place in its fleet.
pub(crate) struct Member {
    keeper: Arc<FleetKeeper>,
    options: Options,
    /// What serves clients of other hosts, once there is something.
    faces: Arc<OnceLock<Box<Serve>>>,
    tasks: JoinSet<()>,
    publishing: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Member {
    /// Joins the fleet that the arguments name, for this home; nothing without one.
    pub(crate) async fn join(args: &FleetArgs, home: &Path) -> Result<Option<Self>> {
        if args.fleet.is_empty() {
            return Ok(None);
        }
        let options = args.options();
        let fleet = Fleet::connect(&options).await.context("Cannot join the fleet")?;
        let announcement = Announcement {
            name: args.name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            home: home_id(home).with_context(|| format!("Cannot write to {}", home.display()))?,
            ..Announcement::default()
        };
        let guard = |from, until| lodge_tools::guard_until(lodge_tools::Term { from, until });
        let host = Host::join_with_guard(&fleet, announcement, guard)
            .await
            .context("Cannot join the fleet")?;
        Ok(Some(Self {
            keeper: Arc::new(FleetKeeper::new(Arc::new(host))),
            options,
            faces: Arc::default(),
            tasks: JoinSet::new(),
            publishing: None,
            stop: CancellationToken::new(),
        }))
    }

    /// Brings all sessions of this home into the fleet that are not there. Before anybody can open one.
    pub(crate) async fn import(&self, host: &lodge_host::Host) -> Result<()> {
        let files = host.home().sessions();
        let (mut imported, mut failed) = (0, 0);
        for session in files.list()?.into_iter().map(|entry| entry.id) {
            let is_there = match self.keeper.host.fleet().listed(&session).await? {
                // A copy of it goes. A session that was exported before is another one.
                Some(entry) if entry.deleted => files.is_copy(&session)?,
                listed => listed.is_some(),
            };
            if is_there {
                continue;
            }
            // It is let go again at once, with its files.
            match self.keeper.open(&session, files).await {
                Ok(opened) => drop(opened),
                Err(error) => {
                    failed += 1;
                    tracing::warn!(session, %error, "a session could not be imported into the fleet");
                    continue;
                }
            }
            match describe(&self.keeper, host, &session).await {
                Told::Nothing => failed += 1,
                Told::Working | Told::Resting => imported += 1,
            }
        }
        let failed = match failed {
            0 => String::new(),
            failed => format!(
                " {} could not be imported; the log of the host says why.",
                count(failed, "session")
            ),
        };
        print_line(&format!(
            "{} imported into the fleet.{failed}",
            count(imported, "session")
        ));
        Ok(())
    }

    /// What keeps the sessions of this host.
    pub(crate) fn keeper(&self) -> Arc<dyn Keeper> {
        self.keeper.clone()
    }

    /// Lists the fleet's sessions here and this host's sessions there, and answers what others ask.
    pub(crate) async fn work(&mut self, host: &lodge_host::Host) -> Result<()> {
        let requests = self.keeper.host.requests().await?;
        let listing = self.keeper.host.fleet().listing().await?;
        let (keeper, changes) = (&self.keeper, host.lifecycle());
        let host_here = HostHere {
            keeper: keeper.clone(),
            host: host.clone(),
            faces: self.faces.clone(),
        };
        self.tasks.spawn(host_here.answer(requests));
        self.tasks.spawn(announce_load(keeper.clone(), host.clone()));
        self.tasks.spawn(check_servers(keeper.clone(), self.options.clone()));
        self.tasks.spawn(follow(keeper.clone(), host.clone(), listing));
        self.publishing = Some(tokio::spawn(publish(
            keeper.clone(),
            host.clone(),
            changes,
            self.stop.clone(),
        )));
        Ok(())
    }

    /// Serves clients of other hosts by this from now on.
    pub(crate) fn serve(&self, faces: impl Fn(Wire, UnixStream, &str) + Send + Sync + 'static) {
        let _ = self.faces.set(Box::new(faces));
    }

    /// Leaves the sessions to the others at once.
    pub(crate) async fn leave(mut self) {
        self.tasks.shutdown().await;
        self.stop.cancel();
        if let Some(publishing) = self.publishing
            && timeout(LAST_WORDS, publishing).await.is_err()
        {
            tracing::warn!("other hosts may list outdated sessions of this host");
        }
        if timeout(LAST_FILES, self.keeper.released()).await.is_err() {
            tracing::warn!("some sessions of this host were not released in time");
        }
        if let Err(error) = self.keeper.host.leave().await {
            tracing::warn!(%error, "cannot tell the fleet that this host is leaving");
        }
    }
}

/// What tells this home from others, whatever its host is called.
fn home_id(home: &Path) -> io::Result<String> {
    let path = home.join(HOME_ID);
    if let Some(id) = lodge_files::read_if_there(&path)? {
        return Ok(String::from_utf8_lossy(&id).trim().to_owned());
    }
    if !home.is_dir() {
        lodge_files::private_directory(home)?;
    }
    let id = Uuid::new_v4().to_string();
    lodge_files::replace(&path, id.as_bytes())?;
    Ok(id)
}

/// What others ask, and who does it.
#[derive(Clone)]
struct HostHere {
    keeper: Arc<FleetKeeper>,
    host: lodge_host::Host,
    faces: Arc<OnceLock<Box<Serve>>>,
}

impl HostHere {
    /// Does what others ask.
    async fn answer(self, mut requests: Requests) {
        let (mut draining, mut beside) = (JoinSet::new(), JoinSet::new());
        let drained = CancellationToken::new();
        while let Some((request, asker)) = requests.next().await {
            while beside.try_join_next().is_some() {}
            // What can take a moment is done beside the others.
            let reply = match request {
                Some(Request::Release { session }) => {
                    let (host, keeper) = (self.host.clone(), self.keeper.clone());
                    beside.spawn(async move {
                        let reply = match host.give_up(&session).await {
                            GivenUp::Yes => {
                                keeper.free(&session).await;
                                Reply::Released
                            }
                            GivenUp::InUse => Reply::InUse,
                        };
                        asker.answer(&reply).await;
                    });
                    continue;
                }
                Some(Request::Drain) => {
                    self.keeper.drain();
                    if draining.is_empty() {
                        draining.spawn(let_go_of_all(self.host.clone(), drained.clone()));
                    }
                    Reply::Draining {
                        left: self.host.live_count(),
                    }
                }
                Some(Request::Directory { path }) => {
                    let keeper = self.keeper.clone();
                    beside.spawn(async move {
                        // A host that takes no more sessions has no directory for one.
                        let here = !keeper.is_draining() && has_directory(path).await;
                        asker.answer(&Reply::Directory { here }).await;
                    });
                    continue;
                }
                Some(Request::Link { .. }) if drained.is_cancelled() => Reply::Unknown,
                Some(Request::Link { serves, link, from }) => {
                    let (this, drained) = (self.clone(), drained.clone());
                    beside.spawn(async move {
                        let carried = this.link(&serves, &link, &from).await;
                        let carried = carried.unwrap_or_else(|error| {
                            tracing::warn!(%error, "clients of another host cannot be served");
                            None
                        });
                        let Some(carried) = carried else {
                            return asker.answer(&Reply::Unknown).await;
                        };
                        asker.answer(&Reply::Linked).await;
                        let _ = drained.run_until_cancelled(carried).await;
                    });
                    continue;
                }
                None => Reply::Unknown,
            };
            asker.answer(&reply).await;
        }
    }

    /// Serves a client of another host by what it asks for; nothing when there is no such thing here.
    async fn link(&self, wanted: &str, link: &str, from: &str) -> Result<Option<impl Future<Output = ()> + use<>>> {
        let wires = [Wire::Ahp, Wire::Sdk, Wire::Acp, Wire::Command];
        let wire = wires.into_iter().find(|wire| serves(*wire) == wanted);
        let (Some(wire), Some(faces)) = (wire, self.faces.get()) else {
            return Ok(None);
        };
        let (near, far) = UnixStream::pair()?;
        let carried = self.keeper.host.fleet().accept_link(link, near).await?;
        faces(wire, far, from);
        Ok(Some(carried))
    }
}

/// Says how many sessions this host has.
async fn announce_load(keeper: Arc<FleetKeeper>, host: lodge_host::Host) {
    loop {
        let live = host.live_count();
        keeper.host.announce(|announcement| announcement.live = live);
        sleep(LOAD).await;
    }
}

/// Says when a server acknowledges what is not on its disk: one may come back with other settings than it had.
async fn check_servers(keeper: Arc<FleetKeeper>, options: Options) {
    loop {
        sleep(CHECK).await;
        if let Err(error) = keeper.host.fleet().check_again(&options).await {
            tracing::warn!(%error, "the NATS servers will not do any more");
        }
    }
}

/// Lets go of each session when its turn has ended, and of other hosts' clients when none is left. A host that is being drained
/// stays so until it is started again.
async fn let_go_of_all(host: lodge_host::Host, drained: CancellationToken) {
    loop {
        if host.give_up_idle().await == 0 {
            // They come back by another host.
            drained.cancel();
        }
        sleep(DRAIN).await;
    }
}
