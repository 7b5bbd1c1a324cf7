//! What there is for a session, whether it lives already or waits for its first message.

use std::path::{Path, PathBuf};

use ahp_types::state::{
    McpServerErrorState, McpServerReadyState, McpServerStartingState, McpServerState, McpServerStoppedState,
};
use lodge_host::{
    AgentDefinition, AgentError, Available, AvailableServer, CommandInfo, CommandSource, Host, Plugin, Session, Skill,
    mcp::{Logins, ServerInfo, Status},
};

use super::auth;
use crate::{projection::error_info, uri};

/// Everything, with whether each is on.
#[derive(Default)]
pub(super) struct Offer {
    pub(super) agents: Vec<(AgentDefinition, bool)>,
    pub(super) skills: Vec<(Skill, bool)>,
    pub(super) instructions: Vec<(PathBuf, bool)>,
    pub(super) servers: Vec<Server>,
    /// Files with commands, and what they are good for.
    pub(super) commands: Vec<(PathBuf, String, String)>,
    /// Files with hooks, and whether these are run.
    pub(super) hooks: Vec<(PathBuf, bool)>,
}

/// An MCP server.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) uri: String,
    pub(super) on: bool,
    pub(super) state: McpServerState,
    /// The plugin that has it, where no session has it from there.
    pub(super) plugin: Option<PathBuf>,
}

impl Offer {
    /// Of a session that lives.
    pub(super) async fn of(session: &Session, host: &Host) -> Result<Self, AgentError> {
        let files = session.server_files().await?;
        let server = |info: &ServerInfo| Server {
            uri: server_uri(&info.name, files.get(&info.name)),
            on: info.status != Status::Disabled,
            state: state_of(session, host.mcp_logins(), info),
            name: info.name.clone(),
            plugin: None,
        };
        Ok(Self {
            agents: session.found_agents().await?,
            skills: session.skills().await?,
            instructions: session.instruction_files().await,
            commands: session.commands().await.into_iter().filter_map(of_file).collect(),
            hooks: session.hook_files().await?,
            servers: session.mcp().list().iter().map(server).collect(),
        })
    }

    /// Of one that does not live yet.
    pub(super) fn of_draft(available: Available) -> Self {
        let agents = available.agents.into_iter();
        let instructions = available.instructions.into_iter();
        Self {
            agents: agents.map(|agent| (agent, true)).collect(),
            skills: available.skills,
            instructions: instructions.map(|path| (path, true)).collect(),
            servers: available.servers.into_iter().map(waiting).collect(),
            commands: available.commands.into_iter().filter_map(of_file).collect(),
            hooks: available.hooks,
        }
    }

    /// With what there is in plugins that are off, as it is by itself.
    pub(super) async fn with_idle(mut self, host: &Host, cwd: PathBuf, plugins: Vec<Plugin>) -> Self {
        let roots: Vec<PathBuf> = plugins.iter().map(|plugin| plugin.root.clone()).collect();
        let within = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let idle = Self::of_draft(host.available(cwd, plugins).await);
        let agents = idle.agents.into_iter();
        self.agents
            .extend(agents.filter(|(agent, _)| agent.path.as_deref().is_some_and(within)));
        let skills = idle.skills.into_iter();
        self.skills.extend(skills.filter(|(skill, _)| within(&skill.path)));
        let instructions = idle.instructions.into_iter();
        self.instructions.extend(instructions.filter(|(path, _)| within(path)));
        let commands = idle.commands.into_iter();
        self.commands.extend(commands.filter(|(path, ..)| within(path)));
        self.hooks
            .extend(idle.hooks.into_iter().filter(|(path, _)| within(path)));
        let servers = idle.servers.into_iter();
        self.servers.extend(servers.filter(|server| server.plugin.is_some()));
        self
    }
}

/// A command that a file describes.
fn of_file(command: CommandInfo) -> Option<(PathBuf, String, String)> {
    match command.source {
        CommandSource::File(path) => Some((path, command.name, command.description)),
        _ => None,
    }
}

/// A server that nobody needed yet.
fn waiting(server: AvailableServer) -> Server {
    let AvailableServer {
        configured,
        file,
        plugin,
    } = server;
    Server {
        uri: server_uri(&configured.name, file.as_ref()),
        on: !matches!(&configured.config, Ok(config) if config.disabled),
        state: match &configured.config {
            Ok(_) => McpServerState::Stopped(McpServerStoppedState {}),
            Err(error) => failed(error),
        },
        name: configured.name,
        plugin,
    }
}

fn server_uri(name: &str, file: Option<&PathBuf>) -> String {
    match file {
        Some(file) => uri::file(file),
        None => format!("lodge:/mcp/{name}"),
    }
}

fn failed(message: &str) -> McpServerState {
    McpServerState::Error(McpServerErrorState {
        error: error_info("mcp", message),
    })
}

fn state_of(session: &Session, logins: &Logins, info: &ServerInfo) -> McpServerState {
    let stopped = McpServerState::Stopped(McpServerStoppedState {});
    let wanted = || {
        let config = session.mcp().config(&info.name)?;
        let name = info.display_name.as_deref();
        let required = auth::required(logins, &config.remote()?.url, name);
        Some(McpServerState::AuthRequired(Box::new(required)))
    };
    match info.status {
        Status::Pending if session.mcp().is_starting(&info.name) => McpServerState::Starting(McpServerStartingState {
            blocking: session.is_busy().then_some(true),
        }),
        Status::Pending | Status::Disabled | Status::Stopped => stopped,
        // A call may need more than the token reaches to; everything else goes on.
        Status::Connected if auth::waits(session, &info.name) => wanted().unwrap_or(stopped),
        Status::Connected => McpServerState::Ready(McpServerReadyState {}),
        Status::Failed => failed(info.error.as_deref().unwrap_or("It failed.")),
        Status::NeedsAuth => wanted().unwrap_or(stopped),
    }
}
