//! `store_memory`: saves a fact about the project for later sessions.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use lodge_events::{MemoryAction, MemoryPermission, MemoryScope, PermissionRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking;
use crate::{
    Need, Tool, ToolCx, ToolError, ToolOutput,
    cx::arguments,
    memory::{LONGEST_FACT, Memory},
};

/// Keeps a fact.
pub(super) struct StoreMemory;

#[derive(Deserialize)]
struct Arguments {
    subject: String,
    fact: String,
    #[serde(default)]
    citations: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

impl Arguments {
    fn read(value: &Value) -> Result<Self, ToolError> {
        let mut found: Self = arguments("store_memory", value)?;
        found.subject = found.subject.trim().to_owned();
        found.fact = found.fact.trim().to_owned();
        if found.subject.is_empty() || found.fact.is_empty() {
            return Err(ToolError("subject and fact must not be empty.".to_owned()));
        }
        if found.fact.chars().count() > LONGEST_FACT {
            return Err(ToolError(format!(
                "The fact is too long: say it in at most {LONGEST_FACT} characters."
            )));
        }
        Ok(found)
    }
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "subject": { "type": "string", "description": "What the fact is about, in one or two words, such as \"testing\"." },
            "fact": { "type": "string", "description": "The fact, in one or two sentences." },
            "citations": { "type": "string", "description": "Where it comes from, such as a file with a line, or the user's words." },
            "reason": { "type": "string", "description": "Why it helps later sessions." }
        },
        "required": ["subject", "fact"]
    }))
});

impl Tool for StoreMemory {
    fn name(&self) -> &'static str {
        crate::STORE_MEMORY
    }

    fn description(&self) -> &'static str {
        "Saves a fact about this project for later sessions: conventions, commands and decisions that are hard to see in the files, and what the user asks you to remember. Never save secrets, or anything that matters only for the current task."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args = Arguments::read(value)?;
        let request = PermissionRequest::Memory(MemoryPermission {
            tool_call_id: Some(cx.call_id.to_string()),
            action: Some(MemoryAction::Store),
            subject: Some(args.subject),
            fact: args.fact,
            citations: args.citations,
            reason: args.reason,
            scope: Some(MemoryScope::Repository),
            ..MemoryPermission::default()
        });
        Ok(cx.need(Vec::new(), request))
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args = Arguments::read(&value)?;
            let memories = cx.state.memories.clone();
            let memories = memories.ok_or_else(|| ToolError("Memory is not available in this session.".to_owned()))?;
            blocking(move || {
                let memory = Memory {
                    subject: args.subject,
                    fact: args.fact,
                    citations: args.citations,
                    kept_at: lodge_events::timestamp_text(jiff::Timestamp::now()),
                };
                let kept = memories.keep(&cx.cwd, memory);
                kept.map_err(|error| ToolError(format!("The fact could not be saved: {error}")))?;
                Ok(ToolOutput {
                    content: "Saved for later sessions.".to_owned(),
                    memory_changed: true,
                    ..ToolOutput::default()
                })
            })
            .await
        })
    }
}
