//! How the servers and streams of a fleet are, for an operator who looks.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::{Fleet, FleetError, Options, ServerInfo, checks, log::PATIENCE};

/// A stream of the fleet, as its leader has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHealth {
    /// Its name.
    pub name: String,
    /// The server that leads it; nothing when none does.
    pub leader: Option<String>,
    /// How many copies are kept.
    pub copies: usize,
    /// The servers whose copies are not up to date, and how many messages each lacks.
    pub behind: Vec<(String, u64)>,
    /// How many bytes it holds.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct Info {
    config: Config,
    state: State,
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct Config {
    name: String,
    num_replicas: usize,
}

#[derive(Deserialize)]
struct State {
    bytes: u64,
}

#[derive(Deserialize)]
struct Cluster {
    leader: Option<String>,
    #[serde(default)]
    replicas: Vec<Replica>,
}

#[derive(Deserialize)]
struct Replica {
    name: String,
    #[serde(default)]
    current: bool,
    #[serde(default)]
    lag: u64,
}

impl Fleet {
    /// How all streams are.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub async fn streams(&self) -> Result<Vec<StreamHealth>, FleetError> {
        let mut all = Vec::new();
        for name in self.stream_names() {
            let subject = format!("STREAM.INFO.{name}");
            let info = self.jetstream().persist::<Info>(&subject, &json!({}), PATIENCE).await;
            let info = info.map_err(|failure| failure.into_error("read the state of a stream", PATIENCE))?;
            let (leader, replicas) = match info.cluster {
                Some(cluster) => (cluster.leader, cluster.replicas),
                None => (None, Vec::new()),
            };
            let behind = replicas
                .into_iter()
                .filter(|replica| !replica.current || replica.lag > 0);
            all.push(StreamHealth {
                name: info.config.name,
                leader,
                copies: info.config.num_replicas,
                behind: behind.map(|replica| (replica.name, replica.lag)).collect(),
                bytes: info.state.bytes,
            });
        }
        Ok(all)
    }

    /// How long the servers take to answer.
    ///
    /// # Errors
    /// When they do not.
    pub async fn round_trip(&self) -> Result<Duration, FleetError> {
        let began = Instant::now();
        self.hosts().await?;
        Ok(began.elapsed())
    }

    /// The servers, and how many there are: some may not answer.
    ///
    /// # Errors
    /// When none of them answers, or the user may not ask.
    pub async fn servers(options: &Options) -> Result<(Vec<ServerInfo>, usize), FleetError> {
        checks::servers(options).await
    }
}
