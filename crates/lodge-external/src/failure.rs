//! Why a program does not do what it should, in words for people.

use lodge_rpc::{Error, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND};
use serde_json::Value;

use crate::said::shortened;

/// So much of what a program says of a failure is told, in bytes.
const LONGEST: usize = 2 << 10;
/// Shorter values of variables occur by chance everywhere.
const SHORTEST_SECRET: usize = 4;

/// Why a program does not do what it should.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExternalError {
    /// It could not be started.
    #[error("The agent {name} cannot be started: `{command}`: {why}. Check [agents.{id}] in lodge.toml.")]
    Start {
        /// The agent.
        name: String,
        /// Its name in the configuration.
        id: String,
        /// The program.
        command: String,
        /// What the system says.
        why: String,
    },
    /// It is not there any more, or does not behave.
    #[error("The agent {name} {why}")]
    Gone {
        /// The agent.
        name: String,
        /// How it ended.
        why: String,
    },
    /// It refused.
    #[error("The agent {name} reports: {why}")]
    Refused {
        /// The agent.
        name: String,
        /// What it says.
        why: String,
    },
    /// It does not continue its conversation, although it may know it.
    #[error(
        "The agent {name} could not continue its conversation: {why}. Send again to try once more. If that fails, too, it begins a new \
         one."
    )]
    NotContinued {
        /// The agent.
        name: String,
        /// What it says.
        why: String,
    },
    /// Somebody has to sign in first.
    #[error("The agent {name} needs you to sign in: {why}. {advice}")]
    SignIn {
        /// The agent.
        name: String,
        /// What it says.
        why: String,
        /// What people can do.
        advice: String,
    },
}

/// The values of variables that were set for a program: it may print them.
pub(crate) struct Hidden(Vec<String>);

impl Hidden {
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a String>) -> Self {
        let values = values.filter(|value| value.len() >= SHORTEST_SECRET);
        let spellings = values.flat_map(|value| {
            let written = Value::from(value.as_str()).to_string();
            [value.clone(), written[1..written.len() - 1].to_owned()]
        });
        let mut hidden: Vec<String> = spellings.collect();
        // The longest first: one may contain another.
        hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
        hidden.dedup();
        Self(hidden)
    }

    /// A text without these values.
    pub(crate) fn hide(&self, text: String) -> String {
        let hide = |text: String, value: &String| text.replace(value.as_str(), "******");
        self.0.iter().fold(text, hide)
    }

    /// What a program says of a failure: its message, and the cause if that is told beside it.
    pub(crate) fn cause(&self, error: &Error) -> String {
        let detail = match error.data.as_deref() {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(data) => {
                let named = ["details", "message"].iter().find_map(|name| data.get(name)?.as_str());
                named.map_or_else(|| data.to_string(), str::to_owned)
            }
        };
        let told = |text: &str| shortened(self.hide(text.trim().to_owned()), LONGEST);
        let (message, detail) = (told(&error.message), told(&detail));
        match detail.is_empty() || ["{}", "[]"].contains(&detail.as_str()) || message.contains(&detail) {
            true => message,
            false => format!("{}: {detail}", message.trim_end_matches(['.', ':'])),
        }
    }
}

/// Whether an answer to a wish to continue a conversation can mean that there is no such conversation. Agents have no common word
/// for that.
pub(crate) fn means_unknown(error: &Error) -> bool {
    let details = error.data.as_ref().map(ToString::to_string).unwrap_or_default();
    let said = format!("{} {details}", error.message).to_lowercase();
    let words = [
        "not found",
        "not find",
        "cannot find",
        "unknown",
        "no such",
        "not exist",
        "no conversation",
        "no session",
        "no rollout",
    ];
    [METHOD_NOT_FOUND, INVALID_PARAMS, NOT_FOUND].contains(&error.code) || words.iter().any(|word| said.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_is_told_with_its_cause_and_without_secrets() {
        let secret = "se\"cret".to_owned();
        let hidden = Hidden::new([secret.clone(), "abc".to_owned()].iter());
        let long = "ä".repeat(LONGEST);
        for (message, data, expected) in [
            ("Internal error", Value::Null, "Internal error"),
            ("Internal error", json!("no luck"), "Internal error: no luck"),
            (
                "Internal error.",
                json!({ "details": "no luck" }),
                "Internal error: no luck",
            ),
            (
                "Internal error",
                json!({ "message": "no luck", "x": 1 }),
                "Internal error: no luck",
            ),
            (
                "Internal error",
                json!({ "details": { "a": 1 } }),
                r#"Internal error: {"details":{"a":1}}"#,
            ),
            ("Internal error", json!(["a"]), r#"Internal error: ["a"]"#),
            ("No luck at all", json!({ "details": "luck" }), "No luck at all"),
            ("Internal error", json!({}), "Internal error"),
            ("Internal error", json!("  "), "Internal error"),
            (
                "With se\"cret",
                json!({ "abc": secret }),
                r#"With ******: {"abc":"******"}"#,
            ),
        ] {
            let data = Some(Box::new(data));
            let error = Error {
                data,
                ..Error::internal(message)
            };
            assert_eq!(hidden.cause(&error), expected, "{error:?}");
        }
        let error = Error {
            data: Some(Box::new(json!(long))),
            ..Error::internal(&long)
        };
        let told = hidden.cause(&error);
        assert!(told.len() < 2 * LONGEST + 16 && told.ends_with('…'), "{}", told.len());
    }
}
