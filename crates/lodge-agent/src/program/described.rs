//! Lodge's own description of a program's requests.
//!
//! A program describes its call: kind, arguments, changes, files, a title. None of this is shown as if it were ours. Instead,
//! everything in the request becomes [`Action`]s. An action is the only description: people are asked about it, the log
//! describes the call with it, and an approval covers exactly it. No other module makes one.
//!
//! A description is clear if it names all files, commands and addresses that the request names. Otherwise people see the
//! whole request, in the program's own words.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use lodge_events::{CustomToolPermission, PermissionRequest};
use lodge_external::{CallContent, CallUpdate, NewTerminal, quoted};
use lodge_tools::{Located, Need, ToolCx, ToolError};
use serde_json::{Map, Value, json};

use super::{Work, approved::Approved};

/// Members of arguments that only explain.
const WORDS: &[&str] = &["description", "explanation", "intention", "summary", "title"];
/// Members that repeat what the shown changes say.
const TEXTS: &[&str] = &[
    "content",
    "contents",
    "diff",
    "file_text",
    "new_str",
    "new_string",
    "newString",
    "newText",
    "old_str",
    "old_string",
    "oldString",
    "oldText",
    "patch",
];
const PLACES: &[&str] = &["cwd", "workdir", "directory"];

/// One thing that a program wants.
pub(super) struct Action {
    request: PermissionRequest,
    /// What the program may then have done once without another question.
    approves: Option<Approved>,
}

impl Action {
    fn new(request: PermissionRequest, approves: Option<Approved>) -> Self {
        Self {
            request: request.with_tool_call_id(None),
            approves,
        }
    }

    /// As the log says it.
    fn recorded(&self) -> Recorded {
        let (name, arguments) = self.request.call();
        Recorded {
            name: name.to_owned(),
            arguments,
            title: None,
        }
    }

    /// What people are asked, about this call of the log or about none.
    pub(super) fn question(&self, call: Option<String>) -> PermissionRequest {
        self.request.clone().with_tool_call_id(call)
    }

    pub(super) fn approves(&self) -> Option<Approved> {
        self.approves.clone()
    }
}

/// What the log says of a call.
#[derive(Clone, PartialEq)]
pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) arguments: Value,
    /// The program's own words, if nobody was asked about the call.
    pub(super) title: Option<String>,
}

impl Recorded {
    /// What people are asked, in one entry of the log.
    pub(super) fn of(actions: &[Action]) -> Self {
        let mut all: Vec<Self> = actions.iter().map(Action::recorded).collect();
        if all.len() == 1 {
            return all.remove(0);
        }
        let name = all
            .first()
            .map_or_else(|| "tool".to_owned(), |first| first.name.clone());
        let parts = if name == "view" { "files" } else { "changes" };
        let all: Vec<Value> = all.into_iter().map(|recorded| recorded.arguments).collect();
        Self {
            name,
            arguments: json!({ parts: all }),
            title: None,
        }
    }

    /// A call that nobody is asked about: what the program does by itself, as it says.
    pub(super) fn claimed(known: &CallUpdate) -> Self {
        let command = known.argument(&["command", "cmd"]);
        if let (Some("execute"), Some(command)) = (known.kind.as_deref(), command)
            && Shown::of([command]).covers_input(known)
        {
            return Self {
                name: "bash".to_owned(),
                arguments: json!({ "command": command }),
                title: None,
            };
        }
        Self {
            name: known.tool_name().to_owned(),
            arguments: match &known.raw_input {
                Some(input) if input.is_object() => input.clone(),
                Some(Value::Null) | None => json!({}),
                Some(other) => json!({ "input": other }),
            },
            title: known.title.clone(),
        }
    }
}

/// What a description names. It is clear if the request names nothing else.
#[derive(Default)]
struct Shown<'a> {
    texts: Vec<&'a str>,
    files: BTreeSet<PathBuf>,
    /// Where relative paths begin.
    cwd: PathBuf,
    /// Members whose texts need not be shown.
    beside: Vec<&'static str>,
}

impl<'a> Shown<'a> {
    fn of(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            texts: texts.into_iter().collect(),
            beside: WORDS.to_vec(),
            ..Self::default()
        }
    }

    fn names(&self, text: &str) -> bool {
        text.is_empty() || self.texts.contains(&text) || self.files.contains(&self.cwd.join(text))
    }

    /// Numbers and switches name nothing. A text does, unless it is shown or only explains.
    fn covers(&self, member: &str, value: &Value) -> bool {
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => self.beside.contains(&member) || self.names(text),
            Value::Array(items) => items.iter().all(|item| self.covers(member, item)),
            Value::Object(members) => members
                .iter()
                .all(|(name, value)| (is_word(name) || self.names(name)) && self.covers(name, value)),
        }
    }

    fn covers_input(&self, known: &CallUpdate) -> bool {
        known.raw_input.as_ref().is_none_or(|input| self.covers("", input))
    }

    fn covers_all(&self, known: &CallUpdate) -> bool {
        self.covers_input(known) && known.files().all(|path| self.names(path))
    }
}

impl Work<'_> {
    /// What a call of the program is about: one action or several, all of which have to be allowed.
    pub(super) fn describe(&self, known: &CallUpdate) -> Vec<Action> {
        let cx = self.cx();
        let clear = match known.kind.as_deref() {
            Some("execute") => self.described_command(known, &cx),
            Some("edit") => described_edits(known, &cx),
            Some("read") => self.described_reads(known, &cx),
            Some("fetch") => self.described_fetch(known, &cx),
            _ => None,
        };
        let mut actions = clear.unwrap_or_else(|| match self.forbidden_part(known, &cx) {
            Some(forbidden) => vec![forbidden],
            None => vec![self.unclear(known)],
        });
        // Nobody is asked about the rest of what a rule forbids.
        let is_forbidden = |action: &Action| self.turn.shared.forbidden(&action.request).is_some();
        match actions.iter().position(is_forbidden) {
            Some(at) => vec![actions.swap_remove(at)],
            None => actions,
        }
    }

    /// Running a line in a directory of the session. The directory is part of the line, so whoever sees or judges the line sees
    /// where it runs.
    pub(super) fn command(&self, line: &str, place: &str) -> Result<(String, Action), String> {
        let cx = self.cx();
        let at = |place: &str| cx.directory(place).map_err(|error| error.to_string());
        let (here, place) = (at(".")?, at(place)?);
        let line = match here == place {
            true => line.to_owned(),
            false => format!("cd {} && {line}", quoted(&place.to_string_lossy())),
        };
        let approves = Approved::command(&line, &cx.cwd);
        let need = self.need("bash", json!({ "command": line, "description": "" }), &cx);
        let request = need.ok_or_else(|| "Commands cannot be run here.".to_owned())?;
        Ok((line, Action::new(request, Some(approves))))
    }

    fn need(&self, tool: &str, arguments: Value, cx: &ToolCx) -> Option<PermissionRequest> {
        match self.builtin(tool)?.need(&arguments, cx) {
            Ok(Need::Ask(request)) => Some(*request),
            _ => None,
        }
    }

    fn described_command(&self, known: &CallUpdate, cx: &ToolCx) -> Option<Vec<Action>> {
        let command = known.argument(&["command", "cmd"])?;
        let place = known.argument(PLACES).unwrap_or(".");
        let shown = Shown {
            files: BTreeSet::from([cx.cwd.join(place)]),
            cwd: cx.cwd.clone(),
            ..Shown::of([command, place])
        };
        // Some agents say which files a command is about. Who reads the command sees those that are words of it.
        let mentioned = mentioned_files(command, &cx.cwd.join(place));
        let is_seen = |path: &str| shown.names(path) || mentioned.contains(&cx.cwd.join(path));
        let no_changes = known.changes().next().is_none();
        let is_clear = no_changes && shown.covers_input(known) && known.files().all(is_seen);
        let (_, action) = self.command(command, place).ok().filter(|_| is_clear)?;
        Some(vec![action])
    }

    fn described_reads(&self, known: &CallUpdate, cx: &ToolCx) -> Option<Vec<Action>> {
        let shown = Shown {
            files: named_files(known, cx),
            cwd: cx.cwd.clone(),
            ..Shown::of([])
        };
        let no_changes = known.changes().next().is_none();
        let is_clear = !shown.files.is_empty() && no_changes && shown.covers_all(known);
        let read = |path: &PathBuf| {
            let request = self.need("view", json!({ "path": path }), cx)?;
            Some(Action::new(request, None))
        };
        is_clear.then(|| shown.files.iter().map(read).collect()).flatten()
    }

    fn described_fetch(&self, known: &CallUpdate, cx: &ToolCx) -> Option<Vec<Action>> {
        let url = known.argument(&["url"])?;
        let request = self.need("web_fetch", json!({ "url": url }), cx)?;
        let is_clear = Shown::of([url]).covers_all(known);
        is_clear.then(|| vec![Action::new(request, None)])
    }

    /// A request that is not clear: people are shown all of it, and told whose words these are. No rule can be made of it
    /// (`lodge_tools::rules`), so an answer counts once.
    fn unclear(&self, known: &CallUpdate) -> Action {
        let request = CustomToolPermission {
            tool_name: lodge_tools::rules::agent_request(&self.agent),
            tool_description: format!("What the agent {} asks for, in its own words.", self.agent),
            args: Some(said(known)),
            ..CustomToolPermission::default()
        };
        Action::new(request.into(), None)
    }

    /// A part of a request that a rule forbids, as far as the request can be understood.
    fn forbidden_part(&self, known: &CallUpdate, cx: &ToolCx) -> Option<Action> {
        let input = known.raw_input.as_ref();
        let line = input.and_then(|input| serde_json::from_value::<NewTerminal>(input.clone()).ok());
        let line = line.map(|command| command.line());
        let line = line.or_else(|| known.argument(&["command", "cmd"]).map(str::to_owned));
        let command = line.and_then(|line| self.need("bash", json!({ "command": line, "description": "" }), cx));
        let url = known.argument(&["url"]);
        let url = url.and_then(|url| self.need("web_fetch", json!({ "url": url }), cx));
        let changes_files = !matches!(known.kind.as_deref(), Some("read" | "search" | "think" | "fetch"));
        let files = named_files(known, cx).into_iter().flat_map(|path| {
            let read = self.need("view", json!({ "path": path }), cx);
            let written = cx.writing(&path.to_string_lossy(), "").ok();
            let written = written
                .filter(|_| changes_files)
                .map(|(_, request)| of_unknown_text(request));
            read.into_iter().chain(written)
        });
        let mut parts = command.into_iter().chain(url).chain(files);
        let forbidden = parts.find(|part| self.turn.shared.forbidden(part).is_some())?;
        Some(Action::new(forbidden, None))
    }
}

/// The files that a request names.
fn named_files(known: &CallUpdate, cx: &ToolCx) -> BTreeSet<PathBuf> {
    let names = ["path", "file_path", "filePath", "filepath", "abs_path", "absolute_path"];
    let arguments = names.iter().filter_map(|name| known.argument(&[name]));
    known.files().chain(arguments).map(|path| cx.cwd.join(path)).collect()
}

/// Files whose paths are words of a command that runs in this directory.
fn mentioned_files(command: &str, directory: &Path) -> BTreeSet<PathBuf> {
    let words = command.split(|c: char| c.is_whitespace() || "'\"`;&|<>()=:,".contains(c));
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| directory.join(word)).collect()
}

/// Reading a file for the program.
pub(super) fn reading(cx: &ToolCx, path: &str) -> Result<(Located, Action), ToolError> {
    let (place, request) = cx.reading(path)?;
    Ok((place, Action::new(request, None)))
}

/// Giving a file a text for the program.
pub(super) fn writing(cx: &ToolCx, path: &str, text: &str) -> Result<(Located, Action), ToolError> {
    let (place, request) = cx.writing(path, text)?;
    let approves = Approved::write(&place.path, text);
    Ok((place, Action::new(request, Some(approves))))
}

/// A text of a file, where there was one, and the text that replaces it.
type Replaced<'a> = (Option<&'a str>, &'a str);

fn described_edits(known: &CallUpdate, cx: &ToolCx) -> Option<Vec<Action>> {
    let mut texts = Vec::new();
    let mut files: Vec<(PathBuf, Vec<Replaced<'_>>)> = Vec::new();
    for (path, old, new) in known.changes() {
        let path = cx.cwd.join(path);
        match files.iter_mut().find(|(known, _)| *known == path) {
            Some((_, changes)) => changes.push((old, new)),
            None => files.push((path, vec![(old, new)])),
        }
        texts.extend(old.into_iter().chain([new]));
    }
    let shown = Shown {
        files: match files.is_empty() {
            true => named_files(known, cx),
            false => files.iter().map(|(path, _)| path.clone()).collect(),
        },
        cwd: cx.cwd.clone(),
        ..Shown::of(texts)
    };
    if files.is_empty() {
        let is_clear = !shown.files.is_empty() && shown.covers_all(known);
        let write = |path: &PathBuf| {
            let (_, request) = cx.writing(&path.to_string_lossy(), "").ok()?;
            Some(Action::new(of_unknown_text(request), None))
        };
        return is_clear.then(|| shown.files.iter().map(write).collect()).flatten();
    }
    let shown = Shown {
        beside: [WORDS, TEXTS].concat(),
        ..shown
    };
    let write = |(path, changes): &(PathBuf, Vec<(Option<&str>, &str)>)| {
        let path = path.to_string_lossy();
        let text = cx.changed(&path, changes)?;
        writing(cx, &path, &text).ok().map(|(_, action)| action)
    };
    shown
        .covers_all(known)
        .then(|| files.iter().map(write).collect())
        .flatten()
}

/// Nobody knows what is written, so no difference is shown.
fn of_unknown_text(request: PermissionRequest) -> PermissionRequest {
    let mut request = request.without_text();
    if let PermissionRequest::Write(write) = &mut request {
        write.intention = format!("Write {}. The agent does not say what.", write.file_name);
    }
    request
}

/// All that a program says of a call.
fn said(known: &CallUpdate) -> Value {
    let changes = known.changes().map(|(path, old, new)| {
        let diff = lodge_tools::difference(path, old, new);
        json!({ "path": path, "diff": diff })
    });
    let texts = known.content.iter().flatten().filter_map(|content| match content {
        CallContent::Content { content } => content["text"].as_str(),
        _ => None,
    });
    let parts = [
        ("title", json!(known.title)),
        ("tool", json!(known.name)),
        ("kind", json!(known.kind)),
        ("input", known.raw_input.clone().unwrap_or_default()),
        ("files", json!(known.files().collect::<BTreeSet<_>>())),
        ("changes", changes.collect()),
        ("text", texts.collect()),
    ];
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let parts = parts.into_iter().filter(|(_, value)| !is_empty(value));
    parts
        .map(|(name, value)| (name.to_owned(), value))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(update: Value) -> CallUpdate {
        serde_json::from_value(update).unwrap()
    }

    #[test]
    fn a_request_that_names_more_than_is_shown_is_not_clear() {
        let shown = Shown {
            files: BTreeSet::from([PathBuf::from("/w/a")]),
            cwd: "/w".into(),
            ..Shown::of(["ls"])
        };
        for (input, is_clear) in [
            (json!({ "command": "ls", "timeout": 3, "background": true }), true),
            (
                json!({ "command": "ls", "description": "List files", "args": [], "env": {} }),
                true,
            ),
            (json!({ "command": "ls", "commands": ["ls"] }), true),
            (json!({ "command": "ls", "path": "a", "file": "/w/a" }), true),
            (json!({ "command": "ls", "cmd": "rm -r x" }), false),
            (json!({ "command": "ls", "args": ["-l"] }), false),
            (json!({ "command": "ls", "env": { "LD_PRELOAD": "x" } }), false),
            (json!({ "command": "ls", "path": "b" }), false),
            (json!({ "command": "ls", "then": { "/etc/passwd": true } }), false),
            (json!({ "command": "ls", "then": [[{ "run": "rm" }]] }), false),
        ] {
            let known = call(json!({ "toolCallId": "c", "rawInput": input }));
            assert_eq!(shown.covers_all(&known), is_clear, "{input}");
        }
        let elsewhere = json!({ "toolCallId": "c", "locations": [{ "path": "/etc/passwd" }] });
        assert!(!shown.covers_all(&call(elsewhere)));
    }

    #[test]
    fn an_unclear_request_is_shown_whole() {
        let said = said(&call(
            json!({ "toolCallId": "c", "title": "Tidy up", "name": "bash", "kind": "other",
            "rawInput": { "command": "ls", "then": "rm" }, "locations": [{ "path": "/b" }],
            "content": [{ "type": "diff", "path": "/a", "newText": "new" },
                { "type": "content", "content": { "type": "text", "text": "words" } }] }),
        ));
        for part in ["Tidy up", "bash", "other", "rm", "/b", "/a", "+new", "words"] {
            assert!(said.to_string().contains(part), "{part}: {said}");
        }
        assert_eq!(super::said(&call(json!({ "toolCallId": "c" }))), json!({}));
    }
}
