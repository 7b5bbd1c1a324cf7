//! Questions as forms, for clients that only know forms, and what can be chosen in a form.

use lodge_agent::UserInputAnswer;
use lodge_events::UserInputRequested;
use serde_json::{Value, json};

const ANSWER: &str = "answer";
const OTHER: &str = "other";

/// The form, as a JSON schema: a choice, a text, or either.
pub fn question_form(asked: &UserInputRequested) -> Value {
    let choices: Vec<Value> = asked
        .choices
        .iter()
        .flatten()
        .map(|choice| json!({ "const": choice, "title": choice }))
        .collect();
    let mut form = json!({
        "type": "object",
        "properties": { ANSWER: { "type": "string", "title": "Answer" } },
        "required": [ANSWER],
    });
    if !choices.is_empty() {
        form["properties"][ANSWER]["oneOf"] = choices.into();
        if asked.allow_freeform.unwrap_or(true) {
            form["properties"][OTHER] = json!({ "type": "string", "title": "Something else" });
            form["required"] = json!([]);
        }
    }
    form
}

/// What a filled form answers. What was typed wins over what was chosen.
pub fn answer_of_form(content: Option<&Value>) -> UserInputAnswer {
    let field = |name: &str| content?.get(name)?.as_str().filter(|text| !text.is_empty());
    let answer = |text: &str, was_freeform| UserInputAnswer {
        answer: text.to_owned(),
        was_freeform,
    };
    match (field(OTHER), field(ANSWER)) {
        (Some(typed), _) => answer(typed, true),
        (None, Some(chosen)) => answer(chosen, false),
        (None, None) => UserInputAnswer::left_open(),
    }
}

/// The values that can be chosen for a field of a form, each with its name for people: `enum` with `enumNames`, or constants
/// with titles. None where anything can be typed.
pub fn form_choices(field: &Value) -> Vec<(String, String)> {
    let pair = |value: &Value, label: Option<&Value>| {
        let value = value.as_str()?;
        let label = label.and_then(Value::as_str).unwrap_or(value);
        Some((value.to_owned(), label.to_owned()))
    };
    if let Some(values) = field["enum"].as_array() {
        let named = |(at, value)| pair(value, field["enumNames"].get(at));
        return values.iter().enumerate().filter_map(named).collect();
    }
    let titled = field["oneOf"].as_array().or(field["anyOf"].as_array());
    let titled = titled.into_iter().flatten();
    titled
        .filter_map(|choice| pair(&choice["const"], choice.get("title")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_told_by_every_form_that_a_schema_has_for_them() {
        for (field, expected) in [
            (
                json!({ "enum": ["a", 5, "b"], "enumNames": ["One", "Five"] }),
                vec![("a", "One"), ("b", "b")],
            ),
            (
                json!({ "oneOf": [{ "const": "a", "title": "One" }, { "const": 5 }] }),
                vec![("a", "One")],
            ),
            (
                json!({ "anyOf": [{ "const": "a" }, { "type": "null" }] }),
                vec![("a", "a")],
            ),
            (json!({ "type": "string" }), Vec::new()),
        ] {
            let found = form_choices(&field);
            let found: Vec<_> = found.iter().map(|(value, label)| (&**value, &**label)).collect();
            assert_eq!(found, expected, "{field}");
        }
    }
}
