//! Reading files.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{FileError, Files, Reach, Result, open::reopen_file};
use crate::blocking::run_blocking;

/// Read at a time; a multiple of three, so that pieces can follow each other in base64.
const PIECE: usize = 48 << 10;

/// What is in a file, a piece at a time.
#[derive(Debug)]
pub struct Pieces {
    file: io::Take<File>,
    /// Whether it was text when it was first looked at.
    pub is_text: bool,
}

impl Files {
    /// Opens a file of at most `limit` bytes. What is added to it later is not read.
    pub(super) fn readable(&self, path: &Path, limit: u64) -> Result<io::Take<File>> {
        let (fd, stat) = self.look(path, false, true)?;
        if u64::try_from(stat.st_size).unwrap_or(0) > limit {
            return Err(FileError::TooLarge);
        }
        Ok(reopen_file(&fd, OFlags::RDONLY)?.take(limit))
    }

    /// What is in a file of at most `limit` bytes, to be read piece by piece.
    pub fn pieces(&self, path: &Path, limit: u64) -> Result<Pieces> {
        let mut file = self.readable(path, limit)?;
        let is_text = is_text(&mut file)?;
        let mut file = file.into_inner();
        file.seek(SeekFrom::Start(0))?;
        let file = file.take(limit);
        Ok(Pieces { file, is_text })
    }
}

impl Reach {
    /// All that is in a file of at most `limit` bytes.
    pub async fn whole(self, path: PathBuf, limit: u64) -> Result<Vec<u8>> {
        let read = move |files: &Files| -> Result<Vec<u8>> {
            let mut bytes = Vec::new();
            files.readable(&path, limit)?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        self.run(read).await
    }

    /// The last `limit` bytes of a file, from the beginning of a line.
    pub async fn end_of(self, path: PathBuf, limit: u64) -> Result<String> {
        let read = move |files: &Files| -> Result<String> {
            let mut file = files.readable(&path, u64::MAX)?.into_inner();
            let from = file.metadata()?.len().saturating_sub(limit);
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(limit).read_to_end(&mut bytes)?;
            let text = String::from_utf8_lossy(&bytes);
            let whole_lines = match from {
                0 => &*text,
                _ => text.split_once('\n').map_or(&*text, |(_, rest)| rest),
            };
            Ok(whole_lines.to_owned())
        };
        self.run(read).await
    }
}

impl Pieces {
    /// The next piece, and what comes after it. Nothing does after a shorter one, also where the file has grown meanwhile.
    pub async fn next(mut self) -> Result<(Vec<u8>, Option<Self>)> {
        let read = move || -> Result<(Vec<u8>, Option<Self>)> {
            let mut piece = vec![0; PIECE];
            let filled = fill(&mut self.file, &mut piece)?;
            piece.truncate(filled);
            Ok((piece, (filled == PIECE).then_some(self)))
        };
        run_blocking(read).await?
    }
}

/// Whether it is UTF-8 to its end.
fn is_text(file: &mut impl Read) -> Result<bool> {
    let mut piece = vec![0; PIECE];
    let mut kept = 0;
    loop {
        let filled = fill(file, &mut piece[kept..])?;
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

/// Fills a buffer as far as there is something to read.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
