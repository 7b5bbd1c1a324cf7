//! The file `workspace.yaml` beside a log: facts about a session that are not in its events, such as its name.
//!
//! The Copilot CLI writes more into it; lines that are not ours are left as they are.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::disk::{Disk, put, read_whole};
use crate::file_store::missing;

const LABEL_FILE: &str = "workspace.yaml";

/// Facts about a session that are not in its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Its name, given by the user or made from the first message.
    pub name: Option<String>,
    /// The program that made it.
    pub client_name: Option<String>,
    /// Whether the user chose the name, so that no program should change it.
    pub user_named: bool,
}

impl Labels {
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> io::Result<Labels> {
        let mut values: BTreeMap<String, String> = lines(disk, dir)?
            .iter()
            .filter_map(|line| entry(line))
            .map(|(k, v)| (k.to_owned(), v))
            .collect();
        Ok(Labels {
            name: values.remove("name").filter(|name| !name.is_empty()),
            client_name: values.remove("client_name").filter(|name| !name.is_empty()),
            user_named: values.remove("user_named").is_some_and(|value| value == "true"),
        })
    }

    pub(crate) fn save(&self, disk: &dyn Disk, dir: &Path, id: &str) -> io::Result<()> {
        let mut lines = lines(disk, dir)?;
        if !lines.iter().any(|line| entry(line).is_some_and(|(key, _)| key == "id")) {
            lines.insert(0, format!("id: {}", quote(id)));
        }
        let mut set = |key: &str, value: Option<String>| {
            lines.retain(|line| entry(line).is_none_or(|(k, _)| k != key));
            lines.extend(value.map(|value| format!("{key}: {value}")));
        };
        set("name", self.name.as_deref().map(quote));
        set("client_name", self.client_name.as_deref().map(quote));
        set("user_named", Some(self.user_named.to_string()));
        put(disk, &dir.join(LABEL_FILE), (lines.join("\n") + "\n").as_bytes(), false)
    }
}

/// JSON text is YAML text.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn lines(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    match read_whole(disk, &dir.join(LABEL_FILE)) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()),
        Err(error) if missing(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A line `key: value` at the top level with a value on the same line.
fn entry(line: &str) -> Option<(&str, String)> {
    let (key, value) = line.split_once(':')?;
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let value = value.trim();
    let value = if value.starts_with('"') {
        serde_json::from_str(value).ok()?
    } else if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        inner.replace("''", "'")
    } else {
        value.to_owned()
    };
    Some((key, value))
}
