//! The text of an answer that clients have seen, across all attempts of the call.

/// What was streamed so far.
#[derive(Debug, Default)]
pub(crate) struct Streamed {
    text: String,
    /// How much of it the current attempt has said again, while it says nothing else.
    again: Option<usize>,
}

/// What a piece of an attempt comes to.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece {
    /// Clients have seen it.
    Seen,
    /// It follows what they have seen.
    New(String),
    /// What this attempt said so far is not what they have seen.
    Other(String),
}

impl From<String> for Streamed {
    /// What clients saw before this call.
    fn from(text: String) -> Self {
        Self { text, again: None }
    }
}

impl Streamed {
    /// Another attempt begins: it may say the same again.
    pub(crate) fn restart(&mut self) {
        self.again = (!self.text.is_empty()).then_some(0);
    }

    /// All that was streamed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Takes the next piece of the current attempt.
    pub(crate) fn take(&mut self, piece: String) -> Piece {
        let Some(at) = self.again else {
            self.text.push_str(&piece);
            return Piece::New(piece);
        };
        let seen = &self.text[at..];
        if let Some(new) = piece.strip_prefix(seen) {
            let new = new.to_owned();
            self.again = None;
            self.text.push_str(&new);
            return if new.is_empty() { Piece::Seen } else { Piece::New(new) };
        }
        if seen.starts_with(&piece) {
            self.again = Some(at + piece.len());
            return Piece::Seen;
        }
        self.again = None;
        Piece::Other(format!("{}{piece}", &self.text[..at]))
    }

    /// Takes an attempt that came as a whole.
    pub(crate) fn take_whole(&mut self, text: &str) {
        if let Piece::Other(text) = self.take(text.to_owned()) {
            self.append(&text);
        }
        if let Some(rest) = self.finish() {
            self.append(&rest);
        }
    }

    /// The attempt is at its end. What it repeated without getting further was no repetition.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let at = self.again.take().filter(|at| *at > 0)?;
        Some(self.text[..at].to_owned())
    }

    /// Text that follows what was seen although it looked like a repetition.
    pub(crate) fn append(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Text in place of what was seen.
    pub(crate) fn replace(&mut self, text: &str) {
        text.clone_into(&mut self.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_second_attempt_repeats_is_not_shown_again() {
        let cases: &[(&[&str], &str)] = &[
            // The same again, cut into pieces in every way.
            (&["Once upon a time"], "Once upon a time"),
            (&["On", "ce up", "on", " a time"], "Once upon a time"),
            (&["Once up", "on a time"], "Once upon a time"),
            // It goes on where the first one stopped.
            (&["on a", " time"], "Once upon a time"),
            // It begins like a repetition and is none.
            (&["O", "h yes"], "Once upOh yes"),
            (&["On"], "Once upOn"),
            (&[], "Once up"),
        ];
        for (pieces, expected) in cases {
            let mut streamed = Streamed::default();
            let mut shown = String::new();
            let mut show = |streamed: &mut Streamed, piece: Piece| match piece {
                Piece::Seen => {}
                Piece::New(text) => shown.push_str(&text),
                Piece::Other(text) => {
                    streamed.append(&text);
                    shown.push_str(&text);
                }
            };
            let first = streamed.take("Once up".to_owned());
            show(&mut streamed, first);
            streamed.restart();
            for piece in *pieces {
                let piece = streamed.take((*piece).to_owned());
                show(&mut streamed, piece);
            }
            if let Some(rest) = streamed.finish() {
                show(&mut streamed, Piece::Other(rest));
            }
            assert_eq!(shown, *expected, "{pieces:?}");
            assert_eq!(streamed.text(), *expected, "{pieces:?}");
            let mut at_once = Streamed::from("Once up".to_owned());
            at_once.restart();
            at_once.take_whole(&pieces.concat());
            assert_eq!(at_once.text(), *expected, "{pieces:?} at once");
        }
    }
}
