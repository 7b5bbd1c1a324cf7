//! Bringing a screen to the terminal: what changed since the last one, in one write that the terminal shows at once.

use std::io::{self, Write};

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

/// The screen as the terminal has it.
pub struct Painter {
    shown: Buffer,
    next: Buffer,
    /// What the terminal shows is not known.
    unknown: bool,
}

impl Painter {
    /// A screen of this size, of which nothing is known.
    pub fn new(width: u16, height: u16) -> Self {
        let area = Rect::new(0, 0, width, height);
        Self {
            shown: Buffer::empty(area),
            next: Buffer::empty(area),
            unknown: true,
        }
    }

    /// Forgets what the terminal shows.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// Draws a frame. What is written begins and ends a synchronized update.
    ///
    /// # Errors
    /// When the terminal is gone.
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
        queue!(bytes, Print(cell.symbol()))?;
        let wide = crate::wrap::columns(cell.symbol()).max(1) as u16;
        at = Some((x + wide, *y));
    }
    if style.is_some() {
        queue!(bytes, SetAttribute(Attribute::Reset))?;
    }
    Ok(())
}

/// A row as it is printed, with nothing of its style left behind it.
pub(crate) fn row(bytes: &mut Vec<u8>, row: &Line) {
    let mut styled = false;
    for span in &row.spans {
        let style = row.style.patch(span.style);
        if style != Style::new() || styled {
            let colours = (style.fg.unwrap_or(Color::Reset), style.bg.unwrap_or(Color::Reset));
            // Writing into memory does not fail.
            let _ = set_style(bytes, (colours.0, colours.1, style.add_modifier));
            styled = true;
        }
        bytes.extend(span.content.as_bytes());
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
