//! The outcome of a tool call.

use lodge_events::{ContentBlock, ImageBlock};
use serde_json::Value;

use crate::answer::ExternalResult;

/// How a call ended.
pub(crate) enum Outcome {
    /// It ran.
    Done(Box<Success>),
    /// It did not do what was asked; the model reads the text.
    Failed {
        text: String,
        code: &'static str,
        telemetry: Option<Value>,
    },
}

#[derive(Default)]
pub(crate) struct Success {
    pub(crate) content: String,
    pub(crate) detailed: Option<String>,
    pub(crate) contents: Vec<ContentBlock>,
    pub(crate) telemetry: Option<Value>,
    pub(crate) structured: Option<Value>,
    pub(crate) mcp_meta: Option<Value>,
    pub(crate) citable: Vec<Value>,
}

impl Outcome {
    pub(crate) fn text(content: impl Into<String>) -> Self {
        let content = content.into();
        Self::Done(Box::new(Success {
            detailed: Some(content.clone()),
            content,
            ..Success::default()
        }))
    }

    pub(crate) fn failed(text: impl Into<String>, code: &'static str) -> Self {
        Self::Failed {
            text: text.into(),
            code,
            telemetry: None,
        }
    }

    /// Tells the model something before the result itself.
    pub(super) fn preceded_by(mut self, told: &str) -> Self {
        let text = match &mut self {
            Self::Done(done) => &mut done.content,
            Self::Failed { text, .. } => text,
        };
        *text = format!("{told}\n\n{text}");
        self
    }

    /// How the command ended that it is about.
    pub(super) fn exit_code(&self) -> Option<i64> {
        let Self::Done(done) = self else { return None };
        done.contents.iter().find_map(|block| match block {
            ContentBlock::Terminal(block) => block.exit_code,
            _ => None,
        })
    }

    pub(super) fn rejects(&self) -> bool {
        matches!(self, Self::Failed { code: "rejected", .. })
    }

    /// What a client says that came of its tool.
    pub(super) fn of_client(result: ExternalResult) -> Self {
        let ExternalResult {
            text,
            result_type,
            error,
            session_log,
            telemetry,
            binaries,
            contents,
            citable,
        } = result;
        let code = match result_type.as_str() {
            "" | "success" => {
                let images = binaries.into_iter().filter(|(mime, _)| mime.starts_with("image/"));
                let contents = contents
                    .into_iter()
                    .chain(images.map(|(mime, data)| image_block(mime, data)))
                    .collect();
                let detailed = Some(session_log.unwrap_or_else(|| text.clone()));
                return Outcome::Done(Box::new(Success {
                    content: text,
                    detailed,
                    contents,
                    telemetry,
                    citable,
                    ..Success::default()
                }));
            }
            "rejected" => "rejected",
            "denied" => "denied",
            _ => "failure",
        };
        let text = if text.is_empty() {
            error.unwrap_or_else(|| "Tool execution failed".into())
        } else {
            text
        };
        Outcome::Failed { text, code, telemetry }
    }
}

pub(super) fn image_block(mime_type: String, data: String) -> ContentBlock {
    ContentBlock::Image(ImageBlock { mime_type, data })
}
