//! Tokens for MCP servers. A server that wants somebody to sign in says so in its state; a client that got a token for it
//! brings it by `authenticate`. The host keeps it in memory, for all sessions with that server, until it is taken back,
//! too old, or rejected.

use std::{sync::Arc, time::Duration};

use ahp_types::state::{
    ChildCustomization, Customization, McpAuthRequiredReason, McpServerAuthRequiredState, McpServerCustomization,
    McpServerState, ProtectedResourceMetadata,
};
use lodge_host::mcp::{AuthReason, AuthRequest, Logins, McpError, Secret, Status};
use serde_json::json;

use super::server_of;
use crate::{
    face::Face,
    rpc::{RpcError, code},
};

/// What a server at this address wants, as far as it said.
pub(super) fn required(logins: &Logins, url: &str, name: Option<&str>) -> McpServerAuthRequiredState {
    let said = logins.wanted(url);
    let scope = said.as_ref().and_then(|said| said.challenge.as_ref()?.scope.clone());
    let scopes: Vec<String> = scope
        .iter()
        .flat_map(|scope| scope.split_whitespace())
        .map(str::to_owned)
        .collect();
    let mut resource = said.as_ref().and_then(metadata).unwrap_or_else(|| bare(url));
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

/// The MCP servers in a list.
fn servers(all: &[Customization]) -> impl Iterator<Item = &McpServerCustomization> {
    all.iter().flat_map(|one| {
        let (own, children) = match one {
            Customization::McpServer(server) => (Some(&**server), None),
            Customization::Plugin(plugin) => (None, plugin.children.as_deref()),
            _ => (None, None),
        };
        let children = children.into_iter().flatten().filter_map(|child| match child {
            ChildCustomization::McpServer(server) => Some(&**server),
            _ => None,
        });
        own.into_iter().chain(children)
    })
}

/// A server of a session that waits for somebody to sign in.
struct Waiting {
    host_id: String,
    server: String,
    resource: ProtectedResourceMetadata,
}

impl Face {
    /// Takes a token for a resource that MCP servers asked for, or takes it back when it is empty.
    pub(crate) async fn authenticate(
        self: &Arc<Self>,
        resource: &str,
        token: &str,
        good_for: Option<Duration>,
    ) -> Result<(), RpcError> {
        let waiting = self.waiting_for(resource);
        let mut urls = self.tokens.lock().get(resource).cloned().unwrap_or_default();
        let mut sessions = Vec::new();
        for one in waiting {
            let Some(session) = self.host.live(&one.host_id) else {
                continue;
            };
            let config = session.mcp().config(&one.server);
            let Some(url) = config.as_ref().and_then(|config| Some(config.remote()?.url.clone())) else {
                continue;
            };
            if !urls.contains(&url) {
                urls.push(url);
            }
            sessions.push((session, one));
        }
        if urls.is_empty() {
            return Err(RpcError::params(format!(
                "this host asks for no token for {resource:?}"
            )));
        }
        let logins = self.host.mcp_logins();
        for url in &urls {
            let token = (!token.is_empty()).then(|| Secret(token.to_owned()));
            logins.give(url, token, good_for);
        }
        if token.is_empty() {
            self.tokens.lock().remove(resource);
            self.sign_out(&urls);
            return Ok(());
        }
        self.tokens.lock().insert(resource.to_owned(), urls.clone());
        for (session, one) in sessions {
            // Whether the token is good is for the server to say. Whatever else keeps it from starting is in its state.
            if let Err(McpError::NeedsAuth(_)) = session.mcp().start(&one.server).await {
                urls.iter().for_each(|url| logins.give(url, None, None));
                self.tokens.lock().remove(resource);
                let error = RpcError::new(code::AUTH_REQUIRED, format!("the token for {resource} is not accepted"));
                return Err(error.with(json!({ "resources": [one.resource] })));
            }
        }
        Ok(())
    }

    /// Starts servers anew that are at these addresses: the token that they know is no longer for them.
    fn sign_out(&self, urls: &[String]) {
        let ids: Vec<String> = {
            let inner = self.inner.lock();
            inner.talks.values().map(|talk| talk.host_id.clone()).collect()
        };
        for session in ids.iter().filter_map(|id| self.host.live(id)) {
            for info in session.mcp().list() {
                let config = session.mcp().config(&info.name);
                let remote = config.as_ref().and_then(|config| config.remote());
                if info.status == Status::Connected && remote.is_some_and(|remote| urls.contains(&remote.url)) {
                    let servers = session.mcp().clone();
                    self.tasks.spawn(async move { servers.restart(&info.name).await });
                }
            }
        }
    }

    fn waiting_for(&self, resource: &str) -> Vec<Waiting> {
        let inner = self.inner.lock();
        let mut waiting = Vec::new();
        for entry in inner.core.sessions.values() {
            let Some(talk) = inner.talks.get(&entry.default_chat) else {
                continue;
            };
            for server in servers(entry.state.customizations.as_deref().unwrap_or_default()) {
                if let (McpServerState::AuthRequired(state), Some(name)) = (&server.state, server_of(&server.id))
                    && state.resource.resource == resource
                {
                    waiting.push(Waiting {
                        host_id: talk.host_id.clone(),
                        server: name.to_owned(),
                        resource: state.resource.clone(),
                    });
                }
            }
        }
        waiting
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
