//! Commands that show file contents without naming the files: path rules cannot be checked against them by name.

use std::path::{Path, PathBuf};

use lodge_events::{CommandSegment, PermissionRequest, ShellPermission};

use super::pattern;

/// Whether a request shows contents of files that it does not name, and one of them may fit a pattern.
/// `places` are those that it names, as far as they are known; `roots` those that it searches when it names none.
pub(super) fn may_find(
    request: &PermissionRequest,
    places: &[&PathBuf],
    roots: &[PathBuf],
    glob: &str,
    base: &Path,
) -> bool {
    let searches = match request {
        PermissionRequest::Shell(shell) => searches(shell, places),
        PermissionRequest::Read(_) => places.iter().any(|place| place.is_dir()),
        _ => false,
    };
    if !searches {
        return false;
    }
    let start = pattern::beginning(glob, base);
    let real = std::fs::canonicalize(&start).unwrap_or_else(|_| start.clone());
    let searched: Vec<&PathBuf> = match request {
        PermissionRequest::Read(_) => places.to_vec(),
        _ => places.iter().copied().chain(roots).collect(),
    };
    searched.into_iter().any(|dir| {
        [&start, &real]
            .iter()
            .any(|start| below(start, dir) || below(dir, start))
    })
}

/// Whether a path lies in a directory. Patterns that hide files do not care about case.
fn below(path: &Path, dir: &Path) -> bool {
    let lower = |path: &Path| PathBuf::from(path.to_string_lossy().to_lowercase());
    lower(path).starts_with(lower(dir))
}

fn searches(shell: &ShellPermission, places: &[&PathBuf]) -> bool {
    let segments = shell.command_segments.as_deref().unwrap_or_default();
    let compares_directories =
        |segment: &CommandSegment| segment.identifier == "diff" && places.iter().any(|place| place.is_dir());
    if !segments
        .iter()
        .any(|segment| shows_unnamed(segment) || compares_directories(segment))
    {
        return false;
    }
    // One program that names nothing but files shows nothing but these. Of several it is not known who names what.
    let only_files = segments.len() == 1 && !places.is_empty() && places.iter().all(|place| place.is_file());
    !only_files
}

/// Whether a program may show more than the files that it names. Names of files are no secret, so `ls` and `find` do not count.
fn shows_unnamed(segment: &CommandSegment) -> bool {
    let words = || segment.full_command_text.split_whitespace().skip(1);
    let short = |letters: &[char]| {
        words().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    let long = |names: &[&str]| words().any(|word| names.iter().any(|name| word.starts_with(name)));
    match segment.identifier.as_str() {
        "rg" | "ag" | "git grep" | "git diff" | "git show" | "git stash show" | "git cat-file" => true,
        "grep" | "egrep" | "fgrep" => short(&['r', 'R', 'd']) || long(&["--r", "--d"]),
        "git log" | "git whatchanged" | "git reflog" | "git reflog show" | "git stash list" => {
            short(&['p', 'u', 'U', 'S', 'G', 'L'])
                || long(&["--patch", "--unified", "--word-diff", "--color-words", "--binary"])
        }
        _ => false,
    }
}
