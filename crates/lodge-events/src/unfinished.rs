//! The answer of an agent that is streaming or was interrupted.

use serde::{Deserialize, Serialize};

use crate::{AssistantMessage, LodgePartial, Payload};

/// A fold of one agent's persisted events: what was kept of an answer that is not recorded as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unfinished(Option<LodgePartial>);

impl Unfinished {
    /// Takes one event into account.
    pub fn fold(&mut self, payload: &Payload) {
        match payload {
            Payload::LodgePartial(piece) => match &mut self.0 {
                Some(kept) if kept.message_id == piece.message_id => {
                    // A piece behind one that was lost says nothing that could be read on from there.
                    if kept.content.len() as u64 == piece.at {
                        kept.content.push_str(&piece.content);
                    }
                }
                _ => self.0 = (piece.at == 0).then(|| LodgePartial::clone(piece)),
            },
            Payload::AssistantMessage(_) | Payload::SessionContextCleared(_) => self.0 = None,
            _ => {}
        }
    }

    /// All of it that was kept, as the piece that it would be.
    pub fn answer(&self) -> Option<&LodgePartial> {
        self.0.as_ref().filter(|kept| !kept.content.trim().is_empty())
    }

    /// The message that it becomes if it is not continued.
    pub fn message(&self) -> Option<AssistantMessage> {
        let kept = self.answer()?;
        Some(AssistantMessage {
            message_id: kept.message_id.clone(),
            content: kept.content.clone(),
            interaction_id: kept.interaction_id.clone(),
            turn_id: kept.turn_id.clone(),
            originating_message_id: kept.originating_message_id.clone(),
            ..AssistantMessage::default()
        })
    }
}

/// Gives whoever reads a log an answer that broke off where it did: before what ended its turn, or at the log's end.
#[derive(Debug, Default)]
pub struct BrokenOff {
    unfinished: Unfinished,
    shown: Option<(String, usize)>,
}

impl BrokenOff {
    /// The answer that is to be shown before this event.
    pub fn before(&mut self, payload: &Payload) -> Option<String> {
        let ends = matches!(payload, Payload::SessionError(_) | Payload::SessionInfo(_));
        let broken = ends.then(|| self.rest()).flatten();
        self.unfinished.fold(payload);
        broken
    }

    /// The answer that is to be shown when the log is at its end.
    pub fn rest(&mut self) -> Option<String> {
        let kept = self.unfinished.answer()?;
        let text = self.rest_of(&kept.message_id, &kept.content).to_owned();
        self.shown = Some((kept.message_id.clone(), kept.content.len()));
        Some(text).filter(|text| !text.is_empty())
    }

    /// What of a message was not shown where it broke off.
    pub fn rest_of<'a>(&self, message_id: &str, content: &'a str) -> &'a str {
        let shown = self.shown.as_ref().filter(|(id, _)| id == message_id);
        content
            .get(shown.map_or(0, |(_, length)| *length)..)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: &str, at: u64, content: &str) -> Payload {
        LodgePartial {
            message_id: id.into(),
            at,
            content: content.into(),
            ..LodgePartial::default()
        }
        .into()
    }

    #[test]
    fn an_answer_that_broke_off_is_read_once_and_where_it_did() {
        let message = |content: &str| {
            Payload::from(AssistantMessage {
                message_id: "a".into(),
                content: content.into(),
                ..AssistantMessage::default()
            })
        };
        let error = || Payload::from(crate::SessionError::default());
        let cases: [(&[Payload], &[&str]); 6] = [
            (&[piece("a", 0, "Once")], &["Once"]),
            (&[piece("a", 0, "Once"), error()], &["Once", "!"]),
            (&[piece("a", 0, "Once"), message("Once upon")], &["Once upon"]),
            // Given up, and gone on with.
            (&[piece("a", 0, "Once"), error(), message("Once")], &["Once", "!", ""]),
            (
                &[piece("a", 0, "Once"), error(), message("Once upon")],
                &["Once", "!", " upon"],
            ),
            (
                &[piece("a", 0, "Once"), error(), piece("a", 4, " up"), error()],
                &["Once", "!", " up", "!"],
            ),
        ];
        for (events, expected) in cases {
            let (mut broken, mut read) = (BrokenOff::default(), Vec::new());
            for event in events {
                read.extend(broken.before(event));
                match event {
                    Payload::AssistantMessage(message) => {
                        read.push(broken.rest_of(&message.message_id, &message.content).to_owned());
                    }
                    Payload::SessionError(_) => read.push("!".to_owned()),
                    _ => {}
                }
            }
            read.extend(broken.rest());
            assert_eq!(read, expected, "{events:?}");
        }
    }

    #[test]
    fn pieces_add_up_until_the_whole_answer_is_there() {
        let whole = || Payload::from(AssistantMessage::default());
        let cases: [(&[Payload], Option<&str>); 7] = [
            (&[], None),
            (&[piece("a", 0, "On"), piece("a", 2, "ce")], Some("Once")),
            (&[piece("a", 0, "On"), piece("a", 2, "ce"), whole()], None),
            (&[piece("a", 0, "On"), whole(), piece("b", 0, "Oh")], Some("Oh")),
            // A damaged log lacks pieces.
            (&[piece("a", 2, "ce")], None),
            (&[piece("a", 0, "On"), piece("a", 4, " upon")], Some("On")),
            (&[piece("a", 0, " \n")], None),
        ];
        for (events, expected) in cases {
            let mut unfinished = Unfinished::default();
            events.iter().for_each(|event| unfinished.fold(event));
            let kept = unfinished.message().map(|message| message.content);
            assert_eq!(kept.as_deref(), expected, "{events:?}");
        }
    }
}
