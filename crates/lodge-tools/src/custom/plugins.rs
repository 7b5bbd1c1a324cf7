//! Plugins: directories that bundle skills, agents, rules, commands, hooks and MCP servers behind one manifest.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::read;

/// Where a plugin's manifest may be.
const MANIFESTS: [&str; 5] = [
    "plugin.json",
    ".plugin/plugin.json",
    ".claude-plugin/plugin.json",
    ".github/plugin.json",
    ".github/plugin/plugin.json",
];

/// Names under which what a plugin describes may speak of the plugin's own directory.
pub const ROOT_VARIABLES: [&str; 3] = ["CLAUDE_PLUGIN_ROOT", "COPILOT_PLUGIN_ROOT", "PLUGIN_ROOT"];

/// A plugin that was found in its directory. Its parts are looked at when they are wanted; not all of them need be there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plugin {
    /// Its name.
    pub name: String,
    /// Its version, if the manifest has one.
    pub version: Option<String>,
    /// Its directory.
    pub root: PathBuf,
    /// Directories with skills; the root itself may be one.
    pub skills: Vec<PathBuf>,
    /// Agents, and directories with some.
    pub agents: Vec<PathBuf>,
    /// Instructions, and directories with some.
    pub rules: Vec<PathBuf>,
    /// Commands, and directories with some.
    pub commands: Vec<PathBuf>,
    /// Files that describe hooks.
    pub hooks: Vec<PathBuf>,
    /// Hooks that stand in the manifest itself.
    pub own_hooks: Option<Value>,
    /// Files that describe MCP servers.
    pub servers: Vec<PathBuf>,
    /// MCP servers that stand in the manifest itself.
    pub own_servers: Map<String, Value>,
    /// Files that describe language servers.
    pub language_servers: Vec<PathBuf>,
    /// Names of language servers that stand in the manifest itself.
    pub own_language_servers: Vec<String>,
}

impl Plugin {
    /// Reads the plugin of a directory: one with a manifest, or with a skill. Reads files.
    pub fn read(root: &Path) -> Result<Self, String> {
        match manifest(root)? {
            Some(fields) => Self::described(root, &fields),
            None if root.join("SKILL.md").is_file() => Self::described(root, &Map::new()),
            None => Err(format!("no plugin.json or SKILL.md found in {}", root.display())),
        }
    }

    /// Reads a directory that somebody calls a plugin, with or without a manifest. Reads files.
    pub fn read_any(root: &Path) -> Result<Self, String> {
        Self::described(root, &manifest(root)?.unwrap_or_default())
    }

    fn described(root: &Path, fields: &Map<String, Value>) -> Result<Self, String> {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let folder = || root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts = |usual: &[&str], key: &str| {
            let mut paths: Vec<PathBuf> = usual.iter().map(|name| root.join(name)).collect();
            let named = match fields.get(key) {
                Some(Value::Array(names)) => names.as_slice(),
                Some(name) => std::slice::from_ref(name),
                None => &[],
            };
            for name in named.iter().filter_map(Value::as_str) {
                let path = root.join(inside(name)?);
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            Ok::<_, String>(paths)
        };
        Ok(Self {
            name: text("name").filter(|name| !name.is_empty()).unwrap_or_else(folder),
            version: text("version"),
            skills: parts(&["", "skills", ".claude/skills"], "skills")?,
            agents: parts(&["agents", ".claude/agents"], "agents")?,
            rules: parts(&["rules", ".claude/rules"], "rules")?,
            commands: parts(&["commands", ".claude/commands"], "commands")?,
            hooks: parts(&["hooks.json", "hooks/hooks.json"], "hooks")?,
            own_hooks: fields.get("hooks").filter(|hooks| hooks.is_object()).cloned(),
            servers: parts(&[".mcp.json"], "mcpServers")?,
            own_servers: match fields.get("mcpServers") {
                Some(Value::Object(servers)) => match servers.get("mcpServers") {
                    Some(Value::Object(servers)) => servers.clone(),
                    _ => servers.clone(),
                },
                _ => Map::new(),
            },
            language_servers: parts(&[".lsp.json"], "lspServers")?,
            own_language_servers: match fields.get("lspServers") {
                Some(Value::Object(servers)) => servers.keys().cloned().collect(),
                _ => Vec::new(),
            },
            root: root.to_owned(),
        })
    }

    /// What to tell people of its language servers, which are not started. Reads files.
    pub fn language_servers_left_out(&self) -> Option<String> {
        let mut names = self.own_language_servers.clone();
        for path in self.language_servers.iter().filter(|path| path.is_file()) {
            if let Ok(Value::Object(servers)) = read(path).map(|text| serde_json::from_str(&text).unwrap_or_default()) {
                names.extend(servers.into_iter().map(|(name, _)| name));
            }
        }
        (!names.is_empty()).then(|| {
            format!(
                "Lodge starts no language servers, so these of the plugin {} are not used: {}.",
                self.name,
                names.join(", ")
            )
        })
    }

    /// Everywhere that something of it may be.
    pub fn places(&self) -> impl Iterator<Item = &PathBuf> {
        let kinds = [
            &self.skills,
            &self.agents,
            &self.rules,
            &self.commands,
            &self.hooks,
            &self.servers,
        ];
        kinds.into_iter().flatten()
    }
}

/// What a plugin says of itself, where it does.
fn manifest(root: &Path) -> Result<Option<Map<String, Value>>, String> {
    let Some(path) = MANIFESTS.iter().map(|name| root.join(name)).find(|path| path.is_file()) else {
        return Ok(None);
    };
    match serde_json::from_str(&read(&path)?) {
        Ok(Value::Object(fields)) => Ok(Some(fields)),
        Ok(_) => Err(format!("{} must contain a JSON object", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// A manifest speaks of what is in the plugin.
fn inside(named: &str) -> Result<PathBuf, String> {
    let mut path = PathBuf::new();
    for part in Path::new(named).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => path.push(part),
            _ => return Err(format!("{named} is outside the plugin")),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_plugin_by_its_manifest_or_its_skill() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = |name: &str, files: &[(&str, &str)]| {
            let root = dir.path().join(name);
            for (file, text) in files {
                std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
                std::fs::write(root.join(file), text).unwrap();
            }
            Plugin::read(&root)
        };
        let named = plugin("a", &[("plugin.json", r#"{"name": "Tools", "version": "1.2.0"}"#)]).unwrap();
        assert_eq!(
            (named.name.as_str(), named.version.as_deref()),
            ("Tools", Some("1.2.0"))
        );
        assert_eq!(plugin("b", &[(".github/plugin/plugin.json", "{}")]).unwrap().name, "b");
        assert_eq!(plugin("c", &[("SKILL.md", "Do it.")]).unwrap().name, "c");
        for (name, files, told) in [
            ("d", &[("README.md", "")][..], "no plugin.json or SKILL.md found in"),
            ("e", &[("plugin.json", "[]")][..], "must contain a JSON object"),
            ("f", &[("plugin.json", "{")][..], "plugin.json: "),
        ] {
            let error = plugin(name, files).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_manifest_adds_to_the_usual_places_but_never_leaves_the_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = |text: &str| {
            std::fs::write(dir.path().join("plugin.json"), text).unwrap();
            Plugin::read_any(dir.path())
        };
        let plugin = manifest(
            r#"{"skills": ["./more", ".//other/", "skills"], "agents": "people", "commands": ["./hem.md"],
                "hooks": {"hooks": {}}, "mcpServers": {"a": {"command": "x"}}}"#,
        )
        .unwrap();
        let below = |paths: &[PathBuf]| -> Vec<String> {
            let below = paths.iter().map(|path| path.strip_prefix(dir.path()).unwrap());
            below.map(|path| path.display().to_string()).collect()
        };
        // Some are written as the folder of a project: their parts lie in `.claude`.
        assert_eq!(below(&plugin.skills), ["", "skills", ".claude/skills", "more", "other"]);
        assert_eq!(below(&plugin.agents), ["agents", ".claude/agents", "people"]);
        assert_eq!(below(&plugin.commands), ["commands", ".claude/commands", "hem.md"]);
        assert_eq!(below(&plugin.hooks), ["hooks.json", "hooks/hooks.json"]);
        assert!(plugin.own_hooks.is_some());
        assert!(plugin.own_servers.contains_key("a"));
        for outside in ["../out", "a/../../out", "/etc"] {
            let error = manifest(&format!(r#"{{"agents": "{outside}"}}"#)).unwrap_err();
            assert!(error.contains(outside), "{error}");
        }
    }
}
