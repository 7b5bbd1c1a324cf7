//! What a GitHub token is good for, where the environment names a place for that: who it belongs to, and GitHub's own MCP
//! server.

use futures_util::StreamExt;
use lodge_host::mcp::{Configured, ServerConfig, Source};
use lodge_models::{HttpRequest, Network, Transport};
use serde_json::{Value, json};

use crate::{config::SessionConfig, connection::Ctx};

/// The name of GitHub's own MCP server.
pub(crate) const SERVER: &str = "github-mcp-server";

/// The answer is a small object; what is longer is none.
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

/// GitHub's own MCP server, for an app that asks for what there is to be found, and has a token. It only reads, unless the
/// app wants all of its tools or some more.
pub(crate) fn server(ctx: &Ctx, config: &SessionConfig) -> Option<Configured> {
    if config.enable_config_discovery != Some(true) {
        return None;
    }
    let options = &ctx.shared.options;
    let token = config.git_hub_token.as_ref().or(options.github_token.as_ref())?;
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
        config: ServerConfig::read(&server),
    })
}
