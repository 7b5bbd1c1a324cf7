//! Chooses the model: one of the host, one behind the client's GitHub token, or one of a provider that the client supplies.

use std::{collections::HashMap, sync::Arc};

use futures_util::{
    StreamExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream},
};
use lodge_host::{Host, ModelSource};
use lodge_models::{
    Auth, Catalogue, CatalogueError, Chunk, ErrorKind, Model, ModelError, ModelInfo, ModelRequest, ProviderConfig,
    ProviderType, Rehearsal, Secret, TokenSource, WireApi,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    config::{ModelCapabilities, ModelConfig, SessionConfig},
    peer::{CallError, Peer},
    rpc::RpcError,
};

/// The host's models, and for each GitHub token the models behind it.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<HashMap<String, Catalogue>>);

impl Tokens {
    /// The models available with this token.
    pub(crate) fn catalogue(&self, host: &Host, token: Option<&str>) -> Catalogue {
        let Some(token) = token else {
            return host.models();
        };
        let with = || host.models().with_github_token(Auth::Bearer(Secret::new(token)));
        self.0.lock().entry(token.to_owned()).or_insert_with(with).clone()
    }
}

/// The providers and models of one session's client.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    /// A single provider for all models, if the client supplies one.
    pub(crate) single: Option<ProviderConfig>,
    /// Named ones.
    pub(crate) named: Vec<ProviderConfig>,
    /// Models of the named ones; sessions select them as `provider/id`.
    pub(crate) models: Vec<ModelConfig>,
}

impl Registry {
    pub(crate) fn of(config: &SessionConfig) -> Self {
        Self {
            single: config.provider.clone(),
            named: config.providers.clone().unwrap_or_default(),
            models: config.models.clone().unwrap_or_default(),
        }
    }

    fn entry(&self, name: &str) -> Option<(&ProviderConfig, &ModelConfig)> {
        let model = self.models.iter().find(|model| selection_id(model) == name)?;
        let provider = self
            .named
            .iter()
            .find(|provider| provider.name.as_deref() == Some(model.provider.as_str()))?;
        Some((provider, model))
    }
}

/// The name by which a session selects a model of a named provider.
fn selection_id(model: &ModelConfig) -> String {
    format!("{}/{}", model.provider, model.id)
}

/// Resolves names to models, for one session of one client.
#[derive(Clone)]
pub(crate) struct Chooser {
    pub(crate) peer: Peer,
    pub(crate) session_id: String,
    pub(crate) catalogue: Catalogue,
    pub(crate) registry: Registry,
}

impl ModelSource for Chooser {
    fn model(&self, name: String) -> BoxFuture<'static, Result<Arc<dyn Model>, String>> {
        let this = self.clone();
        Box::pin(async move { this.for_agent(&name).await })
    }

    fn names(&self) -> BoxFuture<'static, Vec<String>> {
        let this = self.clone();
        Box::pin(async move { this.available().await.into_iter().map(|model| model.id).collect() })
    }

    fn agents(&self) -> Vec<String> {
        self.catalogue.agents()
    }
}

/// A model, and warnings about the choice.
pub(crate) struct Chosen {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) warning: Option<String>,
    /// Why the model is not known yet: its provider could not be reached. It is asked again when the model is needed.
    pub(crate) unreached: Option<ModelError>,
}

impl Chooser {
    /// The model with this name, or the default one, with the capabilities that the client declares.
    pub(crate) async fn choose(
        &self,
        name: Option<&str>,
        capabilities: Option<&ModelCapabilities>,
    ) -> Result<Chosen, RpcError> {
        let chosen = self.named(name).await?;
        let Some(capabilities) = capabilities else {
            return Ok(chosen);
        };
        let mut info = chosen.model.info().clone();
        adjust(&mut info, capabilities);
        let model = Arc::new(Described {
            info,
            inner: chosen.model.clone(),
        });
        Ok(Chosen { model, ..chosen })
    }

    async fn named(&self, name: Option<&str>) -> Result<Chosen, RpcError> {
        if let Some(provider) = &self.registry.single {
            return self.brought(provider, name).map(Chosen::from);
        }
        if let Some((provider, model)) = name.and_then(|name| self.registry.entry(name)) {
            return self.registered(provider, model).map(Chosen::from);
        }
        // The provider's description also applies to a model that is named: its wire and its limits.
        if self.catalogue.should_ask() {
            return self.discovered(name).await;
        }
        match self.catalogue.resolve(name) {
            Ok(model) => Ok(model.into()),
            Err(CatalogueError::NoModelChosen | CatalogueError::UnknownModel { .. }) => self.discovered(name).await,
            Err(error) => Err(RpcError::failed(error)),
        }
    }

    /// Asks the providers for their models and tries again. Without any provider, the rehearsal model stands in under
    /// the requested name, with a warning.
    async fn discovered(&self, name: Option<&str>) -> Result<Chosen, RpcError> {
        let answers = self.catalogue.discover().await;
        match (self.catalogue.resolve(name), name) {
            (Ok(model), _) => Ok(model.into()),
            (Err(CatalogueError::UnknownModel { .. }), Some(name)) if answers.is_empty() => Ok(Chosen {
                model: Arc::new(StandIn::new(name)),
                warning: Some(format!(
                    "No provider for the model {name} is configured, so the offline rehearsal model answers instead."
                )),
                unreached: None,
            }),
            (Err(error), _) => match answers.into_iter().find_map(|answer| answer.models.err()) {
                Some(failure) => Ok(Chosen {
                    model: Arc::new(Unreached::new(name, failure.clone())),
                    warning: None,
                    unreached: Some(failure),
                }),
                None => Err(RpcError::failed(error)),
            },
        }
    }

    /// A model of the client's single provider.
    fn brought(&self, provider: &ProviderConfig, name: Option<&str>) -> Result<Arc<dyn Model>, RpcError> {
        let named = name.is_some() || provider.model_id.is_some() || provider.wire_model.is_some();
        // A session may be created before its model is known.
        let name = if named { name } else { Some("default") };
        let tokens = self.tokens(provider);
        self.catalogue
            .resolve_with_provider(provider, name, tokens)
            .map_err(RpcError::failed)
    }

    /// A model that the client has registered.
    fn registered(&self, provider: &ProviderConfig, model: &ModelConfig) -> Result<Arc<dyn Model>, RpcError> {
        let provider = ProviderConfig {
            model_id: model.model_id.clone().or_else(|| Some(model.id.clone())),
            wire_model: model.wire_model.clone().or_else(|| Some(model.id.clone())),
            max_prompt_tokens: model.max_prompt_tokens,
            max_output_tokens: model.max_output_tokens,
            ..provider.clone()
        };
        let found = self.brought(&provider, Some(&selection_id(model)))?;
        Ok(Arc::new(Described {
            info: describe(found.info(), model),
            inner: found,
        }))
    }

    /// The model that an agent names, by id or by display name.
    async fn for_agent(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let known = self.available().await;
        let by_name = known.iter().find(|model| model.id == name || model.name == name);
        let id = by_name.map_or(name, |model| model.id.as_str());
        // Some providers accept any name until the model is called; their lists are more reliable. Their automatic
        // choice is not in their lists.
        let doubtful = by_name.is_none() && name != "auto" && known.len() > 1 && self.registry.single.is_none();
        match self.choose(Some(id), None).await {
            Ok(chosen) if chosen.unreached.is_none() && !doubtful => Ok(chosen.model),
            _ => {
                let ids: Vec<&str> = known.iter().map(|model| model.id.as_str()).collect();
                Err(format!(
                    "Model '{name}' is not available. Available models: {}",
                    ids.join(", ")
                ))
            }
        }
    }

    /// The source of tokens of a client's provider, if it supplies them on demand.
    fn tokens(&self, provider: &ProviderConfig) -> Option<Arc<dyn TokenSource>> {
        provider.has_bearer_token_provider.then(|| {
            Arc::new(SdkTokens {
                peer: self.peer.clone(),
                session_id: self.session_id.clone(),
                provider: provider.name.clone().unwrap_or_else(|| "default".to_owned()),
            }) as Arc<dyn TokenSource>
        })
    }

    /// All models that the session may use.
    pub(crate) async fn available(&self) -> Vec<ModelInfo> {
        let mut list = available(&self.catalogue).await;
        let own = self
            .registry
            .models
            .iter()
            .filter_map(|model| self.registry.entry(&selection_id(model)));
        list.extend(own.filter_map(|(provider, model)| Some(self.registered(provider, model).ok()?.info().clone())));
        list
    }

    /// The models of these entries, which must exist.
    pub(crate) fn infos(&self, models: &[ModelConfig]) -> Result<Vec<ModelInfo>, RpcError> {
        models
            .iter()
            .map(|model| {
                let (provider, model) = self.registry.entry(&selection_id(model)).ok_or_else(|| {
                    RpcError::failed(format!(
                        "The model {} names an unknown provider: {}",
                        model.id, model.provider
                    ))
                })?;
                Ok(self.registered(provider, model)?.info().clone())
            })
            .collect()
    }

    /// Address and credentials of the session's model, for clients that call it themselves.
    pub(crate) async fn endpoint(&self, name: &str, client: Option<&str>) -> Result<Value, RpcError> {
        let provider = match (self.registry.entry(name), &self.registry.single) {
            (Some((provider, _)), _) | (None, Some(provider)) => provider,
            (None, None) => return self.copilot_endpoint(name, client).await,
        };
        let kind = provider.kind.unwrap_or_default();
        let mut endpoint = json!({
            "type": match kind {
                ProviderType::OpenAi => "openai",
                ProviderType::Azure => "azure",
                ProviderType::Anthropic => "anthropic",
            },
            "baseUrl": provider.base_url.expose(),
            "headers": provider.headers,
            "transport": provider.transport.as_deref().unwrap_or("http"),
        });
        if kind != ProviderType::Anthropic {
            let responses = provider.wire_api == Some(WireApi::Responses);
            endpoint["wireApi"] = json!(if responses { "responses" } else { "completions" });
        }
        if let Some(key) = provider.api_key.as_ref().or(provider.bearer_token.as_ref()) {
            // It is the client's own key, returned to the client that asks for it.
            endpoint["apiKey"] = json!(key.expose());
        }
        Ok(endpoint)
    }
}

impl Chooser {
    async fn copilot_endpoint(&self, name: &str, client: Option<&str>) -> Result<Value, RpcError> {
        let Some(access) = self.catalogue.copilot_access(name, client).await else {
            return Err(RpcError::failed(
                "The session's model does not come from a provider of this client",
            ));
        };
        let mut headers = access.headers;
        // It is the client's own token, returned to the client that asks for it.
        let token = access.token.as_ref().map(|token| token.expose().to_owned());
        if let Some(token) = &token {
            headers.insert("Authorization".to_owned(), format!("Bearer {token}"));
        }
        let mut endpoint = json!({
            "type": if access.wire == WireApi::Messages { "anthropic" } else { "openai" },
            "baseUrl": access.base_url.expose(),
            "headers": headers,
            "transport": if access.sockets { "websockets" } else { "http" },
        });
        match access.wire {
            WireApi::Messages => {}
            WireApi::Responses => endpoint["wireApi"] = json!("responses"),
            WireApi::Completions => endpoint["wireApi"] = json!("completions"),
        }
        if let Some(token) = token {
            endpoint["apiKey"] = json!(token);
        }
        Ok(endpoint)
    }
}

/// The models of a catalogue. Asks its providers if they have not been asked yet.
pub(crate) async fn available(catalogue: &Catalogue) -> Vec<ModelInfo> {
    let known = catalogue.list();
    if known.len() > 1 + catalogue.agents().len() {
        return known;
    }
    catalogue.discover().await;
    catalogue.list()
}

impl From<Arc<dyn Model>> for Chosen {
    fn from(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            warning: None,
            unreached: None,
        }
    }
}

/// A model of the client with the capabilities that the client declares.
struct Described {
    info: ModelInfo,
    inner: Arc<dyn Model>,
}

fn describe(info: &ModelInfo, config: &ModelConfig) -> ModelInfo {
    let mut info = info.clone();
    info.name = config.name.clone().unwrap_or(info.name);
    info.context_window = config.max_context_window_tokens.unwrap_or(info.context_window);
    if let Some(capabilities) = &config.capabilities {
        adjust(&mut info, capabilities);
    }
    info
}

/// Applies a client's declaration of a model's capabilities.
fn adjust(info: &mut ModelInfo, capabilities: &ModelCapabilities) {
    if let Some(supports) = &capabilities.supports {
        info.vision = supports.vision.unwrap_or(info.vision);
        match supports.reasoning_effort {
            Some(false) => info.reasoning_efforts.clear(),
            Some(true) if info.reasoning_efforts.is_empty() => {
                info.reasoning_efforts = ["low", "medium", "high"].map(str::to_owned).to_vec();
            }
            _ => {}
        }
    }
    if let Some(limits) = &capabilities.limits {
        info.max_output_tokens = limits.max_output_tokens.unwrap_or(info.max_output_tokens);
        info.max_prompt_tokens = limits.max_prompt_tokens.or(info.max_prompt_tokens);
        let prompt = limits.max_prompt_tokens.map(|prompt| prompt + info.max_output_tokens);
        info.context_window = limits
            .max_context_window_tokens
            .or(prompt)
            .unwrap_or(info.context_window);
    }
}

impl Model for Described {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn chosen_by_provider(&self, tier: Option<&str>) -> Option<BoxFuture<'static, Result<Arc<dyn Model>, ModelError>>> {
        self.inner.chosen_by_provider(tier)
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        self.inner.call(request)
    }
}

/// The rehearsal model under the name of a model without a provider, so that an app can be tried before a provider is
/// configured.
struct StandIn {
    info: ModelInfo,
    rehearsal: Rehearsal,
}

impl StandIn {
    fn new(name: &str) -> Self {
        let rehearsal = Rehearsal::new();
        let info = ModelInfo {
            id: name.to_owned(),
            ..rehearsal.info().clone()
        };
        Self { info, rehearsal }
    }
}

impl Model for StandIn {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        self.rehearsal.call(request)
    }
}

/// A model whose provider could not be reached. A session can be created with it; a call reports the error.
struct Unreached {
    info: ModelInfo,
    failure: ModelError,
}

impl Unreached {
    fn new(name: Option<&str>, failure: ModelError) -> Self {
        let info = ModelInfo {
            id: name.unwrap_or("default").to_owned(),
            ..Rehearsal::new().info().clone()
        };
        Self { info, failure }
    }
}

impl Model for Unreached {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call(&self, _: Arc<ModelRequest>) -> BoxStream<'static, Result<Chunk, ModelError>> {
        stream::once(ready(Err(self.failure.clone()))).boxed()
    }
}

/// Asks the client for a token before every request.
struct SdkTokens {
    peer: Peer,
    session_id: String,
    provider: String,
}

impl TokenSource for SdkTokens {
    fn token(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        Box::pin(async move {
            let params = json!({"sessionId": self.session_id, "providerName": self.provider});
            let result = match self.peer.call("providerToken.getToken", &params).await {
                Ok(result) => result,
                Err(CallError::Refused(error)) => return Err(no_token(&self.provider, &error.message)),
                Err(error @ CallError::Gone) => return Err(no_token(&self.provider, &error.to_string())),
            };
            match result.get("token").and_then(Value::as_str) {
                Some(token) => Ok(token.to_owned()),
                None => Err(no_token(&self.provider, "the client supplied none")),
            }
        })
    }
}

pub(crate) fn no_token(provider: &str, why: &str) -> ModelError {
    ModelError {
        kind: ErrorKind::Authentication,
        message: format!("There is no token for the provider {provider}: {why}"),
        status: None,
        retry_after: None,
        provider_call_id: None,
        code: None,
        retryable: false,
    }
}
