//! What servers and streams have to be like, so that what they acknowledge is kept.

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::{FleetError, Options, access::connect};

/// The oldest server that will do: the answers to the faults that Jepsen found in 2.12 are in it.
const LEAST: (u64, u64) = (2, 15);
/// How long servers have to say how they are set up, after the last one did.
const ROUND: Duration = Duration::from_secs(1);

/// What to do about servers that acknowledge what is not on their disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncCheck {
    /// Refuse them, and refuse servers of which it cannot be told.
    Required,
    /// Take what the operator says: a power cut may lose what was accepted.
    Skipped,
}

/// Refuses a server that is too old.
pub(crate) fn version(server: &str, found: &str) -> Result<(), FleetError> {
    let mut numbers = found
        .trim_start_matches('v')
        .split(['.', '-'])
        .map(|part| part.parse::<u64>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= LEAST {
        return Ok(());
    }
    Err(FleetError::TooOld {
        server: server.to_owned(),
        found: found.to_owned(),
        least: format!("{}.{}", LEAST.0, LEAST.1),
    })
}

#[derive(Deserialize)]
struct Said {
    server: Server,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Server {
    name: String,
    ver: String,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    config: Config,
    meta_cluster: Option<Meta>,
}

#[derive(Deserialize, Default)]
struct Config {
    #[serde(default)]
    sync_always: bool,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    cluster_size: usize,
}

/// A server of the cluster, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether what it acknowledges is on its disk. A server without JetStream acknowledges nothing.
    pub syncs: bool,
}

/// Refuses servers that are too old, acknowledge what is not on their disk, or do not say.
pub(crate) async fn sync(options: &Options) -> Result<(), FleetError> {
    if options.sync == SyncCheck::Skipped {
        return Ok(());
    }
    let deadline = Instant::now() + options.patience;
    let (servers, size) = loop {
        let (servers, size) = servers(options).await?;
        if servers.len() >= size || Instant::now() >= deadline {
            break (servers, size);
        }
    };
    for server in &servers {
        version(&server.name, &server.version)?;
        if !server.syncs {
            let server = server.name.clone();
            return Err(FleetError::LazySync { server });
        }
    }
    if servers.len() < size {
        let names: Vec<String> = servers.into_iter().map(|server| server.name).collect();
        return Err(FleetError::SyncUnknown {
            reason: format!("only {} of {size} servers answered. Start the others", names.join(", ")),
        });
    }
    Ok(())
}

/// Asks every server of the cluster for its version and whether it syncs. Answers how many there are, too.
pub(crate) async fn servers(options: &Options) -> Result<(Vec<ServerInfo>, usize), FleetError> {
    let unknown = |reason: &str| FleetError::SyncUnknown { reason: reason.into() };
    if options.system.is_empty() {
        return Err(unknown("no user of the system account was given. Give one"));
    }
    let client = connect(&options.system, options.patience).await?;
    let failed =
        |error: &dyn std::fmt::Display| unknown(&format!("the servers could not be asked: {error}. Try again"));
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
    let ask = client.publish_with_reply("$SYS.REQ.SERVER.PING.JSZ", inbox, "{\"config\":true}".into());
    ask.await.map_err(|error| failed(&error))?;
    let mut servers = BTreeMap::new();
    let mut size = 1;
    while servers.len() < size {
        let Ok(Some(answer)) = timeout(ROUND, answers.next()).await else {
            break;
        };
        // Without the right to ask, or without the servers' answer, the size of the cluster stays unknown.
        let Ok(Said { server, data }) = serde_json::from_slice(&answer.payload) else {
            continue;
        };
        let Some(data) = data else { continue };
        size = size.max(data.meta_cluster.map_or(1, |meta| meta.cluster_size));
        let server = ServerInfo {
            name: server.name,
            version: server.ver,
            syncs: data.disabled || data.config.sync_always,
        };
        servers.insert(server.name.clone(), server);
    }
    if servers.is_empty() {
        return Err(unknown("no server answered. Give a user of the system account"));
    }
    Ok((servers.into_values().collect(), size))
}

/// Compares the settings of a stream with those that a fleet needs.
pub(crate) fn stream(name: &str, wanted: &Value, found: &Value) -> Result<(), FleetError> {
    let replicas = |config: &Value| config["num_replicas"].as_u64().unwrap_or(1) as usize;
    if replicas(found) < replicas(wanted) {
        return Err(FleetError::TooFewReplicas {
            stream: name.to_owned(),
            found: replicas(found),
            wanted: replicas(wanted),
        });
    }
    let fields = [
        "subjects",
        "retention",
        "storage",
        "max_msgs",
        "max_bytes",
        "max_msgs_per_subject",
        "max_age",
        "deny_delete",
        "allow_direct",
        "republish",
    ];
    for field in fields {
        let (wanted, found) = (&wanted[field], &found[field]);
        if wanted != found {
            return Err(foreign(name, field, found, wanted));
        }
    }
    let shards = "lodge.shards";
    let (wanted, found) = (&wanted["metadata"][shards], &found["metadata"][shards]);
    if wanted != found {
        return Err(foreign(name, shards, found, wanted));
    }
    Ok(())
}

fn foreign(stream: &str, field: &'static str, found: &Value, wanted: &Value) -> FleetError {
    FleetError::ForeignStream {
        stream: stream.to_owned(),
        field,
        found: found.to_string(),
        wanted: wanted.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_before_2_15_are_refused() {
        for (found, good) in [
            ("2.15.0", true),
            ("2.15.1-RC.2", true),
            ("v3.0.0", true),
            ("2.14.9", false),
            ("2.9.10", false),
            ("1.99.0", false),
            ("", false),
        ] {
            assert_eq!(version("one", found).is_ok(), good, "{found}");
        }
    }
}
