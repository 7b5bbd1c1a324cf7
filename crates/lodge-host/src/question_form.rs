//! The agent's questions as forms, for clients that know only forms.

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
