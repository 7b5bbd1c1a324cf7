//! A line editor for the terminal: insertion, movement, deletion, history and completion.

/// Length of the history.
const REMEMBERED: usize = 500;
/// The longest line, in characters.
const LONGEST: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// The line or the cursor changed.
    Edited,
    /// The line is complete.
    Line(String),
    /// Tab was pressed.
    Complete,
    /// The input has ended.
    End,
}

/// A line editor.
#[derive(Default)]
pub(super) struct Editor {
    text: Vec<char>,
    /// The cursor's position.
    at: usize,
    /// Earlier lines that this one continues.
    begun: String,
    /// Whether the input is being pasted: then line ends belong to it.
    pasting: bool,
    before: Vec<String>,
    /// The position in the history, and the typed text that it replaced.
    fetched: Option<(usize, Vec<char>)>,
    /// Input from the terminal, and how much of it was parsed. The rest may be part of a key.
    bytes: Vec<u8>,
    looked_at: usize,
}

impl Editor {
    /// Adds input from the terminal.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.looked_at));
        self.bytes.extend_from_slice(bytes);
    }

    /// Handles one key. Called once per key, so that the line can be shown after each.
    pub(super) fn next(&mut self) -> Option<Key> {
        while let Some((length, key)) = next(&self.bytes[self.looked_at..]) {
            self.looked_at += length;
            let did = match self.pasting {
                true => self.paste(key),
                false => self.press(key),
            };
            if did.is_some() {
                return did;
            }
        }
        None
    }

    /// Adds pasted text. It is shown when the paste is complete.
    fn paste(&mut self, key: Press) -> Option<Key> {
        let letter = match key {
            Press::PasteEnds => {
                self.pasting = false;
                // `\r\n` is one line end, like either alone.
                let lines = self.before_cursor().replace("\r\n", "\n").replace('\r', "\n");
                self.replace(0, &lines);
                return Some(Key::Edited);
            }
            Press::Letter(letter) => letter,
            Press::Enter => char::from(self.bytes[self.looked_at - 1]),
            Press::Tab => '\t',
            _ => return None,
        };
        self.press(Press::Letter(letter));
        None
    }

    fn press(&mut self, key: Press) -> Option<Key> {
        match key {
            Press::PasteBegins => {
                self.pasting = true;
                return None;
            }
            Press::Letter(letter) if self.text.len() < LONGEST => {
                self.text.insert(self.at, letter);
                self.at += 1;
            }
            Press::Enter => return self.enter(),
            Press::Tab => return Some(Key::Complete),
            Press::End if self.text.is_empty() => return Some(Key::End),
            Press::Back if self.at > 0 => self.cut(self.at - 1, self.at),
            Press::Delete | Press::End if self.at < self.text.len() => self.cut(self.at, self.at + 1),
            Press::Left if self.at > 0 => self.at -= 1,
            Press::Right if self.at < self.text.len() => self.at += 1,
            Press::First => self.at = 0,
            Press::Last => self.at = self.text.len(),
            Press::CutBefore => self.cut(0, self.at),
            Press::CutAfter => self.cut(self.at, self.text.len()),
            Press::CutWord => {
                let blank = |c: &&char| c.is_whitespace();
                let word = self.text[..self.at].iter().rev();
                let blanks = word.clone().take_while(blank).count();
                let letters = word.skip(blanks).take_while(|c| !c.is_whitespace()).count();
                self.cut(self.at - blanks - letters, self.at);
            }
            Press::Earlier => self.fetch(-1),
            Press::Later => self.fetch(1),
            _ => return None,
        }
        Some(Key::Edited)
    }

    fn cut(&mut self, from: usize, to: usize) {
        self.text.drain(from..to);
        self.at = from;
    }

    /// A `\` at the end continues the message on the next line.
    fn enter(&mut self) -> Option<Key> {
        let mut line: String = std::mem::take(&mut self.text).into_iter().collect();
        (self.at, self.fetched) = (0, None);
        if line.ends_with('\\') {
            line.pop();
            self.begun.push_str(&line);
            self.begun.push('\n');
            return Some(Key::Edited);
        }
        line.insert_str(0, &std::mem::take(&mut self.begun));
        if !line.trim().is_empty() && self.before.last() != Some(&line) {
            self.before.push(line.clone());
            let surplus = self.before.len().saturating_sub(REMEMBERED);
            self.before.drain(..surplus);
        }
        Some(Key::Line(line))
    }

    /// Moves through the history, and back to the typed text.
    fn fetch(&mut self, step: isize) {
        let (now, typed) = match self.fetched.take() {
            Some((at, typed)) => (at, typed),
            None => (self.before.len(), self.text.clone()),
        };
        let at = now.saturating_add_signed(step).min(self.before.len());
        self.text = match self.before.get(at) {
            Some(line) => line.replace('\n', " ").chars().collect(),
            None => typed.clone(),
        };
        self.fetched = (at < self.before.len()).then_some((at, typed));
        self.at = self.text.len();
    }

    /// The text before the cursor.
    pub(super) fn before_cursor(&self) -> String {
        self.text[..self.at].iter().collect()
    }

    /// Whether the line is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Clears the line.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.begun.clear();
        self.pasting = false;
        (self.at, self.fetched) = (0, None);
    }

    /// Replaces the text before the cursor, from a character on.
    pub(super) fn replace(&mut self, from: usize, with: &str) {
        let from = from.min(self.at);
        let with: Vec<char> = with.chars().collect();
        let end = from + with.len();
        self.text.splice(from..self.at, with);
        self.at = end;
    }

    /// The part of the line that fits into these columns, and the number of columns after the cursor.
    pub(super) fn shown(&self, columns: usize) -> (String, usize) {
        let wide = |c: &char| width(*c);
        // Starts as far before the cursor as fits.
        let (mut from, mut used) = (self.at, 0);
        while from > 0 && used + wide(&self.text[from - 1]) <= columns {
            from -= 1;
            used += wide(&self.text[from]);
        }
        let (mut to, mut behind) = (self.at, 0);
        while to < self.text.len() && used + behind + wide(&self.text[to]) <= columns {
            behind += wide(&self.text[to]);
            to += 1;
        }
        // Line ends in pasted text are shown as symbols.
        let shown = |c: &char| if *c == '\n' { '⏎' } else { *c };
        (self.text[from..to].iter().map(shown).collect(), behind)
    }
}

/// Approximate width of a character, in columns.
fn width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

enum Press {
    Letter(char),
    Enter,
    Tab,
    End,
    Back,
    Delete,
    Left,
    Right,
    First,
    Last,
    Earlier,
    Later,
    CutBefore,
    CutAfter,
    CutWord,
    PasteBegins,
    PasteEnds,
    Nothing,
}

/// The first complete key, and its length in bytes.
fn next(bytes: &[u8]) -> Option<(usize, Press)> {
    let one = |press| Some((1, press));
    match *bytes.first()? {
        b'\r' | b'\n' => one(Press::Enter),
        b'\t' => one(Press::Tab),
        0x01 => one(Press::First),
        0x02 => one(Press::Left),
        0x04 => one(Press::End),
        0x05 => one(Press::Last),
        0x06 => one(Press::Right),
        0x08 | 0x7f => one(Press::Back),
        0x0b => one(Press::CutAfter),
        0x0e => one(Press::Later),
        0x10 => one(Press::Earlier),
        0x15 => one(Press::CutBefore),
        0x17 => one(Press::CutWord),
        0x1b => escape(bytes),
        0..0x20 => one(Press::Nothing),
        first => {
            let length = match first {
                0xc0..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
                _ => 1,
            };
            let letter = bytes.get(..length)?;
            let letter = str::from_utf8(letter).ok().and_then(|text| text.chars().next());
            letter.map_or(one(Press::Nothing), |letter| Some((length, Press::Letter(letter))))
        }
    }
}

/// A key that begins with an escape: `ESC [ … letter`, `ESC O letter`, or one with Alt held.
fn escape(bytes: &[u8]) -> Option<(usize, Press)> {
    match *bytes.get(1)? {
        b'[' => {
            let end = 2 + bytes[2..].iter().position(|byte| (0x40..0x7f).contains(byte))?;
            let press = match (&bytes[2..end], bytes[end]) {
                (_, b'A') => Press::Earlier,
                (_, b'B') => Press::Later,
                (_, b'C') => Press::Right,
                (_, b'D') => Press::Left,
                (_, b'H') | (b"1" | b"7", b'~') => Press::First,
                (_, b'F') | (b"4" | b"8", b'~') => Press::Last,
                (b"3", b'~') => Press::Delete,
                (b"200", b'~') => Press::PasteBegins,
                (b"201", b'~') => Press::PasteEnds,
                _ => Press::Nothing,
            };
            Some((end + 1, press))
        }
        b'O' => Some((
            3,
            match *bytes.get(2)? {
                b'A' => Press::Earlier,
                b'B' => Press::Later,
                b'C' => Press::Right,
                b'D' => Press::Left,
                b'H' => Press::First,
                b'F' => Press::Last,
                _ => Press::Nothing,
            },
        )),
        // Another escape begins a key of its own.
        0x1b => Some((1, Press::Nothing)),
        0x7f => Some((2, Press::CutWord)),
        _ => Some((2, Press::Nothing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(editor: &mut Editor, bytes: &[u8]) -> Vec<Key> {
        editor.push(bytes);
        std::iter::from_fn(|| editor.next()).collect()
    }

    /// Types keys and returns the line, with the cursor marked in it.
    fn typed(keys: &str) -> String {
        let mut editor = Editor::default();
        feed(&mut editor, b"first\rsecond one\r");
        // One byte at a time, as over a slow connection.
        for byte in keys.as_bytes() {
            feed(&mut editor, &[*byte]);
        }
        let after: String = editor.text[editor.at..].iter().collect();
        format!("{}|{after}", editor.before_cursor())
    }

    #[test]
    fn keys_do_what_they_do_elsewhere() {
        for (keys, expected) in [
            ("größe", "größe|"),
            ("ab\x7fc", "ac|"),
            ("\x7f", "|"),
            ("abc\x1b[D\x1b[Dx", "ax|bc"),
            ("abc\x01x\x05y", "xabcy|"),
            ("abc\x1b[H\x1b[3~", "|bc"),
            ("abc\x1bOH\x0b", "|"),
            ("one two  \x17", "one |"),
            ("one two\x15", "|"),
            ("\x1b[A", "second one|"),
            ("x\x1b[A\x1b[A\x1b[A", "first|"),
            ("x\x1b[A\x1b[B", "x|"),
            ("\x1b[1;5Cx\x1bq", "x|"),
            ("a\u{7}b\x1b\x1b[Dc", "ac|b"),
            ("日本\x1b[Dx", "日x|本"),
        ] {
            assert_eq!(typed(keys), expected, "{keys:?}");
        }
    }

    #[test]
    fn lines_end_and_go_on() {
        let mut editor = Editor::default();
        assert_eq!(
            feed(&mut editor, b"hi\r"),
            [Key::Edited, Key::Edited, Key::Line("hi".into())]
        );
        assert_eq!(feed(&mut editor, b"a\\\r").last(), Some(&Key::Edited));
        assert_eq!(feed(&mut editor, b"b\n").last(), Some(&Key::Line("a\nb".into())));
        assert_eq!(feed(&mut editor, b"\x04"), [Key::End]);
        assert_eq!(feed(&mut editor, b"x\t"), [Key::Edited, Key::Complete]);
        editor.replace(0, "/help ");
        assert_eq!(editor.before_cursor(), "/help ");
    }

    #[test]
    fn what_is_pasted_is_one_message_whatever_is_in_it() {
        let mut editor = Editor::default();
        let pasted = b"see: \x1b[200~one\r\ntwo\rthree\n\tfour\x1b[A\x04\x1b[201~";
        let mut keys = Vec::new();
        for byte in pasted {
            keys.extend(feed(&mut editor, &[*byte]));
        }
        assert_eq!(keys, [const { Key::Edited }; 6]);
        assert_eq!(editor.shown(80).0, "see: one⏎two⏎three⏎\tfour");
        assert_eq!(
            feed(&mut editor, b"!\r").last(),
            Some(&Key::Line("see: one\ntwo\nthree\n\tfour!".into()))
        );
        assert_eq!(feed(&mut editor, b"x\r").last(), Some(&Key::Line("x".into())));
        let mut long = b"\x1b[200~".to_vec();
        long.extend(b"line\n".repeat(5000));
        long.extend(b"\x1b[201~\r");
        assert_eq!(feed(&mut editor, &long).len(), 2);
    }

    #[test]
    fn the_cursor_is_always_among_what_is_shown() {
        let mut editor = Editor::default();
        feed(&mut editor, "0123456789日本".as_bytes());
        assert_eq!(editor.shown(80), ("0123456789日本".into(), 0));
        assert_eq!(editor.shown(5), ("9日本".into(), 0));
        feed(&mut editor, b"\x01");
        assert_eq!(editor.shown(5), ("01234".into(), 5));
        assert_eq!(editor.shown(0), (String::new(), 0));
    }
}
