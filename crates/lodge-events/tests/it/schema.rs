//! Every event Lodge makes validates against the schema that the Copilot SDK ships.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use lodge_events::*;
use serde_json::{Map, Value, json};

use testkit::schema::NEWER_THAN_THE_SCHEMA;

use crate::examples::examples;

/// The schema of events, as the npm package `@github/copilot-sdk-linux-x64` has it.
struct Schema {
    definitions: Map<String, Value>,
    /// The definition of each event type.
    events: BTreeMap<String, String>,
}

/// Whether it is a failure that the SDKs are not installed.
pub(crate) fn clients_are_required() -> bool {
    ["CI", "LODGE_REQUIRE_CLIENTS"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

impl Schema {
    /// The schema, or `None`, and a line that says so, when the SDK is not installed. Where it has to be, that fails.
    fn installed() -> Option<Self> {
        let folder = std::env::var_os("LODGE_COPILOT_SCHEMAS").map_or_else(
            || {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                root.join("target/clients/node/node_modules/@github/copilot-sdk-linux-x64/schemas")
            },
            PathBuf::from,
        );
        let Ok(text) = std::fs::read(folder.join("session-events.schema.json")) else {
            assert!(
                !clients_are_required(),
                "no schema of events in {}: run `cargo xtask clients`",
                folder.display()
            );
            eprintln!(
                "not checked: no schema of events in {} (`cargo xtask clients` installs it)",
                folder.display()
            );
            return None;
        };
        let mut schema: Value = serde_json::from_slice(&text).expect("the schema is JSON");
        let Value::Object(definitions) = schema["definitions"].take() else {
            panic!("no definitions in the schema")
        };
        let events = definitions
            .iter()
            .filter(|(name, _)| name.ends_with("Event"))
            .filter_map(|(name, event)| Some((event["properties"]["type"]["const"].as_str()?.to_owned(), name.clone())))
            .collect::<BTreeMap<_, _>>();
        assert!(
            events.len() > 100,
            "the schema no longer looks as expected: {} events",
            events.len()
        );
        Some(Self { definitions, events })
    }

    fn event(&self, kind: &str) -> &Value {
        let name = self
            .events
            .get(kind)
            .unwrap_or_else(|| panic!("{kind} is not in the schema"));
        &self.definitions[name]
    }

    fn errors(&self, event: &Value) -> Vec<String> {
        let schema = self.event(event["type"].as_str().expect("events have a type"));
        testkit::json_schema::problems(&self.definitions, schema, event)
    }
}

/// The types that the schema could know: not those of Lodge's own, and not those that it does not have yet.
fn of_the_sdk() -> impl Iterator<Item = &'static TypeInfo> {
    TYPES
        .iter()
        .filter(|info| !is_beside(info.name) && !NEWER_THAN_THE_SCHEMA.contains(&info.name))
}

#[test]
fn what_is_said_to_be_newer_than_the_schema_is_not_in_it() {
    let Some(schema) = Schema::installed() else { return };
    for name in NEWER_THAN_THE_SCHEMA {
        assert!(TYPES.iter().any(|info| info.name == *name), "{name}");
        assert!(!schema.events.contains_key(*name), "{name} is in the schema now");
    }
}

#[test]
fn the_schema_has_no_type_in_the_namespace_of_lodge() {
    let Some(schema) = Schema::installed() else { return };
    let taken: Vec<_> = schema.events.keys().filter(|kind| is_beside(kind)).collect();
    assert!(taken.is_empty(), "{taken:?}");
}

#[test]
fn every_example_validates() {
    let Some(schema) = Schema::installed() else { return };
    let of_an_agent = AssistantTurnEnd {
        turn_id: "0".into(),
        model: None,
    };
    let of_an_agent = Event::new(Some(Uuid::new_v4()), Some("agent-1".into()), of_an_agent);
    let events = examples()
        .into_iter()
        .map(|payload| Event::new(None, None, payload))
        .filter(|event| !event.is_beside() && !NEWER_THAN_THE_SCHEMA.contains(&event.kind()))
        .chain([of_an_agent]);
    let errors: Vec<_> = events
        .flat_map(|event| schema.errors(&serde_json::from_slice(event.json()).unwrap()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_schema_finds_what_is_wrong() {
    let Some(schema) = Schema::installed() else { return };
    let good = Event::new(None, None, SessionTitleChanged { title: "T".into() });
    let good: Value = serde_json::from_slice(good.json()).unwrap();
    assert_eq!(schema.errors(&good), Vec::<String>::new());
    for (pointer, value) in [
        ("/data/title", json!(7)),
        ("/data", json!({"title": "T", "odd": 1})),
        ("/timestamp", json!("x")),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert_ne!(schema.errors(&bad), Vec::<String>::new(), "{pointer}");
    }
}

#[test]
fn persistence_differs_from_the_schema_where_the_table_says_so_and_nowhere_else() {
    let Some(schema) = Schema::installed() else { return };
    let differing = of_the_sdk().filter(|info| {
        let event = schema.event(info.name);
        let required = event["required"]
            .as_array()
            .is_some_and(|names| names.contains(&json!("ephemeral")));
        info.ephemeral != (required && event["properties"]["ephemeral"]["const"] == true)
    });
    let differing: BTreeSet<_> = differing.map(|info| (info.name, info.ephemeral)).collect();
    let listed: BTreeSet<_> = PERSISTENCE_DIFFERENCES
        .iter()
        .map(|difference| (difference.name, difference.ephemeral))
        .collect();
    assert_eq!(differing, listed);
}

#[test]
fn fields_the_schema_lacks_are_those_the_table_says() {
    let Some(schema) = Schema::installed() else { return };
    let idle = SessionIdle {
        background_tasks: Some(BackgroundTasks::default()),
        ..Default::default()
    };
    let seeds = CompactionTokensUsed {
        input: Some(1),
        output: Some(1),
        cached_input: Some(1),
        ..Default::default()
    };
    let compaction = SessionCompactionComplete {
        compaction_tokens_used: Some(seeds),
        ..Default::default()
    };
    for payload in [Payload::from(idle), compaction.into()] {
        let made = Event::new(None, None, payload);
        let mut event: Value = serde_json::from_slice(made.json()).unwrap();
        assert_ne!(schema.errors(&event), Vec::<String>::new());
        for field in SEED_ONLY_FIELDS.iter().filter(|field| made.kind() == field.name) {
            let (object, name) = field.pointer.rsplit_once('/').unwrap();
            let removed = event["data"]
                .pointer_mut(object)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .remove(name);
            assert!(removed.is_some(), "{}", field.pointer);
        }
        assert_eq!(schema.errors(&event), Vec::<String>::new());
    }
}

/// Fields that the schema speaks of without listing them: `session.mcp.executeSampling` wants the request "as received in the
/// `sampling.requested` event", whose data are open.
const SPOKEN_OF: &[(&str, &str)] = &[("sampling.requested", "request")];

/// What the reference calls a field, the schema calls it too, or the field is one of the seeds'.
#[test]
fn the_schema_knows_every_field() {
    let Some(schema) = Schema::installed() else { return };
    for info in of_the_sdk() {
        let data = &schema.event(info.name)["properties"]["data"];
        let name = data["$ref"]
            .as_str()
            .and_then(|name| name.strip_prefix("#/definitions/"));
        let data = name.map_or(data, |name| &schema.definitions[name]);
        for field in info.fields {
            let of_the_seeds = SEED_ONLY_FIELDS
                .iter()
                .any(|known| known.name == info.name && known.pointer.strip_prefix('/') == Some(field.name));
            let known = data["properties"].get(field.name).is_some();
            if SPOKEN_OF.contains(&(info.name, field.name)) {
                assert!(!known && data.get("additionalProperties").is_none(), "{}", field.name);
                continue;
            }
            assert!(known != of_the_seeds, "{} of {}", field.name, info.name);
        }
    }
}
