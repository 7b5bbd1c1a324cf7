//! Configuration files for servers: the user's and a project's.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lodge_trust::{Admitted, FolderFile, Gate, Startable};
use serde_json::{Map, Value};

use crate::{
    config::{ServerConfig, Source, check_name},
    info::Configured,
};

/// The person's file, in the home.
const USER_FILE: &str = "mcp-config.json";
/// Files of a project; where two name the same server the first one counts.
const PROJECT_FILES: &[&str] = &[".mcp.json", ".vscode/mcp.json", ".github/mcp.json"];
/// What a project's files call the project's folder.
const FOLDER: &[&str] = &["workspaceFolder", "workspaceRoot"];
/// The longest file that is read.
const FILE_BYTES: u64 = 1 << 20;

/// The person's servers.
pub fn of_user(home: &Path) -> Vec<Configured> {
    let file = home.join(USER_FILE);
    configured(&file, Source::User, &expander(&[], home), Admitted::of_person)
}

/// A project's servers, as far as they may be started.
pub fn of_project(folder: &Path, gate: &Gate) -> Vec<Configured> {
    let expand = expander(FOLDER, folder);
    let admit = |server: Startable<Value>| {
        // Nothing that nobody accepted learns what a variable holds.
        let admitted = gate.admit(server).map_err(|why| format!("Not started: {why}"))?;
        admitted.try_map(|value| config(&value, &expand))
    };
    let servers = brought_by(folder).into_iter().map(|(name, server)| Configured {
        name,
        source: Source::Workspace,
        config: server.and_then(admit),
    });
    servers.collect()
}

/// What a project's files say of servers, by name, or why a file says nothing. Of two with the same name the first counts.
pub fn brought_by(folder: &Path) -> Vec<(String, Result<Startable<Value>, String>)> {
    let mut found: Vec<(String, Result<Startable<Value>, String>)> = Vec::new();
    for name in PROJECT_FILES {
        let servers = match FolderFile::read(folder, name, FILE_BYTES) {
            Ok(None) => continue,
            Ok(Some(file)) => entries_of(file.text()).map(|servers| {
                let named = servers.into_iter().filter(|(name, _)| check_name(name).is_ok());
                let startable = named.map(|(name, value)| (name, Ok(file.startable(value))));
                startable.collect::<Vec<_>>()
            }),
            Err(error) => Err(error),
        };
        let path = folder.join(name);
        let servers = servers.unwrap_or_else(|error| vec![unusable(&path, &error)]);
        for server in servers {
            if !found.iter().any(|known| known.0 == server.0) {
                found.push(server);
            }
        }
    }
    found
}

/// A file that cannot be used is one server that says why.
fn unusable<T>(file: &Path, error: &str) -> (String, Result<T, String>) {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (name, Err(format!("{} cannot be used: {error}", file.display())))
}

/// The files that describe servers, whether they are there or not.
pub fn places(home: &Path, folder: &Path) -> Vec<PathBuf> {
    let project = PROJECT_FILES.iter().map(|file| folder.join(file));
    std::iter::once(home.join(USER_FILE)).chain(project).collect()
}

/// The servers that a plugin describes: in files, and in its manifest. `root` is its directory, and `names` are those of
/// variables that stand for it.
pub fn of_plugin(
    files: &[PathBuf],
    own: Map<String, Value>,
    names: &[&str],
    root: &Path,
    source: Source,
) -> Vec<Configured> {
    let expand = expander(names, root);
    let files = files.iter().filter(|file| file.is_file());
    let mut found: Vec<Configured> = files
        .flat_map(|file| configured(file, source, &expand, Admitted::of_client))
        .collect();
    found.extend(entries(own, source, &expand, Admitted::of_client));
    found
}

/// The file that describes a server; of those of a project the one that counts.
pub fn file_of(source: Source, name: &str, home: &Path, folder: &Path) -> Option<PathBuf> {
    match source {
        Source::User => Some(home.join(USER_FILE)),
        Source::Workspace => {
            let mut files = PROJECT_FILES.iter().map(|file| folder.join(file));
            files.find(|file| match read(file) {
                Ok(servers) => servers.contains_key(name),
                Err(_) => file.file_name().is_some_and(|file| file == name),
            })
        }
        Source::Plugin | Source::Builtin | Source::Client => None,
    }
}

/// The servers of one file that is not a folder's.
fn configured(
    file: &Path,
    source: Source,
    expand: &dyn Fn(&str) -> Result<String, String>,
    admit: fn(ServerConfig) -> Admitted<ServerConfig>,
) -> Vec<Configured> {
    match read(file) {
        Ok(servers) => entries(servers, source, expand, admit),
        Err(error) => {
            let (name, config) = unusable(file, &error);
            vec![Configured { name, source, config }]
        }
    }
}

/// The person's servers from elsewhere than their file.
pub fn of_person(servers: Map<String, Value>) -> Vec<Configured> {
    entries(
        servers,
        Source::User,
        &expander(&[], Path::new("")),
        Admitted::of_person,
    )
}

fn entries(
    servers: Map<String, Value>,
    source: Source,
    expand: &dyn Fn(&str) -> Result<String, String>,
    admit: fn(ServerConfig) -> Admitted<ServerConfig>,
) -> Vec<Configured> {
    let servers = servers.into_iter().filter(|(name, _)| check_name(name).is_ok());
    servers
        .map(|(name, value)| Configured {
            name,
            source,
            config: config(&value, expand).map(admit),
        })
        .collect()
}

/// Reads a server with its variables replaced. An error quotes what is written there, never what a variable holds.
fn config(value: &Value, expand: &dyn Fn(&str) -> Result<String, String>) -> Result<ServerConfig, String> {
    let mut expanded = value.clone();
    expand_all(&mut expanded, expand)?;
    ServerConfig::read(&expanded).map_err(|_| match ServerConfig::read(value) {
        Err(why) => why,
        Ok(_) => "A value is not valid once its variables are replaced.".to_owned(),
    })
}

/// The entries of a file, as they are written; none when there is no file.
fn read(file: &Path) -> Result<Map<String, Value>, String> {
    servers_in(read_whole(file)?)
}

fn entries_of(text: &str) -> Result<Map<String, Value>, String> {
    servers_in(parse(text)?)
}

fn servers_in(mut whole: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let key = if whole.contains_key("mcpServers") {
        "mcpServers"
    } else {
        "servers"
    };
    match whole.remove(key) {
        None => Ok(Map::new()),
        Some(Value::Object(servers)) => Ok(servers),
        Some(_) => Err(format!("`{key}` must be an object")),
    }
}

fn read_whole(file: &Path) -> Result<Map<String, Value>, String> {
    match lodge_files::read_regular(file, FILE_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(error.to_string()),
        Ok(text) => parse(&String::from_utf8(text).map_err(|_| "it is not text".to_owned())?),
    }
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(&without_comments(text)).map_err(|error| error.to_string())? {
        Value::Object(whole) => Ok(whole),
        _ => Err("it must contain a JSON object".into()),
    }
}

/// Editors allow comments in these files.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_text = false;
    while let Some(c) = rest.next() {
        match c {
            '"' => in_text = !in_text,
            '\\' if in_text => {
                out.push(c);
                out.extend(rest.next());
                continue;
            }
            '/' if !in_text && rest.peek() == Some(&'/') => {
                while rest.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            '/' if !in_text && rest.peek() == Some(&'*') => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Replaces `$NAME`, `${NAME}`, `${NAME:-default}` and `${env:NAME}`; these names stand for a folder.
fn expander<'a>(names: &'a [&'a str], folder: &'a Path) -> impl Fn(&str) -> Result<String, String> + use<'a> {
    move |text| {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(braced) = rest.strip_prefix('{')
                && let Some((name, after)) = braced.split_once('}')
            {
                rest = after;
                out.push_str(&variable(name, names, folder)?);
                continue;
            }
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                out.push('$');
                continue;
            }
            out.push_str(&variable(name, names, folder)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}

fn variable(name: &str, names: &[&str], folder: &Path) -> Result<String, String> {
    if names.contains(&name) {
        return Ok(folder.to_string_lossy().into_owned());
    }
    if name == "userHome" {
        return Ok(std::env::var("HOME").unwrap_or_default());
    }
    if let Some(input) = name.strip_prefix("input:") {
        return Err(format!(
            "It uses the input variable `{input}`, which only editors support; use ${{env:NAME}} instead."
        ));
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    let (name, default) = name.split_once(":-").unwrap_or((name, ""));
    Ok(std::env::var(name).unwrap_or_else(|_| default.to_owned()))
}

fn expand_all(value: &mut Value, expand: &dyn Fn(&str) -> Result<String, String>) -> Result<(), String> {
    match value {
        Value::String(text) => *text = expand(text)?,
        Value::Array(all) => all.iter_mut().try_for_each(|value| expand_all(value, expand))?,
        Value::Object(all) => all.values_mut().try_for_each(|value| expand_all(value, expand))?,
        _ => {}
    }
    Ok(())
}

/// The person's configuration file, to read and change. Everything else in it stays as it is.
pub struct UserFile(PathBuf);

impl UserFile {
    /// The one of this home.
    pub fn of(home: &Path) -> Self {
        Self(home.join(USER_FILE))
    }

    /// The servers as they are written, without anything replaced in them.
    pub fn list(&self) -> Result<Map<String, Value>, String> {
        read(&self.0)
    }

    /// Adds a server; there must be none of this name.
    pub fn add(&self, name: &str, config: Value) -> Result<(), String> {
        check_name(name)?;
        ServerConfig::read(&config)?;
        self.change(|servers| match servers.contains_key(name) {
            true => Err(format!("MCP server \"{name}\" already exists")),
            false => {
                servers.insert(name.to_owned(), config);
                Ok(())
            }
        })
    }

    /// Gives a server another configuration.
    pub fn update(&self, name: &str, config: Value) -> Result<(), String> {
        ServerConfig::read(&config)?;
        self.change(|servers| match servers.get_mut(name) {
            Some(server) => {
                *server = config;
                Ok(())
            }
            None => Err(format!("MCP server \"{name}\" is not configured")),
        })
    }

    /// Removes a server.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        self.change(|servers| match servers.remove(name) {
            Some(_) => Ok(()),
            None => Err(format!("MCP server \"{name}\" is not configured")),
        })
    }

    /// Says whether servers are to be started in new sessions. Names that are not configured are left out.
    pub fn set_enabled(&self, names: &[String], enabled: bool) -> Result<(), String> {
        self.change(|servers| {
            for name in names {
                if let Some(Value::Object(server)) = servers.get_mut(name) {
                    server.remove("enabled");
                    server.remove("disabled");
                    if !enabled {
                        server.insert("disabled".into(), true.into());
                    }
                }
            }
            Ok(())
        })
    }

    /// Changes the file: the new one takes the place of the old, whole, and only the person may read it.
    fn change(&self, change: impl FnOnce(&mut Map<String, Value>) -> Result<(), String>) -> Result<(), String> {
        let mut whole = read_whole(&self.0)?;
        let key = if whole.contains_key("servers") && !whole.contains_key("mcpServers") {
            "servers"
        } else {
            "mcpServers"
        };
        let servers = whole.entry(key).or_insert_with(|| Value::Object(Map::new()));
        change(servers.as_object_mut().ok_or("`mcpServers` must be an object")?)?;
        let failed = |error: io::Error| format!("cannot write {}: {error}", self.0.display());
        let text = serde_json::to_vec_pretty(&whole).map_err(|error| error.to_string())?;
        let write = || {
            fs::create_dir_all(self.0.parent().unwrap_or(Path::new("/")))?;
            lodge_files::replace(&self.0, &text)
        };
        write().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Transport;

    #[test]
    fn variables_are_put_in_where_files_name_them() {
        let home = std::env::var("HOME").expect("there is a home");
        let folder = Path::new("/home/x");
        for (text, expected) in [
            ("plain", "plain".to_owned()),
            ("$HOME/a", format!("{home}/a")),
            ("${HOME}", home.clone()),
            ("${env:HOME}", home.clone()),
            ("${NOT_SET_AT_ALL:-else}", "else".to_owned()),
            ("${NOT_SET_AT_ALL}", String::new()),
            ("${workspaceFolder}/b", "/home/x/b".to_owned()),
            ("5$ and $1 and ${open", "5$ and $1 and ${open".to_owned()),
        ] {
            assert_eq!(expander(FOLDER, folder)(text), Ok(expected), "{text}");
        }
        assert!(expander(&[], folder)("${input:token}").is_err());
    }

    #[test]
    fn files_are_read_in_every_form_people_have() {
        let dir = tempfile::tempdir().expect("a place");
        let put = |name: &str, text: &str| {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            fs::write(file, text).expect("written");
        };
        put(
            ".mcp.json",
            r#"{"mcpServers": {"a": {"command": "x"}, "b": {"type": "odd"}}}"#,
        );
        put(
            ".vscode/mcp.json",
            "{ // mine\n \"servers\": {\"a\": {\"command\": \"y\"}, /* http://no */ \"c\": {\"url\": \"http://h//x\"}}}",
        );
        put(".github/mcp.json", "not json");
        let found = of_project(dir.path(), &Gate::vouched_for());
        let names: Vec<_> = found
            .iter()
            .map(|server| (server.name.as_str(), server.config.is_ok()))
            .collect();
        assert_eq!(names, [("a", true), ("b", false), ("c", true), ("mcp.json", false)]);
        let Ok(ServerConfig {
            transport: Transport::Stdio { command, .. },
            ..
        }) = found[0].config.as_deref()
        else {
            panic!("{found:?}");
        };
        assert_eq!(command, "x", "the first file counts");
        assert!(of_project(Path::new("/nowhere"), &Gate::vouched_for()).is_empty());
        let store = lodge_trust::Store::at(&dir.path().join("home"));
        for server in of_project(dir.path(), &Gate::of(&store)) {
            assert!(server.config.is_err(), "this folder is not trusted: {}", server.name);
        }
    }

    #[test]
    fn what_variables_hold_is_in_no_error() {
        let dir = tempfile::tempdir().expect("a place");
        let home = std::env::var("HOME").expect("there is a home");
        let servers = r#"{"servers": {"a": {"type": "${HOME}"}, "b": {"url": "${HOME}"}, "c": {"command": "x", "timeout": "$HOME"},
            "d": {"command": "x", "args": "${HOME}"}, "e": {"command": "${HOME}"}}}"#;
        fs::write(dir.path().join(".mcp.json"), servers).expect("written");
        let store = lodge_trust::Store::at(&dir.path().join("home"));
        for (gate, usable) in [(Gate::vouched_for(), 1), (Gate::of(&store), 0)] {
            let found = of_project(dir.path(), &gate);
            assert_eq!(found.iter().filter(|server| server.config.is_ok()).count(), usable);
            for error in found.into_iter().filter_map(|server| server.config.err()) {
                assert!(!error.contains(&home), "{error}");
            }
        }
    }

    #[test]
    fn the_persons_file_is_changed_with_care() {
        let dir = tempfile::tempdir().expect("a place");
        let file = UserFile::of(dir.path());
        assert_eq!(file.list(), Ok(Map::new()));
        fs::write(dir.path().join(USER_FILE), r#"{"theme": "dark"}"#).expect("written");
        file.add("a", json!({"command": "x", "note": 1})).expect("added");
        assert!(file.add("a", json!({"command": "x"})).is_err());
        assert!(file.add("b", json!({"type": "odd"})).is_err());
        assert!(file.update("b", json!({"command": "x"})).is_err());
        file.set_enabled(&["a".into(), "b".into()], false).expect("set");
        assert!(
            of_user(dir.path())[0]
                .config
                .as_ref()
                .is_ok_and(|config| config.disabled)
        );
        file.set_enabled(&["a".into()], true).expect("set");
        assert_eq!(
            Value::Object(file.list().expect("read")),
            json!({"a": {"command": "x", "note": 1}})
        );
        let text = fs::read_to_string(dir.path().join(USER_FILE)).expect("read");
        assert!(text.contains("dark"), "what else stands there stays");
        file.remove("a").expect("removed");
        assert!(file.remove("a").is_err());
    }
}
