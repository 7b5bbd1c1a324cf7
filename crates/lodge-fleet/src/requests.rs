//! What hosts, and operators, ask of a host: one subject per host, answered by that host alone. Who may ask is a matter of the
//! permissions that the servers give on `lodge.cmd.*`.

use std::time::Duration;

use async_nats::{Client, Message, RequestErrorKind, Subscriber};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::{Fleet, FleetError, Host, names};

/// How long a host has to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// What is asked of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum Request {
    /// To let a session go that nobody uses there.
    Release {
        /// The session.
        session: String,
    },
    /// To take no more sessions, and to let go of those that it has when their turns have ended.
    Drain,
    /// Whether it has a directory.
    Directory {
        /// The directory's path.
        path: String,
    },
    /// To link the host that asks to something that this one serves.
    Link {
        /// The name of what it serves.
        serves: String,
        /// The link's own name.
        link: String,
        /// The host that asks, by its name.
        from: String,
    },
}

/// What a host answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
pub enum Reply {
    /// The session is free, or will be in a moment.
    Released,
    /// A turn runs in it, or clients have it open.
    InUse,
    /// The host lets go of its sessions.
    Draining {
        /// How many it still has in use.
        left: usize,
    },
    /// Whether the host has the directory.
    Directory {
        /// It does.
        here: bool,
    },
    /// The link leads to what was asked for.
    Linked,
    /// The host is of another version, and does not know what it was asked.
    #[serde(other)]
    Unknown,
}

impl Fleet {
    /// Asks a host. Nothing when it does not answer: it may be gone, or out of reach.
    ///
    /// # Errors
    /// When the connection to the servers does not work.
    pub async fn ask(&self, host: &str, request: &Request) -> Result<Option<Reply>, FleetError> {
        let text = serde_json::to_vec(request).expect("a request is plain data");
        let request = async_nats::Request::new().payload(text.into()).timeout(Some(ANSWER));
        let asking = self.jetstream().client().send_request(subject(host), request);
        // Without a connection it may not even be sent.
        let Ok(answer) = timeout(2 * ANSWER, asking).await else {
            return Ok(None);
        };
        match answer {
            Ok(answer) => Ok(Some(serde_json::from_slice(&answer.payload).unwrap_or(Reply::Unknown))),
            Err(error) => match error.kind() {
                RequestErrorKind::NoResponders | RequestErrorKind::TimedOut => Ok(None),
                _ => Err(unavailable(&format!("ask host {host}"), error)),
            },
        }
    }
}

impl Host {
    /// What others ask of this host, from now on.
    ///
    /// # Errors
    /// When the servers cannot be reached.
    pub async fn requests(&self) -> Result<Requests, FleetError> {
        let jetstream = self.fleet().jetstream();
        let asked = jetstream.subscribe(subject(self.id())).await;
        Ok(Requests {
            client: jetstream.client().clone(),
            asked: asked.map_err(|error| unavailable("receive requests of other hosts", error))?,
        })
    }
}

/// What others ask of a host.
pub struct Requests {
    client: Client,
    asked: Subscriber,
}

impl Requests {
    /// The next request, with the way to answer it; nothing when the connection is closed.
    pub async fn next(&mut self) -> Option<(Option<Request>, Asker)> {
        let message = self.asked.next().await?;
        let request = serde_json::from_slice(&message.payload).ok();
        let client = self.client.clone();
        Some((request, Asker { client, message }))
    }
}

/// Whoever asked.
pub struct Asker {
    client: Client,
    message: Message,
}

impl Asker {
    /// Answers. An answer that gets lost is asked for again.
    pub async fn answer(self, reply: &Reply) {
        let Some(to) = self.message.reply else { return };
        let text = serde_json::to_vec(reply).expect("a reply is plain data");
        if let Err(error) = self.client.publish(to, text.into()).await {
            tracing::warn!(%error, "cannot answer another host");
        }
    }
}

fn subject(host: &str) -> String {
    format!("lodge.cmd.{}", names::word(host))
}

fn unavailable(action: &str, reason: impl std::fmt::Display) -> FleetError {
    FleetError::Unavailable {
        action: action.into(),
        seconds: ANSWER.as_secs(),
        reason: reason.to_string(),
    }
}
