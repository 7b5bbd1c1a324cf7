//! Secrets that must not be written: in every event that holds one, stars replace it.

use std::sync::atomic::{AtomicBool, Ordering};

use lodge_events::Event;
use parking_lot::RwLock;
use serde_json::Value;

/// What stands in place of a secret.
const STARS: &str = "******";
/// Shorter values occur by chance everywhere, and hiding them would garble every text.
const SHORTEST: usize = 4;
/// More values than this are not kept: each is looked for in every event.
const MOST: usize = 1000;

/// Whether something was hidden in a text.
pub(crate) fn is_redacted(text: &str) -> bool {
    text.contains(STARS)
}

/// The values, shared by all sessions of a host.
#[derive(Debug, Default)]
pub struct Secrets {
    values: RwLock<Vec<String>>,
    /// So that sessions without secrets pay nothing.
    any: AtomicBool,
}

impl Secrets {
    /// From now on these are hidden, too. Says how many values there are too many.
    pub fn add(&self, new: impl IntoIterator<Item = String>) -> Result<(), usize> {
        let mut values = self.values.write();
        let mut too_many = 0;
        for value in new {
            if value.len() < SHORTEST || values.contains(&value) {
                continue;
            }
            match values.len() < MOST {
                true => values.push(value),
                false => too_many += 1,
            }
        }
        // The longest first, so that one within another leaves nothing of it.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        self.any.store(!values.is_empty(), Ordering::Release);
        if too_many > 0 { Err(too_many) } else { Ok(()) }
    }

    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What can be shown of a text that comes in pieces. The end of it waits for the next piece where it may be the beginning
    /// of a secret; whole ones are hidden in the event.
    pub(crate) fn pass(&self, held: &mut Held, piece: String) -> String {
        if held.0.is_empty() && !self.any() {
            return piece;
        }
        let mut text = std::mem::take(&mut held.0) + &piece;
        let values = self.values.read();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            if values
                .iter()
                .any(|value| value.len() > rest.len() && value.starts_with(rest))
            {
                break;
            }
            let whole = values.iter().find(|value| rest.starts_with(value.as_str()));
            at += match whole {
                Some(value) => value.len(),
                None => rest.chars().next().map_or(1, char::len_utf8),
            };
        }
        held.0 = text.split_off(at);
        text
    }

    /// A text without secrets.
    pub(crate) fn hide_in(&self, mut text: String) -> String {
        if self.any() {
            hide_in(&mut text, &self.values.read());
        }
        text
    }

    /// The event without secrets.
    pub(crate) fn hide(&self, event: Event) -> Event {
        if !self.any() {
            return event;
        }
        let values = self.values.read();
        let written = |value: &String| Value::from(value.as_str()).to_string();
        if !values
            .iter()
            .any(|value| event.as_str().contains(written(value).trim_matches('"')))
        {
            return event;
        }
        let Ok(mut json) = serde_json::from_slice::<Value>(event.json()) else {
            return event;
        };
        hide(&mut json["data"], &values);
        match Event::parse(json.to_string().into()) {
            Ok(hidden) => hidden,
            Err(error) => {
                tracing::warn!(%error, kind = event.kind(), "a secret could not be hidden");
                event
            }
        }
    }
}

/// The end of a text that comes in pieces, while it is not known whether it begins a secret. Never longer than the longest.
#[derive(Debug, Default)]
pub(crate) struct Held(String);

impl Held {
    /// Nothing comes after it.
    pub(crate) fn rest(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.0)).filter(|rest| !rest.is_empty())
    }
}

fn hide_in(text: &mut String, values: &[String]) {
    for value in values {
        if text.contains(value.as_str()) {
            *text = text.replace(value.as_str(), STARS);
        }
    }
}

fn hide(json: &mut Value, values: &[String]) {
    match json {
        Value::String(text) => hide_in(text, values),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, values)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide(field, values)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::{SessionInfo, UserMessage};

    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_an_event_holds_them() {
        let secrets = Secrets::default();
        let event = |text: &str| {
            let message = UserMessage {
                content: text.to_owned(),
                ..UserMessage::default()
            };
            Event::new(None, None, message)
        };
        let shown = |event: Event| event.get::<UserMessage>().unwrap().content.clone();
        assert_eq!(shown(secrets.hide(event("tok\"en-1"))), "tok\"en-1");
        secrets
            .add(["tok\"en".into(), "tok\"en-1".into(), "a".into(), String::new()])
            .unwrap();
        for (text, expected) in [
            ("a tok\"en-1 and a tok\"en", "a ****** and a ******"),
            ("nothing", "nothing"),
            ("user.message", "user.message"),
        ] {
            let before = event(text);
            let id = before.id();
            let hidden = secrets.hide(before);
            assert_eq!(hidden.id(), id);
            assert_eq!(shown(hidden), expected);
            assert_eq!(secrets.hide_in(text.to_owned()), expected);
        }
    }

    #[test]
    fn what_is_no_text_of_anybodys_stays() {
        let secrets = Secrets::default();
        secrets.add(["message".into(), "session.info".into()]).unwrap();
        let info = SessionInfo {
            info_type: "x".into(),
            message: "the message".into(),
            ..SessionInfo::default()
        };
        let hidden = secrets.hide(Event::new(None, None, info));
        assert_eq!(hidden.kind(), "session.info");
        assert_eq!(hidden.get::<SessionInfo>().unwrap().message, "the ******");
    }

    #[test]
    fn a_secret_in_pieces_is_hidden_and_nothing_else_is_held_back() {
        let secrets = Secrets::default();
        let mut held = Held::default();
        assert_eq!(secrets.pass(&mut held, "hunt".into()), "hunt", "there are none yet");
        secrets
            .add([
                "hunter2".into(),
                "hunter2-and-more".into(),
                "abcab".into(),
                "abX é".into(),
            ])
            .unwrap();
        for (pieces, expected) in [
            (&["a hun", "ter", "2!"][..], &["a ", "", "hunter2!"][..]),
            (&["hunter2", "-and", "-less"], &["", "", "hunter2-and-less"]),
            (&["hunter2", "-and-more."], &["", "hunter2-and-more."]),
            (&["hunter", " 3"], &["", "hunter 3"]),
            (&["xabcab", "c"], &["xabcab", "c"]),
            (&["abX ", "é."], &["", "abX é."]),
            (&["é", "ab"], &["é", "", "ab"]),
            (&["plain", "", "text"], &["plain", "", "text"]),
        ] {
            let mut shown: Vec<String> = pieces
                .iter()
                .map(|piece| secrets.pass(&mut held, (*piece).to_owned()))
                .collect();
            shown.extend(held.rest());
            assert_eq!(shown, expected, "{pieces:?}");
        }
    }

    #[test]
    fn there_is_an_end_to_secrets() {
        let secrets = Secrets::default();
        assert_eq!(secrets.add((0..MOST + 2).map(|n| format!("secret-{n}"))), Err(2));
    }
}
