//! Descriptions of tools that the agent runs itself, because they need a person or a turn.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

/// Asks the person who uses the session. The result is `User selected: A` or `User responded: text`.
pub const ASK_USER: AgentTool = AgentTool {
    name: "ask_user",
    description: "Asks the user a question and waits for the answer. Use it when the task cannot continue without a decision or a fact that only the user knows. Offer choices when there are any.",
    parameters: &ASK_USER_PARAMETERS,
};

static ASK_USER_PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "question": { "type": "string", "description": "The question. Ask one at a time." },
            "choices": { "type": "array", "items": { "type": "string" }, "description": "Answers to choose from." },
            "allow_freeform": { "type": "boolean", "description": "Whether the user may also answer in their own words. Default true." }
        },
        "required": ["question"]
    }))
});

/// A tool's description for the model.
#[derive(Debug, Clone, Copy)]
pub struct AgentTool {
    /// Name the model calls it by.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    parameters: &'static LazyLock<Arc<Value>>,
}

impl AgentTool {
    /// JSON schema of the arguments.
    pub fn parameters(&self) -> Arc<Value> {
        Arc::clone(self.parameters)
    }
}
