//! Reading a client's plugin through the client, into a directory of the host's that lives as long as the client does.
//!
//! What stands in its usual places is copied as it stands. Where `plugin.json` names other places, what is there is copied to the
//! usual ones, so that everybody finds it, and where it came from is remembered.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{face::Face, methods::call_client, uri};

/// What is read of every plugin, at its top.
const PARTS: [&str; 9] = [
    "skills",
    "agents",
    "rules",
    "commands",
    "hooks",
    ".mcp.json",
    ".plugin",
    ".claude-plugin",
    "plugin.json",
];
/// Where a plugin says what it is; the first that is there counts.
const MANIFESTS: [&str; 3] = [".plugin/plugin.json", ".claude-plugin/plugin.json", "plugin.json"];
/// What nobody runs from a plugin, and what is too much.
const NEVER: [&str; 2] = ["node_modules", ".git"];
/// How hooks and servers name the directory that their plugin is in.
const ITS_ROOT: &str = "PLUGIN_ROOT";
const DEPTH: usize = 8;
const FILES: usize = 512;
const FILE_BYTES: usize = 1 << 20;
const BYTES: usize = 8 << 20;

/// A plugin's copy. The directory goes with whoever holds this.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) root: PathBuf,
    /// Where things are at the client that are elsewhere here.
    origins: BTreeMap<PathBuf, PathBuf>,
    /// What `plugin.json` says of it.
    pub(super) version: Option<String>,
    /// Files that describe MCP servers.
    pub(super) servers: Vec<PathBuf>,
}

impl Copied {
    /// Where something in the copy is at the client.
    pub(super) fn origin(&self, below: &Path) -> PathBuf {
        let found = below.ancestors().find_map(|part| Some((part, self.origins.get(part)?)));
        match found {
            Some((part, origin)) => below.strip_prefix(part).map_or(origin.clone(), |rest| {
                origin.components().chain(rest.components()).collect()
            }),
            None => below.to_owned(),
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.root);
        let remove = move || drop(std::fs::remove_dir_all(path));
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Where plugins are copied to; what an earlier host left there is of no use.
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

/// What a plugin says of itself.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Manifest {
    version: Option<String>,
    agents: Named,
    skills: Named,
    commands: Named,
    rules: Named,
    hooks: Described,
    mcp_servers: Described,
}

/// Places in the plugin.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Named {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Named {
    fn paths(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }
}

/// Files in the plugin, or what would stand in one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Described {
    Here(Map<String, Value>),
    There(Named),
}

impl Default for Described {
    fn default() -> Self {
        Self::There(Named::None)
    }
}

/// Reads a plugin of a client.
pub(super) async fn fetch(face: Arc<Face>, client: &str, at: &str) -> Result<Copied, String> {
    let root = place(face.host.home().path()).join(uuid::Uuid::new_v4().simple().to_string());
    tokio::fs::create_dir_all(&root).await.map_err(kept)?;
    let copied = Copied {
        root,
        origins: BTreeMap::new(),
        version: None,
        servers: Vec::new(),
    };
    let mut fetch = Fetch {
        face: &face,
        client,
        at,
        copied,
        files: 0,
        bytes: 0,
        needs_all: false,
    };
    let top = fetch.list(Path::new("")).await?;
    for entry in top.iter().filter(|entry| PARTS.contains(&entry.name.as_str())) {
        fetch
            .take(entry, PathBuf::from(&entry.name), PathBuf::from(&entry.name))
            .await?;
    }
    fetch.described().await?;
    if fetch.needs_all {
        let rest = |entry: &&Entry| !PARTS.contains(&entry.name.as_str()) && !NEVER.contains(&entry.name.as_str());
        for entry in top.iter().filter(rest) {
            fetch
                .take(entry, PathBuf::from(&entry.name), PathBuf::from(&entry.name))
                .await?;
        }
    }
    Ok(fetch.copied)
}

struct Fetch<'a> {
    face: &'a Face,
    client: &'a str,
    at: &'a str,
    copied: Copied,
    files: usize,
    bytes: usize,
    /// Something in it runs what lies elsewhere in it.
    needs_all: bool,
}

impl Fetch<'_> {
    /// Does what `plugin.json` says.
    async fn described(&mut self) -> Result<(), String> {
        let mut text = None;
        for name in MANIFESTS {
            if text.is_none() {
                text = tokio::fs::read_to_string(self.copied.root.join(name)).await.ok();
            }
        }
        let manifest = match text {
            Some(text) => {
                serde_json::from_str(&text).map_err(|error| format!("Its plugin.json cannot be read: {error}"))?
            }
            None => Manifest::default(),
        };
        let kinds = [
            ("agents", &manifest.agents),
            ("skills", &manifest.skills),
            ("commands", &manifest.commands),
            ("rules", &manifest.rules),
        ];
        for (kind, named) in kinds {
            for path in named.paths() {
                self.further(kind, &inside(path)?).await?;
            }
        }
        match &manifest.hooks {
            Described::Here(hooks) => {
                let file = match hooks.contains_key("hooks") {
                    true => json!(hooks),
                    false => json!({ "hooks": hooks }),
                };
                self.put(Path::new("hooks/plugin.json"), file.to_string().into_bytes())
                    .await?;
            }
            Described::There(named) => {
                for path in named.paths() {
                    self.further("hooks", &inside(path)?).await?;
                }
            }
        }
        let mut servers = vec![PathBuf::from(".mcp.json")];
        match &manifest.mcp_servers {
            Described::Here(here) => {
                let file = match here.contains_key("mcpServers") {
                    true => json!(here),
                    false => json!({ "mcpServers": here }),
                };
                servers.push(PathBuf::from(".mcp.plugin.json"));
                self.put(&servers[1], file.to_string().into_bytes()).await?;
            }
            Described::There(named) => {
                for path in named.paths() {
                    let path = inside(path)?;
                    self.further("", &path).await?;
                    servers.push(path);
                }
            }
        }
        servers.dedup();
        self.copied.servers = servers;
        self.copied.version = manifest.version;
        Ok(())
    }

    /// Copies what the plugin names to where such things are looked for; as it stands where that is nowhere.
    async fn further(&mut self, kind: &str, named: &Path) -> Result<(), String> {
        let (Some(name), Some(parent)) = (named.file_name(), named.parent()) else {
            // The plugin as a whole: what is in it at the usual place is there already.
            return Ok(());
        };
        if named.starts_with(kind) && !kind.is_empty() || self.copied.root.join(named).exists() && kind.is_empty() {
            return Ok(());
        }
        let entries = self.list(parent).await?;
        let entry = entries.into_iter().find(|entry| Path::new(&entry.name) == name);
        let entry = entry.ok_or_else(|| format!("It has no {}.", named.display()))?;
        if kind.is_empty() {
            return self.take(&entry, named.to_owned(), named.to_owned()).await;
        }
        let below = Path::new(kind);
        if !entry.is_dir() {
            return self.take(&entry, named.to_owned(), below.join(name)).await;
        }
        let inner = self.list(named).await?;
        if kind == "skills" && inner.iter().any(|entry| entry.name == "SKILL.md") {
            return self.take(&entry, named.to_owned(), below.join(name)).await;
        }
        for entry in inner.iter().filter(|entry| is_plain(&entry.name)) {
            self.take(entry, named.join(&entry.name), below.join(&entry.name))
                .await?;
        }
        Ok(())
    }

    /// Copies a file, or a directory with all that is in it. What is there already stays.
    async fn take(&mut self, entry: &Entry, from: PathBuf, to: PathBuf) -> Result<(), String> {
        if !is_plain(&entry.name) || self.copied.root.join(&to).exists() {
            return Ok(());
        }
        if from != to {
            self.copied.origins.insert(to.clone(), from.clone());
        }
        let mut waiting = vec![(from, to, entry.is_dir(), 0)];
        while let Some((from, to, is_dir, depth)) = waiting.pop() {
            self.files += 1;
            if self.files > FILES || depth > DEPTH {
                return Err(format!("It has more than {FILES} files, or too deep ones."));
            }
            if !is_dir {
                let content = self.read(&from).await?;
                self.put(&to, content).await?;
                continue;
            }
            tokio::fs::create_dir_all(self.copied.root.join(&to))
                .await
                .map_err(kept)?;
            let entries = self.list(&from).await?;
            let good = |entry: &&Entry| is_plain(&entry.name) && !NEVER.contains(&entry.name.as_str());
            for entry in entries.iter().filter(good) {
                waiting.push((from.join(&entry.name), to.join(&entry.name), entry.is_dir(), depth + 1));
            }
        }
        Ok(())
    }

    async fn put(&mut self, to: &Path, content: Vec<u8>) -> Result<(), String> {
        let is_json = to.extension().is_some_and(|extension| extension == "json");
        self.needs_all |= is_json && String::from_utf8_lossy(&content).contains(ITS_ROOT);
        let is_program = content.starts_with(b"#!");
        let to = self.copied.root.join(to);
        if let Some(parent) = to.parent() {
            tokio::fs::create_dir_all(parent).await.map_err(kept)?;
        }
        tokio::fs::write(&to, content).await.map_err(kept)?;
        if is_program {
            let mode = std::fs::Permissions::from_mode(0o700);
            tokio::fs::set_permissions(&to, mode).await.map_err(kept)?;
        }
        Ok(())
    }

    async fn list(&self, below: &Path) -> Result<Vec<Entry>, String> {
        let listed: Listed = self.ask("resourceList", below).await?;
        Ok(listed.entries)
    }

    async fn read(&mut self, below: &Path) -> Result<Vec<u8>, String> {
        let content: Content = self.ask("resourceRead", below).await?;
        let content = match content.encoding.as_deref() {
            Some("base64") => STANDARD.decode(content.data).map_err(|error| error.to_string())?,
            _ => content.data.into_bytes(),
        };
        self.bytes += content.len();
        if content.len() > FILE_BYTES || self.bytes > BYTES {
            return Err(format!("{} is too large.", below.display()));
        }
        Ok(content)
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, method: &str, below: &Path) -> Result<T, String> {
        let uri = match below.as_os_str().is_empty() {
            true => self.at.to_owned(),
            false => uri::child(self.at, below),
        };
        let params = json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "uri": uri, "encoding": "base64" });
        let answer = call_client(self.face, self.client, method, &params.to_string())
            .await
            .map_err(|error| format!("{uri} cannot be read: {}", error.message))?;
        serde_json::from_str(answer.get()).map_err(|error| format!("{uri} cannot be read: {error}"))
    }
}

fn kept(error: std::io::Error) -> String {
    format!("It cannot be kept: {error}")
}

/// A place inside of the plugin.
fn inside(named: &str) -> Result<PathBuf, String> {
    let mut path = PathBuf::new();
    for part in Path::new(named).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => path.push(part),
            _ => return Err(format!("{named} is not inside of the plugin.")),
        }
    }
    Ok(path)
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_a_plugin_names_are_inside_of_it() {
        for (named, expected) in [
            ("./more/agents/", Some("more/agents")),
            ("more//x.md", Some("more/x.md")),
            (".", Some("")),
            ("../x", None),
            ("a/../../x", None),
            ("/etc", None),
        ] {
            assert_eq!(inside(named).ok(), expected.map(PathBuf::from), "{named}");
        }
    }

    #[test]
    fn manifests_name_places_or_say_it_all() {
        let text = r#"{"name":"x","agents":"./a","skills":["b","c"],"hooks":{"Stop":[]},"mcpServers":"m.json"}"#;
        let manifest: Manifest = serde_json::from_str(text).unwrap();
        assert_eq!(manifest.agents.paths(), ["./a"]);
        assert_eq!(manifest.skills.paths(), ["b", "c"]);
        assert!(matches!(manifest.hooks, Described::Here(_)));
        assert!(matches!(&manifest.mcp_servers, Described::There(named) if named.paths() == ["m.json"]));
        let origins = BTreeMap::from([(PathBuf::from("agents/x"), PathBuf::from("a/x"))]);
        let copied = Copied {
            root: PathBuf::from("/nonexistent/copy"),
            origins,
            version: None,
            servers: Vec::new(),
        };
        assert_eq!(copied.origin(Path::new("agents/x/y.md")), Path::new("a/x/y.md"));
        assert_eq!(copied.origin(Path::new("agents/z.md")), Path::new("agents/z.md"));
    }
}
