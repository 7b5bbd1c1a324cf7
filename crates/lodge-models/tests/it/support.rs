//! What the tests of this crate share.

use std::sync::Arc;

use futures_util::StreamExt;
use lodge_models::{
    Catalogue, Chunk, Completion, Message, Model, ModelError, ModelRequest, ModelsConfig, Part, ProviderConfig,
    ProviderType, Secret, WireApi,
};
use testkit::model_server::ModelServer;

/// A request that streams, with one message of the person.
pub(crate) fn request(words: &str) -> ModelRequest {
    ModelRequest {
        messages: vec![user(words)],
        stream: true,
        ..ModelRequest::default()
    }
}

/// The person's message.
pub(crate) fn user(words: &str) -> Message {
    Message::User(vec![Part::Text(words.into())])
}

/// All that a call gave.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) texts: Vec<String>,
    pub(crate) reasonings: Vec<String>,
    pub(crate) fragments: Vec<(String, String, String)>,
    pub(crate) done: Option<Completion>,
    pub(crate) error: Option<ModelError>,
}

/// Calls a model and collects what comes.
pub(crate) async fn collect(model: &dyn Model, request: ModelRequest) -> Answer {
    let mut answer = Answer::default();
    let mut stream = model.call(Arc::new(request));
    while let Some(item) = stream.next().await {
        assert!(
            answer.done.is_none() && answer.error.is_none(),
            "nothing follows the end"
        );
        match item {
            Ok(Chunk::Text(text)) => answer.texts.push(text),
            Ok(Chunk::Reasoning(text)) => answer.reasonings.push(text),
            Ok(Chunk::ToolCall { id, name, fragment }) => answer.fragments.push((id, name, fragment)),
            Ok(Chunk::Bytes(_)) => {}
            Ok(Chunk::Done(done)) => answer.done = Some(*done),
            Err(error) => answer.error = Some(error),
        }
    }
    assert!(
        answer.done.is_some() || answer.error.is_some(),
        "a call ends with an answer or an error"
    );
    if let Some(done) = &answer.done {
        if !answer.texts.is_empty() {
            assert_eq!(answer.texts.concat(), *done.message.text, "the chunks make the message");
        }
        if !answer.reasonings.is_empty() {
            assert_eq!(Some(answer.reasonings.concat()), done.message.reasoning_text);
        }
    }
    answer
}

/// One of the three wires.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Anthropic,
}

/// All of them.
pub(crate) const WIRES: [Wire; 3] = [Wire::Chat, Wire::Responses, Wire::Anthropic];

/// A client's provider for a wire.
pub(crate) fn provider(wire: Wire, server: &ModelServer) -> ProviderConfig {
    let (kind, wire_api, base_url) = match wire {
        Wire::Chat => (ProviderType::OpenAi, WireApi::Completions, server.openai_url()),
        Wire::Responses => (ProviderType::OpenAi, WireApi::Responses, server.openai_url()),
        Wire::Anthropic => (ProviderType::Anthropic, WireApi::Messages, server.url()),
    };
    ProviderConfig {
        kind: Some(kind),
        wire_api: Some(wire_api),
        base_url: base_url.into(),
        api_key: Some(Secret::new("key-that-nobody-may-see")),
        ..ProviderConfig::default()
    }
}

/// A model of the server, by one of its wires.
pub(crate) fn model(wire: Wire, server: &ModelServer) -> Arc<dyn Model> {
    let catalogue = Catalogue::from(ModelsConfig::default(), |_| None).unwrap();
    catalogue
        .resolve_with_provider(&provider(wire, server), Some("test-model"), None)
        .unwrap()
}
