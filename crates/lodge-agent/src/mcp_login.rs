//! Signing in to a session's MCP servers.

use std::sync::Arc;

use lodge_events::SessionWarning;
use lodge_mcp::{LoginOptions, McpError};

use crate::{AgentError, handle::Agent};

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
