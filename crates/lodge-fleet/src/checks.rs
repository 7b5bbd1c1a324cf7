//! What servers and streams have to be like, so that what they acknowledge is kept.

use std::{collections::BTreeMap, time::Duration};

use async_nats::HeaderMap;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::{FleetError, Options, access::connect, fleet::OWNERS, jetstream::JetStream, record::FORMAT};

/// The oldest server that will do: the answers to the faults that Jepsen found in 2.12 are in it.
const LEAST: (u64, u64) = (2, 15);
/// How long servers have to say how they are set up, after the last one did.
const ROUND: Duration = Duration::from_secs(1);

/// In a stream's metadata: among how many streams sessions are spread, and the format of what the streams hold.
pub(crate) const SHARDS: &str = "lodge.shards";
pub(crate) const FORMAT_SETTING: &str = "lodge.format";

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

/// The key of the servers that were all checked at once. No session has such a word.
const CHECKED: &str = "$KV.lodge-owners.=servers";

/// Refuses servers that are too old, acknowledge what is not on their disk, or do not say. A minority may be down if all servers were
/// checked before. Answers the names of the servers when all answered.
pub(crate) async fn sync(options: &Options, js: &JetStream) -> Result<Option<Vec<String>>, FleetError> {
    if options.sync == SyncCheck::Skipped {
        return Ok(None);
    }
    let deadline = Instant::now() + options.patience;
    loop {
        let (servers, size) = servers(options).await?;
        for server in &servers {
            version(&server.name, &server.version)?;
            if !server.syncs {
                let server = server.name.clone();
                return Err(FleetError::LazySync { server });
            }
        }
        let names: Vec<String> = servers.into_iter().map(|server| server.name).collect();
        // Servers that have just started may not know of each other yet.
        if names.len() >= size.max(options.replicas) {
            return Ok(Some(names));
        }
        if may_lack(&names, size, &checked(js).await) {
            tracing::warn!(
                servers = names.join(", "),
                size,
                "some NATS servers do not answer; they were checked before"
            );
            return Ok(None);
        }
        if Instant::now() >= deadline && names.len() >= size {
            // There are no more of them, and they cannot keep as many copies. Making the streams says so.
            return Ok(None);
        }
        if Instant::now() >= deadline {
            return Err(FleetError::SyncUnknown {
                reason: format!("only {} of {size} servers answered. Start the others", names.join(", ")),
            });
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Whether the servers that did not answer are few enough, and were checked before.
fn may_lack(answered: &[String], size: usize, checked: &[String]) -> bool {
    answered.len() > size / 2 && checked.len() == size && answered.iter().all(|name| checked.contains(name))
}

/// The servers that were all checked at once, last. Nothing when that cannot be told now.
async fn checked(js: &JetStream) -> Vec<String> {
    let found = js.last(OWNERS, CHECKED).await.ok().flatten();
    let names = found.and_then(|found| serde_json::from_slice(&found.payload).ok());
    names.unwrap_or_default()
}

/// Notes that all servers were checked. When that fails, it is noted with the next check.
pub(crate) async fn note_checked(js: &JetStream, names: &[String]) {
    if checked(js).await == names {
        return;
    }
    let text = serde_json::to_vec(names).expect("names are plain data");
    if let Err(error) = js.put(CHECKED, HeaderMap::new(), text.into()).await {
        tracing::warn!(%error, "cannot note that the NATS servers were checked");
    }
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
    let format = found["metadata"][FORMAT_SETTING].as_str();
    let format = format.and_then(|format| format.parse::<u32>().ok()).unwrap_or(0);
    let is_of_a_fleet = !found["metadata"][SHARDS].is_null();
    if is_of_a_fleet && format > FORMAT {
        let what = format!("stream {name}");
        return Err(FleetError::NewerFormat { what });
    }
    if is_of_a_fleet && format < FORMAT {
        let stream = name.to_owned();
        return Err(FleetError::OlderFormat { stream });
    }
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
        "allow_msg_ttl",
        "republish",
    ];
    for field in fields {
        let (wanted, found) = (&wanted[field], &found[field]);
        if wanted != found {
            return Err(foreign(name, field, found, wanted));
        }
    }
    let (wanted, found) = (&wanted["metadata"][SHARDS], &found["metadata"][SHARDS]);
    if wanted != found {
        return Err(foreign(name, SHARDS, found, wanted));
    }
    Ok(())
}

/// The settings of a stream that an earlier version made, changed to those that a fleet needs now. What decides where sessions are stays,
/// and so do more copies than a fleet needs.
pub(crate) fn upgraded(wanted: &Value, found: &Value) -> Value {
    let mut config = found.clone();
    for (field, value) in wanted.as_object().into_iter().flatten() {
        match field.as_str() {
            "num_replicas" => {}
            "metadata" => config["metadata"][FORMAT_SETTING] = value[FORMAT_SETTING].clone(),
            _ => config[field] = value.clone(),
        }
    }
    config
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

    #[test]
    fn a_minority_of_servers_may_be_down_if_all_were_checked_before() {
        let three = ["a", "b", "c"];
        for (answered, size, checked, good) in [
            (&["a", "b"][..], 3, &three[..], true),
            (&["a"], 3, &three, false),
            (&["a", "b"], 3, &[], false),
            (&["a", "b"], 3, &["a", "b"], false),
            // Another server is down than one of those that were checked.
            (&["a", "d"], 3, &three, false),
            (&["a", "b"], 4, &["a", "b", "c", "d"], false),
        ] {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            assert_eq!(
                may_lack(&names(answered), size, &names(checked)),
                good,
                "{answered:?} of {checked:?}"
            );
        }
    }
}
