//! The title of a session: taken from its first message.

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
