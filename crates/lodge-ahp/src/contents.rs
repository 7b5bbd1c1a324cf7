//! Contents of files as they go over the wire, a piece at a time: however large they are, only a piece is in memory.

use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_files::{FileError, Pieces};

use crate::wire::escape;

type Result<T> = std::result::Result<T, FileError>;

/// Sent at a time of what is in memory; a multiple of three, so that pieces of base64 can follow each other.
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
    source: Box<Source>,
    /// Bytes of a character that the last piece cut in two.
    cut: Vec<u8>,
}

enum Source {
    File(Pieces),
    Bytes(std::vec::IntoIter<u8>),
    End,
}

impl Source {
    async fn next(&mut self) -> Result<Vec<u8>> {
        match std::mem::replace(self, Self::End) {
            Self::File(pieces) => {
                let (piece, rest) = pieces.next().await?;
                *self = rest.map_or(Self::End, Self::File);
                Ok(piece)
            }
            Self::Bytes(mut bytes) => {
                let piece = bytes.by_ref().take(PIECE).collect();
                *self = Self::Bytes(bytes);
                Ok(piece)
            }
            Self::End => Ok(Vec::new()),
        }
    }
}

impl Contents {
    /// What is not text comes as base64, whatever is wanted.
    fn new(source: Source, is_text: bool, wanted: Option<Encoding>) -> Self {
        let is_text = is_text && wanted != Some(Encoding::Base64);
        Self {
            encoding: if is_text { Encoding::Utf8 } else { Encoding::Base64 },
            source: Box::new(source),
            cut: Vec::new(),
        }
    }

    /// Those of a file.
    pub(crate) fn of_file(file: Pieces, wanted: Option<Encoding>) -> Self {
        let is_text = file.is_text;
        Self::new(Source::File(file), is_text, wanted)
    }

    /// Contents that are in memory.
    pub(crate) fn of_bytes(bytes: Vec<u8>, wanted: Option<Encoding>) -> Self {
        let is_text = std::str::from_utf8(&bytes).is_ok();
        Self::new(Source::Bytes(bytes.into_iter()), is_text, wanted)
    }

    /// Adds the next piece, as it stands in a JSON string. False when there was none left.
    async fn encode_next(&mut self, out: &mut String) -> Result<bool> {
        let piece = self.source.next().await?;
        let at_end = piece.is_empty();
        if self.encoding == Encoding::Base64 {
            STANDARD.encode_string(piece, out);
            return Ok(!at_end);
        }
        self.cut.extend(piece);
        let done = escape_text(&self.cut, at_end, out);
        self.cut.drain(..done);
        Ok(!at_end)
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
    pub(crate) async fn begin(head: String, contents: Contents, tail: String) -> Result<Self> {
        let mut answer = Self {
            ready: head,
            contents,
            tail,
            finished: false,
        };
        while !answer.finished && answer.ready.len() < SMALL {
            answer.advance().await?;
        }
        Ok(answer)
    }

    async fn advance(&mut self) -> Result<()> {
        if !self.contents.encode_next(&mut self.ready).await? {
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
    pub(crate) async fn next(&mut self) -> Result<(String, bool)> {
        if self.ready.is_empty() {
            self.advance().await?;
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
    use lodge_files::{Reach, Root};

    use super::*;

    /// Contents as a JSON string, put together from the pieces that they are sent in.
    async fn whole(contents: Contents) -> Result<String> {
        let mut answer = LargeAnswer::begin("\"".into(), contents, "\"".into()).await?;
        let mut json = String::new();
        loop {
            let (piece, last) = answer.next().await?;
            json.push_str(&piece);
            if last {
                return Ok(json);
            }
        }
    }

    #[tokio::test]
    async fn text_and_bytes_are_read_whole_wherever_pieces_end() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let reach = Reach {
            roots: vec![Root::whole(&root)],
            ..Reach::default()
        };
        let (files, file) = (reach.files(), root.join("file"));
        let long: String = "ä😀\"\\\n\u{1}x".chars().cycle().take(200_000).collect();
        let check = async |bytes: &[u8], wanted, encoding, expected: &str| {
            std::fs::write(&file, bytes).unwrap();
            let of_file = Contents::of_file(files.pieces(&file, 10 << 20).unwrap(), wanted);
            for contents in [of_file, Contents::of_bytes(bytes.to_vec(), wanted)] {
                assert_eq!(contents.encoding, encoding);
                let json: String = serde_json::from_str(&whole(contents).await.unwrap()).unwrap();
                assert!(json == expected);
            }
        };
        let base64 = |bytes: &[u8]| STANDARD.encode(bytes);
        let long64 = base64(long.as_bytes());
        check(b"", None, Encoding::Utf8, "").await;
        check(long.as_bytes(), None, Encoding::Utf8, &long).await;
        check(long.as_bytes(), Some(Encoding::Base64), Encoding::Base64, &long64).await;
        let mut cut = long.clone().into_bytes();
        cut.push(0xc3);
        for wanted in [None, Some(Encoding::Utf8)] {
            check(&cut, wanted, Encoding::Base64, &base64(&cut)).await;
            check(b"\xff\x00", wanted, Encoding::Base64, "/wA=").await;
        }
        assert_eq!(files.pieces(&file, 1).err(), Some(FileError::TooLarge));
    }
}
