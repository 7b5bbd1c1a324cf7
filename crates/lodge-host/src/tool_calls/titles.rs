//! Titles of tool calls: names of tools, subjects, and sentences in both tenses.

use serde_json::{Map, Value};

/// Limit for a line about a call.
const LONGEST_LINE: usize = 120;

/// Tools whose calls are not shown: people see them through other events.
pub fn is_hidden(tool: &str) -> bool {
    matches!(tool, "report_intent" | "task_complete")
}

/// Kinds of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Runs commands, or controls running ones.
    Command,
    /// Reads a file.
    Read,
    /// Changes a file.
    Edit,
    /// Makes a file.
    Create,
    /// Searches the contents of files.
    Search,
    /// Searches for files by name.
    Find,
    /// Fetches a page.
    Fetch,
    /// Starts a sub-agent.
    Subagent,
    /// Loads a skill.
    Skill,
    /// Asks a person.
    Question,
    /// Ends planning.
    Plan,
    /// Anything else.
    Other,
}

/// The tense in which a call is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tense {
    /// It runs, or is about to.
    Present,
    /// It has run.
    Past,
}

impl ToolKind {
    /// The kind of a tool.
    pub fn of(tool: &str) -> Self {
        match tool {
            "bash" | "shell" | "write_bash" | "read_bash" | "stop_bash" | "list_bash" => Self::Command,
            "view" | "read" => Self::Read,
            "edit" | "str_replace" => Self::Edit,
            "create" | "write" => Self::Create,
            "grep" | "search" => Self::Search,
            "glob" => Self::Find,
            "web_fetch" | "fetch" => Self::Fetch,
            "task" => Self::Subagent,
            "skill" => Self::Skill,
            "ask_user" => Self::Question,
            "exit_plan_mode" => Self::Plan,
            _ => Self::Other,
        }
    }

    fn verbs(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Command => Some(["Running", "Ran"]),
            Self::Read => Some(["Reading", "Read"]),
            Self::Search | Self::Find => Some(["Searching for", "Searched for"]),
            Self::Subagent => Some(["Delegating", "Delegated"]),
            Self::Edit => Some(["Editing", "Edited"]),
            Self::Create => Some(["Creating", "Created"]),
            Self::Fetch => Some(["Fetching", "Fetched"]),
            Self::Question => Some(["Asking", "Asked"]),
            Self::Skill | Self::Plan | Self::Other => None,
        }
    }
}

/// A tool's name for people.
pub fn display_name(tool: &str) -> String {
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
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            first.chain(letters).collect()
        }
    }
}

/// The most telling argument of a call.
pub fn subject(arguments: &Value) -> Option<&str> {
    let telling = [
        "command",
        "pattern",
        "query",
        "path",
        "file_path",
        "url",
        "question",
        "description",
        "skill",
        "name",
    ];
    telling.iter().find_map(|key| arguments.get(key)?.as_str())
}

/// The first line of a text, shortened, with a mark if there is more.
pub fn first_line(text: &str) -> String {
    let text = text.trim_end();
    let line = text.lines().next().unwrap_or_default();
    let end = line.char_indices().nth(LONGEST_LINE).map_or(line.len(), |(end, _)| end);
    let more = if end < text.len() { "…" } else { "" };
    format!("{}{more}", &line[..end])
}

/// Describes a call in Markdown, in present or past tense.
pub fn sentence(tool: &str, arguments: &Value, tense: Tense) -> String {
    let kind = ToolKind::of(tool);
    let told = |[present, past]: [&'static str; 2]| if tense == Tense::Past { past } else { present };
    let using = format!("{} {}", told(["Using", "Used"]), display_name(tool));
    if kind == ToolKind::Plan {
        return told(["Presenting the plan", "Presented the plan"]).to_owned();
    }
    match (kind.verbs().map(told), subject(arguments).map(first_line)) {
        (Some(verb), Some(task)) if kind == ToolKind::Subagent => format!("{verb} {task}"),
        (Some(verb), Some(subject)) => format!("{verb} `{subject}`"),
        (None, Some(subject)) => format!("{using} on `{subject}`"),
        (_, None) => using,
    }
}

/// Arguments of a command that say how the host runs it, rather than what it does.
const BESIDE_COMMAND: [&str; 5] = ["description", "shellId", "mode", "initial_wait", "timeout"];

/// The command, if the input is nothing else.
fn command(input: &Map<String, Value>) -> Option<&str> {
    let is_known = |name: &String| name == "command" || BESIDE_COMMAND.contains(&name.as_str());
    let command = input.get("command")?.as_str()?;
    (input.len() <= 3 && input.keys().all(is_known)).then_some(command)
}

/// A call's input as people see and edit it: a plain command, or else JSON.
pub fn input_text(arguments: &Value) -> Option<String> {
    match arguments {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if command(map).is_some() => command(map).map(str::to_owned),
        other => serde_json::to_string_pretty(other).ok(),
    }
}

/// The arguments for an input that a person edited: the reverse. `Err` says why it is invalid.
pub fn edited_arguments(arguments: &Value, input: &str) -> Result<Value, String> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_is_edited_as_it_is_shown() {
        let check = |arguments: Value, text: &str, expected: Option<Value>| {
            assert!(input_text(&arguments).is_some());
            assert_eq!(edited_arguments(&arguments, text).ok(), expected, "{text}");
        };
        let command = json!({"command": "ls", "description": "look"});
        check(command, "pwd", Some(json!({"command": "pwd", "description": "look"})));
        check(json!({"path": "/a"}), r#"{"path": "/b"}"#, Some(json!({"path": "/b"})));
        check(json!({"path": "/a"}), "/b", None);
        check(json!({"path": "/a"}), "[]", None);
        check(json!("raw"), "other", Some(json!("other")));
        let whole = json!({"command": "git", "args": ["push", "--force"]});
        assert!(input_text(&whole).unwrap().contains("--force"));
        check(whole, "git", None);
    }

    #[test]
    fn calls_are_told_in_a_sentence() {
        let check = |tool, arguments: Value, told: &str| {
            let [now, then] = [Tense::Present, Tense::Past].map(|tense| sentence(tool, &arguments, tense));
            assert_eq!(format!("{now}, {then}"), told);
        };
        check("bash", json!({"command": "ls\npwd"}), "Running `ls…`, Ran `ls…`");
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
            "ask_user",
            json!({"question": "Which?"}),
            "Asking `Which?`, Asked `Which?`",
        );
        check(
            "exit_plan_mode",
            json!({"summary": "x"}),
            "Presenting the plan, Presented the plan",
        );
        check(
            "greet_all",
            json!({"name": "a"}),
            "Using Greet all on `a`, Used Greet all on `a`",
        );
    }

    #[test]
    fn a_line_that_is_cut_says_so() {
        let long = "é".repeat(LONGEST_LINE + 1);
        assert_eq!(first_line(&long).chars().count(), LONGEST_LINE + 1);
        assert_eq!(
            (first_line("one\n"), first_line("one\ntwo")),
            ("one".into(), "one…".into())
        );
    }
}
