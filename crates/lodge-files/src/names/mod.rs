//! Completes names in a message: files, and symbols that source files define.

mod completion;
mod fuzzy;
mod index;
mod symbols;

pub use self::{
    completion::{Completed, Completion},
    index::{Found, Indexes},
    symbols::{Symbol, Symbols},
};

/// What is being typed after a trigger.
#[derive(Debug, PartialEq, Eq)]
pub struct Mention {
    /// `@`, `#` or `/`.
    pub trigger: char,
    /// What follows it so far.
    pub word: String,
    /// Where the trigger is, in UTF-16 units.
    pub start: usize,
}

/// What is being typed at an offset, which is in UTF-16 units. A `/` counts at the beginning of a message alone.
pub fn mention(text: &str, offset: usize) -> Option<Mention> {
    let units: Vec<u16> = text.encode_utf16().take(offset).collect();
    let before = String::from_utf16_lossy(&units);
    let at = before.trim_end_matches(|c: char| !c.is_whitespace()).len();
    let mut letters = before[at..].chars();
    let trigger = letters.next()?;
    let triggers = matches!(trigger, '@' | '#') || (trigger == '/' && at == 0);
    triggers.then(|| Mention {
        trigger,
        word: letters.collect(),
        start: before[..at].encode_utf16().count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_found_where_the_cursor_is() {
        let check = |text: &str, offset, expected: Option<(char, usize, &str)>| {
            let expected = expected.map(|(trigger, start, word)| Mention {
                trigger,
                word: word.to_owned(),
                start,
            });
            assert_eq!(mention(text, offset), expected, "{text} {offset}");
        };
        check("look at @src/ma", 15, Some(('@', 8, "src/ma")));
        check("look at @src/ma", 9, Some(('@', 8, "")));
        check("look at @src/ma", 4, None);
        check("mail me@example", 15, None);
        check("😀 @A", 5, Some(('@', 3, "A")));
        check("😀😀\n#b", 7, Some(('#', 5, "b")));
        check("@😀x", 3, Some(('@', 0, "😀")));
        // In the middle of a character there is no character.
        check("@😀x", 2, Some(('@', 0, "\u{fffd}")));
        check("@a b", 4, None);
        check("/comp", 5, Some(('/', 0, "comp")));
        check("/", 1, Some(('/', 0, "")));
        check("a /comp", 7, None);
        check("/compact now", 12, None);
        check("/fix @a", 7, Some(('@', 5, "a")));
        check("@node_modules/@types/#x", 23, Some(('@', 0, "node_modules/@types/#x")));
        check("see\u{3000}@a", 6, Some(('@', 4, "a")));
        check("", 0, None);
    }
}
