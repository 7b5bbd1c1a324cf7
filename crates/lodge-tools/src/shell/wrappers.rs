//! Programs that run another program given in their arguments.

use super::word::Word;

/// What a wrapper makes of its arguments.
#[derive(Debug, PartialEq)]
pub(super) enum Wrapped {
    /// Not a wrapper.
    No,
    /// Runs nothing.
    Nothing,
    /// Runs these words, after `assignments` of variables and in another directory.
    Words {
        words: Vec<Word>,
        assignments: Vec<String>,
        directory: Option<Word>,
        more_args: bool,
    },
    /// Runs these words with the rights of somebody else.
    AsOther(Vec<Word>),
    /// Runs this text as a script.
    Script(Word),
    /// Runs something that cannot be told.
    Unknown,
}

/// Options of a wrapper: those that take a value, those that make it something else, arguments to pass over.
struct Wrapper {
    name: &'static str,
    values: &'static [&'static str],
    /// Options that may be there; with any other it is not understood.
    flags: &'static [&'static str],
    skip: usize,
}

#[rustfmt::skip]
const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "nohup", values: &[], flags: &[], skip: 0 },
    Wrapper { name: "time", values: &[], flags: &["-p"], skip: 0 },
    Wrapper { name: "exec", values: &["-a"], flags: &["-c", "-l"], skip: 0 },
    Wrapper { name: "command", values: &[], flags: &["-p"], skip: 0 },
    Wrapper { name: "builtin", values: &[], flags: &[], skip: 0 },
    Wrapper { name: "setsid", values: &[], flags: &["-f", "-w", "-c", "--fork", "--wait"], skip: 0 },
    Wrapper { name: "nice", values: &["-n", "--adjustment"], flags: &[], skip: 0 },
    Wrapper { name: "ionice", values: &["-c", "-n", "--class"], flags: &["-t"], skip: 0 },
    Wrapper { name: "stdbuf", values: &["-i", "-o", "-e"], flags: &[], skip: 0 },
    Wrapper { name: "timeout", values: &["-k", "-s", "--kill-after", "--signal"], flags: &["-v", "--foreground", "--preserve-status"], skip: 1 },
    Wrapper { name: "chronic", values: &[], flags: &[], skip: 0 },
];

/// What `words` (program first) run.
pub(super) fn unwrap(words: &[Word]) -> Wrapped {
    let name = super::programs::name_of(words[0].shown());
    let args = &words[1..];
    match name {
        "sudo" | "doas" | "su" | "pkexec" | "runuser" => administrator(name, args),
        "env" => env(args),
        "xargs" | "parallel" => xargs(name, args),
        "eval" | "watch" => joined(name, args),
        "trap" => match args.strip_prefix(&[Word::literal("--")]).unwrap_or(args) {
            [] => Wrapped::Nothing,
            [script, _, ..] if matches!(script.text.as_deref(), Some("-" | "")) => Wrapped::Nothing,
            [script, _, ..] => Wrapped::Script(script.clone()),
            _ => Wrapped::Unknown,
        },
        "command" | "builtin" if args.first().is_some_and(|word| matches!(word.shown(), "-v" | "-V")) => Wrapped::No,
        _ if super::programs::is_shell(name) => shell(args),
        _ => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => plain(wrapper, args),
            None => Wrapped::No,
        },
    }
}

fn words(words: &[Word]) -> Wrapped {
    Wrapped::Words {
        words: words.to_vec(),
        assignments: Vec::new(),
        directory: None,
        more_args: false,
    }
}

fn plain(wrapper: &Wrapper, args: &[Word]) -> Wrapped {
    let mut at = 0;
    while let Some(text) = args.get(at).and_then(|word| word.text.as_deref()) {
        if text == "--" {
            at += 1;
            break;
        }
        let Some(letter) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            break;
        };
        let value = |flag: &&'static str| *flag == text || text.starts_with(flag) && text.len() > flag.len();
        if wrapper.values.contains(&text) {
            at += 2;
        } else if wrapper.flags.contains(&text)
            || wrapper.values.iter().any(value)
            || (wrapper.name == "nice" && letter.chars().all(|c| c.is_ascii_digit()))
        {
            at += 1;
        } else {
            return Wrapped::Unknown;
        }
    }
    words(args.get(at + wrapper.skip..).unwrap_or_default())
}

fn administrator(name: &str, args: &[Word]) -> Wrapped {
    if name == "su" {
        return Wrapped::Unknown;
    }
    let mut at = 0;
    while let Some(text) = args.get(at).and_then(|word| word.text.as_deref()) {
        match text {
            "-u" | "-g" | "-p" | "-C" | "-h" | "-U" | "-D" | "--user" | "--group" => at += 2,
            "--" => {
                at += 1;
                break;
            }
            _ if text.starts_with('-') || is_assignment(text).is_some() => at += 1,
            _ => break,
        }
    }
    Wrapped::AsOther(args.get(at..).unwrap_or_default().to_vec())
}

/// The name of a variable that an argument sets.
pub(super) fn is_assignment(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('=')?;
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (named && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

fn env(args: &[Word]) -> Wrapped {
    let mut assignments = Vec::new();
    let mut directory = None;
    let mut at = 0;
    while let Some(word) = args.get(at) {
        // `X=$y` sets a variable whatever the value is.
        let text = word.shown();
        if let Some(name) = is_assignment(text) {
            assignments.push(name.to_owned());
        } else {
            match text {
                "-i" | "-" | "-0" | "--ignore-environment" | "--null" => {}
                "-u" | "--unset" => at += 1,
                "-C" | "--chdir" => {
                    at += 1;
                    directory = args.get(at).cloned();
                }
                "--" => {
                    at += 1;
                    break;
                }
                _ if text.starts_with("--unset=") => {}
                // `-S` splits a string into words.
                _ if text.starts_with('-') => return Wrapped::Unknown,
                _ => break,
            }
        }
        at += 1;
    }
    match args.get(at..).unwrap_or_default() {
        [] => Wrapped::No,
        rest => Wrapped::Words {
            words: rest.to_vec(),
            assignments,
            directory,
            more_args: false,
        },
    }
}

fn xargs(name: &str, args: &[Word]) -> Wrapped {
    if name == "parallel" {
        return Wrapped::Unknown;
    }
    let values = [
        "-I",
        "-n",
        "-P",
        "-L",
        "-d",
        "-s",
        "-E",
        "-a",
        "--max-args",
        "--max-procs",
        "--delimiter",
        "--arg-file",
    ];
    let flags = [
        "-0",
        "-r",
        "-t",
        "-p",
        "-x",
        "--null",
        "--no-run-if-empty",
        "--verbose",
        "-r0",
        "-0r",
    ];
    let mut at = 0;
    let mut replaced = None;
    while let Some(text) = args.get(at).and_then(|word| word.text.as_deref()) {
        if text == "--" {
            at += 1;
            break;
        }
        if !text.starts_with('-') {
            break;
        }
        if let Some(attached) = text.strip_prefix("-I") {
            replaced = match attached {
                "" => args.get(at + 1).map(Word::shown),
                attached => Some(attached),
            };
        }
        if values.contains(&text) {
            at += 2;
        } else if flags.contains(&text) || values.iter().any(|value| text.starts_with(value)) {
            at += 1;
        } else {
            return Wrapped::Unknown;
        }
    }
    let mut words = args.get(at..).unwrap_or_default().to_vec();
    if words.is_empty() {
        words.push(Word::literal("echo"));
    }
    // What is read stands in their place, in scripts and names of programs too.
    for word in &mut words {
        if replaced.is_some_and(|replaced| word.shown().contains(replaced)) {
            *word = Word::unknown("$(xargs)");
        }
    }
    Wrapped::Words {
        words,
        assignments: Vec::new(),
        directory: None,
        more_args: true,
    }
}

/// `eval` and `watch` join their arguments and run that.
fn joined(name: &str, args: &[Word]) -> Wrapped {
    if name == "watch" && args.iter().any(|word| word.shown().starts_with('-')) {
        return Wrapped::Unknown;
    }
    let texts: Option<Vec<&str>> = args
        .iter()
        .map(|word| word.text.as_deref().filter(|_| !word.glob))
        .collect();
    match texts {
        Some(texts) => Wrapped::Script(Word::literal(texts.join(" "))),
        None => Wrapped::Unknown,
    }
}

/// `sh -c '…'`.
fn shell(args: &[Word]) -> Wrapped {
    let mut at = 0;
    while let Some(text) = args.get(at).and_then(|word| word.text.as_deref()) {
        match text {
            "--norc" | "--noprofile" | "--posix" => at += 1,
            "-o" => at += 2,
            _ => {
                let Some(letters) = text.strip_prefix('-') else { break };
                if letters.is_empty() || !letters.chars().all(|c| "ceux".contains(c)) {
                    break;
                }
                at += 1;
                if letters.contains('c') {
                    // `bash -c -- script`
                    if args.get(at).is_some_and(|word| word.shown() == "--") {
                        at += 1;
                    }
                    return args
                        .get(at)
                        .map_or(Wrapped::Unknown, |script| Wrapped::Script(script.clone()));
                }
            }
        }
    }
    Wrapped::No
}
