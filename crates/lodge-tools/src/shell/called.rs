//! A call of a program as rules about commands compare it: its words, and the options it has.

use super::{
    parser::{Word, quoted},
    programs,
};

/// A call of a program that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProgramCall {
    /// Name with subcommand, and what precedes it and changes its meaning.
    pub(crate) identifier: String,
    /// What precedes it, the program and its arguments.
    pub(crate) text: String,
    /// The program and its arguments.
    pub(crate) bare: String,
    /// What precedes it, the program and its arguments, quoted: no other call has the same text.
    pub(crate) exact: String,
    /// Names of options. With their values where these say what runs, or where.
    pub(crate) options: Vec<String>,
}

impl ProgramCall {
    /// `words[0]` is the program.
    pub(super) fn new(identifier: &str, prefix: &[&str], words: &[Word]) -> Self {
        let name = programs::name_of(&words[0].text);
        let arguments = words[1..].iter().map(|word| word.text.as_str());
        let bare: Vec<&str> = [name].into_iter().chain(arguments).collect();
        let program = prefix.iter().chain([&name]).map(|word| quoted(word));
        let exact: Vec<String> = program.chain(words[1..].iter().map(exact)).collect();
        let text: Vec<&str> = prefix.iter().chain(&bare).copied().collect();
        let before = prefix.iter().map(|word| quoted(word));
        Self {
            // A value with blanks must not read like a program.
            identifier: before.chain([identifier.to_owned()]).collect::<Vec<_>>().join(" "),
            text: text.join(" "),
            bare: bare.join(" "),
            exact: exact.join(" "),
            options: options(name, &words[1..]),
        }
    }
}

/// A word, quoted except for the signs of a pattern.
fn exact(word: &Word) -> String {
    if !word.glob {
        return quoted(&word.text);
    }
    let is_sign = |c: char| matches!(c, '*' | '?' | '[' | ']');
    let parts = word.text.split_inclusive(is_sign);
    parts
        .map(|part| match part.strip_suffix(is_sign) {
            Some("") => part.to_owned(),
            Some(head) => format!("{}{}", quoted(head), &part[head.len()..]),
            None => quoted(part),
        })
        .collect()
}

/// Options whose value says what runs, or where: they are remembered with it. By the programs that have them.
#[rustfmt::skip]
const WITH_VALUE: &[(&[&str], &[&str])] = &[
    (&["npm", "npx", "pnpm", "yarn", "bun", "bunx", "uv", "uvx"], &["-p", "--package", "--from", "--with", "--with-requirements"]),
    (&["npm", "npx", "pnpm", "yarn", "bun"], &["--prefix", "-C", "--dir", "--cwd"]),
    (&["make", "gmake", "ninja"], &["-f", "--file", "--makefile", "-C", "--directory", "-I", "--include-dir"]),
    (&["just"], &["-f", "--justfile", "-d", "--working-directory", "--shell"]),
    (&["cargo", "go", "git", "uv", "poetry"], &["--manifest-path", "-C", "--directory", "--project"]),
];

/// Programs whose arguments can set variables, also after `--`.
const WITH_VARIABLES: &[&str] = &["make", "gmake", "just"];

fn options(name: &str, args: &[Word]) -> Vec<String> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let listed = WITH_VALUE.iter().filter(|(programs, _)| programs.contains(&name));
    let values: Vec<&str> = listed.flat_map(|(_, names)| names.iter().copied()).collect();
    let mut found: Vec<String> = programs::bundle(name, args).into_iter().collect();
    let mut words = args.iter().map(|word| word.text.as_str());
    // Whether the word before may take the next one for its value, also when that is `--`.
    let mut open = false;
    let mut ended = false;
    while let Some(word) = words.next() {
        let after_option = std::mem::take(&mut open);
        if ended || word == "-" || !word.starts_with(['-', '+']) {
            if WITH_VARIABLES.contains(&name) && word.contains('=') {
                found.push(word.to_owned());
            }
        } else if word == "--" {
            ended = !after_option;
        } else {
            let option = option(word, &values, || words.next());
            open = !option.contains('=') && !word.contains('=');
            found.push(option);
        }
    }
    found
}

/// An option as it is remembered.
fn option<'a>(word: &'a str, values: &[&str], next: impl FnOnce() -> Option<&'a str>) -> String {
    let (name, attached) = word
        .split_once('=')
        .map_or((word, None), |(name, value)| (name, Some(value)));
    if name.starts_with("--") {
        // Many programs take the beginning of a name for the name.
        let has_value = values.iter().any(|known| known.starts_with(name));
        return match has_value {
            true => format!("{name}={}", attached.or_else(next).unwrap_or_default()),
            false => name.to_owned(),
        };
    }
    let is_value = |letter: char| values.contains(&format!("-{letter}").as_str());
    let mut letters = word.char_indices().skip(1).filter(|_| word.starts_with('-'));
    if let Some((at, letter)) = letters.find(|(_, letter)| is_value(*letter)) {
        let (name, attached) = word.split_at(at + letter.len_utf8());
        let value = Some(attached).filter(|value| !value.is_empty()).or_else(next);
        return format!("{name}={}", value.unwrap_or_default());
    }
    // `-j4` and `-j8` are the same option.
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_letter = bare.starts_with('-') && bare.len() == 2;
    if is_letter { bare } else { name }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::analyse;

    #[test]
    fn options_are_told_by_their_names_and_by_values_that_say_what_runs() {
        for (command, expected) in [
            ("make test", ""),
            ("make -j4 test --keep-going", "-j|--keep-going"),
            ("make -C sub test CC=x", "-C=sub|CC=x"),
            ("make -C 'my dir' test", "-C=my dir"),
            ("make -Cpkg1 test", "-C=pkg1"),
            ("make -C4 test", "-C=4"),
            ("make -kf x test", "-kf=x"),
            ("make test --direc=x", "--direc=x"),
            ("make test -- SHELL=./x -k", "SHELL=./x"),
            ("make test SHELL:=./x", "SHELL:=./x"),
            ("sudo ./make test CC=x", "CC=x"),
            ("npx -p a eslint --fix", "-p=a|--fix"),
            ("npx --package=a eslint", "--package=a"),
            ("pnpm dlx --package a eslint", "--package=a"),
            ("cargo test -p one - -- --nocapture", "-p"),
            ("cargo test -ab1", "-ab1"),
            ("cargo +1.80 test", "+1.80"),
            ("git commit -m one - two", "-m"),
            ("git commit -m 'a -- b' --amend", "-m|--amend"),
            ("git commit -m -- --amend", "-m|--amend"),
            ("git commit -m 'Add --json'", "-m"),
            ("docker run -e A=2 -p 80:80 x", "-e|-p"),
            ("tar xf a.tar", "-xf"),
        ] {
            let call = analyse(command).calls.remove(0);
            assert_eq!(call.options.join("|"), expected, "{command}");
        }
    }
}
