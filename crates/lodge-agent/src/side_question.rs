//! Side questions: the model answers them from the conversation, and neither question nor answer becomes part of it.

use std::sync::Arc;

use lodge_models::{Message, ModelRequest, Part};
use tokio_util::sync::CancellationToken;

use crate::{AgentError, call, session::Shared, turn::Turn};

const PURPOSE: call::Purpose = call::Purpose {
    initiator: "side-question",
    interaction_type: "conversation-background",
};
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
    let request = Arc::new(request);
    let mut attempt = 0;
    let completion = loop {
        let error = match call::ask_once(shared, &*model, request.clone(), PURPOSE).await? {
            Ok(completion) => break completion,
            Err(error) => error,
        };
        attempt += 1;
        match call::pause_before(&error, attempt) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(AgentError::Refused(error.message)),
        }
    };
    let text = completion.message.text.to_string();
    match text.trim() {
        "" => Err(AgentError::Refused(
            "The model gave no answer in words. Ask again, or ask in the conversation.".into(),
        )),
        _ => Ok(text),
    }
}
