//! The requests to JetStream that a fleet needs, as they are on the wire. What the servers answer is told apart by what it
//! means for the caller: done, refused for good, or unknown.

use std::time::Duration;

use async_nats::{Client, HeaderMap, Request, RequestErrorKind, StatusCode, Subscriber};
use base64::Engine as _;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::FleetError;

/// How long one request waits for its answer.
const REQUEST: Duration = Duration::from_secs(5);
/// The header that carries the fence.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// How long a message is kept.
const TTL: &str = "Nats-TTL";

const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];
const NO_MESSAGE: u64 = 10037;
const STREAM_NOT_FOUND: u64 = 10059;
const NAME_IN_USE: u64 = 10058;

/// A message as a stream keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) subject: String,
    pub(crate) sequence: u64,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

impl Stored {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.as_str())
    }
}

/// Why a request came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Failure {
    /// The servers said no; nothing was changed.
    #[error("{description} (error {code})")]
    Refused { code: u64, description: String },
    /// Nobody knows whether it was done.
    #[error("{0}")]
    Unknown(String),
}

impl Failure {
    pub(crate) fn unknown(reason: impl std::fmt::Display) -> Self {
        Self::Unknown(reason.to_string())
    }

    /// Whether a fenced message was refused because the subject does not end where its sender thought.
    pub(crate) fn is_wrong_last_sequence(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if WRONG_LAST_SEQUENCE.contains(code))
    }

    pub(crate) fn is_name_in_use(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == NAME_IN_USE)
    }

    pub(crate) fn is_stream_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == STREAM_NOT_FOUND)
    }

    /// Servers that have just started, or have no leader, refuse what they will do a moment later.
    fn may_pass(&self) -> bool {
        match self {
            Self::Unknown(_) => true,
            // Not available, no peers yet, no leader, not current, offline.
            Self::Refused { code, .. } => [10008, 10005, 10009, 10076, 10118, 10189, 10194].contains(code),
        }
    }

    pub(crate) fn into_error(self, action: impl Into<String>, tried: Duration) -> FleetError {
        let action = action.into();
        match self {
            Self::Refused { code, description } => FleetError::Refused {
                action,
                description,
                code,
            },
            Self::Unknown(reason) => FleetError::Unavailable {
                action,
                seconds: tried.as_secs(),
                reason,
            },
        }
    }
}

/// JetStream by way of one connection.
#[derive(Debug, Clone)]
pub(crate) struct JetStream {
    client: Client,
}

#[derive(Deserialize)]
struct Answer {
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct Ack {
    seq: u64,
}

#[derive(Deserialize)]
struct Gotten {
    message: RawMessage,
}

#[derive(Deserialize)]
struct RawMessage {
    subject: String,
    seq: u64,
    #[serde(default)]
    data: String,
    #[serde(default)]
    hdrs: String,
}

impl JetStream {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// What is said on a subject from now on.
    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscriber, Failure> {
        let subscribing = async {
            let subscriber = self.client.subscribe(subject).await.map_err(Failure::unknown)?;
            self.client.flush().await.map_err(Failure::unknown)?;
            Ok(subscriber)
        };
        timeout(REQUEST, subscribing).await.map_err(Failure::unknown)?
    }

    async fn request<T: DeserializeOwned>(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<T, Failure> {
        let request = Request {
            payload: Some(payload),
            headers,
            timeout: Some(Some(REQUEST)),
            inbox: None,
        };
        // While there is no connection, a request may wait for room in the queue of those that wait for one.
        let answer = timeout(2 * REQUEST, self.client.send_request(subject, request)).await;
        let answer = answer.map_err(Failure::unknown)?.map_err(|error| match error.kind() {
            // Without these the message has not left this program.
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => Failure::Refused {
                code: 0,
                description: error.to_string(),
            },
            _ => Failure::unknown(error),
        })?;
        let text = &answer.payload;
        if let Ok(Answer { error: Some(error) }) = serde_json::from_slice(text) {
            return Err(Failure::Refused {
                code: error.err_code,
                description: error.description,
            });
        }
        serde_json::from_slice(text).map_err(|error| Failure::Unknown(format!("unreadable answer: {error}")))
    }

    /// One request to the API.
    pub(crate) async fn api<T: DeserializeOwned>(&self, subject: &str, body: &Value) -> Result<T, Failure> {
        let payload = Bytes::from(body.to_string());
        self.request(format!("$JS.API.{subject}"), None, payload).await
    }

    /// A request that changes nothing, or nothing the second time, until it is answered or the patience is at its end.
    pub(crate) async fn persist<T: DeserializeOwned>(
        &self,
        subject: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + patience;
        loop {
            match self.api(subject, body).await {
                Err(failure) if failure.may_pass() && Instant::now() < deadline => {
                    sleep(Duration::from_millis(100)).await;
                }
                other => return other,
            }
        }
    }

    /// Writes a message if the subject's last one has this sequence (0: if there is none). Answers with its own sequence.
    pub(crate) async fn publish(
        &self,
        subject: &str,
        expected: u64,
        mut headers: HeaderMap,
        payload: Bytes,
    ) -> Result<u64, Failure> {
        headers.insert(EXPECTED, expected.to_string());
        let ack: Ack = self.request(subject.to_owned(), Some(headers), payload).await?;
        Ok(ack.seq)
    }

    /// Writes a message, whatever the subject holds.
    pub(crate) async fn put(&self, subject: &str, headers: HeaderMap, payload: Bytes) -> Result<u64, Failure> {
        let ack: Ack = self.request(subject.to_owned(), Some(headers), payload).await?;
        Ok(ack.seq)
    }

    /// The last message of a subject, as the stream's leader has it.
    pub(crate) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Stored>, Failure> {
        self.get(stream, &json!({ "last_by_subj": subject })).await
    }

    /// The first message of a subject at or after a sequence, as the stream's leader has it.
    pub(crate) async fn next(&self, stream: &str, subject: &str, from: u64) -> Result<Option<Stored>, Failure> {
        self.get(stream, &json!({ "next_by_subj": subject, "seq": from })).await
    }

    async fn get(&self, stream: &str, body: &Value) -> Result<Option<Stored>, Failure> {
        match self.api(&format!("STREAM.MSG.GET.{stream}"), body).await {
            Ok(Gotten { message }) => stored(message).map(Some),
            Err(Failure::Refused { code: NO_MESSAGE, .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// How many messages a subject has, as the stream's leader knows without reading them.
    pub(crate) async fn count(&self, stream: &str, subject: &str) -> Result<u64, Failure> {
        let info: Value = self
            .api(&format!("STREAM.INFO.{stream}"), &json!({ "subjects_filter": subject }))
            .await?;
        Ok(info["state"]["subjects"][subject].as_u64().unwrap_or(0))
    }

    /// Has another server lead a stream. Whether it came to that shows when the stream is used next.
    pub(crate) async fn change_leader(&self, stream: &str) {
        let changed = self
            .api::<Value>(&format!("STREAM.LEADER.STEPDOWN.{stream}"), &json!({}))
            .await;
        tracing::warn!(
            stream,
            ?changed,
            "the server that leads a stream cannot read the end of a log; another one is to lead"
        );
    }

    /// Some messages of a subject (which may have wildcards) from a sequence on, from whichever server has a copy: it may
    /// lag behind, or be damaged. Empty when that server has none.
    pub(crate) async fn batch(&self, stream: &str, subject: &str, from: u64) -> Result<Vec<Stored>, Failure> {
        self.some(stream, subject, from, 256).await
    }

    /// The first of them.
    pub(crate) async fn next_of_any(&self, stream: &str, subject: &str, from: u64) -> Result<Option<Stored>, Failure> {
        Ok(self.some(stream, subject, from, 1).await?.pop())
    }

    async fn some(&self, stream: &str, subject: &str, from: u64, most: u64) -> Result<Vec<Stored>, Failure> {
        let body = json!({ "seq": from, "next_by_subj": subject, "batch": most, "max_bytes": 4 << 20 });
        self.collect(stream, &body).await
    }

    /// The last message of a subject, from whichever server has a copy.
    pub(crate) async fn last_of_any(&self, stream: &str, subject: &str) -> Result<Option<Stored>, Failure> {
        Ok(self.last_of_each(stream, subject).await?.pop())
    }

    /// The last message of every subject that matches.
    pub(crate) async fn last_of_each(&self, stream: &str, subjects: &str) -> Result<Vec<Stored>, Failure> {
        self.collect(stream, &json!({ "multi_last": [subjects], "batch": 1024 }))
            .await
    }

    async fn collect(&self, stream: &str, body: &Value) -> Result<Vec<Stored>, Failure> {
        let inbox = self.client.new_inbox();
        let asking = async {
            let answers = self.client.subscribe(inbox.clone()).await.map_err(Failure::unknown)?;
            let subject = format!("$JS.API.DIRECT.GET.{stream}");
            let asked = self.client.publish_with_reply(subject, inbox, body.to_string().into());
            asked.await.map_err(Failure::unknown)?;
            Ok(answers)
        };
        let mut answers = timeout(REQUEST, asking).await.map_err(Failure::unknown)??;
        let mut found = Vec::new();
        loop {
            let answer = timeout(REQUEST, answers.next()).await;
            let Some(answer) = answer.map_err(Failure::unknown)? else {
                return Err(Failure::Unknown("the connection was closed".into()));
            };
            match answer.status {
                // The end of a batch, which says so only where batches are known.
                Some(status) if status.as_u16() == 204 => return Ok(found),
                Some(StatusCode::NOT_FOUND) => return Ok(found),
                Some(status) => {
                    let words = answer.description.unwrap_or_default();
                    return Err(Failure::Unknown(format!("{words} (status {status})")));
                }
                None => found.push(direct(answer)?),
            }
        }
    }

    /// Messages of a subject with wildcards, each as the stream's leader has it: none that was acknowledged before is missing.
    pub(crate) async fn all(&self, stream: &str, subject: &str) -> Result<Vec<Stored>, Failure> {
        let (mut found, mut from) = (Vec::new(), 1);
        while let Some(stored) = self.next(stream, subject, from).await? {
            from = stored.sequence + 1;
            found.push(stored);
        }
        Ok(found)
    }

    /// Removes all messages of the subjects, or those before a sequence.
    pub(crate) async fn purge(
        &self,
        stream: &str,
        subjects: &str,
        before: Option<u64>,
        patience: Duration,
    ) -> Result<(), Failure> {
        let mut body = json!({ "filter": subjects });
        if let Some(before) = before {
            body["seq"] = before.into();
        }
        let _: Value = self.persist(&format!("STREAM.PURGE.{stream}"), &body, patience).await?;
        Ok(())
    }
}

/// Says for how long a message is kept.
pub(crate) fn keep_for(headers: &mut HeaderMap, time: Duration) {
    headers.insert(TTL, format!("{}s", time.as_secs()));
}

fn stored(message: RawMessage) -> Result<Stored, Failure> {
    let decode = |text: &str| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        bytes.map_err(|error| Failure::Unknown(format!("unreadable message: {error}")))
    };
    let mut headers = HeaderMap::new();
    let text = decode(&message.hdrs)?;
    for line in String::from_utf8_lossy(&text).lines().skip(1) {
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name, value.trim());
        }
    }
    Ok(Stored {
        subject: message.subject,
        sequence: message.seq,
        headers,
        payload: decode(&message.data)?.into(),
    })
}

fn direct(message: async_nats::Message) -> Result<Stored, Failure> {
    let headers = message.headers.unwrap_or_default();
    let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
    let sequence = text("Nats-Sequence").and_then(|text| text.parse().ok());
    let (Some(subject), Some(sequence)) = (text("Nats-Subject"), sequence) else {
        return Err(Failure::Unknown("a message without its sequence".into()));
    };
    Ok(Stored {
        subject,
        sequence,
        headers,
        payload: message.payload,
    })
}

/// A stored message as the servers say it again, with the sequence of the subject's message before it.
pub(crate) fn announced(message: async_nats::Message) -> Option<(Stored, u64)> {
    let stored = direct(message).ok()?;
    let previous = stored.header("Nats-Last-Sequence")?.parse().ok()?;
    Some((stored, previous))
}
