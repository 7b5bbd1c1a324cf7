//! The address of a model, and its credentials.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Deserialize;

use super::{IDLE_TIMEOUT, Target};
use crate::{BaseUrl, ModelError, ModelRequest, Secret, TokenSource};

/// The kind of provider: decides the form of the address and of the credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderType {
    /// OpenAI and all that copy its form.
    #[default]
    OpenAi,
    /// OpenAI's models at Azure.
    Azure,
    /// Anthropic and all that copy its form.
    Anthropic,
}

/// The wire that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireApi {
    /// OpenAI chat completions.
    #[default]
    #[serde(alias = "chat")]
    Completions,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    #[serde(alias = "anthropic")]
    Messages,
}

/// Credentials.
#[derive(Clone, Default)]
pub enum Auth {
    /// None; local servers need none.
    #[default]
    None,
    /// A key, sent in the header that the provider's type calls for.
    Key(Secret),
    /// A bearer token.
    Bearer(Secret),
    /// A bearer token that is requested for every call.
    Source(Arc<dyn TokenSource>),
    /// The key should stand in this environment variable and does not. Every call says so; everything else works.
    Missing(String),
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Key(_) => "Key([secret])",
            Self::Bearer(_) => "Bearer([secret])",
            Self::Source(_) => "Source",
            Self::Missing(_) => "Missing",
        })
    }
}

/// A provider's address and how to speak to it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name, for messages.
    pub provider: String,
    /// The provider's kind.
    pub kind: ProviderType,
    /// The wire to speak.
    pub wire: WireApi,
    /// The address that the wire's path is added to.
    pub base_url: BaseUrl,
    /// Credentials.
    pub auth: Auth,
    /// Headers for every request.
    pub headers: BTreeMap<String, String>,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
    /// How long the provider may say nothing.
    pub idle_timeout: Duration,
    /// Whether the responses wire is also spoken over a WebSocket.
    pub sockets: bool,
    /// Whether the provider chooses models for those who ask for `auto`.
    pub routes: bool,
    /// Who the program is to the Copilot API; none for other providers.
    pub integration: Option<String>,
}

/// Azure's version of the API where none is named.
const AZURE_API_VERSION: &str = "2024-10-21";

impl Endpoint {
    /// An endpoint without credentials.
    pub fn new(provider: impl Into<String>, kind: ProviderType, wire: WireApi, base_url: impl Into<BaseUrl>) -> Self {
        Self {
            provider: provider.into(),
            kind,
            wire,
            base_url: base_url.into(),
            auth: Auth::None,
            headers: BTreeMap::new(),
            api_version: None,
            idle_timeout: IDLE_TIMEOUT,
            sockets: false,
            routes: false,
            integration: None,
        }
    }

    /// The address of the wire for a model.
    pub(super) fn url(&self, model: &str) -> String {
        let (base, query) = self.base();
        if self.kind != ProviderType::Azure || base.ends_with("/openai/v1") {
            return format!("{base}{}{}", self.path(), append(query, self.api_version.as_deref()));
        }
        let base = base.strip_suffix("/openai").unwrap_or(base);
        let query = append(query, Some(self.api_version.as_deref().unwrap_or(AZURE_API_VERSION)));
        match self.wire {
            WireApi::Responses => format!("{base}/openai/responses{query}"),
            _ => format!("{base}/openai/deployments/{}{}{query}", escape(model), self.path()),
        }
    }

    /// The address of the list of models; none where the provider cannot say what it serves.
    pub(crate) fn models_url(&self) -> Option<String> {
        let (base, query) = self.base();
        if self.kind == ProviderType::Azure && !base.ends_with("/openai/v1") {
            return None;
        }
        let version = if self.kind == ProviderType::Anthropic && !base.ends_with("/v1") {
            "/v1"
        } else {
            ""
        };
        Some(format!("{base}{version}/models{}", append(query, None)))
    }

    /// Where llama.cpp's server says what it is: beside the wire's own path.
    pub(crate) fn properties_url(&self) -> String {
        let (base, query) = self.base();
        let base = base.strip_suffix("/v1").unwrap_or(base);
        format!("{base}/props{}", append(query, None))
    }

    /// Where the provider is asked to choose a model.
    pub(super) fn auto_url(&self) -> String {
        let (base, query) = self.base();
        format!("{base}/auto{}", append(query, None))
    }

    /// The wire's path below the base.
    pub(super) fn path(&self) -> &'static str {
        match self.wire {
            WireApi::Completions => "/chat/completions",
            WireApi::Responses => "/responses",
            WireApi::Messages if self.base().0.ends_with("/v1") => "/messages",
            WireApi::Messages => "/v1/messages",
        }
    }

    /// The address without query, final slash, or a path that people copy along with it.
    fn base(&self) -> (&str, Option<&str>) {
        let address = self.base_url.expose();
        let (base, query) = match address.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (address, None),
        };
        let mut base = base.trim_end_matches('/');
        for path in ["/chat/completions", "/responses", "/v1/messages"] {
            base = base.strip_suffix(path).unwrap_or(base);
        }
        (base, query)
    }

    /// What messages name when something goes wrong.
    pub(crate) fn target(&self, model: &str) -> Target {
        let address = self.base_url.expose();
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        // Credentials may stand before the host's name.
        let host = host.rsplit('@').next().unwrap_or_default();
        let mut target = Target::new(&self.provider, host, model);
        // A provider that is not pleased may answer with the address.
        self.base_url
            .secrets()
            .into_iter()
            .for_each(|secret| target.hide(secret));
        target
    }

    /// All headers of a call. What the caller set goes before what the provider's configuration says, and that before
    /// what we would send. The secrets among them are told to the target, which keeps them out of messages.
    pub(crate) async fn headers(
        &self,
        request: &ModelRequest,
        target: &mut Target,
    ) -> Result<Vec<(String, String)>, ModelError> {
        let mut headers = BTreeMap::new();
        headers.insert("content-type".to_owned(), "application/json".to_owned());
        headers.insert(
            "accept".to_owned(),
            if request.stream {
                "text/event-stream"
            } else {
                "application/json"
            }
            .to_owned(),
        );
        headers.insert("user-agent".to_owned(), user_agent(request.user_agent.as_deref()));
        if let Some(integration) = &self.integration {
            for (name, value) in copilot_headers(integration, request.user_agent.as_deref()) {
                headers.insert(name.to_ascii_lowercase(), value);
            }
            if let Some(id) = &request.interaction_id {
                headers.insert(INTERACTION.to_ascii_lowercase(), id.clone());
            }
        }
        if self.kind == ProviderType::Anthropic || self.wire == WireApi::Messages {
            headers.insert("anthropic-version".to_owned(), "2023-06-01".to_owned());
        }
        let bearer = match &self.auth {
            Auth::None => None,
            Auth::Key(key) => match self.kind {
                ProviderType::OpenAi => Some(key.clone()),
                ProviderType::Azure => {
                    target.hide(key.clone());
                    headers.insert("api-key".to_owned(), key.expose().to_owned());
                    None
                }
                ProviderType::Anthropic => {
                    target.hide(key.clone());
                    headers.insert("x-api-key".to_owned(), key.expose().to_owned());
                    None
                }
            },
            Auth::Bearer(token) => Some(token.clone()),
            Auth::Missing(variable) => return Err(target.without_key(variable)),
            Auth::Source(source) => Some(source.token().await?.into()),
        };
        if let Some(token) = bearer {
            headers.insert("authorization".to_owned(), format!("Bearer {}", token.expose()));
            target.hide(token);
        }
        for (name, value) in self.headers.iter().chain(&request.headers) {
            target.hide(Secret::new(value.as_str()));
            headers.insert(name.to_ascii_lowercase(), value.clone());
        }
        Ok(headers.into_iter().collect())
    }
}

/// The version of the Copilot API that is spoken.
const COPILOT_API_VERSION: &str = "2025-05-01";
/// The header by which the Copilot API knows what calls belong together.
const INTERACTION: &str = "X-Interaction-Id";

/// What every request to the Copilot API says of who asks.
fn copilot_headers(integration: &str, client: Option<&str>) -> [(&'static str, String); 3] {
    [
        ("Copilot-Integration-Id", integration.to_owned()),
        ("X-GitHub-Api-Version", COPILOT_API_VERSION.to_owned()),
        ("User-Agent", format!("{} (Copilot API)", user_agent(client))),
    ]
}

/// How to reach the Copilot API, for callers that do so themselves.
#[derive(Debug, Clone)]
pub struct CopilotAccess {
    /// Its address.
    pub base_url: BaseUrl,
    /// The wire that the model speaks.
    pub wire: WireApi,
    /// Whether that wire is also spoken over a WebSocket.
    pub sockets: bool,
    /// The token.
    pub token: Option<Secret>,
    /// What every request must carry beside the token.
    pub headers: BTreeMap<String, String>,
}

impl CopilotAccess {
    /// The access that an endpoint has, for a client of this name.
    pub(crate) async fn for_endpoint(endpoint: &Endpoint, client: Option<&str>) -> Option<Self> {
        let integration = endpoint.integration.as_deref()?;
        let mut headers: BTreeMap<String, String> = copilot_headers(integration, client)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        headers.insert(INTERACTION.to_owned(), uuid::Uuid::new_v4().to_string());
        Some(Self {
            base_url: endpoint.base_url.clone(),
            wire: endpoint.wire,
            sockets: endpoint.sockets,
            token: match &endpoint.auth {
                Auth::Key(token) | Auth::Bearer(token) => Some(token.clone()),
                Auth::Source(source) => source.token().await.ok().map(Into::into),
                Auth::None | Auth::Missing(_) => None,
            },
            headers,
        })
    }
}

/// Who asks: the client's name, then ours.
fn user_agent(client: Option<&str>) -> String {
    let ours = concat!("lodge/", env!("CARGO_PKG_VERSION"));
    let client: String = client
        .unwrap_or_default()
        .chars()
        .filter(|c| matches!(c, ' '..='~'))
        .collect();
    match client.trim() {
        "" => ours.to_owned(),
        client => format!("{client} {ours}"),
    }
}

fn append(query: Option<&str>, api_version: Option<&str>) -> String {
    let version = api_version.map(|version| format!("api-version={}", escape(version)));
    match (query, version) {
        (None, None) => String::new(),
        (Some(query), None) => format!("?{query}"),
        (None, Some(version)) => format!("?{version}"),
        (Some(query), Some(_)) if query.contains("api-version=") => format!("?{query}"),
        (Some(query), Some(version)) => format!("?{query}&{version}"),
    }
}

/// Escapes what may not stand in a segment of a path.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, ProviderType::*, WireApi::*};

    #[test]
    fn addresses_have_the_form_that_each_provider_wants() {
        let cases = [
            (OpenAi, Completions, "http://h/v1", None, "http://h/v1/chat/completions"),
            (
                OpenAi,
                Completions,
                "http://h/v1/",
                None,
                "http://h/v1/chat/completions",
            ),
            (
                OpenAi,
                Completions,
                "http://h/v1/chat/completions",
                None,
                "http://h/v1/chat/completions",
            ),
            (OpenAi, Responses, "http://h/v1?a=b", None, "http://h/v1/responses?a=b"),
            (Anthropic, Messages, "http://h", None, "http://h/v1/messages"),
            (Anthropic, Messages, "http://h/v1", None, "http://h/v1/messages"),
            (
                Anthropic,
                Messages,
                "http://h/v1/messages",
                None,
                "http://h/v1/messages",
            ),
            (
                Azure,
                Completions,
                "http://h",
                Some("v"),
                "http://h/openai/deployments/gpt%2Fx/chat/completions?api-version=v",
            ),
            (
                Azure,
                Completions,
                "http://h/openai/",
                None,
                "http://h/openai/deployments/gpt%2Fx/chat/completions?api-version=2024-10-21",
            ),
            (
                Azure,
                Responses,
                "http://h",
                Some("v"),
                "http://h/openai/responses?api-version=v",
            ),
            (
                Azure,
                Responses,
                "http://h/openai/v1",
                None,
                "http://h/openai/v1/responses",
            ),
            (
                Azure,
                Completions,
                "http://h/openai/v1",
                Some("preview"),
                "http://h/openai/v1/chat/completions?api-version=preview",
            ),
        ];
        for (kind, wire, base, version, expected) in cases {
            let mut endpoint = Endpoint::new("p", kind, wire, base);
            endpoint.api_version = version.map(str::to_owned);
            assert_eq!(endpoint.url("gpt/x"), expected, "{kind:?} {base}");
        }
    }

    #[test]
    fn messages_name_the_host_and_not_the_credentials_before_it() {
        for (base, host) in [("http://user:pass@h:1/v1", "h:1"), ("https://h/x", "h"), ("h", "h")] {
            assert_eq!(Endpoint::new("p", OpenAi, Completions, base).target("m").host(), host);
        }
    }
}
