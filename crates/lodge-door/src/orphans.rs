//! Makes the host the parent of orphaned processes: a daemon that a tool call started still descends from the host, so
//! it cannot use the local socket.

use std::{collections::HashSet, time::Duration};

use rustix::process::{Pid, WaitOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::{Door, ancestry::Terminals};

/// How long an ended child is left for other code that may still wait for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes this process the parent of orphans below it, and sees to it that they are gone when they end. Call it on the
/// runtime of the host.
pub fn adopt_orphans(door: &Door) {
    let me = rustix::process::getpid();
    if let Err(error) = rustix::process::set_child_subreaper(Some(me)) {
        tracing::warn!(%error, "daemons started by agents cannot be recognised as such");
        return;
    }
    let Ok(mut ended) = signal(SignalKind::child()) else {
        return;
    };
    let terminals = door.terminals.clone();
    tokio::spawn(async move {
        while ended.recv().await.is_some() {
            // The runtime waits for the host's own children within moments. What is still there after a while was adopted:
            // nobody else waits for it.
            let mut before = ended_children(me, &terminals);
            while !before.is_empty() {
                tokio::time::sleep(PATIENCE).await;
                let now = ended_children(me, &terminals);
                for pid in now.intersection(&before) {
                    let _ = rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG);
                }
                before = now.difference(&before).copied().collect();
            }
        }
    });
}

/// Children that ended and that nobody else waits for. The kernel gives orphans to the first thread of the process, which
/// starts no programs itself; it also gives it those of threads that ended, such as the shells of terminals.
fn ended_children(me: Pid, terminals: &Terminals) -> HashSet<Pid> {
    let me = me.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap_or_default();
    let pids = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    let adopted = pids.filter(|pid| !terminals.has_shell(*pid)).filter_map(Pid::from_raw);
    adopted.filter(|pid| is_zombie(*pid)).collect()
}

fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let after = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 1);
    stat[after..].trim_ascii_start().starts_with(b"Z")
}
