//! Diffs of the old and new text of a file.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use similar::{ChangeTag, TextDiff};

use crate::FileChange;

/// So long the shortest difference is looked for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A unified diff as git writes it, and how many lines came and went.
pub(crate) fn unified(path: &Path, old: Option<&str>, new: &str) -> (String, FileChange) {
    unified_until(Instant::now() + PATIENCE, path, old, new)
}

/// The same, with a time from which on any difference will do, however long: the shortest one of long texts that have little in
/// common takes hours.
pub(crate) fn unified_until(until: Instant, path: &Path, old: Option<&str>, new: &str) -> (String, FileChange) {
    let diff = TextDiff::configure()
        .deadline(until)
        .diff_lines(old.unwrap_or_default(), new);
    let (mut added, mut removed) = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => added += 1,
            ChangeTag::Delete => removed += 1,
            ChangeTag::Equal => {}
        }
    }
    let shown = path.display().to_string();
    let shown = shown.trim_start_matches('/');
    let from = if old.is_some() {
        format!("a/{shown}")
    } else {
        "/dev/null".to_owned()
    };
    let body = diff
        .unified_diff()
        .context_radius(3)
        .header(&from, &format!("b/{shown}"))
        .to_string();
    let head = format!("diff --git a/{shown} b/{shown}\n");
    let mode = if old.is_some() { "" } else { "new file mode 100644\n" };
    (
        format!("{head}{mode}{body}"),
        FileChange {
            path: path.to_owned(),
            added,
            removed,
        },
    )
}
