//! Reading a file into what goes over the wire, a piece at a time: a large file is in memory once, in its last form.

use std::{fs::File, io::Read as _, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustix::fs::OFlags;

use super::{FileError, Files, Result, beneath::reopen_file};
use crate::wire::escape;

/// Read at a time; a multiple of three, so that pieces of base64 can follow each other.
const PIECE: usize = 96 << 10;

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

/// A file's contents as a JSON string, quotes and all, after what was to come before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EncodedFile {
    pub(crate) json: String,
    pub(crate) encoding: Encoding,
}

impl Files {
    /// How large the file is that would be read.
    pub(crate) fn size(&self, path: &Path) -> Result<u64> {
        let (_, stat) = self.look(path, false, true)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Reads a file of at most `limit` bytes, to follow `head`. What is not text comes as base64, whatever is wanted.
    pub(crate) fn read(&self, path: &Path, wanted: Option<Encoding>, limit: u64, head: &str) -> Result<EncodedFile> {
        let (fd, stat) = self.look(path, false, true)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > limit {
            return Err(FileError::TooLarge);
        }
        if wanted != Some(Encoding::Base64)
            && let Some(json) = text(reopen_file(&fd, OFlags::RDONLY)?, size, limit, head)?
        {
            return Ok(EncodedFile {
                json,
                encoding: Encoding::Utf8,
            });
        }
        Ok(EncodedFile {
            json: base64(reopen_file(&fd, OFlags::RDONLY)?, size, limit, head)?,
            encoding: Encoding::Base64,
        })
    }
}

/// Fills the buffer as far as the file goes.
fn fill(file: &mut impl std::io::Read, piece: &mut [u8]) -> Result<usize> {
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

/// The contents as text; none when they are not UTF-8.
fn text(file: File, size: u64, limit: u64, head: &str) -> Result<Option<String>> {
    let mut file = file.take(limit + 1);
    let mut out = String::with_capacity(usize::try_from(size + size / 16).unwrap_or(0) + head.len() + 256);
    out.push_str(head);
    out.push('"');
    let mut piece = vec![0; PIECE];
    // Bytes of a character that the last piece cut in two.
    let (mut kept, mut total) = (0, 0);
    loop {
        let filled = fill(&mut file, &mut piece[kept..])?;
        total += filled as u64;
        if total > limit {
            return Err(FileError::TooLarge);
        }
        let bytes = &piece[..kept + filled];
        let whole = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if error.error_len().is_some() => return Ok(None),
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        escape(whole, &mut out);
        let done = whole.len();
        if filled == 0 {
            out.push('"');
            return Ok((done == bytes.len()).then_some(out));
        }
        kept = bytes.len() - done;
        piece.copy_within(done..done + kept, 0);
    }
}

fn base64(file: File, size: u64, limit: u64, head: &str) -> Result<String> {
    let mut file = file.take(limit + 1);
    let mut out = String::with_capacity(usize::try_from(size / 3 * 4).unwrap_or(0) + head.len() + 256);
    out.push_str(head);
    out.push('"');
    let mut piece = vec![0; PIECE];
    let mut total = 0;
    loop {
        let filled = fill(&mut file, &mut piece)?;
        total += filled as u64;
        if total > limit {
            return Err(FileError::TooLarge);
        }
        STANDARD.encode_string(&piece[..filled], &mut out);
        if filled < piece.len() {
            out.push('"');
            return Ok(out);
        }
    }
}
