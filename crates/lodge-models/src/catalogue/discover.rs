//! Asking providers which models they serve.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::known;
use crate::{Endpoint, HttpRequest, ModelError, ModelInfo, ModelRequest, Transport, WireApi, wire::fetch};

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

#[derive(Deserialize)]
struct List {
    #[serde(alias = "models")]
    data: Vec<Entry>,
}

/// A model in the words of OpenAI, Anthropic, Copilot, OpenRouter and vLLM.
#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(alias = "display_name")]
    name: Option<String>,
    #[serde(alias = "max_model_len")]
    context_length: Option<u64>,
    capabilities: Option<Capabilities>,
    supported_endpoints: Option<Vec<String>>,
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
    reasoning_effort: Option<serde_json::Value>,
}

/// Asks one provider. `prefix` stands before the ids that it gives.
pub(super) async fn ask(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    prefix: &str,
) -> Result<Vec<Found>, ModelError> {
    let Some(url) = endpoint.models_url() else {
        return Ok(Vec::new());
    };
    let mut target = endpoint.target("list");
    let headers = endpoint.headers(&ModelRequest::default(), &mut target).await?;
    let request = HttpRequest {
        method: "GET",
        url,
        headers,
        body: Bytes::new(),
        sub_agent: None,
    };
    let list: List = fetch(transport, request, PATIENCE, &target, "the list of models").await?;
    Ok(list
        .data
        .into_iter()
        .filter_map(|entry| found(entry, endpoint, prefix))
        .collect())
}

fn found(entry: Entry, endpoint: &Endpoint, prefix: &str) -> Option<Found> {
    let capabilities = entry.capabilities.unwrap_or_default();
    if capabilities.r#type.is_some_and(|kind| kind != "chat") {
        return None;
    }
    let mut info = known::info(&format!("{prefix}{}", entry.id), &entry.id, &endpoint.provider);
    info.name = entry.name.unwrap_or(info.name);
    info.context_window = capabilities
        .limits
        .max_context_window_tokens
        .or(entry.context_length)
        .unwrap_or(info.context_window);
    info.max_output_tokens = capabilities.limits.max_output_tokens.unwrap_or(info.max_output_tokens);
    info.vision = capabilities.supports.vision.unwrap_or(info.vision);
    if let Some(serde_json::Value::Array(efforts)) = capabilities.supports.reasoning_effort {
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
        wire_model: entry.id,
        wire,
        sockets: serves("ws:/responses"),
    })
}
