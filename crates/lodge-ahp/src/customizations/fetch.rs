//! Copies a client's plugin to a directory of the host, through the client: the usual parts, and the parts that its manifest
//! names. The directory is removed when the client goes.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_files::Scratch;
use lodge_host::Plugin;
use serde::Deserialize;
use serde_json::json;

use crate::{face::Face, methods::call_client, uri};

/// The parts at the top of a plugin that are always copied.
const PARTS: [&str; 12] = [
    "SKILL.md",
    "skills",
    "agents",
    "rules",
    "commands",
    "hooks",
    "hooks.json",
    ".mcp.json",
    ".plugin",
    ".claude",
    ".claude-plugin",
    "plugin.json",
];
/// Directories that are never copied.
const NEVER: [&str; 2] = ["node_modules", ".git"];
/// The variable with which hooks and servers refer to the directory of their plugin.
const ITS_ROOT: &str = "PLUGIN_ROOT";
const DEPTH: usize = 8;
const FILES: usize = 512;
const FILE_BYTES: usize = 1 << 20;
const BYTES: usize = 8 << 20;

/// Why a plugin cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("It has no {}.", .0.display())]
    Missing(PathBuf),
    #[error("It has more than {FILES} files, or files nested too deeply.")]
    TooManyFiles,
    #[error("{} is too large.", .0.display())]
    TooLarge(PathBuf),
    #[error("{uri} cannot be read: {why}")]
    Unreadable { uri: String, why: String },
    #[error("Cannot save it: {0}")]
    Unsaved(#[from] std::io::Error),
    /// What the host says about its manifest.
    #[error("{0}")]
    Invalid(String),
}

impl FetchError {
    fn unreadable(uri: &str, why: impl ToString) -> Self {
        Self::Unreadable {
            uri: uri.to_owned(),
            why: why.to_string(),
        }
    }
}

/// A copy of a plugin. Dropping it removes the directory.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) plugin: Plugin,
    _dir: Scratch,
}

/// Where plugins are copied to. Leftovers of an earlier host can be deleted.
pub(crate) fn place(home: &Path) -> PathBuf {
    home.join("ahp/plugins")
}

#[derive(Deserialize)]
struct Listed {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Entry {
    fn is_dir(&self) -> bool {
        self.kind == "directory"
    }
}

#[derive(Deserialize)]
struct Content {
    data: String,
    #[serde(default)]
    encoding: Option<String>,
}

/// Reads a plugin of a client.
pub(super) async fn fetch(face: Arc<Face>, client: &str, at: &str) -> Result<Copied, FetchError> {
    let dir = Scratch::new(&place(face.host.home().path())).await?;
    let mut fetch = Fetch {
        face: &face,
        client,
        at,
        dir,
        files: 0,
        bytes: 0,
        needs_all: false,
    };
    let top = fetch.list(Path::new("")).await?;
    let (parts, rest): (Vec<Entry>, Vec<Entry>) =
        (top.into_iter()).partition(|entry| PARTS.contains(&entry.name.as_str()));
    for entry in &parts {
        fetch.take(entry, PathBuf::from(&entry.name)).await?;
    }
    let plugin = fetch.described().await?;
    if fetch.needs_all {
        for entry in rest.iter().filter(|entry| !NEVER.contains(&entry.name.as_str())) {
            fetch.take(entry, PathBuf::from(&entry.name)).await?;
        }
    }
    Ok(Copied {
        plugin,
        _dir: fetch.dir,
    })
}

struct Fetch<'a> {
    face: &'a Face,
    client: &'a str,
    at: &'a str,
    dir: Scratch,
    files: usize,
    bytes: usize,
    /// A hook or server runs files outside the usual parts.
    needs_all: bool,
}

impl Fetch<'_> {
    /// Reads the manifest, and copies the parts that it names.
    async fn described(&mut self) -> Result<Plugin, FetchError> {
        let plugin = lodge_host::read_plugin(self.dir.path().to_owned()).await;
        let plugin = plugin.map_err(FetchError::Invalid)?;
        let root = &plugin.root;
        for place in plugin.places().filter_map(|place| place.strip_prefix(root).ok()) {
            let top = place.iter().next();
            // What begins with a usual place is there by now, if it is at all.
            if top.is_some_and(|top| PARTS.iter().all(|part| *part != top)) {
                self.named(place).await?;
            }
        }
        Ok(Plugin {
            root: self.dir.path().to_owned(),
            ..plugin
        })
    }

    /// Copies a part that the manifest names.
    async fn named(&mut self, place: &Path) -> Result<(), FetchError> {
        let parent = place.parent().unwrap_or(Path::new(""));
        let entries = self.list(parent).await?;
        let entry = entries
            .into_iter()
            .find(|entry| place.file_name() == Some(OsStr::new(&entry.name)));
        let entry = entry.ok_or_else(|| FetchError::Missing(place.to_owned()))?;
        self.take(&entry, place.to_owned()).await
    }

    /// Copies a file, or a directory with its contents. Skips files that were copied before.
    async fn take(&mut self, entry: &Entry, path: PathBuf) -> Result<(), FetchError> {
        if !is_plain(&entry.name) {
            return Ok(());
        }
        let mut waiting = vec![(path, entry.is_dir(), 0)];
        while let Some((path, is_dir, depth)) = waiting.pop() {
            if !is_dir && self.dir.has(&path).await {
                continue;
            }
            self.files += 1;
            if self.files > FILES || depth > DEPTH {
                return Err(FetchError::TooManyFiles);
            }
            if !is_dir {
                let content = self.read(&path).await?;
                let is_json = path.extension().is_some_and(|extension| extension == "json");
                self.needs_all |= is_json && String::from_utf8_lossy(&content).contains(ITS_ROOT);
                self.dir.write(&path, content).await?;
                continue;
            }
            self.dir.make_directory(&path).await?;
            let entries = self.list(&path).await?;
            let good = |entry: &&Entry| is_plain(&entry.name) && !NEVER.contains(&entry.name.as_str());
            for entry in entries.iter().filter(good) {
                waiting.push((path.join(&entry.name), entry.is_dir(), depth + 1));
            }
        }
        Ok(())
    }

    async fn list(&self, below: &Path) -> Result<Vec<Entry>, FetchError> {
        let listed: Listed = self.ask("resourceList", below).await?;
        Ok(listed.entries)
    }

    async fn read(&mut self, below: &Path) -> Result<Vec<u8>, FetchError> {
        let content: Content = self.ask("resourceRead", below).await?;
        let content = match content.encoding.as_deref() {
            Some("base64") => {
                let decoded = STANDARD.decode(content.data);
                decoded.map_err(|error| FetchError::unreadable(&below.to_string_lossy(), error))?
            }
            _ => content.data.into_bytes(),
        };
        self.bytes += content.len();
        if content.len() > FILE_BYTES || self.bytes > BYTES {
            return Err(FetchError::TooLarge(below.to_owned()));
        }
        Ok(content)
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, method: &str, below: &Path) -> Result<T, FetchError> {
        let uri = match below.as_os_str().is_empty() {
            true => self.at.to_owned(),
            false => uri::child(self.at, below),
        };
        let params = json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "uri": uri, "encoding": "base64" });
        let answer = call_client(self.face, self.client, method, &params.to_string())
            .await
            .map_err(|error| FetchError::unreadable(&uri, error.message))?;
        serde_json::from_str(answer.get()).map_err(|error| FetchError::unreadable(&uri, error))
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}
