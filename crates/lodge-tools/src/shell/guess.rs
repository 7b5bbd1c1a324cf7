//! Guesses which programs a text may run that could not be parsed, to show to people and to compare with deny rules.
//!
//! Nothing is ever allowed because of a guess.

use super::{
    Analysis,
    parser::{MAX_BYTES, Word, is_name},
    programs::{self, name_of},
};

/// More than this is not listed.
const MOST: usize = 64;

/// Words after which another command comes.
#[rustfmt::skip]
const BEFORE_COMMANDS: &[&str] = &[
    "!", "builtin", "command", "coproc", "do", "doas", "elif", "else", "env", "eval", "exec", "if", "nice", "nohup", "sudo",
    "then", "time", "timeout", "until", "while", "xargs", "{", "-exec", "-execdir", "-ok", "setsid", "stdbuf",
];
/// Options of shells after which a line of theirs comes.
const BEFORE_LINES: &[&str] = &["-c", "-lc", "-ic", "-lic", "-ilc", "-ec", "-xc"];
/// Words of the shell's language that run nothing.
const NO_PROGRAMS: &[&str] = &[
    "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then", "}",
];

pub(super) fn analysis(text: &str) -> Analysis {
    let mut found = Analysis::default();
    let mut guess = Guess::default();
    let end = text.floor_char_boundary(MAX_BYTES);
    for word in words(&text[..end]) {
        if found.segments.len() >= MOST || found.paths.len() >= MOST {
            break;
        }
        guess.add_word(word, &mut found);
    }
    guess.end(&mut found);
    found
}

#[derive(Default)]
struct Guess<'a> {
    /// The running command.
    words: Vec<&'a str>,
    /// The redirection that the next word is the file of.
    redirection: Option<&'a str>,
}

impl<'a> Guess<'a> {
    fn add_word(&mut self, word: &'a str, found: &mut Analysis) {
        let redirection = self.redirection.take();
        match word {
            "<" | ">" => {
                found.writes_by_redirection |= word == ">";
                self.redirection = Some(word);
            }
            ";" | "|" | "&" | "(" | ")" | "`" | "\n" => self.end(found),
            _ if redirection.is_some() => found.path(bare(word).to_owned(), redirection == Some(">")),
            _ => {
                let assignment = self.words.is_empty() && word.split_once('=').is_some_and(|(name, _)| is_name(name));
                self.words.extend((!assignment).then_some(word));
                if BEFORE_COMMANDS.contains(&word) || BEFORE_LINES.contains(&word) {
                    self.end(found);
                }
            }
        }
    }

    /// Notes the command that ended here.
    fn end(&mut self, found: &mut Analysis) {
        let word = |text: &&str| Word {
            text: bare(text).to_owned(),
            ..Word::default()
        };
        let words: Vec<Word> = std::mem::take(&mut self.words).iter().map(word).collect();
        let Some(name) = words.first().map(|word| name_of(&word.text)) else {
            return;
        };
        let usual = |b: u8| b.is_ascii_alphanumeric() || b"_-./+".contains(&b);
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.' | '/'));
        if !starts || !name.bytes().all(usual) || NO_PROGRAMS.contains(&name) {
            return;
        }
        let rest = words[1..].iter().map(|word| word.text.as_str());
        let text: Vec<&str> = [name].into_iter().chain(rest).collect();
        let call = programs::call(&words);
        found.segment(call.identifier.clone(), text.join(" "));
        found.command(call.identifier, false);
        found.urls.extend(call.urls);
        for (path, write) in call.paths {
            found.path(path, write);
        }
    }
}

/// A word without quotes around it.
fn bare(word: &str) -> &str {
    word.trim_matches(['\'', '"'])
}

/// The words of a text and the signs between them. What stands in quotes is one word, unless it is a script.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    let mut before = "";
    let mut document = None;
    while let Some(first) = rest.chars().next() {
        // The lines of a here-document are text.
        if let Some(text) = rest.strip_prefix("<<<") {
            rest = text;
            continue;
        }
        if let Some(text) = rest.strip_prefix("<<").filter(|_| document.is_none()) {
            let text = text.trim_start_matches(['-', ' ', '\t', '\'', '"', '\\']);
            let end = |c: char| c.is_whitespace() || "'\";|&)".contains(c);
            let name = &text[..text.find(end).unwrap_or(text.len())];
            document = Some(name);
            rest = text[name.len()..].trim_start_matches(['\'', '"']);
            continue;
        }
        if let Some(end) = document.take_if(|_| first == '\n') {
            let mut ended = false;
            let lines = rest[1..].split_inclusive('\n');
            let inside = lines.take_while(|line| !std::mem::replace(&mut ended, line.trim() == end));
            rest = &rest[1 + inside.map(str::len).sum::<usize>()..];
            words.push("\n");
            continue;
        }
        let (word, after) = match first {
            '\n' | ';' | '|' | '&' | '(' | ')' | '`' | '<' | '>' => rest.split_at(1),
            '\'' | '"' if quoted(rest, first).is_some() && before != "eval" && !BEFORE_LINES.contains(&before) => {
                rest.split_at(quoted(rest, first).unwrap_or(1))
            }
            _ if first.is_whitespace() || matches!(first, '"' | '\'' | '\\') || rest.starts_with("$(") => {
                rest = &rest[first.len_utf8()..];
                continue;
            }
            _ => {
                let sign = |c: char| c.is_whitespace() || "\n;|&()`<>\"'\\".contains(c);
                rest.split_at(rest.find(sign).unwrap_or(rest.len()))
            }
        };
        // What stands before `(` is the sign of a substitution.
        words.push(
            word.strip_suffix('$')
                .filter(|_| after.starts_with('('))
                .unwrap_or(word),
        );
        (before, rest) = (word, after);
    }
    words
}

/// Where quoted text ends that runs nothing.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let inside = rest[1..].split(quote).next().unwrap_or_default();
    let runs = quote == '"' && (inside.contains("$(") || inside.contains('`'));
    (!runs).then(|| (inside.len() + 2).min(rest.len()))
}
