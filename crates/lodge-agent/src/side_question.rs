//! Side questions: the model answers them from the conversation, and neither question nor answer becomes part of it.

use std::{sync::Arc, time::Instant};

use futures_util::StreamExt;
use lodge_events::AssistantUsage;
use lodge_models::{Chunk, Message, ModelRequest, Part};
use tokio_util::sync::CancellationToken;

use crate::{AgentError, call, session::Shared, turn::Turn};

const INITIATOR: &str = "side-question";

/// Sends the system prompt, the conversation and the question, without tools. Only the usage of the call is recorded.
pub(crate) async fn ask(shared: &Arc<Shared>, question: String) -> Result<String, AgentError> {
    let turn = Turn::new(shared.clone(), CancellationToken::new());
    let (system, _, _) = turn.system_prompt().await;
    let settings = shared.settings();
    let mut messages = shared.recorder.messages(settings.model.info().vision)?;
    messages.push(Message::User(vec![Part::Text(question.into())]));
    let request = ModelRequest {
        system: system.into(),
        messages,
        reasoning_effort: settings.reasoning_effort.clone(),
        headers: settings.headers.clone(),
        user_agent: settings.client_name.clone(),
        ..ModelRequest::default()
    };
    shared.recorder.durable().await?;
    let started = Instant::now();
    let mut stream = settings.model.call(Arc::new(request));
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| AgentError::Refused(error.message))?;
        if let Chunk::Done(completion) = chunk {
            let used = AssistantUsage {
                initiator: Some(INITIATOR.to_owned()),
                interaction_type: Some("conversation-background".to_owned()),
                ..call::usage(settings.model.info().id.clone(), &completion, started.elapsed())
            };
            call::account(&shared.recorder, used)?;
            return Ok(completion.message.text.to_string());
        }
    }
    Err(AgentError::Refused(
        "The answer of the model ended before it was complete.".into(),
    ))
}
