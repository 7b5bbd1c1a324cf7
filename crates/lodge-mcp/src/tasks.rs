//! Tools that only run as tasks. The library does not parse the field that says so, so messages are inspected as they
//! arrive.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;

/// Names of a server's tools that only run as tasks, as far as the server listed them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskOnly(Arc<Mutex<HashSet<String>>>);

impl TaskOnly {
    pub(crate) fn contains(&self, tool: &str) -> bool {
        self.0.lock().contains(tool)
    }

    /// Notes the tools that a server's message lists.
    pub(crate) fn observe(&self, message: &[u8]) {
        // Hardly any message has it; the rest is not read twice.
        let word = b"taskSupport";
        if !message.windows(word.len()).any(|part| part == word) {
            return;
        }
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        let mut names = self.0.lock();
        for tool in message["result"]["tools"].as_array().into_iter().flatten() {
            let Some(name) = tool["name"].as_str() else { continue };
            match tool["execution"]["taskSupport"] == "required" {
                true => drop(names.insert(name.to_owned())),
                false => drop(names.remove(name)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_only_run_as_tasks_are_seen() {
        let list = r#"{"result":{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b","execution":{"taskSupport":"optional"}},{"name":"c"}]}}"#;
        let tasks = TaskOnly::default();
        for line in ["noise taskSupport", list, r#"{"half": "taskSupport"#] {
            tasks.observe(line.as_bytes());
        }
        assert_eq!(["a", "b", "c"].map(|name| tasks.contains(name)), [true, false, false]);
        // What no longer needs one is a tool like any other.
        tasks.observe(list.replace("required", "forbidden").as_bytes());
        assert!(!tasks.contains("a"));
    }
}
