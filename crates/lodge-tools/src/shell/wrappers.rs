//! Words that are not programs: shell keywords and builtins, and programs that run another program.

use super::{
    parser::{Simple, Word, is_name},
    programs::name_of,
};

/// Words of the shell's language, commands that change how it goes on, and programs that run what they are given in ways
/// that are not looked into. A command that begins with one is not understood.
#[rustfmt::skip]
const OPAQUE: &[&str] = &[
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "until", "while",
    ".", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "compgen", "complete", "compopt", "continue",
    "declare", "dirs", "disown", "enable", "eval", "exec", "exit", "export", "fc", "fg", "getopts", "hash", "history",
    "jobs", "let", "local", "logout", "mapfile", "popd", "pushd", "read", "readarray", "readonly", "return", "set",
    "shift", "shopt", "source", "suspend", "times", "trap", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
    "ash", "busybox", "chroot", "chrt", "entr", "expect", "flock", "gdb", "ionice", "ltrace", "nsenter", "parallel",
    "pkexec", "runuser", "script", "setsid", "strace", "su", "taskset", "toybox", "unshare", "watch",
];

/// Shells: only a file is something to know them by.
const SHELLS: &[&str] = &["bash", "csh", "dash", "fish", "ksh", "pwsh", "sh", "tcsh", "zsh"];

/// Wrappers that are understood: their options that take a value, those that do not, and arguments to pass over.
#[rustfmt::skip]
const WRAPPERS: &[(&str, &[&str], &[&str], usize)] = &[
    ("command", &[], &[], 0),
    ("doas", &["-u"], &["-n"], 0),
    ("env", &[], &[], 0),
    ("nice", &["-n"], &[], 0),
    ("nohup", &[], &[], 0),
    ("stdbuf", &["-i", "-o", "-e"], &["-oL", "-o0", "-eL", "-e0", "-i0"], 0),
    ("sudo", &["-u", "-g"], &["-E", "-H", "-n"], 0),
    ("time", &[], &["-p"], 0),
    ("timeout", &["-k", "-s"], &["-v", "--foreground", "--preserve-status"], 1),
    ("xargs", &["-n", "-P", "-L"], &["-0", "-r", "-t", "-0r", "-r0"], 0),
];

/// The program that is really run.
pub(super) struct Inner<'a> {
    pub(super) words: &'a [Word],
    /// What precedes it and changes its meaning: variables, another user, an output file.
    pub(super) prefix: Vec<&'a str>,
    /// Whether its arguments are all that it gets.
    pub(super) checked: bool,
}

/// What a command runs; `None` when that is not understood.
pub(super) fn unwrap(simple: &Simple) -> Option<Inner<'_>> {
    let mut prefix: Vec<&str> = simple.assignments.iter().map(|word| word.text.as_str()).collect();
    let mut words = simple.words.as_slice();
    let mut checked = true;
    loop {
        let first = words.first().filter(|word| !word.glob && !word.home)?;
        let name = name_of(&first.text);
        let usual = |b: u8| b.is_ascii_alphanumeric() || b"_-./+:@[".contains(&b);
        if name.is_empty() || !name.bytes().all(usual) || OPAQUE.contains(&name) {
            return None;
        }
        if SHELLS.contains(&name) && words.get(1).is_none_or(|word| word.text.starts_with('-')) {
            return None;
        }
        let wrapper = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name);
        let looks_up = name == "command"
            && words
                .get(1)
                .is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V"));
        let Some((_, values, flags, skip)) = wrapper.filter(|_| !looks_up) else {
            return Some(Inner { words, prefix, checked });
        };
        let mut own = 1;
        while let Some(option) = words.get(own).filter(|word| word.text.starts_with('-')) {
            let text = option.text.as_str();
            own += match (values.contains(&text), flags.contains(&text)) {
                (true, _) => 2,
                (_, true) => 1,
                _ => return None,
            };
        }
        own += skip;
        if name == "env" {
            let set = words[own..].iter().take_while(|word| sets_variable(word)).count();
            prefix.extend(words[own..own + set].iter().map(|word| word.text.as_str()));
            own += set;
        }
        // What stands for names of files could be several words, and the program another one.
        if words.get(..own)?.iter().any(|word| word.glob) {
            return None;
        }
        let options = words[1..own].iter().map(|word| word.text.as_str());
        match name {
            // As whom it runs is part of what runs.
            "sudo" | "doas" | "nohup" => prefix.extend([name].into_iter().chain(options)),
            // Nothing is known about the arguments that it adds.
            "xargs" => checked = false,
            _ => {}
        }
        words = &words[own..];
    }
}

/// Whether a word sets a variable, as `env` reads it.
fn sets_variable(word: &Word) -> bool {
    word.text.split_once('=').is_some_and(|(name, _)| is_name(name))
}
