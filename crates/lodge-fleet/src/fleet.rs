//! The connection to the servers of a fleet, and the streams that it has there.

use std::{fmt, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Access, FleetError, FleetLog, LEASE, SyncCheck, access, checks,
    jetstream::{Failure, JetStream},
    listing,
    log::PATIENCE,
    names,
    record::FORMAT,
};

/// Copies that are kept of everything.
const REPLICAS: usize = 3;
/// The most that a message holds itself; more is kept beside the log.
const INLINE: usize = 512 << 10;
/// What a message's headers take at most.
const HEADERS: usize = 4 << 10;

/// How to reach a fleet, and what it may be made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// The servers, as a user of the account that has JetStream.
    pub access: Access,
    /// The servers as a user of the system account, by which their settings can be seen. None without addresses.
    pub system: Access,
    /// What to do about servers that acknowledge what is not on their disk.
    pub sync: SyncCheck,
    /// How many copies are kept. Fewer than three lose sessions with a server: say so to whoever asks for it.
    pub replicas: usize,
    /// Among how many streams sessions are spread. All hosts of a fleet have the same number.
    pub shards: u32,
    /// How long to wait for servers that have just started.
    pub patience: Duration,
}

impl Options {
    /// The usual settings, for these servers.
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            access: Access::new(servers),
            system: Access::default(),
            sync: SyncCheck::Required,
            replicas: REPLICAS,
            shards: 32,
            patience: Duration::from_secs(30),
        }
    }
}

/// A connection to a fleet. Clones share it.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    jetstream: JetStream,
    shards: u32,
    inline: usize,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("shards", &self.0.shards)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct StreamInfo {
    config: Value,
}

impl Fleet {
    /// Connects, checks that the servers keep what they acknowledge, and makes the streams that are missing.
    ///
    /// # Errors
    /// When no server can be reached, or one of them will not do.
    pub async fn connect(options: &Options) -> Result<Self, FleetError> {
        let client = access::connect(&options.access, options.patience).await?;
        let info = client.server_info();
        checks::version(&info.server_name, &info.version)?;
        let jetstream = JetStream::new(client);
        let checked = checks::sync(options, &jetstream).await?;
        let fleet = Self(Arc::new(Inner {
            jetstream,
            shards: options.shards,
            inline: info.max_payload.saturating_sub(HEADERS).clamp(1024, INLINE),
        }));
        for stream in streams(options) {
            fleet.ensure(stream, options).await?;
        }
        if let Some(servers) = checked {
            checks::note_checked(fleet.jetstream(), &servers).await;
        }
        Ok(fleet)
    }

    /// Checks the servers again, as [`Fleet::connect`] did: one that was down then may have come back with other settings.
    ///
    /// # Errors
    /// When one of those that answer will not do.
    pub async fn check_again(&self, options: &Options) -> Result<(), FleetError> {
        if let Some(servers) = checks::sync(options, self.jetstream()).await? {
            checks::note_checked(self.jetstream(), &servers).await;
        }
        Ok(())
    }

    /// Connects as a user who may change streams, and gives the streams that an earlier version made the settings of this one. Answers
    /// the names of those that it changed. Hosts of earlier versions must not run any more.
    ///
    /// # Errors
    /// When the servers do not take the settings; [`FleetError::ForeignStream`] when a setting differs that nobody may change.
    pub async fn upgrade(options: &Options) -> Result<Vec<String>, FleetError> {
        let client = access::connect(&options.access, options.patience).await?;
        let (js, patience) = (JetStream::new(client), options.patience);
        let mut changed = Vec::new();
        for wanted in streams(options) {
            let name = wanted["name"].as_str().unwrap_or_default().to_owned();
            let failed = |failure: Failure| failure.into_error(format!("upgrade stream {name}"), patience);
            let found = js
                .persist::<StreamInfo>(&format!("STREAM.INFO.{name}"), &json!({}), patience)
                .await;
            let found = match found {
                Err(failure) if failure.is_stream_not_found() => continue,
                found => found.map_err(failed)?.config,
            };
            match checks::stream(&name, &wanted, &found) {
                Err(FleetError::OlderFormat { .. }) => {}
                other => {
                    other?;
                    continue;
                }
            }
            let config = checks::upgraded(&wanted, &found);
            checks::stream(&name, &wanted, &config)?;
            let _: StreamInfo = js
                .persist(&format!("STREAM.UPDATE.{name}"), &config, patience)
                .await
                .map_err(failed)?;
            changed.push(name);
        }
        Ok(changed)
    }

    pub(crate) fn stream_names(&self) -> impl Iterator<Item = String> {
        let buckets = [HOSTS, OWNERS, SESSIONS].map(str::to_owned);
        (0..self.0.shards).map(names::stream).chain(buckets)
    }

    /// The log of a session.
    ///
    /// # Errors
    /// When the id is empty or too long.
    pub fn log(&self, session: &str) -> Result<FleetLog, FleetError> {
        FleetLog::new(self.clone(), session)
    }

    pub(crate) fn jetstream(&self) -> &JetStream {
        &self.0.jetstream
    }

    pub(crate) fn shards(&self) -> u32 {
        self.0.shards
    }

    pub(crate) fn inline(&self) -> usize {
        self.0.inline
    }

    /// Repeats a request that changes nothing until somebody answers it.
    pub(crate) async fn until_answered<T, F>(&self, action: &str, mut ask: impl FnMut() -> F) -> Result<T, FleetError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(failure) if Instant::now() >= deadline => return Err(failure.into_error(action, PATIENCE)),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Makes a stream, or checks that the one that is there is as a fleet needs it.
    async fn ensure(&self, wanted: Value, options: &Options) -> Result<(), FleetError> {
        let name = wanted["name"].as_str().unwrap_or_default().to_owned();
        let (js, patience) = (self.jetstream(), options.patience);
        let found = js
            .persist::<StreamInfo>(&format!("STREAM.INFO.{name}"), &json!({}), patience)
            .await;
        let info = match found {
            Err(failure) if failure.is_stream_not_found() => {
                let made = js
                    .persist::<StreamInfo>(&format!("STREAM.CREATE.{name}"), &wanted, patience)
                    .await;
                match made {
                    // Another host was faster, with the same settings or others.
                    Err(failure) if failure.is_name_in_use() => {
                        js.persist(&format!("STREAM.INFO.{name}"), &json!({}), patience).await
                    }
                    other => other,
                }
            }
            other => other,
        };
        let info = info.map_err(|failure| failure.into_error(format!("make stream {name}"), patience))?;
        checks::stream(&name, &wanted, &info.config)
    }
}

/// The settings of all streams of a fleet.
fn streams(options: &Options) -> impl Iterator<Item = Value> {
    let logs = (0..options.shards).map(|shard| log_stream(shard, options));
    logs.chain([hosts_bucket(options), owners_bucket(options), sessions_bucket(options)])
}

/// What is the same for every stream of a fleet.
fn stream(name: &str, subjects: &[&str], options: &Options) -> Value {
    json!({
        "name": name,
        "subjects": subjects,
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": options.replicas,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_consumers": -1,
        "max_msg_size": -1,
        "max_msgs_per_subject": -1,
        "max_age": 0,
        "deny_delete": true,
        "deny_purge": false,
        "allow_direct": true,
        "allow_msg_ttl": false,
        "metadata": { checks::SHARDS: options.shards.to_string(), checks::FORMAT_SETTING: FORMAT.to_string() },
    })
}

fn log_stream(shard: u32, options: &Options) -> Value {
    let log = format!("lodge.ev.{shard:02}.*");
    let bodies = format!("lodge.body.{shard:02}.*.*.*");
    let mut config = stream(&names::stream(shard), &[&log, &bodies], options);
    config["allow_msg_ttl"] = true.into();
    config
}

pub(crate) const HOSTS: &str = "KV_lodge-hosts";
pub(crate) const OWNERS: &str = "KV_lodge-owners";
pub(crate) const SESSIONS: &str = "KV_lodge-sessions";

/// Keys of hosts that live; the servers remove one that is not written anew in time.
fn hosts_bucket(options: &Options) -> Value {
    let mut config = bucket(HOSTS, "$KV.lodge-hosts.>", options);
    config["max_age"] = u64::try_from(LEASE.as_nanos()).unwrap_or(u64::MAX).into();
    config
}

fn owners_bucket(options: &Options) -> Value {
    let mut config = bucket(OWNERS, "$KV.lodge-owners.>", options);
    config["allow_msg_ttl"] = true.into();
    config
}

/// What owners say of their sessions; the servers repeat it for whoever follows the list.
fn sessions_bucket(options: &Options) -> Value {
    let mut config = bucket(SESSIONS, "$KV.lodge-sessions.>", options);
    config["allow_msg_ttl"] = true.into();
    config["republish"] = json!({ "src": listing::KEYS, "dest": format!("{}{{{{wildcard(1)}}}}", listing::REPEATED) });
    config
}

/// A stream that NATS's own tools know as a bucket of keys.
fn bucket(name: &str, subjects: &str, options: &Options) -> Value {
    let mut config = stream(name, &[subjects], options);
    config["max_msgs_per_subject"] = 1.into();
    config["allow_rollup_hdrs"] = true.into();
    config
}
