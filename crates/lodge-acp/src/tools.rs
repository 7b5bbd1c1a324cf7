//! Tool calls as an editor shows them.

use std::path::Path;

use lodge_events::{ContentBlock as Block, PermissionRequest, Timestamp, ToolExecutionComplete};
use lodge_host::tool_calls::{OutputTail, RequestedCall, ToolKind, diff_sides, display_name, first_line, subject};
use serde_json::{Value, json};

use crate::wire::{ContentBlock, Location, Resource, ToolCall, ToolContent};

pub(crate) const PENDING: &str = "pending";
pub(crate) const RUNNING: &str = "in_progress";
pub(crate) const COMPLETED: &str = "completed";
pub(crate) const FAILED: &str = "failed";

/// A tool call, as far as later events need it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// The tool's own title, if it has one.
    pub(crate) title: Option<String>,
    pub(crate) arguments: Value,
    output: OutputTail,
    /// How much of its output the client's terminal has, if it has one.
    in_terminal: Option<usize>,
}

impl Call {
    pub(crate) fn new(name: &str, title: Option<&str>, arguments: Option<&Value>) -> Self {
        Self {
            name: name.to_owned(),
            title: title.map(str::to_owned),
            arguments: arguments.cloned().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// The call of a permission request, with paths as short as possible.
    pub(crate) fn of_request(request: &PermissionRequest, cwd: &Path) -> Self {
        let asked = RequestedCall::new(request, cwd);
        Self::new(asked.tool, asked.title.as_deref(), Some(&asked.arguments))
    }

    /// The whole call.
    pub(crate) fn shown(&self, id: &str, status: &'static str, cwd: &Path) -> ToolCall {
        let content = self.preview(cwd);
        ToolCall {
            tool_call_id: id.to_owned(),
            title: Some(self.heading()),
            name: Some(self.name.clone()),
            kind: Some(kind(&self.name)),
            status: Some(status),
            content: (!content.is_empty()).then_some(content),
            locations: self.locations(cwd),
            raw_input: (!self.arguments.is_null()).then(|| self.arguments.clone()),
            raw_output: None,
            meta: None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name)?.as_str()
    }

    /// The call's title, in one line.
    fn heading(&self) -> String {
        let subject = subject(&self.arguments).map(first_line);
        let about = |verb: &str| subject.as_ref().map(|subject| format!("{verb} {subject}"));
        let told = match ToolKind::of(&self.name) {
            ToolKind::Command | ToolKind::Subagent | ToolKind::Question => subject,
            ToolKind::Read => about("Read"),
            ToolKind::Edit => about("Edit"),
            ToolKind::Create => about("Create"),
            ToolKind::Search => about("Search for"),
            ToolKind::Find => about("Find"),
            ToolKind::Fetch => about("Fetch"),
            ToolKind::Skill => about("Load the skill"),
            ToolKind::Plan => Some("Ready to work?".to_owned()),
            ToolKind::Other => None,
        };
        let told = self.title.as_deref().map(first_line).or(told);
        told.unwrap_or_else(|| display_name(&self.name))
    }

    fn locations(&self, cwd: &Path) -> Vec<Location> {
        let of_file = ["view", "edit", "create", "grep", "glob"].contains(&self.name.as_str());
        let path = self.text("path").filter(|_| of_file);
        let line = || self.arguments.get("view_range")?.as_array()?.first()?.as_u64();
        path.map(|path| Location {
            path: cwd.join(path),
            line: line(),
        })
        .into_iter()
        .collect()
    }

    /// The change that the call is about to make to a file.
    fn preview(&self, cwd: &Path) -> Vec<ToolContent> {
        // Another program's change of several files.
        if let Some(changes) = self.arguments.get("changes").and_then(Value::as_array) {
            let change = |change: &Value| {
                let (old, new_text) = diff_sides(change["diff"].as_str()?);
                Some(ToolContent::Diff {
                    path: cwd.join(change["path"].as_str()?),
                    old_text: Some(old).filter(|old| !old.is_empty()),
                    new_text,
                })
            };
            return changes.iter().filter_map(change).collect();
        }
        let Some(path) = self.text("path").map(|path| cwd.join(path)) else {
            return Vec::new();
        };
        let own = |name: &str| self.text(name).map(str::to_owned);
        let made = match self.name.as_str() {
            "create" => own("file_text").map(|text| (String::new(), text)),
            "edit" => own("old_str").zip(own("new_str")),
            _ => return Vec::new(),
        };
        let made = made.or_else(|| self.text("diff").map(diff_sides));
        let made = made.map(|(old, new)| (Some(old).filter(|old| !old.is_empty()), new));
        let difference = made.map(|(old_text, new_text)| ToolContent::Diff {
            path,
            old_text,
            new_text,
        });
        difference.into_iter().collect()
    }

    /// Opens a terminal in the client for a command, under the call's id.
    pub(crate) fn open_terminal(&mut self, id: &str, cwd: &Path) -> Option<ToolCall> {
        if self.name != "bash" {
            return None;
        }
        self.in_terminal = Some(0);
        Some(ToolCall {
            tool_call_id: id.to_owned(),
            status: Some(RUNNING),
            content: Some(vec![ToolContent::Terminal {
                terminal_id: id.to_owned(),
            }]),
            meta: Some(json!({ "terminal_info": { "terminal_id": id, "cwd": cwd } })),
            ..ToolCall::default()
        })
    }

    /// Adds output of the running call. Returns the part to show now, if any.
    pub(crate) fn more_output(&mut self, id: &str, text: &str, now: Timestamp) -> Option<ToolCall> {
        if let Some(shown) = &mut self.in_terminal {
            *shown += text.len();
            return Some(ToolCall {
                tool_call_id: id.to_owned(),
                meta: Some(terminal_output(id, text)),
                ..ToolCall::default()
            });
        }
        if !self.output.push(text, now) {
            return None;
        }
        Some(ToolCall {
            tool_call_id: id.to_owned(),
            content: Some(vec![fenced(self.output.last(), "")]),
            ..ToolCall::default()
        })
    }

    pub(crate) fn ended(&self, done: &ToolExecutionComplete, cwd: &Path) -> ToolCall {
        let mut content = Vec::new();
        // The resulting diff says more than the text about it.
        if done.success {
            content = self.preview(cwd);
        }
        let changed_file = !content.is_empty();
        let mut raw_output = None;
        if let Some(result) = &done.result {
            content.extend(result.contents.iter().flatten().filter_map(|block| self.block(block)));
            let said = result.detailed_content.as_ref().unwrap_or(&result.content);
            let is_told = content.iter().any(|part| {
                matches!(
                    part,
                    ToolContent::Content {
                        content: ContentBlock::Text { .. }
                    }
                )
            });
            if !is_told && !changed_file && !said.is_empty() {
                content.insert(0, self.words(said));
            }
            raw_output = result.structured_content.clone();
        }
        if let Some(error) = &done.error {
            content.push(text(&error.message));
        }
        let mut meta = None;
        let blocks = done.result.iter().flat_map(|result| result.contents.iter().flatten());
        for block in blocks {
            if let Block::Terminal(terminal) = block
                && let Some(code) = terminal.exit_code
            {
                raw_output = Some(json!({ "exitCode": code }));
                meta = self.in_terminal.map(|shown| {
                    let id = &done.tool_call_id;
                    // A log has only the whole output.
                    let mut meta = terminal_output(id, if shown == 0 { &terminal.text } else { "" });
                    meta["terminal_exit"] = json!({ "terminal_id": id, "exit_code": code, "signal": null });
                    meta
                });
            }
        }
        ToolCall {
            tool_call_id: done.tool_call_id.clone(),
            status: Some(if done.success { COMPLETED } else { FAILED }),
            // The terminal already shows it.
            content: meta.is_none().then_some(content),
            raw_output,
            meta,
            ..ToolCall::default()
        }
    }

    /// A tool's text: verbatim if it quotes files or programs, otherwise Markdown.
    fn words(&self, said: &str) -> ToolContent {
        match kind(&self.name) {
            "execute" | "read" | "search" => fenced(said, ""),
            _ => text(said),
        }
    }

    fn block(&self, block: &Block) -> Option<ToolContent> {
        let content = match block {
            Block::Text(block) => return Some(self.words(&block.text)),
            Block::Terminal(block) => return Some(fenced(&block.text, "")),
            Block::ShellExit(block) => return block.output_preview.as_deref().map(|output| fenced(output, "")),
            Block::Image(image) => ContentBlock::Image {
                data: image.data.clone(),
                mime_type: image.mime_type.clone(),
            },
            Block::Audio(audio) => ContentBlock::Audio {
                data: audio.data.clone(),
                mime_type: audio.mime_type.clone(),
            },
            Block::ResourceLink(link) => ContentBlock::ResourceLink {
                name: link.name.clone(),
                uri: link.uri.clone(),
                mime_type: link.mime_type.clone(),
            },
            Block::Resource(block) if block.resource.text.is_some() || block.resource.blob.is_some() => {
                ContentBlock::Resource {
                    resource: Resource {
                        uri: block.resource.uri.clone(),
                        mime_type: block.resource.mime_type.clone(),
                        text: block.resource.text.clone(),
                        blob: block.resource.blob.clone(),
                    },
                }
            }
            Block::Resource(_) | Block::Other(_) => return None,
        };
        Some(ToolContent::Content { content })
    }
}

fn terminal_output(id: &str, text: &str) -> Value {
    json!({ "terminal_output": { "terminal_id": id, "data": text } })
}

/// The kind of a tool, for which editors show an icon.
pub(crate) fn kind(tool: &str) -> &'static str {
    match ToolKind::of(tool) {
        ToolKind::Command => "execute",
        ToolKind::Read => "read",
        ToolKind::Edit | ToolKind::Create => "edit",
        ToolKind::Search | ToolKind::Find => "search",
        ToolKind::Fetch => "fetch",
        ToolKind::Subagent => "think",
        ToolKind::Plan => "switch_mode",
        _ if tool == "read_agent" => "think",
        _ => "other",
    }
}

pub(crate) fn text(text: &str) -> ToolContent {
    ToolContent::Content {
        content: text.to_owned().into(),
    }
}

/// A verbatim text in Markdown, between more backticks than it contains.
pub(crate) fn fenced(quoted: &str, language: &str) -> ToolContent {
    let longest = quoted.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    text(&format!(
        "{fence}{language}\n{}\n{fence}",
        quoted.trim_end_matches('\n')
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_a_title_a_kind_and_the_files_that_they_are_about() {
        for (name, arguments, title, kind, path) in [
            ("bash", json!({ "command": "ls\npwd" }), "ls…", "execute", None),
            (
                "view",
                json!({ "path": "a.rs", "view_range": [3, 9] }),
                "Read a.rs",
                "read",
                Some("/w/a.rs"),
            ),
            (
                "edit",
                json!({ "path": "/b", "old_str": "x", "new_str": "y" }),
                "Edit /b",
                "edit",
                Some("/b"),
            ),
            (
                "grep",
                json!({ "pattern": "x", "path": "src" }),
                "Search for x",
                "search",
                Some("/w/src"),
            ),
            (
                "web_fetch",
                json!({ "url": "https://a" }),
                "Fetch https://a",
                "fetch",
                None,
            ),
            ("greet_all", json!({ "path": "not a file" }), "Greet all", "other", None),
            ("bash", json!({}), "Run command", "execute", None),
        ] {
            let call = Call::new(name, None, Some(&arguments)).shown("1", PENDING, Path::new("/w"));
            assert_eq!(call.title.as_deref(), Some(title), "{name}");
            assert_eq!(call.kind, Some(kind), "{name}");
            let found = call.locations.first().map(|location| location.path.to_str().unwrap());
            assert_eq!(found, path, "{name}");
        }
    }

    #[test]
    fn changes_of_files_are_shown_as_differences() {
        let shown = |name: &str, arguments: Value| {
            let call = Call::new(name, None, Some(&arguments)).shown("1", PENDING, Path::new("/w"));
            json!(call.content)
        };
        assert_eq!(
            shown("edit", json!({ "path": "a", "old_str": "x", "new_str": "y" })),
            json!([{ "type": "diff", "path": "/w/a", "oldText": "x", "newText": "y" }])
        );
        assert_eq!(
            shown("create", json!({ "path": "a", "file_text": "x" })),
            json!([{ "type": "diff", "path": "/w/a", "newText": "x" }])
        );
        let diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
        assert_eq!(
            shown("edit", json!({ "path": "a", "diff": diff })),
            json!([{ "type": "diff", "path": "/w/a", "oldText": "one\ntwo\n", "newText": "one\n2\n" }])
        );
        assert_eq!(shown("view", json!({ "path": "a" })), Value::Null);
    }

    #[test]
    fn what_is_quoted_cannot_end_the_quotation() {
        let ToolContent::Content { content } = fenced("a ```` b", "") else {
            panic!("text")
        };
        assert_eq!(content, ContentBlock::from("`````\na ```` b\n`````".to_owned()));
    }
}
