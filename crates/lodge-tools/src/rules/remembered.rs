//! Rules about commands: those that people write, which hold the words that commands begin with, and those that are made when
//! somebody allows a command for longer than once. These hold the text of one pipeline and a mark: `make test [=]`.

use crate::shell;

const EXACTLY: &str = "=";

/// A rule about commands.
#[derive(Debug, PartialEq)]
pub(super) enum CommandRule<'a> {
    /// Commands that begin with these words.
    Beginning(&'a str),
    /// The pipeline with this text.
    Exactly(&'a str),
    /// Commands with these options. Earlier builds made such rules; they allow nothing, because an option can make a program run
    /// anything.
    WithOptions(&'a str),
}

impl<'a> CommandRule<'a> {
    pub(super) fn read(rule: &'a str) -> Self {
        match rule.strip_suffix(']').and_then(|rule| rule.rsplit_once(" [")) {
            Some((text, EXACTLY)) => Self::Exactly(text),
            Some((words, _)) => Self::WithOptions(words),
            None => Self::Beginning(rule),
        }
    }

    /// The words that denials compare.
    pub(super) fn words(&self) -> &'a str {
        let (Self::Beginning(words) | Self::Exactly(words) | Self::WithOptions(words)) = self;
        words
    }
}

/// The rule that allows the pipeline with this text again.
pub(super) fn exactly(text: &str) -> String {
    format!("{text} [{EXACTLY}]")
}

/// Longer commands are not repeated where people choose.
const MOST_SHOWN: usize = 120;

/// What the rules with these texts allow, for people.
pub(super) fn described(texts: &[&str]) -> String {
    let is_long = texts.iter().map(|text| text.len()).sum::<usize>() > MOST_SHOWN;
    match texts {
        [] => String::new(),
        [_] if is_long || is_odd(texts) => "exactly this command".to_owned(),
        _ if is_long || is_odd(texts) => format!("exactly these {} commands", texts.len()),
        _ => format!("exactly `{}`", texts.join("` and `")),
    }
}

fn is_odd(texts: &[&str]) -> bool {
    texts
        .iter()
        .any(|text| text.contains('`') || text.contains(char::is_control) || shell::misleads(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_rules_allow() {
        let long = "x".repeat(200);
        for (texts, expected) in [
            (&[][..], ""),
            (&["rm -r a"], "exactly `rm -r a`"),
            (
                &["mkdir a", "cd a && ls | wc"],
                "exactly `mkdir a` and `cd a && ls | wc`",
            ),
            (&["git commit -m 'a\nb'"], "exactly this command"),
            (&["echo '`'"], "exactly this command"),
            (&["rm \u{202e}txt.a"], "exactly this command"),
            (&["rm a\u{200b}b", "ls"], "exactly these 2 commands"),
            (
                &["echo \u{1f469}\u{200d}\u{1f4bb}"],
                "exactly `echo \u{1f469}\u{200d}\u{1f4bb}`",
            ),
            (&[&long], "exactly this command"),
            (&[&long, "ls"], "exactly these 2 commands"),
        ] {
            assert_eq!(described(texts), expected);
        }
    }

    #[test]
    fn a_text_that_looks_like_a_mark_is_none() {
        for (rule, expected) in [
            ("[ -f a ]", CommandRule::Beginning("[ -f a ]")),
            ("make []", CommandRule::WithOptions("make")),
            ("echo '[-j]' [=]", CommandRule::Exactly("echo '[-j]'")),
        ] {
            assert_eq!(CommandRule::read(rule), expected, "{rule}");
        }
    }
}
