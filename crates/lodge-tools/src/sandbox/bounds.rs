//! Limits on all processes of a jailed command together. The kernel's limits apply to each process alone, and users can
//! rarely create control groups, so usage is checked from time to time.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::process::Group;

/// How long a jailed command may run.
pub(crate) const JAILED_TIME: Duration = Duration::from_secs(120);
/// How many bytes it may print.
pub(crate) const JAILED_OUTPUT: u64 = 16 << 20;
/// How often usage is checked.
const PAUSE: Duration = Duration::from_millis(50);

/// What a command may use before it is ended.
pub(crate) struct JailBounds {
    processes: usize,
    /// Memory of its own, in bytes.
    memory: u64,
    /// Memory and disk space are counted once the machine has so much less than before.
    worth_counting: u64,
    /// What it may keep in its private directory: bytes, and entries.
    disk: Disk,
}

impl JailBounds {
    /// 256 processes; 4 GB of memory, or half of what the machine has; 1 GB on the disk.
    pub(crate) fn here() -> Self {
        let total = Machine::now().total;
        let most = 4 << 30;
        Self {
            processes: 256,
            memory: if total > 0 { most.min(total / 2) } else { most },
            worth_counting: 256 << 20,
            disk: Disk {
                bytes: 1 << 30,
                entries: 200_000,
            },
        }
    }
}

/// Ends when a command uses too much, with the reason. To look at the whole machine is cheap; only when it has changed a lot
/// the processes of the command are counted, or what is in its private directory.
pub(crate) async fn exceeds(group: &Group, bounds: &JailBounds, private: &Path) -> &'static str {
    let before = Machine::now();
    let disk_before = Disk::free(private);
    loop {
        tokio::time::sleep(PAUSE).await;
        let now = Machine::now();
        if let Some(reason) = exceeds_disk(bounds, private, disk_before).await {
            return reason;
        }
        // Not all memory belongs to a process: this also holds for what the kernel keeps for it.
        let scarce = now.total / 16;
        if now.available < scarce && before.available > 2 * scarce {
            return "the machine was running out of memory";
        }
        let fewer = now.threads <= before.threads + bounds.processes;
        if fewer && now.available + bounds.worth_counting > before.available {
            continue;
        }
        let used = group.usage();
        if used.processes > bounds.processes {
            return "it started more than 256 processes";
        }
        if used.memory > bounds.memory {
            return "its processes used more than 4 GB of memory, or half of the machine's";
        }
    }
}

/// The same for what it writes.
async fn exceeds_disk(bounds: &JailBounds, private: &Path, before: Disk) -> Option<&'static str> {
    let now = Disk::free(private);
    // A file that was deleted while it is open is in no directory, and takes its place.
    if now.bytes < before.bytes / 8 {
        return Some("the disk was running out of space");
    }
    let entries_worth_counting = bounds.disk.entries / 8;
    if now.bytes + bounds.worth_counting > before.bytes && now.entries + entries_worth_counting > before.entries {
        return None;
    }
    let (private, most) = (private.to_owned(), bounds.disk);
    let is_over = tokio::task::spawn_blocking(move || Disk::is_exceeded(private, most));
    is_over
        .await
        .unwrap_or(true)
        .then_some("it wrote more than 1 GB, or more than 200,000 files")
}

/// Place on a disk.
#[derive(Debug, Clone, Copy, Default)]
struct Disk {
    bytes: u64,
    entries: u64,
}

impl Disk {
    /// What is free where a directory is. 0 where that is not known.
    fn free(dir: &Path) -> Self {
        let found = rustix::fs::statvfs(dir);
        found.map_or_else(
            |_| Self::default(),
            |found| Self {
                bytes: found.f_bavail.saturating_mul(found.f_frsize),
                entries: found.f_favail,
            },
        )
    }

    /// Whether there is more in a directory. What is too deep to be looked at, or closed, counts as more.
    fn is_exceeded(dir: PathBuf, most: Self) -> bool {
        Self::is_exceeded_in(vec![dir], most)
    }

    fn is_exceeded_in(mut dirs: Vec<PathBuf>, most: Self) -> bool {
        let mut used = Self::default();
        while let Some(dir) = dirs.pop() {
            // What is gone by now counts for nothing, and what is left still does.
            let Ok(entries) = std::fs::read_dir(&dir) else {
                if dir.exists() {
                    return true;
                }
                continue;
            };
            for entry in entries.flatten() {
                let Ok(found) = entry.metadata() else { continue };
                used.bytes += found.blocks() * 512;
                used.entries += 1;
                if found.is_dir() {
                    dirs.push(entry.path());
                }
                if used.bytes > most.bytes || used.entries > most.entries {
                    return true;
                }
            }
        }
        false
    }
}

/// What is going on on this machine. 0 where that is not known.
#[derive(Default)]
struct Machine {
    threads: usize,
    total: u64,
    available: u64,
}

impl Machine {
    fn now() -> Self {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let bytes = |name: &str| -> Option<u64> {
            let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
            let number: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(number << 10)
        };
        Self {
            threads: threads().unwrap_or(0),
            total: bytes("MemTotal:").unwrap_or(0),
            available: bytes("MemAvailable:").unwrap_or(0),
        }
    }
}

/// How many threads there are on this machine.
pub(super) fn threads() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a command in a group of its own.
    fn start(command: &str) -> (tokio::process::Child, Group) {
        let child = tokio::process::Command::new("bash")
            .args(["-c", command])
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let group = Group::led_by(&child, "bounds").unwrap();
        (child, group)
    }

    #[test]
    fn what_a_command_keeps_on_the_disk_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let most = |bytes, entries| Disk { bytes, entries };
        let is_exceeded = |most| Disk::is_exceeded(dir.path().to_owned(), most);
        assert!(!is_exceeded(most(0, 0)));
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/file"), [1; 64 << 10]).unwrap();
        assert!(!is_exceeded(most(1 << 20, 3)));
        assert!(is_exceeded(most(1 << 20, 2)));
        assert!(is_exceeded(most(32 << 10, 3)));
        let gone = dir.path().join("gone");
        assert!(!Disk::is_exceeded(gone.clone(), most(0, 0)));
        // The last one is looked at first.
        assert!(Disk::is_exceeded_in(vec![dir.path().to_owned(), gone], most(0, 0)));
    }

    #[tokio::test]
    async fn what_processes_use_together_is_bounded() {
        // None of them alone is too large.
        let large = "for i in 1 2 3 4; do perl -e '$x = q(a) x 40e6; sleep 100' & done; wait";
        let many = "for i in {1..40}; do sleep 100 & done; wait";
        for (command, processes, memory, expected) in
            [(large, 256, 100 << 20, "memory"), (many, 30, 4 << 30, "processes")]
        {
            let (_child, group) = start(command);
            let bounds = JailBounds {
                processes,
                memory,
                worth_counting: 0,
                ..JailBounds::here()
            };
            let private = tempfile::tempdir().unwrap();
            let reason = exceeds(&group, &bounds, private.path()).await;
            group.end_remains();
            assert!(reason.contains(expected), "{command}: {reason}");
        }
    }
}
