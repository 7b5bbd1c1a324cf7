//! What a factory run may use.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rpc::{INVALID_PARAMS, RpcError};

/// The longest time limit, in seconds: Node's timers can wait no longer.
const LONGEST: f64 = 2_147_483.647;

/// Limits of a run; what is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_concurrent_subagents: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_total_subagents: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_ai_credits: Option<f64>,
}

impl Limits {
    /// Limits as an event has them.
    pub(crate) fn recorded(json: Option<&Value>) -> Self {
        json.and_then(|json| serde_json::from_value(json.clone()).ok())
            .unwrap_or_default()
    }

    /// These, and the others where these say nothing.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            max_concurrent_subagents: self.max_concurrent_subagents.or(other.max_concurrent_subagents),
            max_total_subagents: self.max_total_subagents.or(other.max_total_subagents),
            timeout_seconds: self.timeout_seconds.or(other.timeout_seconds),
            max_ai_credits: self.max_ai_credits.or(other.max_ai_credits),
        }
    }

    /// Refuses limits that make no sense.
    pub(crate) fn check(self) -> Result<Self, RpcError> {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        for (name, value, fits) in [
            (
                "maxConcurrentSubagents",
                self.max_concurrent_subagents,
                is_count as fn(f64) -> bool,
            ),
            ("maxTotalSubagents", self.max_total_subagents, is_count),
            ("timeoutSeconds", self.timeout_seconds, |value| value <= LONGEST),
            ("maxAiCredits", self.max_ai_credits, |_| true),
        ] {
            if let Some(value) = value.filter(|value| !is_positive(*value) || !fits(*value)) {
                let message = format!("The limit {name} of a factory run cannot be {value}");
                return Err(RpcError {
                    data: Some(json!({"code": "factory_limits_invalid"})),
                    ..RpcError::new(INVALID_PARAMS, message)
                });
            }
        }
        Ok(self)
    }

    pub(crate) fn json(self) -> Value {
        // Counts are whole, and are shown so.
        let count = |value: Option<f64>| value.map(|value| value as u64);
        let mut json = json!({});
        for (name, value) in [
            (
                "maxConcurrentSubagents",
                count(self.max_concurrent_subagents).map(Value::from),
            ),
            ("maxTotalSubagents", count(self.max_total_subagents).map(Value::from)),
            ("timeoutSeconds", self.timeout_seconds.map(Value::from)),
            ("maxAiCredits", self.max_ai_credits.map(Value::from)),
        ] {
            if let Some(value) = value {
                json[name] = value;
            }
        }
        json
    }
}

fn is_count(value: f64) -> bool {
    value.fract() == 0.0 && value <= f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_and_those_that_are_asked_for_come_first() {
        let of = |json: Value| Limits::recorded(Some(&json));
        for (json, fits) in [
            (json!({}), true),
            (
                json!({"timeoutSeconds": 0.5, "maxAiCredits": 0.1, "maxTotalSubagents": 3}),
                true,
            ),
            (json!({"timeoutSeconds": 0}), false),
            (json!({"timeoutSeconds": 3e6}), false),
            (json!({"maxTotalSubagents": 1.5}), false),
            (json!({"maxConcurrentSubagents": -1}), false),
        ] {
            let checked = of(json.clone()).check();
            assert_eq!(checked.is_ok(), fits, "{json}");
            if let Err(error) = checked {
                assert_eq!(error.data, Some(json!({"code": "factory_limits_invalid"})));
            }
        }
        let both = of(json!({"timeoutSeconds": 1.5})).or(of(json!({"timeoutSeconds": 9, "maxTotalSubagents": 2})));
        assert_eq!(both.json(), json!({"timeoutSeconds": 1.5, "maxTotalSubagents": 2}));
    }
}
