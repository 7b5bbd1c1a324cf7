//! Plugins that the user installed for all sessions, and the marketplaces that they come from.

use std::path::PathBuf;

use lodge_host::{Installed, InstalledPlugin, PluginError, Plugins};
use serde::{Deserialize, Serialize};

use super::{Capability, Nothing, method};
use crate::{connection::Ctx, rpc::RpcError};

pub(crate) static INSTALLED: Capability = Capability {
    title: "Installed plugins and marketplaces",
    methods: &[
        method!("plugins.list", 4, "the plugins that the user installed", list),
        method!(
            "plugins.install",
            5,
            "installs a plugin: name@marketplace, owner/repo, a git address or a directory",
            install
        ),
        method!("plugins.uninstall", 1, "removes a plugin", uninstall),
        method!("plugins.update", 1, "fetches a plugin again", update),
        method!("plugins.updateAll", 1, "fetches all plugins again", update_all),
        method!("plugins.enable", 1, "enables plugins in new sessions", enable),
        method!(
            "plugins.disable",
            1,
            "disables plugins in new sessions, and stops their MCP servers",
            disable
        ),
        method!(
            "plugins.marketplaces.list",
            1,
            "the marketplaces that are known",
            marketplaces
        ),
        method!(
            "plugins.marketplaces.add",
            5,
            "adds a marketplace: owner/repo, a git address or a directory",
            add
        ),
        method!("plugins.marketplaces.remove", 1, "removes a marketplace", remove),
        method!(
            "plugins.marketplaces.browse",
            1,
            "the plugins that a marketplace offers",
            browse
        ),
        method!("plugins.marketplaces.refresh", 1, "fetches marketplaces again", refresh),
        method!("session.plugins.install", 0, "like `plugins.install`", install),
        method!("session.plugins.uninstall", 0, "like `plugins.uninstall`", uninstall),
        method!("session.plugins.update", 0, "like `plugins.update`", update),
        method!("session.plugins.enable", 0, "like `plugins.enable`", enable),
        method!("session.plugins.disable", 0, "like `plugins.disable`", disable),
        method!(
            "session.plugins.marketplaces.list",
            0,
            "like `plugins.marketplaces.list`",
            marketplaces
        ),
        method!(
            "session.plugins.marketplaces.add",
            0,
            "like `plugins.marketplaces.add`",
            add
        ),
        method!(
            "session.plugins.marketplaces.remove",
            0,
            "like `plugins.marketplaces.remove`",
            remove
        ),
        method!(
            "session.plugins.marketplaces.browse",
            0,
            "like `plugins.marketplaces.browse`",
            browse
        ),
        method!(
            "session.plugins.marketplaces.refresh",
            0,
            "like `plugins.marketplaces.refresh`",
            refresh
        ),
    ],
};

const DEPRECATED: &str =
    "Installing plugins directly is deprecated in the Copilot CLI: apps should prefer name@marketplace";

impl From<PluginError> for RpcError {
    fn from(error: PluginError) -> Self {
        Self::failed(error)
    }
}

/// Fetching and copying takes time, so it runs on a blocking thread.
async fn change<T: Send + 'static>(
    ctx: &Ctx,
    work: impl FnOnce(&Plugins) -> Result<T, PluginError> + Send + 'static,
) -> Result<T, RpcError> {
    let plugins = ctx.host.plugins().clone();
    let done = tokio::task::spawn_blocking(move || work(&plugins)).await;
    Ok(done.map_err(|_| PluginError::Stopped)??)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PluginInfo {
    name: String,
    marketplace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    direct_source_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    enabled: bool,
}

impl From<InstalledPlugin> for PluginInfo {
    fn from(plugin: InstalledPlugin) -> Self {
        Self {
            direct_source_id: plugin.direct_source_id(),
            name: plugin.name,
            marketplace: plugin.marketplace,
            version: plugin.version,
            enabled: plugin.enabled,
        }
    }
}

#[derive(Serialize)]
struct PluginList {
    plugins: Vec<PluginInfo>,
}

async fn list(ctx: Ctx, _: Nothing) -> Result<PluginList, RpcError> {
    let plugins = ctx.host.plugins().list().into_iter().map(PluginInfo::from).collect();
    Ok(PluginList { plugins })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceParams {
    source: String,
    #[serde(default)]
    working_directory: Option<PathBuf>,
}

impl SourceParams {
    fn cwd(&self, ctx: &Ctx) -> PathBuf {
        let cwd = ctx.host.cwd();
        self.working_directory
            .as_ref()
            .map_or_else(|| cwd.clone(), |other| cwd.join(other))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InstallResult {
    plugin: PluginInfo,
    skills_installed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation_warning: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_install_message: Option<String>,
}

async fn install(ctx: Ctx, params: SourceParams) -> Result<InstallResult, RpcError> {
    let cwd = params.cwd(&ctx);
    let done = change(&ctx, move |plugins| plugins.install(&params.source, &cwd)).await?;
    Ok(InstallResult {
        skills_installed: done.skills,
        post_install_message: done.left_out,
        deprecation_warning: done.plugin.source.is_some().then_some(DEPRECATED),
        plugin: done.plugin.into(),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UninstallParams {
    name: String,
    #[serde(default)]
    direct_source_id: Option<String>,
}

async fn uninstall(ctx: Ctx, params: UninstallParams) -> Result<(), RpcError> {
    let before = ctx.host.plugins().enabled();
    let gone = change(&ctx, move |plugins| {
        let plugin = plugins.uninstall(&params.name, params.direct_source_id.as_deref())?;
        Ok(plugins.directory(&plugin))
    })
    .await?;
    let gone: Vec<_> = before.into_iter().filter(|plugin| plugin.root == gone).collect();
    ctx.host.stop_plugin_servers(&gone);
    Ok(())
}

#[derive(Deserialize)]
struct NameParams {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_version: Option<String>,
    skills_installed: usize,
}

impl From<Installed> for UpdateResult {
    fn from(done: Installed) -> Self {
        Self {
            previous_version: done.previous,
            new_version: done.plugin.version,
            skills_installed: done.skills,
        }
    }
}

async fn update(ctx: Ctx, params: NameParams) -> Result<UpdateResult, RpcError> {
    Ok(change(&ctx, move |plugins| plugins.update(&params.name)).await?.into())
}

#[derive(Serialize)]
struct UpdateAllResult {
    results: Vec<UpdateEntry>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateEntry {
    name: String,
    marketplace: String,
    success: bool,
    #[serde(flatten)]
    done: Option<UpdateResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn update_all(ctx: Ctx, _: Nothing) -> Result<UpdateAllResult, RpcError> {
    let all = change(&ctx, |plugins| Ok(plugins.update_all())).await?;
    let entry = |(plugin, result): (InstalledPlugin, Result<Installed, PluginError>)| {
        let (done, error) = match result {
            Ok(done) => (Some(done.into()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        UpdateEntry {
            name: plugin.name,
            marketplace: plugin.marketplace,
            success: error.is_none(),
            done,
            error,
        }
    };
    Ok(UpdateAllResult {
        results: all.into_iter().map(entry).collect(),
    })
}

#[derive(Deserialize)]
struct NamesParams {
    names: Vec<String>,
}

async fn enable(ctx: Ctx, params: NamesParams) -> Result<(), RpcError> {
    change(&ctx, move |plugins| plugins.set_enabled(&params.names, true)).await?;
    Ok(())
}

async fn disable(ctx: Ctx, params: NamesParams) -> Result<(), RpcError> {
    let before = ctx.host.plugins().enabled();
    let off = change(&ctx, move |plugins| {
        let off = plugins.set_enabled(&params.names, false)?;
        Ok(off.iter().map(|plugin| plugins.directory(plugin)).collect::<Vec<_>>())
    })
    .await?;
    let off: Vec<_> = before.into_iter().filter(|plugin| off.contains(&plugin.root)).collect();
    ctx.host.stop_plugin_servers(&off);
    Ok(())
}

#[derive(Serialize)]
struct MarketplaceList {
    marketplaces: Vec<MarketplaceInfo>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MarketplaceInfo {
    name: String,
    source: String,
    is_default: bool,
}

async fn marketplaces(ctx: Ctx, _: Nothing) -> Result<MarketplaceList, RpcError> {
    let all = ctx.host.plugins().marketplaces().into_iter();
    let marketplaces = all.map(|known| MarketplaceInfo {
        name: known.name,
        source: known.source.describe(),
        is_default: known.built_in,
    });
    Ok(MarketplaceList {
        marketplaces: marketplaces.collect(),
    })
}

#[derive(Serialize)]
struct Added {
    name: String,
}

async fn add(ctx: Ctx, params: SourceParams) -> Result<Added, RpcError> {
    let cwd = params.cwd(&ctx);
    let name = change(&ctx, move |plugins| plugins.add_marketplace(&params.source, &cwd)).await?;
    Ok(Added { name })
}

#[derive(Deserialize)]
struct RemoveParams {
    name: String,
    #[serde(default)]
    force: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    removed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependent_plugins: Vec<String>,
}

async fn remove(ctx: Ctx, params: RemoveParams) -> Result<Removed, RpcError> {
    let left = change(&ctx, move |plugins| {
        plugins.remove_marketplace(&params.name, params.force)
    })
    .await?;
    Ok(Removed {
        removed: left.is_empty(),
        dependent_plugins: left.into_iter().map(|plugin| plugin.name).collect(),
    })
}

#[derive(Serialize)]
struct Offers {
    plugins: Vec<OfferInfo>,
}

#[derive(Serialize)]
struct OfferInfo {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

async fn browse(ctx: Ctx, params: NameParams) -> Result<Offers, RpcError> {
    let offers = change(&ctx, move |plugins| plugins.browse(&params.name)).await?;
    let info = |offer: lodge_host::Offer| OfferInfo {
        name: offer.name,
        description: offer.description,
    };
    Ok(Offers {
        plugins: offers.into_iter().map(info).collect(),
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RefreshParams {
    name: Option<String>,
}

#[derive(Serialize)]
struct Refreshed {
    results: Vec<RefreshEntry>,
}

#[derive(Serialize)]
struct RefreshEntry {
    name: String,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn refresh(ctx: Ctx, params: RefreshParams) -> Result<Refreshed, RpcError> {
    let results = change(&ctx, move |plugins| plugins.refresh(params.name.as_deref())).await?;
    let entry = |(name, result): (String, Result<(), PluginError>)| RefreshEntry {
        name,
        success: result.is_ok(),
        error: result.err().map(|error| error.to_string()),
    };
    Ok(Refreshed {
        results: results.into_iter().map(entry).collect(),
    })
}
