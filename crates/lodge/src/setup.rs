//! Assembles the host: home, configuration, models.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use lodge_external::{AgentEntry, Program};
use lodge_host::{Clock, Home, HomeOptions, Host, HostConfig, Keeper, SyncPolicy, mcp::Configured};
use lodge_models::{Catalogue, Model, ModelsConfig};
use lodge_terminal::{Keymap, Scheme};
use lodge_tools::{
    Environment,
    sandbox::{self, SandboxLauncher},
};
use serde::Deserialize;

use crate::launch;

/// How long a session that nobody uses stays in memory.
const IDLE_AFTER: Duration = Duration::from_secs(300);

/// `lodge.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    /// Providers, models and the default among them.
    #[serde(flatten)]
    pub(crate) models: ModelsConfig,
    /// `auto` (the default) sandboxes shell commands where the system can; `off` does not.
    pub(crate) sandbox: Sandbox,
    /// `on` (the default) lets sandboxed commands use the network; `off` does not.
    pub(crate) sandbox_network: SandboxNetwork,
    /// What clients on the AHP face may reach.
    pub(crate) ahp: Ahp,
    /// Agents of other programs, by the name that sessions choose them by.
    pub(crate) agents: BTreeMap<String, AgentEntry>,
    /// MCP servers.
    pub(crate) mcp: Mcp,
    /// Whether agents may keep facts about projects.
    pub(crate) memory: bool,
    /// The conversation at the terminal.
    pub(crate) terminal: TerminalSettings,
    /// What tokens cost, and since when.
    pub(crate) prices: Option<lodge_terminal::Prices>,
    /// How long sessions are kept.
    pub(crate) retention: crate::prune::Rules,
    /// What nobody knows.
    #[serde(flatten)]
    others: toml::Table,
}

/// `[mcp]` of `lodge.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mcp {
    /// Servers by name, in the form that `mcp-config.json` has them.
    servers: serde_json::Map<String, serde_json::Value>,
}

impl Mcp {
    /// The servers, variables put in.
    pub(crate) fn servers(self) -> Vec<Configured> {
        lodge_host::mcp::files::of_person(self.servers)
    }
}

/// `[terminal]` of `lodge.toml`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TerminalSettings {
    /// `auto` (the default), `dark`, `light` or `plain`.
    pub(crate) theme: ThemeSetting,
    /// Whether the wheel scrolls the conversation and dragging copies.
    pub(crate) mouse: bool,
    /// Whether the editor has the keys of vi.
    pub(crate) vim: bool,
    /// What keys do, where a person changed it.
    pub(crate) keys: Keymap,
}

impl Default for TerminalSettings {
    fn default() -> Self {
        Self {
            theme: ThemeSetting::default(),
            mouse: true,
            vim: false,
            keys: Keymap::default(),
        }
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ThemeSetting {
    #[default]
    Auto,
    Dark,
    Light,
    Plain,
}

impl ThemeSetting {
    /// The colours, if somebody chose them.
    pub(crate) fn scheme(self) -> Option<Scheme> {
        match self {
            Self::Auto => None,
            Self::Dark => Some(Scheme::Dark),
            Self::Light => Some(Scheme::Light),
            Self::Plain => Some(Scheme::Plain),
        }
    }
}

/// `[ahp]` of `lodge.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Ahp {
    /// `ask` (the default), `allow` or `deny`: what becomes of a client's request for files beyond its sessions.
    pub(crate) resources: lodge_ahp::Policy,
    /// Directories that clients always may reach; `~` is the person's home, and what is relative is seen from Lodge's.
    pub(crate) roots: Vec<String>,
    /// User data directories of VS Code, in whose list of agent hosts the host is entered.
    pub(crate) vscode: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sandbox {
    #[default]
    Auto,
    Off,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxNetwork {
    #[default]
    On,
    Off,
}

/// The home: what was asked for, or the platform's place for state.
pub(crate) fn home_path(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(home) = asked {
        return std::path::absolute(home).with_context(|| format!("Cannot resolve {}", home.display()));
    }
    platform_state().context("There is no home directory; name one with --home or LODGE_HOME")
}

fn platform_state() -> Option<PathBuf> {
    let var = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if cfg!(target_os = "macos") {
        return Some(var("HOME")?.join("Library/Application Support/lodge"));
    }
    if cfg!(windows) {
        return Some(var("LOCALAPPDATA")?.join("lodge"));
    }
    var("XDG_STATE_HOME")
        .or_else(|| Some(var("HOME")?.join(".local/state")))
        .map(|state| state.join("lodge"))
}

/// Reads `lodge.toml` of the home, if there is one.
pub(crate) fn config(home: &Path) -> Result<Config> {
    let path = home.join("lodge.toml");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let config: Config = toml::from_str(&text).with_context(|| format!("{} is invalid", path.display()))?;
            match config.others.keys().next() {
                Some(key) => bail!("{} is invalid: there is no setting `{key}`", path.display()),
                None => Ok(config),
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(error).with_context(|| format!("Cannot read {}", path.display())),
    }
}

/// The models of the configuration and the environment.
pub(crate) fn models(config: &Config, environment: &Environment) -> Result<Catalogue> {
    let agents = config.agents.iter();
    let agents = agents.map(|(name, entry)| Arc::new(Program::new(name, entry.clone())) as Arc<dyn Model>);
    let mut models = config.models.clone();
    for provider in &mut models.providers {
        let account = provider
            .api_key_keyring
            .as_deref()
            .filter(|_| provider.api_key.is_none());
        match account.map(crate::keyring::read) {
            Some(Ok(key)) => provider.api_key = Some(key),
            // Other models may be usable; calls to this one say that a key is missing.
            Some(Err(error)) => tracing::warn!("{error:#}"),
            None => {}
        }
    }
    Catalogue::from(models, |name| environment.text(name))
        .and_then(|models| models.with_agents(agents.collect()))
        .context("The models are not configured correctly")
}

/// How a home is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// By the one host of a machine.
    Alone,
    /// By many short-lived processes beside each other.
    Shared,
}

/// Starts a host on a home.
pub(crate) fn host(home: &Path, how: Use, sync: SyncPolicy, idle_after: Option<Duration>) -> Result<Host> {
    host_with(home, how, sync, idle_after, None)
}

/// The same for a host whose sessions are kept elsewhere as well.
pub(crate) fn host_with(
    home: &Path,
    how: Use,
    sync: SyncPolicy,
    idle_after: Option<Duration>,
    keeper: Option<Arc<dyn Keeper>>,
) -> Result<Host> {
    let config = config(home)?;
    let models = models(&config, &Environment::default())?;
    if let Ok(program) = launch::this_program() {
        lodge_tools::guard_with(program);
    }
    let options = HomeOptions {
        sync,
        exclusive: how == Use::Alone,
        ..HomeOptions::default()
    };
    lodge_tools::hide_variables([crate::notify::VARIABLE.to_owned()]);
    lodge_tools::hide_variables(lodge_telemetry::CREDENTIAL_VARIABLES.map(str::to_owned));
    hide_keys(&config);
    lodge_tools::hand_on_no_ignored_signals();
    let home = Home::open(home, options)?;
    let config_of_host = HostConfig {
        sandbox: sandbox_launcher(&config, home.path())?,
        home,
        models,
        idle_after: idle_after.unwrap_or(IDLE_AFTER),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Clock::default(),
    };
    let host = Host::with_keeper(config_of_host, keeper)?;
    host.add_mcp_servers(config.mcp.servers());
    host.keep_memories(config.memory);
    Ok(host)
}

/// Keeps the variables with keys of models from programs.
fn hide_keys(config: &Config) {
    let providers = config.models.providers.iter();
    lodge_tools::hide_variables(providers.filter_map(|entry| entry.api_key_env.clone()));
}

/// Reads the models again for a running host. Its variables are those it was started with.
pub(crate) async fn reload_models(host: &Host) -> Result<()> {
    let config = config(host.home().path())?;
    let models = models(&config, &Environment::default())?;
    hide_keys(&config);
    Ok(host.use_models(models).await?)
}

/// How commands are kept from doing harm. Turned off or not, those that nobody approved are jailed.
fn sandbox_launcher(config: &Config, home: &Path) -> Result<Option<SandboxLauncher>> {
    if let Some(why) = network_stays_open(config) {
        bail!("`sandbox_network = \"off\"` in lodge.toml cannot be enforced: {why}");
    }
    Ok(launch::this_program().ok().map(|program| SandboxLauncher {
        approved: config.sandbox == Sandbox::Auto && sandbox::available(),
        network: config.sandbox_network == SandboxNetwork::On,
        ..SandboxLauncher::new(program).hiding(home)
    }))
}

/// Why the network cannot be closed to commands although the configuration wants it.
pub(crate) fn network_stays_open(config: &Config) -> Option<&'static str> {
    if config.sandbox_network == SandboxNetwork::On {
        return None;
    }
    if config.sandbox == Sandbox::Off {
        Some("`sandbox = \"off\"` turns off what enforces it")
    } else if !sandbox::can_close_network() {
        Some("this system has no Landlock or no seccomp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lodge_toml_in_the_pages_is_read_as_written() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut checked = 0;
        for entry in std::fs::read_dir(docs).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let page = std::fs::read_to_string(&path).unwrap();
            let blocks = page
                .split("```toml\n")
                .skip(1)
                .filter_map(|rest| rest.split("```").next());
            // Permission rules are in a file of their own.
            for text in blocks.filter(|text| !text.contains("[[deny]]")) {
                let config =
                    toml::from_str::<Config>(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert!(config.others.is_empty(), "{}: {:?}", path.display(), config.others);
                checked += 1;
            }
        }
        assert!(checked > 5, "{checked}");
    }
}
