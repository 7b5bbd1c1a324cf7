//! Where the shell may be while it runs a command.
//!
//! `cd` may succeed or not, so that there may be several directories; a path counts from all of them.

use std::collections::BTreeSet;

/// Directories a command may be in at the same time before they count as unknown.
const MAX_DIRS: usize = 8;
/// A directory that is only known when the command runs.
pub(super) const UNKNOWN_DIR: &str = "$PWD";

/// Where the shell may be, and after success or failure of what was run.
pub(super) type Dirs = BTreeSet<String>;

pub(super) struct Outcome {
    pub(super) success: Dirs,
    pub(super) failure: Dirs,
}

impl Outcome {
    pub(super) fn same(dirs: Dirs) -> Self {
        Self {
            success: dirs.clone(),
            failure: dirs,
        }
    }

    pub(super) fn either(self) -> Dirs {
        &self.success | &self.failure
    }
}

pub(super) fn with(mut dirs: Dirs, dir: &str) -> Dirs {
    dirs.insert(dir.to_owned());
    dirs
}

/// The directories after `cd`, or the unknown one.
pub(super) fn moved(dirs: &Dirs, to: Option<&str>) -> Dirs {
    match to {
        Some(to) if dirs.len() <= MAX_DIRS => dirs.iter().map(|dir| join(dir, to)).collect(),
        _ => with(Dirs::new(), UNKNOWN_DIR),
    }
}

/// A path as seen from a directory; `..` stays, because a link may stand before it.
pub(super) fn join(dir: &str, path: &str) -> String {
    if dir.is_empty() || path.starts_with('/') || path.starts_with('~') {
        return path.to_owned();
    }
    format!("{}/{path}", dir.trim_end_matches('/'))
}
