//! Messages that were accepted and are not yet in the log. They are kept in a file beside it, so that a killed host loses
//! none of them.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{facts::Facts, settings::Prompt};

const FILE: &str = "queue.json";

/// The messages.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Lists {
    /// The process that has them; another one leaves them alone while it lives.
    pid: u32,
    /// The one whose turn has begun, until it is recorded.
    starting: Option<Prompt>,
    /// Meant for the running turn.
    pub(crate) steering: VecDeque<Prompt>,
    /// For after it.
    pub(crate) waiting: VecDeque<Prompt>,
}

impl Lists {
    /// The one that waits longest; it is kept as starting until it is recorded.
    pub(crate) fn take_next(&mut self) -> Option<Prompt> {
        self.starting = self.waiting.pop_front();
        self.starting.clone()
    }

    /// Whether a turn has begun whose message is not recorded yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    fn is_empty(&self) -> bool {
        self.starting.is_none() && self.steering.is_empty() && self.waiting.is_empty()
    }
}

/// The queue of a session.
pub(crate) struct Queue {
    lists: Mutex<(Lists, bool)>,
    /// Nowhere, for a sub-agent's: it does not outlive the host.
    path: Option<PathBuf>,
}

impl Queue {
    /// An empty one that is kept nowhere.
    pub(crate) fn in_memory() -> Self {
        Self {
            lists: Mutex::default(),
            path: None,
        }
    }

    /// What a host that is gone left behind, or nothing. What is in the log already is not taken again.
    pub(crate) fn open(dir: &Path, facts: &Facts) -> Self {
        let path = dir.join(FILE);
        let left: Option<Lists> = std::fs::read(&path)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        let mut lists = Lists {
            pid: std::process::id(),
            ..Lists::default()
        };
        let mut kept = false;
        if let Some(left) = left.filter(|left| left.pid == lists.pid || !lives(left.pid)) {
            let all = left.starting.into_iter().chain(left.steering).chain(left.waiting);
            lists.waiting = all
                .filter(|prompt| prompt.message_id != facts.last_message_id)
                .collect();
            kept = true;
        }
        Self {
            lists: Mutex::new((lists, kept)),
            path: Some(path),
        }
    }

    /// Looks at it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Lists) -> T) -> T {
        look(&self.lists.lock().0)
    }

    /// Changes it, and keeps the change.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Lists) -> T) -> T {
        let mut lists = self.lists.lock();
        let result = change(&mut lists.0);
        self.keep(&mut lists);
        result
    }

    /// The message whose turn has begun is in the log now, or nobody wants it any more.
    pub(crate) fn recorded(&self) {
        if self.look(|lists| lists.starting.is_some()) {
            self.change(|lists| lists.starting = None);
        }
    }

    /// That it cannot be kept is logged: the log itself tells clients when the disk is full.
    fn keep(&self, (lists, kept): &mut (Lists, bool)) {
        let Some(path) = &self.path else { return };
        let written = if lists.is_empty() {
            if !std::mem::take(kept) {
                return;
            }
            std::fs::remove_file(path)
        } else {
            *kept = true;
            write(path, lists)
        };
        if let Err(error) = written
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "waiting messages cannot be kept");
        }
    }
}

fn write(path: &Path, lists: &Lists) -> std::io::Result<()> {
    let temporary = path.with_extension("json.new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    serde_json::to_writer(options.open(&temporary)?, lists)?;
    std::fs::rename(temporary, path)
}

#[cfg(unix)]
fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

#[cfg(not(unix))]
fn lives(_: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(id: &str) -> Prompt {
        Prompt {
            message_id: Some(id.into()),
            ..Prompt::default()
        }
    }

    fn ids(queue: &Queue) -> Vec<String> {
        queue.look(|lists| {
            lists
                .waiting
                .iter()
                .filter_map(|prompt| prompt.message_id.clone())
                .collect()
        })
    }

    #[test]
    fn what_was_accepted_is_there_after_a_crash_but_not_twice() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(dir.path(), &Facts::default());
        queue.change(|lists| lists.waiting.push_back(prompt("a")));
        queue.change(|lists| drop(lists.take_next()));
        queue.change(|lists| lists.waiting.push_back(prompt("c")));
        queue.change(|lists| lists.steering.push_back(prompt("b")));
        assert_eq!(ids(&Queue::open(dir.path(), &Facts::default())), ["a", "b", "c"]);
        let recorded = Facts {
            last_message_id: Some("a".into()),
            ..Facts::default()
        };
        assert_eq!(ids(&Queue::open(dir.path(), &recorded)), ["b", "c"]);
        queue.recorded();
        queue.change(|lists| {
            lists.steering.clear();
            lists.waiting.clear();
        });
        assert!(!dir.path().join(FILE).exists(), "an empty queue leaves no file");
    }

    #[test]
    fn what_another_living_process_has_is_left_to_it() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, expected) in [(1, 0), (u32::MAX, 1)] {
            let lists = Lists {
                pid,
                waiting: [prompt("a")].into(),
                ..Lists::default()
            };
            write(&dir.path().join(FILE), &lists).unwrap();
            assert_eq!(
                ids(&Queue::open(dir.path(), &Facts::default())).len(),
                expected,
                "process {pid}"
            );
        }
    }
}
