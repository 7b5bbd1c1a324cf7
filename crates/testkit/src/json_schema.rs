//! JSON Schema, as much of draft 7 as the SDK's schema of events uses. A keyword that is not known here fails the test, so that
//! nothing goes unchecked when the schema learns something new.

use serde_json::{Map, Value};

/// Keywords that say nothing about what is valid.
const NOTES: &[&str] = &[
    "$schema",
    "contentEncoding",
    "default",
    "definitions",
    "deprecated",
    "description",
    "stability",
    "title",
    "visibility",
];

/// Says what is wrong with a value, each with its place. `definitions` is what `#/definitions/…` refers to.
///
/// # Panics
/// When the schema uses what is not known here.
pub fn problems(definitions: &Map<String, Value>, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Checker { definitions }.check(schema, value, "", &mut found);
    found
}

struct Checker<'a> {
    definitions: &'a Map<String, Value>,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let rules = match schema {
            Value::Bool(true) => return,
            Value::Object(rules) => rules,
            other => panic!("no schema: {other}"),
        };
        for (keyword, rule) in rules {
            let mut wrong = |what: String| found.push(format!("{at}: {what}: {value}"));
            match keyword.as_str() {
                "$ref" => {
                    let name = rule.as_str().and_then(|name| name.strip_prefix("#/definitions/"));
                    let name = name.unwrap_or_else(|| panic!("no reference to a definition: {rule}"));
                    self.check(&self.definitions[name], value, at, found);
                }
                "anyOf" => {
                    let branches = list(rule).iter().map(|branch| {
                        let mut found = Vec::new();
                        self.check(branch, value, at, &mut found);
                        found
                    });
                    let branches: Vec<Vec<String>> = branches.collect();
                    if !branches.iter().any(Vec::is_empty) {
                        wrong(format!(
                            "none of the alternatives fits ({})",
                            branches.concat().join("; ")
                        ));
                    }
                }
                "type" => {
                    let types = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
                    if !types.iter().any(|kind| is(value, kind)) {
                        wrong(format!("not of type {rule}"));
                    }
                }
                "const" if value != rule => wrong(format!("not {rule}")),
                "enum" if !list(rule).contains(value) => wrong(format!("not one of {rule}")),
                "required" => {
                    for name in list(rule).iter().filter_map(Value::as_str) {
                        if value.as_object().is_some_and(|fields| !fields.contains_key(name)) {
                            wrong(format!("{name} is missing"));
                        }
                    }
                }
                "properties" => {
                    for (name, rule) in rule.as_object().into_iter().flatten() {
                        if let Some(value) = value.get(name) {
                            self.check(rule, value, &format!("{at}/{name}"), found);
                        }
                    }
                }
                "additionalProperties" => {
                    let known = rules.get("properties").and_then(Value::as_object);
                    for (name, value) in value.as_object().into_iter().flatten() {
                        if known.is_some_and(|known| known.contains_key(name)) {
                            continue;
                        }
                        match rule {
                            Value::Bool(false) => found.push(format!("{at}: unknown field {name}: {value}")),
                            rule => self.check(rule, value, &format!("{at}/{name}"), found),
                        }
                    }
                }
                "items" => {
                    for (n, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, value, &format!("{at}/{n}"), found);
                    }
                }
                "minimum" if value.as_f64().is_some_and(|value| value < limit(rule)) => wrong(format!("below {rule}")),
                "maximum" if value.as_f64().is_some_and(|value| value > limit(rule)) => wrong(format!("above {rule}")),
                "exclusiveMinimum" if value.as_f64().is_some_and(|value| value <= limit(rule)) => {
                    wrong(format!("not above {rule}"));
                }
                "minLength" | "minItems" if length(value).is_some_and(|length| length < limit(rule)) => {
                    wrong(format!("shorter than {rule}"));
                }
                "maxLength" if length(value).is_some_and(|length| length > limit(rule)) => {
                    wrong(format!("longer than {rule}"));
                }
                "format" if !formed(value, rule) => wrong(format!("no {rule}")),
                "const" | "enum" | "minimum" | "maximum" | "exclusiveMinimum" | "minLength" | "minItems"
                | "maxLength" | "format" => {}
                note if NOTES.contains(&note) || note.starts_with("x-") => {}
                unknown => panic!("the schema uses {unknown}, which is not checked"),
            }
        }
    }
}

fn list(rule: &Value) -> &[Value] {
    rule.as_array().expect("a list")
}

fn is(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a type has a name") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("no type: {other}"),
    }
}

fn limit(rule: &Value) -> f64 {
    rule.as_f64().expect("a limit is a number")
}

fn length(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => Some(text.chars().count() as f64),
        Value::Array(items) => Some(items.len() as f64),
        _ => None,
    }
}

/// Formats are for texts; elsewhere they say nothing.
fn formed(value: &Value, format: &Value) -> bool {
    let Some(text) = value.as_str() else { return true };
    match format.as_str().expect("a format has a name") {
        "uuid" => text.len() == 36 && uuid::Uuid::try_parse(text).is_ok(),
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "duration" => text.parse::<jiff::Span>().is_ok(),
        other => panic!("the schema has texts of the format {other}, which is not checked"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_told_from_what_does_not() {
        let definitions = json!({"name": {"type": "string", "minLength": 1, "maxLength": 3}});
        let definitions = definitions.as_object().expect("written above");
        let closed = json!({"type": "object", "properties": {"a": {"$ref": "#/definitions/name"}}, "required": ["a"],
            "additionalProperties": false});
        let id = "7f3d1a52-0f0a-4f0c-9a77-000000000001";
        for (schema, value, fits) in [
            (json!(true), json!(1), true),
            (closed.clone(), json!({"a": "x"}), true),
            (closed.clone(), json!({}), false),
            (closed.clone(), json!({"a": ""}), false),
            (closed.clone(), json!({"a": "äöüx"}), false),
            (closed.clone(), json!({"a": "x", "b": 1}), false),
            (closed, json!([]), false),
            (
                json!({"additionalProperties": {"type": "integer"}}),
                json!({"a": 1, "b": 2.0}),
                true,
            ),
            (
                json!({"additionalProperties": {"type": "integer"}}),
                json!({"a": 1.5}),
                false,
            ),
            (json!({"type": ["string", "null"]}), json!(null), true),
            (json!({"type": ["string", "null"]}), json!(1), false),
            (json!({"anyOf": [{"const": 1}, {"enum": ["a", "b"]}]}), json!("b"), true),
            (
                json!({"anyOf": [{"const": 1}, {"enum": ["a", "b"]}]}),
                json!("c"),
                false,
            ),
            (json!({"items": {"minimum": 1, "maximum": 2}}), json!([1, 2]), true),
            (json!({"items": {"minimum": 1, "maximum": 2}}), json!([0]), false),
            (json!({"items": {"minimum": 1, "maximum": 2}}), json!([3]), false),
            (
                json!({"minimum": 1, "exclusiveMinimum": 1, "minLength": 1}),
                json!(null),
                true,
            ),
            (json!({"minItems": 1}), json!([]), false),
            (json!({"exclusiveMinimum": 0}), json!(0), false),
            (json!({"format": "uuid"}), json!(id), true),
            (json!({"format": "uuid"}), json!(id.replace('-', "")), false),
            (json!({"format": "date-time"}), json!("2026-01-01T00:00:00.000Z"), true),
            (json!({"format": "date-time"}), json!("2026-01-01"), false),
            (json!({"format": "duration"}), json!("PT1S"), true),
            (json!({"format": "duration"}), json!("soon"), false),
            (json!({"format": "duration"}), json!(7), true),
        ] {
            let found = problems(definitions, &schema, &value);
            assert_eq!(found.is_empty(), fits, "{schema} with {value}: {found:?}");
        }
    }

    #[test]
    #[should_panic(expected = "not checked")]
    fn an_unknown_keyword_fails() {
        problems(&Map::new(), &json!({"pattern": "x"}), &json!("x"));
    }
}
