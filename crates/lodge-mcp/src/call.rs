//! Tool calls: arguments, results, and which calls are running.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// The shortest time between two progress messages that are forwarded.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);
/// The longest progress message.
const PROGRESS_CHARACTERS: usize = 500;

/// How often a server may ask the model while its tools run.
const SAMPLINGS: usize = 20;

/// Progress of a running tool.
pub type Progress = Arc<dyn Fn(String) + Send + Sync>;

/// A call of a tool.
#[derive(Clone)]
pub struct Call {
    /// The call's id, for questions that it causes.
    pub id: String,
    /// The tool's name on the server.
    pub tool: String,
    /// Its arguments.
    pub arguments: Option<Map<String, Value>>,
    /// When given, the exact `_meta` of the request, or none at all.
    pub meta: Option<Option<Map<String, Value>>>,
    /// Is called with progress.
    pub progress: Progress,
}

/// A tool's result.
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
    pub(crate) fn from_wire(result: CallToolResult) -> Self {
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
    /// The last word of progress, while it is too early to pass it on.
    held: Option<String>,
}

#[derive(Default)]
struct UnderWay {
    open: HashMap<ProgressToken, Open>,
    /// What the server asked the model since there was no call.
    samplings: usize,
}

/// The calls under way on one connection.
#[derive(Default)]
pub(crate) struct Calls {
    all: Mutex<UnderWay>,
    /// Notified when the last call ends.
    over: Notify,
}

/// Removes a call when it ends, however it ends.
pub(crate) struct Entry<'a>(&'a Calls, ProgressToken);

impl Calls {
    pub(crate) fn begin(&self, token: ProgressToken, call: &Call) -> Entry<'_> {
        let open = Open {
            id: call.id.clone(),
            progress: call.progress.clone(),
            told: None,
            held: None,
        };
        self.all.lock().open.insert(token.clone(), open);
        Entry(self, token)
    }

    /// The call that a question can only belong to.
    pub(crate) fn only(&self) -> Option<String> {
        let under_way = self.all.lock();
        let mut all = under_way.open.values();
        match (all.next(), all.next()) {
            (Some(call), None) => Some(call.id.clone()),
            _ => None,
        }
    }

    /// Counts a sampling request. A server may send a limited number, and only while one of its tools runs.
    pub(crate) fn count_sampling(&self) -> Result<(), &'static str> {
        let mut under_way = self.all.lock();
        if under_way.open.is_empty() {
            return Err("Sampling is only allowed while one of the server's tools runs.");
        }
        if under_way.samplings >= SAMPLINGS {
            return Err("Too many sampling requests.");
        }
        under_way.samplings += 1;
        Ok(())
    }

    /// Waits until no call is running.
    pub(crate) async fn all_over(&self) {
        loop {
            let over = self.over.notified();
            tokio::pin!(over);
            over.as_mut().enable();
            if self.all.lock().open.is_empty() {
                return;
            }
            over.await;
        }
    }

    /// Passes on progress, in moderation: of what comes too quickly the last word is passed on a little later.
    pub(crate) fn progress(self: &Arc<Self>, told: &ProgressNotificationParam) {
        let text = match (&told.message, told.total) {
            (Some(message), _) if !message.is_empty() => message.chars().take(PROGRESS_CHARACTERS).collect(),
            (_, Some(total)) => format!("{} of {total}", told.progress),
            _ => told.progress.to_string(),
        };
        let wait = {
            let mut under_way = self.all.lock();
            let Some(call) = under_way.open.get_mut(&told.progress_token) else {
                return;
            };
            let waits = call.held.replace(text).is_some();
            let since = call.told.map_or(PROGRESS_EVERY, |last| last.elapsed());
            match PROGRESS_EVERY.saturating_sub(since) {
                _ if waits => return,
                wait => wait,
            }
        };
        if wait.is_zero() {
            return self.pass_on(&told.progress_token);
        }
        let (calls, token) = (Arc::downgrade(self), told.progress_token.clone());
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            if let Some(calls) = calls.upgrade() {
                calls.pass_on(&token);
            }
        });
    }

    /// Forwards the progress of a call that is held back.
    fn pass_on(&self, token: &ProgressToken) {
        let held = {
            let mut under_way = self.all.lock();
            under_way.open.get_mut(token).and_then(|call| {
                let text = call.held.take()?;
                call.told = Some(Instant::now());
                Some((call.progress.clone(), text))
            })
        };
        if let Some((progress, text)) = held {
            progress(text);
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.pass_on(&self.1);
        let mut under_way = self.0.all.lock();
        under_way.open.remove(&self.1);
        if under_way.open.is_empty() {
            under_way.samplings = 0;
            self.0.over.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_word_of_progress_is_told_however_quickly_it_came() {
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let ear = heard.clone();
        let call = Call {
            id: "c".to_owned(),
            tool: "t".to_owned(),
            arguments: None,
            meta: None,
            progress: Arc::new(move |word| ear.lock().push(word)),
        };
        let calls = Arc::<Calls>::default();
        let token = ProgressToken(rmcp::model::NumberOrString::Number(1));
        let entry = calls.begin(token.clone(), &call);
        let say = |step: u32| calls.progress(&ProgressNotificationParam::new(token.clone(), f64::from(step)));
        (0..1000).for_each(say);
        drop(entry);
        // Nobody hears of a call that is over.
        say(1000);
        let heard = heard.lock();
        assert_eq!(heard.first().map(String::as_str), Some("0"));
        assert_eq!(heard.last().map(String::as_str), Some("999"));
        assert!(heard.len() < 1000);
    }
}
