//! What words in the editor stand for: long texts that were pasted, and attachments. A word keeps its meaning after its message was
//! sent, so that a message that is recalled, taken back or refused is whole again.

use ahp::ahp_types::state::MessageAttachment;

use crate::transcript::attachment_label;

/// The most bytes that are kept. The oldest are forgotten first.
const KEPT: usize = 64 << 20;

/// How many things of the same name are looked for in a text.
const NUMBERED: usize = 20;

enum Meaning {
    Pasted(String),
    Attached(Box<MessageAttachment>),
}

impl Meaning {
    fn bytes(&self) -> usize {
        match self {
            Self::Pasted(text) => text.len(),
            Self::Attached(attachment) => match &**attachment {
                MessageAttachment::EmbeddedResource(embedded) => embedded.data.len(),
                _ => 0,
            },
        }
    }
}

/// The words, oldest first.
#[derive(Default)]
pub(super) struct Tokens(Vec<(String, Meaning)>);

impl Tokens {
    /// The word for a text that was pasted.
    pub(super) fn paste(&mut self, text: String) -> String {
        let name = format!("Pasted {} lines", text.lines().count());
        self.bracketed(&name, Meaning::Pasted(text))
    }

    /// The word for an attachment with this label.
    pub(super) fn attach(&mut self, label: &str, attachment: MessageAttachment) -> String {
        self.bracketed(label, Meaning::Attached(Box::new(attachment)))
    }

    /// Gives a word of the editor its meaning.
    pub(super) fn name(&mut self, word: &str, attachment: MessageAttachment) {
        self.keep(word.to_owned(), Meaning::Attached(Box::new(attachment)));
    }

    /// Forgets the files that `@` words stand for: in another session, a word names another file. Words in this text keep theirs.
    pub(super) fn forget_files(&mut self, text: &str) {
        self.0
            .retain(|(word, _)| !word.starts_with('@') || has_word(text, word));
    }

    fn bracketed(&mut self, name: &str, meaning: Meaning) -> String {
        let same = |known: &Meaning| match (known, &meaning) {
            (Meaning::Pasted(known), Meaning::Pasted(new)) => known == new,
            (Meaning::Attached(known), Meaning::Attached(new)) => known == new,
            _ => false,
        };
        let free = |word: &String| self.0.iter().all(|(known, meaning)| known != word || same(meaning));
        // There are more numbers than words.
        let word = numbered(name).find(free).unwrap_or_default();
        self.keep(word.clone(), meaning);
        word
    }

    fn keep(&mut self, word: String, meaning: Meaning) {
        self.0.retain(|(known, _)| *known != word);
        self.0.push((word, meaning));
        let mut bytes = 0;
        let newest_first = self.0.iter().rev();
        let kept = newest_first
            .take_while(|(_, meaning)| {
                bytes += meaning.bytes();
                bytes <= KEPT
            })
            .count();
        // The last one is kept, however large it is.
        self.0.drain(..self.0.len() - kept.max(1));
    }

    /// A text with the whole of what was pasted.
    pub(super) fn unfold(&self, mut text: String) -> String {
        for (word, meaning) in &self.0 {
            if let Meaning::Pasted(whole) = meaning {
                text = text.replace(word, whole);
            }
        }
        text
    }

    /// The text of a message, in which each of its attachments has a word: the given one, or one with its label.
    pub(super) fn restore(&mut self, text: &str, attached: Vec<(Option<String>, &MessageAttachment)>) -> String {
        let mut text = text.to_owned();
        let mut taken: Vec<String> = Vec::new();
        for (word, attachment) in attached {
            let label = attachment_label(attachment).unwrap_or("attachment");
            let mut words = word.into_iter().chain(numbered(label).take(NUMBERED));
            let word = words.find(|word| has_word(&text, word) && !taken.contains(word));
            taken.push(match word {
                Some(word) => {
                    self.name(&word, attachment.clone());
                    word
                }
                None => {
                    let word = self.attach(label, attachment.clone());
                    text = format!("{text} {word}").trim_start().to_owned();
                    word
                }
            });
        }
        text
    }

    /// The attachments of a text.
    pub(super) fn attachments(&self, text: &str) -> Option<Vec<MessageAttachment>> {
        let attached = self.0.iter().filter_map(|(word, meaning)| match meaning {
            Meaning::Attached(attachment) if has_word(text, word) => Some((**attachment).clone()),
            _ => None,
        });
        Some(attached.collect::<Vec<_>>()).filter(|attached| !attached.is_empty())
    }
}

/// The words for things of the same name.
fn numbered(name: &str) -> impl Iterator<Item = String> {
    (1..).map(move |number| match number {
        1 => format!("[{name}]"),
        number => format!("[{name} #{number}]"),
    })
}

/// Whether a text has this word as a whole: `@a` is not in `@ab`, `@a.rs` or `@a/b`.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-/\\@#".contains(c);
    text.match_indices(word).any(|(at, _)| {
        if word.ends_with(']') {
            return true;
        }
        let after = text[at + word.len()..].trim_start_matches(['.', ':', '+']);
        let begins = !text[..at].ends_with(is_part);
        begins && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_only_as_a_whole() {
        for (text, expected) in [
            ("@a", true),
            ("see @a, and @b", true),
            ("see @a.", true),
            ("(@a)", true),
            ("@ab", false),
            ("@a.rs", false),
            ("@a/b", false),
            ("me@a", false),
            ("@ab and @a", true),
        ] {
            assert_eq!(has_word(text, "@a"), expected, "{text:?}");
        }
        assert!(has_word("x[a.png]y", "[a.png]"));
    }

    #[test]
    fn words_of_different_texts_differ_and_the_oldest_are_forgotten() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.paste("a\nb".into()), "[Pasted 2 lines]");
        assert_eq!(tokens.paste("c\nd".into()), "[Pasted 2 lines #2]");
        assert_eq!(tokens.paste("a\nb".into()), "[Pasted 2 lines]");
        let text = "1 [Pasted 2 lines] [Pasted 2 lines #2]".to_owned();
        assert_eq!(tokens.unfold(text.clone()), "1 a\nb c\nd");
        tokens.paste("x".repeat(2 * KEPT));
        assert_eq!(tokens.unfold(text.clone()), text);
        assert_eq!(tokens.0.len(), 1);
    }
}
