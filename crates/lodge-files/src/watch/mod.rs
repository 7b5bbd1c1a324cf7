//! Watches: changes of files, reported as they happen.

mod filter;
mod tree;

use std::{
    ops::ControlFlow,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec};

pub use self::{filter::Filter, tree::Tree};
use crate::{FileError, Files};

/// How long changes are collected before they are reported.
const BATCH: Duration = Duration::from_millis(50);

/// Whether the root is still there is looked up so often.
const AGAIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// More changes than this at once are reported as one: read everything again.
const MOST_CHANGES: usize = 2000;

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// Its contents are others.
    Updated,
    /// It is gone.
    Deleted,
}

/// Paths, seen from what is watched, and what became of them.
pub type Changes = Vec<(PathBuf, Change)>;

impl Files {
    /// Looks at everything that is to be watched. What happens from then on is not missed.
    pub fn watch(&self, path: &Path, filter: Filter) -> Result<Tree, FileError> {
        Tree::new(self.watchable(path)?, filter)
    }
}

impl Tree {
    /// Reports changes until the other end of `stopped` is closed, or until `tell` returns false. Now and then it is
    /// asked with nothing to tell. This blocks.
    pub fn follow(mut self, stopped: &OwnedFd, mut tell: impl FnMut(Changes) -> ControlFlow<()>) {
        let events = self.events();
        loop {
            let mut fds = [
                PollFd::new(&*events, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            match rustix::event::poll(&mut fds, Some(&AGAIN)) {
                Ok(_) if fds[1].revents().is_empty() => {}
                Err(rustix::io::Errno::INTR) => continue,
                _ => return,
            }
            if !fds[0].revents().is_empty() {
                std::thread::sleep(BATCH);
            }
            let changes = self.changes(MOST_CHANGES);
            if tell(changes).is_break() {
                return;
            }
        }
    }
}
