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
        let last = match fs::read(file) {
            Ok(text) => match std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.trim().parse().ok())
            {
                Some(last) => last,
                None => beyond(file),
            },
            // Zero is what a client has seen that has seen nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 1,
            Err(error) => return Err(at(file)(error)),
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
            lodge_files::replace(file, reserved.to_string().as_bytes())?;
        }
        self.reserved = reserved;
        Ok(())
    }
}

/// Where to go on when a file no longer says it: above everything that any host can have handed out until now, which is
/// fewer than a thousand numbers for each millisecond since 1970.
fn beyond(file: &Path) -> u64 {
    let aside = set_aside(file);
    tracing::error!("{} holds no number; numbers go on far above; {aside}", file.display());
    lodge_events::Timestamp::now().as_millisecond().unsigned_abs() << 10
}

/// An error that says which file it is about.
pub(crate) fn at(file: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// Puts a file that is damaged where nothing is written over it. Where that is.
pub(crate) fn set_aside(file: &Path) -> String {
    let aside = file.with_extension("damaged");
    match fs::rename(file, &aside) {
        Ok(()) => format!("the file is now {}", aside.display()),
        Err(error) => format!("it cannot be put aside: {error}"),
    }
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
    fn a_damaged_file_repeats_no_number_either() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seq");
        let before = Seq::open(&file).unwrap().next();
        for damaged in [&b"banana"[..], b"", b"\0\0\0", b"10\xff"] {
            fs::write(&file, damaged).unwrap();
            let next = Seq::open(&file).unwrap().next();
            // Clients count in doubles.
            assert!(next > before && next < 1 << 53);
            assert_eq!(fs::read(dir.path().join("seq.damaged")).unwrap(), damaged);
            assert!(Seq::open(&file).unwrap().next() > next);
        }
    }
}
