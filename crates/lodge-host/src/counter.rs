//! Numbers that never repeat, even when the host is killed: a block of them is reserved in the registers before the first one
//! is used.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

use crate::{
    RegisterError,
    registers::{Register, Registers},
};

/// The register with what is reserved.
pub(crate) const REGISTER: &str = "counter";

const BLOCK: u64 = 1 << 20;

/// Hands out numbers.
pub struct Counter {
    last: u64,
    reserved: u64,
    kept: Option<(Register<u64>, &'static str)>,
}

impl Counter {
    /// Continues above everything that was ever handed out under a name.
    pub(crate) fn open(registers: &Arc<dyn Registers>, name: &'static str) -> Self {
        let register = Register::new(registers, REGISTER);
        let last = register.get(name).unwrap_or_else(|| match registers.revision() {
            // Zero is what somebody has seen who has seen nothing.
            0 => 1,
            // Either nobody ever counted, or the record is lost.
            _ => beyond(),
        });
        // The first block is reserved when the first number is wanted: a start that nobody uses writes nothing.
        Self {
            last,
            reserved: last,
            kept: Some((register, name)),
        }
    }

    /// Numbers that no other host has handed out, and no earlier start of this one: they begin anywhere below 2^52, so that whoever
    /// counts up to 2^53 can count on.
    pub(crate) fn anywhere() -> Self {
        let random = Uuid::new_v4().as_u128() as u64;
        Self {
            last: (random >> 12).max(1),
            reserved: u64::MAX,
            kept: None,
        }
    }

    /// Numbers of which nothing outlives the process.
    pub fn unkept() -> Self {
        Self {
            last: 1,
            reserved: u64::MAX,
            kept: None,
        }
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
            if let Err(error) = self.keep() {
                // Going on is right: numbers stay in order now, and only a crash before the next block could repeat some.
                tracing::error!("cannot reserve sequence numbers: {error}");
            }
        }
        self.last += 1;
        self.last
    }

    fn keep(&self) -> Result<(), RegisterError> {
        let Some((register, name)) = &self.kept else {
            return Ok(());
        };
        register.set(name, &self.reserved)?;
        Ok(register.sync()?)
    }
}

/// Where to go on when nothing says it: above everything that can have been handed out until now, which is fewer than a thousand
/// numbers for each millisecond since 1970.
pub(crate) fn beyond() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX >> 10) << 10
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::registers::FileRegisters;

    fn open(file: &Path) -> Counter {
        let registers: Arc<dyn Registers> = Arc::new(FileRegisters::open(file.to_owned(), false).unwrap());
        Counter::open(&registers, "test")
    }

    #[test]
    fn numbers_never_repeat_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r");
        assert_eq!(open(&file).next(), 2, "numbers begin small in a new home");
        let mut highest = 2;
        for _ in 0..3 {
            let mut counter = open(&file);
            for _ in 0..10 {
                let next = counter.next();
                assert!(next > highest);
                highest = next;
            }
        }
        assert!(highest < 5 * BLOCK, "{highest}");
    }

    #[test]
    fn numbers_that_are_nobody_elses_begin_far_from_each_other_and_fit_into_a_double() {
        let mut begins: Vec<u64> = (0..100).map(|_| Counter::anywhere().next()).collect();
        begins.sort_unstable();
        assert!(*begins.last().unwrap() < 1 << 53);
        let near = begins.windows(2).filter(|pair| pair[1] - pair[0] < 1 << 20).count();
        assert_eq!(near, 0, "{begins:?}");
    }

    #[test]
    fn a_damaged_record_repeats_no_number_either() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r");
        let before = open(&file).next();
        for damaged in [
            &b"banana\n"[..],
            b"\0\0\0\n",
            b"{\"key\":\"counter/test\",\"revision\":1,\"value\":\"x\"}\n",
            b"{\"key\":\"other\",\"revision\":1,\"value\":1}\n",
        ] {
            fs::write(&file, damaged).unwrap();
            let next = open(&file).next();
            // Clients count in doubles.
            assert!(next > before + BLOCK && next < 1 << 53, "{next}");
            assert!(open(&file).next() > next);
        }
    }
}
