//! Asks providers which models they serve.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use super::known;
use crate::{
    Endpoint, HttpRequest, ModelError, ModelInfo, ModelRequest, Transport, WireApi,
    wire::{Target, fetch},
};

const PATIENCE: Duration = Duration::from_secs(15);

/// A model that a provider says it serves.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) info: ModelInfo,
    pub(super) wire_model: String,
    /// The wire to use where the provider says which it serves and ours is not among them.
    pub(super) wire: Option<WireApi>,
    /// Whether it can be asked over a WebSocket.
    pub(super) sockets: bool,
}

/// A list of models. llama.cpp's server gives two: OpenAI's as `data`, Ollama's as `models`.
#[derive(Deserialize)]
struct List {
    data: Option<Vec<Value>>,
    models: Option<Vec<Value>>,
}

/// A model entry in the formats of OpenAI, Anthropic, Copilot, OpenRouter, vLLM and llama.cpp. What has several spellings
/// may come in more than one of them. A field of another type says nothing, and takes nothing else away.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    #[serde(deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    display_name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    name: Option<String>,
    #[serde(deserialize_with = "count")]
    context_length: Option<u64>,
    #[serde(deserialize_with = "count")]
    max_model_len: Option<u64>,
    #[serde(deserialize_with = "count")]
    max_input_tokens: Option<u64>,
    /// Some write a list under this name.
    #[serde(deserialize_with = "object")]
    capabilities: Option<Capabilities>,
    #[serde(deserialize_with = "lenient")]
    supported_endpoints: Option<Vec<String>>,
    #[serde(deserialize_with = "object")]
    meta: Option<Meta>,
    #[serde(deserialize_with = "lenient")]
    owned_by: Option<String>,
}

fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let object = Some(Value::deserialize(from)?).filter(Value::is_object);
    Ok(object.and_then(|object| serde_json::from_value(object).ok()))
}

/// A count above zero. Some write it as text.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let count = match Value::deserialize(from)? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_u64(),
    };
    Ok(count.filter(|count| *count > 0))
}

/// What llama.cpp's server says of a model.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    /// The context that the server gives a conversation; older releases do not say it here.
    #[serde(deserialize_with = "count")]
    n_ctx: Option<u64>,
    /// The context that the model was trained with, at most as much as it gets.
    #[serde(deserialize_with = "count")]
    n_ctx_train: Option<u64>,
}

/// The properties of llama.cpp's server, as far as they matter.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    default_generation_settings: GenerationSettings,
    modalities: Modalities,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GenerationSettings {
    n_ctx: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Modalities {
    vision: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Capabilities {
    #[serde(deserialize_with = "lenient")]
    r#type: Option<String>,
    #[serde(deserialize_with = "object")]
    limits: Option<Limits>,
    #[serde(deserialize_with = "object")]
    supports: Option<Supports>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    #[serde(deserialize_with = "count")]
    max_context_window_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    max_prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    max_output_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Supports {
    #[serde(deserialize_with = "lenient")]
    vision: Option<bool>,
    reasoning_effort: Option<Value>,
}

/// Asks one provider. Its ids get the prefix `prefix`.
pub(super) async fn list_models(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    prefix: &str,
) -> Result<Vec<Found>, ModelError> {
    let Some(url) = endpoint.models_url() else {
        return Ok(Vec::new());
    };
    let mut target = endpoint.target("list");
    let list: List = get(endpoint, transport, url, &mut target, "the list of models").await?;
    // Some fill one of the two and leave the other empty.
    let filled = list.data.filter(|data| !data.is_empty() || list.models.is_none());
    let Some(list) = filled.or(list.models) else {
        return Err(target.broken("the list of models has neither `data` nor `models`"));
    };
    let count = list.len();
    // One entry that nobody understands does not take the others away.
    let entries: Vec<(String, Entry)> = list
        .into_iter()
        .filter_map(|entry| {
            let mut entry: Entry = serde_json::from_value(entry).ok()?;
            let id = entry.id.take().or(entry.model.take())?;
            Some((id, entry))
        })
        .collect();
    if entries.is_empty() && count > 0 {
        return Err(target.broken("no entry of the list of models has an id"));
    }
    let properties = match entries.iter().any(|(_, entry)| entry.lacks_context()) {
        true => properties(endpoint, transport).await,
        false => Properties::default(),
    };
    Ok(entries
        .into_iter()
        .filter_map(|(id, entry)| found(id, entry, &properties, endpoint, prefix))
        .collect())
}

impl Entry {
    /// Whether llama.cpp's server lists it without the context that conversations get.
    fn lacks_context(&self) -> bool {
        let meta = self.meta.as_ref();
        self.owned_by.as_deref() == Some("llamacpp") && meta.is_none_or(|meta| meta.n_ctx.is_none())
    }
}

async fn get<T: serde::de::DeserializeOwned>(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    url: String,
    target: &mut Target,
    what: &str,
) -> Result<T, ModelError> {
    let headers = endpoint.headers(&ModelRequest::default(), target).await?;
    let request = HttpRequest {
        method: "GET",
        url,
        headers,
        body: Bytes::new(),
        sub_agent: None,
    };
    fetch(transport, request, PATIENCE, target, what).await
}

/// What llama.cpp's server says of itself; nothing where it is not asked or does not say.
async fn properties(endpoint: &Endpoint, transport: &dyn Transport) -> Properties {
    let mut target = endpoint.target("properties");
    let url = endpoint.properties_url();
    let properties = get(endpoint, transport, url, &mut target, "the server's properties").await;
    properties.unwrap_or_default()
}

fn found(id: String, entry: Entry, properties: &Properties, endpoint: &Endpoint, prefix: &str) -> Option<Found> {
    let asked = entry.lacks_context();
    let capabilities = entry.capabilities.unwrap_or_default();
    let limits = capabilities.limits.unwrap_or_default();
    let supports = capabilities.supports.unwrap_or_default();
    if capabilities.r#type.is_some_and(|kind| kind != "chat") {
        return None;
    }
    let served = properties.default_generation_settings.n_ctx.filter(|_| asked);
    let meta = entry.meta.as_ref();
    let context = meta
        .and_then(|meta| meta.n_ctx)
        .or(served)
        .or_else(|| meta.and_then(|meta| meta.n_ctx_train));
    let mut info = known::info(&format!("{prefix}{id}"), &id, &endpoint.provider);
    info.name = entry.name.or(entry.display_name).unwrap_or(info.name);
    let prompt = limits.max_prompt_tokens.or(entry.max_input_tokens);
    info.context_window = limits
        .max_context_window_tokens
        .or(entry.context_length)
        .or(entry.max_model_len)
        .or(context)
        .unwrap_or(info.context_window.max(prompt.unwrap_or_default()));
    info.max_prompt_tokens = prompt.or(info.max_prompt_tokens);
    info.max_output_tokens = limits
        .max_output_tokens
        // What is only assumed of an answer never takes all of a small context.
        .unwrap_or(info.max_output_tokens.min((info.context_window / 2).max(1)));
    let sees = properties.modalities.vision.filter(|_| asked);
    info.vision = supports.vision.or(sees).unwrap_or(info.vision);
    if let Some(Value::Array(efforts)) = supports.reasoning_effort {
        info.reasoning_efforts = efforts
            .iter()
            .filter_map(|effort| effort.as_str().map(str::to_owned))
            .collect();
    }
    let served = entry.supported_endpoints.unwrap_or_default();
    let serves = |path: &str| served.iter().any(|known| known == path);
    let wire = (endpoint.wire == WireApi::Completions && !serves("/chat/completions") && serves("/responses"))
        .then_some(WireApi::Responses);
    Some(Found {
        info,
        wire_model: id,
        wire,
        sockets: serves("ws:/responses"),
    })
}
