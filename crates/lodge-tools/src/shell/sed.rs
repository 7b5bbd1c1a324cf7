//! Scripts of `sed` that only edit: others can run programs, and read and write any file.

use super::parser::Word;

/// Options that neither name a script nor change what one means.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "--quiet", "--silent", "--regexp-extended", "--in-place", "--separate", "--null-data", "--posix", "--sandbox",
    "--unbuffered", "--debug", "--",
];

fn is_plain(option: &str) -> bool {
    let bundle = || {
        let letters = option.strip_prefix('-')?;
        Some(letters.strip_suffix('i').unwrap_or(letters))
    };
    let is_bundle = bundle().is_some_and(|letters| letters.chars().all(|letter| "nErszu".contains(letter)));
    is_bundle || option.starts_with("-i.") || PLAIN.contains(&option)
}

/// Whether all scripts of a call only replace, delete and print lines.
pub(super) fn only_edits(args: &[Word]) -> bool {
    let mut scripts = Vec::new();
    let mut operands = Vec::new();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        // Names of files could be options.
        if word.glob && text.starts_with(['-', '*', '?']) {
            return false;
        }
        // There, the next word is a suffix of this option, whatever it is.
        if cfg!(target_os = "macos") && text.starts_with('-') && text.ends_with('i') {
            return false;
        }
        if text == "-e" || text == "--expression" {
            scripts.extend(rest.next());
        } else if !text.starts_with('-') || text == "-" {
            operands.push(word);
        } else if !is_plain(text) {
            return false;
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first().copied());
    }
    !scripts.is_empty() && scripts.iter().all(|word| !word.glob && edits(&word.text).is_some())
}

/// Reads a script; `None` when it holds any other command.
fn edits(script: &str) -> Option<()> {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', ';', '\n']);
        if rest.is_empty() {
            return Some(());
        }
        let command = addresses(rest)?.trim_start_matches(' ');
        let mut letters = command.chars();
        rest = match letters.next()? {
            'd' | 'p' | 'q' => letters.as_str(),
            's' => {
                let sign = letters
                    .next()
                    .filter(|sign| sign.is_ascii_punctuation() && !matches!(sign, '\\' | '[' | ']'))?;
                let replacement = delimited(letters.as_str(), sign)?;
                let is_flag = |c: char| matches!(c, 'g' | 'I' | 'i' | 'p' | '0'..='9');
                delimited(replacement, sign)?.trim_start_matches(is_flag)
            }
            _ => return None,
        };
        rest = rest.trim_start_matches(' ');
        if !rest.is_empty() && !rest.starts_with([';', '\n']) {
            return None;
        }
    }
}

/// What follows the addresses that a command may have.
fn addresses(text: &str) -> Option<&str> {
    let rest = address(text)?;
    let rest = match rest.strip_prefix(',') {
        Some(second) => address(second).filter(|rest| rest.len() < second.len())?,
        None => rest,
    };
    Some(rest.strip_prefix('!').unwrap_or(rest))
}

fn address(text: &str) -> Option<&str> {
    match text.strip_prefix('/') {
        Some(expression) => delimited(expression, '/'),
        None => Some(
            text.strip_prefix('$')
                .unwrap_or_else(|| text.trim_start_matches(|c: char| c.is_ascii_digit())),
        ),
    }
}

/// What follows the next sign that has no backslash before it.
fn delimited(text: &str, sign: char) -> Option<&str> {
    let mut letters = text.chars();
    loop {
        match letters.next()? {
            '\\' => drop(letters.next()),
            // `sed` reads a sign in brackets as a letter, and not all do it alike.
            '\n' | '[' => return None,
            letter if letter == sign => return Some(letters.as_str()),
            _ => {}
        }
    }
}
