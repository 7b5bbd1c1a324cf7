//! Whether the home can be written, remembered for a second: whoever may ask must not cause a write per request.

use std::{
    io, mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::Host;

const REMEMBERED: Duration = Duration::from_secs(1);

type Writable = Result<(), Arc<io::Error>>;

/// The last answer, and when it was found.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Writable)>>);

impl Host {
    /// Whether the home can be written. Blocks on the disk, at most once a second.
    pub fn check_writable(&self) -> Result<(), Arc<io::Error>> {
        self.inner().readiness.check(self.home().path())
    }
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
