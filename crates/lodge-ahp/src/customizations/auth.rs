//! Tokens for MCP servers. A server that wants somebody to sign in says so in its state; a client that got a token for it
//! brings it by `authenticate`. The host keeps it in memory, for all sessions with that server, until it is taken back,
//! too old, or rejected.

use std::{sync::Arc, time::Duration};

use ahp_types::state::{
    McpAuthRequiredReason, McpAuthRequirement, McpOAuthClient, McpServerAuthRequiredState, ProtectedResourceMetadata,
};
use lodge_events::{McpOauthRequired, OauthReason, Payload};
use lodge_host::{
    AccessToken, Answer, ClientCalls, QuestionKind, Session,
    mcp::{AuthReason, AuthRequest, Logins, McpError, Secret, ServerInfo, Servers, Status},
};
use serde_json::json;

use crate::{
    face::Face,
    rpc::{RpcError, code},
    state::Uri,
    version::Dialect,
};

/// What a server said that wants somebody to sign in.
#[derive(Default)]
struct AuthReply<'a> {
    url: &'a str,
    reason: Option<AuthReason>,
    scope: Option<&'a str>,
    metadata: Option<&'a str>,
    /// A client that is to be used and has no secret. One that has is the host's own.
    client: Option<&'a str>,
}

impl<'a> AuthReply<'a> {
    fn of(request: &'a AuthRequest) -> Self {
        Self {
            url: &request.url,
            reason: Some(request.reason),
            scope: request.challenge.as_ref().and_then(|said| said.scope.as_deref()),
            metadata: request.resource_metadata.as_deref(),
            client: request
                .client
                .id
                .as_deref()
                .filter(|_| request.client.public.unwrap_or(request.client.secret.is_none())),
        }
    }

    fn scopes(&self) -> Vec<String> {
        let scopes = self.scope.into_iter().flat_map(str::split_whitespace);
        scopes.map(str::to_owned).collect()
    }

    /// What the server is called as a resource: by its own word about itself. One that speaks of what is elsewhere would
    /// get a token that is not for it.
    fn resource(&self) -> ProtectedResourceMetadata {
        let said = self
            .metadata
            .and_then(|text| serde_json::from_str::<ProtectedResourceMetadata>(text).ok())
            .filter(|said| origin(&said.resource).is_some() && origin(&said.resource) == origin(self.url));
        said.unwrap_or_else(|| bare(self.url))
    }

    fn required(&self, name: Option<&str>) -> McpAuthRequirement {
        let scopes = self.scopes();
        let mut resource = self.resource();
        resource.resource_name = resource.resource_name.or_else(|| name.map(str::to_owned));
        McpAuthRequirement {
            reason: match self.reason {
                None | Some(AuthReason::Initial) => McpAuthRequiredReason::Required,
                Some(AuthReason::Refresh | AuthReason::Reauth) => McpAuthRequiredReason::Expired,
                Some(AuthReason::Upscope) => McpAuthRequiredReason::InsufficientScope,
            },
            oauth_client: self.client.map(|id| McpOAuthClient {
                client_id: id.to_owned(),
                client_secret: None,
            }),
            resource,
            required_scopes: (!scopes.is_empty()).then_some(scopes),
            description: None,
        }
    }
}

/// Scheme, host and port.
fn origin(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())?;
    uri.get(..scheme.len() + "://".len() + host.len())
}

/// What a server at this address wants, as far as it said.
pub(super) fn required(logins: &Logins, url: &str, name: Option<&str>) -> McpServerAuthRequiredState {
    let wanted = logins.wanted_at(url);
    let said = wanted.as_ref().map(AuthReply::of);
    let said = said.unwrap_or_else(|| AuthReply {
        url,
        ..AuthReply::default()
    });
    let required = said.required(name);
    McpServerAuthRequiredState {
        reason: required.reason,
        oauth_client: required.oauth_client,
        resource: required.resource,
        required_scopes: required.required_scopes,
        description: required.description,
    }
}

/// What a call waits for.
pub(crate) fn requirement(asked: &McpOauthRequired) -> McpAuthRequirement {
    let client = asked.static_client_config.as_ref();
    let challenge = asked.www_authenticate_params.as_ref();
    let said = AuthReply {
        url: &asked.server_url,
        reason: Some(match asked.reason {
            OauthReason::Upscope => AuthReason::Upscope,
            OauthReason::Refresh => AuthReason::Refresh,
            OauthReason::Reauth => AuthReason::Reauth,
            _ => AuthReason::Initial,
        }),
        scope: challenge.and_then(|said| said.scope.as_deref()),
        metadata: asked.resource_metadata.as_deref(),
        client: client
            .filter(|client| client.public_client.unwrap_or(client.client_secret.is_none()))
            .map(|client| client.client_id.as_str()),
    };
    said.required(Some(&asked.server_name))
}

/// What calls of a session wait for: the questions, and the addresses of the servers.
fn asked(session: &Session) -> impl Iterator<Item = (String, McpOauthRequired)> {
    let questions = session.pending().into_iter();
    let questions = questions.filter(|question| question.kind == QuestionKind::McpToken);
    questions.filter_map(|question| match question.event.payload() {
        Payload::McpOauthRequired(asked) => Some((question.request_id, (**asked).clone())),
        _ => None,
    })
}

/// Whether a call waits until somebody signs in to this server.
pub(super) fn waits(session: &Session, server: &str) -> bool {
    asked(session).any(|(_, asked)| asked.server_name == server)
}

/// The client of this project on a terminal, which gets no tokens.
const TERMINAL: &str = "lodge-attach";

/// The face as the agent of a chat knows it.
pub(crate) struct Watchers {
    pub(crate) face: std::sync::Weak<Face>,
    pub(crate) chat: Uri,
}

impl ClientCalls for Watchers {
    /// Where nobody listens who knows what that is, nobody will.
    fn signs_in(&self) -> bool {
        let Some(face) = self.face.upgrade() else { return false };
        let inner = face.inner.lock();
        let session = inner.conversations.get(&self.chat).map(|talk| &talk.session);
        let channels = session.into_iter().chain([&self.chat]);
        channels
            .filter_map(|uri| inner.core.channel(uri))
            .flat_map(|channel| &channel.subscribers)
            .any(|subscriber| subscriber.peer.dialect == Dialect::Modern && subscriber.peer.name != TERMINAL)
    }
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
        scopes: Option<&[String]>,
        good_for: Option<Duration>,
    ) -> Result<(), RpcError> {
        let logins = self.host.mcp_logins();
        let failed = |wanted: Vec<ProtectedResourceMetadata>| {
            let error = RpcError::new(
                code::AUTH_REQUIRED,
                format!("Authentication failed for resource: {name}"),
            );
            Err(error.with(json!({ "resources": wanted })))
        };
        let mut asked = logins.wanted();
        asked.retain(|said| AuthReply::of(said).resource().resource == name);
        // Where somebody says what a token reaches to, it must reach far enough.
        let reaches = |said: &AuthRequest| {
            token.is_empty()
                || scopes.is_none_or(|given| AuthReply::of(said).scopes().iter().all(|scope| given.contains(scope)))
        };
        if asked.is_empty() || !asked.iter().all(reaches) {
            return failed(asked.iter().map(|said| AuthReply::of(said).resource()).collect());
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
                return failed(vec![AuthReply::of(&asked[0]).resource()]);
            }
        }
        for session in self.live_sessions() {
            let waiting: Vec<_> = self::asked(&session)
                .filter(|(_, waits)| asked.iter().any(|said| said.url == waits.server_url))
                .collect();
            for (request_id, _) in waiting {
                let answer = Answer::McpToken(Some(AccessToken(token.to_owned())));
                // It may have given up by now.
                let _ = session.answer(&request_id, answer, Default::default()).await;
            }
        }
        Ok(())
    }

    fn live_sessions(&self) -> Vec<Session> {
        let ids: Vec<String> = {
            let inner = self.inner.lock();
            inner.conversations.values().map(|talk| talk.host_id.clone()).collect()
        };
        ids.iter().filter_map(|id| self.host.live(id)).collect()
    }

    /// The servers of open sessions that are at these addresses and in this state.
    fn servers_at(&self, asked: &[AuthRequest], status: Status) -> Vec<(Servers, ServerInfo)> {
        let mut found = Vec::new();
        for session in self.live_sessions() {
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
            ("https://a.example/canonical", true),
            ("https://a.exam", false),
            ("https://a.example:444/mcp", false),
            ("http://a.example/mcp", false),
            ("https://api.github.com", false),
            ("https://", false),
            ("", false),
        ] {
            let metadata = json!({ "resource": resource, "resource_name": "itself" }).to_string();
            let said = AuthReply {
                url: "https://a.example/mcp",
                metadata: Some(&metadata),
                ..AuthReply::default()
            };
            assert_eq!(said.resource().resource_name.is_some(), believed, "{resource}");
        }
    }
}
