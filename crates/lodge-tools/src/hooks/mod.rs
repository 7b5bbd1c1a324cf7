//! Hooks that files describe: commands that are given JSON and may answer with JSON.
//!
//! The form is that of the Copilot CLI: `{"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": "…"}]}}`, with
//! event names in camelCase, or as VS Code writes them (`PreToolUse`), which also changes the names of the input's fields. Entries
//! may also be gathered under a matcher (`{"matcher": "…", "hooks": [{…}]}`), as plugins have them.

mod command;
mod names;

pub use names::ONLY_IN_FILES;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use lodge_trust::{Admitted, FolderFile, Gate, Startable, Untrusted};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    Environment,
    custom::{Plugin, ROOT_VARIABLES},
};

/// How long a hook may take that does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long any hook may take.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Files larger than this are no hooks.
const LARGEST_FILE: u64 = 1 << 20;
/// Where a folder describes hooks.
pub const IN_FOLDERS: &str = ".github/hooks";

/// The hooks of a session.
#[derive(Debug, Default, Clone)]
pub struct FileHooks {
    hooks: Vec<FileHook>,
    /// What is wrong with the files, for people. Whatever is right in them is in force all the same.
    pub problems: Vec<String>,
}

/// One hook.
#[derive(Debug, Clone)]
pub struct FileHook {
    /// When it runs, in camelCase.
    event: &'static str,
    /// Whether it is given its input in VS Code's words.
    vscode: bool,
    command: String,
    cwd: PathBuf,
    env: BTreeMap<String, String>,
    timeout: Duration,
    matcher: Option<RegexMatcher>,
    /// The file that describes it.
    pub source: PathBuf,
}

/// What a file says of hooks.
#[derive(Debug, Clone, Deserialize)]
pub struct HookFile {
    version: Option<u64>,
    #[serde(default, rename = "disableAllHooks")]
    disabled: bool,
    #[serde(default)]
    hooks: BTreeMap<String, Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Entry {
    r#type: Option<String>,
    bash: Option<String>,
    powershell: Option<String>,
    /// What VS Code calls it.
    command: Option<String>,
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
    timeout_sec: Option<f64>,
    timeout: Option<f64>,
    matcher: Option<String>,
}

impl HookFile {
    /// When it runs what, for people.
    pub fn commands(&self) -> Vec<String> {
        let entries = self.hooks.iter().flat_map(|(event, entries)| {
            let entries = entries.iter().cloned().flat_map(single);
            entries.filter_map(move |entry| {
                let entry: Entry = serde_json::from_value(entry).ok()?;
                Some(format!("hook {event}: {}", entry.bash.or(entry.command)?))
            })
        });
        entries.collect()
    }
}

/// The `*.json` files of a directory, by name.
pub fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_file(path)).collect();
    files.sort();
    files
}

fn is_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// A folder's hooks by file, or what is wrong with the file.
pub fn brought_by(folder: &Path) -> Vec<(PathBuf, Result<Startable<HookFile>, String>)> {
    let dir = folder.join(IN_FOLDERS);
    let read = |path: &Path| {
        let name = path.strip_prefix(folder).unwrap_or(path);
        let file = FolderFile::read(folder, name, LARGEST_FILE)?.ok_or("it no longer exists")?;
        let of_hooks = |path: &Path| path.parent().is_some_and(|dir| dir.ends_with(IN_FOLDERS)) && is_file(path);
        let parsed = serde_json::from_str(file.text()).map_err(|error| error.to_string())?;
        Ok(file.with_all_beneath(IN_FOLDERS, of_hooks).startable(parsed))
    };
    let files = files_in(&dir).into_iter();
    files
        .map(|path| {
            let read = read(&path);
            (path, read)
        })
        .collect()
}

impl FileHooks {
    /// Adds what the `*.json` files of a directory of the person's describe, in the order of their names. `base` is where
    /// hooks run that do not say where.
    pub fn read_own(&mut self, dir: &Path, base: &Path) {
        self.read_directory(dir, base, Admitted::of_person);
    }

    /// The same for a directory that a client names.
    pub fn read_given(&mut self, dir: &Path, base: &Path) {
        self.read_directory(dir, base, Admitted::of_client);
    }

    fn read_directory(&mut self, dir: &Path, base: &Path, admit: fn(HookFile) -> Admitted<HookFile>) {
        for path in files_in(dir) {
            if let Err(problem) = self.read_file(&path, base, admit) {
                self.problems.push(format!("{}: {problem}", path.display()));
            }
        }
    }

    /// Adds a folder's hooks that may be started; reports the rest.
    pub fn read_folder(&mut self, folder: &Path, gate: &Gate) {
        for (path, file) in brought_by(folder) {
            let admitted = match file.map(|file| gate.admit(file)) {
                Ok(Ok(admitted)) => self.add_file(admitted, &path, folder),
                Ok(Err(why)) => {
                    let told = match why {
                        Untrusted::Folder { folder } => format!(
                            "The hooks in {} do not run: this folder is not trusted. To trust it: \
                             lodge trust {}",
                            folder.join(IN_FOLDERS).display(),
                            folder.display()
                        ),
                        changed => format!("The hooks in {} were not run: {changed}", path.display()),
                    };
                    if !self.problems.contains(&told) {
                        self.problems.push(told);
                    }
                    continue;
                }
                Err(problem) => Err(problem),
            };
            if let Err(problem) = admitted {
                self.problems.push(format!("{}: {problem}", path.display()));
            }
        }
    }

    /// Reads a file that is not a folder's.
    fn read_file(&mut self, path: &Path, base: &Path, admit: fn(HookFile) -> Admitted<HookFile>) -> Result<(), String> {
        let text = lodge_files::read_regular(path, LARGEST_FILE).map_err(|error| error.to_string())?;
        let file = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        self.add_file(admit(file), path, base)
    }

    /// Adds what a plugin describes. Its hooks run in `base`, and find the plugin's own directory in their environment.
    pub fn read_plugin(&mut self, plugin: &Plugin, base: &Path) {
        let first = self.hooks.len();
        let files = plugin.hooks.iter().filter(|path| path.is_file());
        let mut problems: Vec<String> = Vec::new();
        for path in files {
            if let Err(problem) = self.read_file(path, base, Admitted::of_client) {
                problems.push(format!("{}: {problem}", path.display()));
            }
        }
        if let Some(own) = &plugin.own_hooks {
            // With or without the frame that a file of hooks has.
            let whole = match own.get("hooks") {
                Some(_) => own.clone(),
                None => serde_json::json!({ "hooks": own }),
            };
            let read = serde_json::from_value(whole).map_err(|error| error.to_string());
            if let Err(problem) = read.and_then(|file| self.add_file(Admitted::of_client(file), &plugin.root, base)) {
                problems.push(format!("the plugin {}: {problem}", plugin.name));
            }
        }
        self.problems.extend(problems);
        for hook in &mut self.hooks[first..] {
            for name in ROOT_VARIABLES {
                hook.env
                    .entry(name.to_owned())
                    .or_insert_with(|| plugin.root.to_string_lossy().into_owned());
            }
        }
    }

    /// The only way to a hook that can run.
    fn add_file(&mut self, file: Admitted<HookFile>, path: &Path, base: &Path) -> Result<(), String> {
        let file = file.into_inner();
        if let Some(version) = file.version.filter(|version| *version != 1) {
            return Err(format!("unsupported version {version}; use 1"));
        }
        if file.disabled {
            return Ok(());
        }
        for (name, entries) in file.hooks {
            let Some((event, vscode)) = names::event(&name) else {
                self.problems.push(format!(
                    "{}: unknown event {name:?}; its hooks never run",
                    path.display()
                ));
                continue;
            };
            for entry in entries.into_iter().flat_map(single) {
                match hook(entry, event, vscode, path, base) {
                    Ok(hook) => self.hooks.extend(hook),
                    Err(problem) => self.problems.push(format!("{}: {name}: {problem}", path.display())),
                }
            }
        }
        Ok(())
    }

    /// The hooks for an event, in their order. What they are about is matched where they say so.
    pub fn of(&self, event: &str, input: &Value) -> Vec<FileHook> {
        let about = input["toolName"].as_str().or_else(|| input["agentName"].as_str());
        let fits = |hook: &&FileHook| match (&hook.matcher, about) {
            (Some(matcher), Some(about)) => matcher.is_match(about.as_bytes()).unwrap_or(false),
            _ => true,
        };
        self.hooks
            .iter()
            .filter(|hook| hook.event == event)
            .filter(fits)
            .cloned()
            .collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hooks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }
}

/// Some files gather hooks under one matcher: each is an entry of its own.
fn single(entry: Value) -> Vec<Value> {
    let Some(Value::Array(inner)) = entry.get("hooks") else {
        return vec![entry];
    };
    let around = entry.get("matcher");
    let with_matcher = |hook: &Value| {
        let mut hook = hook.clone();
        if let (Some(hook), Some(matcher)) = (hook.as_object_mut(), around) {
            hook.entry("matcher").or_insert_with(|| matcher.clone());
        }
        hook
    };
    inner.iter().map(with_matcher).collect()
}

/// One entry; nothing when it is none for this system.
fn hook(
    entry: Value,
    event: &'static str,
    vscode: bool,
    source: &Path,
    base: &Path,
) -> Result<Option<FileHook>, String> {
    let entry: Entry = serde_json::from_value(entry).map_err(|error| error.to_string())?;
    match entry.r#type.as_deref() {
        Some("command") | None => {}
        Some(other) => return Err(format!("hooks of type {other:?} are not supported")),
    }
    let command = match entry.bash.or(entry.command) {
        Some(command) => command,
        None if entry.powershell.is_some() => return Ok(None),
        None => return Err("missing command (`bash`)".to_owned()),
    };
    let matcher = match entry.matcher.as_deref() {
        None | Some("" | "*") => None,
        Some(pattern) => Some(
            RegexMatcherBuilder::new()
                .build(&format!("^(?:{pattern})$"))
                .map_err(|error| format!("invalid regular expression in matcher {pattern:?}: {error}"))?,
        ),
    };
    let seconds = entry.timeout_sec.or(entry.timeout);
    let timeout = match seconds {
        None => DEFAULT_TIMEOUT,
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|timeout| !timeout.is_zero())
            .ok_or_else(|| format!("invalid time limit: {seconds} seconds"))?
            .min(LONGEST_TIMEOUT),
    };
    Ok(Some(FileHook {
        event,
        vscode,
        command,
        cwd: entry.cwd.map_or_else(|| base.to_owned(), |cwd| base.join(cwd)),
        env: entry.env,
        timeout,
        matcher,
        source: source.to_owned(),
    }))
}

impl FileHook {
    /// Runs it. What it prints is its output, where that is a JSON object; dropping the future ends it.
    pub async fn run(&self, input: &Value, environment: &Environment) -> Result<Option<Value>, String> {
        let given = if self.vscode {
            names::for_vscode(self.event, input)
        } else {
            names::parsed(input)
        };
        let ended = command::run(self, given.to_string(), environment).await?;
        let printed: Option<Map<String, Value>> = serde_json::from_str(ended.stdout.trim()).ok();
        let output = printed.map(names::flattened);
        let said = ended.stderr.trim();
        match (ended.code, self.event) {
            (Some(0), _) => Ok(output.map(Value::Object)),
            // The code that says no, with the reason on standard error.
            (Some(2), "preToolUse") => {
                let mut output = output.unwrap_or_default();
                output.insert("permissionDecision".to_owned(), "deny".into());
                if !said.is_empty() {
                    output.insert("permissionDecisionReason".to_owned(), said.into());
                }
                Ok(Some(Value::Object(output)))
            }
            (Some(2), "permissionRequest") => Ok(Some(serde_json::json!({"behavior": "deny", "message": said}))),
            (Some(2), "agentStop" | "subagentStop") if !said.is_empty() => {
                Ok(Some(serde_json::json!({"decision": "block", "reason": said})))
            }
            (Some(2), "postToolUseFailure") if !said.is_empty() => {
                Ok(Some(serde_json::json!({"additionalContext": said})))
            }
            (Some(code), _) => Err(match said {
                "" => format!("the command exited with code {code}"),
                said => format!("the command exited with code {code}: {said}"),
            }),
            (None, _) => Err("the command was killed by a signal".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
