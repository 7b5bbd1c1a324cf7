//! GitHub tokens: getting them from the app, finding out whose they are, and GitHub's own MCP server.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::BoxFuture};
use lodge_host::mcp::{Admitted, Configured, ServerConfig, Source};
use lodge_models::{HttpRequest, ModelError, Network, TokenSource, Transport};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{config::SessionConfig, connection::Ctx, peer::Peer, providers::no_token, rpc::RpcError};

/// The name of GitHub's own MCP server.
pub(crate) const SERVER: &str = "github-mcp-server";

/// A token is renewed when it expires in less than this.
const REFRESH: Duration = Duration::from_secs(3600);

/// Tokens of a session whose app supplies them on demand.
pub(crate) struct Tokens {
    peer: Peer,
    registration: String,
    session_id: String,
    host: String,
    /// The last token, and when it expires.
    kept: tokio::sync::Mutex<Option<(String, Instant)>>,
}

impl Tokens {
    /// The tokens of a session being opened, if its app supplies them.
    pub(crate) fn of(ctx: &Ctx, config: &SessionConfig, session_id: &str) -> Result<Option<Arc<Self>>, RpcError> {
        let Some(registration) = &config.git_hub_token_provider_registration_id else {
            return Ok(None);
        };
        if config.git_hub_token.is_some() {
            return Err(RpcError::params(
                "gitHubToken and gitHubTokenProvider cannot be given together",
            ));
        }
        Ok(Some(Arc::new(Self {
            peer: ctx.peer.clone(),
            registration: registration.clone(),
            session_id: session_id.to_owned(),
            host: ctx.shared.options.github_host.clone(),
            kept: tokio::sync::Mutex::default(),
        })))
    }

    async fn acquire(&self, reason: &str) -> Result<(String, Instant), String> {
        let params = json!({
            "registrationId": self.registration, "sessionId": self.session_id, "host": self.host, "reason": reason,
        });
        let given = self.peer.call("gitHubToken.getToken", &params).await;
        let given = given.map_err(|error| error.to_string())?;
        let token = given["accessToken"].as_str().filter(|token| !token.is_empty());
        let seconds = given["expiresIn"].as_f64().unwrap_or(0.0);
        let life = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let end = Instant::now().checked_add(life).unwrap_or_else(Instant::now);
        token
            .filter(|_| !life.is_zero())
            .map(|token| (token.to_owned(), end))
            .ok_or_else(|| "the client supplied none".to_owned())
    }

    /// A token that is valid for a while.
    pub(crate) async fn get(&self) -> Result<String, String> {
        let mut kept = self.kept.lock().await;
        let now = Instant::now();
        if let Some((token, end)) = &*kept
            && *end > now + REFRESH
        {
            return Ok(token.clone());
        }
        let reason = if kept.is_some() { "refresh" } else { "initial" };
        match self.acquire(reason).await {
            Ok(new) => Ok(kept.insert(new).0.clone()),
            // The old token may still be valid for a while.
            Err(error) => match &*kept {
                Some((token, end)) if *end > now => Ok(token.clone()),
                _ => Err(error),
            },
        }
    }
}

impl TokenSource for Tokens {
    fn token(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        Box::pin(async move { self.get().await.map_err(|error| no_token("GitHub", &error)) })
    }
}

/// The answer is a small object; anything longer is invalid.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// Asks the GitHub API at `api` whose token this is.
pub(crate) async fn user(api: &str, token: &str) -> Result<Value, String> {
    let request = HttpRequest {
        method: "GET",
        url: format!("{}/copilot_internal/user", api.trim_end_matches('/')),
        headers: vec![
            ("authorization".to_owned(), format!("Bearer {token}")),
            ("accept".to_owned(), "application/json".to_owned()),
        ],
        body: bytes::Bytes::new(),
        sub_agent: None,
    };
    let mut response = Network::default()
        .send(request)
        .await
        .map_err(|error| error.to_string())?;
    let mut body = Vec::new();
    while let Some(piece) = response.body.next().await {
        body.extend_from_slice(&piece.map_err(|error| error.to_string())?);
        if body.len() > LONGEST_ANSWER {
            return Err("the answer is too long".to_owned());
        }
    }
    match response.status {
        200 => serde_json::from_slice(&body).map_err(|error| error.to_string()),
        401 => Err(format!("401 Unauthorized: {}", String::from_utf8_lossy(&body))),
        status => Err(format!("{status}: {}", String::from_utf8_lossy(&body))),
    }
}

/// The remainder of a quota, in the clients' form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Quota {
    is_unlimited_entitlement: bool,
    entitlement_requests: i64,
    used_requests: u64,
    usage_allowed_with_exhausted_quota: bool,
    remaining_percentage: f64,
    overage: f64,
    overage_allowed_with_exhausted_quota: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_date: Option<String>,
}

#[derive(Deserialize)]
struct Snapshot {
    #[serde(default)]
    entitlement: f64,
    #[serde(default)]
    overage_count: f64,
    #[serde(default)]
    overage_permitted: bool,
    #[serde(default)]
    percent_remaining: f64,
    #[serde(default)]
    timestamp_utc: Option<String>,
    #[serde(default)]
    quota_reset_at: Option<String>,
    #[serde(default)]
    unlimited: bool,
}

/// The quotas in GitHub's description of an account, by kind. Unreadable ones are left out.
pub(crate) fn quotas(user: &Value) -> BTreeMap<String, Quota> {
    let snapshots = user["quota_snapshots"].as_object().into_iter().flatten();
    let reset = user["quota_reset_date"].as_str();
    let read = |(kind, snapshot): (&String, &Value)| {
        let snapshot = Snapshot::deserialize(snapshot).ok()?;
        let used = snapshot.entitlement * (1.0 - snapshot.percent_remaining / 100.0);
        let date = snapshot.quota_reset_at.or_else(|| reset.map(str::to_owned));
        let quota = Quota {
            is_unlimited_entitlement: snapshot.unlimited,
            entitlement_requests: if snapshot.unlimited {
                -1
            } else {
                snapshot.entitlement as i64
            },
            used_requests: if snapshot.unlimited {
                0
            } else {
                used.round().max(0.0) as u64
            },
            usage_allowed_with_exhausted_quota: snapshot.overage_permitted,
            remaining_percentage: snapshot.percent_remaining,
            overage: snapshot.overage_count,
            overage_allowed_with_exhausted_quota: snapshot.overage_permitted,
            reset_date: date.or(snapshot.timestamp_utc),
        };
        Some((kind.clone(), quota))
    };
    snapshots.filter_map(read).collect()
}

/// GitHub's own MCP server, for an app that enables discovery and has a token. It is read-only, unless the app wants
/// all or more of its tools.
pub(crate) fn server(ctx: &Ctx, config: &SessionConfig) -> Option<Configured> {
    if config.enable_config_discovery != Some(true) {
        return None;
    }
    let options = &ctx.shared.options;
    let token = config.git_hub_token.clone().or_else(|| ctx.github_token())?;
    let api = options.copilot_api.as_deref()?.trim_end_matches('/');
    let tools = config.github_mcp_tool_config.clone().unwrap_or_default();
    let mut headers = json!({"Authorization": format!("Bearer {token}")});
    let more = |first: Option<&str>, further: &[String]| {
        let all = first.into_iter().chain(further.iter().map(String::as_str));
        all.collect::<Vec<_>>().join(",")
    };
    if tools.enable_all_tools {
        headers["X-MCP-Toolsets"] = json!("all");
    } else if !tools.additional_toolsets.is_empty() {
        headers["X-MCP-Toolsets"] = json!(more(Some("default"), &tools.additional_toolsets));
    }
    if !tools.enable_all_tools && !tools.additional_tools.is_empty() {
        headers["X-MCP-Tools"] = json!(more(None, &tools.additional_tools));
    }
    if tools.enable_insiders_mode {
        headers["X-MCP-Insiders"] = json!("true");
    }
    let reads = headers.get("X-MCP-Toolsets").is_none() && headers.get("X-MCP-Tools").is_none();
    let path = if reads { "/mcp/readonly" } else { "/mcp" };
    let server = json!({"type": "http", "url": format!("{api}{path}"), "headers": headers});
    Some(Configured {
        name: SERVER.to_owned(),
        source: Source::Builtin,
        config: ServerConfig::read(&server).map(Admitted::of_program),
    })
}
