//! Plugins that the user installed for all sessions, and their marketplaces. The host's registers list them; the files are
//! copies in the home, replaced in one step.

mod catalogue;
mod fetch;
mod source;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_mcp::{Configured, Source as ServerSource};
use lodge_tools::custom::{Place, Plugin, ROOT_VARIABLES, find_skills};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::{catalogue::Catalogue, fetch::Scratch, source::spec};
pub use self::{catalogue::Offer, source::PluginSource};
use crate::{
    Host, RegisterError, Session,
    registers::{Register, Registers},
};

/// Where the copies of plugins are, in the home: by marketplace and name.
const INSTALLED: &str = "installed-plugins";
/// In there, those that come from no marketplace.
const DIRECT: &str = "_direct";
/// Where the copies of marketplaces are that are repositories.
const MARKETPLACES: &str = "marketplaces";
/// Marketplaces that everybody knows. They are fetched when somebody wants something of them.
const DEFAULTS: [(&str, &str); 2] = [
    ("awesome-copilot", "github/awesome-copilot"),
    ("copilot-plugins", "github/copilot-plugins"),
];

/// Why something about plugins was not done.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// It says nothing that could be fetched.
    #[error(
        "{0:?} names no plugin or marketplace: give name@marketplace, owner/repo, the address of a git repository, or a directory"
    )]
    Source(String),
    /// A path leads elsewhere.
    #[error("{0:?} points outside its directory")]
    Outside(String),
    /// There is nothing.
    #[error("{path} cannot be used: {1}", path = .0.display())]
    Missing(PathBuf, String),
    /// It is no plugin.
    #[error("{0}")]
    Plugin(String),
    /// It has a name that no directory can have.
    #[error("{0:?} is not a valid plugin name: use letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// It is no marketplace.
    #[error("{} is not a marketplace: it has no marketplace.json", .0.display())]
    NoCatalogue(PathBuf),
    /// Its list cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    Catalogue(PathBuf, String),
    /// The marketplace does not have it.
    #[error("the marketplace {marketplace} has no plugin {plugin}")]
    NotOffered {
        /// What was wanted.
        plugin: String,
        /// Where.
        marketplace: String,
    },
    /// Nobody added it.
    #[error("there is no marketplace {0}; add it first")]
    NoMarketplace(String),
    /// Another one has its name.
    #[error("the marketplace {0} already exists with another source; remove it first")]
    Taken(String),
    /// It belongs to the host.
    #[error("the marketplace {0} is built in and cannot be removed")]
    BuiltIn(String),
    /// It is not installed.
    #[error("the plugin {0} is not installed")]
    NotInstalled(String),
    /// Several have this name.
    #[error("several plugins are called {0}: specify one as name@marketplace or by directSourceId")]
    Ambiguous(String),
    /// It is too much.
    #[error("the plugin is too large to be copied")]
    TooLarge,
    /// Git refused.
    #[error("git: {0}")]
    Git(String),
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The registers refused.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// It fell over.
    #[error("internal error while working on plugins")]
    Stopped,
}

impl Host {
    /// Stops the MCP servers of plugins in all sessions that have them.
    pub fn stop_plugin_servers(&self, plugins: &[Plugin]) {
        let names: Vec<String> = Plugins::servers(plugins)
            .into_iter()
            .map(|server| server.name)
            .collect();
        let live: Vec<Session> = self.0.live.lock().values().cloned().map(Session).collect();
        for session in live {
            let of_plugin = |name: &&String| {
                let server = session.mcp().info(name);
                server.is_some_and(|server| server.source == ServerSource::Plugin)
            };
            let gone: Vec<String> = names.iter().filter(of_plugin).cloned().collect();
            session.mcp().forget(&gone);
        }
    }
}

impl Session {
    /// The plugins that the user installed; none where the host is gone.
    pub fn user_plugins(&self) -> Option<Arc<Plugins>> {
        Some(self.0.host.upgrade()?.plugins.clone())
    }
}

/// A plugin that is installed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPlugin {
    /// Its name.
    pub name: String,
    /// The marketplace that it comes from; empty for one that was installed directly.
    pub marketplace: String,
    /// Where it comes from, if from no marketplace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PluginSource>,
    /// Its version, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether new sessions get it.
    pub enabled: bool,
    /// When it was installed.
    pub installed_at: String,
}

impl InstalledPlugin {
    /// What tells it from others that have its name and come from no marketplace either.
    pub fn direct_source_id(&self) -> Option<String> {
        let source = serde_json::to_vec(self.source.as_ref()?).ok()?;
        Some(Uuid::new_v5(&Uuid::NAMESPACE_URL, &source).simple().to_string())
    }

    /// What it is called in the register.
    fn key(&self) -> String {
        match self.direct_source_id() {
            Some(id) => format!("{DIRECT}/{id}"),
            None => format!("{}/{}", self.marketplace, self.name),
        }
    }

    fn is_called(&self, name: &str) -> bool {
        name == self.name || spec(name) == Some((&self.name, &self.marketplace))
    }
}

/// What came of installing or updating a plugin.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The plugin.
    pub plugin: InstalledPlugin,
    /// The version that was there before.
    pub previous: Option<String>,
    /// How many skills it has.
    pub skills: usize,
    /// What to tell people of the parts of it that are not used.
    pub left_out: Option<String>,
}

/// A marketplace that is known.
#[derive(Debug, Clone)]
pub struct Marketplace {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub source: PluginSource,
    /// Whether it is known without anybody's adding it.
    pub built_in: bool,
}

/// A marketplace that was to be fetched again, and whether it was.
pub type Refreshed = (String, Result<(), PluginError>);

/// The user's plugins. Calls that change something fetch and copy files, one after the other: they block.
pub struct Plugins {
    home: PathBuf,
    installed: Register<InstalledPlugin>,
    marketplaces: Register<PluginSource>,
    /// Held by whoever fetches something: one at a time.
    fetching: Mutex<()>,
    /// Held while something is changed, never while something is fetched.
    changing: Mutex<()>,
}

impl Plugins {
    pub(crate) fn new(home: &Path, registers: &Arc<dyn Registers>) -> Self {
        Self {
            home: home.to_owned(),
            installed: Register::new(registers, "plugin"),
            marketplaces: Register::new(registers, "marketplace"),
            fetching: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// What is installed, in the order of names.
    pub fn list(&self) -> Vec<InstalledPlugin> {
        let mut all: Vec<_> = self.installed.list().into_iter().map(|(_, plugin)| plugin).collect();
        all.sort_by(|one, other| (&one.name, &one.marketplace).cmp(&(&other.name, &other.marketplace)));
        all
    }

    /// Where the copy of a plugin is.
    pub fn directory(&self, plugin: &InstalledPlugin) -> PathBuf {
        self.home.join(INSTALLED).join(plugin.key())
    }

    /// The plugins that new sessions get. Reads files; what cannot be read is left out, and the log says so.
    pub fn enabled(&self) -> Vec<Plugin> {
        let on = self.list().into_iter().filter(|plugin| plugin.enabled);
        on.filter_map(|plugin| {
            let read = self.read(&plugin);
            read.inspect_err(|error| tracing::warn!(plugin = plugin.name, %error, "a plugin is left out"))
                .ok()
        })
        .collect()
    }

    /// The MCP servers of plugins.
    pub(crate) fn servers(plugins: &[Plugin]) -> Vec<Configured> {
        let of = |plugin: &Plugin| {
            lodge_mcp::files::of_plugin(
                &plugin.servers,
                plugin.own_servers.clone(),
                &ROOT_VARIABLES,
                &plugin.root,
                ServerSource::Plugin,
            )
        };
        plugins.iter().flat_map(of).collect()
    }

    fn read(&self, installed: &InstalledPlugin) -> Result<Plugin, PluginError> {
        let root = self.directory(installed);
        if !root.is_dir() {
            return Err(PluginError::Missing(
                root,
                "its copy is gone; install it again".to_owned(),
            ));
        }
        let mut plugin = Plugin::read_any(&root).map_err(PluginError::Plugin)?;
        plugin.name.clone_from(&installed.name);
        Ok(plugin)
    }

    /// Installs a plugin: `name@marketplace`, or what [`PluginSource`] says, relative to `cwd`. Replaces it where it is
    /// installed already.
    pub fn install(&self, text: &str, cwd: &Path) -> Result<Installed, PluginError> {
        let _fetching = self.fetching.lock();
        match spec(text.trim()) {
            Some((name, marketplace)) => self.fetch_from(name, marketplace, None),
            None => self.fetch_directly(PluginSource::parse(text, cwd)?, None),
        }
    }

    fn fetch_from(
        &self,
        name: &str,
        marketplace: &str,
        again: Option<&InstalledPlugin>,
    ) -> Result<Installed, PluginError> {
        let root = self.files_of(marketplace)?;
        let list = Catalogue::read(&root)?;
        let (offer, source) = list.find(name, &root)?;
        let plugin = InstalledPlugin {
            name: offer.name.clone(),
            marketplace: marketplace.to_owned(),
            source: None,
            version: offer.version.clone(),
            enabled: true,
            installed_at: lodge_events::timestamp_text(jiff::Timestamp::now()),
        };
        self.copy_in(plugin, &source, &Plugin::read_any, again)
    }

    fn fetch_directly(&self, source: PluginSource, again: Option<&InstalledPlugin>) -> Result<Installed, PluginError> {
        let plugin = InstalledPlugin {
            name: String::new(),
            marketplace: String::new(),
            source: Some(source.clone()),
            version: None,
            enabled: true,
            installed_at: lodge_events::timestamp_text(jiff::Timestamp::now()),
        };
        self.copy_in(plugin, &source, &Plugin::read, again)
    }

    /// Fetches the files and writes down what they are. The copy is in its place before the register speaks of it. What is
    /// fetched again must be installed still.
    fn copy_in(
        &self,
        mut plugin: InstalledPlugin,
        source: &PluginSource,
        read: &dyn Fn(&Path) -> Result<Plugin, String>,
        again: Option<&InstalledPlugin>,
    ) -> Result<Installed, PluginError> {
        let scratch = Scratch::below(&self.home.join(INSTALLED))?;
        let from = fetch::fetch(source, scratch.path())?;
        let found = read(&from).map_err(PluginError::Plugin)?;
        plugin.version = found.version.or(plugin.version);
        if plugin.name.is_empty() {
            plugin.name = found.name;
        }
        if !source::is_name(&plugin.name) {
            return Err(PluginError::Name(plugin.name));
        }
        let copy = Scratch::below(&self.home.join(INSTALLED))?;
        fetch::copy(&from, copy.path())?;
        let key = plugin.key();
        let _changing = self.changing.lock();
        if let Some(before) = again
            && self.installed.get(&before.key()).is_none()
        {
            return Err(PluginError::NotInstalled(before.name.clone()));
        }
        copy.keep_as(&self.home.join(INSTALLED).join(&key))?;
        let previous = self.installed.get(&key);
        if let Some(previous) = &previous {
            plugin.enabled = previous.enabled;
        }
        self.installed.set(&key, &plugin)?;
        let read = self.read(&plugin)?;
        let places: Vec<Place> = read.skills.iter().map(|path| Place::of_plugin(path)).collect();
        Ok(Installed {
            skills: find_skills(&places).all.len(),
            left_out: read.language_servers_left_out(),
            previous: previous.and_then(|plugin| plugin.version),
            plugin,
        })
    }

    fn find(&self, name: &str, direct: Option<&str>) -> Result<InstalledPlugin, PluginError> {
        let is_it = |plugin: &InstalledPlugin| match direct {
            Some(_) => plugin.direct_source_id().as_deref() == direct && plugin.is_called(name),
            None => plugin.is_called(name),
        };
        let mut found = self.list().into_iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(plugin), None) => Ok(plugin),
            (None, _) => Err(PluginError::NotInstalled(name.to_owned())),
            (Some(_), Some(_)) => Err(PluginError::Ambiguous(name.to_owned())),
        }
    }

    /// Removes a plugin, and says which it was.
    pub fn uninstall(&self, name: &str, direct: Option<&str>) -> Result<InstalledPlugin, PluginError> {
        let _changing = self.changing.lock();
        let plugin = self.find(name, direct)?;
        self.remove(&plugin)?;
        Ok(plugin)
    }

    fn remove(&self, plugin: &InstalledPlugin) -> Result<(), PluginError> {
        self.installed.remove(&plugin.key())?;
        match std::fs::remove_dir_all(self.directory(plugin)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Fetches a plugin again.
    pub fn update(&self, name: &str) -> Result<Installed, PluginError> {
        let _fetching = self.fetching.lock();
        let plugin = self.find(name, None)?;
        self.fetch_again(&plugin)
    }

    /// Fetches all plugins again, in the order of their names.
    pub fn update_all(&self) -> Vec<(InstalledPlugin, Result<Installed, PluginError>)> {
        let _fetching = self.fetching.lock();
        let all = self.list().into_iter();
        all.map(|plugin| {
            let result = self.fetch_again(&plugin);
            (plugin, result)
        })
        .collect()
    }

    fn fetch_again(&self, plugin: &InstalledPlugin) -> Result<Installed, PluginError> {
        match &plugin.source {
            Some(source) => self.fetch_directly(source.clone(), Some(plugin)),
            None => {
                self.fetch_marketplace(&plugin.marketplace)?;
                self.fetch_from(&plugin.name, &plugin.marketplace, Some(plugin))
            }
        }
    }

    /// Turns plugins of marketplaces on or off, and says which those were. Those that were installed directly are always on.
    pub fn set_enabled(&self, names: &[String], enabled: bool) -> Result<Vec<InstalledPlugin>, PluginError> {
        let _changing = self.changing.lock();
        let mut changed = Vec::new();
        for mut plugin in self.list().into_iter().filter(|plugin| plugin.source.is_none()) {
            if names.iter().any(|name| plugin.is_called(name)) && plugin.enabled != enabled {
                plugin.enabled = enabled;
                self.installed.set(&plugin.key(), &plugin)?;
                changed.push(plugin);
            }
        }
        Ok(changed)
    }

    /// The marketplaces that are known, the built-in ones first.
    pub fn marketplaces(&self) -> Vec<Marketplace> {
        let built_in = DEFAULTS.iter().filter_map(|(name, repository)| {
            Some(Marketplace {
                name: (*name).to_owned(),
                source: PluginSource::github(repository, None, None)?,
                built_in: true,
            })
        });
        let added = self.marketplaces.list().into_iter().map(|(name, source)| Marketplace {
            name,
            source,
            built_in: false,
        });
        built_in.chain(added).collect()
    }

    fn marketplace(&self, name: &str) -> Result<Marketplace, PluginError> {
        let mut all = self.marketplaces().into_iter();
        all.find(|known| known.name == name)
            .ok_or_else(|| PluginError::NoMarketplace(name.to_owned()))
    }

    /// Adds a marketplace under the name that it has itself, and says what that is.
    pub fn add_marketplace(&self, text: &str, cwd: &Path) -> Result<String, PluginError> {
        let _fetching = self.fetching.lock();
        let source = PluginSource::parse(text, cwd)?;
        let scratch = Scratch::below(&self.home.join(MARKETPLACES))?;
        let root = fetch::fetch(&source, scratch.path())?;
        let name = Catalogue::read(&root)?.name;
        let _changing = self.changing.lock();
        match self.marketplace(&name) {
            Ok(known) if known.source != source => return Err(PluginError::Taken(name)),
            Ok(known) if known.built_in => return Ok(name),
            _ => {}
        }
        if matches!(source, PluginSource::Git { .. }) {
            self.keep_marketplace(&name, &root)?;
        }
        self.marketplaces.set(&name, &source)?;
        Ok(name)
    }

    fn keep_marketplace(&self, name: &str, root: &Path) -> Result<(), PluginError> {
        let place = self.home.join(MARKETPLACES);
        let copy = Scratch::below(&place)?;
        fetch::copy(root, copy.path())?;
        Ok(copy.keep_as(&place.join(name))?)
    }

    /// Fetches a marketplace again. One that is a directory of this machine is always read as it is.
    fn fetch_marketplace(&self, name: &str) -> Result<PathBuf, PluginError> {
        let known = self.marketplace(name)?;
        if let PluginSource::Local { path } = known.source {
            return Ok(path);
        }
        let scratch = Scratch::below(&self.home.join(MARKETPLACES))?;
        let root = fetch::fetch(&known.source, scratch.path())?;
        Catalogue::read(&root)?;
        let _changing = self.changing.lock();
        self.marketplace(name)?;
        self.keep_marketplace(name, &root)?;
        Ok(self.home.join(MARKETPLACES).join(name))
    }

    /// Where the files of a marketplace are; one that was not fetched yet is.
    fn files_of(&self, name: &str) -> Result<PathBuf, PluginError> {
        match self.marketplace(name)?.source {
            PluginSource::Local { path } => Ok(path),
            PluginSource::Git { .. } => {
                let copy = self.home.join(MARKETPLACES).join(name);
                match copy.is_dir() {
                    true => Ok(copy),
                    false => self.fetch_marketplace(name),
                }
            }
        }
    }

    /// What a marketplace offers.
    pub fn browse(&self, name: &str) -> Result<Vec<Offer>, PluginError> {
        let _fetching = self.fetching.lock();
        Ok(Catalogue::read(&self.files_of(name)?)?.plugins)
    }

    /// Fetches marketplaces again: this one, or all.
    pub fn refresh(&self, name: Option<&str>) -> Result<Vec<Refreshed>, PluginError> {
        let _fetching = self.fetching.lock();
        let names = match name {
            Some(name) => vec![self.marketplace(name)?.name],
            None => self.marketplaces().into_iter().map(|known| known.name).collect(),
        };
        let refreshed = |name: String| {
            let result = self.fetch_marketplace(&name).and_then(|root| Catalogue::read(&root));
            (name, result.map(drop))
        };
        Ok(names.into_iter().map(refreshed).collect())
    }

    /// Removes a marketplace. While plugins of it are installed it stays, and they are named, unless `force` says that they
    /// go as well.
    pub fn remove_marketplace(&self, name: &str, force: bool) -> Result<Vec<InstalledPlugin>, PluginError> {
        let _changing = self.changing.lock();
        if self.marketplace(name)?.built_in {
            return Err(PluginError::BuiltIn(name.to_owned()));
        }
        let of_it: Vec<_> = self
            .list()
            .into_iter()
            .filter(|plugin| plugin.marketplace == name)
            .collect();
        if !of_it.is_empty() && !force {
            return Ok(of_it);
        }
        for plugin in &of_it {
            self.remove(plugin)?;
        }
        self.marketplaces.remove(name)?;
        let _ = std::fs::remove_dir_all(self.home.join(MARKETPLACES).join(name));
        Ok(Vec::new())
    }
}
