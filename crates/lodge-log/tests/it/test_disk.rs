//! A disk that does as it is told: the real one, without waiting for the platter, and with faults on demand.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use lodge_log::{Disk, DiskFile, Mode, RealDisk, Stat};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No space left on the device.
    Full,
    /// The device failed.
    Broken,
    /// A signal came.
    Interrupted,
    /// Only half is written or read.
    Short,
    /// Half is written, and then the device is full.
    HalfThenFull,
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    fault: Fault,
    /// At the call with this number…
    at: usize,
    /// …and at all after it, until the disk is healed.
    lasting: bool,
}

#[derive(Debug, Default)]
struct Inner {
    calls: AtomicUsize,
    hit: AtomicUsize,
    syncs: AtomicUsize,
    sync_fails: AtomicBool,
    plan: parking_lot::Mutex<Option<Plan>>,
}

/// The disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestDisk(Arc<Inner>);

impl TestDisk {
    /// From now on, the call number `at` (from 0) fails; if `lasting`, all after it, too.
    pub(crate) fn plan(&self, fault: Fault, at: usize, lasting: bool) {
        *self.0.plan.lock() = Some(Plan { fault, at, lasting });
        self.0.calls.store(0, SeqCst);
        self.0.hit.store(0, SeqCst);
    }

    /// The disk is fine from now on. Says whether it ever was not.
    pub(crate) fn heal(&self) -> bool {
        *self.0.plan.lock() = None;
        self.was_hit()
    }

    pub(crate) fn was_hit(&self) -> bool {
        self.0.hit.load(SeqCst) > 0
    }

    /// Whether every sync of a file fails from now on.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.0.sync_fails.store(fail, SeqCst);
    }

    /// How often something was brought to the disk.
    pub(crate) fn syncs(&self) -> usize {
        self.0.syncs.load(SeqCst)
    }

    fn step(&self) -> Option<Fault> {
        // The catalogue reads when it likes; counting that would make the tests differ from run to run.
        if std::thread::current().name() == Some("lodge-catalogue") {
            return None;
        }
        let plan = (*self.0.plan.lock())?;
        let call = self.0.calls.fetch_add(1, SeqCst);
        // Signals do not come for ever.
        let lasting = plan.lasting && plan.fault != Fault::Interrupted;
        (call == plan.at || lasting && call > plan.at).then(|| {
            self.0.hit.fetch_add(1, SeqCst);
            plan.fault
        })
    }

    fn fail(&self) -> io::Result<()> {
        match self.step() {
            Some(Fault::Full | Fault::HalfThenFull) => Err(io::Error::from_raw_os_error(28)),
            Some(Fault::Broken) => Err(io::Error::from_raw_os_error(5)),
            Some(Fault::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
            Some(Fault::Short) | None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct TestFile {
    disk: TestDisk,
    file: Arc<dyn DiskFile>,
}

impl Disk for TestDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        self.fail()?;
        Ok(Arc::new(TestFile {
            disk: self.clone(),
            file: RealDisk.open(path, mode)?,
        }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.fail()?;
        RealDisk.create_dir(path)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.0.syncs.fetch_add(1, SeqCst);
        self.fail()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fail()?;
        RealDisk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fail()?;
        RealDisk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.fail()?;
        RealDisk.remove_dir(path)
    }

    fn dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.fail()?;
        RealDisk.dirs(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.fail()?;
        RealDisk.exists(path)
    }
}

impl DiskFile for TestFile {
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.disk.step() {
            Some(fault @ (Fault::Short | Fault::HalfThenFull)) => {
                let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
                // The rest of the line meets a full disk, unless it was healed meanwhile.
                let mut plan = self.disk.0.plan.lock();
                if let Some(plan) = plan.as_mut().filter(|_| fault == Fault::HalfThenFull) {
                    *plan = Plan {
                        fault: Fault::Full,
                        at: 0,
                        lasting: true,
                    };
                }
                drop(plan);
                self.file.write(&[IoSlice::new(&bytes[..bytes.len().div_ceil(2)])])
            }
            Some(Fault::Full) => Err(io::Error::from_raw_os_error(28)),
            Some(Fault::Broken) => Err(io::Error::from_raw_os_error(5)),
            Some(Fault::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
            None => self.file.write(parts),
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let half = buf.len().div_ceil(2);
        match self.disk.step() {
            Some(Fault::Short) => self.file.read_at(&mut buf[..half], offset),
            Some(Fault::Broken) => Err(io::Error::from_raw_os_error(5)),
            Some(Fault::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
            // A full disk reads well.
            Some(Fault::Full | Fault::HalfThenFull) | None => self.file.read_at(buf, offset),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.0.syncs.fetch_add(1, SeqCst);
        if self.disk.0.sync_fails.load(SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.disk.fail()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.fail()?;
        self.file.set_len(len)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.disk.fail()?;
        self.file.stat()
    }
}
