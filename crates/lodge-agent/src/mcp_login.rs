//! Signing in to a session's MCP servers.

use std::{sync::Arc, time::Duration};

use lodge_events::{McpOauthCompleted, OauthOutcome, SessionWarning};
use lodge_mcp::{LoginOptions, McpError, Secret, Status};

use crate::{
    AgentError,
    answer::{Answer, QuestionKind, sign_in_id},
    handle::Agent,
    mcp::oauth_event,
    session::Shared,
    tool_call::Call,
    turn::Stop,
};

/// How long a call waits for a person to sign in.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

impl Call<'_> {
    /// Waits until somebody who watches has signed in to the server that refused this call. False when nobody can, or does.
    pub(crate) async fn sign_in(&self, server: &str) -> Result<bool, Stop> {
        let shared = &self.turn.shared;
        let calls = {
            let clients = shared.clients.lock();
            // Whoever answers such questions was asked already, by the connection itself.
            if clients.any(|can| can.mcp_tokens) {
                return Ok(false);
            }
            clients.calls(|_| true)
        };
        let config = shared.mcp.config(server);
        let url = config
            .as_ref()
            .and_then(|config| config.remote())
            .map(|remote| &remote.url);
        let Some(request) = url
            .filter(|_| calls.iter().any(|calls| calls.signs_in()))
            .and_then(|url| shared.logins.wanted_at(url))
        else {
            return Ok(false);
        };
        let request_id = sign_in_id(self.id);
        let waiting = shared.pending.open(&request_id, QuestionKind::McpToken);
        let event = oauth_event(request_id.clone(), server.to_owned(), request.clone());
        let event = shared.recorder.record(event)?;
        shared.pending.asked(&request_id, event);
        let mut asked = Asked {
            shared,
            request_id,
            outcome: OauthOutcome::Cancelled,
        };
        // Somebody may have been quicker than the question.
        let token = match request.newer_token(&shared.logins) {
            Some(token) => Some(token),
            None => match tokio::time::timeout(PATIENCE, waiting).await {
                Ok(Ok(Answer::McpToken(token))) => token.map(|token| token.0),
                _ => None,
            },
        };
        if let Some(token) = &token {
            if shared.logins.token(&request.url).as_ref() != Some(token) {
                shared.logins.give(&request.url, Some(Secret(token.clone())), None);
            }
            // What keeps it from starting the call will find out.
            if shared
                .mcp
                .info(server)
                .is_some_and(|info| info.status != Status::Connected)
            {
                let _ = shared.mcp.start(server).await;
            }
        }
        if token.is_some() {
            asked.outcome = OauthOutcome::Token;
        }
        Ok(token.is_some())
    }
}

/// Tells how a question for a login ended, also when nobody waits for it any more.
struct Asked<'a> {
    shared: &'a Shared,
    request_id: String,
    outcome: OauthOutcome,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.shared.pending.close(&self.request_id);
        self.shared.recorder.note(McpOauthCompleted {
            request_id: std::mem::take(&mut self.request_id),
            outcome: self.outcome.clone(),
        });
    }
}

impl Agent {
    /// Signs in to an MCP server. Answers with the address that the person has to open, or nothing when it works without;
    /// the rest goes on beside, and the server starts when it is done. `anew` forgets what was signed in to before.
    pub async fn mcp_login(
        &self,
        server: &str,
        mut options: LoginOptions,
        anew: bool,
    ) -> Result<Option<String>, AgentError> {
        let refused = |error: McpError| AgentError::Refused(error.to_string());
        let servers = self.mcp();
        let unknown = || refused(McpError::NotConfigured(server.to_owned()));
        let config = servers.config(server).ok_or_else(unknown)?;
        let Some(remote) = config.remote() else {
            let text = format!("MCP server \"{server}\" is not a remote server");
            return Err(AgentError::Refused(text));
        };
        let logins = self.shared.logins.clone();
        if anew {
            logins.forget(&remote.url);
        } else if logins.token(&remote.url).is_some() && servers.restart(server).await.is_ok() {
            return Ok(None);
        }
        if options.client.id.is_none() {
            options.client = config.oauth.clone();
        }
        let login = logins.begin(&remote.url, options).await.map_err(refused)?;
        let address = login.url.clone();
        let (shared, server) = (Arc::downgrade(&self.shared), server.to_owned());
        tokio::spawn(async move {
            let ended = login.ended().await;
            // Not held while the person thinks.
            let Some(shared) = shared.upgrade() else { return };
            match ended {
                // How that went is told by the server's state.
                Ok(()) => drop(shared.mcp.restart(&server).await),
                Err(error) => shared.recorder.note(SessionWarning {
                    warning_type: "mcp_oauth".into(),
                    message: format!("MCP server \"{server}\": {error}"),
                    ..Default::default()
                }),
            }
        });
        Ok(Some(address))
    }

    /// Forgets what was signed in to, and ends the server's connection. False when nobody had signed in.
    pub fn mcp_logout(&self, server: &str) -> Result<bool, AgentError> {
        let servers = self.mcp();
        let config = servers.config(server);
        let url = config
            .as_ref()
            .and_then(|config| config.remote())
            .map(|remote| &remote.url);
        let forgotten = url.is_some_and(|url| self.shared.logins.forget(url));
        if forgotten {
            servers
                .stop(server)
                .map_err(|error| AgentError::Refused(error.to_string()))?;
        }
        Ok(forgotten)
    }
}
