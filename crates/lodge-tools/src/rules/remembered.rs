//! Rules that are made when somebody allows a command for longer than once. They end in the options that the command had
//! (`npm run build [--silent]`) and allow no others: an option can make a program run something else.

use std::collections::BTreeSet;

use crate::shell::{self, ProgramCall};

/// Programs that remove, overwrite or end what they are given: who approved one call approved that one.
#[rustfmt::skip]
const EXACTLY: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "mv", "dd", "truncate", "chmod", "chown", "chgrp", "kill", "pkill", "killall",
    "find", "fd", "git clean", "git reset", "git checkout", "git restore", "git push", "git stash drop", "git stash clear",
];

/// Whether only the exact calls of a program are remembered. Rules of earlier builds that say otherwise allow nothing.
fn is_exact(identifier: &str) -> bool {
    EXACTLY
        .iter()
        .any(|names| format!(" {identifier} ").contains(&format!(" {names} ")))
}

/// In the place of the options: the rule holds these words and no others.
const EXACT: &str = "=";

/// A rule about commands, taken apart: the words that a command begins with, and what stands in brackets after them, if the rule
/// is a remembered one.
pub(super) fn parts(rule: &str) -> (&str, Option<&str>) {
    match rule.strip_suffix(']').and_then(|rule| rule.rsplit_once(" [")) {
        Some((words, options)) => (words, Some(options)),
        None => (rule, None),
    }
}

/// The rules that allow a command of this name again.
pub(super) fn rules<'a>(identifier: &str, calls: impl Iterator<Item = &'a ProgramCall>) -> Vec<String> {
    if is_exact(identifier) {
        return calls.map(|call| format!("{} [{EXACT}]", call.exact)).collect();
    }
    let options: BTreeSet<&String> = calls.flat_map(|call| &call.options).collect();
    let options: Vec<String> = options.into_iter().map(|option| shell::quoted(option)).collect();
    vec![format!("{identifier} [{}]", options.join(" "))]
}

/// What a rule allows, for people.
pub(super) fn described(rule: &str) -> String {
    match parts(rule) {
        (words, None) => format!("commands that begin with `{words}`"),
        (words, Some(EXACT)) => format!("`{words}`"),
        (words, Some("")) => format!("commands that begin with `{words}` (no options)"),
        (words, Some(options)) => format!("commands that begin with `{words}` (options: `{options}`)"),
    }
}

/// Whether remembered ones among these rules allow a call; of one that is not known, whether any names it. What they know of a
/// command they know together.
pub(super) fn allow<'a>(rules: impl Iterator<Item = &'a str>, identifier: &str, call: Option<&ProgramCall>) -> bool {
    let mut known: Option<BTreeSet<String>> = None;
    for rule in rules {
        match parts(rule) {
            (words, Some(EXACT)) if call.is_some_and(|call| call.exact == words) => return true,
            (words, Some(options)) if words == identifier && options != EXACT && !is_exact(identifier) => {
                let options = shell::words(options).unwrap_or_default();
                known.get_or_insert_default().extend(options);
            }
            _ => {}
        }
    }
    let is_covered =
        |call: &ProgramCall, known: &BTreeSet<String>| call.options.iter().all(|option| known.contains(option));
    known.is_some_and(|known| call.is_none_or(|call| is_covered(call, &known)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
