//! Clients connected to the process that runs the session, and the objects that they bring. None of this can be sent to another
//! host or read back from a log.

use std::path::Path;

use lodge_agent::{
    AgentError, Approval, ApprovalForRun, ClientId, ClientSpec, ElicitationAnswer, FactoryAgent, NewTask, Supply,
};
use lodge_events::ElicitationRequested;
use lodge_mcp::{Configured, LoginOptions};
use lodge_tools::{OutputSink, UserCommand};
use serde_json::Value;

use super::Session;
use crate::{Host, HostError};

/// An attached client. Dropping it detaches the client; questions put to it stay open for others.
pub struct Attachment {
    session: Session,
    id: ClientId,
}

impl Attachment {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Changes the client's capabilities.
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
    /// Attaches a client for as long as the attachment exists.
    pub async fn attach_client(&self, client: ClientSpec) -> Result<Attachment, AgentError> {
        let id = self.agent().attach(client).await?;
        Ok(Attachment {
            session: self.clone(),
            id,
        })
    }

    /// Changes what is asked before tools run until the guard is dropped, and records nothing of it. Somebody who changes the
    /// session's own mode ends it, too.
    pub fn approve_for_run(&self, approval: Approval) -> Result<ApprovalForRun, AgentError> {
        self.agent().approve_for_run(approval)
    }

    /// How many clients are attached.
    pub fn clients(&self) -> usize {
        self.agent().clients()
    }

    /// Uses something that a client supplies, for as long as the session is in memory.
    pub async fn supply(&self, supply: Supply) -> Result<(), AgentError> {
        self.agent().supply(supply).await
    }

    /// Continues with the same model of another caller's catalogue, in which keys may have changed. A session with the
    /// old catalogue's default gets the new one's.
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

    /// Adds or reconfigures MCP servers. They start when they are needed, unless people turned them off.
    pub fn add_mcp_servers(&self, servers: Vec<Configured>) {
        self.agent().add_mcp_servers(servers);
        self.stop_servers_that_are_off();
    }

    /// Signs in to an MCP server. Returns the address that the person has to open, or `None` if no sign-in is needed.
    /// The sign-in continues in the background, and the server starts when it is done. `anew` forgets an earlier
    /// sign-in.
    pub async fn mcp_login(
        &self,
        server: &str,
        options: LoginOptions,
        anew: bool,
    ) -> Result<Option<String>, AgentError> {
        self.agent().mcp_login(server, options, anew).await
    }

    /// Signs out, and closes the server's connection. False if nobody had signed in.
    pub fn mcp_logout(&self, server: &str) -> Result<bool, AgentError> {
        self.agent().mcp_logout(server)
    }

    /// Sends an MCP server's prompt to the session's model, for an app that handles sampling. Both sides are in MCP's
    /// form; the error says why there is no answer.
    pub async fn sample(&self, request: &Value) -> Result<Value, String> {
        self.agent().sample(request).await
    }

    /// Does the preparation of the first turn: looks for skills and agents, and starts MCP servers.
    pub async fn prepare(&self) -> Result<(), AgentError> {
        self.agent().prepare().await
    }

    /// Runs a command for a person, in the agent's working directory unless another is named.
    pub async fn run_for_user(
        &self,
        command: &str,
        cwd: Option<&Path>,
        out: OutputSink,
    ) -> Result<UserCommand, AgentError> {
        self.agent().run_for_user(command, cwd, out).await
    }

    /// Starts a sub-agent for a factory run of a client. It stops when the client has no more use for it.
    pub async fn start_factory_agent(&self, new: NewTask, run_id: &str) -> Result<FactoryAgent, AgentError> {
        self.agent().start_factory_agent(new, run_id).await
    }

    /// Lets the client that provides a slash command run it, and waits for the end.
    pub async fn run_client_command(&self, name: &str, args: &str) -> Result<(), AgentError> {
        self.agent().run_client_command(name, args).await
    }

    /// Asks a client that can show forms, and waits for the answer.
    pub async fn elicit(&self, question: ElicitationRequested) -> Result<ElicitationAnswer, AgentError> {
        self.agent().elicit(question).await
    }

    /// Notifies hooks that an app shows the person a permission request.
    pub async fn permission_prompt_shown(&self, message: &str) -> Result<(), AgentError> {
        self.agent().permission_prompt_shown(message).await
    }

    /// Asks the model a side question, which does not become part of the conversation.
    pub async fn ask_aside(&self, question: String) -> Result<String, AgentError> {
        self.agent().ask_aside(question).await
    }
}
