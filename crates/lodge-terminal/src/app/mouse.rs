//! The mouse: the wheel scrolls, and dragging copies.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui_core::{buffer::Buffer, style::Modifier};

use super::{App, Effect, overlay::Overlay};
use crate::paint;

/// The rows per step of the wheel.
const STEP: isize = 3;

impl App {
    /// Handles an event of the mouse.
    pub fn mouse(&mut self, event: &MouseEvent) {
        let at = (event.column, event.row);
        match event.kind {
            MouseEventKind::ScrollUp => self.wheel(-STEP),
            MouseEventKind::ScrollDown => self.wheel(STEP),
            MouseEventKind::Down(MouseButton::Left) => self.dragged = Some((at, at)),
            MouseEventKind::Drag(MouseButton::Left) => {
                if let Some((_, to)) = &mut self.dragged {
                    *to = at;
                }
            }
            MouseEventKind::Up(MouseButton::Left) => {
                if let Some((from, _)) = self.dragged.take().filter(|(from, _)| *from != at) {
                    self.effects.push(Effect::CopyShown(from, at));
                    self.tell("Copied. Shift-drag selects as the terminal does.");
                }
            }
            _ => return,
        }
        self.changed = true;
    }

    fn wheel(&mut self, by: isize) {
        let key = if by < 0 { KeyCode::Up } else { KeyCode::Down };
        let key = KeyEvent::new(key, KeyModifiers::NONE);
        match &self.overlay {
            Some(Overlay::Help(_) | Overlay::Output(_)) => (0..STEP).for_each(|_| self.overlay_key(&key, None)),
            Some(_) => self.overlay_key(&key, None),
            None if self.panel.scroll(by) => {}
            None => self.scroll(by),
        }
    }

    /// Highlights the cells that the mouse is dragged over.
    pub(super) fn mark_dragged(&self, buffer: &mut Buffer) {
        let Some((from, to)) = self.dragged.filter(|(from, to)| from != to) else {
            return;
        };
        for (row, columns) in paint::between(buffer.area, from, to) {
            for column in columns {
                buffer[(column, row)].modifier.toggle(Modifier::REVERSED);
            }
        }
    }
}
