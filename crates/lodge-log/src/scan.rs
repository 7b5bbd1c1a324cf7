//! Splits a log into lines in bounded memory, whatever it contains.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::disk::{DiskFile, read_full};

/// How much is read at once, unless a line needs more.
const CHUNK: usize = 64 * 1024;

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a line feed, as it should.
    Newline,
    /// With a zero byte: a stretch that was never written.
    Zero,
    /// With the file.
    Eof,
    /// Not yet, but it is longer than any event may be.
    TooLong,
}

/// The next stretch of a log. Byte ranges are looked up with [`Scanner::bytes`] before the next call.
#[derive(Debug, Clone)]
pub(crate) enum Raw {
    /// A line without its line feed.
    Line {
        at: u64,
        range: Range<usize>,
        ending: Ending,
    },
    /// More of a line that ended [`Ending::TooLong`].
    Rest { at: u64, range: Range<usize> },
    /// Zero bytes.
    Zeros { at: u64, len: u64 },
}

/// Reads a log line by line.
#[derive(Debug)]
pub(crate) struct Scanner {
    file: Arc<dyn DiskFile>,
    /// Where to stop.
    end: u64,
    longest: usize,
    buf: Vec<u8>,
    /// The part of `buf` that was read and not yet given out.
    window: Range<usize>,
    /// Where in the file the window begins.
    at: u64,
    /// Inside a line that was too long.
    in_rest: bool,
}

impl Scanner {
    /// Reads from `from` to `end`, or to the end of the file if that comes first. Lines longer than `longest` are given
    /// in pieces.
    pub(crate) fn new(file: Arc<dyn DiskFile>, from: u64, end: u64, longest: usize) -> Scanner {
        Scanner {
            file,
            end,
            longest,
            buf: Vec::new(),
            window: 0..0,
            at: from,
            in_rest: false,
        }
    }

    /// The bytes of the last stretch.
    pub(crate) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.buf[range.clone()]
    }

    /// The next stretch.
    pub(crate) fn next(&mut self) -> io::Result<Option<Raw>> {
        let mut searched = 0;
        loop {
            let window = &self.buf[self.window.clone()];
            if window.first() == Some(&0) && !self.in_rest {
                return self.zeros().map(Some);
            }
            if let Some(found) = memchr::memchr2(b'\n', 0, &window[searched..]) {
                let len = searched + found;
                let newline = window[len] == b'\n';
                let (at, range) = self.consume(len);
                if newline {
                    self.consume(1);
                }
                if std::mem::take(&mut self.in_rest) {
                    return Ok(Some(Raw::Rest { at, range }));
                }
                let ending = if newline { Ending::Newline } else { Ending::Zero };
                return Ok(Some(Raw::Line { at, range, ending }));
            }
            searched = window.len();
            let full = searched >= self.longest || (self.in_rest && searched > 0);
            if full || !self.fill()? {
                let (at, range) = self.consume(searched);
                return Ok(match (self.in_rest, searched) {
                    (_, 0) => None,
                    (true, _) => Some(Raw::Rest { at, range }),
                    (false, _) => {
                        self.in_rest = full;
                        Some(Raw::Line {
                            at,
                            range,
                            ending: if full { Ending::TooLong } else { Ending::Eof },
                        })
                    }
                });
            }
        }
    }

    fn zeros(&mut self) -> io::Result<Raw> {
        let at = self.at;
        loop {
            let window = &self.buf[self.window.clone()];
            let zeros = window.iter().position(|b| *b != 0);
            self.consume(zeros.unwrap_or(window.len()));
            if zeros.is_some() || !self.fill()? {
                return Ok(Raw::Zeros { at, len: self.at - at });
            }
        }
    }

    fn consume(&mut self, len: usize) -> (u64, Range<usize>) {
        let (at, range) = (self.at, self.window.start..self.window.start + len);
        self.window.start += len;
        self.at += len as u64;
        (at, range)
    }

    /// Reads more behind the window; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let offset = self.at + self.window.len() as u64;
        let left = self.end.saturating_sub(offset);
        if self.window.start > 0 {
            self.buf.copy_within(self.window.clone(), 0);
            self.window = 0..self.window.len();
        }
        // Twice as much for each step of a long line, so that it is not copied for each chunk.
        let want = self
            .window
            .len()
            .max(CHUNK)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let filled = self.window.end;
        if self.buf.len() < filled + want {
            self.buf.resize(filled + want, 0);
        } else if self.buf.len() > 16 * CHUNK && self.buf.len() / 4 > filled + want {
            self.buf.truncate(filled + want);
            self.buf.shrink_to_fit();
        }
        let read = read_full(&*self.file, &mut self.buf[filled..filled + want], offset)?;
        self.window.end += read;
        Ok(read > 0)
    }
}
