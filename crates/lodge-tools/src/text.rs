//! Cleans program output: valid UTF-8 without terminal escapes or other control characters.

/// Turns raw output into text, piece by piece.
///
/// Escape sequences and characters may be split anywhere, so the state of both lives here between pieces.
#[derive(Debug, Default)]
pub struct Cleaner {
    /// Bytes of a UTF-8 character whose end has not arrived (at most three).
    partial: Vec<u8>,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Text,
    /// After a carriage return, which became a line feed: a following line feed belongs to it.
    Return,
    /// After ESC.
    Escape,
    /// In `ESC [ … final`.
    Csi,
    /// In an OSC, DCS, PM or APC string, which ends with BEL or `ESC \`.
    String,
    /// After ESC in such a string.
    StringEscape,
}

impl Cleaner {
    /// The clean text of the next piece, appended to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        let joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(bytes);
            joined = whole;
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.text(text, out),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.text(std::str::from_utf8(good).unwrap_or_default(), out);
                    match error.error_len() {
                        Some(n) => {
                            self.text("\u{fffd}", out);
                            rest = &bad[n..];
                        }
                        None => {
                            self.partial = bad.to_vec();
                            return;
                        }
                    }
                }
            }
        }
    }

    /// What is left when nothing more will come.
    pub fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.text("\u{fffd}", out);
        }
        self.state = State::Text;
    }

    fn text(&mut self, text: &str, out: &mut String) {
        out.reserve(text.len());
        for c in text.chars() {
            self.state = match (self.state, c) {
                (State::Escape, '[') => State::Csi,
                (State::Escape, ']' | 'P' | '^' | '_' | 'X') => State::String,
                // Intermediate bytes (`ESC ( B`) keep the sequence open, anything else is its end.
                (State::Escape, ' '..='/') => State::Escape,
                (State::Csi, '\u{20}'..='\u{3f}') => State::Csi,
                (State::Csi, '\u{40}'..='\u{7e}') => State::Text,
                (State::String, '\u{7}' | '\u{9c}') => State::Text,
                (State::String, '\u{1b}') => State::StringEscape,
                // A line feed ends a string that was never closed, so that it cannot swallow everything after it.
                (State::String | State::StringEscape, '\n') => emit('\n', out),
                (State::String, _) => State::String,
                (State::StringEscape, _) => State::Text,
                (_, '\u{1b}') => State::Escape,
                (_, '\u{9b}') => State::Csi,
                (_, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => State::String,
                (State::Escape, '\u{30}'..='\u{7e}') => State::Text,
                (State::Return, '\n') => State::Text,
                (_, '\r') => {
                    out.push('\n');
                    State::Return
                }
                (_, '\n' | '\t') => emit(c, out),
                (_, c) if c.is_control() => State::Text,
                (_, c) => emit(c, out),
            }
        }
    }
}

fn emit(c: char, out: &mut String) -> State {
    out.push(c);
    State::Text
}

/// Text that cannot move a terminal's cursor, change its colours or title, or overwrite its content.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut cleaner = Cleaner::default();
    cleaner.push(text.as_bytes(), &mut out);
    cleaner.finish(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &str) {
        for cut in 0..=input.len() {
            let (a, b) = input.split_at(cut);
            let mut out = String::new();
            let mut cleaner = Cleaner::default();
            cleaner.push(a, &mut out);
            cleaner.push(b, &mut out);
            cleaner.finish(&mut out);
            assert_eq!(out, expected, "cut at {cut} of {input:?}");
        }
    }

    #[test]
    fn output_is_cleaned_wherever_it_is_cut() {
        check(b"plain\n", "plain\n");
        check("grüße 🦀\n".as_bytes(), "grüße 🦀\n");
        check(b"a\x1b[31;1mred\x1b[0mb", "aredb");
        check(b"\x1b]0;title\x07after", "after");
        check(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check(b"\x1b]never closed\nnext line", "\nnext line");
        check(b"\x1bPdcs\x1b\\x\x1b(Bz\x1b7y", "xzy");
        check(b"one\r\ntwo\rthree", "one\ntwo\nthree");
        check(b"bell\x07 null\x00 back\x08 del\x7f", "bell null back del");
        check(b"bad \xff\xfe utf \xe2\x82", "bad \u{fffd}\u{fffd} utf \u{fffd}");
        check(b"\xe2\x28\xa1", "\u{fffd}(\u{fffd}");
        check(b"\xc2\x9b31mc1 csi", "c1 csi");
        check(b"tab\tkept", "tab\tkept");
    }
}
