//! Side questions: the model answers them from the conversation, and neither question nor answer becomes part of it.

use std::{sync::Arc, time::Instant};

use futures_util::StreamExt;
use lodge_events::AssistantUsage;
use lodge_models::{Chunk, Message, ModelRequest, Part};
use tokio_util::sync::CancellationToken;

use crate::{AgentError, call, session::Shared, turn::Turn};

const INITIATOR: &str = "side-question";
const NO_TOOLS: &str =
    "\n\n<system_reminder>\nAnswer in words: tools do not run for this question.\n</system_reminder>";

/// Sends the system prompt, the conversation and the question, with the tools that the conversation speaks of: providers
/// refuse calls of tools that they do not know, and have the beginning of the request in their cache. Only the usage of the
/// call is recorded.
pub(crate) async fn ask(shared: &Arc<Shared>, question: String) -> Result<String, AgentError> {
    let mut turn = Turn::new(shared.clone(), CancellationToken::new());
    let (system, _, _) = turn.system_prompt().await;
    turn.find_own_model().await;
    let (settings, model) = (shared.settings(), turn.model());
    let mut messages = shared.recorder.messages(model.info().vision)?;
    messages.push(Message::User(vec![Part::Text(format!("{question}{NO_TOOLS}").into())]));
    let request = ModelRequest {
        system: system.into(),
        messages,
        tools: shared.specs(),
        reasoning_effort: settings.reasoning_effort.clone(),
        headers: settings.headers.clone(),
        user_agent: settings.client_name.clone(),
        ..ModelRequest::default()
    };
    shared.recorder.durable().await?;
    let started = Instant::now();
    let mut stream = model.call(Arc::new(request));
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| AgentError::Refused(error.message))?;
        if let Chunk::Done(completion) = chunk {
            let used = AssistantUsage {
                initiator: Some(INITIATOR.to_owned()),
                interaction_type: Some("conversation-background".to_owned()),
                ..call::usage(model.info().id.clone(), &completion, started.elapsed())
            };
            call::account(&shared.recorder, used)?;
            let text = completion.message.text.to_string();
            return match text.trim() {
                "" => Err(AgentError::Refused(
                    "The model gave no answer in words. Ask again, or ask in the conversation.".into(),
                )),
                _ => Ok(text),
            };
        }
    }
    Err(AgentError::Refused(call::broken_off(&*model).message))
}
