//! The questions of a form: their texts, and what a line answers.

use ahp::ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanAnswerValue, ChatInputNumberAnswerValue,
    ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputSelectedAnswerValue,
    ChatInputSelectedManyAnswerValue, ChatInputTextAnswerValue,
};

/// The result of a line.
#[derive(Debug, PartialEq)]
pub(crate) enum Filled {
    With(ChatInputAnswer),
    Skip,
    Wrong(String),
}

/// The name of a question.
pub(crate) fn id(question: &ChatInputQuestion) -> Option<&str> {
    match question {
        ChatInputQuestion::Text(q) => Some(&q.id),
        ChatInputQuestion::Number(q) | ChatInputQuestion::Integer(q) => Some(&q.id),
        ChatInputQuestion::Boolean(q) => Some(&q.id),
        ChatInputQuestion::SingleSelect(q) => Some(&q.id),
        ChatInputQuestion::MultiSelect(q) => Some(&q.id),
        ChatInputQuestion::Unknown(_) => None,
    }
}

/// The text of a form: its own message, or else its first question.
pub(crate) fn asked(request: &ChatInputRequest) -> &str {
    let first = request.questions.iter().flatten().next();
    let known = first.filter(|question| !matches!(question, ChatInputQuestion::Unknown(_)));
    let said = request.message.as_deref().or(known.map(message));
    said.unwrap_or("A question")
}

/// The text of a question, with its options.
pub(crate) fn text(question: &ChatInputQuestion) -> String {
    let (options, free) = options(question);
    let default = default(question);
    let hint = match question {
        ChatInputQuestion::Boolean(_) => "y yes · n no",
        ChatInputQuestion::SingleSelect(_) if free && !options.is_empty() => "a number, or words of your own",
        ChatInputQuestion::MultiSelect(_) if free => "numbers or words of your own, with commas",
        ChatInputQuestion::MultiSelect(_) => "numbers, with commas",
        _ => "",
    };
    let mut text = message(question).to_owned();
    for (number, option) in options.iter().enumerate() {
        text.push_str(&format!("\n{}. {}", number + 1, label(option)));
    }
    let default = default.map(|default| format!("[{default}]"));
    let hints: Vec<&str> = [hint, default.as_deref().unwrap_or_default()]
        .into_iter()
        .filter(|hint| !hint.is_empty())
        .collect();
    if !hints.is_empty() {
        text.push_str(&format!("\n({})", hints.join(" ")));
    }
    text
}

/// What a question asks.
pub(crate) fn message(question: &ChatInputQuestion) -> &str {
    match question {
        ChatInputQuestion::Text(q) => &q.message,
        ChatInputQuestion::Number(q) | ChatInputQuestion::Integer(q) => &q.message,
        ChatInputQuestion::Boolean(q) => &q.message,
        ChatInputQuestion::SingleSelect(q) => &q.message,
        ChatInputQuestion::MultiSelect(q) => &q.message,
        ChatInputQuestion::Unknown(_) => "A question that cannot be shown here; an empty line skips it.",
    }
}

/// The options of a question, and whether people may answer in words of their own.
pub(crate) fn options(question: &ChatInputQuestion) -> (&[ChatInputOption], bool) {
    match question {
        ChatInputQuestion::SingleSelect(q) => (&q.options, q.allow_freeform_input == Some(true)),
        ChatInputQuestion::MultiSelect(q) => (&q.options, q.allow_freeform_input == Some(true)),
        _ => (&[], true),
    }
}

/// An option as people read it.
pub(crate) fn label(option: &ChatInputOption) -> String {
    let mark = if option.recommended == Some(true) {
        " (recommended)"
    } else {
        ""
    };
    let more = option.description.as_ref().map(|more| format!(": {more}"));
    format!("{}{mark}{}", option.label, more.unwrap_or_default())
}

/// What an empty line answers.
pub(crate) fn default(question: &ChatInputQuestion) -> Option<String> {
    match question {
        ChatInputQuestion::Text(q) => q.default_value.clone(),
        ChatInputQuestion::Number(q) | ChatInputQuestion::Integer(q) => q.default_value.map(|value| value.to_string()),
        ChatInputQuestion::Boolean(q) => q.default_value.map(|value| if value { "y" } else { "n" }.to_owned()),
        _ => None,
    }
}

/// Reads a line as an answer. An empty one takes the default, or skips an optional question.
pub(crate) fn read(question: &ChatInputQuestion, line: &str) -> Filled {
    let line = line.trim();
    match question {
        ChatInputQuestion::Text(q) => {
            let given = if line.is_empty() {
                q.default_value.as_deref()
            } else {
                Some(line)
            };
            let value = given.map(|value| {
                ChatInputAnswerValue::Text(ChatInputTextAnswerValue {
                    value: value.to_owned(),
                })
            });
            or_skip(value, q.required, "Please write something.")
        }
        ChatInputQuestion::Number(q) => number(line, q.default_value, q.required, false),
        ChatInputQuestion::Integer(q) => number(line, q.default_value, q.required, true),
        ChatInputQuestion::Boolean(q) => {
            let given = match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => Some(true),
                "n" | "no" | "false" => Some(false),
                "" => q.default_value,
                _ => return Filled::Wrong("Please answer y or n.".to_owned()),
            };
            let value = given.map(|value| ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue { value }));
            or_skip(value, q.required, "Please answer y or n.")
        }
        ChatInputQuestion::SingleSelect(q) => {
            let selected = |value: String, freeform_values| {
                Some(ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue {
                    value,
                    freeform_values,
                }))
            };
            let value = match chosen(&q.options, line) {
                Some(option) => selected(option.id.clone(), None),
                None if line.is_empty() => None,
                None if q.allow_freeform_input == Some(true) => selected(String::new(), Some(vec![line.to_owned()])),
                None => return Filled::Wrong("Please choose one of the numbers.".to_owned()),
            };
            or_skip(value, q.required, "Please choose one.")
        }
        ChatInputQuestion::MultiSelect(q) => {
            let (mut many, mut free) = (Vec::new(), Vec::new());
            for word in line.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                match chosen(&q.options, word) {
                    Some(option) => many.push(option.id.clone()),
                    None if q.allow_freeform_input == Some(true) => free.push(word.to_owned()),
                    None => return Filled::Wrong(format!("{word:?} is not one of the choices.")),
                }
            }
            let value = (!many.is_empty() || !free.is_empty()).then_some(ChatInputAnswerValue::SelectedMany(
                ChatInputSelectedManyAnswerValue {
                    value: many,
                    freeform_values: (!free.is_empty()).then_some(free),
                },
            ));
            or_skip(value, q.required, "Please choose at least one.")
        }
        ChatInputQuestion::Unknown(_) => Filled::Skip,
    }
}

fn or_skip(value: Option<ChatInputAnswerValue>, required: Option<bool>, complaint: &str) -> Filled {
    match value {
        Some(value) => Filled::With(ChatInputAnswer::Submitted(ChatInputAnswered { value })),
        None if required == Some(true) => Filled::Wrong(complaint.to_owned()),
        None => Filled::Skip,
    }
}

fn number(line: &str, default: Option<f64>, required: Option<bool>, whole: bool) -> Filled {
    let given = match line.parse::<f64>() {
        Ok(value) if value.is_finite() && (!whole || value.fract() == 0.0) => Some(value),
        Err(_) if line.is_empty() => default,
        _ => {
            return Filled::Wrong(
                if whole {
                    "Please give a whole number."
                } else {
                    "Please give a number."
                }
                .to_owned(),
            );
        }
    };
    let value = given.map(|value| ChatInputAnswerValue::Number(ChatInputNumberAnswerValue { value }));
    or_skip(value, required, "Please give a number.")
}

/// The option with this number or text.
fn chosen<'a>(options: &'a [ChatInputOption], line: &str) -> Option<&'a ChatInputOption> {
    let numbered = line
        .parse::<usize>()
        .ok()
        .and_then(|number| options.get(number.checked_sub(1)?));
    numbered.or_else(|| {
        let named = |option: &&ChatInputOption| option.label.eq_ignore_ascii_case(line) || option.id == line;
        options.iter().find(named)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(question: Value, line: &str, expected: Option<Value>) {
        let question: ChatInputQuestion = serde_json::from_value(question).unwrap();
        let answer = match read(&question, line) {
            Filled::With(answer) => Some(serde_json::to_value(answer).unwrap()["value"].clone()),
            Filled::Skip => Some(Value::Null),
            Filled::Wrong(_) => None,
        };
        assert_eq!(answer, expected, "{line:?} to {question:?}");
    }

    #[test]
    fn a_line_answers_a_question_in_kind() {
        let text = json!({ "kind": "text", "id": "q", "message": "?", "required": true });
        check(text.clone(), "hi", Some(json!({ "kind": "text", "value": "hi" })));
        check(text, "", None);
        let text = json!({ "kind": "text", "id": "q", "message": "?", "defaultValue": "x" });
        check(text, "", Some(json!({ "kind": "text", "value": "x" })));
        let integer = json!({ "kind": "integer", "id": "q", "message": "?" });
        check(integer.clone(), "7", Some(json!({ "kind": "number", "value": 7.0 })));
        check(integer.clone(), "7.5", None);
        check(integer, "", Some(Value::Null));
        let boolean = json!({ "kind": "boolean", "id": "q", "message": "?", "required": true });
        check(
            boolean.clone(),
            "no",
            Some(json!({ "kind": "boolean", "value": false })),
        );
        check(boolean, "perhaps", None);
        let options = json!([{ "id": "r", "label": "Red" }, { "id": "b", "label": "Blue" }]);
        let one = json!({ "kind": "single-select", "id": "q", "message": "?", "required": true, "options": options });
        check(one.clone(), "2", Some(json!({ "kind": "selected", "value": "b" })));
        check(one.clone(), "red", Some(json!({ "kind": "selected", "value": "r" })));
        check(one, "green", None);
        let free = json!({ "kind": "single-select", "id": "q", "message": "?", "options": options, "allowFreeformInput": true });
        check(
            free,
            "green",
            Some(json!({ "kind": "selected", "value": "", "freeformValues": ["green"] })),
        );
        let many = json!({ "kind": "multi-select", "id": "q", "message": "?", "options": options });
        check(
            many.clone(),
            "1, Blue",
            Some(json!({ "kind": "selected-many", "value": ["r", "b"] })),
        );
        check(many, "1, 3", None);
        let free = json!({
            "kind": "multi-select", "id": "q", "message": "?", "options": options, "allowFreeformInput": true,
        });
        check(
            free,
            "1, green",
            Some(json!({ "kind": "selected-many", "value": ["r"], "freeformValues": ["green"] })),
        );
    }
}
