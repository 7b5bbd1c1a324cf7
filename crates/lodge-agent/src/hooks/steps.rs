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
    /// Whether a call may run (`preToolUse`).
    #[serde(skip)]
    pub(crate) call: Ruling,
    /// The answer to a permission request, before a person is asked (`permissionRequest`).
    #[serde(skip)]
    pub(crate) permission: Ruling,
    /// Why the agent must not stop yet (`agentStop`).
    #[serde(skip)]
    blocks_stop: Option<String>,
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
}

/// What hooks decided, and the reason of the decision that counts. A later one counts only if it is stricter, so a denial
/// stands.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ruling {
    decision: Option<Decision>,
    reason: Option<String>,
}

impl Ruling {
    fn take_in(&mut self, later: Self) {
        if later.decision > self.decision {
            *self = later;
        }
    }

    /// Nothing when no hook decided.
    pub(crate) fn decision(&self) -> Option<Decision> {
        self.decision
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref().filter(|reason| !reason.is_empty())
    }
}

/// A hook's word on a tool call, by strictness. One that is not known decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Decision {
    Allow = 0,
    Deny = 2,
    #[serde(other)]
    Ask = 1,
}

/// Decisions in the forms in which hooks write them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Forms {
    #[serde(deserialize_with = "lenient")]
    permission_decision: Option<Decision>,
    #[serde(deserialize_with = "lenient")]
    permission_decision_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    decision: Option<WordOrPermission>,
    #[serde(deserialize_with = "lenient")]
    reason: Option<String>,
    #[serde(flatten)]
    permission: Permission,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Permission {
    #[serde(deserialize_with = "lenient")]
    behavior: Option<Decision>,
    #[serde(deserialize_with = "lenient")]
    message: Option<String>,
}

impl From<Permission> for Ruling {
    fn from(permission: Permission) -> Self {
        Self {
            decision: permission.behavior,
            reason: permission.message,
        }
    }
}

#[derive(Deserialize)]
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
        let Some(given) = given.filter(Value::is_object) else {
            return Self::default();
        };
        let mut output = Self::deserialize(&given).unwrap_or_default();
        let forms = Forms::deserialize(&given).unwrap_or_default();
        output.call = Ruling {
            decision: forms.permission_decision,
            reason: forms.permission_decision_reason,
        };
        output.permission = forms.permission.into();
        match forms.decision {
            Some(WordOrPermission::Permission(permission)) => output.permission.take_in(permission.into()),
            Some(WordOrPermission::Word(word)) if word == "block" => {
                output.blocks_stop = forms.reason.filter(|why| !why.is_empty());
            }
            _ => {}
        }
        output
    }

    /// Takes in what a later hook said: the last word wins, except that decisions only get stricter, and contexts add up.
    pub(crate) fn merge(&mut self, later: Self) {
        self.call.take_in(later.call);
        self.permission.take_in(later.permission);
        replace(&mut self.blocks_stop, later.blocks_stop);
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
    }

    /// Why the agent must not stop yet.
    pub(crate) fn blocks_stop(&self) -> Option<&str> {
        self.blocks_stop.as_deref()
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
        let perhaps = json!({"permissionDecision": "perhaps"});
        let context = |text: &str| json!({"additionalContext": text});
        for (outputs, expected) in [
            (
                vec![
                    json!({"modifiedPrompt": "a"}),
                    json!({"modifiedPrompt": "b", "reason": "c"}),
                ],
                json!({"modifiedPrompt": "b"}),
            ),
            (vec![context("one"), context("two")], context("one\n\ntwo")),
            (vec![deny.clone(), allow.clone()], deny.clone()),
            (vec![allow.clone(), deny.clone()], deny),
            // A word that nobody knows is no permission, whichever comes first.
            (vec![allow.clone(), perhaps.clone()], perhaps.clone()),
            (vec![perhaps.clone(), allow.clone()], perhaps),
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
    fn a_denial_stands_in_every_form_and_order() {
        let behavior = |word: &str| json!({"behavior": word, "message": word});
        let decision = |word: &str| json!({"decision": behavior(word)});
        let both = |top: &str, inner: &str| json!({"behavior": top, "message": top, "decision": behavior(inner)});
        for outputs in [
            vec![behavior("deny"), behavior("allow")],
            vec![behavior("allow"), behavior("deny")],
            vec![behavior("deny"), decision("allow")],
            vec![decision("deny"), behavior("allow")],
            vec![decision("deny"), decision("allow"), decision("ask")],
            vec![decision("allow"), decision("deny")],
            vec![both("deny", "allow")],
            vec![both("allow", "deny")],
            vec![both("deny", "allow"), both("allow", "allow")],
            vec![behavior("deny"), json!({"decision": "approve"})],
            vec![
                behavior("deny"),
                json!({"permissionDecision": "allow", "behavior": null}),
            ],
        ] {
            let answer = merged(outputs.clone()).permission;
            assert_eq!(
                (answer.decision(), answer.reason()),
                (Some(Decision::Deny), Some("deny")),
                "{outputs:?}"
            );
        }
        let block = json!({"decision": "block", "reason": "more"});
        for later in [json!({"decision": "approve"}), decision("allow"), json!({})] {
            assert_eq!(
                merged(vec![block.clone(), later.clone()]).blocks_stop(),
                Some("more"),
                "{later}"
            );
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
            (json!({"decision": {"behavior": 1}}), (None, None)),
        ] {
            let answer = Output::read(Some(given.clone())).permission;
            assert_eq!((answer.decision(), answer.reason()), expected, "{given}");
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
