//! `lodge fleet`: looking at a fleet, draining one of its hosts, and taking sessions out of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use clap::Subcommand;
use lodge_fleet::{Entry, Fleet, FleetError, HostInfo, Listed, Options, Owner, Reply, Request, SyncCheck};
use lodge_host::{Described, Home};
use lodge_log::{HomeOptions, LogError};

use super::{FleetArgs, MOVING};
use crate::{listing::count, serve::print_line, view::plain};

/// How often a host that is being drained is asked how far it is.
const LOOK: Duration = Duration::from_millis(500);

/// What can be done with a fleet.
#[derive(Subcommand)]
pub(crate) enum FleetCommand {
    /// Show the hosts and how many sessions each has
    #[command(after_help = "Examples:
  lodge fleet status --fleet nats://one:4222")]
    Status(FleetArgs),
    /// Show all sessions and the host of each
    #[command(after_help = "Examples:
  lodge fleet sessions --fleet nats://one:4222")]
    Sessions(FleetArgs),
    /// Make a host release its sessions, so that you can stop it
    ///
    /// The host accepts no more sessions. It releases each session when its turn ends, and other hosts can continue it.
    #[command(after_help = "Examples:
  lodge fleet drain one --fleet nats://one:4222")]
    Drain {
        /// The host, by its name or its id
        host: String,
        /// How many seconds to wait for turns to end
        #[arg(long, value_name = "SECONDS", default_value_t = 300)]
        within: u64,
        #[command(flatten)]
        args: FleetArgs,
    },
    /// Give the fleet's streams the settings that this version needs
    ///
    /// Only after an upgrade of Lodge whose hosts ask for it. Hosts of earlier versions must not run any more. It needs a user who may publish to
    /// `$JS.API.STREAM.UPDATE.*`.
    #[command(after_help = "Examples:
  lodge fleet upgrade --fleet nats://admin:password@one:4222")]
    Upgrade(FleetArgs),
    /// Copy sessions to a home outside of the fleet
    ///
    /// The sessions stay in the fleet, and whoever uses them goes on. Their copies are as they are now, with their files.
    #[command(after_help = "Examples:
  lodge fleet export ~/.lodge --fleet nats://one:4222
  lodge fleet export /tmp/home 0f3a9c1e-7c1b-4e0e-9d53-1f0a3f6f5b11 --fleet nats://one:4222")]
    Export {
        /// The home; it is made if it is not there
        home: PathBuf,
        /// Sessions, by their ids [default: all]
        ids: Vec<String>,
        #[command(flatten)]
        args: FleetArgs,
    },
}

/// Does one of them.
pub(crate) async fn run(command: &FleetCommand) -> Result<ExitCode> {
    match command {
        FleetCommand::Status(args) => {
            warn_of_servers(args).await;
            status(&connect(args).await?).await
        }
        FleetCommand::Sessions(args) => sessions(&connect(args).await?).await,
        FleetCommand::Drain { host, within, args } => {
            drain(&connect(args).await?, host, Duration::from_secs(*within)).await
        }
        FleetCommand::Upgrade(args) => {
            let changed = Fleet::upgrade(&named(args)?).await?;
            print_line(&format!("{} upgraded.", count(changed.len(), "stream")));
            Ok(ExitCode::SUCCESS)
        }
        FleetCommand::Export { home, ids, args } => export(&connect(args).await?, home, ids).await,
    }
}

fn named(args: &FleetArgs) -> Result<Options> {
    ensure!(
        !args.fleet.is_empty(),
        "Name the fleet: --fleet nats://…, or LODGE_FLEET."
    );
    Ok(args.options())
}

async fn connect(args: &FleetArgs) -> Result<Fleet> {
    // Nothing here writes to a session. How the servers are set up is checked by hosts when they start, and by `lodge doctor`.
    let options = Options {
        sync: SyncCheck::Skipped,
        ..named(args)?
    };
    Ok(Fleet::connect(&options).await?)
}

/// Says which servers could lose what they acknowledge, and whether some are down, where that can be seen.
async fn warn_of_servers(args: &FleetArgs) {
    let options = Options {
        patience: Duration::from_secs(5),
        ..args.options()
    };
    if options.system.is_empty() {
        return;
    }
    let (servers, size) = match Fleet::servers(&options).await {
        Ok(found) => found,
        Err(error) => return eprintln!("Warning: {error}"),
    };
    if servers.len() < size {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        eprintln!("Warning: only {} of {size} NATS servers answered.", names.join(", "));
    }
    for server in servers.iter().filter(|server| !server.syncs) {
        let server = server.name.clone();
        eprintln!("Warning: {}", FleetError::LazySync { server });
    }
}

async fn hosts(fleet: &Fleet) -> Result<Vec<HostInfo>> {
    let mut hosts = fleet.hosts().await?;
    hosts.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(hosts)
}

async fn status(fleet: &Fleet) -> Result<ExitCode> {
    let (owners, hosts) = (fleet.owners().await?, hosts(fleet).await?);
    for host in &hosts {
        let owned = owners.iter().filter(|(_, owner)| owner.host == host.id).count();
        let draining = if host.announcement.draining { "  draining" } else { "" };
        let version = &host.announcement.version;
        print_line(&format!(
            "{}  version {version}  {}{draining}",
            host.id,
            count(owned, "session")
        ));
    }
    let is_gone = |owner: &Owner| hosts.iter().all(|host| host.id != owner.host);
    let left = owners.iter().filter(|(_, owner)| is_gone(owner)).count();
    if left > 0 {
        print_line(&format!(
            "{} of hosts that are gone: open one on any host to continue it",
            count(left, "session")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// All sessions that there are.
async fn listed(fleet: &Fleet) -> Result<BTreeMap<String, Entry>> {
    let mut listing = fleet.listing().await?;
    let mut all = BTreeMap::new();
    while let Listed::Session(session, entry) = listing.next().await? {
        match entry.deleted {
            true => all.remove(&session),
            false => all.insert(session, entry),
        };
    }
    Ok(all)
}

async fn export(fleet: &Fleet, home: &Path, ids: &[String]) -> Result<ExitCode> {
    let home = Home::open(home, HomeOptions::default())?;
    home.ensure()?;
    let all = match ids {
        [] => listed(fleet).await?.into_keys().collect(),
        ids => ids.to_vec(),
    };
    let (mut exported, mut failed) = (0, 0);
    for session in all {
        match fleet.export(&session, home.sessions(), MOVING).await {
            Ok(events) => {
                exported += 1;
                print_line(&format!("{}: {}", plain(&session), count(events, "event")));
            }
            Err(FleetError::Copy(LogError::Exists { .. })) => {
                print_line(&format!("{}: the home has it already; left as it is", plain(&session)));
            }
            Err(error) => {
                failed += 1;
                eprintln!("{}: {error}", plain(&session));
            }
        }
    }
    print_line(&format!("{} exported.", count(exported, "session")));
    Ok(if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

async fn sessions(fleet: &Fleet) -> Result<ExitCode> {
    let owners: BTreeMap<String, Owner> = fleet.owners().await?.into_iter().collect();
    for (session, entry) in listed(fleet).await? {
        let owner = owners.get(&session).map_or("-", |owner| owner.host.as_str());
        let described: Described = serde_json::from_value(entry.about).unwrap_or_default();
        let work = if described.busy { "working" } else { "idle" };
        let cwd = described.listed.cwd().unwrap_or("-");
        let title = described.listed.title().unwrap_or("(no messages)");
        print_line(&format!(
            "{session}  {owner}  {work}  {}  {}",
            plain(cwd),
            plain(title).replace('\n', " ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn drain(fleet: &Fleet, wanted: &str, within: Duration) -> Result<ExitCode> {
    let found = hosts(fleet).await?.into_iter();
    let mut found = found.filter(|host| host.id == wanted || host.announcement.name == wanted);
    let Some(host) = found.next() else {
        bail!("No host of the fleet is called {wanted:?}. List them with `lodge fleet status`.");
    };
    ensure!(
        found.next().is_none(),
        "Several hosts are called {wanted:?}. Give the id that `lodge fleet status` shows."
    );
    let deadline = Instant::now() + within;
    loop {
        let left = match fleet.ask(&host.id, &Request::Drain).await? {
            Some(Reply::Draining { left }) => left,
            Some(_) => bail!("Host {} runs a version that cannot be drained.", host.id),
            None => bail!("Host {} does not answer.", host.id),
        };
        if left == 0 {
            print_line(&format!("Host {} has released all its sessions.", host.id));
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= deadline {
            print_line(&format!(
                "Host {} still works on {}. It accepts no more, and releases each when its turn has ended.",
                host.id,
                count(left, "session")
            ));
            return Ok(ExitCode::FAILURE);
        }
        tokio::time::sleep(LOOK).await;
    }
}
