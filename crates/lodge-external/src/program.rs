//! A program configured as an agent.

use std::{any::Any, collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt, stream::BoxStream};
use lodge_models::{Chunk, ErrorKind, Model, ModelError, ModelInfo, ModelRequest};
use serde::{Deserialize, Deserializer, de::Error as _};

/// Where lists say that such agents come from.
pub const PROVIDER: &str = "agent";

/// `[agents.NAME]` of `lodge.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEntry {
    /// The program: its name, to be found by `PATH`, or its absolute path.
    #[serde(deserialize_with = "command")]
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables to set for it. It sees those of whoever starts the session, but for secrets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The name for people; that of the entry when left out.
    pub name: Option<String>,
    /// The method by which it is signed in when it wants that, in its own words.
    pub auth: Option<String>,
}

/// A relative path would mean another program in each session's folder, and one that the folder brings.
fn command<'de, D: Deserializer<'de>>(given: D) -> Result<String, D::Error> {
    let command = String::deserialize(given)?;
    if command.contains('/') && !command.starts_with('/') {
        return Err(D::Error::custom(format!(
            "the command `{command}` is a relative path: give an absolute one, or a name that is found by PATH"
        )));
    }
    Ok(command)
}

/// An agent that is another program. Sessions choose it like a model.
#[derive(Debug)]
pub struct Program {
    info: ModelInfo,
    pub(crate) entry: AgentEntry,
}

impl Program {
    /// The agent of an entry.
    pub fn new(id: &str, entry: AgentEntry) -> Self {
        let info = ModelInfo {
            id: id.to_owned(),
            name: entry.name.clone().unwrap_or_else(|| id.to_owned()),
            provider: PROVIDER.to_owned(),
            // It minds these by itself.
            context_window: 0,
            max_prompt_tokens: None,
            max_output_tokens: 0,
            vision: true,
            reasoning_efforts: Vec::new(),
        };
        Self { info, entry }
    }

    /// The program behind a model, if it is one.
    pub fn behind<'a>(model: &'a (dyn Model + 'static)) -> Option<&'a Self> {
        (model as &dyn Any).downcast_ref()
    }

    /// What is told to whoever wants of it what only a model can do.
    pub fn cannot(&self, what: &str) -> String {
        format!(
            "{} is an agent of its own: it cannot {what}. Use a session with a model for that.",
            self.info.name
        )
    }

    /// The same as an error.
    pub fn refusal(&self, what: &str) -> ModelError {
        ModelError {
            kind: ErrorKind::Query,
            code: None,
            message: self.cannot(what),
            status: None,
            retry_after: None,
            provider_call_id: None,
            retryable: false,
        }
    }
}

impl Model for Program {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call(&self, _request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let error = self.refusal("be asked like a model");
        futures_util::stream::once(std::future::ready(Err(error))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_name_or_an_absolute_path() {
        for (command, fits) in [
            ("opencode", true),
            ("/usr/bin/opencode", true),
            ("./agent", false),
            ("node_modules/.bin/agent", false),
            ("~/bin/agent", false),
        ] {
            let entry = serde_json::from_value::<AgentEntry>(serde_json::json!({ "command": command }));
            assert_eq!(entry.is_ok(), fits, "{command}");
            if let Err(error) = entry {
                assert!(error.to_string().contains("give an absolute one"), "{error}");
            }
        }
    }
}
