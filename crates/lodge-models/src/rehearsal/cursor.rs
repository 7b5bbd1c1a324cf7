//! A position in a script, and the tokens that can be read there.

use std::time::Duration;

use serde::{Deserialize, de::IgnoredAny};

/// A place in a text.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Skips what may stand between two commands.
    pub(super) fn skip_punctuation(&mut self) {
        self.rest = self
            .rest
            .trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '.' | '!'));
    }

    /// Takes a word if it comes next, in any case.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let text = self.rest.trim_start();
        let Some((head, tail)) = text.split_at_checked(word.len()) else {
            return false;
        };
        let ends = !tail.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if ends && head.eq_ignore_ascii_case(word) {
            self.rest = tail;
            return true;
        }
        false
    }

    /// Takes several words in a row, or nothing.
    pub(super) fn take_all(&mut self, words: &str) -> bool {
        let mut ahead = *self;
        let taken = words.split(' ').all(|word| ahead.take(word));
        if taken {
            *self = ahead;
        }
        taken
    }

    /// Takes one of several spellings.
    pub(super) fn take_any(&mut self, spellings: &[&str]) -> bool {
        spellings.iter().any(|words| self.take_all(words))
    }

    /// A tool's name.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let end = text
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.')))
            .unwrap_or(text.len());
        let name = text[..end].trim_end_matches('.');
        if name.is_empty() {
            return None;
        }
        self.rest = &text[name.len()..];
        Some(name)
    }

    /// A number like `20000`, `20,000` or `20_000`.
    pub(super) fn number(&mut self) -> Option<u64> {
        let text = self.rest.trim_start();
        let mut value: Option<u64> = None;
        let mut end = 0;
        let bytes = text.as_bytes();
        while end < bytes.len() {
            match bytes[end] {
                digit @ b'0'..=b'9' => {
                    value = Some(
                        value
                            .unwrap_or(0)
                            .checked_mul(10)?
                            .checked_add(u64::from(digit - b'0'))?,
                    );
                }
                b',' | b'_' if value.is_some() && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) => {}
                _ => break,
            }
            end += 1;
        }
        self.rest = if value.is_some() { &text[end..] } else { self.rest };
        value
    }

    /// `N times`, `once` or `twice`.
    pub(super) fn times(&mut self) -> Option<u64> {
        if self.take("once") {
            return Some(1);
        }
        if self.take("twice") {
            return Some(2);
        }
        let mut ahead = *self;
        let number = ahead.number()?;
        (ahead.take("times") || ahead.take("time")).then(|| {
            *self = ahead;
            number
        })
    }

    /// `500 ms`, `2 s` or `2 seconds`.
    pub(super) fn duration(&mut self) -> Option<Duration> {
        let mut ahead = *self;
        let number = ahead.number()?;
        let duration = if ahead.take_any(&["ms", "milliseconds", "millisecond"]) {
            Duration::from_millis(number)
        } else if ahead.take_any(&["s", "seconds", "second"]) {
            Duration::from_secs(number)
        } else {
            return None;
        };
        *self = ahead;
        Some(duration)
    }

    /// Text in quotation marks, straight or typographic; there is no escape.
    pub(super) fn quoted(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let open = text.chars().next()?;
        let close = match open {
            '"' | '\'' => open,
            '“' => '”',
            _ => return None,
        };
        let inner = &text[open.len_utf8()..];
        let end = inner.find(close)?;
        self.rest = &inner[end + close.len_utf8()..];
        Some(&inner[..end])
    }

    /// A JSON object, exactly as written. `Err` says what is wrong with it.
    pub(super) fn object(&mut self) -> Result<Option<&'a str>, String> {
        let text = self.rest.trim_start();
        if !text.starts_with('{') {
            return Ok(None);
        }
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Any>();
        match stream.next() {
            Some(Ok(_)) => {
                let (object, rest) = text.split_at(stream.byte_offset());
                self.rest = rest;
                Ok(Some(object))
            }
            Some(Err(error)) => Err(error.to_string()),
            None => Ok(None),
        }
    }
}

#[derive(Deserialize)]
struct Any(#[allow(dead_code, reason = "only where it ends is of interest")] IgnoredAny);
