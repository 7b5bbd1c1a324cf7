//! The available models, and how a name is resolved to one.

mod config;
mod discover;
mod known;
mod limits;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use parking_lot::RwLock;

pub use config::{AzureConfig, ModelEntry, ModelsConfig, ProviderConfig, ProviderEntry};

use crate::{
    Auth, CopilotAccess, Endpoint, HttpModel, IDLE_TIMEOUT, Model, ModelError, ModelInfo, Network, ProviderType,
    Rehearsal, Secret, TokenSource, Transport, WireApi,
};
use discover::Found;
use limits::{ProviderLimits, Unmeasured};

/// Name of the provider that the environment describes.
const ENVIRONMENT: &str = "environment";
/// Name of the provider behind `COPILOT_API_URL`.
const COPILOT: &str = "copilot";

/// The vendors whose public address may be used, and only when the chosen model's name begins with theirs.
const VENDORS: [(&str, ProviderType, &str, &str); 2] = [
    (
        "openai",
        ProviderType::OpenAi,
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
    ),
    (
        "anthropic",
        ProviderType::Anthropic,
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
    ),
];

/// All models that are configured or were found. Cheap to clone, and clones see what any of them finds.
#[derive(Clone)]
pub struct Catalogue {
    rehearsal: Arc<Rehearsal>,
    providers: BTreeMap<String, Endpoint>,
    /// What the configured providers say of models that nobody knows.
    limits: BTreeMap<String, Arc<ProviderLimits>>,
    /// In the order of the configuration.
    models: Vec<Configured>,
    /// What providers said that they serve, in their order.
    found: Arc<RwLock<Vec<Configured>>>,
    /// Agents of other programs, which sessions choose like models.
    agents: Vec<Arc<dyn Model>>,
    default_model: Option<String>,
    /// Keys of vendors, for models that name the vendor.
    vendor_keys: BTreeMap<&'static str, Secret>,
    copilot_url: Option<String>,
    /// Who the program is to the Copilot API.
    integration: String,
    /// Whether models may be asked over WebSockets.
    sockets: bool,
    transport: Arc<dyn Transport>,
}

#[derive(Clone)]
struct Configured {
    info: ModelInfo,
    wire_model: String,
    wire: Option<WireApi>,
    sockets: bool,
    provider: String,
    /// Whether somebody said what it holds.
    measured: bool,
    /// Whether it takes images, if somebody said so.
    vision: Option<bool>,
}

/// What a provider answered when it was asked for its models.
#[derive(Debug)]
pub struct Discovery {
    /// The provider's name.
    pub provider: String,
    /// Its models, or why it did not say.
    pub models: Result<Vec<ModelInfo>, ModelError>,
}

/// Why there is no such model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Nobody serves a model of this name.
    #[error(
        "there is no model {name:?}. Available: {known}. Choose one of these, or configure a provider in lodge.toml"
    )]
    UnknownModel {
        /// The name that was asked for.
        name: String,
        /// All known ids.
        known: String,
    },
    /// The environment names a provider and no model.
    #[error("no model was chosen: set LODGE_MODEL (or COPILOT_MODEL) to a model of the provider")]
    NoModelChosen,
    /// The vendor's key is missing.
    #[error("the model {name:?} needs the environment variable {variable}")]
    KeyMissing {
        /// The name that was asked for.
        name: String,
        /// The variable that should hold the key.
        variable: &'static str,
    },
    /// A model's entry names a provider that is not there.
    #[error("the model {model:?} names the provider {provider:?}, which is not configured")]
    UnknownProvider {
        /// The model's id.
        model: String,
        /// The provider's name.
        provider: String,
    },
    /// Two entries have one name.
    #[error("{0:?} is configured twice")]
    Duplicate(String),
    /// The configuration says something that makes no sense.
    #[error("{0}")]
    Invalid(String),
}

impl Catalogue {
    /// Reads a configuration and the environment.
    pub fn from(config: ModelsConfig, env: impl Fn(&str) -> Option<String>) -> Result<Self, CatalogueError> {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let network = Network::with_certificates(env("NODE_EXTRA_CA_CERTS").map(PathBuf::from));
        let mut catalogue = Self {
            rehearsal: Arc::new(Rehearsal::new()),
            providers: BTreeMap::new(),
            limits: BTreeMap::new(),
            models: Vec::new(),
            found: Arc::default(),
            agents: Vec::new(),
            default_model: env("LODGE_MODEL")
                .or_else(|| env("COPILOT_MODEL"))
                .or(config.default_model),
            vendor_keys: BTreeMap::new(),
            copilot_url: env("COPILOT_API_URL"),
            integration: env("GITHUB_COPILOT_INTEGRATION_ID").unwrap_or_else(|| "lodge".to_owned()),
            sockets: env("COPILOT_CLI_DISABLE_WEBSOCKET_RESPONSES").is_none_or(|value| value == "false"),
            transport: Arc::new(network),
        };
        for (_, _, _, variable) in VENDORS {
            catalogue
                .vendor_keys
                .extend(env(variable).map(|key| (variable, Secret::from(key))));
        }
        for entry in config.providers {
            let name = entry.name.clone();
            let endpoint = configured_endpoint(entry, &env)?;
            if catalogue.providers.insert(name.clone(), endpoint).is_some() {
                return Err(CatalogueError::Duplicate(name));
            }
        }
        if let Some(endpoint) = environment_endpoint(&env)? {
            catalogue.providers.insert(ENVIRONMENT.to_owned(), endpoint);
        }
        let names = catalogue.providers.keys();
        catalogue.limits = names.map(|name| (name.clone(), Arc::default())).collect();
        for entry in config.models {
            catalogue.add(entry)?;
        }
        Ok(catalogue)
    }

    fn add(&mut self, entry: ModelEntry) -> Result<(), CatalogueError> {
        if !self.providers.contains_key(&entry.provider) {
            return Err(CatalogueError::UnknownProvider {
                model: entry.id,
                provider: entry.provider,
            });
        }
        let wire_model = entry.name.unwrap_or_else(|| entry.id.clone());
        let mut info = known::info(&entry.id, &wire_model, &entry.provider);
        info.name.clone_from(&entry.id);
        let (window, prompt) = (limit(entry.context_window), limit(entry.max_prompt_tokens));
        let measured = window.is_some() || known::is_known(&wire_model);
        // Whoever knows a model's window better than its name tells knows its other limits better, too.
        let known = info.max_prompt_tokens.filter(|_| window.is_none());
        info.max_prompt_tokens = prompt.or(known);
        info.context_window = window.unwrap_or(info.context_window);
        info.max_output_tokens = limit(entry.max_output_tokens).unwrap_or(info.max_output_tokens);
        info.vision = entry.vision.unwrap_or(info.vision);
        info.reasoning_efforts = entry.reasoning_efforts.unwrap_or(info.reasoning_efforts);
        if self.models.iter().any(|model| model.info.id == entry.id) {
            return Err(CatalogueError::Duplicate(entry.id));
        }
        self.models.push(Configured {
            info,
            wire_model,
            wire: entry.wire_api,
            sockets: false,
            provider: entry.provider,
            measured,
            vision: entry.vision,
        });
        Ok(())
    }

    /// The same with agents of other programs.
    pub fn with_agents(mut self, agents: Vec<Arc<dyn Model>>) -> Result<Self, CatalogueError> {
        for agent in &agents {
            let id = &agent.info().id;
            if self.configured(id).is_some() || id == Rehearsal::ID {
                return Err(CatalogueError::Duplicate(id.clone()));
            }
        }
        self.agents = agents;
        Ok(self)
    }

    /// The names of the agents of other programs.
    pub fn agents(&self) -> Vec<String> {
        self.agents.iter().map(|agent| agent.info().id.clone()).collect()
    }

    /// The same models reached through another transport.
    #[must_use]
    pub fn with_transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = transport;
        self
    }

    /// The same models, asked by requests only.
    #[must_use]
    pub fn without_sockets(mut self) -> Self {
        self.sockets = false;
        self
    }

    /// The same with the models behind `COPILOT_API_URL`, used with a GitHub token that a client gave. Without that variable
    /// nothing changes: no vendor's address is built in.
    #[must_use]
    pub fn with_github_token(mut self, auth: Auth) -> Self {
        if let Some(url) = &self.copilot_url {
            let mut endpoint = Endpoint::new(COPILOT, ProviderType::OpenAi, WireApi::Completions, url.clone());
            endpoint.auth = auth;
            endpoint.routes = true;
            endpoint.integration = Some(self.integration.clone());
            self.providers.insert(COPILOT.to_owned(), endpoint);
            // What this client's token finds is not for others to see.
            let found = self.found.read().clone();
            self.found = Arc::new(RwLock::new(found));
        }
        self
    }

    /// All models known so far, the rehearsal model last.
    pub fn list(&self) -> Vec<ModelInfo> {
        let mut list: Vec<ModelInfo> = self.models.iter().map(|model| model.info.clone()).collect();
        let found: Vec<ModelInfo> = self.found.read().iter().map(|model| model.info.clone()).collect();
        list.extend(found.into_iter().filter(|info| self.configured(&info.id).is_none()));
        // The chosen model may be one that only its provider knows.
        if let Some(name) = self.default_model.as_deref().filter(|name| *name != Rehearsal::ID)
            && !list.iter().any(|info| info.id == name)
            && let Some(model) = self.find(name)
        {
            list.insert(0, model.info().clone());
        }
        list.extend(self.agents.iter().map(|agent| agent.info().clone()));
        list.push(self.rehearsal.info().clone());
        list
    }

    /// The name of the model that sessions get that name none: the chosen one, else the first that is configured or was
    /// found, else the rehearsal model.
    pub fn default_model(&self) -> String {
        self.chosen().unwrap_or_else(|| Rehearsal::ID.to_owned())
    }

    fn chosen(&self) -> Option<String> {
        let configured = || self.models.first().map(|model| model.info.id.clone());
        let found = || self.found.read().first().map(|model| model.info.id.clone());
        self.default_model.clone().or_else(configured).or_else(found)
    }

    fn configured(&self, id: &str) -> Option<&Configured> {
        self.models.iter().find(|model| model.info.id == id)
    }

    /// Asks every provider for its models and keeps what they say. A provider that does not answer changes nothing.
    pub fn discover<'a>(&'a self) -> BoxFuture<'a, Vec<Discovery>> {
        Box::pin(async move {
            let asked = self.providers.iter().map(async |(name, endpoint)| {
                let prefix = if is_open(name) {
                    String::new()
                } else {
                    format!("{name}/")
                };
                (
                    name.clone(),
                    discover::list_models(endpoint, &*self.transport, &prefix).await,
                )
            });
            let answers = join_all(asked).await;
            answers
                .into_iter()
                .map(|(provider, found)| {
                    let models =
                        found.map(|found| found.into_iter().map(|found| self.keep(&provider, found)).collect());
                    Discovery { provider, models }
                })
                .collect()
        })
    }

    /// Whether there are models that only their provider knows enough of, and nobody has asked it yet.
    pub fn should_ask(&self) -> bool {
        self.providers.contains_key(COPILOT) && self.found.read().is_empty()
    }

    fn keep(&self, provider: &str, found: Found) -> ModelInfo {
        let Found {
            info,
            wire_model,
            wire,
            sockets,
        } = found;
        let model = Configured {
            info: info.clone(),
            wire_model,
            wire,
            sockets,
            provider: provider.to_owned(),
            measured: true,
            vision: None,
        };
        let mut known = self.found.write();
        match known.iter_mut().find(|known| known.info.id == info.id) {
            Some(known) => *known = model,
            None => known.push(model),
        }
        info
    }

    /// The model of a name, or the default one. A name is an id from [`Catalogue::list`], or `provider/name` for any model of
    /// a known provider; where the environment describes a provider, every other name is taken to be one of its. What a
    /// person configured goes before what a provider says.
    pub fn resolve(&self, name: Option<&str>) -> Result<Arc<dyn Model>, CatalogueError> {
        let chosen = self.chosen();
        let name = match (name, &chosen) {
            (Some(name), _) => name,
            (None, Some(chosen)) => chosen,
            // Whoever names a provider does not want the rehearsal model for an answer.
            (None, None) if self.open_provider().is_some() => return Err(CatalogueError::NoModelChosen),
            (None, None) => Rehearsal::ID,
        };
        if let Some(model) = self.find(name) {
            return Ok(model);
        }
        if let Some((_, _, _, variable)) = vendor(name) {
            return Err(CatalogueError::KeyMissing {
                name: name.to_owned(),
                variable,
            });
        }
        let known = self
            .list()
            .into_iter()
            .map(|info| info.id)
            .collect::<Vec<_>>()
            .join(", ");
        Err(CatalogueError::UnknownModel {
            name: name.to_owned(),
            known,
        })
    }

    /// The provider of a model that is reached by HTTP, and the model's name there.
    pub fn at_provider(&self, name: &str) -> Option<(String, String)> {
        if let Some((model, _)) = self.known(name) {
            return Some((model.provider, model.wire_model));
        }
        if let Some((provider, wire_model)) = name.split_once('/')
            && self.providers.contains_key(provider)
        {
            return Some((provider.to_owned(), wire_model.to_owned()));
        }
        let provider = self.open_provider().filter(|_| name != Rehearsal::ID)?;
        Some((provider.to_owned(), name.to_owned()))
    }

    /// How the Copilot API is reached for one of its models; none when another provider has that.
    pub async fn copilot_access(&self, name: &str, client: Option<&str>) -> Option<CopilotAccess> {
        let (_, endpoint) = self.known(name)?;
        CopilotAccess::for_endpoint(&endpoint, client).await
    }

    /// A model that is configured or was found, and where it is.
    fn known(&self, name: &str) -> Option<(Configured, Endpoint)> {
        let found = || self.found.read().iter().find(|model| model.info.id == name).cloned();
        let model = self.configured(name).cloned().or_else(found)?;
        let mut endpoint = self.providers[&model.provider].clone();
        endpoint.wire = model.wire.unwrap_or(endpoint.wire);
        endpoint.sockets = model.sockets && self.sockets;
        Some((model, endpoint))
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        if let Some(agent) = self.agents.iter().find(|agent| agent.info().id == name) {
            return Some(agent.clone());
        }
        if let Some((model, endpoint)) = self.known(name) {
            let limits = self.limits.get(&model.provider).filter(|_| !model.measured);
            let reached = self.reached(model.info, &model.wire_model, endpoint.clone());
            return Some(self.measured(reached, &model.wire_model, endpoint, limits, model.vision));
        }
        if name == Rehearsal::ID {
            return Some(Arc::clone(&self.rehearsal) as Arc<dyn Model>);
        }
        if let Some((provider, wire_model)) = name.split_once('/') {
            if self.providers.contains_key(provider) {
                return Some(self.model(known::info(name, wire_model, provider), wire_model, provider));
            }
            // Routers have names like `openai/…` too, and who set an address means it.
            if !self.providers.contains_key(ENVIRONMENT)
                && let Some((vendor, kind, url, variable)) = vendor(name)
                && let Some(key) = self.vendor_keys.get(variable)
            {
                let mut endpoint = Endpoint::new(vendor, kind, wire_of(kind, None), url);
                endpoint.auth = Auth::Key(key.clone());
                return Some(self.reached(known::info(name, wire_model, vendor), wire_model, endpoint));
            }
        }
        let provider = self.open_provider()?;
        Some(self.model(known::info(name, name, provider), name, provider))
    }

    /// The provider that takes any name.
    fn open_provider(&self) -> Option<&'static str> {
        [ENVIRONMENT, COPILOT]
            .into_iter()
            .find(|open| self.providers.contains_key(*open))
    }

    fn model(&self, info: ModelInfo, wire_model: &str, provider: &str) -> Arc<dyn Model> {
        let endpoint = self.providers[provider].clone();
        let limits = self.limits.get(provider).filter(|_| !known::is_known(wire_model));
        let reached = self.reached(info, wire_model, endpoint.clone());
        self.measured(reached, wire_model, endpoint, limits, None)
    }

    /// The same model, whose provider is asked for its limits where there is somebody to ask.
    fn measured(
        &self,
        model: Arc<dyn Model>,
        wire_model: &str,
        endpoint: Endpoint,
        limits: Option<&Arc<ProviderLimits>>,
        vision: Option<bool>,
    ) -> Arc<dyn Model> {
        match limits {
            None => model,
            Some(limits) => Arc::new(Unmeasured {
                model,
                wire_model: wire_model.to_owned(),
                endpoint,
                transport: Arc::clone(&self.transport),
                limits: Arc::clone(limits),
                vision,
                measured: OnceLock::new(),
            }),
        }
    }

    fn reached(&self, info: ModelInfo, wire_model: &str, endpoint: Endpoint) -> Arc<dyn Model> {
        Arc::new(HttpModel::new(
            info,
            wire_model.to_owned(),
            endpoint,
            Arc::clone(&self.transport),
        ))
    }

    /// A model of a provider that a client configures for its own session. `model` is the name that the session asks for; the
    /// provider's own `modelId` and `wireModel` say what it is called elsewhere. `tokens` is asked for a token before every
    /// request, where the client wants to be asked.
    pub fn resolve_with_provider(
        &self,
        provider: &ProviderConfig,
        model: Option<&str>,
        tokens: Option<Arc<dyn TokenSource>>,
    ) -> Result<Arc<dyn Model>, CatalogueError> {
        let known_as = provider
            .model_id
            .as_deref()
            .or(model)
            .or(provider.wire_model.as_deref());
        let Some(known_as) = known_as else {
            return Err(CatalogueError::Invalid(
                "a session with its own provider must name a model".to_owned(),
            ));
        };
        let name = provider.name.as_deref().unwrap_or("default");
        check_address(name, provider.base_url.expose())?;
        let kind = provider.kind.unwrap_or_default();
        let mut endpoint = Endpoint::new(name, kind, wire_of(kind, provider.wire_api), provider.base_url.clone());
        endpoint.headers.clone_from(&provider.headers);
        endpoint.sockets = provider.transport.as_deref() == Some("websockets");
        endpoint.api_version = provider.azure.as_ref().and_then(|azure| azure.api_version.clone());
        endpoint.auth = match tokens.filter(|_| provider.has_bearer_token_provider) {
            Some(source) => Auth::Source(source),
            None => auth(provider.bearer_token.clone(), provider.api_key.clone()),
        };
        let mut info = known::info(model.unwrap_or(known_as), known_as, name);
        info.max_output_tokens = limit(provider.max_output_tokens).unwrap_or(info.max_output_tokens);
        info.max_prompt_tokens = limit(provider.max_prompt_tokens).or(info.max_prompt_tokens);
        if let Some(prompt) = limit(provider.max_prompt_tokens) {
            info.context_window = prompt.saturating_add(info.max_output_tokens);
        }
        let wire_model = provider.wire_model.as_deref().unwrap_or(known_as);
        Ok(self.reached(info, wire_model, endpoint))
    }
}

/// A limit that somebody configured. 0 is none.
fn limit(tokens: Option<u64>) -> Option<u64> {
    tokens.filter(|tokens| *tokens > 0)
}

/// The vendor that a model's name begins with.
fn vendor(name: &str) -> Option<(&'static str, ProviderType, &'static str, &'static str)> {
    let (vendor, _) = name.split_once('/')?;
    VENDORS.into_iter().find(|(known, ..)| *known == vendor)
}

/// Whether models of the provider go by their own names.
fn is_open(provider: &str) -> bool {
    provider == ENVIRONMENT || provider == COPILOT
}

fn wire_of(kind: ProviderType, asked: Option<WireApi>) -> WireApi {
    match kind {
        ProviderType::Anthropic => WireApi::Messages,
        _ => asked.unwrap_or_default(),
    }
}

fn auth(bearer: Option<Secret>, key: Option<Secret>) -> Auth {
    bearer
        .map(Auth::Bearer)
        .or_else(|| key.map(Auth::Key))
        .unwrap_or_default()
}

fn check_address(provider: &str, base_url: &str) -> Result<(), CatalogueError> {
    if base_url.starts_with("http://") || base_url.starts_with("https://") {
        return Ok(());
    }
    let message = format!("the provider {provider:?} needs a base_url that begins with http:// or https://");
    Err(CatalogueError::Invalid(message))
}

fn configured_endpoint(
    entry: ProviderEntry,
    env: &impl Fn(&str) -> Option<String>,
) -> Result<Endpoint, CatalogueError> {
    check_address(&entry.name, entry.base_url.expose())?;
    let from_variable = |variable: String| match env(&variable) {
        Some(key) => Auth::Key(key.into()),
        None => Auth::Missing(variable),
    };
    let auth = match (entry.bearer_token, entry.api_key, entry.api_key_env) {
        (None, None, Some(variable)) => from_variable(variable),
        (bearer, key, _) => auth(bearer, key),
    };
    let mut endpoint = Endpoint::new(
        entry.name,
        entry.kind,
        wire_of(entry.kind, entry.wire_api),
        entry.base_url,
    );
    endpoint.auth = auth;
    endpoint.headers = entry.headers;
    endpoint.api_version = entry.api_version;
    endpoint.idle_timeout = entry.idle_timeout.map_or(IDLE_TIMEOUT, Duration::from_secs);
    Ok(endpoint)
}

/// The provider that `LODGE_PROVIDER_*` describes, or `COPILOT_PROVIDER_*` where that is not set.
fn environment_endpoint(env: &impl Fn(&str) -> Option<String>) -> Result<Option<Endpoint>, CatalogueError> {
    let Some(prefix) = ["LODGE_PROVIDER", "COPILOT_PROVIDER"]
        .into_iter()
        .find(|prefix| env(&format!("{prefix}_BASE_URL")).is_some())
    else {
        return Ok(None);
    };
    let value = |name: &str| env(&format!("{prefix}_{name}"));
    let base_url = value("BASE_URL").unwrap_or_default();
    check_address(ENVIRONMENT, &base_url)?;
    let kind = word(prefix, "TYPE", value("TYPE"))?.unwrap_or_default();
    let wire = word(prefix, "WIRE_API", value("WIRE_API"))?;
    let mut endpoint = Endpoint::new(ENVIRONMENT, kind, wire_of(kind, wire), base_url);
    endpoint.auth = auth(
        value("BEARER_TOKEN").map(Secret::from),
        value("API_KEY").map(Secret::from),
    );
    endpoint.api_version = value("AZURE_API_VERSION").or_else(|| value("API_VERSION"));
    Ok(Some(endpoint))
}

/// Reads a word as it would be read from a configuration.
fn word<T: serde::de::DeserializeOwned>(
    prefix: &str,
    name: &str,
    value: Option<String>,
) -> Result<Option<T>, CatalogueError> {
    let Some(value) = value else { return Ok(None) };
    let read = serde_json::from_value(value.to_ascii_lowercase().into());
    read.map(Some)
        .map_err(|error| CatalogueError::Invalid(format!("invalid {prefix}_{name}: {error}")))
}
