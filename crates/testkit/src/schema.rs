//! The JSON schema of session events that the Copilot SDK's npm package ships, as a check on every event we emit.

use std::{collections::HashMap, fs, path::PathBuf, sync::LazyLock};

use serde_json::{Map, Value};

use crate::json_schema;

/// Where the seeds and the newest schema disagree about a type being ephemeral. The seeds' table counts for
/// what we emit; these types are checked with the schema's flag put in.
pub const PERSISTENCE_DIFFERS: &[(&str, &str)] = &[
    (
        "permission.requested",
        "the seeds say ephemeral; newer runtimes persist it so that a resumed client can answer",
    ),
    (
        "permission.completed",
        "the seeds say ephemeral; persisted beside its request in newer runtimes",
    ),
    (
        "external_tool.requested",
        "the seeds say ephemeral; newer runtimes persist it so that a resumed client can answer",
    ),
    (
        "external_tool.completed",
        "the seeds say ephemeral, and so does the schema, but newer runtimes persist it",
    ),
];

/// Fields that the seeds list and the newest schema no longer has (its objects are closed), as pointers into the data.
pub const FIELDS_OF_THE_SEEDS: &[(&str, &str, &str)] = &[
    (
        "session.idle",
        "/backgroundTasks",
        "in the seeds; replaced by session.background_tasks_changed later",
    ),
    ("session.compaction_complete", "/compactionTokensUsed/input", RENAMED),
    ("session.compaction_complete", "/compactionTokensUsed/output", RENAMED),
    (
        "session.compaction_complete",
        "/compactionTokensUsed/cachedInput",
        RENAMED,
    ),
];

/// Types of the newest SDKs that the newest published schema does not have yet. They are as the crate `github-copilot-sdk` 1.0.28
/// describes them.
pub const NEWER_THAN_THE_SCHEMA: &[&str] = &[
    "session.autopilot_stopped",
    "session.mcp_server_tools_loaded",
    "tool.shell_output",
];

/// Names of the public methods and of the events that the crate `github-copilot-sdk` 1.0.28 has.
const NEWEST_METHODS: &str = include_str!("sdk-1.0.28/methods.txt");
const NEWEST_EVENTS: &str = include_str!("sdk-1.0.28/events.txt");

/// The public methods of the newest SDK.
pub fn newest_methods() -> impl Iterator<Item = &'static str> {
    NEWEST_METHODS.lines()
}

/// The event types of the newest SDK.
pub fn newest_events() -> impl Iterator<Item = &'static str> {
    NEWEST_EVENTS.lines()
}

const RENAMED: &str = "in the seeds; has a longer name since";

/// The schema, by type of event.
pub struct EventSchema {
    definitions: Map<String, Value>,
    names: HashMap<String, (String, bool)>,
}

/// The folder with the schemas: `LODGE_COPILOT_SCHEMAS`, or the npm package below `target/clients`.
pub fn dir() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("LODGE_COPILOT_SCHEMAS") {
        return Some(dir.into());
    }
    let scope = crate::target().join("clients/node/node_modules/@github");
    let mut platforms: Vec<PathBuf> = fs::read_dir(scope)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("schemas")))
        .collect();
    platforms.sort();
    platforms
        .into_iter()
        .find(|schemas| schemas.join("session-events.schema.json").is_file())
}

/// The validator, or `None` (and a line that says so) when the clients are not installed. With `LODGE_REQUIRE_CLIENTS`
/// set, as `cargo xtask test` does, a missing schema is a failure.
///
/// # Panics
/// When the schema is required and missing, or cannot be read.
pub fn validator() -> Option<&'static EventSchema> {
    static SCHEMA: LazyLock<Option<EventSchema>> = LazyLock::new(|| {
        let Some(dir) = dir() else {
            crate::skip("the SDK's schemas are not installed; `cargo xtask clients` installs them");
            return None;
        };
        let text = fs::read_to_string(dir.join("session-events.schema.json")).expect("the schema can be read");
        Some(EventSchema::new(
            serde_json::from_str(&text).expect("the schema is JSON"),
        ))
    });
    SCHEMA.as_ref()
}

/// Checks events when the schemas are installed; see [`validator`].
///
/// # Panics
/// With every event that does not validate.
pub fn check_all<'a>(events: impl IntoIterator<Item = &'a Value>) {
    let Some(schema) = validator() else { return };
    let wrong: Vec<String> = events
        .into_iter()
        // Lodge's own events hang beside the chain, where no SDK is sent them unasked.
        .filter(|event| !event["type"].as_str().is_some_and(|kind| kind.starts_with("lodge.")))
        .filter_map(|event| schema.check(event).err())
        .collect();
    assert!(wrong.is_empty(), "events do not validate:\n{}", wrong.join("\n"));
}

impl EventSchema {
    fn new(mut schema: Value) -> Self {
        let Value::Object(definitions) = schema["definitions"].take() else {
            panic!("no definitions in the schema")
        };
        let mut names = HashMap::new();
        for event in definitions["SessionEvent"]["anyOf"].as_array().into_iter().flatten() {
            let name = event["$ref"]
                .as_str()
                .unwrap_or_default()
                .trim_start_matches("#/definitions/");
            let properties = &definitions[name]["properties"];
            if let Some(kind) = properties["type"]["const"].as_str() {
                names.insert(
                    kind.to_owned(),
                    (name.to_owned(), properties["ephemeral"]["const"] == true),
                );
            }
        }
        assert!(
            names.len() > 100,
            "the schema no longer looks as expected: {} event types",
            names.len()
        );
        Self { definitions, names }
    }

    /// Whether the schema knows a type.
    pub fn knows(&self, kind: &str) -> bool {
        self.names.contains_key(kind)
    }

    /// Whether the schema says that a type is ephemeral.
    pub fn is_ephemeral(&self, kind: &str) -> Option<bool> {
        self.names.get(kind).map(|(_, ephemeral)| *ephemeral)
    }

    /// Checks one event, as parsed from the wire or the log.
    ///
    /// # Errors
    /// Says what is wrong, with the event.
    pub fn check(&self, event: &Value) -> Result<(), String> {
        let kind = event["type"]
            .as_str()
            .ok_or_else(|| format!("an event without type: {event}"))?;
        if NEWER_THAN_THE_SCHEMA.contains(&kind) {
            return Ok(());
        }
        let (name, ephemeral) = self
            .names
            .get(kind)
            .ok_or_else(|| format!("{kind}: not in the schema: {event}"))?;
        let event = self.as_the_schema_has_it(event, kind, *ephemeral);
        if event.get("ephemeral").and_then(Value::as_bool).unwrap_or(false) != *ephemeral {
            return Err(format!(
                "{kind}: ephemeral in the schema: {ephemeral}, here not so: {event}"
            ));
        }
        let wrong = json_schema::problems(&self.definitions, &self.definitions[name], &event);
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("{kind}:\n  {}\n  in {event}", wrong.join("\n  ")))
        }
    }

    fn as_the_schema_has_it(&self, event: &Value, kind: &str, ephemeral: bool) -> Value {
        let mut event = event.clone();
        if PERSISTENCE_DIFFERS.iter().any(|(listed, _)| *listed == kind)
            && let Some(envelope) = event.as_object_mut()
        {
            envelope.remove("ephemeral");
            if ephemeral {
                envelope.insert("ephemeral".into(), true.into());
            }
        }
        for (_, field, _) in FIELDS_OF_THE_SEEDS.iter().filter(|(listed, ..)| *listed == kind) {
            let (object, name) = field.rsplit_once('/').unwrap_or_default();
            if let Some(object) = event["data"].pointer_mut(object).and_then(Value::as_object_mut) {
                object.remove(name);
            }
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn envelope(kind: &str, ephemeral: bool, data: Value) -> Value {
        let id = "7f3d1a52-0f0a-4f0c-9a77-000000000001";
        let mut event =
            json!({"id": id, "timestamp": "2026-01-01T00:00:00.000Z", "parentId": null, "type": kind, "data": data});
        if ephemeral {
            event["ephemeral"] = true.into();
        }
        event
    }

    #[test]
    fn the_schema_tells_right_events_from_wrong_ones() {
        let Some(schema) = validator() else { return };
        let check = |event: Value, expected: bool| {
            let outcome = schema.check(&event);
            assert_eq!(outcome.is_ok(), expected, "{outcome:?}");
        };
        check(envelope("assistant.turn_start", false, json!({"turnId": "0"})), true);
        check(envelope("assistant.turn_start", false, json!({"turnId": 0})), false);
        check(envelope("assistant.turn_start", false, json!({})), false);
        check(envelope("assistant.turn_start", true, json!({"turnId": "0"})), false);
        check(envelope("assistant.intent", true, json!({"intent": "Reading"})), true);
        check(envelope("assistant.intent", false, json!({"intent": "Reading"})), false);
        check(
            envelope(
                "session.idle",
                true,
                json!({"backgroundTasks": {"agents": [], "shells": []}}),
            ),
            true,
        );
        check(envelope("no.such.type", false, json!({})), false);
    }
}
