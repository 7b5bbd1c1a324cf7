//! Draws the screen.

use std::ops::Range;

use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{App, DELETED, Note, Wire};
use crate::{
    keys::Action,
    plain::plain_line,
    transcript::Look,
    wrap::{Margin, columns, fit, words},
};

/// The most rows of the editor, of the menu and of the queue.
const EDITOR_ROWS: usize = 8;
const MENU_ROWS: usize = 8;
const QUEUE_ROWS: usize = 3;
/// Screens with fewer rows have no room to spare.
const LOW: usize = 18;
/// The most rows of a message to the person.
const MESSAGE_ROWS: usize = 4;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

impl App {
    /// Draws a frame. Returns the position of the cursor, if it is visible.
    pub fn draw(&mut self, buffer: &mut Buffer) -> Option<(u16, u16)> {
        let area = buffer.area;
        (self.width, self.height) = (usize::from(area.width), usize::from(area.height));
        if self.width < 10 || self.height < 6 {
            buffer.set_string(0, 0, "Terminal too small", self.theme.text);
            return None;
        }
        if self.note.as_ref().is_some_and(Note::is_over) {
            self.note = None;
        }
        self.transcript.follow(&self.mirror.chat.state);
        let (width, height) = (self.width, self.height);
        let (editor, cursor, hidden) = self.editor_rows();
        // From the foot up: status, editor, what goes on, then questions, menu and queue as far as there is room.
        let mut foot = self.standing();
        let stands = !foot.is_empty();
        if !stands {
            foot.push(Line::default());
        }
        let above = match hidden {
            0 => String::new(),
            rows => format!("── ↑ {rows} more rows "),
        };
        let rule = format!("{above}{}", "─".repeat(width.saturating_sub(columns(&above))));
        foot.push(Line::styled(rule, self.theme.dim));
        let cursor_row = foot.len() + cursor.0;
        foot.extend(editor);
        foot.push(self.status(width));
        // On a low screen, a question needs all the room.
        let conversation = if height < LOW { 0 } else { 3 };
        let room = height.saturating_sub(foot.len() + conversation);
        let mut above = self.queue_rows();
        if self.overlay.is_none() {
            if !self.panel.is_empty() {
                let most = if self.panel.focused { room } else { room.min(3) };
                let mut rows = vec![Line::default()];
                rows.extend(self.panel.rows(width, most.saturating_sub(1), &self.theme));
                above.splice(0..0, rows);
            } else {
                above.splice(0..0, self.menu_rows());
            }
        }
        if !self.is_quiet() {
            above.extend(self.note_rows());
        }
        let surplus = above.len().saturating_sub(room);
        above.drain(..surplus.min(above.len()));
        self.page = height.saturating_sub(above.len() + foot.len());
        let page = self.page;
        let rows = match self.overlay {
            Some(_) => self.overlay_rows(width, page),
            None => self.transcript_rows(page),
        };
        if !stands {
            // What is below the screen is known only now.
            foot[0] = self.activity();
        }
        put(buffer, &rows[..rows.len().min(page)], 0);
        put(buffer, &above, page);
        put(buffer, &foot, page + above.len());
        self.mark_dragged(buffer);
        let answering = self.panel.focused && !self.panel.is_empty();
        let typing = self.overlay.is_none() && self.search.is_none() && !answering;
        let row = page + above.len() + cursor_row;
        typing.then(|| (cursor.1 as u16, row.min(height - 1) as u16))
    }

    fn transcript_rows(&mut self, height: usize) -> Vec<Line<'static>> {
        let theme = self.theme;
        let look = Look {
            width: self.width,
            theme: &theme,
            output: 0,
        };
        let mut rows = self.transcript.rows(&self.mirror.chat.state, look, height);
        if rows.is_empty() && !self.mirror.is_busy() {
            rows = self.welcome();
        }
        if let Some(search) = self.search.as_ref().filter(|search| !search.words.is_empty()) {
            for (number, row) in rows.iter_mut().enumerate() {
                let is_current = number == 0 && matches!(search.found, Some((Some(_), _)));
                mark(row, &search.words, if is_current { theme.current } else { theme.found });
            }
        }
        rows
    }

    /// The hints in an empty session.
    fn welcome(&self) -> Vec<Line<'static>> {
        let theme = &self.theme;
        let mut rows = vec![
            Line::from(vec![
                Span::styled("Lodge ", theme.heading),
                Span::styled(env!("CARGO_PKG_VERSION"), theme.dim),
            ]),
            Line::default(),
        ];
        let lines: &[&str] = match self.mirror.model() {
            Some("rehearsal") => &[
                "No model is configured: you are using the built-in offline demo model.",
                "/login sets up a real one; to try this one, say `hello`.",
            ],
            _ => &["Type a task. F1 lists keys and commands."],
        };
        for line in lines {
            let line = vec![((*line).to_owned(), theme.text)];
            rows.extend(words(&line, self.width, &Margin::default()));
        }
        rows
    }

    /// Whether messages that wait are not sent by themselves.
    pub(super) fn rests(&self) -> bool {
        self.wire == Wire::Up && !self.mirror.is_busy() && !self.watches() && !self.deleted
    }

    /// Whether a note has the row of the activity for itself.
    fn is_quiet(&self) -> bool {
        let is_idle = self.mirror.chat.state.active_turn.is_none();
        self.wire == Wire::Up && is_idle && self.search.is_none() && !self.deleted
    }

    fn note_rows(&self) -> Vec<Line<'static>> {
        let Some(note) = &self.note else { return Vec::new() };
        let style = if note.failed { self.theme.error } else { self.theme.text };
        self.message_rows(&note.text, style)
    }

    /// A message to the person, in at most a few rows.
    fn message_rows(&self, text: &str, style: Style) -> Vec<Line<'static>> {
        let mut rows = words(&vec![(text.to_owned(), style)], self.width, &Margin::default());
        if rows.len() > MESSAGE_ROWS {
            let rest: Vec<String> = rows.drain(MESSAGE_ROWS - 1..).map(|row| row.to_string()).collect();
            rows.push(Line::styled(fit(&rest.join(" "), self.width), style));
        }
        rows
    }

    /// A message that stands in place of the activity.
    fn standing(&self) -> Vec<Line<'static>> {
        if self.search.is_some() {
            return Vec::new();
        }
        if self.deleted {
            return self.message_rows(DELETED, self.theme.warning);
        }
        if self.wire == Wire::Away {
            let unknown = match self.host {
                None => "The host is not reachable; reconnecting… Enter starts it.",
                Some(_) => "The host is not reachable; reconnecting…",
            };
            let why = self.trouble.as_deref().unwrap_or(unknown);
            let turning = SPINNER[self.spin() % SPINNER.len()];
            return self.message_rows(&format!("{turning} {why}"), self.theme.warning);
        }
        match self.is_quiet() {
            true => self.note_rows(),
            false => Vec::new(),
        }
    }

    /// The row with the activity.
    fn activity(&self) -> Line<'static> {
        let theme = &self.theme;
        if let Some(search) = &self.search {
            // Turns that are not loaded may have more.
            let more = if self.mirror.chat.state.turns_next_cursor.is_some() {
                "+"
            } else {
                ""
            };
            let found = match search.found {
                Some(_) if search.words.is_empty() => String::new(),
                None => String::new(),
                Some((_, 0)) => "  no match".to_owned(),
                Some((None, count)) => format!("  {count}{more} found"),
                Some((Some(at), count)) => format!("  {at} of {count}{more}"),
            };
            let mut line = Line::default();
            for (text, style) in [
                ("Search: ", theme.accent),
                (&plain_line(&search.words), theme.text),
                ("▏", theme.accent),
                (&found, theme.text),
                ("  Enter: next · Up, Down: direction · Esc: close", theme.dim),
            ] {
                let room = self.width.saturating_sub(line.width());
                line.push_span(Span::styled(fit(text, room), style));
            }
            return line;
        }
        let turning = SPINNER[self.spin() % SPINNER.len()];
        let mut pieces = Vec::new();
        if let Some(turn) = &self.mirror.chat.state.active_turn {
            let seconds = elapsed(&turn.started_at);
            let chat = self.mirror.chat.state.activity.as_ref();
            let activity = chat.or(self.mirror.session.state.activity.as_ref());
            pieces.push(match (activity, self.cancelling) {
                (_, true) => format!("{turning} Stopping {seconds}"),
                // What went on before is not what it waits for, nor how long.
                _ if !self.panel.is_empty() => format!("{turning} Waiting for you"),
                (Some(activity), _) if !activity.is_empty() => format!("{turning} {} {seconds}", plain_line(activity)),
                _ => format!("{turning} Working {seconds}"),
            });
        }
        match self.tasks().iter().filter(|task| task.works).count() {
            0 => {}
            1 => pieces.push(self.keys.hint("1 background task", Action::Tasks)),
            many => pieces.push(self.keys.hint(&format!("{many} background tasks"), Action::Tasks)),
        }
        if self.watches() {
            pieces.push("viewing a sub-agent · Esc to go back".to_owned());
        } else if self.mirror.is_busy() {
            pieces.push("Esc stops".to_owned());
        }
        if self.mirror.chat.state.queued_messages.iter().flatten().next().is_some() {
            pieces.extend(self.rests().then(|| "Enter sends the queued message".to_owned()));
            let edits = self.keys.does(Action::Unqueue, "edits it");
            let lists = self.keys.does(Action::Tasks, "lists all");
            pieces.push(edits.into_iter().chain(lists).collect::<Vec<_>>().join(", "));
        }
        if !self.panel.is_empty() && !self.panel.focused {
            pieces.push(match self.panel.len() {
                1 => self.keys.hint("1 open question", Action::Questions),
                many => self.keys.hint(&format!("{many} open questions"), Action::Questions),
            });
        }
        if !self.transcript.is_following() && self.transcript.more_below {
            pieces.push(self.keys.hint("↓ more", Action::Bottom));
        }
        Line::styled(fit(&pieces.join(" · "), self.width), theme.accent)
    }

    fn spin(&self) -> usize {
        let now = jiff::Timestamp::now().as_millisecond();
        usize::try_from(now / 100).unwrap_or(0)
    }

    fn queue_rows(&self) -> Vec<Line<'static>> {
        let chat = &self.mirror.chat.state;
        let queued: Vec<_> = chat.queued_messages.iter().flatten().collect();
        let mut rows: Vec<Line> = queued
            .iter()
            .take(QUEUE_ROWS)
            .map(|queued| {
                let text = format!("+ queued: {}", plain_line(&queued.message.text));
                Line::styled(fit(&text, self.width), self.theme.dim)
            })
            .collect();
        if queued.len() > QUEUE_ROWS {
            let text = self
                .keys
                .hint(&format!("+ {} more", queued.len() - QUEUE_ROWS), Action::Tasks);
            rows.push(Line::styled(text, self.theme.dim));
        }
        if let Some(steering) = &chat.steering_message {
            let text = format!("» steering: {}", plain_line(&steering.message.text));
            rows.push(Line::styled(fit(&text, self.width), self.theme.dim));
        }
        if self.wire == Wire::Away {
            for message in self.outbox.unsent().take(QUEUE_ROWS) {
                let text = format!("+ sent when the host is back: {}", plain_line(&message.text));
                rows.push(Line::styled(fit(&text, self.width), self.theme.dim));
            }
        }
        rows
    }

    fn menu_rows(&self) -> Vec<Line<'static>> {
        let Some(menu) = &self.menu else { return Vec::new() };
        let first = menu.selected.saturating_sub(MENU_ROWS - 1);
        let wide = menu
            .items
            .iter()
            .map(|item| columns(&item.label))
            .max()
            .unwrap_or(0)
            .min(self.width / 2);
        let count = menu.items.len();
        let more = (count > MENU_ROWS).then(|| {
            let text = format!("  {}–{} of {count}", first + 1, first + MENU_ROWS);
            Line::styled(text, self.theme.dim)
        });
        menu.items
            .iter()
            .enumerate()
            .skip(first)
            .take(MENU_ROWS)
            .map(|(at, item)| {
                let style = if at == menu.selected {
                    self.theme.selected
                } else {
                    self.theme.text
                };
                let label = match item.detail.is_empty() {
                    true => fit(&plain_line(&item.label), self.width.saturating_sub(4)),
                    false => fit(&plain_line(&item.label), wide),
                };
                let blank = " ".repeat(wide.saturating_sub(columns(&label)) + 2);
                let room = self.width.saturating_sub(columns(&label) + blank.len() + 2);
                Line::from(vec![
                    Span::styled(format!("  {label}{blank}"), style),
                    Span::styled(fit(&plain_line(&item.detail), room), self.theme.dim),
                ])
            })
            .chain(more)
            .collect()
    }

    /// The rows of the editor that are shown, the row and column of the cursor in them, and how many rows are above them.
    fn editor_rows(&self) -> (Vec<Line<'static>>, (usize, usize), usize) {
        let theme = &self.theme;
        let (rows, row, column) = self.composer.place(self.editor_width());
        if self.composer.is_empty() {
            let hint = fit("Type a message · / commands · @ files · F1 help", self.editor_width());
            let line = Line::from(vec![Span::styled("› ", theme.accent), Span::styled(hint, theme.dim)]);
            return (vec![line], (0, 2), 0);
        }
        let most = EDITOR_ROWS.min(self.height / 3).max(1);
        let first = (row + 1).saturating_sub(most);
        let shown = rows
            .iter()
            .enumerate()
            .skip(first)
            .take(most)
            .map(|(at, (from, to))| {
                let mark = if at == 0 { "› " } else { "  " };
                Line::from(vec![
                    Span::styled(mark, theme.accent),
                    Span::styled(plain_line(&self.composer.text()[*from..*to]), theme.text),
                ])
            })
            .collect();
        (shown, (row - first, column + 2), first)
    }
}

fn put(buffer: &mut Buffer, rows: &[Line], from: usize) {
    let area = buffer.area;
    for (at, row) in rows.iter().enumerate() {
        let y = from + at;
        if y >= usize::from(area.height) {
            return;
        }
        let y = y as u16;
        if row.style != Style::new() {
            buffer.set_style(Rect::new(0, y, area.width, 1), row.style);
        }
        buffer.set_line(0, y, row, area.width);
    }
}

/// Highlights the words that were searched for.
fn mark(row: &mut Line, words: &str, style: Style) {
    for span in std::mem::take(&mut row.spans) {
        let piece = |range: Range<usize>, style: Style| Span::styled(span.content[range].to_owned(), style);
        let mut from = 0;
        for found in places(&span.content, words) {
            row.spans.push(piece(from..found.start, span.style));
            row.spans.push(piece(found.clone(), span.style.patch(style)));
            from = found.end;
        }
        row.spans.push(piece(from..span.content.len(), span.style));
    }
}

/// The positions of words in a text, ignoring case. A lower-case letter may have another length in bytes.
fn places(text: &str, words: &str) -> Vec<Range<usize>> {
    let words: String = words.chars().flat_map(char::to_lowercase).collect();
    let mut small = String::with_capacity(text.len());
    // For each byte of `small`, the offset of the character that it comes from.
    let mut letters = Vec::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        small.extend(letter.to_lowercase());
        letters.resize(small.len(), at..at + letter.len_utf8());
    }
    let mut places: Vec<Range<usize>> = Vec::new();
    for (at, found) in small.match_indices(&words).filter(|(_, found)| !found.is_empty()) {
        let place = letters[at].start..letters[at + found.len() - 1].end;
        if places.last().is_none_or(|last| last.end <= place.start) {
            places.push(place);
        }
    }
    places
}

/// The time since a turn began.
fn elapsed(started: &str) -> String {
    let Ok(started) = started.parse::<jiff::Timestamp>() else {
        return String::new();
    };
    let seconds = (jiff::Timestamp::now().as_second() - started.as_second()).max(0);
    match seconds {
        ..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_where_they_are_whatever_their_letters_weigh() {
        for (text, words, expected) in [
            ("One one", "ONE", &[(0, 3), (4, 7)][..]),
            // Their lower-case letters are longer, shorter, and two letters.
            ("\u{23a}\u{2126}", "\u{3c9}", &[(2, 5)]),
            ("\u{212a}g \u{130}n", "kg", &[(0, 4)]),
            ("\u{130}i", "i", &[(0, 2), (2, 3)]),
            ("aaa", "aa", &[(0, 2)]),
            ("one", "", &[]),
        ] {
            let found: Vec<_> = places(text, words).iter().map(|at| (at.start, at.end)).collect();
            assert_eq!(found, expected, "{text:?} {words:?}");
        }
        let mut row = Line::from("\u{23a}\u{2126}!");
        mark(&mut row, "\u{3c9}", Style::new().bold());
        assert_eq!(row.to_string(), "\u{23a}\u{2126}!");
    }
}
