//! Permission requests, as the tool calls that they are about.

use std::path::Path;

use lodge_events::PermissionRequest;
use serde_json::Value;

use super::display_name;

/// The tool call of a permission request, as far as the request describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The tool's own title, if it has one.
    pub title: Option<String>,
    /// The arguments. Paths beneath the session's directory are relative to it.
    pub arguments: Value,
    /// What it is for.
    pub intention: Option<&'a str>,
}

impl<'a> RequestedCall<'a> {
    /// The call of a request in a session that works in this directory.
    pub fn new(request: &'a PermissionRequest, cwd: &Path) -> Self {
        let (tool, mut arguments) = request.call();
        if let PermissionRequest::Write(_) | PermissionRequest::Read(_) = request
            && let Some(path) = arguments["path"].as_str().map(Path::new)
        {
            arguments["path"] = shortened(path, cwd).into();
        }
        let (title, intention) = match request {
            PermissionRequest::Shell(shell) => (None, Some(&shell.intention)),
            PermissionRequest::Write(write) => (None, Some(&write.intention)),
            PermissionRequest::Read(read) => (None, Some(&read.intention)),
            PermissionRequest::Url(url) => (None, Some(&url.intention)),
            PermissionRequest::Memory(memory) => (None, memory.subject.as_ref()),
            PermissionRequest::Mcp(mcp) => {
                let title = match mcp.is_sampling() {
                    true => format!("Let {} ask the model", mcp.server_name),
                    false => format!("{} of {}", mcp.tool_title, mcp.server_name),
                };
                (Some(title), Some(&mcp.tool_title))
            }
            PermissionRequest::Hook(hook) => (None, hook.hook_message.as_ref()),
            PermissionRequest::CustomTool(_) | PermissionRequest::Other(_) => (None, None),
        };
        Self {
            tool,
            title,
            arguments,
            intention: intention.map(String::as_str),
        }
    }
}

/// A path as people in this directory read it.
fn shortened(path: &Path, cwd: &Path) -> String {
    let below = path.strip_prefix(cwd).ok().filter(|below| *below != Path::new(""));
    below.unwrap_or(path).display().to_string()
}

/// Replaces a call's arguments with those of the request. A path is kept as it was written if it means the same file.
pub fn correct_arguments(call: &mut Value, requested: &Value, cwd: &Path) {
    for key in ["command", "url", "path"] {
        let (Some(said), Some(asked)) = (call.get_mut(key), requested.get(key)) else {
            continue;
        };
        let means = |text: &str| cwd.join(text);
        let is_same = key == "path" && said.as_str().map(means) == asked.as_str().map(means);
        if !is_same {
            *said = asked.clone();
        }
    }
}

/// The question for the person.
pub fn confirmation(request: &PermissionRequest) -> String {
    match request {
        // No wire has another place for a warning that every client shows.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_says_what_is_asked_about_it() {
        let check = |mut call: Value, asked: Value, expected: Value| {
            correct_arguments(&mut call, &asked, Path::new("/w"));
            assert_eq!(call, expected);
        };
        let path = |path: &str| json!({ "path": path });
        let other = json!({ "command": "ls", "timeout": 1 });
        let asked = json!({ "command": "rm x", "timeout": 1 });
        check(other, json!({ "command": "rm x" }), asked);
        for (said, asked, expected) in [
            ("a.rs", "/w/a.rs", "a.rs"),
            ("/w/a.rs", "a.rs", "/w/a.rs"),
            ("./a.rs", "a.rs", "./a.rs"),
            ("a.rs", "b.rs", "b.rs"),
            // A file of the same name elsewhere is a different one.
            ("a.rs", "/etc/a.rs", "/etc/a.rs"),
            ("rs", "/w/a/rs", "/w/a/rs"),
        ] {
            check(path(said), path(asked), path(expected));
        }
        check(
            json!({ "shellId": "1" }),
            json!({ "command": "y" }),
            json!({ "shellId": "1" }),
        );
        check(Value::Null, json!({ "url": "u" }), Value::Null);
    }

    #[test]
    fn a_request_is_told_as_its_call() {
        let request = |request: Value| serde_json::from_value::<PermissionRequest>(request).unwrap();
        let write = |diff: &str| {
            request(
                json!({ "kind": "write", "fileName": "/w/a", "diff": diff, "intention": "i", "canOfferSessionApproval": true }),
            )
        };
        let (new, old) = (write("--- /dev/null\n"), write("--- a/w/a\n"));
        let cwd = Path::new("/w");
        let [new, old] = [&new, &old].map(|request| RequestedCall::new(request, cwd));
        assert_eq!((new.tool, &new.arguments["path"]), ("create", &json!("a")));
        assert_eq!((old.tool, old.intention), ("edit", Some("i")));
    }
}
