//! A table of commands and the decision for each.

use super::*;

/// Rules for the table, with one that denies the files of this name.
fn rules(mode: Mode, denied: &str) -> RuleSet {
    let mut rules = RuleSet::new(Policy::of(mode));
    for words in ["rm", "git push"] {
        rules.add(Source::User, Rule::deny(RuleSubject::Command(words.to_owned())));
    }
    let glob = denied.to_owned();
    rules.add(Source::User, Rule::deny(RuleSubject::Path { glob, access: None }));
    rules
}

/// `unasked`, `searches` for what is unasked unless files are denied that it may find, `asked`, `opaque` for text that is asked
/// about because it was not understood, or `denied`.
fn verdict(bench: &Bench, command: &str) -> &'static str {
    let found = verdict_about(bench, command, "secrets");
    // No search in the working directory finds these.
    match (found, verdict_about(bench, command, "/elsewhere/secrets")) {
        ("opaque", "unasked") => "searches",
        ("opaque", elsewhere) => elsewhere,
        _ => found,
    }
}

fn verdict_about(bench: &Bench, command: &str, denied: &str) -> &'static str {
    let understood = shell::analyse(command).can_be_remembered();
    let request = bench.request_for(command);
    let decided = decide(&request, &rules(Mode::Ask, denied), &bench.place);
    let with_all_approved = decide(&request, &rules(Mode::ApproveAll, denied), &bench.place);
    match (&decided, &with_all_approved) {
        (Decision::Allow { approved: false, .. }, Decision::Allow { approved: true, .. }) => "unasked",
        (Decision::Deny { .. }, Decision::Deny { .. }) => "denied",
        (Decision::Ask { .. }, Decision::Allow { .. }) if understood => "asked",
        (Decision::Ask { why: Some(_) }, Decision::Ask { why: Some(why) }) => {
            assert!(
                why.contains("shell rm (the user's rules)") || why.contains(&format!("path {denied}")),
                "{command}: {why}"
            );
            "opaque"
        }
        other => panic!("{command}: {other:?}"),
    }
}

/// Each line is a verdict and a command; `⏎` is a line end.
#[test]
fn a_thousand_commands_are_unasked_asked_or_denied() {
    let bench = bench();
    let table = include_str!("../../shell/cases.txt");
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| line.split_once(' ').unwrap())
        .collect();
    let distinct: std::collections::BTreeSet<&str> = rows.iter().map(|(_, command)| *command).collect();
    assert!(distinct.len() == rows.len() && rows.len() >= 1000, "{}", rows.len());
    let found: Vec<(&str, &str)> = rows
        .iter()
        .map(|(_, command)| (verdict(&bench, &command.replace('⏎', "\n")), *command))
        .collect();
    let wrong: Vec<String> = rows
        .iter()
        .zip(found)
        .filter(|(row, found)| *row != found)
        .map(|(row, found)| format!("{}: {}, not {}", row.1, found.0, row.0))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
