//! Sends frames to the terminal. Each is one synchronized write of the cells that changed since the last frame.

use std::{
    io::{self, Write},
    ops::Range,
};

use crossterm::{
    cursor::{Hide, MoveTo, Show},
    queue,
    style::{Attribute, Color as TerminalColor, Colors, Print, SetAttribute, SetColors},
    terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate},
};
use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Line,
};

use crate::plain::visible;

/// The screen, and what the terminal shows of it.
pub struct Painter {
    shown: Buffer,
    next: Buffer,
    /// Whether the contents of the terminal are unknown.
    unknown: bool,
}

impl Painter {
    /// A screen of this size with unknown contents.
    pub fn new(width: u16, height: u16) -> Self {
        let area = Rect::new(0, 0, width, height);
        // The theme already decided about colours: a theme that a person chose overrides NO_COLOR.
        crossterm::style::force_color_output(true);
        Self {
            shown: Buffer::empty(area),
            next: Buffer::empty(area),
            unknown: true,
        }
    }

    /// Has the next frame redraw everything.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// The text between two cells, without trailing blanks.
    pub fn text(&self, one: (u16, u16), other: (u16, u16)) -> String {
        let mut rows = Vec::new();
        for (row, columns) in between(self.shown.area, one, other) {
            let (mut text, mut covered) = (String::new(), 0);
            for column in columns {
                let symbol = self.shown[(column, row)].symbol();
                // A wide character covers the next cell, too.
                if column >= covered {
                    text.push_str(symbol);
                    covered = column + crate::wrap::columns(symbol).max(1) as u16;
                }
            }
            rows.push(text.trim_end().to_owned());
        }
        rows.join("\n")
    }

    /// Draws a frame, as one synchronized update.
    ///
    /// # Errors
    /// If the terminal cannot be written to.
    pub fn frame(
        &mut self,
        out: &mut impl Write,
        (width, height): (u16, u16),
        draw: impl FnOnce(&mut Buffer) -> Option<(u16, u16)>,
    ) -> io::Result<()> {
        let area = Rect::new(0, 0, width, height);
        if self.next.area != area {
            self.next.resize(area);
            self.unknown = true;
        }
        self.next.reset();
        let cursor = draw(&mut self.next);
        let mut bytes = Vec::new();
        queue!(bytes, BeginSynchronizedUpdate, Hide)?;
        if std::mem::take(&mut self.unknown) {
            self.shown = Buffer::empty(area);
            queue!(bytes, SetAttribute(Attribute::Reset), Clear(ClearType::All))?;
        }
        write_cells(&mut bytes, &self.shown, &self.next)?;
        if let Some((x, y)) = cursor {
            queue!(bytes, MoveTo(x, y), Show)?;
        }
        queue!(bytes, EndSynchronizedUpdate)?;
        std::mem::swap(&mut self.shown, &mut self.next);
        out.write_all(&bytes)?;
        out.flush()
    }
}

/// The cells between two cells in reading order: for each row, its columns.
pub(crate) fn between(area: Rect, one: (u16, u16), other: (u16, u16)) -> impl Iterator<Item = (u16, Range<u16>)> {
    let (from, to) = match (one.1, one.0) <= (other.1, other.0) {
        true => (one, other),
        false => (other, one),
    };
    (from.1..=to.1.min(area.height.saturating_sub(1))).map(move |row| {
        let first = if row == from.1 { from.0 } else { 0 };
        let last = if row == to.1 { to.0 + 1 } else { area.width };
        (row, first.min(area.width)..last.min(area.width))
    })
}

fn write_cells(bytes: &mut Vec<u8>, before: &Buffer, now: &Buffer) -> io::Result<()> {
    let changed = before.diff(now);
    let mut at = None;
    let mut style: Option<(Color, Color, Modifier)> = None;
    for (x, y, cell) in &changed {
        if at != Some((*x, *y)) {
            queue!(bytes, MoveTo(*x, *y))?;
        }
        let wanted = (cell.fg, cell.bg, cell.modifier);
        if style != Some(wanted) {
            set_style(bytes, wanted)?;
            style = Some(wanted);
        }
        queue!(bytes, Print(visible(cell.symbol())))?;
        let wide = crate::wrap::columns(cell.symbol()).max(1) as u16;
        at = Some((x + wide, *y));
    }
    if style.is_some() {
        queue!(bytes, SetAttribute(Attribute::Reset))?;
    }
    Ok(())
}

/// A row as bytes; the style is reset at its end.
pub(crate) fn row(bytes: &mut Vec<u8>, row: &Line) {
    let mut styled = false;
    for span in &row.spans {
        let style = row.style.patch(span.style);
        if style != Style::new() || styled {
            let colours = (style.fg.unwrap_or(Color::Reset), style.bg.unwrap_or(Color::Reset));
            // Writing to memory does not fail.
            let _ = set_style(bytes, (colours.0, colours.1, style.add_modifier));
            styled = true;
        }
        bytes.extend(visible(&span.content).as_bytes());
    }
    if styled {
        let _ = queue!(bytes, SetAttribute(Attribute::Reset));
    }
}

fn set_style(bytes: &mut Vec<u8>, (fg, bg, modifiers): (Color, Color, Modifier)) -> io::Result<()> {
    queue!(bytes, SetAttribute(Attribute::Reset))?;
    for (modifier, attribute) in [
        (Modifier::BOLD, Attribute::Bold),
        (Modifier::DIM, Attribute::Dim),
        (Modifier::ITALIC, Attribute::Italic),
        (Modifier::UNDERLINED, Attribute::Underlined),
        (Modifier::REVERSED, Attribute::Reverse),
        (Modifier::CROSSED_OUT, Attribute::CrossedOut),
    ] {
        if modifiers.contains(modifier) {
            queue!(bytes, SetAttribute(attribute))?;
        }
    }
    if fg != Color::Reset || bg != Color::Reset {
        queue!(bytes, SetColors(Colors::new(colour(fg), colour(bg))))?;
    }
    Ok(())
}

fn colour(colour: Color) -> TerminalColor {
    match colour {
        Color::Reset => TerminalColor::Reset,
        Color::Black => TerminalColor::AnsiValue(0),
        Color::Red => TerminalColor::AnsiValue(1),
        Color::Green => TerminalColor::AnsiValue(2),
        Color::Yellow => TerminalColor::AnsiValue(3),
        Color::Blue => TerminalColor::AnsiValue(4),
        Color::Magenta => TerminalColor::AnsiValue(5),
        Color::Cyan => TerminalColor::AnsiValue(6),
        Color::Gray => TerminalColor::AnsiValue(7),
        Color::DarkGray => TerminalColor::AnsiValue(8),
        Color::LightRed => TerminalColor::AnsiValue(9),
        Color::LightGreen => TerminalColor::AnsiValue(10),
        Color::LightYellow => TerminalColor::AnsiValue(11),
        Color::LightBlue => TerminalColor::AnsiValue(12),
        Color::LightMagenta => TerminalColor::AnsiValue(13),
        Color::LightCyan => TerminalColor::AnsiValue(14),
        Color::White => TerminalColor::AnsiValue(15),
        Color::Rgb(r, g, b) => TerminalColor::Rgb { r, g, b },
        Color::Indexed(index) => TerminalColor::AnsiValue(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_write_that_the_terminal_shows_at_once() {
        struct Writes(Vec<Vec<u8>>);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.to_vec());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut painter = Painter::new(10, 3);
        let mut writes = Writes(Vec::new());
        for (size, text) in [((10, 3), "one"), ((10, 3), "two"), ((12, 4), "three")] {
            let draw = |buffer: &mut Buffer| {
                buffer.set_string(0, 0, text, Style::new());
                Some((1, 1))
            };
            painter.frame(&mut writes, size, draw).unwrap();
        }
        assert_eq!(writes.0.len(), 3);
        for write in writes.0 {
            let text = String::from_utf8(write).unwrap();
            assert!(
                text.starts_with("\x1b[?2026h") && text.ends_with("\x1b[?2026l"),
                "{text:?}"
            );
            assert_eq!(text.matches("\x1b[?2026").count(), 2, "{text:?}");
        }
    }

    #[test]
    fn what_is_shown_between_two_places_is_text() {
        let mut painter = Painter::new(10, 3);
        let draw = |buffer: &mut Buffer| {
            for (row, text) in ["one two", "日本語", "three"].into_iter().enumerate() {
                buffer.set_string(0, row as u16, text, Style::new());
            }
            None
        };
        painter.frame(&mut Vec::new(), (10, 3), draw).unwrap();
        assert_eq!(painter.text((4, 0), (2, 2)), "two\n日本語\nthr");
        assert_eq!(painter.text((2, 2), (4, 0)), "two\n日本語\nthr");
        assert_eq!(painter.text((2, 1), (3, 1)), "本");
        assert_eq!(painter.text((9, 0), (40, 9)), "\n日本語\nthree");
    }
}
