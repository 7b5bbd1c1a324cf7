//! A turn on a terminal, as the conversation shows it: projects the session's events to AHP state and prints that.

use std::{io, path::Path, time::Duration};

use ahp::ahp_types::StateAction;
use lodge_ahp::projection::{Projector, Scope, Step};
use lodge_events::Event;
use lodge_terminal::{Feed, Scheme};
use tokio::time::Instant;

use super::Asking;
use crate::console::{Console, Size};

/// The time between two frames.
const FRAME: Duration = Duration::from_millis(16);

pub(super) struct Drawn {
    projector: Projector,
    feed: Feed,
    size: Size,
    activity: Option<String>,
    /// A question is open; until it is answered, nothing else is drawn.
    asking: bool,
    changed: bool,
    next: Instant,
}

impl Drawn {
    pub(super) fn new(scheme: Scheme, size: Size, directory: &Path) -> Self {
        Self {
            projector: Projector::in_directory(directory),
            feed: Feed::new(scheme),
            size,
            activity: None,
            asking: false,
            changed: false,
            next: Instant::now(),
        }
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, event: &Event) {
        for step in self.projector.event(event) {
            match step {
                Step::Act(Scope::Main, action) => self.feed.apply(&action),
                Step::Act(Scope::Session, action) => {
                    if let StateAction::SessionActivityChanged(changed) = *action {
                        self.activity = changed.activity;
                    }
                }
                _ => continue,
            }
            self.changed = true;
        }
    }

    /// When the next frame is due, if there is anything to draw.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.changed && !self.asking).then_some(self.next)
    }

    /// Draws the changes, unless the last frame was too recent.
    pub(super) fn draw(&mut self, console: &mut Console) -> io::Result<()> {
        let now = Instant::now();
        if self.due().is_none_or(|due| due > now) {
            return Ok(());
        }
        (self.changed, self.next) = (false, now + FRAME);
        let frame = self.feed.frame(self.size, self.activity.as_deref());
        console.out.write_all(&frame)
    }

    pub(super) fn note(&mut self, console: &mut Console, text: &str) -> io::Result<()> {
        self.changed = true;
        console.out.write_all(&self.feed.note(self.size.0, text))
    }

    pub(super) fn page(&mut self, console: &mut Console, text: &str) -> io::Result<()> {
        console.out.write_all(&self.feed.page(self.size.0, text))
    }

    pub(super) fn question(&mut self, console: &mut Console, asking: &Asking) -> io::Result<()> {
        // Earlier text is shown first.
        let said = self.feed.frame(self.size, None);
        console.out.write_all(&said)?;
        let Asking { title, body, prompt } = asking;
        console
            .out
            .write_all(&self.feed.question(self.size.0, title, body, prompt))
    }

    pub(super) fn typed(&mut self) {
        self.feed.typed();
    }

    /// Sets whether a question is open.
    pub(super) fn waits(&mut self, asking: bool) {
        self.changed |= self.asking && !asking;
        self.asking = asking;
    }

    pub(super) fn resized(&mut self, size: Size) {
        (self.size, self.changed) = (size, true);
    }

    pub(super) fn finish(&mut self, console: &mut Console) -> io::Result<()> {
        console.out.write_all(&self.feed.finish(self.size))?;
        console.out.flush()
    }
}
