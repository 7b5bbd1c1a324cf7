//! What a new session in a directory would have: agents, skills, instructions, commands, hooks and MCP servers from files.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use lodge_agent::{AgentError, Customization, GitContext, HookFiles, instructions};
use lodge_mcp::{Configured, Source, files};
use lodge_tools::custom::{AgentDefinition, Kind, Plugin, ROOT_VARIABLES, Skill, find_agents, find_skills};

use crate::{CommandInfo, Host, Session, Trust, blocking::run_blocking};

/// What there is, with whether each is on.
#[derive(Debug, Default)]
pub struct Available {
    /// Agents.
    pub agents: Vec<AgentDefinition>,
    /// Skills.
    pub skills: Vec<(Skill, bool)>,
    /// Files with instructions.
    pub instructions: Vec<PathBuf>,
    /// Commands.
    pub commands: Vec<CommandInfo>,
    /// Files with hooks, and whether these are run.
    pub hooks: Vec<(PathBuf, bool)>,
    /// MCP servers.
    pub servers: Vec<AvailableServer>,
}

/// An MCP server that nobody started.
#[derive(Debug)]
pub struct AvailableServer {
    /// How it is described.
    pub configured: Configured,
    /// The file that describes it.
    pub file: Option<PathBuf>,
    /// The plugin that has it.
    pub plugin: Option<PathBuf>,
}

impl Host {
    /// What a session would have that works in this directory, with these plugins.
    pub async fn available(&self, cwd: PathBuf, plugins: Vec<Plugin>) -> Available {
        let host = self.clone();
        run_blocking(move || host.available_at(&cwd, plugins))
            .await
            .unwrap_or_default()
    }

    fn available_at(&self, cwd: &Path, plugins: Vec<Plugin>) -> Available {
        let custom = Customization {
            places: self.places(),
            disabled_skills: self.disabled_skills(),
            plugins,
            ..Customization::default()
        };
        let home = self.home().path();
        let root = GitContext::of(cwd).root;
        let mut servers = described(self.configured_servers(cwd), home, cwd);
        for plugin in &custom.plugins {
            for configured in servers_of(plugin) {
                if servers.iter().all(|known| known.configured.name != configured.name) {
                    servers.push(AvailableServer {
                        configured,
                        file: None,
                        plugin: Some(plugin.root.clone()),
                    });
                }
            }
        }
        let found = instructions(cwd, root.as_deref(), &[]).into_iter();
        Available {
            agents: custom.find_agents(cwd).all,
            skills: with_state(custom.find_skills(cwd).all, &custom),
            instructions: found.map(|found| found.path).collect(),
            commands: self.commands_at(cwd, &custom.plugins),
            hooks: Trust::at(home).hook_files(cwd, HookFiles::default(), &custom.plugins),
            servers,
        }
    }

    /// What every session of the person has, wherever it works.
    pub async fn available_everywhere(&self) -> Available {
        let host = self.clone();
        let look = move || {
            let (places, home) = (host.places(), host.home().path());
            let custom = Customization {
                disabled_skills: host.disabled_skills(),
                ..Customization::default()
            };
            Available {
                agents: find_agents(&places.user(Kind::Agents)).all,
                skills: with_state(find_skills(&places.user(Kind::Skills)).all, &custom),
                servers: described(files::of_user(home), home, home),
                ..Available::default()
            }
        };
        run_blocking(look).await.unwrap_or_default()
    }

    /// The commands of a session that works in this directory, with these plugins.
    pub async fn commands(&self, cwd: PathBuf, plugins: Vec<Plugin>) -> Vec<CommandInfo> {
        let host = self.clone();
        let look = move || host.commands_at(&cwd, &plugins);
        run_blocking(look).await.unwrap_or_default()
    }
}

impl Session {
    /// The files that describe hooks for it, and whether these are run.
    pub async fn hook_files(&self) -> Result<Vec<(PathBuf, bool)>, AgentError> {
        let home = self.home_path().ok_or(AgentError::Gone)?;
        let settings = self.settings();
        let look = move || {
            let plugins = settings.customization.all_plugins();
            Trust::at(&home).hook_files(&settings.cwd, settings.hook_files, plugins)
        };
        Ok(run_blocking(look).await.unwrap_or_default())
    }

    /// The files that describe its MCP servers, by their names.
    pub async fn server_files(&self) -> Result<HashMap<String, PathBuf>, AgentError> {
        let home = self.home_path().ok_or(AgentError::Gone)?;
        let (servers, cwd) = (self.mcp().list(), self.settings().cwd);
        let look = move || {
            let file = |name: String, source: Source| Some((files::file_of(source, &name, &home, &cwd)?, name));
            let found = servers.into_iter().filter_map(|info| file(info.name, info.source));
            found.map(|(file, name)| (name, file)).collect()
        };
        Ok(run_blocking(look).await.unwrap_or_default())
    }
}

/// The MCP servers that a client's plugin describes.
pub async fn plugin_servers(plugin: Plugin) -> Vec<Configured> {
    run_blocking(move || servers_of(&plugin)).await.unwrap_or_default()
}

/// Reads the plugin in a directory. Errors name files as the plugin does.
pub async fn read_plugin(root: PathBuf) -> Result<Plugin, String> {
    let read = move || Plugin::read_any(&root).map_err(|error| error.replace(&format!("{}/", root.display()), ""));
    run_blocking(read).await.map_err(|error| error.to_string())?
}

fn servers_of(plugin: &Plugin) -> Vec<Configured> {
    let own = plugin.own_servers.clone();
    files::of_plugin(&plugin.servers, own, &ROOT_VARIABLES, &plugin.root, Source::Client)
}

fn with_state(skills: Vec<Skill>, custom: &Customization) -> Vec<(Skill, bool)> {
    let is_on = |skill: &Skill| !custom.disabled_skills.contains(&skill.name);
    skills
        .into_iter()
        .map(|skill| (is_on(&skill), skill))
        .map(|(on, skill)| (skill, on))
        .collect()
}

fn described(servers: Vec<Configured>, home: &Path, cwd: &Path) -> Vec<AvailableServer> {
    let server = |configured: Configured| AvailableServer {
        file: files::file_of(configured.source, &configured.name, home, cwd),
        configured,
        plugin: None,
    };
    servers.into_iter().map(server).collect()
}
