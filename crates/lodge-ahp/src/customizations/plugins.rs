//! Plugins that clients bring: directories of theirs with skills, agents, rules, commands and MCP servers. They are read
//! through the client, into a directory of the host's that lives as long as the client does.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ahp_types::state::ClientPluginCustomization;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::json;

use super::{Decisions, decision};
use crate::{face::Face, methods::call_client, uri};

/// A client brings at most so many.
pub(super) const MOST: usize = 32;
/// What is read of a plugin, at its top.
const PARTS: [&str; 5] = ["skills", "agents", "rules", "commands", ".mcp.json"];
const DEPTH: usize = 8;
const FILES: usize = 512;
const FILE_BYTES: usize = 1 << 20;
const BYTES: usize = 8 << 20;

/// A plugin of a client.
pub(super) struct Plugin {
    /// Its id in the session.
    pub(super) id: String,
    pub(super) client: String,
    pub(super) given: ClientPluginCustomization,
    /// None while it is being read.
    pub(super) fetched: Option<Result<Copied, String>>,
    /// The MCP servers that it brought to the session.
    pub(super) servers: Vec<String>,
}

impl Plugin {
    /// Whether it is on: as decided here, else as its client says.
    pub(super) fn is_on(&self, decisions: &Decisions) -> bool {
        let given = decision(self.given.enablement.as_deref().unwrap_or_default());
        decisions.get(&self.id).copied().or(given).unwrap_or(true)
    }

    /// What its client says of one of its parts.
    pub(super) fn said_of(&self, name: &str) -> Option<bool> {
        decision(self.given.child_enablement.as_ref()?.get(name)?)
    }

    /// Where it was copied to.
    pub(super) fn root(&self) -> Option<&Path> {
        self.fetched.as_ref()?.as_ref().ok().map(|copied| copied.0.as_path())
    }
}

/// A directory that goes with whoever holds this.
#[derive(Debug)]
pub(super) struct Copied(PathBuf);

impl Drop for Copied {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        let remove = move || drop(std::fs::remove_dir_all(path));
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
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

#[derive(Deserialize)]
struct Content {
    data: String,
    #[serde(default)]
    encoding: Option<String>,
}

/// Where plugins are copied to; what an earlier host left there is of no use.
pub(crate) fn place(home: &Path) -> PathBuf {
    home.join("ahp/plugins")
}

/// Reads a plugin of a client.
pub(super) async fn fetch(face: Arc<Face>, client: &str, at: &str) -> Result<Copied, String> {
    let root = place(face.host.home().path()).join(uuid::Uuid::new_v4().simple().to_string());
    tokio::fs::create_dir_all(&root)
        .await
        .map_err(|error| format!("It cannot be kept: {error}"))?;
    let copied = Copied(root);
    let (mut files, mut bytes) = (0, 0);
    let mut waiting = vec![(at.to_owned(), PathBuf::new(), 0)];
    while let Some((directory, below, depth)) = waiting.pop() {
        let listed: Listed = ask(&face, client, "resourceList", &directory).await?;
        for entry in listed.entries {
            if !is_plain(&entry.name) || (depth == 0 && !PARTS.contains(&entry.name.as_str())) {
                continue;
            }
            let (from, to) = (uri::child(&directory, Path::new(&entry.name)), below.join(&entry.name));
            files += 1;
            if files > FILES || depth == DEPTH {
                return Err(format!("It has more than {FILES} files, or too deep ones."));
            }
            if entry.kind == "directory" {
                tokio::fs::create_dir_all(copied.0.join(&to))
                    .await
                    .map_err(|error| format!("It cannot be kept: {error}"))?;
                waiting.push((from, to, depth + 1));
                continue;
            }
            let content: Content = ask(&face, client, "resourceRead", &from).await?;
            let content = match content.encoding.as_deref() {
                Some("base64") => STANDARD.decode(content.data).map_err(|error| error.to_string())?,
                _ => content.data.into_bytes(),
            };
            bytes += content.len();
            if content.len() > FILE_BYTES || bytes > BYTES {
                return Err(format!("{from} is too large."));
            }
            tokio::fs::write(copied.0.join(&to), content)
                .await
                .map_err(|error| format!("It cannot be kept: {error}"))?;
        }
    }
    Ok(copied)
}

async fn ask<T: serde::de::DeserializeOwned>(face: &Face, client: &str, method: &str, uri: &str) -> Result<T, String> {
    let params = json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "uri": uri, "encoding": "base64" });
    let answer = call_client(face, client, method, &params.to_string())
        .await
        .map_err(|error| format!("{uri} cannot be read: {}", error.message))?;
    serde_json::from_str(answer.get()).map_err(|error| format!("{uri} cannot be read: {error}"))
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}
