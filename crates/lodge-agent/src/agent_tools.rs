//! The loop's own tools: they talk to people or end the task, and touch nothing outside the session.

use std::sync::Arc;

use lodge_models::ToolSpec;
use serde_json::json;

/// The tool that asks the person.
pub(crate) const ASK_USER: &str = "ask_user";

/// The loop's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentTool {
    AskUser,
    ExitPlanMode,
    TaskComplete,
    Skill,
    Task,
    ReadAgent,
}

pub(crate) const ALL: [AgentTool; 6] = [
    AgentTool::AskUser,
    AgentTool::ExitPlanMode,
    AgentTool::TaskComplete,
    AgentTool::Skill,
    AgentTool::Task,
    AgentTool::ReadAgent,
];

impl AgentTool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AskUser => ASK_USER,
            Self::ExitPlanMode => "exit_plan_mode",
            Self::TaskComplete => "task_complete",
            Self::Skill => "skill",
            Self::Task => "task",
            Self::ReadAgent => "read_agent",
        }
    }

    /// Whether calls of it may run beside others of the same message.
    pub(crate) fn parallel(self) -> bool {
        matches!(self, Self::Task | Self::ReadAgent)
    }

    /// `ask_user` where people answer by forms.
    pub(crate) fn ask_by_form_spec() -> ToolSpec {
        ToolSpec {
            name: Self::AskUser.name().into(),
            description: "Ask the person to fill in a form and wait for the answer. Keep forms short.".into(),
            parameters: Arc::new(json!({
                "type": "object",
                "properties": {
                    "message": {"type": "string", "description": "The question, and why you ask it."},
                    "requestedSchema": {
                        "type": "object",
                        "description": "The form: a JSON schema of type object whose properties are strings, numbers, booleans or enumerations, none of them nested.",
                        "properties": {
                            "type": {"type": "string", "enum": ["object"]},
                            "properties": {"type": "object"},
                            "required": {"type": "array", "items": {"type": "string"}}
                        },
                        "required": ["type", "properties"]
                    }
                },
                "required": ["message", "requestedSchema"]
            })),
        }
    }

    /// What the model is told of those that are the same in every session.
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
            Self::Skill | Self::Task | Self::ReadAgent => unreachable!("what they say depends on the session"),
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
