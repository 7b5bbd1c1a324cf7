//! The agent's shells: what a command prints is also shown as a terminal's output, while it runs and afterwards.

use ahp_types::state::{TerminalCommandResult, ToolResultContent, ToolResultTerminalContent};
use lodge_events::{ContentBlock, ToolExecutionComplete};
use lodge_host::SpillPointer;
use serde_json::Value;

use super::{Projector, Scope, Step};

/// A preview is for those who do not look at the terminal.
const PREVIEW: usize = 1024;
const LONGEST_TITLE: usize = 80;

/// What is new about the terminal of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum TerminalNews {
    /// Its command runs.
    Opened {
        /// The chat that the call is in.
        scope: Scope,
        /// The turn that the call is in.
        turn_id: String,
        /// The command, for people.
        title: String,
    },
    /// The command printed this.
    Printed(String),
    /// The command has ended, with this code where it has one.
    Ended(Option<i64>),
}

impl Projector {
    fn terminal(&mut self, tool_call_id: &str, news: TerminalNews) {
        self.out.push(Step::Terminal {
            tool_call_id: tool_call_id.to_owned(),
            news,
        });
    }

    /// A call runs. If it is a command, clients get a terminal to look at.
    pub(super) fn open_terminal(&mut self, id: &str) {
        let Some(call) = self.calls.get(id).filter(|call| call.name == "bash" && !call.denied) else {
            return;
        };
        let (scope, title) = (call.scope.clone(), title(&call.arguments));
        let known = call
            .pinned
            .iter()
            .any(|part| matches!(part, ToolResultContent::Terminal(_)));
        let turn = self.chat(&scope).turn.as_ref().map(|turn| turn.id.clone());
        let (Some(turn_id), false) = (turn, known) else { return };
        if let Some(call) = self.calls.get_mut(id) {
            call.pinned.push(ToolResultContent::Terminal(ToolResultTerminalContent {
                resource: id.to_owned(),
                title: title.clone(),
                is_pty: Some(false),
                result: None,
            }));
        }
        self.terminal(id, TerminalNews::Opened { scope, turn_id, title });
        self.show_content(id);
    }

    /// A running call printed something.
    pub(super) fn terminal_output(&mut self, id: &str, text: &str) {
        let has = |part: &ToolResultContent| matches!(part, ToolResultContent::Terminal(_));
        if self.calls.get(id).is_some_and(|call| call.pinned.iter().any(has)) {
            self.terminal(id, TerminalNews::Printed(text.to_owned()));
        }
    }

    /// A call has ended: of a command, or of a tool that looks after commands in the background.
    pub(super) fn terminal_result(&mut self, id: &str, done: Option<&ToolExecutionComplete>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let result = done.and_then(|done| done.result.as_ref());
        let block = result.into_iter().flat_map(|result| result.contents.iter().flatten());
        let block = block.into_iter().find_map(|block| match block {
            ContentBlock::Terminal(block) => Some(block),
            _ => None,
        });
        let code = block.and_then(|block| block.exit_code);
        let said = result.map_or("", |result| &result.content);
        match call.name.as_str() {
            "bash" => {
                if let (None, Some(shell)) = (block, running_shell(said)) {
                    self.shells.insert(shell.to_owned(), id.to_owned());
                    return;
                }
                let printed = block.map_or("", |block| &block.text);
                let mut ended = outcome(code, printed);
                if let Some(pointer) = SpillPointer::parse(printed) {
                    (ended.preview, ended.truncated) = (Some(pointer.preview.to_owned()), Some(true));
                }
                // Without a result there may be nothing to look at later: the command may never have run.
                call.pinned.retain_mut(|part| match part {
                    ToolResultContent::Terminal(terminal) => {
                        terminal.result = Some(ended.clone());
                        result.is_some()
                    }
                    _ => true,
                });
                self.terminal(id, TerminalNews::Ended(code));
            }
            name @ ("read_bash" | "write_bash" | "stop_bash") => {
                let stopped = name == "stop_bash" && done.is_some_and(|done| done.success);
                let shell = call
                    .arguments
                    .get("shellId")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let Some(of) = self.shells.get(shell).cloned() else {
                    return;
                };
                let printed = match block {
                    Some(block) => block.text.as_str(),
                    // The last line is the tool's own word.
                    None => said.rfind("\n<").map_or("", |end| &said[..=end]),
                };
                if code.is_some() || stopped {
                    let shell = shell.to_owned();
                    self.shells.remove(&shell);
                }
                let printed = printed.to_owned();
                if !printed.is_empty() {
                    self.terminal(&of, TerminalNews::Printed(printed));
                }
                if code.is_some() || stopped {
                    self.terminal(&of, TerminalNews::Ended(code));
                }
            }
            _ => {}
        }
    }
}

/// The code that a command ended with, when it was not that of success.
pub(super) fn failed(content: &[ToolResultContent]) -> Option<i64> {
    let code = content.iter().find_map(|part| match part {
        ToolResultContent::Terminal(terminal) => terminal.result.as_ref()?.exit_code,
        _ => None,
    });
    code.filter(|code| *code != 0)
}

/// The command's first line.
fn title(arguments: &Value) -> String {
    let command = arguments
        .get("command")
        .and_then(Value::as_str)
        .unwrap_or("bash")
        .trim();
    let line = command.lines().next().unwrap_or("bash");
    match line.char_indices().nth(LONGEST_TITLE) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

fn outcome(exit_code: Option<i64>, output: &str) -> TerminalCommandResult {
    let cut = output.ceil_char_boundary(output.len().saturating_sub(PREVIEW));
    TerminalCommandResult {
        exit_code,
        preview: (!output.is_empty()).then(|| output[cut..].to_owned()),
        truncated: (cut > 0).then_some(true),
    }
}

/// The name of the shell that goes on running, as the tool says in its last line.
fn running_shell(said: &str) -> Option<&str> {
    let last = said.lines().last()?;
    let started = last.strip_prefix("<command started in background with shellId: ");
    let goes_on = last.strip_prefix("<command with shellId: ");
    match (started, goes_on) {
        (Some(rest), _) => rest.strip_suffix('>'),
        (None, Some(rest)) => Some(rest.split_once(" is still running after ")?.0),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_goes_on_is_known_by_the_tool_s_last_line() {
        for (said, shell) in [
            (
                "out\n<command started in background with shellId: my shell>",
                Some("my shell"),
            ),
            (
                "<command with shellId: 3 is still running after 30 seconds. Use read_bash>",
                Some("3"),
            ),
            ("out\n<exited with exit code 0>", None),
            ("", None),
        ] {
            assert_eq!(running_shell(said), shell, "{said}");
        }
    }
}
