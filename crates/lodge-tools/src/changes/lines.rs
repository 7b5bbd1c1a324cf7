//! Two texts compared line by line.

use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

/// Texts longer than this are not compared line by line.
const MOST_BYTES: usize = 2 << 20;
/// After this long a difference that is right but not the shortest will do.
const PATIENCE: Duration = Duration::from_millis(300);

/// Lines added and removed. `None`: not text, or too much of it.
pub(super) fn count(old: &[u8], new: &[u8]) -> Option<(u64, u64)> {
    let (old, new) = (text(old)?, text(new)?);
    let lines = |text: &str| text.lines().count() as u64;
    if old.is_empty() || new.is_empty() {
        return Some((lines(new), lines(old)));
    }
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(PATIENCE)
        .diff_lines(old, new);
    let (mut added, mut removed) = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => added += 1,
            ChangeTag::Delete => removed += 1,
            ChangeTag::Equal => {}
        }
    }
    Some((added, removed))
}

/// The hunks of a unified diff. `None`: not text, or too much of it.
pub(super) fn hunks(old: &[u8], new: &[u8]) -> Option<String> {
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(PATIENCE)
        .diff_lines(text(old)?, text(new)?);
    Some(diff.unified_diff().context_radius(3).to_string())
}

fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > MOST_BYTES || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}
