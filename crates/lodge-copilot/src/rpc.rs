//! JSON-RPC messages, and errors with the texts that clients look for.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// The body was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON was not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit.
pub const INVALID_PARAMS: i64 = -32602;
/// The method failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// The connection token is wrong or missing.
pub const AUTHENTICATION_FAILED: i64 = -32002;

/// An incoming message, borrowed from its frame.
#[derive(Debug, Deserialize)]
pub(crate) struct Incoming<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) error: Option<RpcError>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// What kind of error.
    pub code: i64,
    /// The text for people, and for clients that search it.
    #[serde(default)]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// An error with a code and a message.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The method failed. When it is sent, the method's name is put before the message, as the CLI does.
    pub fn failed(message: impl std::fmt::Display) -> Self {
        Self::new(INTERNAL_ERROR, message.to_string())
    }

    /// The parameters do not fit.
    pub fn params(message: impl std::fmt::Display) -> Self {
        Self::new(INVALID_PARAMS, message.to_string())
    }

    /// There is no such method, in the text that the SDKs' fallbacks look for.
    pub fn unhandled(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Unhandled method {method}"))
    }

    /// The error as it is sent for `method`.
    pub(crate) fn of_method(mut self, method: &str) -> Self {
        if self.code == INTERNAL_ERROR {
            self.message = format!("Request {method} failed with message: {}", self.message);
        }
        self
    }
}

impl From<lodge_host::AgentError> for RpcError {
    fn from(error: lodge_host::AgentError) -> Self {
        match error {
            // In the text that clients look for: to them, it is a session that they do not have open.
            lodge_host::AgentError::Gone => Self::failed("Session not found: it has ended, resume it"),
            other => Self::failed(other),
        }
    }
}

impl From<lodge_host::HostError> for RpcError {
    fn from(error: lodge_host::HostError) -> Self {
        match error {
            lodge_host::HostError::Agent(error) => error.into(),
            other => Self::failed(other),
        }
    }
}

impl From<lodge_host::LogError> for RpcError {
    fn from(error: lodge_host::LogError) -> Self {
        Self::failed(error)
    }
}

/// The result of a method, serialised.
#[derive(Debug, Clone)]
pub struct Reply(pub(crate) Bytes);

impl Reply {
    /// Serialises a result.
    pub fn of(result: &impl Serialize) -> Result<Self, RpcError> {
        serde_json::to_vec(result)
            .map(|json| Self(json.into()))
            .map_err(RpcError::failed)
    }

    /// A result that is JSON already.
    pub fn raw(json: impl Into<Bytes>) -> Self {
        Self(json.into())
    }
}

/// Parameters of a request. JSON-RPC also allows them by position; the SDKs then send one, or none, or a null.
#[derive(Debug, Clone)]
pub struct Params(Option<Box<RawValue>>);

impl Params {
    pub(crate) fn new(raw: Option<&RawValue>) -> Self {
        Self(raw.map(ToOwned::to_owned))
    }

    /// The raw JSON.
    pub(crate) fn raw(&self) -> &str {
        self.0.as_ref().map_or("{}", |raw| raw.get())
    }

    /// Reads them as `T`. Absent parameters are an empty object.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        let text = self.0.as_ref().map_or("{}", |raw| raw.get());
        let text = match text.as_bytes().first() {
            Some(b'[') => return self.first_of_list(text),
            Some(b'n') => "{}",
            _ => text,
        };
        serde_json::from_str(text).map_err(|error| RpcError::params(format!("Invalid parameters: {error}")))
    }

    fn first_of_list<T: DeserializeOwned>(&self, text: &str) -> Result<T, RpcError> {
        let list: Vec<&RawValue> = serde_json::from_str(text).map_err(RpcError::params)?;
        let first = list
            .first()
            .map_or("{}", |raw| if raw.get() == "null" { "{}" } else { raw.get() });
        serde_json::from_str(first).map_err(|error| RpcError::params(format!("Invalid parameters: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct P {
        #[serde(default)]
        a: Option<u8>,
    }

    fn check(params: Option<&str>, expected: Option<P>) {
        let raw = params.map(|text| serde_json::from_str::<&RawValue>(text).unwrap());
        assert_eq!(Params::new(raw).parse::<P>().ok(), expected, "{params:?}");
    }

    #[test]
    fn parameters_are_taken_by_name_by_position_or_not_at_all() {
        check(None, Some(P { a: None }));
        check(Some("null"), Some(P { a: None }));
        check(Some("{\"a\":1}"), Some(P { a: Some(1) }));
        check(Some("[{\"a\":1}]"), Some(P { a: Some(1) }));
        check(Some("[null]"), Some(P { a: None }));
        check(Some("[]"), Some(P { a: None }));
        check(Some("{\"a\":\"x\"}"), None);
        check(Some("3"), None);
    }
}
