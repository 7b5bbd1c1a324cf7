//! A form on the terminal, filled in field by field.

use lodge_events::ElicitationRequested;
use lodge_host::{ElicitationAnswer, form_choices};
use serde_json::{Map, Value};

use crate::view::plain;

enum Kind {
    Text,
    Number {
        whole: bool,
    },
    YesNo,
    /// Values, and what people read for them.
    OneOf(Vec<(String, String)>),
    SomeOf(Vec<(String, String)>),
}

struct Field {
    name: String,
    title: String,
    kind: Kind,
    required: bool,
    default: Option<Value>,
}

/// A form that is filled in.
pub(crate) struct Form {
    head: String,
    /// Whether the person wants to fill it in.
    wanted: bool,
    fields: Vec<Field>,
    at: usize,
    values: Map<String, Value>,
}

/// What a line did to the form.
pub(crate) enum Filled {
    /// There is more to ask.
    More,
    /// It is answered.
    Done(ElicitationAnswer),
    /// It means nothing here.
    Again,
}

impl Form {
    /// What somebody wants filled in.
    pub(crate) fn of(asked: &ElicitationRequested) -> Self {
        let schema = serde_json::to_value(&asked.requested_schema).unwrap_or_default();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let fields = properties.into_iter().map(|(name, property)| Field {
            title: plain(
                property["title"]
                    .as_str()
                    .or(property["description"].as_str())
                    .unwrap_or(&name),
            ),
            kind: kind(&property),
            required: required.iter().any(|wanted| *wanted == name.as_str()),
            default: property.get("default").filter(|default| !default.is_null()).cloned(),
            name,
        });
        let who = asked
            .elicitation_source
            .as_deref()
            .map_or_else(String::new, |who| format!("{} asks: ", plain(who)));
        let page = asked.url.as_deref();
        let page = page.map_or_else(String::new, |url| format!("\n{}", plain(url)));
        Self {
            head: format!("{who}{}{page}", plain(&asked.message)),
            wanted: false,
            fields: fields.collect(),
            at: 0,
            values: Map::new(),
        }
    }

    /// What is asked next.
    pub(crate) fn text(&self) -> String {
        if !self.wanted {
            return format!("{}\nAnswer? [y]es, [n]o: ", self.head);
        }
        let Some(field) = self.fields.get(self.at) else {
            return String::new();
        };
        let mut text = field.title.clone();
        if let Kind::OneOf(choices) | Kind::SomeOf(choices) = &field.kind {
            for (number, (_, label)) in choices.iter().enumerate() {
                text.push_str(&format!("\n  {}. {}", number + 1, plain(label)));
            }
        }
        let hint = match (&field.default, field.required, &field.kind) {
            (Some(default), ..) => format!(" [{}]", plain(&shown(default))),
            (None, false, _) => " [nothing]".to_owned(),
            (None, true, Kind::YesNo) => " [y/n]".to_owned(),
            (None, true, Kind::SomeOf(_)) => " (separate several with commas)".to_owned(),
            (None, true, _) => String::new(),
        };
        text + &hint + ": "
    }

    /// Takes a line.
    pub(crate) fn take(&mut self, line: &str) -> Filled {
        if !self.wanted {
            match line.to_lowercase().as_str() {
                "y" | "yes" => self.wanted = true,
                "n" | "no" => return answer("decline", None),
                _ => return Filled::Again,
            }
        } else if let Some(field) = self.fields.get(self.at) {
            match (line.is_empty(), &field.default) {
                (true, Some(default)) => drop(self.values.insert(field.name.clone(), default.clone())),
                (true, None) if field.required => return Filled::Again,
                (true, None) => {}
                (false, _) => match read(&field.kind, line) {
                    Some(value) => drop(self.values.insert(field.name.clone(), value)),
                    None => return Filled::Again,
                },
            }
            self.at += 1;
        }
        match self.at < self.fields.len() {
            true => Filled::More,
            false => answer("accept", Some(Value::Object(std::mem::take(&mut self.values)))),
        }
    }
}

fn answer(action: &str, content: Option<Value>) -> Filled {
    Filled::Done(ElicitationAnswer {
        action: action.to_owned(),
        content,
    })
}

fn kind(property: &Value) -> Kind {
    match property["type"].as_str() {
        Some("boolean") => Kind::YesNo,
        Some("integer") => Kind::Number { whole: true },
        Some("number") => Kind::Number { whole: false },
        Some("array") => Kind::SomeOf(form_choices(&property["items"])),
        _ => match form_choices(property) {
            none if none.is_empty() => Kind::Text,
            choices => Kind::OneOf(choices),
        },
    }
}

fn read(kind: &Kind, line: &str) -> Option<Value> {
    match kind {
        Kind::Text => Some(line.into()),
        Kind::Number { whole: true } => line.parse::<i64>().ok().map(Value::from),
        Kind::Number { whole: false } => line
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from),
        Kind::YesNo => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => Some(true.into()),
            "n" | "no" | "false" => Some(false.into()),
            _ => None,
        },
        Kind::OneOf(choices) => chosen(choices, line).map(Value::from),
        Kind::SomeOf(choices) => {
            let all = line.split(',').map(|part| chosen(choices, part.trim()));
            all.collect::<Option<Vec<_>>>().map(Value::from)
        }
    }
}

/// What was chosen by its number, its value or its name.
fn chosen<'a>(choices: &'a [(String, String)], line: &str) -> Option<&'a str> {
    let by_number = line
        .parse::<usize>()
        .ok()
        .and_then(|number| choices.get(number.checked_sub(1)?));
    let by_name = || {
        let is = |text: &str| text.eq_ignore_ascii_case(line);
        choices.iter().find(|(value, label)| is(value) || is(label))
    };
    by_number.or_else(by_name).map(|(value, _)| value.as_str())
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Types lines; answers what the last one led to.
    fn fill(schema: Value, lines: &[&str]) -> Option<(String, Option<Value>)> {
        let asked = ElicitationRequested {
            message: "Tell me".into(),
            requested_schema: serde_json::from_value(schema).ok(),
            ..ElicitationRequested::default()
        };
        let mut form = Form::of(&asked);
        let mut ended = None;
        for line in lines {
            assert!(ended.is_none(), "{lines:?}");
            assert!(!form.text().is_empty());
            if let Filled::Done(answer) = form.take(line) {
                ended = Some((answer.action, answer.content));
            }
        }
        ended
    }

    #[test]
    fn a_form_is_filled_in_line_by_line() {
        let schema = json!({"type": "object", "required": ["a_name", "b_sure"], "properties": {
            "a_name": {"type": "string", "title": "Your name"},
            "b_sure": {"type": "boolean"},
            "c_count": {"type": "integer", "default": 3},
            "d_colour": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
            "e_many": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}, {"const": "y", "title": "Y"}]}},
            "f_size": {"type": "number"},
        }});
        let all = [
            "maybe", "y", "", "Ada", "what?", "n", "", "9", "blue", "z", "1, y", "far", "1.5",
        ];
        let expected = json!({"a_name": "Ada", "b_sure": false, "c_count": 3, "d_colour": "b", "e_many": ["x", "y"], "f_size": 1.5});
        assert_eq!(fill(schema.clone(), &all), Some(("accept".into(), Some(expected))));
        let least = ["yes", "Ada", "true", "", "", "", ""];
        let expected = json!({"a_name": "Ada", "b_sure": true, "c_count": 3});
        assert_eq!(fill(schema.clone(), &least), Some(("accept".into(), Some(expected))));
        assert_eq!(fill(schema.clone(), &["no"]), Some(("decline".into(), None)));
        assert_eq!(fill(schema, &["y", "Ada"]), None);
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!(fill(empty, &["y"]), Some(("accept".into(), Some(json!({})))));
    }
}
