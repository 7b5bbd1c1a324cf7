//! What goes over the socket: text frames that are made once and shared by everybody who gets them.

use axum::extract::ws::Utf8Bytes;
use serde::Serialize;

/// One JSON-RPC message, ready to send. Cheap to clone: the bytes are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame(Utf8Bytes);

impl Frame {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// For the socket.
    pub fn into_bytes(self) -> Utf8Bytes {
        self.0
    }
}

impl From<String> for Frame {
    fn from(text: String) -> Self {
        Self(Utf8Bytes::from(text))
    }
}

/// Who dispatched an action, echoed so that the client knows its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The client.
    pub client_id: std::sync::Arc<str>,
    /// Its number for the action.
    pub client_seq: i64,
}

const ACTION_HEAD: &str = r#"{"jsonrpc":"2.0","method":"action","params":"#;

/// The envelope of an action. `channel` is absent in the seed's dialect.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope<'a, A: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<&'a str>,
    pub(crate) action: &'a A,
    pub(crate) server_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<&'a Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rejection_reason: Option<&'a str>,
}

impl<A: Serialize> Envelope<'_, A> {
    /// The `action` notification that carries it.
    pub(crate) fn frame(&self) -> Frame {
        let mut text = String::with_capacity(256);
        text.push_str(ACTION_HEAD);
        text.push_str(&to_json(self));
        text.push('}');
        Frame::from(text)
    }
}

/// The envelope inside an action's frame, as replays list it.
pub(crate) fn envelope_of(frame: &Frame) -> &str {
    frame
        .as_str()
        .strip_prefix(ACTION_HEAD)
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or("null")
}

/// The frame of a notification.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> Frame {
    Frame::from(format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{}}}"#,
        to_json(params)
    ))
}

/// JSON of the protocol's own types, which have no keys that are not strings and no failing serialisers.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!("a protocol type did not serialise: {error}");
        "null".to_owned()
    })
}
