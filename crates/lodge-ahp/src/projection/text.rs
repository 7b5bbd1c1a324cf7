//! The words people read about tools.

use std::path::Path;

use lodge_events::{PermissionRequest, Timestamp};
use serde_json::{Map, Value};

/// A time as the protocol writes it: RFC 3339 in UTC with milliseconds.
pub(crate) fn timestamp(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// A tool's name for people.
pub(super) fn display_name(tool: &str) -> String {
    match tool {
        "bash" | "shell" => "Run command".into(),
        "view" | "read" => "Read".into(),
        "edit" | "str_replace" => "Edit".into(),
        "create" | "write" => "Create".into(),
        "grep" | "search" => "Search".into(),
        "glob" => "Find files".into(),
        "task" => "Sub-agent".into(),
        "web_fetch" | "fetch" => "Fetch".into(),
        _ => {
            let words = tool.replace(['_', '-'], " ");
            let mut letters = words.chars();
            letters
                .next()
                .map(|first| first.to_uppercase().chain(letters).collect())
                .unwrap_or_default()
        }
    }
}

/// What kind of tool it is, in the words that editors show icons for.
pub(super) fn kind(tool: &str) -> Option<&'static str> {
    match tool {
        "bash" | "shell" | "write_bash" | "read_bash" | "stop_bash" => Some("terminal"),
        "view" | "read" => Some("read"),
        "grep" | "glob" | "search" => Some("search"),
        "task" => Some("subagent"),
        _ => None,
    }
}

/// The argument that says most about a call.
fn subject(arguments: &Value) -> Option<&str> {
    [
        "command",
        "pattern",
        "query",
        "path",
        "file_path",
        "url",
        "question",
        "description",
        "name",
    ]
    .iter()
    .find_map(|key| arguments.get(key)?.as_str())
    .map(|text| text.lines().next().unwrap_or_default())
}

/// What a call does, in the present or in the past.
pub(super) fn sentence(tool: &str, arguments: &Value, past: bool) -> String {
    let tense = |present, perfect| if past { perfect } else { present };
    let verb = match (kind(tool), tool) {
        (Some("terminal"), _) => Some(tense("Running", "Ran")),
        (Some("read"), _) => Some(tense("Reading", "Read")),
        (Some("search"), _) => Some(tense("Searching for", "Searched for")),
        (Some("subagent"), _) => Some(tense("Delegating", "Delegated")),
        (_, "edit" | "str_replace") => Some(tense("Editing", "Edited")),
        (_, "create" | "write") => Some(tense("Creating", "Created")),
        (_, "web_fetch" | "fetch") => Some(tense("Fetching", "Fetched")),
        _ => None,
    };
    let using = format!("{} {}", tense("Using", "Used"), display_name(tool));
    match (verb, subject(arguments).map(shorten)) {
        (Some(verb), Some(task)) if kind(tool) == Some("subagent") => format!("{verb} {task}"),
        (Some(verb), Some(subject)) => format!("{verb} `{subject}`"),
        (None, Some(subject)) => format!("{using} on `{subject}`"),
        (_, None) => using,
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What says, beside a command, how the host runs it, and not what it does.
const BESIDE_COMMAND: [&str; 5] = ["description", "shellId", "mode", "initial_wait", "timeout"];

/// The command that an input is, where it is nothing else.
fn command(input: &Map<String, Value>) -> Option<&str> {
    let is_known = |name: &String| name == "command" || BESIDE_COMMAND.contains(&name.as_str());
    let command = input.get("command")?.as_str()?;
    (input.len() <= 3 && input.keys().all(is_known)).then_some(command)
}

/// The input as people see and check it: a command as it is, anything else as JSON.
pub(super) fn input(arguments: &Value) -> Option<String> {
    match arguments {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if command(map).is_some() => command(map).map(str::to_owned),
        other => serde_json::to_string_pretty(other).ok(),
    }
}

/// The arguments that an input stands for which a person changed: the other way round.
pub(super) fn edited(arguments: &Value, input: &str) -> Result<Value, String> {
    match arguments {
        Value::String(_) => Ok(input.into()),
        Value::Object(map) if command(map).is_some() => {
            let mut map = map.clone();
            map.insert("command".to_owned(), input.into());
            Ok(Value::Object(map))
        }
        _ => match serde_json::from_str(input) {
            Ok(Value::Object(map)) => Ok(Value::Object(map)),
            Ok(_) => Err("the input of this tool is a JSON object".to_owned()),
            Err(error) => Err(format!("the input is not JSON: {error}")),
        },
    }
}

/// The question put to the person.
pub(super) fn confirmation(request: &PermissionRequest) -> String {
    match request {
        // The protocol has no other place for a warning that every client shows.
        PermissionRequest::Shell(shell) => match &shell.warning {
            Some(warning) => format!("Run this command? {warning}"),
            None => "Run this command?".into(),
        },
        PermissionRequest::Write(write) => format!("Write to `{}`?", write.file_name),
        PermissionRequest::Read(read) => format!("Read `{}`?", read.path),
        PermissionRequest::Mcp(mcp) if mcp.is_sampling() => format!("Let {} ask the model?", mcp.server_name),
        PermissionRequest::Mcp(mcp) => format!("Call {} of {}?", mcp.tool_title, mcp.server_name),
        PermissionRequest::Url(url) => format!("Fetch {}?", url.url),
        PermissionRequest::Memory(_) => "Remember this?".into(),
        PermissionRequest::CustomTool(tool) => format!("Use {}?", display_name(&tool.tool_name)),
        PermissionRequest::Hook(hook) => format!("Continue with {}?", display_name(&hook.tool_name)),
        PermissionRequest::Other(_) => "Go on?".into(),
    }
}

/// The tool a request is about, its arguments as far as the request tells, and what it is for.
pub(super) fn asked(request: &PermissionRequest) -> (&str, Value, Option<&str>) {
    use serde_json::json;
    match request {
        PermissionRequest::Shell(shell) => (
            "bash",
            json!({ "command": shell.full_command_text }),
            Some(&shell.intention),
        ),
        PermissionRequest::Write(write) => (
            "edit",
            json!({ "path": write.file_name, "diff": write.diff }),
            Some(&write.intention),
        ),
        PermissionRequest::Read(read) => ("view", json!({ "path": read.path }), Some(&read.intention)),
        PermissionRequest::Mcp(mcp) => (
            &mcp.tool_name,
            mcp.args.clone().unwrap_or_default(),
            Some(&mcp.tool_title),
        ),
        PermissionRequest::Url(url) => ("web_fetch", json!({ "url": url.url }), Some(&url.intention)),
        PermissionRequest::Memory(memory) => ("memory", json!({ "fact": memory.fact }), memory.subject.as_deref()),
        PermissionRequest::CustomTool(tool) => (&tool.tool_name, tool.args.clone().unwrap_or_default(), None),
        PermissionRequest::Hook(hook) => (
            &hook.tool_name,
            hook.tool_args.clone().unwrap_or_default(),
            hook.hook_message.as_deref(),
        ),
        PermissionRequest::Other(other) => ("tool", other.clone(), None),
    }
}

/// Puts what a request is about in the place of what its call said. A path stays as it was written if it means the same file.
pub(super) fn correct(call: &mut Value, asked: &Value) {
    for key in ["command", "url", "path"] {
        let (Some(said), Some(asked)) = (call.get_mut(key), asked.get(key)) else {
            continue;
        };
        let is_same = match (said.as_str(), asked.as_str()) {
            (Some(said), Some(asked)) => key == "path" && Path::new(asked).ends_with(said),
            _ => false,
        };
        if !is_same {
            *said = asked.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_says_what_is_asked_about_it() {
        let check = |mut call: Value, asked: Value, expected: Value| {
            correct(&mut call, &asked);
            assert_eq!(call, expected);
        };
        let other = json!({ "command": "ls", "timeout": 1 });
        check(
            other,
            json!({ "command": "rm x" }),
            json!({ "command": "rm x", "timeout": 1 }),
        );
        check(
            json!({ "path": "a.rs" }),
            json!({ "path": "/w/a.rs" }),
            json!({ "path": "a.rs" }),
        );
        check(
            json!({ "path": "a.rs" }),
            json!({ "path": "/w/b.rs" }),
            json!({ "path": "/w/b.rs" }),
        );
        check(
            json!({ "shellId": "1" }),
            json!({ "command": "y" }),
            json!({ "shellId": "1" }),
        );
        check(Value::Null, json!({ "url": "u" }), Value::Null);
    }

    #[test]
    fn an_input_is_edited_as_it_is_shown() {
        let check = |arguments: Value, text: &str, expected: Option<Value>| {
            assert!(input(&arguments).is_some());
            assert_eq!(edited(&arguments, text).ok(), expected, "{text}");
        };
        let command = json!({"command": "ls", "description": "look"});
        check(command, "pwd", Some(json!({"command": "pwd", "description": "look"})));
        check(json!({"path": "/a"}), r#"{"path": "/b"}"#, Some(json!({"path": "/b"})));
        check(json!({"path": "/a"}), "/b", None);
        check(json!({"path": "/a"}), "[]", None);
        check(json!("raw"), "other", Some(json!("other")));
        let whole = json!({"command": "git", "args": ["push", "--force"]});
        assert!(input(&whole).unwrap().contains("--force"));
        check(whole, "git", None);
    }

    #[test]
    fn calls_are_told_in_a_sentence() {
        let check = |tool, arguments: Value, told: &str| {
            let (now, then) = (sentence(tool, &arguments, false), sentence(tool, &arguments, true));
            assert_eq!(format!("{now}, {then}"), told);
        };
        check("bash", json!({"command": "ls\npwd"}), "Running `ls`, Ran `ls`");
        check("bash", json!({}), "Using Run command, Used Run command");
        check(
            "grep",
            json!({"pattern": "x", "path": "/a"}),
            "Searching for `x`, Searched for `x`",
        );
        check("view", json!({"path": "/a"}), "Reading `/a`, Read `/a`");
        check("create", json!({"path": "/a"}), "Creating `/a`, Created `/a`");
        check("edit", json!({"path": "/a"}), "Editing `/a`, Edited `/a`");
        check("web_fetch", json!({"url": "u"}), "Fetching `u`, Fetched `u`");
        check(
            "task",
            json!({"description": "look"}),
            "Delegating look, Delegated look",
        );
        check(
            "greet_all",
            json!({"name": "a"}),
            "Using Greet all on `a`, Used Greet all on `a`",
        );
    }
}
