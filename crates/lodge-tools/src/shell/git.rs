//! Which git commands only read.

use super::{
    programs::{Call, is_bad, looks_like_path, path_in_option},
    word::Word,
};

/// Options before the subcommand that take a value.
const GLOBAL_VALUES: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
    "--super-prefix",
];

/// Subcommands that only read whatever their arguments are, but for the options below.
#[rustfmt::skip]
const READING: &[&str] = &[
    "status", "log", "diff", "show", "rev-parse", "ls-files", "ls-tree", "cat-file", "blame", "annotate", "describe",
    "shortlog", "for-each-ref", "rev-list", "name-rev", "merge-base", "diff-tree", "diff-index", "diff-files", "grep",
    "whatchanged", "count-objects", "version", "check-ignore", "check-attr", "show-ref", "cherry", "range-diff",
    "show-branch", "verify-commit", "verify-tag", "fsck",
];

/// Options that write a file or run a program.
const BAD: &[&str] = &[
    "--output",
    "--ext-diff",
    "--open-files-in-pager",
    "--exec",
    "--upload-pack",
    "--lost-found",
    "--filters",
    "--textconv",
];

pub(super) fn call(args: &[Word]) -> Call {
    let mut call = Call {
        identifier: "git".to_owned(),
        rememberable: true,
        ..Call::default()
    };
    let mut global_ok = true;
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let text = word.shown();
        if !text.starts_with('-') {
            break;
        }
        let repository = text
            .strip_prefix("--git-dir=")
            .or_else(|| args.get(at + 1).filter(|_| text == "--git-dir").map(Word::shown));
        // Any directory that came with the files could bring a configuration that runs programs, but for one named so.
        global_ok &= repository.is_none_or(|path| path == ".git" || path.ends_with("/.git"));
        match text {
            "-C" | "--git-dir" | "--work-tree" => {
                call.paths
                    .extend(args.get(at + 1).map(|path| (path.shown().to_owned(), false)));
            }
            "--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs" | "--version" | "--help" => {}
            _ if text.starts_with("--git-dir=") || text.starts_with("--work-tree=") => {
                call.paths.extend(path_in_option(text).map(|path| (path, false)));
            }
            // A configuration given here can name programs to run.
            _ => global_ok = false,
        }
        at += if GLOBAL_VALUES.contains(&text) { 2 } else { 1 };
    }
    let Some(subcommand) = args.get(at) else {
        call.read_only = global_ok;
        return call;
    };
    let Some(name) = subcommand.text.as_deref() else {
        call.rememberable = false;
        return call;
    };
    let rest = &args[at + 1..];
    let texts: Vec<&str> = rest.iter().map(Word::shown).collect();
    let families = [
        "stash",
        "remote",
        "worktree",
        "submodule",
        "bisect",
        "notes",
        "reflog",
        "lfs",
    ];
    call.identifier = match texts
        .first()
        .filter(|first| families.contains(&name) && !first.starts_with(['-', '$']))
    {
        Some(first) => format!("git {name} {first}"),
        None => format!("git {name}"),
    };
    let known = rest.iter().all(|word| !word.may_be_option());
    let options = || texts.iter().take_while(|text| **text != "--");
    let harmful = options().any(|text| is_bad(text, BAD) || (name == "grep" && is_bad(text, &["-O"])));
    call.read_only = global_ok && known && !harmful && (READING.contains(&name) || lists(name, &texts));
    // Names of branches look like paths too, but only those that lead out of the directory matter.
    let after_dashes = texts
        .iter()
        .position(|text| *text == "--")
        .map_or(texts.len(), |at| at + 1);
    for (index, text) in texts.iter().enumerate() {
        let outside = text.starts_with('/') || text.starts_with('~') || text.split('/').any(|part| part == "..");
        if text.starts_with('-') {
            call.paths
                .extend(path_in_option(text).map(|path| (path, !call.read_only)));
        } else if index >= after_dashes || text.starts_with('$') || (outside && looks_like_path(text)) {
            call.paths.push(((*text).to_owned(), false));
        }
    }
    call
}

/// Whether a subcommand that can do both is only asked to list.
fn lists(name: &str, args: &[&str]) -> bool {
    let positional: Vec<&str> = args.iter().copied().filter(|text| !text.starts_with('-')).collect();
    let only = |allowed: &[&str]| {
        args.iter()
            .filter(|text| text.starts_with('-'))
            .all(|text| allowed.contains(&text.split('=').next().unwrap_or(text)))
    };
    let asks = |options: &[&str]| {
        args.iter()
            .any(|text| options.contains(&text.split('=').next().unwrap_or(text)))
    };
    match (name, positional.first().copied()) {
        ("branch", first) => {
            let listing = [
                "--list",
                "-l",
                "--contains",
                "--no-contains",
                "--merged",
                "--no-merged",
                "--points-at",
            ];
            let also = [
                "-a",
                "-r",
                "-v",
                "-vv",
                "-q",
                "--all",
                "--remotes",
                "--show-current",
                "--sort",
                "--format",
                "--no-color",
                "--color",
                "--column",
                "--no-column",
                "--abbrev",
            ];
            only(&[&listing[..], &also[..]].concat()) && (first.is_none() || asks(&listing))
        }
        ("tag", first) => {
            let listing = [
                "-l",
                "--list",
                "--contains",
                "--no-contains",
                "--points-at",
                "--merged",
                "--no-merged",
            ];
            only(&[&listing[..], &["-n", "--sort", "--format", "--column"]].concat())
                && (first.is_none() || asks(&listing))
        }
        ("remote", None) => only(&["-v", "--verbose"]),
        ("remote", Some("get-url")) => only(&["--all", "--push"]),
        ("config", _) => {
            asks(&["--get", "--get-all", "--get-regexp", "--list", "-l"])
                && only(&[
                    "--get",
                    "--get-all",
                    "--get-regexp",
                    "--list",
                    "-l",
                    "--global",
                    "--local",
                    "--system",
                    "--show-origin",
                    "--show-scope",
                    "-z",
                    "--null",
                    "--name-only",
                    "--bool",
                    "--int",
                    "--path",
                    "--type",
                ])
        }
        ("stash", Some("list" | "show")) => true,
        ("worktree", Some("list")) => true,
        ("submodule", Some("status" | "summary")) => true,
        ("reflog", None | Some("show")) => true,
        ("notes", Some("list" | "show")) => true,
        ("bisect", Some("log")) => true,
        ("symbolic-ref", Some(_)) => positional.len() == 1 && only(&["--short", "-q", "--quiet"]),
        _ => false,
    }
}
