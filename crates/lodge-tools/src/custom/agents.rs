//! Custom agents: a prompt with a name, and perhaps its own tools and model.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use lodge_trust::{FolderFile, Origin, Startable};
use serde_json::Value;

use super::{
    Found, LONGEST_FILE, MOST, Place, Tier, entries,
    front_matter::{Parts, find, flag, split, text, words},
    hidden_by, is_name, read,
};

/// Where an agent's definition comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AgentSource {
    /// This program.
    Builtin,
    /// A client of the session.
    #[default]
    Client,
    /// The user's files.
    User,
    /// The project's files.
    Project,
    /// Files of a parent directory.
    Inherited,
    /// A plugin's files.
    Plugin,
}

impl AgentSource {
    /// The word on the wire; clients' own definitions have none.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Builtin => Some("builtin"),
            Self::Client => None,
            Self::User => Some("user"),
            Self::Project => Some("project"),
            Self::Inherited => Some("inherited"),
            Self::Plugin => Some("plugin"),
        }
    }
}

/// An agent that can be chosen by a person, or started by the model.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefinition {
    /// Its name, unique in a session.
    pub name: String,
    /// Its name for people.
    pub display_name: Option<String>,
    /// What it is good for.
    pub description: String,
    /// What it is told.
    pub prompt: String,
    /// The tools it may use; all when absent.
    pub tools: Option<Vec<String>>,
    /// The model it wants.
    pub model: Option<String>,
    /// The effort it wants.
    pub reasoning_effort: Option<String>,
    /// MCP servers of its own, as configured.
    pub mcp_servers: Option<Startable<Value>>,
    /// Skills that it gets without asking.
    pub skills: Vec<String>,
    /// Whether the model may start it.
    pub infer: bool,
    /// Whether a person may choose it.
    pub user_invocable: bool,
    /// Where it comes from.
    pub source: AgentSource,
    /// Its file.
    pub path: Option<PathBuf>,
}

impl Default for AgentDefinition {
    fn default() -> Self {
        Self {
            name: String::new(),
            display_name: None,
            description: String::new(),
            prompt: String::new(),
            tools: None,
            model: None,
            reasoning_effort: None,
            mcp_servers: None,
            skills: Vec::new(),
            infer: true,
            user_invocable: true,
            source: AgentSource::Client,
            path: None,
        }
    }
}

impl AgentDefinition {
    /// Its name for people.
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

/// Looks for agents. Of two with the same name the first found counts.
pub fn find_agents(places: &[Place]) -> Found<AgentDefinition> {
    let mut found = Found::default();
    let mut names = HashSet::new();
    for place in places {
        // A plugin may name one agent.
        let one = Some(place.path.clone()).filter(|path| path.is_file());
        for path in one.into_iter().chain(entries(&place.path, &mut found.errors)) {
            if path.extension().is_none_or(|extension| extension != "md") || !path.is_file() {
                continue;
            }
            if found.all.len() >= MOST {
                found.errors.push(format!(
                    "There are more than {MOST} agents; {} is ignored",
                    path.display()
                ));
                return found;
            }
            match read_agent(&path, place, &mut found.warnings) {
                Ok(agent) if names.insert(agent.name.clone()) => found.all.push(agent),
                Ok(agent) => found.hidden.push(hidden_by(&path, &agent.name)),
                Err(error) => found.errors.push(error),
            }
        }
    }
    found
}

fn read_agent(path: &Path, place: &Place, warnings: &mut Vec<String>) -> Result<AgentDefinition, String> {
    let wrong = |error: String| format!("{}: {error}", path.display());
    // What a folder's file says is known together with what the file is, so that it can be asked whether it may be started.
    let brought = match place.brought_by() {
        Some(folder) => {
            let name = path.strip_prefix(folder).unwrap_or(path);
            let file = FolderFile::read(folder, name, LONGEST_FILE).map_err(wrong)?;
            Some(file.ok_or_else(|| wrong("it no longer exists".to_owned()))?)
        }
        None => None,
    };
    let own;
    let file = match &brought {
        Some(brought) => brought.text(),
        None => {
            own = read(path)?;
            &own
        }
    };
    let startable = |servers: &Value| match &brought {
        Some(brought) => brought.startable(servers.clone()),
        None => {
            let origin = match place.tier {
                Tier::User | Tier::Shared => Origin::Person,
                Tier::Given | Tier::Plugin => Origin::Client,
                // Without a file there is nothing that could be accepted.
                Tier::Project | Tier::Inherited => Origin::Folder {
                    folder: path.to_owned(),
                    fingerprints: Vec::new(),
                },
            };
            Startable::new(origin, servers.clone())
        }
    };
    let Parts { fields, body } = split(file).map_err(wrong)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = text(&fields, &["name"]).unwrap_or_else(|| stem.trim_end_matches(".agent").to_owned());
    if !is_name(&name) {
        return Err(format!("{}: invalid name {name:?}", path.display()));
    }
    if body.trim().is_empty() {
        return Err(format!("{}: missing prompt", path.display()));
    }
    let description = text(&fields, &["description"]).unwrap_or_else(|| {
        warnings.push(format!("{}: missing description", path.display()));
        name.clone()
    });
    Ok(AgentDefinition {
        display_name: text(&fields, &["display-name", "displayName", "display_name"]),
        description,
        prompt: body.trim_end().to_owned(),
        tools: words(&fields, &["tools"]),
        // Other agents write `inherit` for the model of the session.
        model: text(&fields, &["model"]).filter(|model| model != "inherit"),
        reasoning_effort: text(&fields, &["reasoning-effort", "reasoningEffort", "effort"]),
        mcp_servers: find(&fields, &["mcp-servers", "mcpServers"])
            .filter(|servers| servers.is_object())
            .map(startable),
        skills: words(&fields, &["skills"]).unwrap_or_default(),
        infer: flag(&fields, &["disable-model-invocation"])
            .map(|disabled| !disabled)
            .or_else(|| flag(&fields, &["infer"]))
            .unwrap_or(true),
        user_invocable: flag(&fields, &["user-invocable", "user-invokable"]).unwrap_or(true),
        source: match place.tier {
            Tier::Given => AgentSource::Client,
            Tier::Project => AgentSource::Project,
            Tier::Inherited => AgentSource::Inherited,
            Tier::Plugin => AgentSource::Plugin,
            Tier::User | Tier::Shared => AgentSource::User,
        },
        path: Some(path.to_owned()),
        name,
    })
}

/// The tools that a word in a list of tools means: names are taken as they are, and words of other agents are understood.
pub fn tool_alias(word: &str) -> &[&str] {
    match word.to_ascii_lowercase().as_str() {
        "execute" | "shell" | "bash" | "powershell" | "runcommands" => {
            &["bash", "read_bash", "write_bash", "stop_bash", "list_bash"]
        }
        "read" | "notebookread" => &["view"],
        "edit" | "multiedit" | "write" | "notebookedit" => &["edit", "create"],
        "search" => &["grep", "glob"],
        "web" | "webfetch" | "websearch" | "fetch" => &["web_fetch"],
        "agent" | "custom-agent" | "task" => &["task", "read_agent"],
        "todo" | "todowrite" => &["sql"],
        "grep" => &["grep"],
        "glob" => &["glob"],
        "skill" => &["skill"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_read_from_files_of_several_makes() {
        let dir = tempfile::tempdir().unwrap();
        let agents = dir.path().join(".github/agents");
        let claude = dir.path().join(".claude/agents");
        std::fs::create_dir_all(&agents).unwrap();
        std::fs::create_dir_all(&claude).unwrap();
        std::fs::write(
            agents.join("docs.agent.md"),
            "---\ndescription: Writes docs\ntools: ['read', 'edit']\nmcp-servers:\n  x:\n    command: y\ninfer: false\n---\nYou write docs.\n",
        )
        .unwrap();
        std::fs::write(agents.join("empty.md"), "---\nname: empty\n---\n").unwrap();
        std::fs::write(agents.join("notes.txt"), "not an agent").unwrap();
        std::fs::write(
            claude.join("reviewer.md"),
            "---\nname: reviewer\ndescription: Reviews\ntools: Read, Grep\nmodel: inherit\n---\nYou review.\n",
        )
        .unwrap();
        let found = find_agents(&super::super::Places::project(super::super::Kind::Agents, dir.path()));
        let names: Vec<_> = found.all.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["docs", "reviewer"]);
        let docs = &found.all[0];
        assert_eq!(docs.tools.as_deref().unwrap(), ["read", "edit"]);
        assert!(!docs.infer && docs.user_invocable);
        assert_eq!(docs.mcp_servers.as_ref().unwrap().look()["x"]["command"], "y");
        assert_eq!(docs.prompt, "You write docs.");
        assert_eq!(found.all[1].model, None);
        assert_eq!(found.errors.len(), 1, "{:?}", found.errors);
    }
}
