//! Words of a command, with quoting removed.

use tree_sitter::Node;

/// A word as the shell would pass it on, as far as that can be known before it runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Word {
    /// Its value; `None` when it depends on what happens then (`$x`, `$(…)`).
    pub(super) text: Option<String>,
    /// As it is written.
    pub(super) raw: String,
    /// Whether it stands for file names that match.
    pub(super) glob: bool,
    /// Whether it holds `{a,b}` outside quotes.
    braces: bool,
    /// Whether it is `<(…)` or `>(…)`: a pipe, not a path.
    pub(super) process: bool,
    /// Whether it is quoted as a whole, so that it stays one word.
    pub(super) quoted: bool,
}

impl Word {
    /// A word that is only text.
    pub(super) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            raw: text.clone(),
            text: Some(text),
            ..Self::default()
        }
    }

    /// A word whose value is not known.
    pub(super) fn unknown(raw: impl Into<String>) -> Self {
        Self {
            raw: raw.into(),
            ..Self::default()
        }
    }

    /// The value, or what is written when the value is not known.
    pub(super) fn shown(&self) -> &str {
        self.text.as_deref().unwrap_or(&self.raw)
    }

    /// Whether it may turn out to be an option: unknown, or a pattern that could match such a name.
    pub(super) fn may_be_option(&self) -> bool {
        match &self.text {
            None => !self.process,
            Some(text) => self.glob && text.starts_with(['*', '?', '[', '-']),
        }
    }

    /// The words it becomes by brace expansion; `None` when they are too many to tell.
    pub(super) fn expand(self) -> Option<Vec<Self>> {
        if !self.braces || self.text.as_deref() == Some("{}") {
            return Some(vec![self]);
        }
        // The values of unknown parts do not matter for the braces around them, but their text would.
        let text = self.text.clone().filter(|text| !holds_sequence(text))?;
        let mut out = vec![];
        braces(&text, &mut out)?;
        Some(
            out.into_iter()
                .map(|text| Self {
                    text: Some(text),
                    ..self.clone()
                })
                .collect(),
        )
    }
}

/// Whether it holds `{a..c}`, which is not followed.
fn holds_sequence(text: &str) -> bool {
    text.split('{').skip(1).any(|rest| {
        let inside = rest.split_once('}').map_or("", |(inside, _)| inside);
        inside.contains("..") && !inside.contains(',')
    })
}

/// Expands the first `{a,b}` and then the rest.
fn braces(text: &str, out: &mut Vec<String>) -> Option<()> {
    if out.len() > 256 {
        return None;
    }
    let Some((before, choices, after)) = first_braces(text) else {
        out.push(text.to_owned());
        return Some(());
    };
    for choice in choices {
        braces(&format!("{before}{choice}{after}"), out)?;
    }
    Some(())
}

/// What is before, in and after the first braces that hold a comma.
fn first_braces(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| at + from) {
        let mut depth = 0;
        let mut commas = vec![open];
        for (at, c) in text[open..].char_indices().map(|(at, c)| (at + open, c)) {
            match c {
                '{' => depth += 1,
                ',' if depth == 1 => commas.push(at),
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                if commas.len() == 1 {
                    break;
                }
                commas.push(at);
                let choices = commas.windows(2).map(|pair| &text[pair[0] + 1..pair[1]]).collect();
                return Some((&text[..open], choices, &text[at + 1..]));
            }
        }
        from = open + 1;
    }
    None
}

/// Reads a word from the syntax tree.
pub(super) fn word(node: Node<'_>, source: &str) -> Word {
    let raw = text_of(node, source);
    let unknown = || Word {
        raw: raw.to_owned(),
        ..Word::default()
    };
    match node.kind() {
        "command_name" => match node.named_child(0) {
            Some(child) => word(child, source),
            None => unescape(raw),
        },
        "word" | "number" | "variable_name" | "test_operator" | "extglob_pattern" | "regex" => unescape(raw),
        "brace_expression" => Word {
            braces: true,
            ..Word::literal(raw)
        },
        "raw_string" => Word {
            quoted: true,
            raw: raw.to_owned(),
            ..Word::literal(raw.trim_start_matches('\'').trim_end_matches('\''))
        },
        "ansi_c_string" => match raw
            .strip_prefix("$'")
            .and_then(|rest| rest.strip_suffix('\''))
            .and_then(ansi)
        {
            Some(text) => Word {
                quoted: true,
                raw: raw.to_owned(),
                ..Word::literal(text)
            },
            None => unknown(),
        },
        "string" => string(node, source),
        "translated_string" => match node.named_child(0) {
            Some(child) => Word {
                raw: raw.to_owned(),
                ..word(child, source)
            },
            None => unknown(),
        },
        "concatenation" => concatenation(node, source),
        "simple_expansion" | "expansion" if matches!(raw, "$HOME" | "${HOME}") => Word {
            raw: raw.to_owned(),
            ..Word::literal("~")
        },
        "process_substitution" => Word {
            process: true,
            ..unknown()
        },
        _ => unknown(),
    }
}

pub(super) fn text_of<'a>(node: Node<'_>, source: &'a str) -> &'a str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// An unquoted piece: a backslash keeps the next character as it is.
fn unescape(raw: &str) -> Word {
    let mut text = String::with_capacity(raw.len());
    let (mut glob, mut braces) = (false, false);
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next()),
            '*' | '?' | '[' => {
                glob = true;
                text.push(c);
            }
            '{' => {
                braces = true;
                text.push(c);
            }
            c => text.push(c),
        }
    }
    Word {
        text: Some(text),
        raw: raw.to_owned(),
        glob,
        braces,
        ..Word::default()
    }
}

/// A double-quoted piece.
fn string(node: Node<'_>, source: &str) -> Word {
    let raw = text_of(node, source);
    let mut cursor = node.walk();
    let mut home = false;
    for child in node.named_children(&mut cursor) {
        match child.kind() {
            "string_content" => {}
            // Only at the beginning the home directory can be shown as `~`.
            "simple_expansion" | "expansion"
                if matches!(text_of(child, source), "$HOME" | "${HOME}")
                    && child.start_byte() == node.start_byte() + 1 =>
            {
                home = true;
            }
            _ => {
                return Word {
                    raw: raw.to_owned(),
                    quoted: true,
                    ..Word::default()
                };
            }
        }
    }
    let inner = raw
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(raw);
    let inner = if home {
        inner.trim_start_matches("$HOME").trim_start_matches("${HOME}")
    } else {
        inner
    };
    let mut text = String::from(if home { "~" } else { "" });
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('"' | '\\' | '$' | '`')) => text.extend(chars.next()),
            ('\\', Some('\n')) => {
                chars.next();
            }
            (c, _) => text.push(c),
        }
    }
    Word {
        quoted: true,
        raw: raw.to_owned(),
        ..Word::literal(text)
    }
}

fn concatenation(node: Node<'_>, source: &str) -> Word {
    let raw = text_of(node, source).to_owned();
    let mut out = Word {
        text: Some(String::new()),
        raw,
        ..Word::default()
    };
    let mut cursor = node.walk();
    let mut end = node.start_byte();
    for child in node.children(&mut cursor) {
        // Pieces that the grammar does not name, such as a brace, stand between the children.
        let between = source.get(end..child.start_byte()).unwrap_or_default();
        end = child.end_byte();
        let part = if child.is_named() {
            word(child, source)
        } else {
            unescape(text_of(child, source))
        };
        out.glob |= part.glob;
        out.braces |= part.braces || between.contains('{');
        out.process |= part.process;
        // `~` in the middle would not be expanded, so neither is `$HOME` shown as one there.
        let home_inside =
            part.raw.contains("HOME") && part.text.as_deref() == Some("~") && out.text.as_deref() != Some("");
        out.text = match (out.text, part.text) {
            (Some(mut text), Some(more)) if !home_inside => {
                text.push_str(between);
                text.push_str(&more);
                Some(text)
            }
            _ => None,
        };
    }
    out
}

/// The inside of `$'…'`.
fn ansi(text: &str) -> Option<String> {
    let mut out: Vec<u8> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let digits =
            |chars: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize, first: Option<char>| {
                let mut digits: String = first.into_iter().collect();
                while digits.len() < most {
                    match chars.peek() {
                        Some(c) if c.is_digit(radix) => digits.extend(chars.next()),
                        _ => break,
                    }
                }
                u32::from_str_radix(&digits, radix).ok()
            };
        let escape = chars.next()?;
        match escape {
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            'r' => out.push(b'\r'),
            'a' => out.push(7),
            'b' => out.push(8),
            'e' | 'E' => out.push(27),
            'f' => out.push(12),
            'v' => out.push(11),
            '\\' | '\'' | '"' | '?' => out.push(escape as u8),
            'x' => out.push(u8::try_from(digits(&mut chars, 16, 2, None)?).ok()?),
            'u' => out.extend(
                char::from_u32(digits(&mut chars, 16, 4, None)?)?
                    .encode_utf8(&mut [0; 4])
                    .as_bytes(),
            ),
            'U' => out.extend(
                char::from_u32(digits(&mut chars, 16, 8, None)?)?
                    .encode_utf8(&mut [0; 4])
                    .as_bytes(),
            ),
            '0'..='7' => out.push(u8::try_from(digits(&mut chars, 8, 3, Some(escape))?).ok()?),
            _ => return None,
        }
    }
    String::from_utf8(out).ok()
}
