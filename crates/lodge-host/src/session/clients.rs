//! Clients connected to the process that runs the session, and the objects that they bring. None of this can be sent to another
//! host or read back from a log.

use std::path::Path;

use lodge_agent::{AgentError, ClientId, ClientSpec, ElicitationAnswer, Supply};
use lodge_events::ElicitationRequested;
use lodge_mcp::{Configured, LoginOptions};
use lodge_tools::{OutputSink, UserCommand};
use serde_json::Value;

use super::Session;
use crate::{Host, HostError};

/// An attached client. Dropping it detaches; what it was asked stays open for others.
pub struct Attachment {
    session: Session,
    id: ClientId,
}

impl Attachment {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Tells what the client can do now.
    pub fn update(&self, client: ClientSpec) {
        self.session.agent().update(self.id, client);
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.session.agent().detach(self.id);
    }
}

impl Session {
    /// Attaches a client for as long as the attachment is kept.
    pub async fn attach_client(&self, client: ClientSpec) -> Result<Attachment, AgentError> {
        let id = self.agent().attach(client).await?;
        Ok(Attachment {
            session: self.clone(),
            id,
        })
    }

    /// How many clients are attached.
    pub fn clients(&self) -> usize {
        self.agent().clients()
    }

    /// Uses something that a client brings, for as long as the session is in memory.
    pub async fn supply(&self, supply: Supply) -> Result<(), AgentError> {
        self.agent().supply(supply).await
    }

    /// Goes on with the same model of another caller's catalogue, in which keys may have changed. A session that had the
    /// default of the catalogue before gets the default of the new one.
    pub async fn renew_model(&self, before: &Host, now: &Host) -> Result<(), HostError> {
        let current = self.agent().settings().model;
        let wanted = match current.info().id == before.models().default_model() {
            true => now.models().default_model(),
            false => current.info().id.clone(),
        };
        let model = now.resolve_model(Some(&wanted))?;
        if std::sync::Arc::ptr_eq(&model, &current) {
            return Ok(());
        }
        Ok(self.supply(Supply::model(model)).await?)
    }

    /// Adds MCP servers, or gives them another configuration. They start when they are needed.
    pub fn add_mcp_servers(&self, servers: Vec<Configured>) {
        self.agent().add_mcp_servers(servers);
    }

    /// Signs in to an MCP server. Answers with the address that the person has to open, or nothing when it works without;
    /// the rest goes on beside, and the server starts when it is done. `anew` forgets what was signed in to before.
    pub async fn mcp_login(
        &self,
        server: &str,
        options: LoginOptions,
        anew: bool,
    ) -> Result<Option<String>, AgentError> {
        self.agent().mcp_login(server, options, anew).await
    }

    /// Forgets what was signed in to, and ends the server's connection. False when nobody had signed in.
    pub fn mcp_logout(&self, server: &str) -> Result<bool, AgentError> {
        self.agent().mcp_logout(server)
    }

    /// Asks the session's model on behalf of an MCP server, for an app that deals with what servers ask. Both are in MCP's
    /// form; the error says why there is no answer.
    pub async fn sample(&self, request: &Value) -> Result<Value, String> {
        self.agent().sample(request).await
    }

    /// Does what the first turn would do before it begins: looks for skills and agents, and starts MCP servers.
    pub async fn prepare(&self) -> Result<(), AgentError> {
        self.agent().prepare().await
    }

    /// Runs a command for a person, beside the agent and in its working directory unless another is named.
    pub fn run_for_user(&self, command: &str, cwd: Option<&Path>, out: OutputSink) -> Result<UserCommand, AgentError> {
        self.agent().run_for_user(command, cwd, out)
    }

    /// Has the client that brought a slash command run it, and waits until it did.
    pub async fn run_client_command(&self, name: &str, args: &str) -> Result<(), AgentError> {
        self.agent().run_client_command(name, args).await
    }

    /// Asks whoever can show forms, and waits for the answer.
    pub async fn elicit(&self, question: ElicitationRequested) -> Result<ElicitationAnswer, AgentError> {
        self.agent().elicit(question).await
    }

    /// Tells hooks that an app shows the person a question about permission.
    pub async fn permission_prompt_shown(&self, message: &str) -> Result<(), AgentError> {
        self.agent().permission_prompt_shown(message).await
    }

    /// Asks the model something about the conversation that does not become part of it.
    pub async fn ask_aside(&self, question: String) -> Result<String, AgentError> {
        self.agent().ask_aside(question).await
    }
}
