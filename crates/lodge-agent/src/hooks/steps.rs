//! The steps that have hooks: the input that each hook gets, and the answers that it may give.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A step, with what hooks are told of it.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum Step<'a> {
    SessionStart {
        source: &'static str,
        initial_prompt: &'a str,
    },
    SessionEnd {
        reason: &'static str,
    },
    UserPromptSubmitted {
        prompt: &'a str,
    },
    UserPromptTransformed {
        prompt: &'a str,
        transformed_prompt: &'a str,
    },
    PreToolUse {
        tool_name: &'a str,
        tool_args: String,
    },
    PermissionRequest {
        tool_name: &'a str,
        tool_args: &'a Value,
        tool_call_id: &'a str,
    },
    Notification {
        message: &'a str,
        notification_type: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_name: Option<&'a str>,
    },
    PreMcpToolCall {
        tool_call_id: &'a str,
        server_name: &'a str,
        tool_name: &'a str,
        arguments: &'a Value,
    },
    PostToolUse {
        tool_name: &'a str,
        tool_args: &'a Value,
        tool_result: TextResult<'a>,
    },
    PostToolUseFailure {
        tool_name: &'a str,
        tool_args: &'a Value,
        error: &'a str,
    },
    AgentStop {
        stop_reason: &'static str,
        transcript_path: Cow<'a, str>,
        #[serde(rename = "stop_hook_active", skip_serializing_if = "std::ops::Not::not")]
        was_blocked: bool,
    },
    SubagentStart(Subagent<'a>),
    SubagentStop {
        #[serde(flatten)]
        agent: Subagent<'a>,
        agent_type: &'a str,
        agent_id: &'a str,
        stop_reason: &'static str,
        response: &'a str,
    },
    ErrorOccurred {
        error: &'a str,
        error_context: &'static str,
        recoverable: bool,
    },
    PreCompact {
        trigger: &'static str,
    },
}

/// What a tool gave back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextResult<'a> {
    pub(crate) text_result_for_llm: &'a str,
    pub(crate) result_type: &'static str,
}

/// A sub-agent. Those that are built in have no words of their own to tell.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subagent<'a> {
    pub(crate) transcript_path: Cow<'a, str>,
    pub(crate) agent_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_display_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_description: Option<&'a str>,
}

impl Step<'_> {
    /// The name that hooks are registered for.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::SessionStart { .. } => "sessionStart",
            Self::SessionEnd { .. } => "sessionEnd",
            Self::UserPromptSubmitted { .. } => "userPromptSubmitted",
            Self::UserPromptTransformed { .. } => "userPromptTransformed",
            Self::PreToolUse { .. } => "preToolUse",
            Self::PermissionRequest { .. } => "permissionRequest",
            Self::Notification { .. } => "notification",
            Self::PreMcpToolCall { .. } => "preMcpToolCall",
            Self::PostToolUse { .. } => "postToolUse",
            Self::PostToolUseFailure { .. } => "postToolUseFailure",
            Self::AgentStop { .. } => "agentStop",
            Self::SubagentStart { .. } => "subagentStart",
            Self::SubagentStop { .. } => "subagentStop",
            Self::ErrorOccurred { .. } => "errorOccurred",
            Self::PreCompact { .. } => "preCompact",
        }
    }

    /// The step as it goes to hooks and into the log.
    pub(crate) fn input(&self) -> Value {
        serde_json::to_value(self).expect("names, texts and JSON can be written as JSON")
    }
}

/// What hooks said to a step. A field that is not of its type says nothing.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Output {
    #[serde(deserialize_with = "lenient")]
    pub(crate) permission_decision: Option<Decision>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) permission_decision_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) additional_context: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) modified_args: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) modified_prompt: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) modified_transformed_prompt: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) modified_response: Option<String>,
    #[serde(deserialize_with = "lenient")]
    modified_result: Option<ModifiedResult>,
    #[serde(deserialize_with = "lenient")]
    suppress_output: Option<bool>,
    /// The outer is whether it was said, the inner what is to be used instead.
    #[serde(deserialize_with = "lenient_map")]
    pub(crate) meta_to_use: Option<Option<Map<String, Value>>>,
    #[serde(deserialize_with = "lenient")]
    decision: Option<WordOrPermission>,
    #[serde(deserialize_with = "lenient")]
    reason: Option<String>,
    #[serde(flatten)]
    permission: Permission,
}

/// A hook's word on a tool call. One that is not known decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Decision {
    Allow,
    Deny,
    #[serde(other)]
    Ask,
}

/// An answer to a question before a person is asked.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Permission {
    #[serde(deserialize_with = "lenient")]
    pub(crate) behavior: Option<Decision>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum WordOrPermission {
    Word(String),
    Permission(Permission),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum ModifiedResult {
    Text(String),
    #[serde(rename_all = "camelCase")]
    Result {
        text_result_for_llm: String,
    },
}

impl Output {
    /// What one hook gave back.
    pub(crate) fn read(given: Option<Value>) -> Self {
        let object = given.filter(Value::is_object);
        object
            .and_then(|given| serde_json::from_value(given).ok())
            .unwrap_or_default()
    }

    /// Takes in what a later hook said: the last word wins, but a denial stays one, and contexts add up.
    pub(crate) fn merge(&mut self, later: Self) {
        if self.permission_decision != Some(Decision::Deny) {
            replace(&mut self.permission_decision, later.permission_decision);
            replace(&mut self.permission_decision_reason, later.permission_decision_reason);
        }
        self.additional_context = match (self.additional_context.take(), later.additional_context) {
            (Some(before), Some(more)) => Some(format!("{before}\n\n{more}")),
            (before, more) => more.or(before),
        };
        replace(&mut self.modified_args, later.modified_args);
        replace(&mut self.modified_prompt, later.modified_prompt);
        replace(&mut self.modified_transformed_prompt, later.modified_transformed_prompt);
        replace(&mut self.modified_response, later.modified_response);
        replace(&mut self.modified_result, later.modified_result);
        replace(&mut self.suppress_output, later.suppress_output);
        replace(&mut self.meta_to_use, later.meta_to_use);
        replace(&mut self.decision, later.decision);
        replace(&mut self.reason, later.reason);
        replace(&mut self.permission.behavior, later.permission.behavior);
        replace(&mut self.permission.message, later.permission.message);
    }

    /// Why the agent must not stop yet.
    pub(crate) fn blocks_stop(&self) -> Option<&str> {
        match &self.decision {
            Some(WordOrPermission::Word(word)) if word == "block" => {
                self.reason.as_deref().filter(|why| !why.is_empty())
            }
            _ => None,
        }
    }

    /// The answer to a question, which may stand by itself or in `decision`.
    pub(crate) fn permission(&self) -> &Permission {
        match &self.decision {
            Some(WordOrPermission::Permission(permission)) => permission,
            _ => &self.permission,
        }
    }

    /// What the model is to read instead of a tool's result.
    pub(crate) fn modified_result(&self) -> Option<&str> {
        self.modified_result.as_ref().map(|result| match result {
            ModifiedResult::Text(text) => text.as_str(),
            ModifiedResult::Result { text_result_for_llm } => text_result_for_llm,
        })
    }

    /// Whether nobody is to read a tool's result.
    pub(crate) fn suppresses_output(&self) -> bool {
        self.suppress_output == Some(true)
    }
}

fn replace<T>(before: &mut Option<T>, later: Option<T>) {
    if later.is_some() {
        *before = later;
    }
}

fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(if value.is_null() {
        None
    } else {
        serde_json::from_value(value).ok()
    })
}

fn lenient_map<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<Map<String, Value>>>, D::Error> {
    lenient(from).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(outputs: Vec<Value>) -> Output {
        let mut output = Output::default();
        for given in outputs {
            output.merge(Output::read(Some(given)));
        }
        output
    }

    #[test]
    fn outputs_are_merged_and_a_denial_stays() {
        let deny = json!({"permissionDecision": "deny", "permissionDecisionReason": "no"});
        let allow = json!({"permissionDecision": "allow", "permissionDecisionReason": "yes"});
        let context = |text: &str| json!({"additionalContext": text});
        for (outputs, expected) in [
            (
                vec![
                    json!({"modifiedPrompt": "a"}),
                    json!({"modifiedPrompt": "b", "reason": "c"}),
                ],
                json!({"modifiedPrompt": "b", "reason": "c"}),
            ),
            (vec![context("one"), context("two")], context("one\n\ntwo")),
            (vec![deny.clone(), allow.clone()], deny.clone()),
            (vec![allow.clone(), deny.clone()], deny),
            // A word that nobody knows is no permission.
            (
                vec![allow.clone(), json!({"permissionDecision": "perhaps"})],
                json!({"permissionDecision": "ask", "permissionDecisionReason": "yes"}),
            ),
            (
                vec![
                    allow.clone(),
                    json!({"permissionDecision": 3, "additionalContext": [], "other": 1}),
                ],
                allow,
            ),
            (vec![json!("text"), json!(null)], json!({})),
        ] {
            assert_eq!(merged(outputs.clone()), Output::read(Some(expected)), "{outputs:?}");
        }
    }

    #[test]
    fn answers_are_read_in_each_form_that_hooks_give_them_in() {
        for (given, expected) in [
            (
                json!({"behavior": "deny", "message": "no"}),
                (Some(Decision::Deny), Some("no")),
            ),
            (
                json!({"decision": {"behavior": "allow"}}),
                (Some(Decision::Allow), None),
            ),
            (
                json!({"decision": "block", "behavior": "allow"}),
                (Some(Decision::Allow), None),
            ),
            (json!({"decision": {"behavior": 1}, "behavior": "allow"}), (None, None)),
        ] {
            let output = Output::read(Some(given.clone()));
            let answer = output.permission();
            assert_eq!((answer.behavior, answer.message.as_deref()), expected, "{given}");
        }
        for (given, expected) in [
            (json!({"modifiedResult": "text"}), Some("text")),
            (
                json!({"modifiedResult": {"textResultForLlm": "text", "resultType": "success"}}),
                Some("text"),
            ),
            (json!({"modifiedResult": {"other": 1}}), None),
        ] {
            assert_eq!(Output::read(Some(given.clone())).modified_result(), expected, "{given}");
        }
        for (given, expected) in [
            (json!({"decision": "block", "reason": "more"}), Some("more")),
            (json!({"decision": "block", "reason": ""}), None),
            (json!({"decision": "approve", "reason": "more"}), None),
        ] {
            assert_eq!(Output::read(Some(given.clone())).blocks_stop(), expected, "{given}");
        }
        for (given, expected) in [
            (json!({}), None),
            (json!({"metaToUse": null}), Some(None)),
            (json!({"metaToUse": {}}), Some(Some(Map::new()))),
        ] {
            assert_eq!(Output::read(Some(given.clone())).meta_to_use, expected, "{given}");
        }
    }
}
