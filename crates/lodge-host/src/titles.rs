//! The titles that sessions can have, whoever gives them.

use lodge_agent::AgentError;

/// A longer one helps nobody.
const MOST_CHARACTERS: usize = 500;
/// What follows the title of a session in that of its copy.
const OF_COPY: &str = " (fork)";

/// A title is empty or too long.
#[derive(Debug, thiserror::Error)]
#[error("a title has 1 to {MOST_CHARACTERS} characters")]
pub struct TitleError;

impl From<TitleError> for AgentError {
    fn from(_: TitleError) -> Self {
        Self::Refused(format!("A title has 1 to {MOST_CHARACTERS} characters."))
    }
}

/// Refuses what cannot be a title.
pub fn check_title(title: &str) -> Result<(), TitleError> {
    match title.trim().is_empty() || title.chars().nth(MOST_CHARACTERS).is_some() {
        true => Err(TitleError),
        false => Ok(()),
    }
}

/// The title of a copy that nobody gives another.
pub fn title_of_copy(title: &str) -> String {
    let room = MOST_CHARACTERS - OF_COPY.len();
    title.chars().take(room).chain(OF_COPY.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_count_not_bytes() {
        for (title, fits) in [
            ("", false),
            (" \t", false),
            ("a", true),
            (&"ü".repeat(MOST_CHARACTERS), true),
            (&"ü".repeat(MOST_CHARACTERS + 1), false),
        ] {
            assert_eq!(check_title(title).is_ok(), fits, "{title}");
        }
        assert!(check_title(&title_of_copy(&"ü".repeat(MOST_CHARACTERS))).is_ok());
        assert_eq!(title_of_copy("Rug"), "Rug (fork)");
    }
}
