//! Read-only programs whose arguments are a small language (such as `sed` or `find`), of which only simple forms are
//! known.

use super::{
    options,
    parser::Word,
    programs::{Call, path},
};

/// Programs that print their version and stop when that is all they are asked for.
#[rustfmt::skip]
const VERSIONED: &[&str] = &[
    "awk", "bun", "cargo", "clang", "cmake", "curl", "deno", "docker", "g++", "gcc", "gh", "git", "helm", "java", "javac",
    "jq", "kubectl", "make", "node", "npm", "npx", "perl", "php", "pip", "pip3", "pnpm", "python", "python3", "rg", "ruby",
    "rustc", "sed", "sqlite3", "tsc", "uv", "wget", "yarn",
];

/// What a call does when it is one of these and only reads.
pub(super) fn call(name: &str, args: &[Word]) -> Option<Call> {
    if let [only] = args
        && match only.text.as_str() {
            "--version" => VERSIONED.contains(&name),
            "-V" => matches!(name, "python" | "python3"),
            "version" => name == "go",
            _ => false,
        }
    {
        return Some(Call::reading(name, Vec::new()));
    }
    let paths = match name {
        "find" => find(args),
        "sed" => sed(args),
        "awk" => awk(args),
        "test" => test(args),
        "[" => match args {
            [test_args @ .., last] if last.text == "]" => test(test_args),
            _ => None,
        },
        "printf" => printf(args),
        "date" => date(args),
        "sleep" => match args {
            [time] if !time.text.is_empty() && time.text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                Some(vec![])
            }
            _ => None,
        },
        _ => None,
    }?;
    Some(Call::reading(name, paths))
}

/// Tests and actions of `find` with how many arguments they take; `@` for a file.
#[rustfmt::skip]
const FIND: &[(&str, &[&str])] = &[
    ("", &["!", "(", ")", "-a", "-and", "-daystart", "-depth", "-empty", "-executable", "-false", "-ls", "-mount", "-not",
        "-o", "-or", "-print", "-print0", "-prune", "-quit", "-readable", "-true", "-writable", "-xdev"]),
    (":", &["-amin", "-atime", "-cmin", "-ctime", "-group", "-iname", "-inum", "-ipath", "-iregex", "-links", "-maxdepth",
        "-mindepth", "-mmin", "-mtime", "-name", "-path", "-perm", "-printf", "-regex", "-regextype", "-size", "-type",
        "-user", "-wholename", "-xtype"]),
    ("@", &["-newer", "-samefile"]),
];

fn find(args: &[Word]) -> Option<Vec<String>> {
    let is_expression = |word: &&Word| word.text.starts_with('-') || matches!(word.text.as_str(), "!" | "(" | ")");
    let files = args.iter().take_while(|word| !is_expression(word)).count();
    let mut paths: Vec<String> = args[..files].iter().map(path).collect();
    if args[..files]
        .iter()
        .any(|word| word.quoted_pattern || word.glob && word.text.starts_with(['*', '?']))
    {
        return None;
    }
    let mut rest = args[files..].iter();
    while let Some(word) = rest.next() {
        let (kind, _) = FIND.iter().find(|(_, names)| names.contains(&word.text.as_str()))?;
        if !kind.is_empty() {
            let value = rest.next().filter(|value| !value.glob)?;
            paths.extend((*kind == "@").then(|| path(value)));
        }
    }
    Some(paths)
}

/// `sed -n` with scripts that print lines by number, or by an expression of plain characters.
fn sed(args: &[Word]) -> Option<Vec<String>> {
    let [quiet, script, files @ ..] = args else { return None };
    let number = |text: &str| text == "$" || !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let plain = |b: u8| b.is_ascii_alphanumeric() || b" _-.,:*^$<>=\"'(){}#".contains(&b);
    let address = |text: &str| {
        let expression = text.strip_prefix('/').and_then(|text| text.strip_suffix('/'));
        number(text) || expression.is_some_and(|text| !text.is_empty() && text.bytes().all(plain))
    };
    let prints = |part: &str| {
        let lines = part.strip_suffix('p').or(part.strip_suffix('='));
        lines.is_some_and(|lines| {
            lines
                .split_once(',')
                .map_or(address(lines), |(from, to)| number(from) && number(to))
        })
    };
    let known = quiet.text == "-n" && !script.glob && script.text.split(';').all(prints);
    let odd = |word: &Word| {
        word.text.starts_with('-') || word.quoted_pattern || word.glob && word.text.starts_with(['*', '?'])
    };
    (known && !files.iter().any(odd)).then(|| files.iter().map(path).collect())
}

/// `awk` that prints columns: programs of `print`, `$`, numbers and signs that cannot name a file or a command.
fn awk(args: &[Word]) -> Option<Vec<String>> {
    let sorted = options::sort("- F:", args, false)?;
    let (program, files) = sorted.operands.split_first()?;
    let known = |word: &str| matches!(word, "" | "print" | "NF" | "NR") || word.bytes().all(|b| b.is_ascii_digit());
    let prints = program.text.split([' ', '{', '}', '$', ',', ';']).all(known);
    // `a=b` would be a variable.
    let odd = |word: &&Word| word.text.contains('=') || word.quoted_pattern;
    (prints && !program.glob && !files.iter().any(odd)).then(|| files.iter().map(|word| path(word)).collect())
}

/// `test` of files and text. Numbers are compared only where they are numbers.
fn test(args: &[Word]) -> Option<Vec<String>> {
    let args = match args {
        [not, rest @ ..] if not.text == "!" => rest,
        args => args,
    };
    if args.iter().any(|word| word.glob) {
        return None;
    }
    let number =
        |word: &Word| !word.text.is_empty() && word.text.len() < 10 && word.text.bytes().all(|b| b.is_ascii_digit());
    match args {
        [operator, file]
            if matches!(
                operator.text.as_str(),
                "-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s" | "-L" | "-h"
            ) =>
        {
            (!file.quoted_pattern).then(|| vec![path(file)])
        }
        [operator, _] if matches!(operator.text.as_str(), "-n" | "-z") => Some(vec![]),
        [_, operator, _] if matches!(operator.text.as_str(), "=" | "==" | "!=") => Some(vec![]),
        [left, operator, right] if number(left) && number(right) => {
            matches!(operator.text.as_str(), "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge").then(Vec::new)
        }
        _ => None,
    }
}

/// `printf` with conversions that only print.
fn printf(args: &[Word]) -> Option<Vec<String>> {
    let (format, rest) = args
        .split_first()
        .filter(|(format, _)| !format.glob && !format.text.starts_with('-'))?;
    let mut parts = format.text.split('%').skip(1);
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // `%%`: what follows is text.
            parts.next()?;
            continue;
        }
        let conversion =
            part.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | ' ' | '#' | '.'));
        if !conversion.starts_with(['s', 'd', 'i', 'u', 'x', 'X', 'o', 'c', 'b', 'q', 'f', 'e', 'g']) {
            return None;
        }
    }
    rest.iter()
        .all(|word| !word.glob || !word.text.starts_with('-'))
        .then(Vec::new)
}

/// `date` that shows: an operand without `+` would set the clock.
fn date(args: &[Word]) -> Option<Vec<String>> {
    let list = "uR d: r@ I? --date= --utc --universal --reference@ --iso-8601? --rfc-3339= --rfc-email";
    let sorted = options::sort(list, args, false)?;
    let formats = sorted
        .operands
        .iter()
        .all(|word| word.text.starts_with('+') && !word.glob);
    formats.then_some(sorted.paths)
}
