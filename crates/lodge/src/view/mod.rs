//! The output of `lodge run`: drawn as in the conversation on a terminal, else line by line, with the answer on standard output
//! and everything else on standard error.

mod drawn;
mod lines;

use std::{io, path::Path};

use lodge_events::{Event, Payload, PermissionResultKind};
use lodge_terminal::{Body, Scheme};
pub(crate) use lodge_terminal::{plain, shorten};
use tokio::time::Instant;

use self::{drawn::Drawn, lines::Lines};
use crate::console::{Console, Size};

pub(crate) use self::lines::cut;

/// A question as it is shown: what it is about, and how it is answered.
pub(crate) struct Asking {
    pub(crate) title: String,
    pub(crate) body: Body,
    pub(crate) prompt: String,
}

/// How events are shown.
enum How {
    Json,
    Lines(Lines),
    Drawn(Box<Drawn>),
}

/// Shows events.
pub(crate) struct View<'a> {
    pub(crate) console: &'a mut Console,
    how: How,
    failure: Failure,
}

/// Why the last call of the model failed, and whether that is still to be told.
#[derive(Default)]
struct Failure {
    told: Option<String>,
    untold: bool,
}

impl<'a> View<'a> {
    /// A view of a turn of which nothing is shown, in a session that works in a directory. The scheme is for a terminal that can be
    /// drawn on.
    pub(crate) fn new(json: bool, scheme: Scheme, directory: &Path, console: &'a mut Console) -> Self {
        let how = match console.terminal.screen {
            _ if json => How::Json,
            Some(screen) => How::Drawn(Box::new(Drawn::new(scheme, screen, directory))),
            None => How::Lines(Lines::new(console.terminal.stderr)),
        };
        Self {
            console,
            how,
            failure: Failure::default(),
        }
    }

    /// Shows one event. Nothing a model or a tool says can steer the terminal.
    pub(crate) fn show(&mut self, event: &Event) -> io::Result<()> {
        if matches!(self.how, How::Json) {
            return crate::run::print_event(&mut self.console.out, event);
        }
        let note = match event.agent_id() {
            Some(_) => of_sub_agent(event),
            None => self.beside(event),
        };
        if let Some(note) = note {
            self.note(&note)?;
        }
        match &mut self.how {
            How::Json => Ok(()),
            How::Lines(lines) => lines.show(self.console, event),
            How::Drawn(drawn) => {
                drawn.apply(event);
                Ok(())
            }
        }
    }

    /// What is worth a line beside the conversation.
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
            // Why the model is called again, once for the same reason. How long that takes is in the status.
            Payload::AssistantTurnRetry(_) if std::mem::take(&mut self.failure.untold) => {
                self.failure.told.as_ref().map(|why| format!("{why} Trying again."))
            }
            Payload::SessionInfo(info) => Some(info.message.clone()).filter(|message| !message.is_empty()),
            _ => None,
        }
    }

    /// A line beside the answer.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        match &mut self.how {
            How::Json => Ok(()),
            How::Lines(lines) => lines.note(self.console, text),
            How::Drawn(drawn) => drawn.note(self.console, text),
        }
    }

    /// The answer of a command that takes no turn.
    pub(crate) fn answer(&mut self, text: &str) -> io::Result<()> {
        match &mut self.how {
            How::Drawn(drawn) => drawn.page(self.console, text),
            How::Json | How::Lines(_) => self.console.say(plain(text).trim_end()),
        }
    }

    /// Shows a question and waits behind it.
    pub(crate) fn question(&mut self, asking: &Asking) -> io::Result<()> {
        match &mut self.how {
            How::Json => Ok(()),
            How::Lines(lines) => lines.question(self.console, asking),
            How::Drawn(drawn) => drawn.question(self.console, asking),
        }
    }

    /// Whether a question is open that was shown: until it is answered, nothing is drawn below it.
    pub(crate) fn waits(&mut self, asking: bool) {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.waits(asking);
        }
    }

    /// The person typed a line.
    pub(crate) fn typed(&mut self) {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.typed();
        }
    }

    /// The terminal has another size.
    pub(crate) fn resized(&mut self, size: Size) {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.resized(size);
        }
    }

    /// When something is to be drawn that is not drawn yet.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.how {
            How::Drawn(drawn) => drawn.due(),
            How::Json | How::Lines(_) => None,
        }
    }

    /// Makes everything visible that was shown.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if let How::Drawn(drawn) = &mut self.how {
            drawn.draw(self.console)?;
        }
        self.console.flush().await
    }

    /// Says how to go on.
    pub(crate) fn finish(&mut self, id: &str, finished: bool) -> io::Result<()> {
        let says_more = match &mut self.how {
            How::Json => false,
            How::Lines(lines) => lines.finish(self.console)? || !finished,
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

/// What a sub-agent does is worth a line; what it says goes to who asked it.
fn of_sub_agent(event: &Event) -> Option<String> {
    Some(match event.payload() {
        Payload::SubagentStarted(started) => format!("▸ {} begins", started.agent_display_name),
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
