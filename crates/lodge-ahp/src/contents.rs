//! Contents of files as they go over the wire, a piece at a time: however large they are, only a piece is in memory.

use std::{io::Read, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_files::{FileError, Files, fill};

use crate::wire::escape;

type Result<T> = std::result::Result<T, FileError>;

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

    /// Those of a file of at most `limit` bytes. What is not text comes as base64, whatever is wanted.
    pub(crate) fn of_file(files: &Files, path: &Path, wanted: Option<Encoding>, limit: u64) -> Result<Self> {
        let file = files.readable(path, limit)?;
        let is_text = wanted != Some(Encoding::Base64) && file.is_text()?;
        let encoding = if is_text { Encoding::Utf8 } else { Encoding::Base64 };
        Ok(Self::new(Box::new(file.reader()?), encoding))
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

#[cfg(test)]
mod tests {
    use lodge_files::Root;

    use super::*;

    /// Contents as a JSON string, put together from the pieces that they are sent in.
    fn whole(contents: Contents) -> Result<String> {
        let mut answer = LargeAnswer::begin("\"".into(), contents, "\"".into())?;
        let mut json = String::new();
        loop {
            let (piece, last) = answer.next()?;
            json.push_str(&piece);
            if last {
                return Ok(json);
            }
        }
    }

    #[test]
    fn text_and_bytes_are_read_whole_wherever_pieces_end() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (files, file) = (Files::new(vec![Root::whole(&root)]), root.join("file"));
        let long: String = "ä😀\"\\\n\u{1}x".chars().cycle().take(200_000).collect();
        let check = |bytes: &[u8], wanted, encoding, expected: &str| {
            std::fs::write(&file, bytes).unwrap();
            let contents = Contents::of_file(&files, &file, wanted, 10 << 20).unwrap();
            assert_eq!(contents.encoding, encoding);
            let json: String = serde_json::from_str(&whole(contents).unwrap()).unwrap();
            assert!(json == expected);
        };
        let base64 = |bytes: &[u8]| STANDARD.encode(bytes);
        check(b"", None, Encoding::Utf8, "");
        check(long.as_bytes(), None, Encoding::Utf8, &long);
        check(
            long.as_bytes(),
            Some(Encoding::Base64),
            Encoding::Base64,
            &base64(long.as_bytes()),
        );
        let mut cut = long.clone().into_bytes();
        cut.push(0xc3);
        for wanted in [None, Some(Encoding::Utf8)] {
            check(&cut, wanted, Encoding::Base64, &base64(&cut));
            check(b"\xff\x00", wanted, Encoding::Base64, "/wA=");
        }
        assert_eq!(
            Contents::of_file(&files, &file, None, 1).err(),
            Some(FileError::TooLarge)
        );
    }
}
