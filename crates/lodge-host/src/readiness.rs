//! Whether the disk of the home is writable, and how full it is. The answer is cached for a second, so that requests cannot cause
//! a write each.

use std::{
    io, mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use lodge_log::Store as _;
use parking_lot::Mutex;

use crate::{Host, blocking::run_blocking};

const REMEMBERED: Duration = Duration::from_secs(1);

type Writable = Result<(), Arc<io::Error>>;

/// The last answer, and when it was found.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Writable)>>);

impl Host {
    /// Whether the home can be written. The disk is asked at most once a second.
    pub async fn check_writable(&self) -> Result<(), Arc<io::Error>> {
        let host = self.clone();
        let check = move || host.inner().readiness.check(host.home().path());
        run_blocking(check).await?
    }

    /// What is in the home, and how much room there is.
    pub async fn home_use(&self) -> HomeUse {
        let host = self.clone();
        let look = move || {
            let disk = rustix::fs::statvfs(host.home().path()).ok();
            let bytes = |blocks: u64, size: u64| blocks.saturating_mul(size);
            HomeUse {
                sessions: host.home().sessions().list().ok().map(|all| all.len()),
                free: disk.as_ref().map(|disk| bytes(disk.f_bavail, disk.f_frsize)),
                size: disk.as_ref().map(|disk| bytes(disk.f_blocks, disk.f_frsize)),
            }
        };
        run_blocking(look).await.unwrap_or_default()
    }
}

/// What is in a home, as far as the disk tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct HomeUse {
    /// How many sessions.
    pub sessions: Option<usize>,
    /// Bytes left on its disk.
    pub free: Option<u64>,
    /// Bytes of its disk.
    pub size: Option<u64>,
}

impl Readiness {
    fn check(&self, home: &Path) -> Writable {
        // Held while the disk is asked, so that everybody who waits shares the answer.
        let mut last = self.0.lock();
        let fresh = mem::take(&mut *last).filter(|(when, _)| when.elapsed() < REMEMBERED);
        let (when, result) = fresh.unwrap_or_else(|| (Instant::now(), write_probe(home).map_err(Arc::new)));
        *last = Some((when, result.clone()));
        result
    }
}

fn write_probe(home: &Path) -> io::Result<()> {
    let probe = home.join(format!(".ready-{}", uuid::Uuid::new_v4()));
    // Some data: a full disk lets empty files be made.
    let written = std::fs::write(&probe, [0; 512]);
    let _ = std::fs::remove_file(probe);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_asked_once_for_many_questions() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let readiness = Readiness::default();
        readiness.check(&home).unwrap();
        let asked = |readiness: &Readiness| readiness.0.lock().as_ref().unwrap().0;
        let first = asked(&readiness);
        std::fs::remove_dir(&home).unwrap();
        // Whether the second is over depends on the machine; either way the answer fits the time it was made.
        let again = readiness.check(&home);
        assert_eq!(again.is_ok(), asked(&readiness) == first);
        readiness.0.lock().as_mut().unwrap().0 -= REMEMBERED;
        readiness.check(&home).unwrap_err();
    }
}
