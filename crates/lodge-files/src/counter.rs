//! Numbers that never go back, not even when the program is killed: a block of them is reserved on disk before the first one
//! is used.

use std::{
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

const BLOCK: u64 = 1 << 20;

/// Hands out numbers.
#[derive(Debug)]
pub struct Counter {
    last: u64,
    reserved: u64,
    file: PathBuf,
}

impl Counter {
    /// Continues above everything that was ever handed out by a file.
    pub fn open(file: &Path) -> io::Result<Self> {
        let last = match crate::read_if_there(file)? {
            Some(text) => match std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.trim().parse().ok())
            {
                Some(last) => last,
                None => beyond(file),
            },
            // Zero is what somebody has seen who has seen nothing.
            None => 1,
        };
        // The first block is reserved when the first number is wanted: a start that nobody uses writes nothing.
        Ok(Self {
            last,
            reserved: last,
            file: file.to_owned(),
        })
    }

    /// The last number handed out.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "they never end")]
    pub fn next(&mut self) -> u64 {
        // One number of a block stays unused, so that what is reserved is above all that was used.
        if self.last + 1 >= self.reserved {
            self.reserved = self.last + BLOCK;
            if let Err(error) = crate::replace(&self.file, self.reserved.to_string().as_bytes()) {
                // Going on is right: numbers stay in order now, and only a crash before the next block could repeat some.
                tracing::error!("cannot reserve sequence numbers: {error}");
            }
        }
        self.last += 1;
        self.last
    }
}

/// Where to go on when a file no longer says it: above everything that can have been handed out until now, which is fewer than
/// a thousand numbers for each millisecond since 1970.
fn beyond(file: &Path) -> u64 {
    let aside = file.with_extension("damaged");
    let kept = match std::fs::rename(file, &aside) {
        Ok(()) => format!("the file is now {}", aside.display()),
        Err(error) => format!("it cannot be put aside: {error}"),
    };
    tracing::error!(
        "{} contains no number; numbering continues with much higher ones; {kept}",
        file.display()
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX >> 10) << 10
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn numbers_never_repeat_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seq");
        let mut highest = 0;
        for _ in 0..3 {
            let mut counter = Counter::open(&file).unwrap();
            for _ in 0..10 {
                let next = counter.next();
                assert!(next > highest);
                highest = next;
            }
        }
        let mut counter = Counter {
            last: 5,
            reserved: 5,
            file: file.clone(),
        };
        assert_eq!(counter.next(), 6);
        assert_eq!(fs::read_to_string(&file).unwrap(), (5 + BLOCK).to_string());
    }

    #[test]
    fn a_damaged_file_repeats_no_number_either() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seq");
        let before = Counter::open(&file).unwrap().next();
        for damaged in [&b"banana"[..], b"", b"\0\0\0", b"10\xff"] {
            fs::write(&file, damaged).unwrap();
            let next = Counter::open(&file).unwrap().next();
            // Clients count in doubles.
            assert!(next > before && next < 1 << 53);
            assert_eq!(fs::read(dir.path().join("seq.damaged")).unwrap(), damaged);
            assert!(Counter::open(&file).unwrap().next() > next);
        }
    }
}
