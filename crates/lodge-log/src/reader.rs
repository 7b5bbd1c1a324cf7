//! Reading events forwards and backwards, in bounded memory.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use lodge_events::Event;

use crate::disk::{DiskFile, read_full};
use crate::error::LogError;
use crate::salvage::{salvage, trim};
use crate::scan::{Ending, Raw, Scanner};
use crate::store::{Position, Recorded};

const CHUNK: usize = 64 * 1024;

/// The events of one line, wherever in it they are.
fn events_in(line: &[u8], at: u64, ended: bool, found: &mut VecDeque<Recorded>) {
    let mut add = |at: u64, json: &[u8]| match Event::parse(Bytes::copy_from_slice(json)) {
        Ok(event) => {
            found.push_back(Recorded {
                position: Position(at),
                event,
            });
            true
        }
        Err(_) => false,
    };
    if !add(at, trim(line)) {
        for one in salvage(line, ended) {
            let json = one
                .repaired_json
                .as_deref()
                .map_or(&line[one.range.clone()], str::as_bytes);
            add(at + one.range.start as u64, json);
        }
    }
}

/// From a position towards the end.
#[derive(Debug)]
pub(crate) struct Forwards {
    scanner: Scanner,
    path: PathBuf,
    found: VecDeque<Recorded>,
    failed: bool,
}

impl Forwards {
    pub(crate) fn new(file: Arc<dyn DiskFile>, path: PathBuf, from: u64, to: u64, longest: usize) -> Forwards {
        Forwards {
            scanner: Scanner::new(file, from, to, longest),
            path,
            found: VecDeque::new(),
            failed: false,
        }
    }

    fn step(&mut self) -> io::Result<Option<Recorded>> {
        while self.found.is_empty() {
            match self.scanner.next()? {
                Some(Raw::Line { at, range, ending }) => {
                    events_in(
                        self.scanner.bytes(&range),
                        at,
                        ending == Ending::Newline,
                        &mut self.found,
                    );
                }
                Some(Raw::Rest { .. } | Raw::Zeros { .. }) => {}
                None => return Ok(None),
            }
        }
        Ok(self.found.pop_front())
    }
}

impl Iterator for Forwards {
    type Item = Result<Recorded, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.step().map_err(LogError::io("read", &self.path)).transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// From a position towards the beginning.
#[derive(Debug)]
pub(crate) struct Backwards {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    /// The file's bytes from `at` on that are not given out yet: always up to the end of a line.
    pending: Vec<u8>,
    at: u64,
    longest: usize,
    found: VecDeque<Recorded>,
    failed: bool,
}

impl Backwards {
    pub(crate) fn new(file: Arc<dyn DiskFile>, path: PathBuf, from: u64, longest: usize) -> Backwards {
        Backwards {
            file,
            path,
            pending: Vec::new(),
            at: from,
            longest,
            found: VecDeque::new(),
            failed: false,
        }
    }

    fn step(&mut self) -> io::Result<Option<Recorded>> {
        while self.found.is_empty() {
            // The last byte of what is pending is the line feed of the line we want.
            let inner = self.pending.len().saturating_sub(1);
            match memchr::memrchr2(b'\n', 0, &self.pending[..inner]) {
                Some(n) => self.give(n + 1),
                None if self.at == 0 && self.pending.is_empty() => return Ok(None),
                None if self.at == 0 || self.pending.len() > self.longest => self.give(0),
                None => self.fill()?,
            }
        }
        Ok(self.found.pop_back())
    }

    fn give(&mut self, start: usize) {
        let line = &self.pending[start..];
        let ended = line.ends_with(b"\n");
        let line = line.strip_suffix(b"\n").or(line.strip_suffix(b"\0")).unwrap_or(line);
        events_in(line, self.at + start as u64, ended, &mut self.found);
        self.pending.truncate(start);
    }

    fn fill(&mut self) -> io::Result<()> {
        let want = (self.pending.len().max(CHUNK) as u64).min(self.at) as usize;
        let mut chunk = vec![0; want];
        let read = read_full(&*self.file, &mut chunk, self.at - want as u64)?;
        if read < want {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        chunk.append(&mut self.pending);
        self.pending = chunk;
        self.at -= want as u64;
        Ok(())
    }
}

impl Iterator for Backwards {
    type Item = Result<Recorded, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.step().map_err(LogError::io("read", &self.path)).transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}
