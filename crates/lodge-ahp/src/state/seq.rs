//! The host-wide sequence number. It never goes back, not even when the host is killed: a block of numbers is reserved on
//! disk before the first of them is used.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const BLOCK: u64 = 1 << 20;

/// Hands out sequence numbers.
#[derive(Debug)]
pub(crate) struct Seq {
    last: u64,
    reserved: u64,
    file: Option<PathBuf>,
}

impl Seq {
    /// Continues above everything that was ever handed out.
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        let last = match fs::read_to_string(file) {
            Ok(text) => text
                .trim()
                .parse()
                .map_err(|_| io::Error::other("the sequence file holds no number"))?,
            // Zero is what a client has seen that has seen nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 1,
            Err(error) => return Err(error),
        };
        // The first block is reserved when the first number is wanted: a start that nobody uses writes nothing.
        Ok(Self {
            last,
            reserved: last,
            file: Some(file.to_owned()),
        })
    }

    /// The last number handed out.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        // One number of a block stays unused, so that what is reserved is above all that was used.
        if self.last + 1 >= self.reserved
            && let Err(error) = self.reserve()
        {
            // Going on is right: numbers stay in order now, and only a crash before the next block could repeat some.
            tracing::error!("cannot reserve sequence numbers: {error}");
            self.reserved = self.last + BLOCK;
        }
        self.last += 1;
        self.last
    }

    fn reserve(&mut self) -> io::Result<()> {
        let reserved = self.last + BLOCK;
        if let Some(file) = &self.file {
            write_atomically(file, reserved.to_string().as_bytes())?;
        }
        self.reserved = reserved;
        Ok(())
    }
}

/// Replaces a file so that a reader sees the old or the new content, never a part.
pub(crate) fn write_atomically(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    {
        use std::{io::Write, os::unix::fs::OpenOptionsExt};
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        out.write_all(content)?;
        out.sync_data()?;
    }
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_never_repeat_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seq");
        let mut highest = 0;
        for _ in 0..3 {
            let mut seq = Seq::open(&file).unwrap();
            for _ in 0..10 {
                let next = seq.next();
                assert!(next > highest);
                highest = next;
            }
        }
        let mut seq = Seq {
            last: 5,
            reserved: 5,
            file: Some(file.clone()),
        };
        assert_eq!(seq.next(), 6);
        assert_eq!(fs::read_to_string(&file).unwrap(), (5 + BLOCK).to_string());
    }

    #[test]
    fn a_damaged_file_is_an_error_not_a_restart_at_zero() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seq");
        fs::write(&file, "banana").unwrap();
        assert!(Seq::open(&file).is_err());
    }
}
