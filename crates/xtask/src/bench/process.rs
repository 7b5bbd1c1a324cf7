//! What a process and its children use, as the kernel counts it.

use std::{fs, time::Duration};

/// A process and all its descendants.
fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let tasks = fs::read_dir(format!("/proc/{}/task", found[at]))
            .into_iter()
            .flatten()
            .flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
        at += 1;
    }
    found
}

/// Processor time used so far.
pub(super) fn cpu(pid: u32) -> Duration {
    let threads = tree(pid).into_iter().flat_map(|pid| {
        fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
    });
    let used = |text: String| text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    Duration::from_nanos(
        threads
            .filter_map(|task| used(fs::read_to_string(task.path().join("schedstat")).ok()?))
            .sum(),
    )
}

/// Resident memory in bytes.
pub(super) fn memory(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// Highest resident memory since the last [`forget_peak`], in bytes.
pub(super) fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

/// Starts the count of the highest memory anew.
pub(super) fn forget_peak(pid: u32) {
    for pid in tree(pid) {
        // Where the kernel does not allow it, the peak is the one since the start: worse for us, never better.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

fn status(pid: u32, field: &str) -> u64 {
    let one = |pid: u32| -> u64 {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .unwrap_or_default();
        line.split_whitespace()
            .next()
            .and_then(|kb| kb.parse::<u64>().ok())
            .unwrap_or(0)
            * 1024
    };
    tree(pid).into_iter().map(one).sum()
}
