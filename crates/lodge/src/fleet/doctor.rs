//! What `lodge doctor` says of a fleet: its servers, its streams and its hosts.

use std::collections::BTreeSet;

use clap::Parser;
use lodge_fleet::{Fleet, FleetError, Options, SyncCheck};

use super::FleetArgs;
use crate::{doctor::Page, listing::count};

/// The fleet that the variables name.
#[derive(Parser)]
struct Named {
    #[command(flatten)]
    args: FleetArgs,
}

/// Looks at the fleet that the variables name; nothing without one.
pub(crate) async fn doctor(page: &mut Page) {
    let Ok(Named { args }) = Named::try_parse_from(["lodge"]) else {
        page.head("Fleet");
        return page.bad("the variables that begin with LODGE_FLEET contradict each other");
    };
    if args.fleet.is_empty() {
        return;
    }
    page.head("Fleet");
    if let Err(error) = look(page, &args.options()).await {
        page.bad(error.to_string());
    }
}

async fn look(page: &mut Page, options: &Options) -> Result<(), FleetError> {
    // What is wrong with the servers is said here, server by server.
    let unchecked = Options {
        sync: SyncCheck::Skipped,
        patience: std::time::Duration::from_secs(5),
        ..options.clone()
    };
    let fleet = Fleet::connect(&unchecked).await?;
    let took = fleet.round_trip().await?;
    page.good(format!(
        "the NATS servers answer in {:.1} ms",
        took.as_secs_f64() * 1000.0
    ));
    servers(page, &unchecked).await;
    streams(page, &fleet).await?;
    hosts(page, &fleet).await
}

async fn servers(page: &mut Page, options: &Options) {
    let (servers, size) = match Fleet::servers(options).await {
        Ok(found) => found,
        Err(error) => return page.hint(error.to_string()),
    };
    for server in &servers {
        let line = format!("server {} has version {}", server.name, server.version);
        match server.syncs {
            true => page.good(format!("{line} and syncs writes before it acknowledges them")),
            false => page.bad(format!(
                "{line} and acknowledges writes before they are on its disk: set `sync_interval: always` in its jetstream block"
            )),
        }
    }
    if servers.len() < size {
        page.bad(format!("{} of {size} servers answer", servers.len()));
    }
}

async fn streams(page: &mut Page, fleet: &Fleet) -> Result<(), FleetError> {
    let streams = fleet.streams().await?;
    let bytes: u64 = streams.iter().map(|stream| stream.bytes).sum();
    let copies = streams.iter().map(|stream| stream.copies).min().unwrap_or(0);
    let size = format!("{} hold {:.1} MB", count(streams.len(), "stream"), bytes as f64 / 1e6);
    match copies {
        ..3 => page.bad(format!(
            "{size} in fewer than three copies: losing one server can lose sessions"
        )),
        _ => page.good(format!("{size} in {copies} copies")),
    }
    for stream in streams {
        if stream.leader.is_none() && stream.copies > 1 {
            page.bad(format!(
                "stream {} has no leader: most of its servers are down",
                stream.name
            ));
        }
        for (server, lag) in stream.behind {
            page.bad(format!(
                "server {server} is {} behind in stream {}",
                count(usize::try_from(lag).unwrap_or(usize::MAX), "message"),
                stream.name
            ));
        }
    }
    Ok(())
}

async fn hosts(page: &mut Page, fleet: &Fleet) -> Result<(), FleetError> {
    let hosts = fleet.hosts().await?;
    if hosts.is_empty() {
        page.hint("no host is in the fleet now");
    }
    for host in &hosts {
        let draining = if host.announcement.draining {
            ", and is being drained"
        } else {
            ""
        };
        page.good(format!(
            "host {} has version {}{draining}",
            host.id, host.announcement.version
        ));
    }
    let versions: BTreeSet<&str> = hosts.iter().map(|host| host.announcement.version.as_str()).collect();
    if versions.len() > 1 {
        page.hint("hosts of different versions share the fleet; finish the upgrade soon");
    }
    Ok(())
}
