//! Fields that servers write in several forms.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Arguments of a call: JSON in a string, or the JSON itself.
pub(super) fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let Some(raw) = Option::<&RawValue>::deserialize(deserializer)? else {
        return Ok(None);
    };
    match raw.get().starts_with('"') {
        true => serde_json::from_str(raw.get()).map(Some).map_err(D::Error::custom),
        false => Ok(Some(raw.get().to_owned())),
    }
}

/// What an answer says: a text, or parts of which some are text and some are reasoning.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) reasoning: String,
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SaidVisitor)
    }
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    thinking: Option<Said>,
}

struct SaidVisitor;

impl<'de> Visitor<'de> for SaidVisitor {
    type Value = Said;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Said, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Said, E> {
        Ok(Said {
            text,
            ..Said::default()
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Said, A::Error> {
        let mut said = Said::default();
        while let Some(part) = parts.next_element::<Part>()? {
            said.text.extend(part.text);
            said.reasoning.extend(part.thinking.map(|thought| thought.text));
        }
        Ok(said)
    }

    /// Of a form that nobody is known to send: it says nothing.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Said, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Said::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_a_text_or_parts_of_it() {
        for (json, text, reasoning) in [
            (r#""plain \"text\"""#, "plain \"text\"", ""),
            (r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#, "ab", ""),
            (
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]"#,
                "a",
                "hm",
            ),
            (r#"[{"type":"thinking","thinking":"hm"}]"#, "", "hm"),
            (r#"[{"type":"reference","reference_ids":[1]}]"#, "", ""),
            (r#"{"some":["thing"]}"#, "", ""),
            ("[]", "", ""),
        ] {
            let said: Said = serde_json::from_str(json).expect(json);
            assert_eq!(
                (said.text.as_str(), said.reasoning.as_str()),
                (text, reasoning),
                "{json}"
            );
        }
    }
}
