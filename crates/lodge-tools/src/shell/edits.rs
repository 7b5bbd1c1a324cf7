//! Which of the files that a program's arguments name it may write, and which it leaves alone.

use super::{
    parser::Word,
    programs::{WRITE_ALL, WRITE_LAST, operands, path},
};

/// Programs that write files among their arguments, depending on their options.
#[rustfmt::skip]
const EDITORS: &[&str] = &[
    "sed", "patch", "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "tar", "bsdtar", "unzip", "7z", "cpio", "ar", "black", "isort",
    "yapf", "rustfmt", "split", "csplit", "sponge",
];
/// Subcommands with which other programs do the same, and what their options begin with then.
const EDITING: &[&str] = &["format", "fmt", "fix"];
#[rustfmt::skip]
const EDITING_OPTIONS: &[&str] = &[
    "-i", "-w", "-o", "-O", "-d", "-C", "-fprint", "-fls", "--in-place", "--inplace", "--write", "--fix", "--out", "--dest", "--target",
    "--dir", "--prefix",
];

/// Options whose value names what a program leaves alone.
const SPARING: &[&str] = &[
    "--exclude",
    "--extend-exclude",
    "--exclude-dir",
    "--ignore",
    "--ignore-pattern",
];

/// Whether the value of an option names what the program leaves alone.
pub(super) fn is_sparing(option: &str) -> bool {
    SPARING.contains(&option)
}

/// Values of options that name what a program leaves alone, unless something else in its arguments is called the same.
pub(super) fn spared(args: &[Word]) -> Vec<String> {
    let (mut values, mut others) = (Vec::new(), Vec::new());
    let mut rest = args.iter().peekable();
    while let Some(word) = rest.next() {
        match word.text.split_once('=') {
            Some((option, value)) if is_sparing(option) => values.push(value.to_owned()),
            None if is_sparing(&word.text) => values.extend(rest.next_if(|next| !next.glob).map(path)),
            _ => others.push(word.clone()),
        }
    }
    let others = operands(&others);
    values.retain(|value| !others.contains(value));
    values
}

/// Whether a program may be called to write files that its arguments name.
pub(super) fn edits(name: &str, args: &[Word]) -> bool {
    let is_editing = |word: &Word| EDITING_OPTIONS.iter().any(|option| word.text.starts_with(option));
    [EDITORS, WRITE_ALL, WRITE_LAST].concat().contains(&name)
        || args.first().is_some_and(|word| EDITING.contains(&word.text.as_str()))
        || args.iter().any(is_editing)
}
