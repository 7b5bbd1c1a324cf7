//! The editor at the foot of the screen: several lines, wrapped, with what was typed before.

use std::collections::HashSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use crate::wrap::columns;

/// How many messages are remembered, and how many states of one that is being written.
const REMEMBERED: usize = 1000;
const UNDONE: usize = 200;

/// The editor.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    text: String,
    /// In bytes.
    cursor: usize,
    killed: String,
    history: Vec<String>,
    /// Which of the history is shown, and what was typed before.
    recalled: Option<(usize, String)>,
    /// The text and the cursor before each change, and where a letter that is typed on belongs to the last of them.
    before: Vec<(String, usize)>,
    typing_at: Option<usize>,
}

/// A row of the text: from where to where, in bytes.
type Row = (usize, usize);

impl Composer {
    pub(crate) fn with_history(history: Vec<String>) -> Self {
        Self {
            history,
            ..Self::default()
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Puts the cursor at a byte, which begins a letter.
    pub(crate) fn move_to(&mut self, at: usize) {
        self.cursor = at;
    }

    pub(crate) fn killed(&self) -> &str {
        &self.killed
    }

    pub(crate) fn set(&mut self, text: &str) {
        self.changes();
        self.text = text.to_owned();
        self.cursor = self.text.len();
        self.recalled = None;
    }

    /// Keeps the text as it is now, before it changes.
    fn changes(&mut self) {
        self.typing_at = None;
        self.before.push((self.text.clone(), self.cursor));
        let surplus = self.before.len().saturating_sub(UNDONE);
        self.before.drain(..surplus);
    }

    /// Takes back the last change.
    pub(crate) fn undo(&mut self) {
        if let Some(before) = self.before.pop() {
            (self.text, self.cursor) = before;
            (self.recalled, self.typing_at) = (None, None);
        }
    }

    /// Takes what is typed. The caller has it remembered, as what it stands for.
    pub(crate) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        (self.recalled, self.typing_at) = (None, None);
        self.before.clear();
        text
    }

    pub(crate) fn remember(&mut self, text: &str) {
        if !text.trim().is_empty() && self.history.last().map(String::as_str) != Some(text) {
            self.history.push(text.to_owned());
            let surplus = self.history.len().saturating_sub(REMEMBERED);
            self.history.drain(..surplus);
        }
    }

    /// What was typed before, the newest first, each once.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        let newest_first = self.history.iter().rev().map(String::as_str);
        newest_first.filter(move |text| seen.insert(*text))
    }

    pub(crate) fn insert(&mut self, text: &str) {
        self.changes();
        self.put(text);
    }

    /// A letter that is typed. Those of a word are taken back together.
    fn letter(&mut self, letter: char) {
        if self.typing_at != Some(self.cursor) || letter.is_whitespace() {
            self.changes();
        }
        self.put(letter.encode_utf8(&mut [0; 4]));
        self.typing_at = Some(self.cursor);
    }

    fn put(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
        self.recalled = None;
    }

    /// Puts a text in place of what stands between a byte and the cursor.
    pub(crate) fn replace_from(&mut self, from: usize, text: &str) {
        self.changes();
        self.text.replace_range(from..self.cursor, text);
        self.cursor = from + text.len();
    }

    /// A key that moves or edits. False when it is no such key.
    pub(crate) fn key(&mut self, key: &KeyEvent, width: usize) -> bool {
        let (control, alt) = (
            key.modifiers.contains(KeyModifiers::CONTROL),
            key.modifiers.contains(KeyModifiers::ALT),
        );
        let plain = !control && !alt;
        match key.code {
            KeyCode::Char(c) if plain => self.letter(c),
            // Terminals tell Ctrl-_ as the number that has the same code.
            KeyCode::Char('_' | '-' | '7') if control => self.undo(),
            KeyCode::Backspace if alt || control => self.kill(self.word_left(), self.cursor),
            KeyCode::Backspace => self.kill_quietly(self.left(), self.cursor),
            KeyCode::Char('h') if control => self.kill_quietly(self.left(), self.cursor),
            KeyCode::Delete => self.kill_quietly(self.cursor, self.right()),
            KeyCode::Left if control || alt => self.cursor = self.word_left(),
            KeyCode::Char('b') if alt => self.cursor = self.word_left(),
            KeyCode::Right if control || alt => self.cursor = self.word_right(),
            KeyCode::Char('f') if alt => self.cursor = self.word_right(),
            KeyCode::Left => self.cursor = self.left(),
            KeyCode::Char('b') if control => self.cursor = self.left(),
            KeyCode::Right => self.cursor = self.right(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::Char('w') if control => self.kill(self.word_left(), self.cursor),
            KeyCode::Char('d') if alt => self.kill(self.cursor, self.word_right()),
            KeyCode::Char('u') if control => self.kill(self.line_start(), self.cursor),
            KeyCode::Char('k') if control => self.kill(self.cursor, self.line_end()),
            KeyCode::Char('y') if control => {
                let killed = self.killed.clone();
                self.insert(&killed);
            }
            KeyCode::Up => self.up(width),
            KeyCode::Down => self.down(width),
            KeyCode::Char('p') if control => self.recall(-1),
            KeyCode::Char('n') if control => self.recall(1),
            _ => return false,
        }
        true
    }

    pub(crate) fn left(&self) -> usize {
        let before = self.text[..self.cursor].grapheme_indices(true).next_back();
        before.map_or(0, |(at, _)| at)
    }

    pub(crate) fn right(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    fn word_left(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8))
    }

    fn word_right(&self) -> usize {
        let after = &self.text[self.cursor..];
        let skipped = after.len() - after.trim_start().len();
        let word = after[skipped..].find(char::is_whitespace);
        self.cursor + word.map_or(after.len(), |at| skipped + at)
    }

    pub(crate) fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    pub(crate) fn line_end(&self) -> usize {
        self.text[self.cursor..]
            .find('\n')
            .map_or(self.text.len(), |at| self.cursor + at)
    }

    /// Deletes a part of the text, which can be inserted again.
    pub(crate) fn kill(&mut self, from: usize, to: usize) {
        self.keep(from, to);
        self.kill_quietly(from, to);
    }

    /// Keeps a part of the text as if it were deleted.
    pub(crate) fn keep(&mut self, from: usize, to: usize) {
        self.killed = self.text[from..to].to_owned();
    }

    fn kill_quietly(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        self.changes();
        self.text.replace_range(from..to, "");
        self.cursor = from;
        self.recalled = None;
    }

    pub(crate) fn up(&mut self, width: usize) {
        let (rows, row, column) = self.place(width);
        match row.checked_sub(1) {
            Some(above) => self.cursor = self.at(rows[above], column),
            None => self.recall(-1),
        }
    }

    pub(crate) fn down(&mut self, width: usize) {
        let (rows, row, column) = self.place(width);
        match rows.get(row + 1) {
            Some(below) => self.cursor = self.at(*below, column),
            None => self.recall(1),
        }
    }

    fn recall(&mut self, step: isize) {
        let (at, typed) = match self.recalled.take() {
            Some(recalled) => recalled,
            None => (self.history.len(), self.text.clone()),
        };
        let wanted = at.saturating_add_signed(step).min(self.history.len());
        let text = self.history.get(wanted).unwrap_or(&typed).clone();
        self.changes();
        self.cursor = text.len();
        self.text = text;
        if wanted < self.history.len() {
            self.recalled = Some((wanted, typed));
        }
    }

    /// The rows of the text at a width; there is always one.
    pub(crate) fn rows(&self, width: usize) -> Vec<Row> {
        let width = width.max(4);
        let mut rows = Vec::new();
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let (from, bare) = (start, line.trim_end_matches('\n'));
            let (mut row, mut used) = (from, 0);
            for (at, grapheme) in bare.grapheme_indices(true) {
                let wide = shown_columns(grapheme);
                if used + wide > width {
                    rows.push((row, from + at));
                    (row, used) = (from + at, 0);
                }
                used += wide;
            }
            rows.push((row, from + bare.len()));
            start += line.len();
        }
        if self.text.is_empty() || self.text.ends_with('\n') {
            rows.push((start, start));
        }
        rows
    }

    /// The rows, and the row and column of the cursor.
    pub(crate) fn place(&self, width: usize) -> (Vec<Row>, usize, usize) {
        let rows = self.rows(width);
        let row = rows.iter().rposition(|(start, _)| *start <= self.cursor).unwrap_or(0);
        let column = self.text[rows[row].0..self.cursor]
            .graphemes(true)
            .map(shown_columns)
            .sum();
        (rows, row, column)
    }

    fn at(&self, (start, end): Row, column: usize) -> usize {
        let mut used = 0;
        for (at, grapheme) in self.text[start..end].grapheme_indices(true) {
            if used >= column {
                return start + at;
            }
            used += shown_columns(grapheme);
        }
        // Behind the last letter of a row that is only wrapped is the beginning of the next one.
        let wrapped = self.text[end..].chars().next().is_some_and(|next| next != '\n');
        let last = self.text[start..end].grapheme_indices(true).next_back();
        last.filter(|_| wrapped).map_or(end, |(at, _)| start + at)
    }
}

/// Columns of what a grapheme is drawn as.
fn shown_columns(grapheme: &str) -> usize {
    match grapheme {
        "\t" => 1,
        other if other.chars().any(char::is_control) => 1,
        other => columns(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[(KeyCode, KeyModifiers)], composer: &mut Composer) {
        for (code, modifiers) in keys {
            assert!(composer.key(&KeyEvent::new(*code, *modifiers), 20), "{code:?}");
        }
    }

    #[test]
    fn words_and_lines_are_moved_over_and_deleted() {
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        let mut composer = Composer::default();
        composer.insert("one two\nthree 🦀");
        typed(
            &[(KeyCode::Backspace, none), (KeyCode::Char('w'), control)],
            &mut composer,
        );
        assert_eq!(composer.text(), "one two\n");
        typed(&[(KeyCode::Char('y'), control)], &mut composer);
        assert_eq!(composer.text(), "one two\nthree ");
        typed(
            &[
                (KeyCode::Up, none),
                (KeyCode::Home, none),
                (KeyCode::Char('k'), control),
            ],
            &mut composer,
        );
        assert_eq!(composer.text(), "\nthree ");
        typed(&[(KeyCode::Char('y'), control), (KeyCode::Home, none)], &mut composer);
        typed(&[(KeyCode::Right, control), (KeyCode::Char('!'), none)], &mut composer);
        assert_eq!(composer.text(), "one! two\nthree ");
    }

    #[test]
    fn changes_are_taken_back_word_by_word() {
        let mut composer = Composer::default();
        let letters = "one two".chars().map(|c| (KeyCode::Char(c), KeyModifiers::NONE));
        typed(&letters.collect::<Vec<_>>(), &mut composer);
        typed(&[(KeyCode::Char('u'), KeyModifiers::CONTROL)], &mut composer);
        for expected in ["one two", "one", "", ""] {
            typed(&[(KeyCode::Char('7'), KeyModifiers::CONTROL)], &mut composer);
            assert_eq!(composer.text(), expected);
        }
    }

    #[test]
    fn rows_wrap_and_the_cursor_has_a_place() {
        let mut composer = Composer::default();
        composer.insert("abcdefgh\n日本語x");
        let (rows, row, column) = composer.place(5);
        let shown: Vec<&str> = rows.iter().map(|(from, to)| &composer.text()[*from..*to]).collect();
        assert_eq!(shown, ["abcde", "fgh", "日本", "語x"]);
        assert_eq!((row, column), (3, 3));
        composer.key(&KeyEvent::new(KeyCode::Up, KeyModifiers::NONE), 5);
        assert_eq!(composer.place(5).1, 2);
    }

    #[test]
    fn what_was_typed_before_comes_back_and_so_does_the_draft() {
        let mut composer = Composer::with_history(vec!["first".into(), "second".into()]);
        composer.insert("draft");
        let up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        let down = KeyEvent::new(KeyCode::Down, KeyModifiers::NONE);
        for (key, expected) in [
            (up, "second"),
            (up, "first"),
            (up, "first"),
            (down, "second"),
            (down, "draft"),
            (down, "draft"),
        ] {
            composer.key(&key, 40);
            assert_eq!(composer.text(), expected);
        }
    }
}
