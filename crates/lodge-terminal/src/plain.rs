//! Makes text safe to print: it cannot control the terminal.

use std::borrow::Cow;

/// Replaces control characters, except line breaks and tabs, with visible ones.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\r' => '\n',
            c if controls(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Whether a terminal would obey this character instead of showing it. Marks that reverse text count: they could disguise it.
fn controls(c: char) -> bool {
    let reverses = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || reverses
}

/// Text in which every character is visible, as the last step before it is written to a terminal.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    match text.contains(controls) {
        true => text.replace(controls, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// The same on one line, with tabs as spaces.
pub fn plain_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// Shortens a text.
pub fn shorten(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest.saturating_sub(1)).chain(['…']).collect()
}

/// The path of a URI, for display.
pub fn shown_path(uri: &str) -> String {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shown_can_steer_the_terminal() {
        for (text, expected) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[2Jgone", "\u{fffd}[2Jgone"),
            ("over\rwritten", "over\nwritten"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("a\u{202e}b", "a\u{fffd}b"),
            ("a\u{61c}b", "a\u{fffd}b"),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }
}
