//! Rules that are made when somebody allows a command for longer than once. They end in the options that the command had
//! (`npm run build [--silent]`) and allow no others: an option can make a program run something else.

use std::collections::BTreeSet;

use lodge_events::CommandSegment;

/// Options whose value says what runs, or where: they are remembered with it. By the programs that have them.
#[rustfmt::skip]
const WITH_VALUE: &[(&[&str], &[&str])] = &[
    (&["npx", "bunx", "uvx", "dlx", "exec", "x", "run", "tool"], &["-p", "--package", "--from", "--with", "--with-requirements"]),
    (&["npm", "npx", "pnpm", "yarn", "bun"], &["--prefix", "-C", "--dir", "--cwd"]),
    (&["make", "gmake", "ninja"], &["-f", "--file", "--makefile", "-C", "--directory", "-I", "--include-dir"]),
    (&["cargo", "go", "git", "uv", "poetry"], &["--manifest-path", "-C", "--directory", "--project"]),
];

/// Programs that remove, overwrite or end what they are given: who approved one call approved that one.
#[rustfmt::skip]
const EXACTLY: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "mv", "dd", "truncate", "chmod", "chown", "chgrp", "kill", "pkill", "killall",
    "git clean", "git reset",
];

/// In the place of the options: the rule holds these words and no others.
const EXACT: &str = "=";

/// A rule about commands, taken apart: the words that a command begins with, and the options that it may have, if the rule is
/// a remembered one.
pub(super) fn parts(rule: &str) -> (&str, Option<impl Iterator<Item = &str>>) {
    let inner = rule.strip_suffix(']').and_then(|rule| rule.rsplit_once(" ["));
    match inner {
        Some((words, options)) => (words, Some(options.split_whitespace())),
        None => (rule, None),
    }
}

/// The rules that allow a command of this name again.
pub(super) fn rules<'a>(identifier: &str, calls: impl Iterator<Item = &'a CommandSegment>) -> Vec<String> {
    let is_exact = |names: &&str| *names == identifier || identifier.split(' ').any(|word| word == *names);
    if EXACTLY.iter().any(is_exact) {
        return calls
            .map(|call| format!("{} [{EXACT}]", call.full_command_text))
            .collect();
    }
    let options: BTreeSet<String> = calls
        .flat_map(|call| options(identifier, &call.full_command_text))
        .collect();
    let options: Vec<String> = options.into_iter().collect();
    vec![format!("{identifier} [{}]", options.join(" "))]
}

/// What a rule allows, for people.
pub(super) fn described(rule: &str) -> String {
    let (words, Some(options)) = parts(rule) else {
        return format!("commands that begin with `{rule}`");
    };
    let options: Vec<&str> = options.collect();
    match options.as_slice() {
        [EXACT] => format!("`{words}`"),
        [] => format!("commands that begin with `{words}` (no options)"),
        options => format!("commands that begin with `{words}` (options: `{}`)", options.join(" ")),
    }
}

/// Whether a rule is a remembered one that allows this call.
pub(super) fn allows(rule: &str, identifier: &str, call: Option<&CommandSegment>) -> bool {
    let (words, Some(known)) = parts(rule) else {
        return false;
    };
    let known: Vec<&str> = known.collect();
    let is_known = |call: &CommandSegment| {
        options(identifier, &call.full_command_text)
            .iter()
            .all(|option| known.contains(&option.as_str()))
    };
    match known.as_slice() {
        [EXACT] => call.is_some_and(|call| call.full_command_text == words),
        _ => words == identifier && call.is_none_or(is_known),
    }
}

/// The names of a call's options.
fn options(identifier: &str, text: &str) -> Vec<String> {
    let is_program = |programs: &[&str]| identifier.split(' ').any(|word| programs.contains(&word));
    let has_value = |name: &str| {
        let listed = |(programs, names): &&(&[&str], &[&str])| is_program(programs) && names.contains(&name);
        WITH_VALUE.iter().any(|entry| listed(&entry))
    };
    let mut found = Vec::new();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let (name, attached) = word
            .split_once('=')
            .map_or((word, None), |(name, value)| (name, Some(value)));
        match word {
            // What follows is no option of this program's.
            "--" => break,
            "-" => continue,
            _ => {}
        }
        if name.starts_with(['-', '+']) {
            found.push(match has_value(name) {
                true => format!("{name}={}", attached.or_else(|| words.next()).unwrap_or_default()),
                // `-j4` and `-j8` are the same option.
                false if name.starts_with("--") => name.to_owned(),
                false => name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(),
            });
        } else if attached.is_some() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            // A variable, as `make` takes them.
            found.push(word.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_by_their_names_and_by_values_that_say_what_runs() {
        for (identifier, text, expected) in [
            ("make test", "make test", ""),
            ("make test", "make -j4 test --keep-going", "-j --keep-going"),
            ("make test", "make -C sub test CC=x", "-C=sub CC=x"),
            ("npx eslint", "npx -p a eslint --fix", "-p=a --fix"),
            ("npx eslint", "npx --package=a eslint", "--package=a"),
            ("cargo test", "cargo test -p one - -- --nocapture", "-p"),
            ("git commit", "git commit -m one - two", "-m"),
        ] {
            assert_eq!(options(identifier, text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn people_read_what_a_rule_allows() {
        for (rule, expected) in [
            ("npm run", "commands that begin with `npm run`"),
            ("mkdir []", "commands that begin with `mkdir` (no options)"),
            (
                "make test [-j -k]",
                "commands that begin with `make test` (options: `-j -k`)",
            ),
            ("rm -r a [=]", "`rm -r a`"),
        ] {
            assert_eq!(described(rule), expected);
        }
    }
}
