//! Numbers that never repeat, even when the host is killed: a block of them is reserved in the registers before the first one
//! is used. The next block is reserved ahead, in the background: whoever wants a number holds locks that all sessions share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::runtime::Handle;
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
    kept: Option<Arc<Reserved>>,
}

/// What is reserved, in memory and in the registers.
struct Reserved {
    register: Register<u64>,
    name: &'static str,
    /// No number from this one on may be used.
    until: AtomicU64,
    /// Whether the next block is being reserved.
    ahead: AtomicBool,
    /// Held while a block is reserved, so that the record never goes back.
    writing: Mutex<()>,
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
        let reserved = Reserved {
            register,
            name,
            until: AtomicU64::new(last),
            ahead: AtomicBool::new(false),
            writing: Mutex::new(()),
        };
        Self {
            last,
            kept: Some(Arc::new(reserved)),
        }
    }

    /// Numbers that no other host has handed out, and no earlier start of this one: they begin anywhere below 2^52, so that whoever
    /// counts up to 2^53 can count on.
    pub(crate) fn anywhere() -> Self {
        let random = Uuid::new_v4().as_u128() as u64;
        Self {
            last: (random >> 12).max(1),
            kept: None,
        }
    }

    /// Numbers of which nothing outlives the process.
    pub fn unkept() -> Self {
        Self { last: 1, kept: None }
    }

    /// The last number handed out.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "they never end")]
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        if let Some(reserved) = &self.kept {
            reserved.cover(self.last);
        }
        self.last
    }
}

impl Reserved {
    /// Sees to it that a number is reserved, and that the numbers after it will be before they are wanted.
    fn cover(self: &Arc<Self>, number: u64) {
        let until = self.until.load(Ordering::Acquire);
        // One number of a block stays unused, so that what is reserved is above all that was used.
        if number >= until {
            self.reserve(number - 1 + BLOCK);
        } else if until - number < BLOCK / 2
            && let Ok(runtime) = Handle::try_current()
            && !self.ahead.swap(true, Ordering::AcqRel)
        {
            let this = self.clone();
            runtime.spawn_blocking(move || this.reserve(until + BLOCK));
        }
    }

    fn reserve(&self, until: u64) {
        let _writing = self.writing.lock();
        if until > self.until.load(Ordering::Acquire) {
            if let Err(error) = self.keep(until) {
                // Going on is right: numbers stay in order now, and only a crash before the next block could repeat some.
                tracing::error!("cannot reserve sequence numbers: {error}");
            }
            self.until.store(until, Ordering::Release);
        }
        self.ahead.store(false, Ordering::Release);
    }

    fn keep(&self, until: u64) -> Result<(), RegisterError> {
        self.register.set(self.name, &until)?;
        Ok(self.register.sync()?)
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
    use std::{fs, path::Path, thread::ThreadId};

    use serde_json::value::RawValue;

    use super::*;
    use crate::registers::{Entry, FileRegisters};

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

    /// Registers that tell which threads set something.
    struct Watched {
        all: FileRegisters,
        set_by: Mutex<std::sync::mpsc::Sender<ThreadId>>,
    }

    impl Registers for Watched {
        fn get(&self, key: &str) -> Option<Entry> {
            self.all.get(key)
        }

        fn list(&self, prefix: &str) -> Vec<(String, Entry)> {
            self.all.list(prefix)
        }

        fn set_all(&self, records: Vec<(String, Option<Box<RawValue>>)>) -> Result<u64, RegisterError> {
            let _ = self.set_by.lock().send(std::thread::current().id());
            self.all.set_all(records)
        }

        fn revision(&self) -> u64 {
            self.all.revision()
        }

        fn sync(&self) -> std::io::Result<()> {
            self.all.sync()
        }
    }

    #[tokio::test]
    async fn whoever_wants_a_number_waits_for_the_disk_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r");
        let (set_by, sets) = std::sync::mpsc::channel();
        let registers: Arc<dyn Registers> = Arc::new(Watched {
            all: FileRegisters::open(file.clone(), false).unwrap(),
            set_by: Mutex::new(set_by),
        });
        let mut counter = Counter::open(&registers, "test");
        let here = std::thread::current().id();
        counter.next();
        assert_eq!(sets.recv().unwrap(), here);
        for _ in 0..3 {
            let until = counter.kept.as_ref().unwrap().until.load(Ordering::Acquire);
            while counter.next() < until - BLOCK / 2 {}
            counter.next();
            assert_ne!(sets.recv().unwrap(), here);
            // Nobody counts so fast that it would not be there in time.
            while counter.kept.as_ref().unwrap().until.load(Ordering::Acquire) == until {
                tokio::task::yield_now().await;
            }
        }
        let last = counter.last();
        drop((counter, registers));
        assert!(open(&file).next() > last);
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
