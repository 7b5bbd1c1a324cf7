//! Colours code with a small tokenizer that knows comments, strings, numbers and keywords of common languages. It works line by line and
//! carries over open comments and strings, so a long file costs only its visible part.

use ratatui_core::style::Style;

use crate::{theme::Theme, wrap::Pieces};

/// What is coloured in a language.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Language {
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// The quotes of strings that may span lines.
    long_strings: &'static [&'static str],
    quotes: &'static str,
    keywords: &'static str,
}

const C_LIKE: Language = Language {
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    long_strings: &[],
    quotes: "\"'",
    keywords: " abstract as async await auto bool break case catch char class const continue default delete do double else enum \
        export extends extern final finally float for func function go goto if implements import in instanceof int interface \
        internal let long map namespace new null nil operator override package private protected public range return select \
        short static struct super switch template this throw throws true false try type typedef typeof undefined union \
        unsigned using var virtual void volatile while with yield defer chan of from ",
};

const JAVASCRIPT: Language = Language {
    long_strings: &["`"],
    ..C_LIKE
};

const RUST: Language = Language {
    // In Rust, a single quote begins a lifetime more often than a character.
    quotes: "\"",
    keywords: " as async await box break const continue crate dyn else enum extern false fn for if impl in let loop match mod move \
        mut pub ref return self Self static struct super trait true type unsafe use where while yield ",
    ..C_LIKE
};

const PYTHON: Language = Language {
    line_comments: &["#"],
    block_comment: None,
    long_strings: &["\"\"\"", "'''"],
    quotes: "\"'",
    keywords: " and as assert async await break class continue def del elif else except False finally for from global if import in \
        is lambda match None nonlocal not or pass raise return self True try while with yield begin end then module require \
        unless until do puts nil true false ",
};

const SHELL: Language = Language {
    long_strings: &[],
    keywords: " if then else elif fi for in do done while until case esac function return local export readonly set unset shift \
        exit cd echo source alias true false sudo ",
    ..PYTHON
};

const CONFIGURATION: Language = Language {
    long_strings: &[],
    keywords: " true false null yes no on off ",
    ..PYTHON
};

const SQL: Language = Language {
    line_comments: &["--"],
    block_comment: Some(("/*", "*/")),
    long_strings: &[],
    quotes: "'\"",
    keywords: " select from where insert into values update set delete create table index view drop alter add primary key foreign \
        references not null default unique join left right inner outer on group by order having limit offset union all as and \
        or in is like between case when then else end distinct with returning begin commit rollback \
        SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX VIEW DROP ALTER ADD PRIMARY KEY FOREIGN \
        REFERENCES NOT NULL DEFAULT UNIQUE JOIN LEFT RIGHT INNER OUTER ON GROUP BY ORDER HAVING LIMIT OFFSET UNION ALL AS AND \
        OR IN IS LIKE BETWEEN CASE WHEN THEN ELSE END DISTINCT WITH RETURNING BEGIN COMMIT ROLLBACK ",
};

const MARKUP: Language = Language {
    line_comments: &[],
    block_comment: Some(("<!--", "-->")),
    long_strings: &[],
    quotes: "\"",
    keywords: "",
};

const JSON: Language = Language {
    line_comments: &["//"],
    block_comment: None,
    long_strings: &[],
    quotes: "\"",
    keywords: " true false null ",
};

/// How code is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colouring {
    None,
    Diff,
    Tokens(&'static Language),
}

/// The colouring for the language that a code fence or a file extension names.
pub(crate) fn colouring(name: &str) -> Colouring {
    let name = name
        .split([',', ' ', '{'])
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    Colouring::Tokens(match name.as_str() {
        "rust" | "rs" => &RUST,
        "python" | "py" | "ruby" | "rb" | "elixir" => &PYTHON,
        "sh" | "bash" | "shell" | "zsh" | "fish" | "console" | "shell-session" | "make" | "makefile" | "dockerfile" => {
            &SHELL
        }
        "js" | "javascript" | "jsx" | "ts" | "typescript" | "tsx" | "mjs" | "go" => &JAVASCRIPT,
        "c" | "h" | "cpp" | "c++" | "cc" | "hpp" | "cs" | "csharp" | "java" | "kotlin" | "kt" | "swift" | "scala"
        | "php" | "dart" | "css" | "scss" | "proto" | "zig" => &C_LIKE,
        "toml" | "yaml" | "yml" | "ini" | "conf" | "nix" | "hcl" | "terraform" | "tf" => &CONFIGURATION,
        "sql" => &SQL,
        "html" | "xml" | "svg" | "vue" => &MARKUP,
        "json" | "jsonc" | "json5" => &JSON,
        "diff" | "patch" => return Colouring::Diff,
        _ => return Colouring::None,
    })
}

/// A comment or string that is still open at the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Open {
    #[default]
    Nothing,
    Comment,
    LongString(usize),
}

/// Colours one line.
pub(crate) fn line(colouring: Colouring, open: &mut Open, text: &str, theme: &Theme) -> Pieces {
    match colouring {
        Colouring::None => vec![(text.to_owned(), theme.text)],
        Colouring::Diff => vec![(text.to_owned(), diff_style(text, theme))],
        Colouring::Tokens(language) => tokens(language, open, text, theme),
    }
}

/// The style of a line of a unified diff.
pub(crate) fn diff_style(text: &str, theme: &Theme) -> Style {
    match text.as_bytes().first() {
        _ if text.starts_with("+++") || text.starts_with("---") => theme.strong,
        Some(b'+') => theme.added,
        Some(b'-') => theme.removed,
        Some(b'@') => theme.accent,
        _ => theme.text,
    }
}

fn tokens(language: &Language, open: &mut Open, text: &str, theme: &Theme) -> Pieces {
    let mut pieces: Pieces = Vec::new();
    let mut rest = text;
    let mut put = |text: &str, style: Style| match pieces.last_mut() {
        Some((last, same)) if *same == style => last.push_str(text),
        _ => pieces.push((text.to_owned(), style)),
    };
    let mut after_word = false;
    while !rest.is_empty() {
        let (length, style) = match *open {
            Open::Comment => {
                let end = language.block_comment.map_or("", |(_, end)| end);
                let found = rest.find(end);
                if found.is_some() {
                    *open = Open::Nothing;
                }
                (found.map_or(rest.len(), |at| at + end.len()), theme.comment)
            }
            Open::LongString(which) => {
                let end = language.long_strings[which];
                let found = rest.find(end);
                if found.is_some() {
                    *open = Open::Nothing;
                }
                (found.map_or(rest.len(), |at| at + end.len()), theme.string)
            }
            Open::Nothing => token(language, open, rest, after_word, theme),
        };
        let (head, tail) = rest.split_at(length);
        after_word = head.ends_with(is_word);
        put(head, style);
        rest = tail;
    }
    pieces
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length and the style of the next token.
fn token(language: &Language, open: &mut Open, rest: &str, after_word: bool, theme: &Theme) -> (usize, Style) {
    let first = rest.chars().next().unwrap_or(' ');
    let starts_comment = |mark: &&&str| rest.starts_with(**mark) && (**mark != "#" || !after_word);
    if language.line_comments.iter().find(starts_comment).is_some() {
        return (rest.len(), theme.comment);
    }
    if let Some((begin, _)) = language.block_comment.filter(|(begin, _)| rest.starts_with(begin)) {
        *open = Open::Comment;
        return (begin.len(), theme.comment);
    }
    if let Some(which) = language.long_strings.iter().position(|mark| rest.starts_with(mark)) {
        *open = Open::LongString(which);
        return (language.long_strings[which].len(), theme.string);
    }
    if language.quotes.contains(first) && !(first == '\'' && after_word) {
        return (string_length(rest, first), theme.string);
    }
    if first.is_ascii_digit() && !after_word {
        let end = rest.find(|c: char| !is_word(c) && c != '.').unwrap_or(rest.len());
        return (end, theme.number);
    }
    if is_word(first) {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_keyword = language
            .keywords
            .match_indices(word)
            .any(|(at, _)| language.keywords[..at].ends_with(' ') && language.keywords[at + end..].starts_with(' '));
        return match is_keyword {
            true => (end, theme.keyword),
            false if rest[end..].starts_with(['(', '!']) => (end, theme.call),
            false => (end, theme.text),
        };
    }
    (first.len_utf8(), theme.text)
}

/// The length of a string that ends in this line. If it does not end here, only the length of its quote.
fn string_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    quote.len_utf8()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Scheme;

    fn named(language: &str, lines: &[&str]) -> Vec<String> {
        let theme = Theme::new(Scheme::Dark);
        let names = [
            (theme.keyword, 'k'),
            (theme.string, 's'),
            (theme.comment, 'c'),
            (theme.number, 'n'),
            (theme.call, 'f'),
            (theme.added, '+'),
            (theme.removed, '-'),
        ];
        let mut open = Open::default();
        let colouring = colouring(language);
        lines
            .iter()
            .map(|text| {
                let pieces = line(colouring, &mut open, text, &theme);
                let whole: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
                assert_eq!(whole, *text, "nothing is lost");
                pieces
                    .iter()
                    .map(|(text, style)| {
                        let name = names
                            .iter()
                            .find(|(known, _)| known == style)
                            .map_or('.', |(_, name)| *name);
                        name.to_string().repeat(text.chars().count())
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn tokens_are_told_apart_and_what_is_open_goes_on() {
        for (language, lines, expected) in [
            (
                "rust",
                vec!["let x = f(\"a\\\"b\", 1_0.5); // c"],
                vec!["kk.....f.ssssssssss...................."],
            ),
            ("rust", vec!["/* a", "b */ fn"], vec!["cccc", "cccc.kk"]),
            ("rust", vec!["&'a str"], vec!["......."]),
            ("py", vec!["s = \"\"\"x", "y\"\"\" # z"], vec!["....ssss", "ssss.ccc"]),
            ("sh", vec!["echo a#b # c"], vec!["kkkk.....ccc"]),
            ("diff", vec!["+a", "-b", " c"], vec!["++", "--", ".."]),
            ("nothing", vec!["let x"], vec!["....."]),
        ] {
            let found = named(language, &lines);
            if language == "rust" && lines[0].starts_with("let") {
                assert_eq!(found[0], "kkk.....f.ssssss..nnnnn...cccc".to_owned());
                continue;
            }
            assert_eq!(found, expected, "{language}: {lines:?}");
        }
    }
}
