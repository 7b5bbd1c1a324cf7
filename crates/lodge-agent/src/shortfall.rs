//! Incomplete answers: cut off, filtered, or empty.

use lodge_events::SessionWarning;
use lodge_models::Completion;

/// The `warningType`s that say that an answer is not whole.
pub const INCOMPLETE_ANSWERS: [&str; 3] = ["answer_cut", "answer_filtered", "answer_empty"];

/// What an answer lacks.
#[derive(Debug, PartialEq)]
pub(crate) enum Shortfall {
    /// The model reached its limit for one answer, after so many tokens where they are known.
    Cut(Option<u64>),
    /// The provider withheld the answer or the rest of it, for this reason.
    Filtered(String),
    /// There is neither text nor a tool call.
    Empty,
}

impl Shortfall {
    /// What an answer lacks that is not whole.
    pub(crate) fn of(completion: &Completion) -> Option<Self> {
        let message = &completion.message;
        let nothing = message.text.trim().is_empty() && message.tool_calls.is_empty();
        let reason = completion.finish_reason.as_deref().unwrap_or_default();
        let reason = reason.to_ascii_lowercase();
        match reason.as_str() {
            "length" | "max_tokens" | "max_output_tokens" | "model_length" | "model_context_window_exceeded" => {
                Some(Self::Cut(completion.usage.output_tokens))
            }
            "content_filter" | "safety" | "refusal" | "recitation" | "prohibited_content" | "blocklist" => {
                Some(Self::Filtered(reason))
            }
            _ if nothing => Some(Self::Empty),
            _ => None,
        }
    }

    /// What people are told of an answer.
    pub(crate) fn warning(&self) -> SessionWarning {
        let [cut, filtered, empty] = INCOMPLETE_ANSWERS;
        let (kind, message) = match self {
            Self::Cut(tokens) => {
                let tokens = after(*tokens);
                let message = format!(
                    "The answer is cut off{tokens}: the model reached its limit for one answer. Ask it to continue, or to \
                     answer in smaller parts."
                );
                (cut, message)
            }
            Self::Filtered(reason) => {
                let message = format!(
                    "The provider withheld the answer, or the rest of it ({reason}). Ask in other words, or choose another \
                     model."
                );
                (filtered, message)
            }
            Self::Empty => {
                let message = "The model answered with nothing. Ask again, or choose another model.";
                (empty, message.to_owned())
            }
        };
        SessionWarning {
            warning_type: kind.into(),
            message,
            ..SessionWarning::default()
        }
    }

    /// What people are told of a summary.
    pub(crate) fn of_summary(&self) -> String {
        match self {
            Self::Cut(tokens) => {
                let tokens = after(*tokens);
                format!("The summary is cut off{tokens}: the model reached its limit for one answer.")
            }
            Self::Filtered(reason) => format!("The provider withheld the summary, or the rest of it ({reason})."),
            Self::Empty => "The model answered with no summary.".to_owned(),
        }
    }
}

fn after(tokens: Option<u64>) -> String {
    tokens.map_or_else(String::new, |tokens| format!(" after {tokens} tokens"))
}

#[cfg(test)]
mod tests {
    use lodge_models::{AssistantMessage, ToolCall};

    use super::*;

    #[test]
    fn an_answer_that_is_not_whole_is_said_so() {
        for (reason, text, calls, expected) in [
            (Some("stop"), "yes", 0, None),
            (Some("tool_calls"), "", 1, None),
            (None, "yes", 0, None),
            (Some("length"), "ye", 0, Some("answer_cut")),
            (Some("max_tokens"), "", 1, Some("answer_cut")),
            (Some("max_output_tokens"), "", 0, Some("answer_cut")),
            (Some("content_filter"), "", 0, Some("answer_filtered")),
            (Some("SAFETY"), "a", 0, Some("answer_filtered")),
            (Some("stop"), " \n", 0, Some("answer_empty")),
            (None, "", 0, Some("answer_empty")),
        ] {
            let call = ToolCall {
                id: "1".into(),
                name: "t".into(),
                arguments: "{}".into(),
                custom: false,
            };
            let completion = Completion {
                message: AssistantMessage {
                    text: text.into(),
                    tool_calls: vec![call; calls],
                    ..AssistantMessage::default()
                },
                finish_reason: reason.map(str::to_owned),
                ..Completion::default()
            };
            let told = Shortfall::of(&completion).map(|shortfall| shortfall.warning().warning_type);
            assert_eq!(told.as_deref(), expected, "{reason:?} {text:?} {calls}");
        }
    }
}
