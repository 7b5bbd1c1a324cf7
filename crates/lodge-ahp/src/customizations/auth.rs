//! Tokens for MCP servers. A server that wants somebody to sign in says so in its state; a client that got a token for it
//! brings it by `authenticate`. The host keeps it in memory, for all sessions with that server, until it is taken back,
//! too old, or rejected.

use std::{sync::Arc, time::Duration};

use ahp_types::state::{McpAuthRequiredReason, McpServerAuthRequiredState, ProtectedResourceMetadata};
use lodge_host::mcp::{AuthReason, AuthRequest, Logins, McpError, Secret, ServerInfo, Servers, Status};
use serde_json::json;

use crate::{
    face::Face,
    rpc::{RpcError, code},
};

/// What a server at this address wants, as far as it said.
pub(super) fn required(logins: &Logins, url: &str, name: Option<&str>) -> McpServerAuthRequiredState {
    let said = logins.wanted().into_iter().find(|said| said.url == url);
    let scope = said.as_ref().and_then(|said| said.challenge.as_ref()?.scope.clone());
    let scopes: Vec<String> = scope
        .iter()
        .flat_map(|scope| scope.split_whitespace())
        .map(str::to_owned)
        .collect();
    let mut resource = said.as_ref().map_or_else(|| bare(url), resource);
    resource.resource_name = resource.resource_name.or_else(|| name.map(str::to_owned));
    McpServerAuthRequiredState {
        reason: match said.map(|said| said.reason) {
            None | Some(AuthReason::Initial) => McpAuthRequiredReason::Required,
            Some(AuthReason::Refresh | AuthReason::Reauth) => McpAuthRequiredReason::Expired,
            Some(AuthReason::Upscope) => McpAuthRequiredReason::InsufficientScope,
        },
        oauth_client: None,
        resource,
        required_scopes: (!scopes.is_empty()).then_some(scopes),
        description: None,
    }
}

/// What a server is called as a resource.
fn resource(said: &AuthRequest) -> ProtectedResourceMetadata {
    metadata(said).unwrap_or_else(|| bare(&said.url))
}

/// A server's own word about itself. One that speaks of another resource than it is would get a token that is not for it.
fn metadata(said: &AuthRequest) -> Option<ProtectedResourceMetadata> {
    let said_of: ProtectedResourceMetadata = serde_json::from_str(said.resource_metadata.as_deref()?).ok()?;
    let rest = said.url.strip_prefix(said_of.resource.trim_end_matches('/'))?;
    let has_host = said_of
        .resource
        .split_once("://")
        .is_some_and(|(_, host)| !host.trim_matches('/').is_empty());
    (has_host && (rest.is_empty() || rest.starts_with(['/', '?']))).then_some(said_of)
}

fn bare(url: &str) -> ProtectedResourceMetadata {
    ProtectedResourceMetadata {
        resource: url.to_owned(),
        resource_name: None,
        authorization_servers: None,
        jwks_uri: None,
        scopes_supported: None,
        bearer_methods_supported: None,
        resource_signing_alg_values_supported: None,
        resource_documentation: None,
        resource_policy_uri: None,
        resource_tos_uri: None,
        required: None,
    }
}

impl Face {
    /// Takes a token for a resource that MCP servers asked for, or takes it back when it is empty.
    pub(crate) async fn authenticate(
        self: &Arc<Self>,
        name: &str,
        token: &str,
        good_for: Option<Duration>,
    ) -> Result<(), RpcError> {
        let logins = self.host.mcp_logins();
        let mut asked = logins.wanted();
        asked.retain(|said| resource(said).resource == name);
        if asked.is_empty() {
            return Err(RpcError::params(format!("this host asks for no token for {name:?}")));
        }
        let give = |token: Option<Secret>| {
            let urls = asked.iter().map(|said| &said.url);
            urls.for_each(|url| logins.give(url, token.clone(), good_for));
        };
        if token.is_empty() {
            give(None);
            for (servers, info) in self.servers_at(&asked, Status::Connected) {
                // The token that it knows is no longer for it.
                self.tasks.spawn(async move { servers.restart(&info.name).await });
            }
            return Ok(());
        }
        give(Some(Secret(token.to_owned())));
        for (servers, info) in self.servers_at(&asked, Status::NeedsAuth) {
            // Whether the token is good is for the server to say. Whatever else keeps it from starting is in its state.
            if let Err(McpError::NeedsAuth(_)) = servers.start(&info.name).await {
                give(None);
                let error = RpcError::new(code::AUTH_REQUIRED, format!("the token for {name} is not accepted"));
                return Err(error.with(json!({ "resources": [resource(&asked[0])] })));
            }
        }
        Ok(())
    }

    /// The servers of open sessions that are at these addresses and in this state.
    fn servers_at(&self, asked: &[AuthRequest], status: Status) -> Vec<(Servers, ServerInfo)> {
        let ids: Vec<String> = {
            let inner = self.inner.lock();
            inner.talks.values().map(|talk| talk.host_id.clone()).collect()
        };
        let mut found = Vec::new();
        for session in ids.iter().filter_map(|id| self.host.live(id)) {
            let servers = session.mcp();
            for info in servers.list().into_iter().filter(|info| info.status == status) {
                let config = servers.config(&info.name);
                let remote = config.as_ref().and_then(|config| config.remote());
                if remote.is_some_and(|remote| asked.iter().any(|said| said.url == remote.url)) {
                    found.push((servers.clone(), info));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_speaks_for_itself_alone() {
        for (resource, believed) in [
            ("https://a.example/mcp", true),
            ("https://a.example/", true),
            ("https://a.example", true),
            ("https://a.example/mc", false),
            ("https://a.exam", false),
            ("https://api.github.com", false),
            ("https://", false),
            ("", false),
        ] {
            let said = AuthRequest {
                url: "https://a.example/mcp".into(),
                reason: AuthReason::Initial,
                challenge: None,
                resource_metadata: Some(json!({ "resource": resource }).to_string()),
                client: lodge_host::mcp::OauthClient::default(),
                rejected: None,
            };
            assert_eq!(metadata(&said).is_some(), believed, "{resource}");
        }
    }
}
