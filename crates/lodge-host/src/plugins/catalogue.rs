//! The list of plugins that a marketplace offers, in a file of its directory.

use std::path::Path;

use lodge_files::read_regular;
use serde::Deserialize;
use serde_json::Value;

use super::{
    PluginError,
    source::{PluginSource, is_name},
};

/// Where the list may be.
const FILES: [&str; 4] = [
    "marketplace.json",
    ".plugin/marketplace.json",
    ".github/plugin/marketplace.json",
    ".claude-plugin/marketplace.json",
];
/// A list that is longer is none.
const MOST_BYTES: u64 = 16 << 20;

/// The list.
#[derive(Debug, Deserialize)]
pub(super) struct Catalogue {
    pub(super) name: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    pub(super) plugins: Vec<Offer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    plugin_root: Option<String>,
}

/// A plugin that a marketplace offers.
#[derive(Debug, Clone, Deserialize)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub(super) version: Option<String>,
    source: Value,
}

impl Catalogue {
    /// Reads the list of a marketplace whose files are in `root`.
    pub(super) fn read(root: &Path) -> Result<Self, PluginError> {
        let file = FILES.iter().map(|name| root.join(name)).find(|path| path.is_file());
        let file = file.ok_or_else(|| PluginError::NoCatalogue(root.to_owned()))?;
        let wrong = |reason: String| PluginError::Catalogue(file.clone(), reason);
        let text = read_regular(&file, MOST_BYTES).map_err(|error| wrong(error.to_string()))?;
        let list: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        match is_name(&list.name) {
            true => Ok(list),
            false => Err(wrong(format!("{:?} is not a valid marketplace name", list.name))),
        }
    }

    /// A plugin of it, and where its files are.
    pub(super) fn find(&self, name: &str, root: &Path) -> Result<(&Offer, PluginSource), PluginError> {
        let offer = self.plugins.iter().find(|offer| offer.name == name);
        let offer = offer.ok_or_else(|| PluginError::NotOffered {
            plugin: name.to_owned(),
            marketplace: self.name.clone(),
        })?;
        let source = PluginSource::of_entry(&offer.source, root, self.metadata.plugin_root.as_deref())?;
        Ok((offer, source))
    }
}
