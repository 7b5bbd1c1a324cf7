//! How much of a streaming text a client has seen, so that it is shown once: from deltas, from pieces in the log, or when it is
//! complete.

use lodge_events::LodgePartial;

/// A streaming text, and how many bytes of it are shown.
#[derive(Debug, Clone, Default)]
pub struct StreamedText {
    /// The id of the streaming text; empty if there is none.
    pub id: String,
    bytes: usize,
}

impl StreamedText {
    /// How many bytes of a text are shown.
    pub fn shown(&self, id: &str) -> usize {
        if self.id == id { self.bytes } else { 0 }
    }

    /// Shows more of a text. True if that is its beginning.
    pub fn append(&mut self, id: &str, more: &str) -> bool {
        let begins = self.id != id;
        self.set(id, self.shown(id) + more.len());
        begins
    }

    /// The part of a piece from the log that is not shown yet.
    pub fn rest_of_piece<'a>(&self, piece: &'a LodgePartial) -> Option<&'a str> {
        let from = self.shown(&piece.message_id).checked_sub(piece.at as usize)?;
        piece.content.get(from..).filter(|rest| !rest.is_empty())
    }

    /// Completes a text: returns the part that is not shown yet, and whether that is all of it.
    pub fn complete<'a>(&mut self, id: &str, whole: &'a str) -> Option<(&'a str, bool)> {
        let shown = self.shown(id);
        self.set(id, whole.len());
        let rest = whole.get(shown..).filter(|rest| !rest.is_empty())?;
        Some((rest, shown == 0))
    }

    fn set(&mut self, id: &str, bytes: usize) {
        if self.id != id {
            id.clone_into(&mut self.id);
        }
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_once_however_it_comes() {
        let piece = |at, content: &str| LodgePartial {
            message_id: "m".into(),
            at,
            content: content.into(),
            ..LodgePartial::default()
        };
        let mut text = StreamedText::default();
        assert_eq!(text.rest_of_piece(&piece(0, "one ")), Some("one "));
        assert!(text.append("m", "one ") && !text.append("m", "two "));
        assert_eq!(text.rest_of_piece(&piece(0, "one two ")), None);
        assert_eq!(text.rest_of_piece(&piece(4, "two three")), Some("three"));
        assert_eq!(
            text.rest_of_piece(&piece(9, "lost")),
            None,
            "what came before is missing"
        );
        assert_eq!(text.complete("m", "one two three"), Some(("three", false)));
        assert_eq!(text.complete("m", "one two three"), None);
        assert_eq!(text.complete("n", "other"), Some(("other", true)));
    }
}
