//! The files that a request is about.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

use crate::paths;

/// Names looked at, and found, for the patterns of one command before they count as unknown.
const MAX_NAMES: usize = 5000;
const MAX_FOUND: usize = 1000;
/// Longer and deeper paths count as unknown: comparing them with rules takes the square of that.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 128;

/// What was spent on the patterns of one command.
#[derive(Default)]
pub(super) struct Looked {
    names: usize,
    found: usize,
}

/// The places a path of a shell command means, or `None` when that is not known before it runs.
///
/// `..` is followed as the system does it, after links; patterns are matched with what is there now, because what a
/// pattern matches may be a link to somewhere else.
pub(super) fn of_command(cwd: &Path, text: &str, looked: &mut Looked) -> Option<Vec<PathBuf>> {
    // `~name` and `~-` are directories that only the shell knows.
    let other_home = text
        .strip_prefix('~')
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let absurd = text.len() > MAX_LENGTH || text.split('/').count() > MAX_DEPTH;
    if text.contains(['$', '`', '\0']) || text.is_empty() || other_home || absurd {
        return None;
    }
    let path = paths::in_directory(cwd, text);
    if !text.contains(['*', '?', '[']) {
        return Some(vec![paths::real(&path).ok()?]);
    }
    let mut found = vec![PathBuf::from("/")];
    for part in path.components().skip(1) {
        let name = part.as_os_str().to_string_lossy();
        if !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let glob = GlobBuilder::new(&at_least(&name)).build().ok()?.compile_matcher();
        let mut next = Vec::new();
        for dir in &found {
            // What cannot be listed matches nothing.
            for entry in std::fs::read_dir(paths::real(dir).ok()?)
                .into_iter()
                .flatten()
                .flatten()
            {
                looked.names += 1;
                if looked.names > MAX_NAMES || looked.found > MAX_FOUND {
                    return None;
                }
                let file = entry.file_name();
                let hidden = file.to_string_lossy().starts_with('.') && !name.starts_with('.');
                if !hidden && glob.is_match(&file) {
                    looked.found += 1;
                    next.push(dir.join(file));
                }
            }
        }
        if next.is_empty() {
            // The shell then passes the pattern on as it is written.
            next = found.iter().map(|dir| dir.join(part)).collect();
        }
        found = next;
    }
    found.iter().map(|path| paths::real(path).ok()).collect()
}

/// A pattern that matches at least what the shell's does: which characters `[…]` means depends on the language.
fn at_least(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        // The bracket may hold brackets itself (`[[:alpha:]]`, `[]a]`), so everything up to the last one may be in it.
        match after.rsplit_once(']') {
            Some((_, after)) => {
                out.push('*');
                rest = after;
            }
            None => {
                out.push_str("[[]");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.replace('{', "[{]").replace('}', "[}]")
}

/// Whether a place is in one of the roots.
pub(super) fn inside(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Whether writing a place inside a root is more than it seems: git runs what is in `.git`, Lodge obeys `.lodge`.
pub(super) fn guarded(path: &Path, roots: &[PathBuf]) -> bool {
    roots
        .iter()
        .filter_map(|root| path.strip_prefix(root).ok())
        .any(|below| {
            below.components().any(|part| {
                let name = part.as_os_str().to_string_lossy().to_ascii_lowercase();
                name == ".git" || name == ".lodge"
            })
        })
}
