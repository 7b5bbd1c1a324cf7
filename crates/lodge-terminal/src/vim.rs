//! The keys of vi for the editor. In normal mode, keys are collected until they are a whole command, which then changes the editor.

use crate::composer::Composer;

/// The editor's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    #[default]
    Insert,
    Normal,
}

/// The keys of vi.
#[derive(Debug, Default)]
pub(crate) struct Vim {
    pub(crate) mode: Mode,
    /// The beginning of a command; more keys are needed.
    pending: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Motion {
    Left,
    Right,
    Up,
    Down,
    Word,
    Back,
    WordEnd,
    LineStart,
    FirstLetter,
    LineEnd,
    Top,
    Bottom,
    /// To a letter in the line, or up to it.
    Find(char, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Delete,
    Change,
    Yank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Move(Motion),
    Over(Operator, Motion),
    Lines(Operator),
    Insert(Where),
    Put { after: bool },
    Replace(char),
    Undo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Here,
    After,
    LineStart,
    LineEnd,
    Below,
    Above,
}

/// What the keys pressed so far mean.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// The beginning of a command; more keys are needed.
    More,
    Whole(usize, Command),
    /// No known command.
    Nothing,
}

fn read(keys: &str) -> Read {
    let (count, rest) = number(keys);
    let mut letters = rest.chars();
    let Some(first) = letters.next() else { return Read::More };
    let rest = letters.as_str();
    let whole = |command| Read::Whole(count.unwrap_or(1), command);
    let operator = match first {
        'd' => Operator::Delete,
        'c' => Operator::Change,
        'y' => Operator::Yank,
        'i' => return whole(Command::Insert(Where::Here)),
        'a' => return whole(Command::Insert(Where::After)),
        'I' => return whole(Command::Insert(Where::LineStart)),
        'A' => return whole(Command::Insert(Where::LineEnd)),
        'o' => return whole(Command::Insert(Where::Below)),
        'O' => return whole(Command::Insert(Where::Above)),
        'x' => return whole(Command::Over(Operator::Delete, Motion::Right)),
        'X' => return whole(Command::Over(Operator::Delete, Motion::Left)),
        's' => return whole(Command::Over(Operator::Change, Motion::Right)),
        'D' => return whole(Command::Over(Operator::Delete, Motion::LineEnd)),
        'C' => return whole(Command::Over(Operator::Change, Motion::LineEnd)),
        'S' => return whole(Command::Lines(Operator::Change)),
        'Y' => return whole(Command::Lines(Operator::Yank)),
        'p' => return whole(Command::Put { after: true }),
        'P' => return whole(Command::Put { after: false }),
        'u' => return whole(Command::Undo),
        'r' => {
            return rest
                .chars()
                .next()
                .map_or(Read::More, |letter| whole(Command::Replace(letter)));
        }
        _ => {
            return match motion(first, rest) {
                Ok(Some(motion)) => whole(Command::Move(motion)),
                Ok(None) => Read::More,
                Err(()) => Read::Nothing,
            };
        }
    };
    let (more, rest) = number(rest);
    let times = count.unwrap_or(1) * more.unwrap_or(1);
    let mut letters = rest.chars();
    match letters.next() {
        None => Read::More,
        Some(again) if again == first => Read::Whole(times, Command::Lines(operator)),
        Some(next) => match motion(next, letters.as_str()) {
            // As in vi, changing a word keeps the space after it.
            Ok(Some(Motion::Word)) if operator == Operator::Change => {
                Read::Whole(times, Command::Over(operator, Motion::WordEnd))
            }
            Ok(Some(motion)) => Read::Whole(times, Command::Over(operator, motion)),
            Ok(None) => Read::More,
            Err(()) => Read::Nothing,
        },
    }
}

/// The count in front of a command. It does not begin with 0, which is a motion.
fn number(keys: &str) -> (Option<usize>, &str) {
    let digits = keys.bytes().take_while(u8::is_ascii_digit).count();
    match keys[..digits].parse::<usize>() {
        Ok(number @ 1..) if !keys.starts_with('0') => (Some(number.min(1000)), &keys[digits..]),
        _ => (None, keys),
    }
}

/// A motion. None if more keys are needed.
fn motion(first: char, rest: &str) -> Result<Option<Motion>, ()> {
    Ok(Some(match first {
        'h' => Motion::Left,
        'l' | ' ' => Motion::Right,
        'k' => Motion::Up,
        'j' => Motion::Down,
        'w' | 'W' => Motion::Word,
        'b' | 'B' => Motion::Back,
        'e' | 'E' => Motion::WordEnd,
        '0' => Motion::LineStart,
        '^' => Motion::FirstLetter,
        '$' => Motion::LineEnd,
        'G' => Motion::Bottom,
        'g' => match rest.chars().next() {
            Some('g') => Motion::Top,
            Some(_) => return Err(()),
            None => return Ok(None),
        },
        'f' | 't' => match rest.chars().next() {
            Some(letter) => Motion::Find(letter, first == 't'),
            None => return Ok(None),
        },
        _ => return Err(()),
    }))
}

/// The kind of a character: characters of the same kind form a word.
fn kind(letter: char) -> u8 {
    match letter {
        c if c.is_whitespace() => 0,
        c if c.is_alphanumeric() || c == '_' => 1,
        _ => 2,
    }
}

fn next_word(text: &str, at: usize) -> usize {
    let mut letters = text[at..].char_indices();
    let Some((_, first)) = letters.next() else { return at };
    let mut last = kind(first);
    for (offset, letter) in letters {
        let now = kind(letter);
        if now != 0 && now != last {
            return at + offset;
        }
        last = now;
    }
    text.len()
}

fn word_back(text: &str, at: usize) -> usize {
    let before = text[..at].trim_end();
    let Some(last) = before.chars().next_back() else {
        return 0;
    };
    let start = before
        .char_indices()
        .rev()
        .take_while(|(_, c)| kind(*c) == kind(last))
        .last();
    start.map_or(0, |(at, _)| at)
}

/// The end of the word, or of the next word if the cursor is at the end of one.
fn word_end(text: &str, at: usize) -> usize {
    let step = text[at..].chars().next().map_or(0, char::len_utf8);
    let rest = &text[at + step..];
    let from = at + step + (rest.len() - rest.trim_start().len());
    let Some(first) = text[from..].chars().next() else {
        return at;
    };
    let end = text[from..]
        .char_indices()
        .take_while(|(_, c)| kind(*c) == kind(first))
        .last();
    end.map_or(at, |(offset, _)| from + offset)
}

impl Vim {
    /// Handles Esc: leaves insert mode, or drops the command that was begun. False if there is nothing to leave.
    pub(crate) fn escape(&mut self, composer: &mut Composer) -> bool {
        let begun = !std::mem::take(&mut self.pending).is_empty();
        if self.mode == Mode::Insert {
            self.mode = Mode::Normal;
            if composer.cursor() > composer.line_start() {
                composer.move_to(composer.left());
            }
            return true;
        }
        begun
    }

    /// Handles a key in normal mode.
    pub(crate) fn key(&mut self, letter: char, composer: &mut Composer, width: usize) {
        self.pending.push(letter);
        match read(&self.pending) {
            Read::More => return,
            Read::Nothing => {}
            Read::Whole(times, command) => self.perform(times, command, composer, width),
        }
        self.pending.clear();
        if self.mode == Mode::Normal
            && composer.cursor() == composer.line_end()
            && composer.cursor() > composer.line_start()
        {
            composer.move_to(composer.left());
        }
    }

    fn perform(&mut self, times: usize, command: Command, composer: &mut Composer, width: usize) {
        match command {
            Command::Move(Motion::Up) => (0..times).for_each(|_| composer.up(width)),
            Command::Move(Motion::Down) => (0..times).for_each(|_| composer.down(width)),
            Command::Move(motion) => composer.move_to(target(composer, motion, times).0),
            Command::Over(operator, motion) => self.over(operator, motion, times, composer),
            Command::Lines(operator) => self.lines(operator, times, composer),
            Command::Insert(place) => self.insert(place, composer),
            Command::Put { after } => put(after, times, composer),
            Command::Replace(letter) => {
                if composer.cursor() < composer.line_end() {
                    let at = composer.cursor();
                    composer.move_to(composer.right());
                    composer.replace_from(at, letter.encode_utf8(&mut [0; 4]));
                    composer.move_to(at);
                }
            }
            Command::Undo => (0..times).for_each(|_| composer.undo()),
        }
    }

    fn over(&mut self, operator: Operator, motion: Motion, times: usize, composer: &mut Composer) {
        if matches!(motion, Motion::Up | Motion::Down | Motion::Top | Motion::Bottom) {
            let (at, to) = (composer.cursor(), target(composer, motion, times).0);
            composer.move_to(at.min(to));
            let text = &composer.text()[at.min(to)..at.max(to)];
            let lines = text.matches('\n').count() + 1;
            return self.lines(operator, lines, composer);
        }
        let at = composer.cursor();
        let (to, inclusive) = target(composer, motion, times);
        let (from, mut end) = (at.min(to), at.max(to));
        if inclusive && to >= at {
            end += composer.text()[end..].chars().next().map_or(0, char::len_utf8);
        }
        self.apply(operator, from, end, composer);
    }

    /// Applies an operator to whole lines, beginning with the cursor's.
    fn lines(&mut self, operator: Operator, times: usize, composer: &mut Composer) {
        let text = composer.text();
        let from = composer.line_start();
        let mut end = from;
        for _ in 0..times {
            end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        }
        // Changing a line keeps its line break. Deleting the last line also deletes the line break before it.
        let (from, end) = match operator {
            Operator::Change => (from, if text[..end].ends_with('\n') { end - 1 } else { end }),
            Operator::Delete if end == text.len() && from > 0 && !text.ends_with('\n') => (from - 1, end),
            _ => (from, end),
        };
        let at = composer.cursor();
        self.apply(operator, from, end.max(from), composer);
        match operator {
            Operator::Yank => composer.move_to(at),
            Operator::Delete => composer.move_to(composer.line_start()),
            Operator::Change => {}
        }
    }

    fn apply(&mut self, operator: Operator, from: usize, to: usize, composer: &mut Composer) {
        match operator {
            Operator::Yank => {
                composer.keep(from, to);
                composer.move_to(from);
            }
            Operator::Delete => composer.kill(from, to),
            Operator::Change => {
                composer.kill(from, to);
                self.mode = Mode::Insert;
            }
        }
    }

    fn insert(&mut self, place: Where, composer: &mut Composer) {
        self.mode = Mode::Insert;
        match place {
            Where::Here => {}
            Where::After if composer.cursor() < composer.line_end() => composer.move_to(composer.right()),
            Where::After => {}
            Where::LineStart => composer.move_to(target(composer, Motion::FirstLetter, 1).0),
            Where::LineEnd => composer.move_to(composer.line_end()),
            Where::Below => {
                composer.move_to(composer.line_end());
                composer.insert("\n");
            }
            Where::Above => {
                let start = composer.line_start();
                composer.move_to(start);
                composer.insert("\n");
                composer.move_to(start);
            }
        }
    }
}

/// The target of a motion, and whether an operator includes the character there.
fn target(composer: &Composer, motion: Motion, times: usize) -> (usize, bool) {
    let (text, at) = (composer.text(), composer.cursor());
    let again = |step: &dyn Fn(usize) -> usize| (0..times).fold(at, |at, _| step(at));
    let line = || &text[composer.line_start()..composer.line_end()];
    match motion {
        Motion::Left => {
            let start = composer.line_start();
            let back = text[start..at].char_indices().rev().nth(times - 1);
            (back.map_or(start, |(offset, _)| start + offset), false)
        }
        Motion::Right => {
            let end = composer.line_end();
            let on = text[at..end].char_indices().nth(times);
            (on.map_or(end, |(offset, _)| at + offset), false)
        }
        Motion::Word => (again(&|at| next_word(text, at)), false),
        Motion::Back => (again(&|at| word_back(text, at)), false),
        Motion::WordEnd => (again(&|at| word_end(text, at)), true),
        Motion::LineStart => (composer.line_start(), false),
        Motion::FirstLetter => {
            let line = line();
            (composer.line_start() + line.len() - line.trim_start().len(), false)
        }
        Motion::LineEnd => (composer.line_end(), false),
        Motion::Top => (0, false),
        Motion::Bottom => (text.len(), false),
        Motion::Up => {
            let above = (0..times).fold(composer.line_start(), |start, _| {
                let before = text[..start].strip_suffix('\n').unwrap_or_default();
                before.rfind('\n').map_or(0, |at| at + 1)
            });
            (above, false)
        }
        Motion::Down => {
            let below = |at: usize| text[at..].find('\n').map_or(text.len(), |offset| at + offset + 1);
            (again(&below), false)
        }
        Motion::Find(letter, before) => {
            let rest = &text[at..composer.line_end()];
            let found = rest.char_indices().skip(1).filter(|(_, c)| *c == letter).nth(times - 1);
            match found {
                Some((offset, _)) if before => {
                    let last = rest[..offset].char_indices().next_back();
                    (last.map_or(at, |(offset, _)| at + offset), true)
                }
                Some((offset, _)) => (at + offset, true),
                None => (at, false),
            }
        }
    }
}

/// Inserts the text that was deleted or yanked. Whole lines are inserted as lines.
fn put(after: bool, times: usize, composer: &mut Composer) {
    let killed = composer.killed().to_owned();
    if killed.is_empty() {
        return;
    }
    if killed.ends_with('\n') || killed.starts_with('\n') {
        let lines = killed.trim_matches('\n');
        let text = vec![lines; times].join("\n");
        let at = match after {
            true => composer.line_end(),
            false => composer.line_start(),
        };
        composer.move_to(at);
        match after {
            true => composer.insert(&format!("\n{text}")),
            false => composer.insert(&format!("{text}\n")),
        }
        composer.move_to(if after { at + 1 } else { at });
        return;
    }
    if after && composer.cursor() < composer.line_end() {
        composer.move_to(composer.right());
    }
    composer.insert(&killed.repeat(times));
    composer.move_to(composer.left());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text after these keys. The cursor starts at its beginning.
    fn after(text: &str, keys: &str) -> (String, usize, Mode) {
        let mut composer = Composer::default();
        composer.insert(text);
        composer.move_to(0);
        let mut vim = Vim {
            mode: Mode::Normal,
            ..Vim::default()
        };
        for letter in keys.chars() {
            match vim.mode {
                Mode::Normal => vim.key(letter, &mut composer, 40),
                Mode::Insert if letter == '\x1b' => drop(vim.escape(&mut composer)),
                Mode::Insert => composer.insert(letter.encode_utf8(&mut [0; 4])),
            }
        }
        (composer.text().to_owned(), composer.cursor(), vim.mode)
    }

    #[test]
    fn commands_do_what_they_do_in_vi() {
        use Mode::{Insert, Normal};
        for (text, keys, expected) in [
            ("one two three", "wx", ("one wo three", 4, Normal)),
            ("one two three", "2dw", ("three", 0, Normal)),
            ("one two three", "wcwTWO\x1b", ("one TWO three", 6, Normal)),
            ("one two three", "$", ("one two three", 12, Normal)),
            ("one two three", "wD", ("one ", 3, Normal)),
            ("one two three", "eaX\x1b", ("oneX two three", 3, Normal)),
            ("one two three", "fwrW", ("one tWo three", 5, Normal)),
            ("one two three", "dtw", ("wo three", 0, Normal)),
            ("one two three", "wdb", ("two three", 0, Normal)),
            ("one, two", "w", ("one, two", 3, Normal)),
            ("a\nb\nc", "jdd", ("a\nc", 2, Normal)),
            ("a\nb\nc", "2jdd", ("a\nb", 2, Normal)),
            ("a\nb\nc", "ddp", ("b\na\nc", 2, Normal)),
            ("a\nb\nc", "yyGp", ("a\nb\nc\na", 6, Normal)),
            ("a\nb\nc", "dj", ("c", 0, Normal)),
            ("a\nb", "ccx\x1b", ("x\nb", 0, Normal)),
            ("a\nb", "onew", ("a\nnew\nb", 5, Insert)),
            ("a\nb", "jOnew\x1b", ("a\nnew\nb", 4, Normal)),
            ("  a", "Ix", ("  xa", 3, Insert)),
            ("abc", "3x", ("", 0, Normal)),
            ("abc", "xu", ("abc", 0, Normal)),
            ("abc", "xp", ("bac", 1, Normal)),
            ("日本語", "lx", ("日語", 3, Normal)),
            ("abc", "zx", ("bc", 0, Normal)),
        ] {
            let (text_after, cursor, mode) = after(text, keys);
            assert_eq!((text_after.as_str(), cursor, mode), expected, "{text:?} {keys:?}");
        }
    }
}
