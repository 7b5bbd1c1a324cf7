//! A turn line by line, for output that cannot be drawn on.

use std::io;

use lodge_events::{Event, Payload};
use lodge_terminal::Body;

use super::{Asking, plain, shorten};
use crate::console::Console;

/// How many lines of a tool's output are shown.
const MOST_LINES: usize = 6;
const LONGEST_LINE: usize = 160;

pub(super) struct Lines {
    /// Whether a status line can be drawn and erased.
    live: bool,
    status: bool,
    streamed: Option<String>,
    midline: bool,
}

impl Lines {
    pub(super) fn new(live: bool) -> Self {
        Self {
            live,
            status: false,
            streamed: None,
            midline: false,
        }
    }

    /// Shows one event of the session's own agent.
    pub(super) fn show(&mut self, console: &mut Console, event: &Event) -> io::Result<()> {
        if event.agent_id().is_some() {
            return Ok(());
        }
        match event.payload() {
            Payload::AssistantTurnStart(_) => self.status(console, "thinking…"),
            Payload::AssistantIntent(intent) => self.status(console, &intent.intent),
            Payload::AssistantMessageDelta(delta) => {
                self.streamed = Some(delta.message_id.clone());
                self.text(console, &delta.delta_content)
            }
            Payload::AssistantMessage(message) => {
                if self.streamed.as_deref() != Some(message.message_id.as_str()) {
                    self.text(console, &message.content)?;
                }
                self.end_line(console)
            }
            Payload::ToolExecutionStart(start) => {
                let arguments = start.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
                self.note(console, &format!("→ {} {}", start.tool_name, shorten(&arguments, 100)))
            }
            Payload::ToolExecutionComplete(done) => match &done.error {
                Some(error) => self.note(console, &format!("✗ {}", shorten(&error.message, 200))),
                None => {
                    let said = done.result.as_ref().map_or("", |result| &result.content);
                    match cut(said, MOST_LINES, LONGEST_LINE) {
                        said if said.is_empty() => Ok(()),
                        said => self.note(console, &said),
                    }
                }
            },
            Payload::SessionError(error) => {
                self.note(console, &format!("error ({}): {}", error.error_type, error.message))
            }
            Payload::SessionWarning(warning) => self.note(console, &format!("Warning: {}", warning.message)),
            Payload::Abort(_) => self.note(console, "Aborted."),
            _ => Ok(()),
        }
    }

    fn text(&mut self, console: &mut Console, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_status(console)?;
        self.midline = !text.ends_with('\n');
        console.out.write_all(plain(text).as_bytes())
    }

    fn end_line(&mut self, console: &mut Console) -> io::Result<()> {
        if std::mem::take(&mut self.midline) {
            console.out.write_all(b"\n")?;
        }
        console.out.flush()
    }

    pub(super) fn note(&mut self, console: &mut Console, text: &str) -> io::Result<()> {
        self.clear_status(console)?;
        self.end_line(console)?;
        writeln!(console.err, "{}", plain(text))
    }

    fn status(&mut self, console: &mut Console, text: &str) -> io::Result<()> {
        if !self.live || self.midline {
            return Ok(());
        }
        self.status = true;
        let text = shorten(&plain(text).replace('\n', " "), 70);
        write!(console.err, "\r\x1b[2K{text}")?;
        console.err.flush()
    }

    fn clear_status(&mut self, console: &mut Console) -> io::Result<()> {
        if std::mem::take(&mut self.status) {
            write!(console.err, "\r\x1b[2K")?;
        }
        Ok(())
    }

    pub(super) fn question(&mut self, console: &mut Console, asking: &Asking) -> io::Result<()> {
        self.clear_status(console)?;
        self.end_line(console)?;
        let Asking { title, body, prompt } = asking;
        let between = match body {
            Body::None if title.is_empty() => String::new(),
            Body::None => "\n".to_owned(),
            Body::Diff(text) => format!("\n{text}\n"),
            Body::Markdown(text) => format!("\n\n{text}\n\n"),
        };
        write!(console.err, "\n{}{}{}", plain(title), plain(&between), plain(prompt))?;
        console.err.flush()
    }

    /// Ends the output. Returns whether anybody still reads.
    pub(super) fn finish(&mut self, console: &mut Console) -> io::Result<bool> {
        self.clear_status(console)?;
        self.end_line(console)?;
        Ok(self.live)
    }
}

/// The beginning of a text, indented, with marks where lines or their ends are missing.
pub(crate) fn cut(text: &str, most_lines: usize, longest_line: usize) -> String {
    let text = plain(text.trim_end());
    let mut lines = text.lines();
    let mut shown: Vec<String> = lines
        .by_ref()
        .take(most_lines)
        .map(|line| format!("  {}", shorten(line, longest_line)))
        .collect();
    match lines.count() {
        0 => {}
        1 => shown.push("  … 1 more line".to_owned()),
        more => shown.push(format!("  … {more} more lines")),
    }
    shown.join("\n")
}
