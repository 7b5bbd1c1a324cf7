//! The title of a session: the name that somebody gave it, else taken from its first message.

use lodge_events::{LodgeNamed, SessionTitleChanged};
use lodge_log::LogError;
use uuid::Uuid;

use crate::{facts::Facts, session::Shared};

impl Shared {
    /// Gives the session a name, or takes it away, by an event with this id. A name that no person chose takes the place of none
    /// that a person chose. How many bytes it adds to the log.
    pub(crate) fn set_name(&self, id: Uuid, name: Option<String>, automatic: bool) -> Result<usize, LogError> {
        let _one = self.settings.one_at_a_time();
        if automatic && self.is_named_by_person() {
            return Ok(0);
        }
        let recorder = &self.recorder;
        let named = LodgeNamed {
            name: name.clone(),
            automatic: automatic.then_some(true),
        };
        let mut bytes = 0;
        if !recorder.facts(|facts| facts.about.named.as_ref() == Some(&named)) {
            bytes += recorder.record(named)?.json().len();
        }
        self.settings.lock().name.clone_from(&name);
        if let Some(title) = name.or_else(|| recorder.facts(Facts::title)) {
            bytes += recorder.record_as(id, SessionTitleChanged { title })?.json().len();
        }
        Ok(bytes)
    }

    /// Gives the session the name that its agent gives it. How many bytes that adds to the log.
    pub(crate) fn call_itself(&self, title: String) -> Result<usize, LogError> {
        let is_known = self.settings.lock().name.as_ref() == Some(&title);
        if is_known {
            Ok(0)
        } else {
            self.set_name(Uuid::new_v4(), Some(title), true)
        }
    }
}

/// The first line with words in it, shortened at a word.
pub fn title_of(prompt: &str) -> Option<String> {
    const LONGEST: usize = 60;
    let line = prompt
        .lines()
        .map(str::trim)
        .find(|line| line.chars().any(char::is_alphanumeric))?;
    let mut title = String::new();
    for word in line.split_whitespace() {
        if !title.is_empty() && title.chars().count() + 1 + word.chars().count() > LONGEST {
            title.push('…');
            return Some(title);
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.extend(word.chars().take(LONGEST));
    }
    Some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_with_words_cut_between_words() {
        for (prompt, expected) in [
            ("hello", Some("hello")),
            ("\n\n  ---\n Fix the   build \nplease", Some("Fix the build")),
            ("   \n\t", None),
            (
                "please look into why the nightly integration tests take so much longer than before",
                Some("please look into why the nightly integration tests take so…"),
            ),
        ] {
            assert_eq!(title_of(prompt).as_deref(), expected, "{prompt:?}");
        }
    }
}
