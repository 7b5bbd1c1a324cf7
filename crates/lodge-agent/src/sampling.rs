//! Prompts that MCP servers send to the model (`sampling/createMessage`). An app that declared it handles them itself.
//! Otherwise they need permission like a tool, and the session's model answers without tools and without the conversation.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use futures_util::StreamExt;
use lodge_events::{
    AssistantUsage, McpPermission, ModelCallFailure, PermissionRequest, SamplingCompleted, SamplingRequested,
};
use lodge_mcp::Sampling;
use lodge_models::{AssistantMessage, Chunk, Completion, Image, Message, Model, ModelRequest, Part};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    answer::{Answer, QuestionKind},
    call,
    handle::Agent,
    permission::Verdict,
    session::Shared,
    settings::Settings,
};

/// The longest answer that a server gets, in tokens.
const TOKENS: u64 = 8_192;
/// How the calls are told apart from those of the conversation.
const INITIATOR: &str = "mcp-sampling";

/// What is understood of a request. The rest (what to weigh when choosing a model, context) is the server's wish, and MCP
/// leaves it to the host.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    messages: Vec<AskedMessage>,
    #[serde(default)]
    system_prompt: Option<String>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    stop_sequences: Vec<String>,
    #[serde(default)]
    model_preferences: Option<Preferences>,
}

#[derive(Deserialize)]
struct Preferences {
    #[serde(default)]
    hints: Vec<Hint>,
}

#[derive(Deserialize)]
struct Hint {
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct AskedMessage {
    role: Role,
    content: OneOrMany,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<Block>),
    One(Block),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Block {
    Text { text: String },
    Image { data: String, mime_type: String },
}

impl Asked {
    /// Reads a request; what is wrong with it is said in a sentence.
    fn read(request: &Value) -> Result<Self, String> {
        let asked: Self = serde_json::from_value(request.clone())
            .map_err(|error| format!("The sampling request cannot be answered: {error}"))?;
        match asked.messages.is_empty() {
            true => Err("The sampling request has no message.".to_owned()),
            false => Ok(asked),
        }
    }

    /// The conversation that the server made up.
    fn messages(self, vision: bool) -> Result<Vec<Message>, String> {
        let read = |message: AskedMessage| {
            let blocks = match message.content {
                OneOrMany::Many(blocks) => blocks,
                OneOrMany::One(block) => vec![block],
            };
            let part = |block| match block {
                Block::Text { text } => Ok(Part::Text(text.into())),
                Block::Image { data, mime_type } if vision => Ok(Part::Image(Image {
                    mime_type,
                    data: data.into(),
                })),
                Block::Image { .. } => Err("The model of the session cannot see images.".to_owned()),
            };
            let parts = blocks.into_iter().map(part).collect::<Result<Vec<_>, _>>()?;
            if message.role == Role::User {
                return Ok(Message::User(parts));
            }
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(&**text),
                Part::Image(_) | Part::Document(_) => None,
            });
            Ok(Message::Assistant(AssistantMessage {
                text: texts.collect::<Vec<_>>().join("\n").into(),
                ..AssistantMessage::default()
            }))
        };
        self.messages.into_iter().map(read).collect()
    }
}

/// The answer as MCP forms it.
fn result(completion: &Completion, model: &str) -> Value {
    let reason = match completion.finish_reason.as_deref() {
        Some("length" | "max_tokens" | "max_output_tokens") => "maxTokens",
        Some("stop_sequence") => "stopSequence",
        _ => "endTurn",
    };
    json!({
        "role": "assistant",
        "content": {"type": "text", "text": &*completion.message.text},
        "model": completion.model.as_deref().unwrap_or(model),
        "stopReason": reason,
    })
}

impl Shared {
    /// Answers a server, or says why not.
    pub(crate) async fn sample(self: &Arc<Self>, server: String, asked: Sampling) -> Result<Value, String> {
        // What nobody can answer troubles nobody.
        Asked::read(&asked.request)?;
        let told = |error: lodge_log::LogError| error.to_string();
        let request_id = Uuid::new_v4().to_string();
        let _end = End {
            shared: Arc::downgrade(self),
            request_id: request_id.clone(),
        };
        let event = SamplingRequested {
            request_id: request_id.clone(),
            server_name: server.clone(),
            mcp_request_id: asked.mcp_request_id,
            request: Some(asked.request.clone()),
        };
        if self.clients.lock().any(|can| can.sampling) {
            let waiting = self.pending.open(&request_id, QuestionKind::Sampling);
            let event = self.recorder.record(event).map_err(told)?;
            self.pending.asked(&request_id, event);
            return match waiting.await {
                Ok(Answer::Sampling(Some(result))) => Ok(result),
                _ => Err("The user rejected the sampling request.".to_owned()),
            };
        }
        self.recorder.record(event).map_err(told)?;
        let request = PermissionRequest::Mcp(McpPermission {
            server_name: server,
            tool_name: McpPermission::SAMPLING.to_owned(),
            tool_title: "Ask the model".to_owned(),
            args: Some(asked.request.clone()),
            ..McpPermission::default()
        });
        match self.permit_for_now(request).await.map_err(told)? {
            Verdict::Allowed { .. } => self.ask_for_server(&asked.request).await,
            Verdict::Edited { arguments, .. } => self.ask_for_server(&arguments).await,
            Verdict::Denied(why) | Verdict::Rejected(why) => Err(why),
        }
    }

    /// The model that a server would like best, where there is one that the session may use: hints are parts of names, the
    /// first that fits counts, and the session's own model goes before others.
    async fn preferred(&self, settings: &Settings, preferences: Option<&Preferences>) -> Option<Arc<dyn Model>> {
        let (preferences, models) = (preferences?, settings.models.as_ref()?);
        let own = settings.model.info().id.clone();
        let mut names = None;
        for hint in preferences.hints.iter().filter_map(|hint| hint.name.as_deref()) {
            let hint = hint.trim().to_lowercase();
            let fits = |name: &String| !hint.is_empty() && name.to_lowercase().contains(&hint);
            if fits(&own) {
                return None;
            }
            if names.is_none() {
                names = Some(models.names().await);
            }
            if let Some(name) = names.iter().flatten().find(|name| fits(name))
                && let Ok(model) = self.find_model(name).await
            {
                return Some(model);
            }
        }
        None
    }

    /// Asks the session's model what a server wants to know.
    pub(crate) async fn ask_for_server(self: &Arc<Self>, request: &Value) -> Result<Value, String> {
        let asked = Asked::read(request)?;
        let settings = self.settings();
        if settings.limit.is_some_and(|limit| self.spent() >= limit) {
            return Err("The session has reached its spend limit.".to_owned());
        }
        let preferred = self.preferred(&settings, asked.model_preferences.as_ref()).await;
        let asked_model = preferred.unwrap_or_else(|| settings.model.clone());
        let info = asked_model.info();
        let (model, most) = (info.id.clone(), TOKENS.min(info.max_output_tokens.max(1)));
        let request = ModelRequest {
            system: asked.system_prompt.clone().unwrap_or_default().into(),
            max_output_tokens: Some(asked.max_tokens.map_or(most, |tokens| tokens.clamp(1, most))),
            temperature: asked.temperature,
            stop: asked.stop_sequences.clone(),
            messages: asked.messages(info.vision)?,
            // Another model may not know the session's.
            reasoning_effort: settings
                .reasoning_effort
                .clone()
                .filter(|_| *model == settings.model.info().id),
            headers: settings.headers.clone(),
            user_agent: settings.client_name.clone(),
            ..ModelRequest::default()
        };
        let started = Instant::now();
        let mut stream = asked_model.call(Arc::new(request));
        while let Some(chunk) = stream.next().await {
            match chunk {
                Ok(Chunk::Done(completion)) => {
                    let used = AssistantUsage {
                        initiator: Some(INITIATOR.to_owned()),
                        interaction_type: Some("conversation-sampling".to_owned()),
                        ..call::usage(model.clone(), &completion, started.elapsed())
                    };
                    let recorded = call::account(&self.recorder, used);
                    recorded.map_err(|error| format!("The session's log cannot be written: {error}"))?;
                    return Ok(result(&completion, &model));
                }
                Ok(_) => {}
                Err(error) => {
                    self.recorder.note(ModelCallFailure {
                        source: "mcp_sampling".into(),
                        initiator: Some(INITIATOR.to_owned()),
                        model: Some(model),
                        status_code: error.status.map(u64::from),
                        duration_ms: Some(started.elapsed().as_millis() as u64),
                        error_message: Some(error.message.clone()),
                        provider_call_id: error.provider_call_id.clone(),
                        ..ModelCallFailure::default()
                    });
                    return Err(format!("The model could not answer the sampling request: {error}"));
                }
            }
        }
        Err("The answer of the model to the sampling request ended before it was complete.".to_owned())
    }
}

impl Agent {
    /// Asks the session's model on behalf of an MCP server, for an app that deals with what servers ask. Both are in MCP's
    /// form; the error says why there is no answer.
    pub async fn sample(&self, request: &Value) -> Result<Value, String> {
        self.shared.ask_for_server(request).await
    }
}

/// Tells that a request was dealt with, however that came about.
struct End {
    shared: Weak<Shared>,
    request_id: String,
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.pending.close(&self.request_id);
        shared.recorder.note(SamplingCompleted {
            request_id: std::mem::take(&mut self.request_id),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: Value, vision: bool, expected: Result<&str, &str>) {
        let read = Asked::read(&request).and_then(|asked| asked.messages(vision));
        let said = read.map(|messages| {
            let said = messages.iter().map(|message| match message {
                Message::User(parts) => parts
                    .iter()
                    .map(|part| match part {
                        Part::Text(text) => format!("user: {text}"),
                        Part::Image(image) => format!("user shows {}", image.mime_type),
                        Part::Document(document) => format!("user gives {}", document.mime_type),
                    })
                    .collect::<Vec<_>>()
                    .join(", "),
                Message::Assistant(message) => format!("assistant: {}", message.text),
                Message::Tool { .. } => "tool".to_owned(),
            });
            said.collect::<Vec<_>>().join("; ")
        });
        match (said, expected) {
            (Ok(said), Ok(expected)) => assert_eq!(said, expected, "{request}"),
            (Err(said), Err(part)) => assert!(said.contains(part), "{request}: {said}"),
            (said, _) => panic!("{request}: {said:?}"),
        }
    }

    #[test]
    fn a_request_is_read_in_every_form_that_mcp_has() {
        let user = |content: Value| json!({"messages": [{"role": "user", "content": content}], "maxTokens": 5});
        let image = json!({"type": "image", "data": "eA==", "mimeType": "image/png"});
        check(user(json!({"type": "text", "text": "a"})), false, Ok("user: a"));
        check(
            user(json!([{"type": "text", "text": "a"}, image])),
            true,
            Ok("user: a, user shows image/png"),
        );
        check(user(image), false, Err("cannot see images"));
        check(
            user(json!({"type": "audio", "data": "eA==", "mimeType": "audio/wav"})),
            true,
            Err("sampling request"),
        );
        let talk = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "a"}},
            {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        ]});
        check(talk, false, Ok("user: a; assistant: b\nc"));
        check(json!({"messages": []}), false, Err("no message"));
        check(json!({}), false, Err("sampling request"));
        check(
            json!({"messages": [{"role": "system", "content": []}]}),
            false,
            Err("sampling request"),
        );
        check(json!(7), false, Err("sampling request"));
    }
}
