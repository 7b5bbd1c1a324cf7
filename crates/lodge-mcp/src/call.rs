//! Calls of tools: what goes in, what comes out, and which are under way.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use serde_json::{Map, Value};

/// The shortest time between two words of progress that are passed on.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);
/// The longest word of progress.
const PROGRESS_CHARACTERS: usize = 500;

/// What a running tool tells.
pub type Progress = Arc<dyn Fn(String) + Send + Sync>;

/// A call of a tool.
pub struct Call {
    /// The call's id, for questions that come of it.
    pub id: String,
    /// The tool's name on the server.
    pub tool: String,
    /// Its arguments.
    pub arguments: Option<Map<String, Value>>,
    /// When given, the exact `_meta` of the request, or none at all.
    pub meta: Option<Option<Map<String, Value>>>,
    /// Hears of progress.
    pub progress: Progress,
}

/// What a tool gave back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallResult {
    /// The blocks, as MCP forms them.
    pub content: Vec<Value>,
    /// The structured answer.
    pub structured: Option<Value>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// Labels of the server.
    pub meta: Option<Value>,
}

impl CallResult {
    pub(crate) fn of(result: CallToolResult) -> Self {
        Self {
            content: result.content.iter().map(json).collect(),
            meta: result.meta.as_ref().map(json),
            structured: result.structured_content,
            is_error: result.is_error.unwrap_or(false),
        }
    }

    /// The answer as MCP forms it.
    pub fn json(&self) -> Value {
        let mut value = serde_json::json!({"content": self.content, "isError": self.is_error});
        if let Some(structured) = &self.structured {
            value["structuredContent"] = structured.clone();
        }
        if let Some(meta) = &self.meta {
            value["_meta"] = meta.clone();
        }
        value
    }
}

/// A typed part of the protocol, back to JSON.
pub(crate) fn json(part: &impl serde::Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

struct Open {
    id: String,
    progress: Progress,
    told: Option<Instant>,
}

/// The calls under way on one connection.
#[derive(Default)]
pub(crate) struct Calls(Mutex<HashMap<ProgressToken, Open>>);

/// Takes a call out again when it is over, however it ends.
pub(crate) struct Entry<'a>(&'a Calls, ProgressToken);

impl Calls {
    pub(crate) fn begin(&self, token: ProgressToken, call: &Call) -> Entry<'_> {
        let open = Open {
            id: call.id.clone(),
            progress: call.progress.clone(),
            told: None,
        };
        self.0.lock().insert(token.clone(), open);
        Entry(self, token)
    }

    /// The call that a question can only belong to.
    pub(crate) fn only(&self) -> Option<String> {
        let open = self.0.lock();
        let mut all = open.values();
        match (all.next(), all.next()) {
            (Some(call), None) => Some(call.id.clone()),
            _ => None,
        }
    }

    pub(crate) fn progress(&self, told: &ProgressNotificationParam) {
        let progress = {
            let mut open = self.0.lock();
            let Some(call) = open.get_mut(&told.progress_token) else {
                return;
            };
            if call.told.is_some_and(|last| last.elapsed() < PROGRESS_EVERY) {
                return;
            }
            call.told = Some(Instant::now());
            call.progress.clone()
        };
        let text = match (&told.message, told.total) {
            (Some(message), _) if !message.is_empty() => message.chars().take(PROGRESS_CHARACTERS).collect(),
            (_, Some(total)) => format!("{} of {total}", told.progress),
            _ => told.progress.to_string(),
        };
        progress(text);
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}
