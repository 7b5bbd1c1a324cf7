//! Prints one turn into the terminal's scrollback: rows that are final are printed once; rows that still change are redrawn below them.
//! The rows look like those of the full-screen conversation.

use ahp::{
    ahp_types::{
        StateAction,
        state::{ChatState, SessionStatus},
    },
    reducers::apply_action_to_chat,
};
use crossterm::{
    cursor::MoveUp,
    queue,
    terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate},
};
use ratatui_core::text::Line;

use crate::{
    highlight::{self, Open},
    markdown, paint,
    plain::{plain, plain_line},
    theme::{Scheme, Theme},
    transcript::{Look, Position, Transcript},
    wrap::{self, Margin},
};

/// The lines of output that are kept below a command that has ended.
const OUTPUT_LINES: usize = 5;

/// What is shown above a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Only the question's title.
    None,
    /// A change to a file, as a unified diff.
    Diff(String),
    /// Markdown.
    Markdown(String),
}

/// A turn that is being printed.
pub struct Feed {
    theme: Theme,
    chat: ChatState,
    transcript: Transcript,
    /// The last block that is final and printed.
    printed: Position,
    /// The widths, in columns, of the printed rows that still change.
    live: Vec<usize>,
    /// Whether something has been printed already.
    began: bool,
    /// Whether the cursor is behind a question.
    asking: bool,
}

impl Feed {
    /// Begins a turn. Its message is not shown: the person typed it in the same terminal.
    pub fn new(scheme: Scheme) -> Self {
        Self {
            theme: Theme::new(scheme),
            chat: empty_chat(),
            transcript: Transcript::default(),
            printed: Position::FIRST,
            live: Vec::new(),
            began: false,
            asking: false,
        }
    }

    /// Applies an action to the conversation.
    pub fn apply(&mut self, action: &StateAction) {
        apply_action_to_chat(&mut self.chat, action);
    }

    /// The bytes to print in a terminal of this size: final rows, rows that still change, and what the agent is doing.
    pub fn frame(&mut self, (columns, rows): (u16, u16), status: Option<&str>) -> Vec<u8> {
        self.transcript.follow(&self.chat);
        let look = Look {
            width: usize::from(columns),
            theme: &self.theme,
            output: OUTPUT_LINES,
        };
        let tail = self.transcript.tail(self.printed, &self.chat, look);
        self.printed = tail.printed;
        let mut live = tail.open;
        let status = match status {
            None if live.is_empty() => Some("thinking…"),
            status => status,
        };
        if let Some(status) = status.filter(|_| self.chat.active_turn.is_some()) {
            let text = format!("· {}", plain_line(status));
            live.extend([
                Line::default(),
                Line::styled(wrap::fit(&text, look.width), self.theme.dim),
            ]);
        }
        // Rows above the screen cannot be redrawn.
        let surplus = live.len().saturating_sub(usize::from(rows).saturating_sub(1).max(1));
        live.drain(..surplus);
        self.draw(columns, tail.settled, &live)
    }

    /// Prints the remaining rows as they are: the turn has ended.
    pub fn finish(&mut self, size: (u16, u16)) -> Vec<u8> {
        let mut bytes = self.frame(size, None);
        if !self.live.is_empty() {
            bytes.extend(b"\r\n");
            self.live.clear();
        }
        bytes
    }

    /// Prints lines that are not part of the conversation.
    pub fn note(&mut self, columns: u16, text: &str) -> Vec<u8> {
        let text = plain(text);
        let lines = text.lines();
        let rows = lines.flat_map(|line| {
            wrap::words(
                &vec![(line.to_owned(), self.theme.dim)],
                usize::from(columns),
                &Margin::default(),
            )
        });
        let rows = rows.collect();
        self.draw(columns, rows, &[])
    }

    /// Prints Markdown.
    pub fn page(&mut self, columns: u16, text: &str) -> Vec<u8> {
        let rows = markdown::prose(text, usize::from(columns), &self.theme);
        self.draw(columns, rows, &[])
    }

    /// Prints a question and leaves the cursor behind it.
    pub fn question(&mut self, columns: u16, title: &str, body: &Body, prompt: &str) -> Vec<u8> {
        let width = usize::from(columns);
        let mut rows = vec![Line::default()];
        for line in plain(title).lines() {
            let line = vec![(line.to_owned(), self.theme.strong)];
            rows.extend(wrap::words(&line, width, &Margin::default()));
        }
        match body {
            Body::None => {}
            Body::Diff(text) => {
                // The file names before the first change are in the title.
                let changes = text.find("\n@@").map_or(text.as_str(), |at| &text[at + 1..]);
                let colouring = highlight::Colouring::Diff;
                rows.extend(markdown::code(changes, colouring, Open::default(), width, &self.theme));
            }
            Body::Markdown(text) => {
                rows.push(Line::default());
                rows.extend(markdown::prose(text, width, &self.theme));
            }
        }
        let mut bytes = self.draw(columns, rows, &[]);
        bytes.extend(plain(prompt).replace('\n', "\r\n").into_bytes());
        self.asking = true;
        bytes
    }

    /// Notes that the person typed a line, which the terminal showed.
    pub fn typed(&mut self) {
        if !std::mem::take(&mut self.asking) && !self.live.is_empty() {
            self.live.push(0);
        }
    }

    fn draw(&mut self, columns: u16, mut settled: Vec<Line<'static>>, live: &[Line<'static>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let blank = |row: &Line| row.width() == 0;
        if !self.began {
            let gap = settled.iter().take_while(|row| blank(row)).count();
            settled.drain(..gap);
        }
        let gap = live.iter().take_while(|row| blank(row)).count();
        let live = match self.began || !settled.is_empty() {
            true => live,
            false => &live[gap..],
        };
        if settled.is_empty() && live.is_empty() && self.live.is_empty() {
            return bytes;
        }
        // Writing to memory does not fail.
        let _ = queue!(bytes, BeginSynchronizedUpdate);
        if std::mem::take(&mut self.asking) {
            bytes.extend(b"\r\n");
        }
        self.erase(&mut bytes, columns);
        for row in &settled {
            paint::row(&mut bytes, row);
            bytes.extend(b"\r\n");
        }
        for (number, row) in live.iter().enumerate() {
            if number > 0 {
                bytes.extend(b"\r\n");
            }
            paint::row(&mut bytes, row);
        }
        let _ = queue!(bytes, EndSynchronizedUpdate);
        self.began |= !settled.is_empty();
        self.live = live.iter().map(Line::width).collect();
        bytes
    }

    /// Erases the rows that still change, even if the terminal has become narrower since they were drawn.
    fn erase(&self, bytes: &mut Vec<u8>, columns: u16) {
        let columns = usize::from(columns).max(1);
        let rows: usize = self.live.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        if rows == 0 {
            return;
        }
        bytes.push(b'\r');
        if rows > 1 {
            let _ = queue!(bytes, MoveUp(u16::try_from(rows - 1).unwrap_or(u16::MAX)));
        }
        let _ = queue!(bytes, Clear(ClearType::FromCursorDown));
    }
}

fn empty_chat() -> ChatState {
    ChatState {
        resource: String::new(),
        title: String::new(),
        status: SessionStatus::Idle.bits(),
        activity: None,
        modified_at: String::new(),
        changes: None,
        origin: None,
        movable: None,
        interactivity: None,
        working_directories: None,
        changesets: None,
        background_work: None,
        canvases: None,
        turns: Vec::new(),
        turns_next_cursor: None,
        active_turn: None,
        steering_message: None,
        queued_messages: None,
        draft: None,
        meta: None,
    }
}
