//! The lock on a home: who has it may write there.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::disk::private_file;
use crate::error::LogError;

const LOCK_FILE: &str = "lodge.lock";
/// How long the lock of a process that is gone may outlive it: a program that it was starting has the file until it runs.
const INHERITED: Duration = Duration::from_secs(5);

/// A lock on a home, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HomeLock(File);

impl HomeLock {
    /// The file that is locked.
    pub(crate) fn path(home: &Path) -> PathBuf {
        home.join(LOCK_FILE)
    }

    /// Locks a home. [`LogError::Locked`] if somebody else has it.
    pub(crate) fn take(home: &Path, exclusive: bool) -> Result<HomeLock, LogError> {
        let path = HomeLock::path(home);
        let mut file = private_file()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(LogError::io("open", &path))?;
        let patience = Instant::now() + INHERITED;
        loop {
            let tried = if exclusive {
                file.try_lock()
            } else {
                file.try_lock_shared()
            };
            match tried {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(LogError::io("lock", &path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            let owner = owner(&mut file);
            if owner.is_none_or(is_running) || Instant::now() > patience {
                return Err(LogError::Locked {
                    path: home.to_owned(),
                    pid: owner,
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // The lock is what counts; the number is for the message that a second host shows, and for its patience.
        if let Err(error) = write_owner(&mut file) {
            tracing::debug!(%error, "cannot write the process id into the lock file");
        }
        Ok(HomeLock(file))
    }
}

/// Closing the file would not do: a program that is just being started has it until it runs.
impl Drop for HomeLock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "cannot unlock the home; it is unlocked when this process ends");
        }
    }
}

/// The process that last locked the home.
fn owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).ok()?;
    text.trim().parse().ok()
}

fn write_owner(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Whether there is such a process. Where that cannot be known, there may be one.
#[cfg(unix)]
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_running(_pid: u32) -> bool {
    true
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that has ended, and was waited for.
    fn gone() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn a_lock_is_given_back_also_when_another_process_has_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let lock = HomeLock::take(dir.path(), true).unwrap();
        let inherited = Stdio::from(lock.0.try_clone().unwrap());
        let mut child = Command::new("sleep").arg("60").stdin(inherited).spawn().unwrap();
        drop(lock);
        let again = HomeLock::take(dir.path(), true);
        child.kill().unwrap();
        child.wait().unwrap();
        again.unwrap();
    }

    #[test]
    fn the_lock_of_a_process_that_is_gone_is_waited_for_and_that_of_a_running_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut held = HomeLock::take(dir.path(), true).unwrap();
        let refused = HomeLock::take(dir.path(), true).unwrap_err();
        assert!(matches!(refused, LogError::Locked { pid: Some(pid), .. } if pid == std::process::id()));

        held.0.set_len(0).unwrap();
        held.0.rewind().unwrap();
        writeln!(held.0, "{}", gone()).unwrap();
        let (home, begun) = (dir.path().to_owned(), std::sync::mpsc::channel());
        let waiting = std::thread::spawn(move || {
            begun.0.send(()).unwrap();
            HomeLock::take(&home, true)
        });
        begun.1.recv().unwrap();
        // Long enough for a refusal, were there one.
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
        waiting.join().unwrap().unwrap();
    }
}
