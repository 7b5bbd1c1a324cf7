//! What there is for a session, whether it lives already or waits for its first message.

use std::path::{Path, PathBuf};

use ahp_types::state::{
    ErrorInfo, McpServerErrorState, McpServerReadyState, McpServerStartingState, McpServerState, McpServerStoppedState,
};
use lodge_host::{
    AgentDefinition, AgentError, CommandInfo, CommandSource, Customization, GitContext, HookFiles, Host, Plugin,
    Session, Skill, Trust,
    mcp::{
        Configured, Logins, ServerInfo, Source, Status,
        files::{file_of, of_plugin},
    },
};

use super::auth;
use crate::uri;

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
        let mut offer = Self {
            agents: session.found_agents().await?,
            skills: session.skills().await?,
            instructions: session.instruction_files().await,
            ..Self::default()
        };
        offer.commands = session.commands().await.into_iter().filter_map(of_file).collect();
        let servers = session.mcp().list();
        let (session, host, settings) = (session.clone(), host.clone(), session.settings());
        let look = move || {
            let home = host.home().path();
            let server = |info: &ServerInfo| Server {
                uri: server_uri(info.source, &info.name, home, &settings.cwd),
                on: info.status != Status::Disabled,
                state: state_of(&session, host.mcp_logins(), info),
                name: info.name.clone(),
                plugin: None,
            };
            let plugins = settings.customization.all_plugins();
            let hooks = Trust::at(home).hook_files(&settings.cwd, settings.hook_files, plugins);
            (servers.iter().map(server).collect(), hooks)
        };
        (offer.servers, offer.hooks) = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        Ok(offer)
    }

    /// Of one that will work in this directory. Reads files.
    pub(super) fn of_draft(host: &Host, cwd: &Path, plugins: Vec<Plugin>) -> Self {
        let commands = host.commands(cwd, &plugins).into_iter().filter_map(of_file).collect();
        let custom = Customization {
            places: host.places(),
            disabled_skills: host.disabled_skills(),
            plugins,
            ..Customization::default()
        };
        let hooks = Trust::at(host.home().path()).hook_files(cwd, HookFiles::default(), &custom.plugins);
        let skills = custom.find_skills(cwd).all.into_iter();
        let root = GitContext::of(cwd).root;
        let instructions = lodge_host::instructions(cwd, root.as_deref(), &[]).into_iter();
        let home = host.home().path();
        let mut servers = waiting(host.configured_servers(cwd), home, cwd);
        for plugin in &custom.plugins {
            for mut server in waiting(servers_of(plugin), home, cwd) {
                if servers.iter().all(|known| known.name != server.name) {
                    server.plugin = Some(plugin.root.clone());
                    servers.push(server);
                }
            }
        }
        Self {
            agents: custom
                .find_agents(cwd)
                .all
                .into_iter()
                .map(|agent| (agent, true))
                .collect(),
            skills: skills
                .map(|skill| (!custom.disabled_skills.contains(&skill.name), skill))
                .map(|(on, skill)| (skill, on))
                .collect(),
            instructions: instructions.map(|found| (found.path, true)).collect(),
            servers,
            commands,
            hooks,
        }
    }

    /// With what there is in plugins that are off, as it is by itself. Reads files.
    pub(super) fn with_idle(mut self, host: &Host, cwd: &Path, plugins: Vec<Plugin>) -> Self {
        let roots: Vec<PathBuf> = plugins.iter().map(|plugin| plugin.root.clone()).collect();
        let within = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let idle = Self::of_draft(host, cwd, plugins);
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

/// The MCP servers that a plugin describes. Reads files.
pub(super) fn servers_of(plugin: &Plugin) -> Vec<Configured> {
    let names = lodge_host::PLUGIN_ROOT_VARIABLES;
    of_plugin(
        &plugin.servers,
        plugin.own_servers.clone(),
        &names,
        &plugin.root,
        Source::Client,
    )
}

/// A command that a file describes.
fn of_file(command: CommandInfo) -> Option<(PathBuf, String, String)> {
    match command.source {
        CommandSource::File(path) => Some((path, command.name, command.description)),
        _ => None,
    }
}

/// Servers that nobody needed yet.
pub(super) fn waiting(servers: Vec<Configured>, home: &Path, cwd: &Path) -> Vec<Server> {
    let server = |server: Configured| Server {
        uri: server_uri(server.source, &server.name, home, cwd),
        on: !matches!(&server.config, Ok(config) if config.disabled),
        state: match &server.config {
            Ok(_) => McpServerState::Stopped(McpServerStoppedState {}),
            Err(error) => failed(error),
        },
        name: server.name,
        plugin: None,
    };
    servers.into_iter().map(server).collect()
}

fn server_uri(source: Source, name: &str, home: &Path, cwd: &Path) -> String {
    match file_of(source, name, home, cwd) {
        Some(file) => uri::file(file),
        None => format!("lodge:/mcp/{name}"),
    }
}

fn failed(message: &str) -> McpServerState {
    McpServerState::Error(McpServerErrorState {
        error: ErrorInfo {
            error_type: "mcp".into(),
            message: message.to_owned(),
            stack: None,
            meta: None,
        },
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
