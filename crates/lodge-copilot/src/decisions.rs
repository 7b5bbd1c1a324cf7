//! Clients' decisions: permission decisions in every spelling that SDKs use, and tool results in every form.

use lodge_events::ContentBlock;
use lodge_host::{ExternalResult, PermissionDecision, ToolAnswer};
use serde::Deserialize;
use serde_json::Value;

use crate::rpc::RpcError;

/// A permission decision on the wire.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DecisionParams {
    kind: String,
    feedback: Option<String>,
}

impl DecisionParams {
    /// The decision. `None` for `no-result`, with which a client leaves the question to others. An unknown decision is
    /// an error, so that the client gives another one: there may be no other client.
    pub(crate) fn decision(self) -> Result<Option<PermissionDecision>, RpcError> {
        let feedback = self.feedback.filter(|text| !text.trim().is_empty());
        Ok(Some(match self.kind.as_str() {
            "approve-once" | "approved" | "approve" | "allow" => PermissionDecision::ApproveOnce,
            "approve-for-session" | "approved-for-session" => PermissionDecision::ApproveForSession,
            "approve-for-location" | "approved-for-location" => PermissionDecision::ApproveForLocation,
            "approve-permanently" | "approved-permanently" => PermissionDecision::ApprovePermanently,
            "reject" | "rejected" | "denied-interactively-by-user" => PermissionDecision::Reject { feedback },
            "denied" | "deny" => PermissionDecision::Deny { feedback },
            "user-not-available" | "denied-no-approval-rule-and-could-not-request-from-user" => {
                PermissionDecision::UserNotAvailable
            }
            "denied-by-rules" | "denied-by-permission-request-hook" => PermissionDecision::DenyByRules,
            "denied-by-content-exclusion-policy" => PermissionDecision::DenyByContentExclusion,
            "no-result" => return Ok(None),
            other => {
                return Err(RpcError::params(format!(
                    "'{other}' is not a permission decision; use approve-once, reject or user-not-available"
                )));
            }
        }))
    }
}

/// The result of a client's tool on the wire.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum ToolResultParams {
    /// Just text.
    Text(String),
    /// A complete result of an SDK.
    Full(Box<FullResult>),
    /// Anything else; the model reads it as JSON.
    Other(Value),
}

/// A complete tool result of an SDK.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FullResult {
    text_result_for_llm: String,
    #[serde(default)]
    result_type: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    session_log: Option<String>,
    #[serde(default)]
    tool_telemetry: Option<Value>,
    #[serde(default)]
    binary_results_for_llm: Option<Vec<Binary>>,
    #[serde(default)]
    contents: Option<Vec<Value>>,
    #[serde(default)]
    citable_sources: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binary {
    data: String,
    #[serde(default)]
    mime_type: String,
}

/// The outcome of a client's tool.
pub(crate) fn tool_answer(result: Option<ToolResultParams>, error: Option<String>) -> ToolAnswer {
    match (result, error) {
        (_, Some(error)) => ToolAnswer::Error(error),
        (None, None) => text_result(String::new()),
        (Some(ToolResultParams::Text(text)), None) => text_result(text),
        (Some(ToolResultParams::Other(value)), None) => text_result(match value {
            Value::Null => String::new(),
            value => value.to_string(),
        }),
        (Some(ToolResultParams::Full(full)), None) => ToolAnswer::Result(Box::new(ExternalResult {
            text: full.text_result_for_llm,
            result_type: full.result_type.unwrap_or_else(|| "success".to_owned()),
            error: full.error,
            session_log: full.session_log,
            telemetry: full.tool_telemetry,
            binaries: full
                .binary_results_for_llm
                .into_iter()
                .flatten()
                .map(|binary| (binary.mime_type, binary.data))
                .collect(),
            contents: full
                .contents
                .into_iter()
                .flatten()
                .filter_map(|block| serde_json::from_value::<ContentBlock>(block).ok())
                .collect(),
            citable: full.citable_sources.unwrap_or_default(),
        })),
    }
}

fn text_result(text: String) -> ToolAnswer {
    ToolAnswer::Result(Box::new(ExternalResult {
        text,
        result_type: "success".to_owned(),
        ..ExternalResult::default()
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_are_understood_in_old_and_new_spellings() {
        use PermissionDecision::*;
        for (json, expected) in [
            (json!({"kind": "approve-once"}), Some(ApproveOnce)),
            (json!({"kind": "approved"}), Some(ApproveOnce)),
            (
                json!({"kind": "approve-for-session", "approval": {"kind": "read"}}),
                Some(ApproveForSession),
            ),
            (
                json!({"kind": "approved-for-session", "approval": {"kind": "read"}}),
                Some(ApproveForSession),
            ),
            (
                json!({"kind": "approve-for-location", "locationKey": "/x"}),
                Some(ApproveForLocation),
            ),
            (
                json!({"kind": "approve-permanently", "domain": "x.example"}),
                Some(ApprovePermanently),
            ),
            (json!({"kind": "reject"}), Some(Reject { feedback: None })),
            (
                json!({"kind": "reject", "feedback": "use sed"}),
                Some(Reject {
                    feedback: Some("use sed".into()),
                }),
            ),
            (
                json!({"kind": "denied-interactively-by-user", "feedback": " "}),
                Some(Reject { feedback: None }),
            ),
            (json!({"kind": "user-not-available"}), Some(UserNotAvailable)),
            (
                json!({"kind": "denied-no-approval-rule-and-could-not-request-from-user"}),
                Some(UserNotAvailable),
            ),
            (json!({"kind": "denied-by-rules", "rules": []}), Some(DenyByRules)),
            (
                json!({"kind": "denied-by-content-exclusion-policy"}),
                Some(DenyByContentExclusion),
            ),
            (json!({"kind": "no-result"}), None),
        ] {
            let params: DecisionParams = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(params.decision().unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn a_decision_that_nobody_knows_is_an_error() {
        for json in [
            json!({"kind": "something new"}),
            json!({"kind": ""}),
            json!({"behavior": "allow"}),
        ] {
            let params: DecisionParams = serde_json::from_value(json.clone()).unwrap();
            assert!(params.decision().is_err(), "{json}");
        }
    }

    fn check(result: Value, error: Option<&str>, expected: &str) {
        let result = (!result.is_null()).then(|| serde_json::from_value(result).unwrap());
        let shown = match tool_answer(result, error.map(str::to_owned)) {
            ToolAnswer::Error(error) => format!("error {error}"),
            ToolAnswer::Result(result) => {
                format!(
                    "{} {} {:?} {:?}",
                    result.result_type, result.text, result.error, result.binaries
                )
            }
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn tool_results_are_taken_in_every_form() {
        check(json!("plain"), None, "success plain None []");
        check(json!(null), None, "success  None []");
        check(json!({"a": 1}), None, "success {\"a\":1} None []");
        check(json!("ignored"), Some("boom"), "error boom");
        check(
            json!({"textResultForLlm": "t", "resultType": "failure", "error": "e", "binaryResultsForLlm":
                [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
            None,
            "failure t Some(\"e\") [(\"image/png\", \"AAAA\")]",
        );
        check(json!({"textResultForLlm": "t"}), None, "success t None []");
    }
}
