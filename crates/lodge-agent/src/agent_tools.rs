//! Tools that are the loop's own: they talk to people or end the task, and touch nothing outside the session.

use std::sync::Arc;

use lodge_models::ToolSpec;
use serde_json::json;

/// The loop's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentTool {
    AskUser,
    ExitPlanMode,
    TaskComplete,
}

pub(crate) const ALL: [AgentTool; 3] = [AgentTool::AskUser, AgentTool::ExitPlanMode, AgentTool::TaskComplete];

impl AgentTool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AskUser => "ask_user",
            Self::ExitPlanMode => "exit_plan_mode",
            Self::TaskComplete => "task_complete",
        }
    }

    pub(crate) fn spec(self) -> ToolSpec {
        let (description, parameters) = match self {
            Self::AskUser => (
                "Ask the person a question and wait for the answer. Offer choices where they are few.",
                json!({
                    "type": "object",
                    "properties": {
                        "question": {"type": "string", "description": "The question."},
                        "choices": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from."},
                        "allow_freeform": {"type": "boolean", "description": "Whether another answer may be typed. Default: true."}
                    },
                    "required": ["question"]
                }),
            ),
            Self::ExitPlanMode => (
                "Present the plan in plan.md and ask to leave plan mode.",
                json!({
                    "type": "object",
                    "properties": {
                        "summary": {"type": "string", "description": "The plan in a few lines."},
                        "actions": {"type": "array", "items": {"type": "string"}, "description": "What the person may choose."},
                        "recommendedAction": {"type": "string", "description": "What you suggest."}
                    },
                    "required": ["summary"]
                }),
            ),
            Self::TaskComplete => (
                "Say that the whole task is done.",
                json!({
                    "type": "object",
                    "properties": {"summary": {"type": "string", "description": "What was done."}}
                }),
            ),
        };
        ToolSpec {
            name: self.name().into(),
            description: description.into(),
            parameters: Arc::new(parameters),
        }
    }
}
