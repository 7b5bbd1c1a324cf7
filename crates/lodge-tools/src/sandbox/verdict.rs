//! Decides whether a command failed because of the jail.
//!
//! The kernel does not say, so the decision is based on the command's output. If it is wrong, a person is asked about a
//! command that would have failed anyway. Nothing worse can happen, because a jailed command changes nothing.

use std::path::Path;

/// How programs say that they were refused something.
const REFUSALS: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "function not implemented",
    "cannot allocate memory",
    "out of memory",
    "resource temporarily unavailable",
    "file size limit exceeded",
    "file too large",
    "too many open files",
    "eacces",
    "eperm",
    "erofs",
    "dubious ownership",
];

/// What a shell says of a program that may not be run.
const NOT_EXECUTABLE: i32 = 126;
/// The launcher's message when this place cannot have a jail.
pub(super) const NO_JAIL: i32 = 125;
/// Ended by a signal of the system's: the number of a bad system call, of too large a file, of too much time.
const STOPPED: &[i32] = &[128 + 31, 128 + 25, 128 + 24];

/// Whether to blame the jail for how a command in `cwd` ended that is made of `programs`.
pub(crate) fn blames_jail(code: i32, output: &str, cwd: &Path, programs: &[String]) -> bool {
    if code == NOT_EXECUTABLE || code == NO_JAIL || STOPPED.contains(&code) {
        return true;
    }
    output.lines().any(|line| {
        let lower = line.to_lowercase();
        let Some(refusal) = REFUSALS.iter().find(|refusal| lower.contains(**refusal)) else {
            return false;
        };
        // In a pipeline all may end well although a part was refused something; then only a complaint in the usual form
        // counts, because the words may as well stand in a file that was read.
        let complaint = lower.trim_end().ends_with(refusal) && begins_with_program(line, programs);
        (code != 0 || complaint) && !refused_anyway(line, cwd)
    })
}

fn begins_with_program(line: &str, programs: &[String]) -> bool {
    let Some((name, _)) = line.split_once(": ") else {
        return false;
    };
    let name = name.rsplit('/').next().unwrap_or(name);
    let called = |program: &String| program.split(' ').next() == Some(name);
    ["bash", "sh", "fatal", "error", "warning"].contains(&name) || programs.iter().any(called)
}

/// Whether the line is about a file that the person may not read either.
fn refused_anyway(line: &str, cwd: &Path) -> bool {
    line.split(": ").any(|part| {
        let name = part
            .trim_start_matches("cannot open ")
            .trim_start_matches("cannot access ")
            .trim_matches(['\'', '"', '`', '‘', '’']);
        let path = cwd.join(name);
        let exists = !name.is_empty() && path.symlink_metadata().is_ok();
        exists && rustix::fs::access(&path, rustix::fs::Access::READ_OK).is_err()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jail_is_blamed_for_refusals_and_for_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("readable"), "").unwrap();
        for (code, output, programs, expected) in [
            (0, "a\nb\n", "ls", false),
            (1, "grep: no match", "grep", false),
            (1, "cat: readable: Permission denied\n", "cat", true),
            (2, "ls: cannot open directory '/x': Permission denied\n", "ls", true),
            (1, "touch: cannot touch 'x': Read-only file system", "touch", true),
            (
                128,
                "fatal: detected dubious ownership in repository at '/x'",
                "git log",
                true,
            ),
            (
                1,
                "Error: listen EPERM: operation not permitted 127.0.0.1:80",
                "node",
                true,
            ),
            (126, "", "x", true),
            (125, "", "x", true),
            (159, "", "x", true),
            (137, "", "x", false),
            // A pipeline that ended well.
            (0, "cat: readable: Permission denied\n0\n", "cat|wc", true),
            (0, "bash: readable: Permission denied\n", "wc", true),
            (0, "src/a.rs: \"permission denied\"\n", "grep", false),
            (0, "log.txt: cat: x: Permission denied\n", "grep", false),
        ] {
            let programs: Vec<String> = programs.split('|').map(str::to_owned).collect();
            assert_eq!(
                blames_jail(code, output, dir.path(), &programs),
                expected,
                "{code} {output}"
            );
        }
    }
}
