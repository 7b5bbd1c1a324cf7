//! What is known about a server and its tools.

use std::{sync::Arc, time::SystemTime};

use serde_json::{Map, Value};

use lodge_trust::Admitted;

use crate::config::{ServerConfig, Source};

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Not started yet, or on its way.
    Pending,
    /// It can be used.
    Connected,
    /// It could not be started, or it broke down.
    Failed,
    /// It requires a sign-in.
    NeedsAuth,
    /// It is not to be started.
    Disabled,
    /// Somebody stopped it.
    Stopped,
}

/// A server, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerInfo {
    /// Its name in the configuration.
    pub name: String,
    /// Its state.
    pub status: Status,
    /// Where it was configured.
    pub source: Source,
    /// `stdio`, `http` or `sse`; absent when the configuration cannot be read.
    pub kind: Option<&'static str>,
    /// Why it failed.
    pub error: Option<String>,
    /// When it came into this state.
    pub since: SystemTime,
    /// A name for people.
    pub display_name: Option<String>,
    /// What it says about how to use it.
    pub instructions: Option<String>,
    /// How many tools it has; none before it is connected.
    pub tools: usize,
    /// Tools that it has and that are not offered, because they only run as tasks.
    pub left_out: Vec<String>,
}

/// A server to have, or one that cannot be had and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Configured {
    /// Its name.
    pub name: String,
    /// Where it was configured.
    pub source: Source,
    /// How, for one that may be started.
    pub config: Result<Admitted<ServerConfig>, String>,
}

/// A tool of a server.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name on the server.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// JSON schema of its arguments.
    pub schema: Arc<Value>,
    /// Whether it says that it changes nothing.
    pub read_only: bool,
    /// Whether it only runs as a task, which nobody here can follow.
    pub needs_task: bool,
    /// Labels of the server.
    pub meta: Option<Value>,
}

impl Tool {
    /// From the protocol's form; nothing when it has no name.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let annotations = &value["annotations"];
        Some(Self {
            name: text(&value["name"]).filter(|name| !name.is_empty())?,
            title: text(&value["title"]).or_else(|| text(&annotations["title"])),
            description: text(&value["description"]),
            schema: Arc::new(match &value["inputSchema"] {
                Value::Object(schema) => object_schema(schema),
                _ => serde_json::json!({"type": "object", "properties": {}}),
            }),
            read_only: annotations["readOnlyHint"].as_bool().unwrap_or(false),
            needs_task: false,
            meta: value.get("_meta").cloned(),
        })
    }
}

/// A prompt that a server has ready for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Its name on the server.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Names of what can be given to it, and whether it must be.
    pub arguments: Vec<(String, bool)>,
}

impl Prompt {
    /// From the protocol's form; nothing when it has no name.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let arguments = value["arguments"].as_array().into_iter().flatten();
        Some(Self {
            name: text(&value["name"]).filter(|name| !name.is_empty())?,
            description: text(&value["description"]).or_else(|| text(&value["title"])),
            arguments: arguments
                .filter_map(|argument| Some((text(&argument["name"])?, argument["required"] == true)))
                .collect(),
        })
    }
}

/// Models expect an object with `properties`, even if it is empty.
fn object_schema(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    Value::Object(schema)
}
