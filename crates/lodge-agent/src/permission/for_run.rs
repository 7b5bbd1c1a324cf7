//! Approval modes that runs choose for as long as they last. They are in memory alone: a host that stops or is killed takes
//! them with it, and the session has its own mode again.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::settings::Approval;

/// The approval modes of runs, with the number of each run.
#[derive(Clone, Default)]
pub(crate) struct ForRuns(Arc<Mutex<Modes>>);

#[derive(Default)]
struct Modes {
    begun: u64,
    current: Vec<(u64, Approval)>,
}

/// An approval mode that holds instead of the session's own until this is dropped.
#[must_use]
pub struct ApprovalForRun {
    modes: ForRuns,
    run: u64,
}

impl ForRuns {
    pub(crate) fn begin(&self, approval: Approval) -> ApprovalForRun {
        let mut modes = self.0.lock();
        modes.begun += 1;
        let run = modes.begun;
        modes.current.push((run, approval));
        ApprovalForRun {
            modes: self.clone(),
            run,
        }
    }

    /// Somebody changed the session's own mode: it holds from now on.
    pub(crate) fn end_all(&self) {
        self.0.lock().current.clear();
    }

    /// The mode that holds instead of the session's own, if one does: a turn is not one run's alone, so of several the one
    /// that allows the least.
    pub(crate) fn strictest(&self) -> Option<Approval> {
        let modes = self.0.lock();
        let approvals = modes.current.iter().map(|(_, approval)| *approval);
        approvals.min_by_key(|approval| approval.freedom())
    }
}

impl Drop for ApprovalForRun {
    fn drop(&mut self) {
        self.modes.0.lock().current.retain(|(run, _)| *run != self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_of_the_runs_that_last_counts() {
        let runs = ForRuns::default();
        assert_eq!(runs.strictest(), None);
        let all = runs.begin(Approval::ApproveAll);
        let edits = runs.begin(Approval::AutoEdit);
        assert_eq!(runs.strictest(), Some(Approval::AutoEdit));
        drop(all);
        assert_eq!(runs.strictest(), Some(Approval::AutoEdit));
        drop(edits);
        assert_eq!(runs.strictest(), None);
        let ended = runs.begin(Approval::ApproveAll);
        runs.end_all();
        let next = runs.begin(Approval::Ask);
        drop(ended);
        assert_eq!(runs.strictest(), Some(Approval::Ask));
        drop(next);
    }
}
