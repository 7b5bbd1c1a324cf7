//! Reading a file into what goes over the wire, a piece at a time: however large it is, only a piece of it is in memory.

use std::{fs::File, io::Read, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustix::fs::OFlags;

use super::{FileError, Files, Result, beneath::reopen_file};
use crate::wire::escape;

/// Read at a time; a multiple of three, so that pieces of base64 can follow each other.
const PIECE: usize = 48 << 10;
/// An answer that is complete with so many bytes is one frame.
const SMALL: usize = 256 << 10;

/// How contents are spelt as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Base64,
}

impl Encoding {
    /// Its name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Base64 => "base64",
        }
    }
}

impl Files {
    /// Opens a file of at most `limit` bytes. What is not text comes as base64, whatever is wanted.
    pub(crate) fn contents(&self, path: &Path, wanted: Option<Encoding>, limit: u64) -> Result<Contents> {
        let (fd, stat) = self.look(path, false, true)?;
        if u64::try_from(stat.st_size).unwrap_or(0) > limit {
            return Err(FileError::TooLarge);
        }
        let is_text = wanted != Some(Encoding::Base64) && is_text(reopen_file(&fd, OFlags::RDONLY)?, limit)?;
        let encoding = if is_text { Encoding::Utf8 } else { Encoding::Base64 };
        let file = reopen_file(&fd, OFlags::RDONLY)?;
        Ok(Contents::new(Box::new(file.take(limit)), encoding))
    }
}

/// Contents on their way.
pub(crate) struct Contents {
    pub(crate) encoding: Encoding,
    source: Box<dyn Read + Send>,
    piece: Vec<u8>,
    /// Bytes of a character that the last piece cut in two.
    kept: usize,
}

impl Contents {
    fn new(source: Box<dyn Read + Send>, encoding: Encoding) -> Self {
        Self {
            encoding,
            source,
            piece: vec![0; PIECE],
            kept: 0,
        }
    }

    /// Contents that are in memory.
    pub(crate) fn of_bytes(bytes: Vec<u8>, wanted: Option<Encoding>) -> Self {
        let is_text = wanted != Some(Encoding::Base64) && std::str::from_utf8(&bytes).is_ok();
        let encoding = if is_text { Encoding::Utf8 } else { Encoding::Base64 };
        Self::new(Box::new(std::io::Cursor::new(bytes)), encoding)
    }

    /// Adds the next piece, as it stands in a JSON string. False when there was none left.
    fn encode_next(&mut self, out: &mut String) -> Result<bool> {
        let filled = fill(&mut self.source, &mut self.piece[self.kept..])?;
        let bytes = &self.piece[..self.kept + filled];
        if self.encoding == Encoding::Base64 {
            STANDARD.encode_string(bytes, out);
            return Ok(filled == PIECE);
        }
        let done = escape_text(bytes, filled == 0, out);
        self.kept = bytes.len() - done;
        self.piece.copy_within(done..done + self.kept, 0);
        Ok(filled > 0)
    }
}

/// Escapes the whole characters that bytes begin with and says how far they go. It was text when it was first looked at:
/// what is not any more was changed meanwhile, and is marked as such.
fn escape_text(bytes: &[u8], at_end: bool, out: &mut String) -> usize {
    let mut done = 0;
    loop {
        let (whole, unreadable) = match std::str::from_utf8(&bytes[done..]) {
            Ok(text) => (text, None),
            Err(error) => {
                let whole = &bytes[done..done + error.valid_up_to()];
                (std::str::from_utf8(whole).unwrap_or_default(), Some(error.error_len()))
            }
        };
        escape(whole, out);
        done += whole.len();
        done += match unreadable {
            Some(Some(length)) => length,
            Some(None) if at_end => bytes.len() - done,
            _ => return done,
        };
        out.push(char::REPLACEMENT_CHARACTER);
    }
}

/// An answer with contents in it: what comes before them, they, and what comes after.
pub(crate) struct LargeAnswer {
    /// What is ready to be sent.
    ready: String,
    contents: Contents,
    tail: String,
    finished: bool,
}

impl LargeAnswer {
    /// Begins an answer, and finishes it if it is small.
    pub(crate) fn begin(head: String, contents: Contents, tail: String) -> Result<Self> {
        let mut answer = Self {
            ready: head,
            contents,
            tail,
            finished: false,
        };
        while !answer.finished && answer.ready.len() < SMALL {
            answer.advance()?;
        }
        Ok(answer)
    }

    fn advance(&mut self) -> Result<()> {
        if !self.contents.encode_next(&mut self.ready)? {
            self.ready.push_str(&self.tail);
            self.finished = true;
        }
        Ok(())
    }

    /// All of it, when it is small.
    pub(crate) fn into_small(self) -> std::result::Result<String, Self> {
        if self.finished { Ok(self.ready) } else { Err(self) }
    }

    /// The next piece, and whether it is the last.
    pub(crate) fn next(&mut self) -> Result<(String, bool)> {
        if self.ready.is_empty() {
            self.advance()?;
        }
        Ok((std::mem::take(&mut self.ready), self.finished))
    }
}

impl std::fmt::Debug for LargeAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LargeAnswer").finish_non_exhaustive()
    }
}

/// Fills the buffer as far as the file goes.
fn fill(file: &mut impl Read, piece: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match file.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// Whether a file is UTF-8.
fn is_text(file: File, limit: u64) -> Result<bool> {
    let mut file = file.take(limit);
    let mut piece = vec![0; PIECE];
    let mut kept = 0;
    loop {
        let filled = fill(&mut file, &mut piece[kept..])?;
        let bytes = &piece[..kept + filled];
        let done = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(error) if error.error_len().is_some() => return Ok(false),
            Err(error) => error.valid_up_to(),
        };
        if filled == 0 {
            return Ok(done == bytes.len());
        }
        kept = bytes.len() - done;
        piece.copy_within(done..done + kept, 0);
    }
}
