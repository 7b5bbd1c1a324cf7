//! Plugins that sessions are opened with: directories that apps and the program's arguments name.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_host::{
    Change, CustomizationChange, Plugin, Session,
    mcp::{self, Source},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, mcp::PATIENCE, method};
use crate::{
    config::SessionConfig,
    connection::Ctx,
    rpc::RpcError,
    session::{Attached, SessionId},
};

pub(crate) static PLUGINS: Capability = Capability {
    title: "Plugins",
    methods: &[
        method!(
            "plugins.builtin.set",
            0,
            "plugin directories for every session of this client",
            set_builtin
        ),
        method!(session "session.plugins.list", 2, "plugins that the session was opened with", list),
        method!(session "session.plugins.reload", 1, "reads the plugins again", reload),
        method!(
            "sessions.setAdditionalPlugins",
            1,
            "more plugins for this client's next sessions",
            set_additional
        ),
        method!(
            "sessions.reloadPluginHooks",
            1,
            "gives a session the plugins that it would get now",
            reload_hooks
        ),
        method!(
            "sessions.loadDeferredRepoHooks",
            1,
            "reads and counts a session's hooks",
            load_hooks
        ),
    ],
};

/// Limit for the directories that a client names.
const MOST: usize = 64;
/// Limit for the length of a directory's name, in characters.
const LONGEST: usize = 4096;

#[derive(Debug, Deserialize)]
struct BuiltinParams {
    paths: Vec<PathBuf>,
}

/// On a shared host, this applies only to this client's sessions.
async fn set_builtin(ctx: Ctx, params: BuiltinParams) -> Result<Value, RpcError> {
    if params.paths.len() > MOST {
        return Err(RpcError::params(format!(
            "paths: at most {MOST} directories may be named"
        )));
    }
    let fits = |path: &PathBuf| path.is_absolute() && path.to_string_lossy().chars().count() <= LONGEST;
    if let Some(path) = params.paths.iter().find(|path| !fits(path)) {
        return Err(RpcError::params(format!(
            "paths: {} is not an absolute path of at most {LONGEST} characters",
            path.display()
        )));
    }
    match ctx.bring_plugins(params.paths) {
        true => Ok(Value::Null),
        false => Err(RpcError::failed(
            "Built-in plugins cannot be changed while sessions are active",
        )),
    }
}

#[derive(Debug, Deserialize)]
struct AdditionalParams {
    plugins: Vec<Installed>,
}

#[derive(Debug, Deserialize)]
struct Installed {
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    cache_path: Option<PathBuf>,
}

fn yes() -> bool {
    true
}

async fn set_additional(ctx: Ctx, params: AdditionalParams) -> Result<Value, RpcError> {
    let on = params.plugins.into_iter().filter(|plugin| plugin.enabled);
    ctx.add_plugins(on.filter_map(|plugin| plugin.cache_path).collect());
    Ok(json!({}))
}

/// Does nothing for a session that the client does not have open.
async fn reload_hooks(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    if let Some(attached) = ctx.session(&session_id) {
        let session = attached.session();
        let mut roots = ctx.plugins();
        let has = session.settings().customization.own_plugins;
        roots.extend(has.into_iter().map(|plugin| plugin.root));
        let change = CustomizationChange {
            own_plugins: Some(read(roots).await),
            ..CustomizationChange::default()
        };
        session.configure(Change::Customization(Box::new(change))).await?;
        session.reload_hooks().await?;
    }
    Ok(json!({}))
}

/// A project's hooks are never deferred here: they run if they are trusted or requested.
async fn load_hooks(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    let count = match ctx.session(&session_id) {
        Some(attached) => attached.session().reload_hooks().await?,
        None => return Err(RpcError::failed(format!("Session not found: {session_id}"))),
    };
    Ok(json!({"startupPrompts": [], "hookCount": count}))
}

async fn list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let customization = session.session().settings().customization;
    let installed = session.session().user_plugins();
    let marketplace = |root: &Path| {
        let plugins = installed.as_ref()?;
        let mut all = plugins.list().into_iter();
        all.find(|known| plugins.directory(known) == root)
            .map(|known| known.marketplace)
    };
    let json = |plugin: &Plugin| {
        let from = marketplace(&plugin.root).unwrap_or_default();
        let mut json = json!({"name": plugin.name, "marketplace": from, "enabled": true});
        if let Some(version) = &plugin.version {
            json["version"] = json!(version);
        }
        json
    };
    let plugins = customization.own_plugins.iter().chain(&customization.installed_plugins);
    Ok(json!({"plugins": plugins.map(json).collect::<Vec<_>>()}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReloadParams {
    reload_mcp: Option<bool>,
}

/// Hooks are read for every message anyway.
async fn reload(session: Arc<Attached>, params: ReloadParams) -> Result<Value, RpcError> {
    let session = session.session();
    let has = session.settings().customization;
    let installed = session
        .user_plugins()
        .map(|plugins| plugins.enabled())
        .unwrap_or_default();
    if has.own_plugins.is_empty() && has.installed_plugins.is_empty() && installed.is_empty() {
        return Ok(Value::Null);
    }
    let mut plugins = read(has.own_plugins.into_iter().map(|plugin| plugin.root).collect()).await;
    let change = CustomizationChange {
        own_plugins: Some(plugins.clone()),
        installed_plugins: Some(installed.clone()),
        ..CustomizationChange::default()
    };
    plugins.extend(installed);
    session.configure(Change::Customization(Box::new(change))).await?;
    if params.reload_mcp != Some(false) {
        let servers = session.mcp();
        let gone: Vec<String> = servers.list().into_iter().filter_map(of_plugin).collect();
        servers.forget(&gone);
        add_servers(session, plugins).await;
        servers.ready(PATIENCE).await;
    }
    Ok(Value::Null)
}

fn of_plugin(server: mcp::ServerInfo) -> Option<String> {
    (server.source == Source::Plugin).then_some(server.name)
}

/// The plugins of a new session: from the program's arguments, the client and the session.
pub(crate) async fn brought(ctx: &Ctx, config: &SessionConfig) -> Vec<Plugin> {
    let mut roots = ctx.plugins();
    roots.extend(ctx.shared.options.plugin_directories.iter().cloned());
    let named = config.plugin_directories.iter().flatten();
    let cwd = config.working_directory.clone().unwrap_or_else(|| ctx.host.cwd());
    roots.extend(named.map(|dir| cwd.join(dir)));
    match roots.is_empty() {
        true => Vec::new(),
        false => read(roots).await,
    }
}

/// Invalid plugins are left out, with a warning in the log.
async fn read(mut roots: Vec<PathBuf>) -> Vec<Plugin> {
    roots.truncate(MOST);
    let read = move || {
        let mut plugins: Vec<Plugin> = Vec::new();
        for root in roots {
            match Plugin::read(&root) {
                Ok(plugin) if plugins.iter().all(|known| !same(&known.root, &plugin.root)) => plugins.push(plugin),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "a plugin is left out"),
            }
        }
        plugins
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

fn same(one: &Path, other: &Path) -> bool {
    one == other || std::fs::canonicalize(one).ok() == std::fs::canonicalize(other).ok()
}

/// Adds the plugins' MCP servers to a session. Servers of the client or the project with the same name take precedence.
pub(crate) async fn add_servers(session: &Session, plugins: Vec<Plugin>) {
    if plugins.is_empty() {
        return;
    }
    let read = move || {
        let of = |plugin: Plugin| {
            let names = lodge_host::PLUGIN_ROOT_VARIABLES;
            mcp::files::of_plugin(
                &plugin.servers,
                plugin.own_servers,
                &names,
                &plugin.root,
                Source::Plugin,
            )
        };
        plugins.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    let mut servers = tokio::task::spawn_blocking(read).await.unwrap_or_default();
    let taken = |name: &str| {
        let known = session.mcp().info(name);
        known.is_some_and(|server| matches!(server.source, Source::Client | Source::Workspace))
    };
    servers.retain(|server| !taken(&server.name));
    session.add_mcp_servers(servers);
}
