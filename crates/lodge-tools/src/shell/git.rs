//! Read-only git commands, with their options. What a repository's configuration makes of them is up to the jail.

use super::{
    build::join,
    options,
    parser::Word,
    programs::{self, Call, path},
};

/// Options for what shows changes.
const CHANGES: &str = "abpuswqzRWEFi # U: S: G: n: L: M? C? B? --abbrev? --abbrev-commit --after= --all --ancestry-path \
    --author= --before= --binary --branches? --cached --check --cherry-pick --color? --color-words? --committer= \
    --compact-summary --date= --date-order --decorate? --diff-algorithm= --diff-filter= --dirstat? --exit-code \
    --extended-regexp --find-renames? --first-parent --fixed-strings --follow --format= --full-history --full-index \
    --function-context --graph --grep= --histogram --ignore-all-space --ignore-blank-lines --ignore-space-at-eol \
    --ignore-space-change --ignore-submodules? --inter-hunk-context= --invert-grep --left-right --max-count= --merge-base \
    --merges --minimal --name-only --name-status --no-abbrev-commit --no-color --no-decorate --no-ext-diff --no-merges \
    --no-patch --no-prefix --no-renames --no-textconv --numstat --oneline --patch --patch-with-stat --patience \
    --pickaxe-regex --pretty? --quiet --raw --regexp-ignore-case --relative? --remotes? --reverse --shortstat \
    --simplify-by-decoration --since= --skip= --source --staged --stat? --submodule? --summary --tags? --text --topo-order \
    --unified= --until= --word-diff? --word-diff-regex=";

/// Subcommands and their options (see [`options`]). Those of two words come first.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, &str)] = &[
    ("remote get-url", "- --all --push"), ("stash list", CHANGES), ("stash show", CHANGES), ("worktree list", "v --porcelain"),
    ("reflog show", CHANGES),
    ("log", CHANGES), ("show", CHANGES), ("diff", CHANGES), ("whatchanged", CHANGES), ("shortlog", "sne # --summary \
        --numbered --email --all --no-merges --since= --until= --author="), ("rev-list", "# n: --all --count --first-parent \
        --left-right --max-count= --merges --no-merges --objects --oneline --reverse --since= --until= --author="),
    ("status", "sbvz u? --short --branch --porcelain? --long --untracked-files? --ignored? --show-stash --no-column \
        --ahead-behind --no-ahead-behind --renames --no-renames"),
    ("blame", "wselptfncb L: C? M? --porcelain --line-porcelain --date= --since= --show-name --show-number --show-email --root"),
    ("annotate", "wselptfncb L: C? M?"),
    ("branch", "arvql --list --show-current --all --remotes --merged? --no-merged? --contains= --no-contains= --sort= \
        --format= --color? --no-color --column? --no-column --points-at= --verbose --abbrev="),
    ("tag", "l n? --list --contains= --no-contains= --merged? --no-merged? --points-at= --sort= --format= --column?"),
    ("remote", "v --verbose"),
    ("reflog", CHANGES),
    ("rev-parse", "q --show-toplevel --abbrev-ref? --short? --verify --git-dir --absolute-git-dir --is-inside-work-tree \
        --is-bare-repository --show-prefix --show-cdup --symbolic --symbolic-full-name --all --branches? --tags? --quiet"),
    ("ls-files", "cdmoisuztv x: --cached --deleted --modified --others --ignored --stage --unmerged --exclude= \
        --exclude-standard --full-name --error-unmatch --with-tree= --directory --abbrev?"),
    ("ls-tree", "rtdlz --name-only --name-status --full-name --full-tree --long --abbrev? --object-only"),
    ("cat-file", "ptse"),
    ("grep", "aciIlLnoqpvwWhHEFGP # A: B: C: e: --cached --untracked --heading --break --count --line-number --name-only \
        --files-with-matches --files-without-match --ignore-case --word-regexp --invert-match --all-match --max-depth= \
        --color? --no-color --show-function --function-context --only-matching --column --fixed-strings --extended-regexp"),
    ("describe", "- --tags --all --always --dirty? --long --abbrev= --match= --exclude= --exact-match --contains --first-parent"),
    ("merge-base", "a --all --is-ancestor --fork-point --octopus --independent"),
    ("name-rev", "- --name-only --tags --always"),
    ("show-ref", "qds --heads --tags --head --branches --verify --hash? --quiet --abbrev?"),
    ("for-each-ref", "- --format= --sort= --count= --points-at= --merged? --no-merged? --contains= --no-contains="),
    ("count-objects", "vH --verbose --human-readable"),
    ("check-ignore", "vqnz --verbose --quiet --non-matching --no-index"),
    ("config", "lz --get= --get-all= --get-regexp= --list --global --local --system --show-origin --show-scope --name-only \
        --bool --int --path --type= --null"),
    ("symbolic-ref", "q --short --quiet"),
    ("version", ""),
];

/// Families of subcommands, where the second word says what is done.
const FAMILIES: &[&str] = &[
    "stash",
    "remote",
    "worktree",
    "submodule",
    "bisect",
    "notes",
    "reflog",
    "lfs",
];

/// Subcommands that leave the files alone that they name.
const LEAVING: &[&str] = &["add", "commit", "push", "tag", "branch"];

/// Options before a message that take no value, so that what follows them is an option.
#[rustfmt::skip]
const FLAGS: &[&str] = &[
    "-a", "-s", "-q", "-n", "-f", "--all", "--amend", "--no-verify", "--signoff", "--allow-empty", "--annotate", "--no-ff",
];

/// Arguments without messages, which are no files whatever they look like.
fn without_messages(name: &str, args: &[Word]) -> Vec<Word> {
    let mut kept: Vec<Word> = Vec::new();
    let mut rest = args.iter();
    let mut may_be_option = matches!(name, "commit" | "tag" | "merge");
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        let takes_message = matches!(text, "-m" | "--message") || text == "-am" && name == "commit";
        match word.glob {
            false if may_be_option && takes_message => {
                // A pattern could be several arguments.
                kept.extend(rest.next().filter(|message| message.glob).cloned());
            }
            false if may_be_option && text.starts_with("--message=") => {}
            _ => {
                may_be_option &= text != "--" && (!text.starts_with('-') || FLAGS.contains(&text));
                kept.push(word.clone());
            }
        }
    }
    kept
}

pub(super) fn call(args: &[Word]) -> Call {
    let mut dir = String::new();
    let mut rest = args;
    let mut plain = true;
    while let [option, after @ ..] = rest
        && option.text.starts_with('-')
    {
        (rest, plain) = match (option.text.as_str(), after) {
            ("-C", [to, after @ ..]) => {
                dir = join(&dir, &path(to));
                (after, plain && !to.glob && !to.quoted_pattern)
            }
            ("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs", _) => (after, plain),
            // Others name programs to run.
            ("-c" | "--git-dir" | "--work-tree" | "--namespace" | "--config-env", [_, after @ ..]) => (after, false),
            _ => (after, false),
        };
    }
    let mut call = Call {
        identifier: "git".to_owned(),
        rememberable: plain,
        paths: (!dir.is_empty()).then(|| (dir.clone(), false)).into_iter().collect(),
        ..Call::default()
    };
    let [name, operands @ ..] = rest else { return call };
    let family = FAMILIES.contains(&name.text.as_str());
    let second = operands
        .first()
        .filter(|second| family && !second.text.starts_with('-'));
    for word in [Some(name), second].into_iter().flatten() {
        call.identifier.push(' ');
        call.identifier.push_str(&word.text);
        call.rememberable &= !word.glob && !word.text.is_empty() && !word.text.contains(char::is_whitespace);
    }
    // These run what they are given.
    let runs = ["git bisect run", "git submodule foreach", "git filter-branch"].contains(&call.identifier.as_str());
    let exec = operands
        .iter()
        .any(|word| word.text.starts_with("--exec") || word.text.starts_with("-x"));
    let transfers = operands.iter().any(|word| {
        ["--upload-p", "--receive-p"]
            .iter()
            .any(|option| word.text.starts_with(option))
    });
    call.rememberable &= !(runs
        || transfers
        || exec
            && matches!(
                name.text.as_str(),
                "rebase" | "difftool" | "push" | "ls-remote" | "archive"
            ));
    match reading(&dir, rest).filter(|_| plain) {
        Some(paths) => {
            call.read_only = true;
            call.paths.extend(paths.into_iter().map(|path| (path, false)));
        }
        None => {
            call.edits = !LEAVING.contains(&name.text.as_str());
            let operands = &without_messages(&name.text, operands);
            let likely = operands.iter().filter(|word| programs::looks_like_path(&word.text));
            call.paths.extend(likely.map(|word| (join(&dir, &path(word)), false)));
            call.operands = programs::operands(operands)
                .iter()
                .map(|path| join(&dir, path))
                .collect();
        }
    }
    call
}

/// The paths that a subcommand names, when it only reads.
fn reading(dir: &str, words: &[Word]) -> Option<Vec<String>> {
    let (name, list) = SUBCOMMANDS.iter().find(|(name, _)| {
        let mut given = words.iter();
        name.split(' ')
            .all(|part| given.next().is_some_and(|word| word.text == part))
    })?;
    let sorted = options::sort(list, &words[name.split(' ').count()..], false)?;
    let operands = &sorted.operands;
    let fits = match *name {
        "branch" => operands.is_empty() || sorted.has(&["list"]),
        "tag" => operands.is_empty() || sorted.has(&["l", "list"]),
        "remote" | "reflog" => operands.is_empty(),
        "config" => operands.is_empty() && sorted.has(&["l", "list", "get", "get-all", "get-regexp"]),
        "symbolic-ref" => operands.len() == 1,
        _ => true,
    };
    let mut paths = Vec::new();
    for (index, word) in operands.iter().enumerate() {
        let text = word.text.as_str();
        // `:(top)` and the like: names that do not mean what they say.
        if text.starts_with(':') || word.quoted_pattern && index >= sorted.before_dashes {
            return None;
        }
        // Names of branches look like paths too; only what could be a file matters.
        let in_tree = text.split_once(':').map(|(_, path)| path.to_owned());
        let range = text.contains("..") && !leads_out(text);
        let file =
            index >= sorted.before_dashes || *name == "blame" || word.glob || text.contains(['/', '.']) && !range;
        paths.extend(
            in_tree
                .or_else(|| file.then(|| path(word)))
                .map(|path| join(dir, &path)),
        );
    }
    fits.then_some(paths)
}

/// Whether a path may lie outside the directory.
fn leads_out(text: &str) -> bool {
    text.starts_with(['/', '~']) || text.split('/').any(|part| part == "..")
}
