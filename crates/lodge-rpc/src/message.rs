//! JSON-RPC 2.0 messages and errors.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// What kind of failure it is.
    pub code: i64,
    /// What failed, in words.
    pub message: String,
    /// More about it, in any form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

/// The line is no JSON.
pub const PARSE_ERROR: i64 = -32700;
/// It is no message, or comes at the wrong time.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// Anything else.
pub const INTERNAL_ERROR: i64 = -32603;
/// The requester cancelled it.
pub const CANCELLED: i64 = -32800;
/// Somebody has to authenticate first.
pub const AUTH_REQUIRED: i64 = -32000;
/// There is no such thing.
pub const NOT_FOUND: i64 = -32002;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error {
    /// An error of a kind.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The parameters do not fit.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// Anything that went wrong here.
    pub fn internal(message: impl ToString) -> Self {
        Self::new(INTERNAL_ERROR, message.to_string())
    }

    /// The requester cancelled it.
    pub fn cancelled() -> Self {
        Self::new(CANCELLED, "The request was cancelled.")
    }
}

/// What the other side sent.
#[derive(Debug)]
pub enum Message {
    /// A request.
    Request {
        /// What the answer names.
        id: Value,
        /// What is wanted.
        method: String,
        /// Null where there are none.
        params: Value,
    },
    /// A notification.
    Notification {
        /// What is reported.
        method: String,
        /// Null where there are none.
        params: Value,
    },
    /// An answer.
    Response {
        /// The id of the request.
        id: Value,
        /// What came of it.
        result: Result<Value, Error>,
    },
}

#[derive(Deserialize)]
struct Envelope {
    jsonrpc: Option<String>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<Error>,
}

/// A field that is there counts as there, also when it is null.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl Message {
    /// Reads one message. The error comes with the id that it answers, null where there is none.
    pub fn read(line: &[u8]) -> Result<Self, (Value, Error)> {
        let value: Value = serde_json::from_slice(line)
            .map_err(|error| (Value::Null, Error::new(PARSE_ERROR, format!("Not JSON: {error}"))))?;
        let id = value.get("id").filter(|id| is_id(id)).cloned().unwrap_or_default();
        let invalid = |why: String| (id.clone(), Error::new(INVALID_REQUEST, why));
        if value.is_array() {
            return Err(invalid("Batches are not supported. Send one message per line.".into()));
        }
        let envelope: Envelope =
            serde_json::from_value(value).map_err(|error| invalid(format!("Not a JSON-RPC message: {error}")))?;
        if envelope.jsonrpc.as_deref() != Some("2.0") {
            return Err(invalid("A message must have \"jsonrpc\": \"2.0\".".into()));
        }
        if envelope.id.as_ref().is_some_and(|id| !is_id(id)) {
            return Err(invalid("An id must be a string, a number or null.".into()));
        }
        match (envelope.method, envelope.id, envelope.result, envelope.error) {
            (Some(method), Some(id), None, None) => Ok(Self::Request {
                id,
                method,
                params: envelope.params,
            }),
            (Some(method), None, None, None) => Ok(Self::Notification {
                method,
                params: envelope.params,
            }),
            (None, Some(id), Some(result), None) => Ok(Self::Response { id, result: Ok(result) }),
            (None, Some(id), None, Some(error)) => Ok(Self::Response { id, result: Err(error) }),
            _ => Err(invalid(
                "A message must have a method, or an id with either a result or an error.".into(),
            )),
        }
    }
}

fn is_id(id: &Value) -> bool {
    matches!(id, Value::Null | Value::Number(_) | Value::String(_))
}

/// For a field in which null is the same as nothing.
pub fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(value: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

/// For a part of a message that is read on its own: if it cannot be read, it counts as absent, and the rest of the message as it is.
pub fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(value: D) -> Result<T, D::Error> {
    let read = serde_json::from_value::<Option<T>>(Value::deserialize(value)?);
    let read =
        read.inspect_err(|error| tracing::warn!(%error, "a part of a message cannot be read and counts as absent"));
    Ok(read.ok().flatten().unwrap_or_default())
}

/// The parameters of a method.
pub fn params<T: DeserializeOwned>(params: Value) -> Result<T, Error> {
    // Methods whose parameters are all optional may be sent without any.
    let params = match params {
        Value::Null => Value::Object(serde_json::Map::new()),
        params => params,
    };
    serde_json::from_value(params).map_err(|error| Error::params(format!("Invalid parameters: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_message_is_answered_with_what_is_wrong() {
        for (line, id, code) in [
            ("{", Value::Null, PARSE_ERROR),
            ("\"hello\"", Value::Null, INVALID_REQUEST),
            ("[]", Value::Null, INVALID_REQUEST),
            ("{}", Value::Null, INVALID_REQUEST),
            (r#"{"id":1,"method":"initialize"}"#, 1.into(), INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, 1.into(), INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#,
                Value::Null,
                INVALID_REQUEST,
            ),
            (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, "a".into(), INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":2}"#, 2.into(), INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":2,"result":1,"error":{"code":1,"message":""}}"#,
                2.into(),
                INVALID_REQUEST,
            ),
        ] {
            let (answers, error) = Message::read(line.as_bytes()).unwrap_err();
            assert_eq!((answers, error.code), (id, code), "{line}");
        }
    }

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "request"),
            (r#"{"jsonrpc":"2.0","method":"a","params":{}}"#, "notification"),
            (r#"{"jsonrpc":"2.0","id":"x","result":null}"#, "answer"),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
                "failure",
            ),
        ] {
            let kind = match Message::read(line.as_bytes()).unwrap() {
                Message::Request { .. } => "request",
                Message::Notification { .. } => "notification",
                Message::Response { result: Ok(_), .. } => "answer",
                Message::Response { result: Err(_), .. } => "failure",
            };
            assert_eq!(kind, expected, "{line}");
        }
    }
}
