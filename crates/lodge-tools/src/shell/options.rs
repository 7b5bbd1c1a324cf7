//! Which options a program may have.
//!
//! A list is a text of words: the first holds letters that take no value; `n:` is a letter with a value, `f@` one whose
//! value is a path, `M?` one whose value may be attached, `L;` one whose value is always the next word and that stands alone,
//! because the program does not read bundled letters as others do; `--all`, `--sort=`, `--file@` and `--color?` are the same for
//! long options; `#` allows numbers (`-20`). Whatever else begins with `-` is unknown, abbreviations too.

use super::{parser::Word, programs};

/// Arguments, sorted.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    pub(super) operands: Vec<&'a Word>,
    /// Options without their values, in the order given: `a`, `sort`.
    pub(super) options: Vec<String>,
    /// Paths that are values of options.
    pub(super) paths: Vec<String>,
    /// How many of the operands stand before `--`.
    pub(super) before_dashes: usize,
}

/// Sorts arguments by a list of options. `None` when one is unknown, or when what the shell puts in place of a pattern
/// could be one, unless `anything` says that no option of the program does harm.
pub(super) fn sort<'a>(list: &str, args: &'a [Word], anything: bool) -> Option<Arguments<'a>> {
    let mut found = Arguments::default();
    let mut dashes = false;
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if word.glob && (text.starts_with('-') || text.starts_with(['*', '?']) && !(dashes || anything)) {
            return None;
        }
        if dashes || word.home || text == "-" || !text.starts_with('-') {
            found.operands.push(word);
            found.before_dashes += usize::from(!dashes);
        } else if text == "--" {
            dashes = true;
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, attached) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value)));
            let kind = list.split(' ').find_map(|item| {
                let kind = item.strip_prefix("--")?.strip_prefix(name)?;
                matches!(kind, "" | "=" | "@" | "?").then_some(kind)
            })?;
            found.options.push(name.to_owned());
            match (kind, attached) {
                ("", None) | ("?", _) => {}
                ("=" | "@", None) => found.value(rest.next()?, kind)?,
                ("=", Some(_)) => {}
                ("@", Some(attached)) => found.paths.push(attached_path(attached)?),
                _ => return None,
            }
        } else if !(list.split(' ').any(|item| item == "#") && text[1..].bytes().all(|b| b.is_ascii_digit())) {
            let mut letters = text[1..].chars();
            while let Some(letter) = letters.next() {
                found.options.push(letter.to_string());
                let attached = letters.as_str();
                match kind_of(list, letter)? {
                    "" => continue,
                    ";" if text.len() != 2 => return None,
                    "?" => {}
                    kind if attached.is_empty() => found.value(rest.next()?, kind)?,
                    "@" => found.paths.push(attached_path(attached)?),
                    _ => {}
                }
                break;
            }
        }
    }
    Some(found)
}

impl Arguments<'_> {
    pub(super) fn has(&self, options: &[&str]) -> bool {
        self.options.iter().any(|option| options.contains(&option.as_str()))
    }

    /// Takes a word for the value of an option. A pattern could be several words.
    fn value(&mut self, word: &Word, kind: &str) -> Option<()> {
        if word.glob || kind == "@" && word.quoted_pattern {
            return None;
        }
        self.paths.extend((kind == "@").then(|| programs::path(word)));
        Some(())
    }
}

/// A path in the middle of a word. Programs differ in what they make of a `~` there.
fn attached_path(text: &str) -> Option<String> {
    (!text.starts_with('~') && !text.contains(['*', '?', '[', '\\'])).then(|| text.to_owned())
}

fn kind_of(list: &str, letter: char) -> Option<&str> {
    let flags = list.split(' ').next().filter(|flags| !flags.starts_with("--"))?;
    if letter != '-' && flags.contains(letter) {
        return Some("");
    }
    list.split(' ').skip(1).find_map(|item| {
        let kind = item.strip_prefix(letter)?;
        (!item.starts_with('-') && matches!(kind, ":" | "@" | "?" | ";")).then_some(kind)
    })
}
