//! Commands people should look at twice.

use super::word::Word;

/// What is risky about a call of a program.
pub(super) fn of_call(words: &[Word]) -> Option<&'static str> {
    let name = super::programs::name_of(words.first()?.shown());
    let args: Vec<&str> = words[1..].iter().map(Word::shown).collect();
    let short = |letters: &str| {
        args.iter()
            .any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(|c| letters.contains(c)))
    };
    let has = |wanted: &[&str]| args.iter().any(|arg| wanted.contains(arg));
    let wide = args.iter().any(|arg| {
        matches!(
            *arg,
            "/" | "/*" | "~" | "~/" | "~/*" | "." | "./" | ".." | "*" | "$HOME"
        )
    });
    Some(match name {
        "rm" if (short("rR") || has(&["--recursive"])) && wide => "Deletes a whole directory tree.",
        "dd" if args.iter().any(|arg| arg.starts_with("of=/dev/")) => "Writes directly to a device.",
        "mkfs" | "fdisk" | "parted" | "wipefs" => "Changes disks.",
        _ if name.starts_with("mkfs.") => "Changes disks.",
        "shutdown" | "reboot" | "halt" | "poweroff" => "Stops the machine.",
        "chmod" | "chown" if (short("R") || has(&["--recursive"])) && wide => {
            "Changes permissions of a whole directory tree."
        }
        "git" => match args.as_slice() {
            ["push", rest @ ..]
                if rest
                    .iter()
                    .any(|arg| arg.starts_with("--force") || *arg == "-f" || arg.starts_with('+')) =>
            {
                "Overwrites history on the remote."
            }
            ["reset", rest @ ..] if rest.contains(&"--hard") => "Throws away uncommitted changes.",
            ["clean", rest @ ..] if rest.iter().any(|arg| arg.starts_with('-') && arg.contains('f')) => {
                "Deletes untracked files."
            }
            ["checkout" | "restore", rest @ ..] if rest.contains(&".") => "Throws away uncommitted changes.",
            _ => return None,
        },
        _ => return None,
    })
}

pub(super) const AS_ADMINISTRATOR: &str = "Runs with administrator rights.";
pub(super) const RUNS_DOWNLOAD: &str = "Runs what it downloads.";
pub(super) const FORK_BOMB: &str = "Starts itself without end.";
