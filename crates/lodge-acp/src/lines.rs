//! Lines of bounded length from a stream.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Longer messages are refused. Images and files come in them, in base64.
pub(crate) const LONGEST: usize = 64 << 20;

pub(crate) struct Lines<R> {
    input: BufReader<R>,
    /// What of the next line has come so far.
    line: Vec<u8>,
    longest: usize,
    /// Whether more has come than may be kept.
    too_long: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(input: R, longest: usize) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            longest,
            too_long: false,
        }
    }

    /// The next line that is not empty; none at the end. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            let (end, is_last) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (Some(at), false),
                None => (None, bytes.is_empty()),
            };
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() > self.longest {
                self.too_long = true;
                self.line = Vec::new();
            } else if !self.too_long {
                self.line.extend_from_slice(piece);
            }
            let read = piece.len() + usize::from(end.is_some());
            self.input.consume(read);
            if end.is_none() && !is_last {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.too_long) {
                return Ok(Some(Line::TooLong));
            }
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
