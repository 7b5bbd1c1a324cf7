//! Limits on all processes of a jailed command together. The kernel's limits apply to each process alone, and users can
//! rarely create control groups, so usage is checked from time to time.

use std::time::Duration;

use crate::process::Group;

/// How often somebody looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What a command may use before it is ended.
pub(crate) struct JailBounds {
    processes: usize,
    /// Memory of its own, in bytes.
    memory: u64,
    /// It is counted once the machine has so much less than before.
    worth_counting: u64,
}

impl JailBounds {
    /// 256 processes; 4 GB of memory, or half of what the machine has.
    pub(crate) fn here() -> Self {
        let total = Machine::now().total;
        let most = 4 << 30;
        Self {
            processes: 256,
            memory: if total > 0 { most.min(total / 2) } else { most },
            worth_counting: 256 << 20,
        }
    }
}

/// Ends when a command uses too much, with the reason. To look at the whole machine is cheap; only when it has changed a lot
/// the processes of the command are counted.
pub(crate) async fn exceeds(group: &Group, bounds: &JailBounds) -> &'static str {
    let before = Machine::now();
    loop {
        tokio::time::sleep(PAUSE).await;
        let now = Machine::now();
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
#[allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
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
            };
            let reason = exceeds(&group, &bounds).await;
            group.end_remains();
            assert!(reason.contains(expected), "{command}: {reason}");
        }
    }
}
