//! Tools that only run as tasks. The library does not parse the field that says so, so messages are inspected as they
//! arrive.

use std::{
    collections::HashSet,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};

use crate::connection::MESSAGE_BYTES;

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

/// The output of a stdio server, observed line by line as it is read.
pub(crate) struct ObservedOutput<R> {
    inner: R,
    line: Vec<u8>,
    tasks: TaskOnly,
}

impl<R> ObservedOutput<R> {
    pub(crate) fn new(inner: R, tasks: TaskOnly) -> Self {
        Self {
            inner,
            line: Vec::new(),
            tasks,
        }
    }

    fn observe(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Longer messages are dropped anyway.
            if self.line.len() + piece.len() <= MESSAGE_BYTES {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.tasks.observe(&self.line);
                self.line = Vec::new();
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for ObservedOutput<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.observe(&buffer.filled()[before..]);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_only_run_as_tasks_are_seen_however_the_bytes_are_cut() {
        let list = r#"{"result":{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b","execution":{"taskSupport":"optional"}},{"name":"c"}]}}"#;
        for size in [1, 5, 10_000] {
            let tasks = TaskOnly::default();
            let mut looked = ObservedOutput::new(tokio::io::empty(), tasks.clone());
            let text = format!("noise taskSupport\n{list}\n{{\"half\":");
            text.as_bytes().chunks(size).for_each(|chunk| looked.observe(chunk));
            assert_eq!(["a", "b", "c"].map(|name| tasks.contains(name)), [true, false, false]);
        }
        // What no longer needs one is a tool like any other.
        let tasks = TaskOnly::default();
        tasks.observe(list.as_bytes());
        tasks.observe(list.replace("required", "forbidden").as_bytes());
        assert!(!tasks.contains("a"));
    }
}
