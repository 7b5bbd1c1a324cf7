//! Asks the model for a summary, with less of the conversation if it refuses all of it.

use std::sync::Arc;

use lodge_log::LogError;
use lodge_models::{Completion, ErrorKind, Model, ModelError, ModelRequest, ToolSpec};

use super::shrink::{shrink, size_of};
use crate::{call, session::Shared, shortfall::Shortfall};

const PURPOSE: call::Purpose = call::Purpose {
    initiator: "compaction",
    interaction_type: "conversation-compaction",
};
/// How often a request that the model refuses as too long is made shorter.
const MOST_REFUSALS: u32 = 6;

/// A summary that can stand for the conversation.
pub(super) struct Summary {
    pub(super) answer: Box<Completion>,
    /// Tokens of the request, where longer ones were refused.
    pub(super) fitted: Option<u64>,
}

/// Why there is no summary.
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) status: Option<u16>,
    pub(super) request_id: Option<String>,
    /// An answer that cannot stand for the conversation.
    pub(super) answer: Option<Box<Completion>>,
}

impl Failure {
    pub(super) fn told(message: String) -> Self {
        Self {
            message,
            status: None,
            request_id: None,
            answer: None,
        }
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::told(format!("The session's log cannot be written: {error}"))
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self {
            message: error.message,
            status: error.status,
            request_id: error.provider_call_id,
            answer: None,
        }
    }
}

/// Summarises. The last message of the request asks for the summary; as much of the others is sent as the model takes.
pub(super) async fn summarise(
    shared: &Shared,
    model: &dyn Model,
    mut request: ModelRequest,
) -> Result<Summary, Failure> {
    let tools: usize = request.tools.iter().map(ToolSpec::size).sum();
    let limit = shared.size_of(model.info().prompt_limit());
    let most = limit.saturating_sub(request.system.len() + tools).max(limit / 4);
    shrink(&mut request.messages, most);
    let (mut refusals, mut attempt) = (0, 0);
    loop {
        let tokens = shared.corrected(request.estimated_tokens());
        request.prompt_tokens = Some(tokens);
        let error = match call::ask_once(shared, model, Arc::new(request.clone()), PURPOSE).await? {
            Ok(answer) => {
                let fitted = (refusals > 0).then_some(tokens);
                return check(answer).map(|answer| Summary { answer, fitted });
            }
            Err(error) => error,
        };
        if error.kind == ErrorKind::ContextLimit && refusals < MOST_REFUSALS {
            refusals += 1;
            let refused = size_of(&request.messages);
            shrink(&mut request.messages, refused * 3 / 5);
            if size_of(&request.messages) < refused {
                continue;
            }
        }
        attempt += 1;
        match call::pause_before(&error, attempt) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error.into()),
        }
    }
}

/// An answer that is not whole, or wants to call tools, is no summary.
fn check(answer: Box<Completion>) -> Result<Box<Completion>, Failure> {
    let lacks = match Shortfall::of(&answer) {
        Some(shortfall) => shortfall.of_summary(),
        None if !answer.message.tool_calls.is_empty() => {
            "The model called tools instead of summarising the conversation.".to_owned()
        }
        None => return Ok(answer),
    };
    Err(Failure {
        message: format!("{lacks} The conversation stays as it is. Try again, or choose another model."),
        status: None,
        request_id: answer.provider_call_id.clone(),
        answer: Some(answer),
    })
}
