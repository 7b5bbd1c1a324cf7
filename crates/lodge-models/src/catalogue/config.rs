//! The configuration of providers and models, as people and clients write it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{BaseUrl, ProviderType, Secret, WireApi};

/// The part of `lodge.toml` that is about models.
///
/// ```toml
/// default_model = "coder"
///
/// [[provider]]
/// name = "local"
/// base_url = "http://127.0.0.1:11434/v1"
///
/// [[model]]
/// id = "coder"
/// provider = "local"
/// name = "qwen3-coder"
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ModelsConfig {
    /// Providers by name.
    #[serde(rename = "provider")]
    pub providers: Vec<ProviderEntry>,
    /// Models by id.
    #[serde(rename = "model")]
    pub models: Vec<ModelEntry>,
    /// The model of sessions that name none.
    pub default_model: Option<String>,
}

/// `[[provider]]`: somebody who serves models.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderEntry {
    /// The name that models refer to.
    pub name: String,
    /// `openai` (default), `azure` or `anthropic`.
    #[serde(default, rename = "type")]
    pub kind: ProviderType,
    /// `completions` or `responses`; Anthropic has its own.
    pub wire_api: Option<WireApi>,
    /// The base URL, to which the wire's path is appended.
    pub base_url: BaseUrl,
    /// The key itself; better is `api_key_env`.
    pub api_key: Option<Secret>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The name that the key has in the system's keyring. Whoever reads the configuration puts it into `api_key`.
    pub api_key_keyring: Option<String>,
    /// A bearer token instead of a key.
    pub bearer_token: Option<Secret>,
    /// Headers for every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
    /// Seconds that the provider may say nothing before a call counts as broken.
    pub idle_timeout: Option<u64>,
}

/// `[[model]]`: a model and what it can do.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// The name that sessions select it by.
    pub id: String,
    /// The provider's name.
    pub provider: String,
    /// Its name at the provider; the id when absent.
    pub name: Option<String>,
    /// Tokens the whole context may hold.
    pub context_window: Option<u64>,
    /// Tokens a request may hold, where that is less than the context has room for.
    pub max_prompt_tokens: Option<u64>,
    /// Tokens one answer may hold.
    pub max_output_tokens: Option<u64>,
    /// Whether it takes images.
    pub vision: Option<bool>,
    /// Efforts that may be chosen.
    pub reasoning_efforts: Option<Vec<String>>,
    /// The wire to speak, where it is not the provider's.
    pub wire_api: Option<WireApi>,
}

/// A provider that a client configures for its own session, as the Copilot SDKs send it. Unknown keys are ignored, since every
/// release adds some.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProviderConfig {
    /// A name, where the client gives several.
    pub name: Option<String>,
    /// `openai` (default), `azure` or `anthropic`.
    #[serde(rename = "type")]
    pub kind: Option<ProviderType>,
    /// `completions` or `responses`.
    pub wire_api: Option<WireApi>,
    /// `http` (default) or `websockets`.
    pub transport: Option<String>,
    /// The base URL, to which the wire's path is appended.
    pub base_url: BaseUrl,
    /// A key.
    pub api_key: Option<Secret>,
    /// A bearer token; goes before the key.
    pub bearer_token: Option<Secret>,
    /// Whether the client supplies a token for every request.
    pub has_bearer_token_provider: bool,
    /// What only Azure knows.
    pub azure: Option<AzureConfig>,
    /// Headers for every request.
    pub headers: BTreeMap<String, String>,
    /// The well-known model whose limits apply.
    pub model_id: Option<String>,
    /// The model's name at the provider.
    pub wire_model: Option<String>,
    /// Tokens that a request may hold.
    pub max_prompt_tokens: Option<u64>,
    /// Tokens one answer may hold.
    pub max_output_tokens: Option<u64>,
}

/// What only Azure knows.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AzureConfig {
    /// The version of the API.
    pub api_version: Option<String>,
}
