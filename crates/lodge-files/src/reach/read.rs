//! Reading files.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::fs::OFlags;

use super::{FileError, Files, Result, open::reopen_file};

/// Read at a time.
const PIECE: usize = 48 << 10;

/// A file that can be read, as often as needed, from its beginning.
pub struct Readable {
    fd: OwnedFd,
    limit: u64,
}

impl Files {
    /// Opens a file of at most `limit` bytes. What is added to it later is not read.
    pub fn readable(&self, path: &Path, limit: u64) -> Result<Readable> {
        let (fd, stat) = self.look(path, false, true)?;
        if u64::try_from(stat.st_size).unwrap_or(0) > limit {
            return Err(FileError::TooLarge);
        }
        Ok(Readable { fd, limit })
    }
}

impl Readable {
    /// Its contents.
    pub fn reader(&self) -> Result<io::Take<File>> {
        Ok(reopen_file(&self.fd, OFlags::RDONLY)?.take(self.limit))
    }

    /// Whether it is UTF-8.
    pub fn is_text(&self) -> Result<bool> {
        let mut file = self.reader()?;
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
}

/// Fills a buffer as far as there is something to read.
pub fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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
