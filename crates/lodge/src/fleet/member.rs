//! This host's place in its fleet: joining, leaving, and what it does when it is asked.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use lodge_fleet::{Announcement, Fleet, Host, Reply, Request, Requests};
use lodge_host::{GivenUp, Keeper};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    FleetArgs,
    keeper::FleetKeeper,
    lists::{follow, publish},
};

/// How long a host that stops tries to tell the others how its sessions are.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often a host that is being drained looks whether more turns have ended.
const DRAIN: Duration = Duration::from_millis(250);

/// This host's place in its fleet.
pub(crate) struct Member {
    keeper: Arc<FleetKeeper>,
    tasks: JoinSet<()>,
    publishing: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Member {
    /// Joins the fleet that the arguments name; nothing without one.
    pub(crate) async fn join(args: &FleetArgs) -> Result<Option<Self>> {
        if args.fleet.is_empty() {
            return Ok(None);
        }
        let fleet = Fleet::connect(&args.options()).await.context("Cannot join the fleet")?;
        let announcement = Announcement {
            name: args.name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Announcement::default()
        };
        let host = Host::join(&fleet, announcement)
            .await
            .context("Cannot join the fleet")?;
        Ok(Some(Self {
            keeper: Arc::new(FleetKeeper::new(Arc::new(host))),
            tasks: JoinSet::new(),
            publishing: None,
            stop: CancellationToken::new(),
        }))
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
        self.tasks.spawn(answer(keeper.clone(), host.clone(), requests));
        self.tasks.spawn(follow(keeper.clone(), host.clone(), listing));
        self.publishing = Some(tokio::spawn(publish(
            keeper.clone(),
            host.clone(),
            changes,
            self.stop.clone(),
        )));
        Ok(())
    }

    /// Leaves the sessions to the others at once.
    pub(crate) async fn leave(mut self) {
        self.tasks.shutdown().await;
        self.stop.cancel();
        if let Some(publishing) = self.publishing
            && timeout(LAST_WORDS, publishing).await.is_err()
        {
            tracing::warn!("lists of other hosts may show sessions of this host as they were");
        }
        if let Err(error) = self.keeper.host.leave().await {
            tracing::warn!(%error, "the fleet was not told that this host leaves");
        }
    }
}

/// Does what others ask.
async fn answer(keeper: Arc<FleetKeeper>, host: lodge_host::Host, mut requests: Requests) {
    let (mut draining, mut releasing) = (JoinSet::new(), JoinSet::new());
    while let Some((request, asker)) = requests.next().await {
        while releasing.try_join_next().is_some() {}
        let reply = match request {
            Some(Request::Release { session }) => {
                let host = host.clone();
                // Beside the others: it can take a moment.
                releasing.spawn(async move {
                    let reply = match host.give_up(&session).await {
                        GivenUp::Yes => Reply::Released,
                        GivenUp::InUse => Reply::InUse,
                    };
                    asker.answer(&reply).await;
                });
                continue;
            }
            Some(Request::Drain) => {
                keeper.drain();
                if draining.is_empty() {
                    draining.spawn(let_go_of_all(host.clone()));
                }
                Reply::Draining {
                    left: host.live_count(),
                }
            }
            None => Reply::Unknown,
        };
        asker.answer(&reply).await;
    }
}

/// Lets go of each session when its turn has ended. A host that is being drained stays so until it is started again.
async fn let_go_of_all(host: lodge_host::Host) {
    loop {
        host.give_up_idle().await;
        sleep(DRAIN).await;
    }
}
