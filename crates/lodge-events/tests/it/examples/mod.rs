//! One example or more of every event type, the way Lodge makes them.

mod agents;
mod asks;
mod assistant;
mod beside;
mod canvas;
mod extension;
mod session;
mod settings;
mod tools;

use lodge_events::Payload;
use serde_json::{Map, Value};

const WHEN: &str = "2026-11-15T06:23:33.176Z";

/// Payloads such that every type is there at least once, with all its required fields and the nested shapes.
pub(crate) fn examples() -> Vec<Payload> {
    [
        assistant::assistant(),
        tools::tools(),
        session::session(),
        settings::settings(),
        settings::mcp(),
        asks::permissions(),
        asks::questions(),
        agents::agents(),
        agents::conversation(),
        canvas::canvases(),
        extension::extensions(),
        beside::beside(),
    ]
    .concat()
}

fn text(text: &str) -> Option<String> {
    Some(text.into())
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}
