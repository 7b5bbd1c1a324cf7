//! Output of the line client: lines on standard output, and streaming text. Nothing shown can control the terminal.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use super::{editor::Editor, hardware, input::columns};
use lodge_terminal::{plain, shorten};

/// Notes are cut to this length.
const LINE: usize = 300;

/// What the cursor is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// An empty line.
    Start,
    Answer,
    Thought,
    /// An unfinished note.
    Note,
    /// The prompt; it is erased when something is shown.
    Prompt,
}

/// The screen, or any other standard output.
pub(super) struct Screen<W: Write = BufWriter<Stdout>> {
    out: W,
    /// Whether a person types at this screen: then their words are already on it, and a prompt is shown.
    pub(super) typed_at: bool,
    colour: bool,
    /// Whether the prompt can be erased.
    wipes: bool,
    at: At,
    /// The prompt and the typed text after it: the visible part, and the columns after the cursor.
    asks: String,
    typed: (String, usize),
}

impl Screen {
    pub(super) fn new() -> Self {
        let terminal = io::stdout().is_terminal();
        let able = terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let colour = able && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            out: BufWriter::new(io::stdout()),
            typed_at: terminal && io::stdin().is_terminal(),
            colour,
            wipes: able,
            at: At::Start,
            asks: String::new(),
            typed: Default::default(),
        }
    }
}

impl<W: Write> Screen<W> {
    /// A plain text screen.
    pub(super) fn over(out: W) -> Self {
        Self {
            out,
            typed_at: false,
            colour: false,
            wipes: false,
            at: At::Start,
            asks: String::new(),
            typed: Default::default(),
        }
    }

    /// The written output.
    #[cfg(test)]
    pub(super) fn into_inner(self) -> W {
        self.out
    }

    fn style(&mut self, code: &str) -> io::Result<()> {
        if self.colour {
            write!(self.out, "\x1b[{code}m")?;
        }
        Ok(())
    }

    /// Moves to the start of a line.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.at, At::Start) {
            At::Start => Ok(()),
            At::Prompt if self.wipes => self.out.write_all(b"\r\x1b[K"),
            At::Thought => {
                self.style("0")?;
                self.out.write_all(b"\n")
            }
            At::Answer | At::Note | At::Prompt => self.out.write_all(b"\n"),
        }
    }

    /// Shows a piece of an answer.
    pub(super) fn answer(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.at != At::Answer {
            self.end_line()?;
        }
        self.at = if text.ends_with('\n') { At::Start } else { At::Answer };
        self.out.write_all(plain(text).as_bytes())
    }

    /// Shows a piece of reasoning, with a mark before every line.
    pub(super) fn thought(&mut self, text: &str) -> io::Result<()> {
        for piece in plain(text).split_inclusive('\n') {
            if self.at != At::Thought {
                self.end_line()?;
                self.style("2")?;
                self.out.write_all("┊ ".as_bytes())?;
                self.at = At::Thought;
            }
            self.out.write_all(piece.trim_end_matches('\n').as_bytes())?;
            if piece.ends_with('\n') {
                self.end_line()?;
            }
        }
        Ok(())
    }

    /// Shows a person's message.
    pub(super) fn said(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.style("1")?;
        for (number, line) in plain(text).lines().enumerate() {
            let mark = if number == 0 { "> " } else { "  " };
            writeln!(self.out, "{mark}{line}")?;
        }
        self.style("0")
    }

    /// Shows a note beside the conversation, with a mark before its first line. Long lines are cut.
    pub(super) fn note(&mut self, mark: &str, text: &str) -> io::Result<()> {
        self.marked(mark, text, LINE)
    }

    /// Says what went wrong. Nothing of it is cut.
    pub(super) fn error(&mut self, text: &str) -> io::Result<()> {
        self.marked("✗", text, usize::MAX)
    }

    fn marked(&mut self, mark: &str, text: &str, longest: usize) -> io::Result<()> {
        self.end_line()?;
        self.style("2")?;
        for (number, line) in plain(text).lines().enumerate() {
            let mark = if number == 0 { mark } else { " " };
            writeln!(self.out, "{mark} {}", shorten(line, longest))?;
        }
        self.style("0")
    }

    /// Notifies a person who looks elsewhere. A dumb terminal has a bell at most.
    pub(super) fn notify(&mut self, text: &str) -> io::Result<()> {
        match (self.typed_at, self.wipes) {
            (true, true) => self.out.write_all(hardware::notification(text).as_bytes()),
            (true, false) => self.out.write_all(b"\x07"),
            (false, _) => Ok(()),
        }
    }

    /// Shows lines that the person has to read: they are never cut.
    pub(super) fn lines(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        for line in plain(text).lines() {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Begins a note that `go_on` ends.
    pub(super) fn begin(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        write!(self.out, "· {}", plain(text))?;
        self.at = At::Note;
        Ok(())
    }

    /// Ends a note, on the same line if nothing came between.
    pub(super) fn go_on(&mut self, text: &str) -> io::Result<()> {
        if self.at == At::Note {
            self.at = At::Start;
            return writeln!(self.out, " {}", plain(text));
        }
        self.note("·", text)
    }

    /// Shows the prompt, once.
    pub(super) fn prompt(&mut self, text: &str) -> io::Result<()> {
        if self.typed_at && (self.at != At::Prompt || self.asks != text) {
            self.end_line()?;
            self.asks = text.to_owned();
            self.draw()?;
            self.at = At::Prompt;
        }
        Ok(())
    }

    /// Whether the typed line is drawn here, rather than by the terminal.
    pub(super) fn draws_line(&self) -> bool {
        self.typed_at && self.wipes
    }

    /// Whether the cursor's line is free for typing.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.at, At::Start | At::Prompt)
    }

    /// Draws the typed line, if this is where the person types.
    pub(super) fn typing(&mut self, editor: Option<&mut Editor>) -> io::Result<()> {
        let Some(editor) = editor else { return Ok(()) };
        self.typed = editor.shown(columns().saturating_sub(self.asks.len().max(2) + 1));
        if self.at == At::Prompt {
            self.out.write_all(b"\r\x1b[K")?;
            self.draw()?;
        }
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        write!(self.out, "{}{}", self.asks, plain(&self.typed.0))?;
        match self.typed.1 {
            0 => Ok(()),
            back => write!(self.out, "\x1b[{back}D"),
        }
    }

    /// A line was entered: the cursor moves to the next one.
    pub(super) fn entered(&mut self, line: &str) -> io::Result<()> {
        if !self.typed_at {
            return Ok(());
        }
        self.typed = Default::default();
        if !self.wipes {
            // The terminal already moved it.
            self.at = At::Start;
        } else if self.at == At::Prompt {
            self.at = At::Start;
            self.out.write_all(b"\n")?;
        } else if !line.is_empty() {
            // It was typed while something else was shown.
            self.said(line)?;
        }
        Ok(())
    }

    /// Flushes the output.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_lines_do_not_run_into_each_other() {
        let mut screen = Screen::over(Vec::new());
        screen.said("do it\nnow").unwrap();
        screen.thought("first\nsec").unwrap();
        screen.thought("ond").unwrap();
        screen.answer("An ans").unwrap();
        screen.answer("wer").unwrap();
        screen.note("→", "Running `ls`").unwrap();
        screen.answer("Done.\n").unwrap();
        screen.begin("Lost;").unwrap();
        screen.go_on("back.").unwrap();
        screen.begin("Lost;").unwrap();
        screen.note("·", "Kept.").unwrap();
        screen.go_on("back.").unwrap();
        screen.answer("\x1b[2Jx").unwrap();
        screen.end_line().unwrap();
        let text = String::from_utf8(screen.into_inner()).unwrap();
        let expected = "> do it\n  now\n┊ first\n┊ second\nAn answer\n→ Running `ls`\nDone.\n· Lost; back.\n· Lost;\n\
                        · Kept.\n· back.\n\u{fffd}[2Jx\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn long_notes_are_cut_and_errors_are_not() {
        let long = "x".repeat(2 * LINE);
        let mut screen = Screen::over(Vec::new());
        screen.note("·", &long).unwrap();
        screen.error(&long).unwrap();
        let text = String::from_utf8(screen.into_inner()).unwrap();
        let lengths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lengths, [LINE + 2, 2 * LINE + 2]);
    }
}
