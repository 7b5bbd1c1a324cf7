//! Lines of bounded length from a stream.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Longer messages are refused. Images and files come in them, in base64.
pub const LONGEST: usize = 64 << 20;

/// Reads lines, none longer than is allowed.
pub struct Lines<R> {
    input: BufReader<R>,
    /// What of the next line has come so far.
    line: Vec<u8>,
    longest: usize,
    /// Whether what comes belongs to a line that was too long.
    skips: bool,
}

/// One line.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// Without its end.
    Whole(Vec<u8>),
    /// Longer than is allowed; the rest of it is skipped.
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `longest` bytes.
    pub fn new(input: R, longest: usize) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            longest,
            skips: false,
        }
    }

    /// The next line that is not empty; none at the end. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            let (end, is_last) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (Some(at), false),
                None => (None, bytes.is_empty()),
            };
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let read = piece.len() + usize::from(end.is_some());
            let fits = self.line.len() + piece.len() <= self.longest;
            if fits && !self.skips {
                self.line.extend_from_slice(piece);
            }
            self.input.consume(read);
            if self.skips {
                self.skips = end.is_none() && !is_last;
                continue;
            }
            if !fits {
                // At once: whoever never ends a line is not waited for.
                self.line = Vec::new();
                self.skips = end.is_none();
                return Ok(Some(Line::TooLong));
            }
            if end.is_none() && !is_last {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Line::Whole(line)));
            }
            if is_last {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_those_that_are_too_long_are_told() {
        let whole = |text: &str| Some(Line::Whole(text.into()));
        let mut lines = Lines::new("one\n\n  \n12345678\n123456789\ntwo\r\nlast".as_bytes(), 8);
        for expected in [
            whole("one"),
            whole("12345678"),
            Some(Line::TooLong),
            whole("two\r"),
            whole("last"),
            None,
            None,
        ] {
            assert_eq!(lines.next().await.unwrap(), expected);
        }
    }
}
