//! Front matter: the lines between dashes at the top of a file. People write only a small subset of YAML there, and
//! this parser reads that subset: scalars, quotes, lists, nested maps and block texts. Text with a colon in it needs no
//! quotes.

use serde_json::{Map, Value};

/// Nesting beyond this is not front matter.
const DEEPEST: usize = 12;

/// A file in its two parts.
#[derive(Debug, PartialEq)]
pub(super) struct Parts<'a> {
    /// The fields; none when there is no front matter.
    pub(super) fields: Map<String, Value>,
    /// What comes after, without the empty lines before it.
    pub(super) body: &'a str,
}

/// Splits a file and reads its front matter.
pub(super) fn split(text: &str) -> Result<Parts<'_>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let none = || Parts {
        fields: Map::new(),
        body: text.trim_start_matches(['\r', '\n']),
    };
    let Some(first_end) = text.find('\n') else {
        return Ok(none());
    };
    if text[..first_end].trim_end() != "---" {
        return Ok(none());
    }
    let mut at = first_end + 1;
    let start = at;
    while at < text.len() {
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
        if matches!(text[at..end].trim_end(), "---" | "...") {
            let fields = parse(&text[start..at])?;
            let body = text[end..].trim_start_matches(['\r', '\n']);
            return Ok(Parts { fields, body });
        }
        at = end;
    }
    Err("the front matter has no closing `---` line".to_owned())
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
    let mut reader = Reader { lines, at: 0 };
    let Some(indent) = reader.next_indent() else {
        return Ok(Map::new());
    };
    let value = reader.block(indent, 0)?;
    if reader.next_indent().is_some() {
        return Err(reader.wrong("is indented differently from the lines before it"));
    }
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err("the front matter must consist of `name: value` lines".to_owned()),
    }
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, what: &str) -> String {
        // The line of dashes before it counts, too.
        format!("line {} of the front matter {what}", self.at + 2)
    }

    /// Skips what says nothing; the indentation of what comes next.
    fn next_indent(&mut self) -> Option<usize> {
        while let Some(line) = self.lines.get(self.at) {
            let text = line.trim_start();
            if !text.is_empty() && !text.starts_with('#') {
                return Some(line.len() - text.len());
            }
            self.at += 1;
        }
        None
    }

    fn line(&self) -> &'a str {
        self.lines[self.at].trim()
    }

    /// Everything at this indentation: a list or a map.
    fn block(&mut self, indent: usize, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(self.wrong("is nested too deeply"));
        }
        if is_item(self.line()) {
            self.list(indent, depth)
        } else {
            self.map(indent, depth)
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Result<Value, String> {
        let mut list = Vec::new();
        while self.next_indent() == Some(indent) && is_item(self.line()) {
            let rest = self.line()[1..].trim();
            list.push(self.value(rest, indent, depth)?);
        }
        Ok(Value::Array(list))
    }

    fn map(&mut self, indent: usize, depth: usize) -> Result<Value, String> {
        let mut map = Map::new();
        while self.next_indent() == Some(indent) && !is_item(self.line()) {
            let line = self.line();
            let Some((key, rest)) = key(line) else {
                return Err(self.wrong("is not of the form `name: value`"));
            };
            let value = self.value(rest, indent, depth)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    /// What follows a name or a dash: on the same line, or on lines further in.
    fn value(&mut self, rest: &str, indent: usize, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let rest = without_comment(rest);
        if rest.is_empty() {
            return match self.next_indent() {
                Some(inner) if inner > indent => self.block(inner, depth + 1),
                Some(same) if same == indent && is_item(self.line()) && depth < DEEPEST => self.list(indent, depth + 1),
                _ => Ok(Value::Null),
            };
        }
        if let Some(style) = rest.strip_prefix('|').or_else(|| rest.strip_prefix('>'))
            && style.chars().all(|letter| matches!(letter, '+' | '-' | '1'..='9'))
        {
            return Ok(Value::String(self.text(
                indent,
                rest.starts_with('>'),
                style.contains('-'),
            )));
        }
        let mut whole = rest.to_owned();
        // What is open, or simply goes on further in, is the same value.
        while self.lines.get(self.at).is_some_and(|line| {
            let text = line.trim_start();
            !text.is_empty() && (line.len() - text.len() > indent || (is_open(&whole) && !is_item(text)))
        }) {
            whole.push(' ');
            whole.push_str(without_comment(self.line()));
            self.at += 1;
        }
        if is_open(&whole) {
            self.at -= 1;
            return Err(self.wrong("has a quote or bracket that is not closed"));
        }
        scalar(&whole, depth).ok_or_else(|| {
            self.at -= 1;
            self.wrong("has an invalid value")
        })
    }

    /// A block of text.
    fn text(&mut self, indent: usize, fold: bool, strip: bool) -> String {
        let mut lines: Vec<&str> = Vec::new();
        while let Some(line) = self.lines.get(self.at) {
            let inside = line.len() - line.trim_start().len() > indent;
            if !inside && !line.trim().is_empty() {
                break;
            }
            lines.push(line);
            self.at += 1;
        }
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        let margin = lines
            .iter()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.len() - line.trim_start().len())
            .min()
            .unwrap_or(0);
        let lines = lines.iter().map(|line| line.get(margin..).unwrap_or("").trim_end());
        let mut text = String::new();
        for line in lines {
            match (fold, text.is_empty(), line.is_empty()) {
                (_, true, _) => {}
                (true, _, true) => text.push('\n'),
                (true, _, false) if !text.ends_with('\n') => text.push(' '),
                (true, ..) => {}
                (false, ..) => text.push('\n'),
            }
            text.push_str(line);
        }
        if !strip && !text.is_empty() {
            text.push('\n');
        }
        text
    }
}

fn is_item(line: &str) -> bool {
    line == "-" || line.starts_with("- ")
}

/// The name before the first colon, and the rest.
fn key(line: &str) -> Option<(String, &str)> {
    let (name, rest) = match line.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let end = line[1..].find(quote)? + 1;
            (&line[1..end], line[end + 1..].trim_start().strip_prefix(':')?)
        }
        _ => match line.split_once(": ") {
            Some((name, rest)) => (name, rest),
            None => (line.strip_suffix(':')?, ""),
        },
    };
    let name = name.trim();
    (!name.is_empty()).then(|| (name.to_owned(), rest.trim()))
}

/// Cuts a comment. In `see #1` there is none, whatever YAML says: people mean the words.
fn without_comment(text: &str) -> &str {
    let text = text.trim();
    if text.starts_with(['"', '\'', '[', '{']) {
        return match text.rsplit_once(" # ") {
            Some((before, _)) if !is_open(before) && before.trim_end().ends_with(['"', '\'', ']', '}']) => {
                before.trim_end()
            }
            _ => text,
        };
    }
    match text.split_once(" # ") {
        Some((before, _)) => before.trim_end(),
        None if text.starts_with('#') => "",
        None => text,
    }
}

/// Whether brackets or quotes at its beginning are not closed at its end.
fn is_open(text: &str) -> bool {
    match text.chars().next() {
        Some('[') => !text.ends_with(']'),
        Some('{') => !text.ends_with('}'),
        Some(quote @ ('"' | '\'')) => text.len() < 2 || !text.ends_with(quote),
        _ => false,
    }
}

fn scalar(text: &str, depth: usize) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    Some(match text.chars().next() {
        Some('"') => match serde_json::from_str(text) {
            Ok(value) => value,
            Err(_) => Value::String(between(text, ['"', '"']).unwrap_or(text).to_owned()),
        },
        Some('\'') => match between(text, ['\'', '\'']) {
            Some(inner) => Value::String(inner.replace("''", "'")),
            None => Value::String(text.to_owned()),
        },
        Some('[') => Value::Array(
            pieces(between(text, ['[', ']'])?)
                .into_iter()
                .map(|piece| scalar(piece, depth + 1))
                .collect::<Option<_>>()?,
        ),
        Some('{') => Value::Object(
            pieces(between(text, ['{', '}'])?)
                .into_iter()
                .map(|piece| {
                    let (name, rest) = key(piece)?;
                    Some((name, scalar(rest, depth + 1)?))
                })
                .collect::<Option<_>>()?,
        ),
        _ => match text {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "~" | "" => Value::Null,
            // Numbers as JSON has them; `1.0.0` and `007` stay text.
            _ => serde_json::from_str::<serde_json::Number>(text)
                .map_or_else(|_| Value::String(text.to_owned()), Value::Number),
        },
    })
}

/// The text between two delimiters, if it begins with the one and ends with the other.
fn between(text: &str, [open, close]: [char; 2]) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

/// The parts between commas that are not inside brackets or quotes.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut open, mut quote) = (Vec::new(), 0, 0usize, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(mark), _) if mark == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[' | '{') => open += 1,
            (None, ']' | '}') => open = open.saturating_sub(1),
            (None, ',') if open == 0 => {
                pieces.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(text[start..].trim());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A field as text, also when it looks like a number.
pub(super) fn text(fields: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let text = match find(fields, names)? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(word) => word.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// A field as a list of words: a list, or one text with commas.
pub(super) fn words(fields: &Map<String, Value>, names: &[&str]) -> Option<Vec<String>> {
    let trimmed = |text: &str| text.trim().to_owned();
    let mut words: Vec<String> = match find(fields, names)? {
        Value::Array(list) => list.iter().filter_map(|word| word.as_str().map(trimmed)).collect(),
        Value::String(text) => pieces_of_words(text),
        Value::Null => return None,
        _ => Vec::new(),
    };
    words.retain(|word| !word.is_empty());
    Some(words)
}

/// `Bash(git log:*), Read` has two words.
fn pieces_of_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut open) = (Vec::new(), String::new(), 0usize);
    for letter in text.chars() {
        match letter {
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            ',' if open == 0 => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(letter);
    }
    words.push(word);
    words.into_iter().map(|word| word.trim().to_owned()).collect()
}

/// A field that is yes or no.
pub(super) fn flag(fields: &Map<String, Value>, names: &[&str]) -> Option<bool> {
    match find(fields, names)? {
        Value::Bool(flag) => Some(*flag),
        Value::String(word) => match word.to_ascii_lowercase().as_str() {
            "yes" | "on" => Some(true),
            "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn find<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| fields.get(*name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn front_matter_is_read_as_people_write_it() {
        for (text, expected) in [
            (
                "name: a\ndescription: Use when: always, #1",
                json!({"name": "a", "description": "Use when: always, #1"}),
            ),
            ("name: 'it''s' # comment", json!({"name": "it's"})),
            (r#"name: "a \"b\"""#, json!({"name": "a \"b\""})),
            ("tools: [read, \"a, b\", 'c']", json!({"tools": ["read", "a, b", "c"]})),
            (
                "tools:\n  - read\n  - \"edit\"\nx: 1",
                json!({"tools": ["read", "edit"], "x": 1}),
            ),
            (
                "tools:\n- read\n- edit\nx: 1.0.0",
                json!({"tools": ["read", "edit"], "x": "1.0.0"}),
            ),
            ("tools: [\n  read,\n  edit\n]", json!({"tools": ["read", "edit"]})),
            (
                "a: |\n  one\n    two\n\n  three\nb: yes",
                json!({"a": "one\n  two\n\nthree\n", "b": "yes"}),
            ),
            ("a: >-\n  one\n  two\n\n  three", json!({"a": "one two\nthree"})),
            ("a: one\n  two", json!({"a": "one two"})),
            (
                "mcp-servers:\n  fs:\n    command: npx\n    args: ['-y', x]\n    env: {A: b}\ninfer: false",
                json!({"mcp-servers": {"fs": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}}}, "infer": false}),
            ),
            ("# only a comment\n", json!({})),
            ("empty:\nname: x", json!({"empty": null, "name": "x"})),
        ] {
            let parts = format!("---\n{text}\n---\n\nbody\n");
            let parts = split(&parts).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(Value::Object(parts.fields), expected, "{text:?}");
            assert_eq!(parts.body, "body\n");
        }
    }

    #[test]
    fn bad_front_matter_is_an_error_that_names_the_line() {
        for (text, expected) in [
            ("---\nname: a\nno end", "no closing"),
            ("---\nname: a\njust words\n---\n", "line 3"),
            ("---\ntools: [a, b\n---\n", "line 2"),
            ("---\n- a\n- b\n---\n", "name: value"),
        ] {
            let error = split(text).map(|parts| parts.fields).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_file_without_front_matter_is_all_body() {
        for text in ["# Title\n---\nx", "plain", "----\na: b\n----\n"] {
            let parts = split(text).unwrap();
            assert!(parts.fields.is_empty());
            assert_eq!(parts.body, text);
        }
    }

    #[test]
    fn words_come_as_a_list_or_with_commas() {
        for (value, expected) in [
            (json!(["a", "b"]), vec!["a", "b"]),
            (
                json!("Read, Bash(git log:*, x), Grep"),
                vec!["Read", "Bash(git log:*, x)", "Grep"],
            ),
            (json!([]), vec![]),
        ] {
            let fields = [("tools".to_owned(), value)].into_iter().collect();
            assert_eq!(words(&fields, &["tools"]).unwrap(), expected);
        }
    }

    const SAMPLES: &[&str] = &[
        "---\nname: a\ndescription: 'it''s'\ntools: [read, \"write\", {a: [b, 'c']}]\n---\nbody\n",
        "---\nmap:\n  deep:\n    - one\n    - two: 2\n      three: |-\n        text\n        more\ntext: >\n  folded\n  text\n---\n",
        "\u{feff}---\r\n\"quoted key\": 1.5 # comment\r\nempty:\r\nlist:\r\n- a\r\n- - b\r\n...\r\n\r\nbody",
        "---\na: [[1, 2], {b: 'c, d'}, \"e]\"]\nopen: [1,\n  2]\n---\n",
    ];

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_front_matter_does_harm(text in testkit::fuzz::text(SAMPLES)) {
            if let Ok(parts) = split(&text) {
                prop_assert!(text.ends_with(parts.body));
            }
        }
    }
}
