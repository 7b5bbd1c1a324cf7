//! Warnings for dangerous commands.

use lodge_events::ShellCommand;

/// Whether something is downloaded and something runs what it is given.
pub(super) fn runs_download(commands: &[ShellCommand]) -> bool {
    let runs = |names: &[&str]| {
        let mut words = commands.iter().flat_map(|command| command.identifier.split(' '));
        words.any(|word| names.contains(&word))
    };
    runs(&["curl", "wget"]) && runs(&["sh", "bash", "zsh", "dash", "python3", "python", "node"])
}

/// Whether a command is not what it looks like: some characters change the direction of text, hide in it or look like blanks.
pub(crate) fn misleads(command: &str) -> bool {
    let hides = |c: char| {
        matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
            || c.is_control() && !matches!(c, '\n' | '\t')
    };
    // In some scripts, and in pictures, these join what stands around them.
    let joins = |c: char| matches!(c, '\u{200c}' | '\u{200d}');
    let letters: Vec<char> = command.chars().collect();
    let is_foreign = |at: Option<usize>| {
        at.and_then(|at| letters.get(at))
            .is_some_and(|c| !c.is_ascii() && !hides(*c))
    };
    let is_joiner = |at: usize| joins(letters[at]) && is_foreign(at.checked_sub(1)) && is_foreign(Some(at + 1));
    (0..letters.len()).any(|at| hides(letters[at]) && !is_joiner(at))
}

/// What is risky about a call of a program.
pub(super) fn warning(command: &str) -> Option<&'static str> {
    let mut words = command.split_whitespace();
    let name = words.next()?;
    let args: Vec<&str> = words.collect();
    let short = |letters: &str| {
        args.iter()
            .any(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(|c| letters.contains(c)))
    };
    let has = |wanted: &[&str]| args.iter().any(|arg| wanted.contains(arg));
    let wide = has(&["/", "/*", "~", "~/", "~/*", ".", "./", "..", "*", "$HOME"]);
    Some(match name {
        "sudo" | "doas" => "Runs with administrator rights.",
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
