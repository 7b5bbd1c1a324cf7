//! The output of `lodge run`: drawn as in the conversation on a terminal, else line by line, with the answer on standard output
//! and everything else on standard error.

mod drawn;
mod lines;
mod whole;

use std::{io, path::Path};

use lodge_events::{Event, Payload, PermissionResultKind};
use lodge_terminal::{Body, Scheme};
pub(crate) use lodge_terminal::{plain, shorten};
use tokio::time::Instant;

use self::{drawn::Drawn, lines::Lines, whole::Whole};
use crate::{
    console::{Console, Size},
    run::Exit,
};

pub(crate) use self::lines::cut;

/// A question: its subject, and the prompt for an answer.
pub(crate) struct Asking {
    pub(crate) title: String,
    pub(crate) body: Body,
    pub(crate) prompt: String,
}

/// The form of the output.
enum How {
    Json,
    Whole(Box<Whole>),
    Lines(Lines),
    Drawn(Box<Drawn>),
}

/// What is printed of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON object at the end.
    Json,
    /// Every event, as a line of JSON.
    Events,
}

/// The output of a turn.
pub(crate) struct View<'a> {
    pub(crate) console: &'a mut Console,
    how: How,
    failure: Failure,
}

/// Why the last model call failed, and whether that is still to be shown.
#[derive(Default)]
struct Failure {
    told: Option<String>,
    untold: bool,
}

impl<'a> View<'a> {
    /// A view of a turn that has not shown anything yet, for a session in this directory. The scheme is for a terminal
    /// that can be drawn on.
    pub(crate) fn new(format: Format, scheme: Scheme, directory: &Path, console: &'a mut Console) -> Self {
        let how = match console.terminal.screen {
            _ if format == Format::Events => How::Json,
            _ if format == Format::Json => How::Whole(Box::new(Whole::new())),
            Some(screen) => How::Drawn(Box::new(Drawn::new(scheme, screen, directory))),
            None => How::Lines(Lines::new(console.terminal.stderr)),
        };
        Self {
            console,
            how,
            failure: Failure::default(),
        }
    }

    /// Shows one event. Nothing in it can control the terminal.
    pub(crate) fn show(&mut self, event: &Event) -> io::Result<()> {
        match &mut self.how {
            How::Json => return crate::run::print_event(&mut self.console.out, event),
            How::Whole(whole) => {
                whole.take(event);
                return Ok(());
            }
            How::Lines(_) | How::Drawn(_) => {}
        }
        let note = match event.agent_id() {
            Some(_) => of_sub_agent(event),
            None => self.beside(event),
        };
        if let Some(note) = note {
            self.note(&note)?;
        }
        match &mut self.how {
            How::Json | How::Whole(_) => Ok(()),
            How::Lines(lines) => lines.show(self.console, event),
            How::Drawn(drawn) => {
                drawn.apply(event);
                Ok(())
            }
        }
    }

    /// Events that get a line beside the conversation.
    fn beside(&mut self, event: &Event) -> Option<String> {
        match event.payload() {
            Payload::PermissionCompleted(done) if done.result.kind == PermissionResultKind::DeniedNoApprovalRule => {
                Some("Denied: there is nobody to ask. Use --approve edits to allow writes in the working directory, or --approve all to allow everything.".to_owned())
            }
            Payload::ModelCallFailure(failure) => {
                let why = failure.error_message.clone().unwrap_or_default();
                self.failure.untold = self.failure.told.as_ref() != Some(&why);
                self.failure.told = Some(why);
                None
            }
            // Says once per reason why the model is called again. The waiting time is in the status.
            Payload::AssistantTurnRetry(_) if std::mem::take(&mut self.failure.untold) => {
                self.failure.told.as_ref().map(|why| format!("{why} Trying again."))
            }
            Payload::SessionInfo(info) => Some(info.message.clone()).filter(|message| !message.is_empty()),
            _ => None,
        }
    }

    /// Prints a line beside the answer.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        match &mut self.how {
            How::Json | How::Whole(_) => Ok(()),
            How::Lines(lines) => lines.note(self.console, text),
            How::Drawn(drawn) => drawn.note(self.console, text),
        }
    }

    /// Prints the answer of a command without a turn.
    pub(crate) fn answer(&mut self, text: &str) -> io::Result<()> {
        match &mut self.how {
            How::Drawn(drawn) => drawn.page(self.console, text),
            How::Whole(whole) => {
                whole.answer(text);
                Ok(())
            }
            How::Json | How::Lines(_) => self.console.say(plain(text).trim_end()),
        }
    }

    /// Shows a question and waits for the answer after it.
    pub(crate) fn question(&mut self, asking: &Asking) -> io::Result<()> {
        match &mut self.how {
            How::Json | How::Whole(_) => Ok(()),
            How::Lines(lines) => lines.question(self.console, asking),
            How::Drawn(drawn) => drawn.question(self.console, asking),
        }
    }

    /// Whether a shown question is open: until it is answered, nothing is drawn below it.
    pub(crate) fn waits(&mut self, asking: bool) {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.waits(asking);
        }
    }

    /// A line was typed.
    pub(crate) fn typed(&mut self) {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.typed();
        }
    }

    /// The terminal was resized.
    pub(crate) fn resized(&mut self, size: Size) {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.resized(size);
        }
    }

    /// When the next frame is due, if there is anything to draw.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.how {
            How::Drawn(drawn) => drawn.due(),
            How::Json | How::Whole(_) | How::Lines(_) => None,
        }
    }

    /// Flushes the output.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.draw(self.console)?;
        }
        self.console.flush().await
    }

    /// Prints what remains, and how to continue.
    pub(crate) fn finish(&mut self, id: &str, exit: Exit) -> io::Result<()> {
        let says_more = match &mut self.how {
            How::Json => false,
            How::Whole(whole) => {
                whole.finish(self.console, id, exit)?;
                false
            }
            How::Lines(lines) => lines.finish(self.console)? || exit != Exit::Finished,
            How::Drawn(drawn) => {
                drawn.finish(self.console)?;
                true
            }
        };
        if says_more {
            writeln!(self.console.err, "\nContinue with: lodge run --resume {id} \"…\"")?;
        }
        self.console.out.flush()
    }
}

/// A sub-agent's actions get a line; its text goes to the agent that started it.
fn of_sub_agent(event: &Event) -> Option<String> {
    Some(match event.payload() {
        Payload::SubagentStarted(started) => format!("▸ {} started", started.agent_display_name),
        Payload::SubagentCompleted(done) if done.cancelled == Some(true) => {
            format!("▸ {} was stopped", done.agent_display_name)
        }
        Payload::SubagentCompleted(done) => format!("▸ {} is done", done.agent_display_name),
        Payload::SubagentFailed(failed) => {
            format!(
                "▸ {} failed: {}",
                failed.agent_display_name,
                shorten(&failed.error, 200)
            )
        }
        Payload::ToolExecutionStart(start) => {
            let arguments = start.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("  → {} {}", start.tool_name, shorten(&arguments, 100))
        }
        _ => return None,
    })
}
