//! The end of a running tool's output.

use lodge_events::Timestamp;

/// Limits for the shown part, and for how often it is shown.
const TAIL: usize = 4096;
const PAUSE_MS: i64 = 100;

/// The end of a running tool's output.
#[derive(Debug, Clone, Default)]
pub struct OutputTail {
    text: String,
    shown: Option<Timestamp>,
}

impl OutputTail {
    /// Adds output. True if it is time to show it.
    pub fn push(&mut self, more: &str, now: Timestamp) -> bool {
        self.text.push_str(more);
        if self.text.len() > 2 * TAIL {
            let cut = self.text.len() - self.last().len();
            self.text.drain(..cut);
        }
        let is_recent = |shown: Timestamp| now.as_millisecond() - shown.as_millisecond() < PAUSE_MS;
        let is_due = !self.shown.is_some_and(is_recent);
        if is_due {
            self.shown = Some(now);
        }
        is_due
    }

    /// The part to show.
    pub fn last(&self) -> &str {
        let cut = self.text.len().saturating_sub(TAIL);
        &self.text[self.text.ceil_char_boundary(cut)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_shown_as_its_end_and_not_all_the_time() {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let mut output = OutputTail::default();
        assert!(output.push("a", at(1_000)));
        assert!(!output.push("b", at(1_050)));
        assert_eq!(output.last(), "ab");
        assert!(output.push(&"ü".repeat(10 * TAIL), at(1_100)));
        assert_eq!(output.last(), "ü".repeat(TAIL / 2));
    }
}
