//! Asks providers which models they serve.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
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
/// may come in more than one of them.
#[derive(Deserialize)]
struct Entry {
    id: Option<String>,
    model: Option<String>,
    display_name: Option<String>,
    name: Option<String>,
    context_length: Option<u64>,
    max_model_len: Option<u64>,
    /// Read apart: others write something else under this name.
    capabilities: Option<Value>,
    supported_endpoints: Option<Vec<String>>,
    meta: Option<Meta>,
    owned_by: Option<String>,
}

/// What llama.cpp's server says of a model.
#[derive(Deserialize)]
struct Meta {
    /// The context that the server gives a conversation; older releases do not say it here.
    n_ctx: Option<u64>,
    /// The context that the model was trained with, at most as much as it gets.
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
    r#type: Option<String>,
    limits: Limits,
    supports: Supports,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    max_context_window_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Supports {
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
    let Some(list) = list.data.or(list.models) else {
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
    let capabilities = entry.capabilities.and_then(|said| serde_json::from_value(said).ok());
    let capabilities: Capabilities = capabilities.unwrap_or_default();
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
    info.context_window = capabilities
        .limits
        .max_context_window_tokens
        .or(entry.context_length)
        .or(entry.max_model_len)
        .or(context)
        .filter(|window| *window > 0)
        .unwrap_or(info.context_window);
    info.max_output_tokens = capabilities
        .limits
        .max_output_tokens
        // What is only assumed of an answer never takes all of a small context.
        .unwrap_or(info.max_output_tokens.min((info.context_window / 2).max(1)));
    let sees = properties.modalities.vision.filter(|_| asked);
    info.vision = capabilities.supports.vision.or(sees).unwrap_or(info.vision);
    if let Some(Value::Array(efforts)) = capabilities.supports.reasoning_effort {
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
