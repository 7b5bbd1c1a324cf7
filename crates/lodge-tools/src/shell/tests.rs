use super::*;

/// One line of what a command does, for the table.
fn shown(command: &str) -> String {
    let found = analyse(command);
    let mut out: Vec<String> = vec![];
    let programs: Vec<String> = found
        .commands
        .iter()
        .map(|c| format!("{}{}", c.identifier, if c.read_only { "" } else { "!" }))
        .collect();
    out.push(format!("[{}]", programs.join(", ")));
    let paths: Vec<String> = found
        .paths
        .iter()
        .map(|p| format!("{p}{}", if found.writes.contains(p) { "*" } else { "" }))
        .collect();
    if !paths.is_empty() {
        out.push(format!("paths: {}", paths.join(" ")));
    }
    if !found.urls.is_empty() {
        out.push(format!("urls: {}", found.urls.join(" ")));
    }
    if found.writes_by_redirection {
        out.push("redirects".to_owned());
    }
    if !found.understood {
        out.push("not understood".to_owned());
    } else if !found.can_be_remembered() && !found.commands.is_empty() {
        out.push("ask each time".to_owned());
    }
    if found.only_reads() {
        out.push("only reads".to_owned());
    }
    out.extend(found.warning.map(|warning| format!("warning: {warning}")));
    out.join("; ")
}

/// `⏎` stands for a line end.
#[test]
fn commands_are_understood_or_asked_about() {
    let cases: Vec<&str> = include_str!("cases.txt").lines().collect();
    let count = cases
        .iter()
        .filter(|case| !case.is_empty() && !case.starts_with("# "))
        .count();
    assert!(count >= 150, "{count}");
    let table: String = cases
        .iter()
        .map(|case| match *case {
            "" => "\n".to_owned(),
            heading if heading.starts_with("# ") && !heading.contains('⏎') => format!("{heading}\n"),
            case => format!("{case}\n    {}\n", shown(&case.replace('⏎', "\n"))),
        })
        .collect();
    insta::assert_snapshot!(table);
}

#[test]
fn absurd_commands_are_not_understood_but_harm_nobody() {
    for command in [
        "",
        " ",
        "\0",
        "ls\r\nrm x",
        "ls\u{a0}rm",
        &"(".repeat(10_000),
        &"a;".repeat(50_000),
        &"$(".repeat(3000),
        &"x".repeat(100_000),
    ] {
        let found = analyse(command);
        assert!(command.trim().is_empty() || !found.understood, "{command:.20}");
    }
    assert!(!analyse(&format!("cat {}", "{a,b}".repeat(20))).understood);
}
