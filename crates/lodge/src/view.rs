//! What a person sees of a turn: the answer on standard output, everything else on standard error.

use std::io;

use lodge_events::{Event, Payload, PermissionResultKind};
pub(crate) use lodge_terminal::{plain, shorten};

use crate::console::Console;

/// How much is shown of what a tool says.
const MOST_LINES: usize = 6;
const LONGEST_LINE: usize = 160;

/// Shows events.
pub(crate) struct View<'a> {
    json: bool,
    pub(crate) console: &'a mut Console,
    /// Whether a status line may be drawn and taken back.
    live: bool,
    status: bool,
    streamed: Option<String>,
    midline: bool,
}

impl<'a> View<'a> {
    pub(crate) fn new(json: bool, console: &'a mut Console) -> Self {
        let live = !json && console.terminal.stderr;
        Self {
            json,
            console,
            live,
            status: false,
            streamed: None,
            midline: false,
        }
    }

    /// Shows one event. Nothing a model or a tool says can steer the terminal.
    pub(crate) fn show(&mut self, event: &Event) -> io::Result<()> {
        if self.json {
            return crate::run::print_event(&mut self.console.out, event);
        }
        if event.agent_id().is_some() {
            return self.show_sub_agent(event);
        }
        match event.payload() {
            Payload::AssistantTurnStart(_) => self.status("thinking…"),
            Payload::AssistantIntent(intent) => self.status(&intent.intent),
            Payload::AssistantMessageDelta(delta) => {
                self.streamed = Some(delta.message_id.clone());
                self.text(&delta.delta_content)
            }
            Payload::AssistantMessage(message) => {
                if self.streamed.as_deref() != Some(message.message_id.as_str()) {
                    self.text(&message.content)?;
                }
                self.end_line()
            }
            Payload::ToolExecutionStart(start) => {
                let arguments = start.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
                self.note(&format!("→ {} {}", start.tool_name, shorten(&arguments, 100)))
            }
            Payload::ToolExecutionComplete(done) => match &done.error {
                Some(error) => self.note(&format!("✗ {}", shorten(&error.message, 200))),
                None => self.tool_output(done.result.as_ref().map_or("", |result| &result.content)),
            },
            Payload::PermissionCompleted(done) if done.result.kind == PermissionResultKind::DeniedNoApprovalRule => {
                self.note("Denied: nobody can be asked here. Use --approve edits to allow writes in the working directory, or --approve all to allow everything.")
            }
            Payload::AssistantTurnRetry(retry) => self.note(&format!(
                "The model did not answer ({}); trying again.",
                retry.reason.as_deref().unwrap_or("unknown")
            )),
            Payload::SessionError(error) => self.note(&format!("error ({}): {}", error.error_type, error.message)),
            Payload::SessionWarning(warning) => self.note(&format!("Warning: {}", warning.message)),
            Payload::SessionInfo(info) => self.note(&info.message),
            Payload::Abort(_) => self.note("Aborted."),
            _ => Ok(()),
        }
    }

    /// What a sub-agent does is worth a line; what it says goes to who asked it.
    fn show_sub_agent(&mut self, event: &Event) -> io::Result<()> {
        match event.payload() {
            Payload::SubagentStarted(started) => self.note(&format!("▸ {} begins", started.agent_display_name)),
            Payload::SubagentCompleted(done) if done.cancelled == Some(true) => {
                self.note(&format!("▸ {} was stopped", done.agent_display_name))
            }
            Payload::SubagentCompleted(done) => self.note(&format!("▸ {} is done", done.agent_display_name)),
            Payload::SubagentFailed(failed) => self.note(&format!(
                "▸ {} failed: {}",
                failed.agent_display_name,
                shorten(&failed.error, 200)
            )),
            Payload::ToolExecutionStart(start) => {
                let arguments = start.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
                self.note(&format!("  → {} {}", start.tool_name, shorten(&arguments, 100)))
            }
            _ => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_status()?;
        self.midline = !text.ends_with('\n');
        self.console.out.write_all(plain(text).as_bytes())
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.midline) {
            self.console.out.write_all(b"\n")?;
        }
        self.console.out.flush()
    }

    /// A line beside the answer.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.clear_status()?;
        self.end_line()?;
        writeln!(self.console.err, "{}", plain(text))
    }

    fn status(&mut self, text: &str) -> io::Result<()> {
        if !self.live || self.midline {
            return Ok(());
        }
        self.status = true;
        write!(
            self.console.err,
            "\r\x1b[2K{}",
            shorten(&plain(text).replace('\n', " "), 70)
        )?;
        self.console.err.flush()
    }

    fn clear_status(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.status) {
            write!(self.console.err, "\r\x1b[2K")?;
        }
        Ok(())
    }

    /// The beginning of what a tool says.
    fn tool_output(&mut self, text: &str) -> io::Result<()> {
        let text = cut(text, MOST_LINES, LONGEST_LINE);
        match text.is_empty() {
            true => Ok(()),
            false => self.note(&text),
        }
    }

    /// Shows a question and waits behind it.
    pub(crate) fn question(&mut self, text: &str) -> io::Result<()> {
        self.clear_status()?;
        self.end_line()?;
        write!(self.console.err, "\n{text}")?;
        self.console.err.flush()
    }

    /// Makes everything visible that was shown.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.console.flush().await
    }

    /// Says how to go on.
    pub(crate) fn finish(&mut self, id: &str, finished: bool) -> io::Result<()> {
        self.clear_status()?;
        if !self.json {
            self.end_line()?;
            if self.live || !finished {
                writeln!(self.console.err, "\nContinue with: lodge run --resume {id} \"…\"")?;
            }
        }
        self.console.out.flush()
    }
}

/// The beginning of a text, indented, with a mark where lines or their ends are missing.
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
