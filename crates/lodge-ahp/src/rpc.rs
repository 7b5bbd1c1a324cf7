//! The JSON-RPC envelope. The official types cannot be used on the server's side: they take a request with a string id
//! for a notification and refuse `id: null`. Here ids are kept as the bytes they came in and echoed verbatim.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::wire::Frame;

/// Codes of errors, those of JSON-RPC and those of the protocol.
pub mod code {
    pub use ahp_types::errors::{ahp_error_codes::*, json_rpc_error_codes::*};
    /// Was "content not found" before 1.0.0; the seed's dialect still says it.
    pub const CONTENT_NOT_FOUND: i32 = -32006;
    /// The host has more to do for this client than it is willing to remember.
    pub const TOO_BUSY: i32 = -32000;
}

/// An error as it goes to the client. Messages are for people; they never carry a path or a stack of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The code.
    pub code: i32,
    /// What went wrong, for people.
    pub message: String,
    /// Details that a program can use.
    pub data: Option<Value>,
}

/// What a request comes to.
pub type RpcResult = Result<Box<RawValue>, RpcError>;

impl RpcError {
    /// An error without details.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// With details for a program.
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// `-32602`
    pub fn params(message: impl std::fmt::Display) -> Self {
        Self::new(code::INVALID_PARAMS, message.to_string())
    }

    /// `-32601`
    pub fn method(name: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("there is no method {name:?}"))
    }

    /// `-32603` with what happened: something that a person can see to, such as a full disk.
    pub fn failed(what: impl std::fmt::Display) -> Self {
        tracing::error!("a request failed: {what}");
        Self::new(code::INTERNAL_ERROR, what.to_string())
    }

    /// `-32603`; what happened goes to the host's log, not to the client.
    pub fn internal(what: impl std::fmt::Display) -> Self {
        tracing::error!("internal error: {what}");
        Self::new(code::INTERNAL_ERROR, "internal error of the host")
    }
}

/// `Ok` of anything that serialises.
pub fn ok(result: impl serde::Serialize) -> RpcResult {
    to_raw_value(&result).map_err(RpcError::internal)
}

/// The result `{}`.
pub fn empty() -> RpcResult {
    #[derive(serde::Serialize)]
    struct Empty {}
    ok(Empty {})
}

/// The result `null`.
pub fn null() -> RpcResult {
    ok(())
}

/// Reads the parameters of a method, which are named, never counted. Absent parameters are an empty object.
pub fn params<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, RpcError> {
    let text = raw.map_or("{}", RawValue::get);
    if !text.starts_with('{') {
        return Err(RpcError::params("params must be an object"));
    }
    read(&mut serde_json::Deserializer::from_str(text))
}

/// Reads something that a client wrote; what is wrong with it is said with its place.
pub fn read<'de, T, D>(from: D) -> Result<T, RpcError>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(from).map_err(|error| {
        let (place, wrong) = (error.path().to_string(), error.inner().to_string());
        // Where it is in the bytes is of no use to anybody.
        let wrong = wrong.rsplit_once(" at line ").map_or(&*wrong, |(wrong, _)| wrong);
        RpcError::params(match place.as_str() {
            "." => wrong.to_owned(),
            place => format!("{place}: {wrong}"),
        })
    })
}

/// An object that may be absent. Serde would take a list of its values for it, too.
pub fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let fields: Option<serde_json::Map<String, Value>> = Option::deserialize(deserializer)?;
    let read = fields.map(|fields| T::deserialize(Value::Object(fields)));
    read.transpose().map_err(serde::de::Error::custom)
}

/// Something optional that has a default: `null` says as little as nothing.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A count or a position: a whole number that is not negative. JavaScript writes `20` and `20.0` alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole(pub u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Beyond this not every whole number can be written as a double.
        const MOST: f64 = 9_007_199_254_740_992.0;
        let number = f64::deserialize(deserializer)?;
        if number.fract() != 0.0 || !(0.0..=MOST).contains(&number) {
            return Err(serde::de::Error::custom(format!(
                "{number:?} is not a whole number of 0 or more"
            )));
        }
        Ok(Self(number as u64))
    }
}

/// A list that must be there. Go writes one that is empty as `null`.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A message from a client.
#[derive(Debug)]
pub enum Incoming {
    /// Wants a response.
    Request {
        /// Echoed in the response.
        id: Box<RawValue>,
        /// What to do.
        method: String,
        /// With what.
        params: Option<Box<RawValue>>,
    },
    /// Wants none.
    Notification {
        /// What to do.
        method: String,
        /// With what.
        params: Option<Box<RawValue>>,
    },
    /// Answers a request of the host.
    Response {
        /// Which one.
        id: Option<u64>,
        /// What the client says to it.
        result: RpcResult,
    },
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default)]
    id: Option<Box<RawValue>>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Box<RawValue>>,
}

/// A key that is there, whatever its value: `"result": null` is a response.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// What a client says to a request of the host, for whoever waits for it.
fn answered(result: Option<Box<RawValue>>, error: Option<&RawValue>) -> RpcResult {
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        code: i32,
        #[serde(default)]
        message: String,
        #[serde(default)]
        data: Option<Value>,
    }
    match (
        result,
        error.and_then(|error| serde_json::from_str::<Said>(error.get()).ok()),
    ) {
        (Some(result), None) => Ok(result),
        (_, Some(said)) => Err(RpcError {
            code: said.code,
            message: said.message,
            data: said.data,
        }),
        (None, None) => Err(RpcError::new(
            code::INTERNAL_ERROR,
            "the client's answer cannot be read",
        )),
    }
}

/// Whether it is a string or a number.
fn is_id(id: &RawValue) -> bool {
    id.get()
        .starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
}

/// Reads one frame. An error comes with the id to answer it with.
pub fn parse(text: &str, max_depth: usize) -> Result<Incoming, (Option<Box<RawValue>>, RpcError)> {
    if depth_exceeds(text.as_bytes(), max_depth) {
        return Err((
            None,
            RpcError::new(code::PARSE_ERROR, format!("nested deeper than {max_depth} levels")),
        ));
    }
    let parse_error = |error: serde_json::Error| RpcError::new(code::PARSE_ERROR, format!("not JSON: {error}"));
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| (None, parse_error(error)))?;
    let envelope: Envelope = serde_json::from_str(raw.get()).map_err(|error| {
        // Whoever sent it need not wait for an answer under its id.
        let fields: Option<HashMap<String, Box<RawValue>>> = serde_json::from_str(raw.get()).ok();
        let id = fields.and_then(|mut fields| fields.remove("id")).filter(|id| is_id(id));
        let text = format!("not a JSON-RPC message: {error}");
        (id, RpcError::new(code::INVALID_REQUEST, text))
    })?;
    let id = envelope.id.filter(|id| id.get() != "null");
    let invalid = |message: &str, id| Err((id, RpcError::new(code::INVALID_REQUEST, message)));
    if id.as_deref().is_some_and(|id| !is_id(id)) {
        return invalid("the id is neither a string nor a number", None);
    }
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return invalid("\"jsonrpc\" is not \"2.0\"", id);
    }
    match (envelope.method, id) {
        (Some(method), Some(id)) => Ok(Incoming::Request {
            id,
            method,
            params: envelope.params,
        }),
        (Some(method), None) => Ok(Incoming::Notification {
            method,
            params: envelope.params,
        }),
        (None, id) if envelope.result.is_some() || envelope.error.is_some() => Ok(Incoming::Response {
            id: id.and_then(|id| id.get().parse().ok()),
            result: answered(envelope.result, envelope.error.as_deref()),
        }),
        (None, id) => invalid("there is no method", id),
    }
}

/// Counts brackets outside of strings, because a raw value is skipped without a limit on its depth.
fn depth_exceeds(bytes: &[u8], max: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > max {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The frame of a response.
pub fn response(id: Option<&RawValue>, result: &RpcResult) -> Frame {
    let id = id.map_or("null", RawValue::get);
    match result {
        Ok(result) => Frame::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, result.get())),
        Err(error) => {
            let mut body = serde_json::json!({ "code": error.code, "message": error.message });
            if let Some(data) = &error.data {
                body["data"] = data.clone();
            }
            Frame::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{body}}}"#))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &str) {
        let seen = match parse(text, 8) {
            Ok(Incoming::Request { id, method, params }) => {
                format!(
                    "request {} {method} {}",
                    id.get(),
                    params.map_or(String::new(), |p| p.get().to_owned())
                )
            }
            Ok(Incoming::Notification { method, .. }) => format!("notification {method}"),
            Ok(Incoming::Response { .. }) => "response".to_owned(),
            Err((id, error)) => format!(
                "error {} {}",
                id.map_or("null".to_owned(), |id| id.get().to_owned()),
                error.code
            ),
        };
        assert_eq!(seen.trim_end(), expected, "{text}");
    }

    #[test]
    fn ids_are_kept_as_they_came_and_nonsense_is_answered() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping");
        check(
            r#"{"jsonrpc":"2.0","id":"a\u0041","method":"ping","params":{}}"#,
            r#"request "a\u0041" ping {}"#,
        );
        check(r#"{"jsonrpc":"2.0","id":1.50,"method":"ping"}"#, "request 1.50 ping");
        check(r#"{"jsonrpc":"2.0","id":4,"method":5}"#, "error 4 -32600");
        check(
            r#"{"jsonrpc":"2.0","method":"unsubscribe"}"#,
            "notification unsubscribe",
        );
        check(r#"{"jsonrpc":"2.0","id":4,"result":null}"#, "response");
        check(r#"{"jsonrpc":"2.0","id":4,"result":{}}"#, "response");
        check(
            r#"{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":""}}"#,
            "response",
        );
        check(r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#, "error 4 -32600");
        check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "error null -32600");
        check(r#"[{"jsonrpc":"2.0","id":4,"method":"ping"}]"#, "error null -32600");
        check("{nonsense", "error null -32700");
        check(
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":[[[[[[[[1]]]]]]]]}"#,
            "error null -32700",
        );
        check(
            r#"{"jsonrpc":"2.0","id":4,"method":"[[[[[[[[[["}"#,
            "request 4 [[[[[[[[[[",
        );
    }

    const SAMPLES: &[&str] = &[
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":[1,{"b":null}]}}"#,
        r#"{"jsonrpc":"2.0","method":"dispatchAction","params":{"channel":"ahp-chat:/x","action":{"type":"chat/truncated"}}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32000,"message":"no","data":{}}}"#,
        r#"{"id":2,"result":[],"jsonrpc":"2.0"}"#,
    ];

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_frame_does_harm(text in testkit::fuzz::text(SAMPLES)) {
            if let Err((id, error)) = parse(&text, 64) {
                prop_assert!(id.is_none_or(|id| is_id(&id)));
                prop_assert!(!error.message.is_empty());
            }
        }
    }
}
