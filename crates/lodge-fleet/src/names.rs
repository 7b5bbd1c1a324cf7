//! Where a session is: its shard and its subjects.

use ring::digest::{SHA256, digest};

use crate::FleetError;

/// The longest id of a session that a fleet takes.
const LONGEST: usize = 200;

/// The stream that holds a shard.
pub(crate) fn stream(shard: u32) -> String {
    format!("LODGE_EV_{shard:02}")
}

/// Where one session's messages are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stream: String,
    /// The subject of the log.
    pub(crate) log: String,
    /// The beginning of the subjects of bodies that are too large for the log.
    pub(crate) bodies: String,
    /// The session's id as one word of a subject.
    pub(crate) word: String,
}

impl Place {
    pub(crate) fn of(session: &str, shards: u32) -> Result<Self, FleetError> {
        if !(1..=LONGEST).contains(&session.len()) {
            return Err(FleetError::BadName {
                length: session.len(),
                most: LONGEST,
            });
        }
        let word = word(session);
        let hash = digest(&SHA256, session.as_bytes());
        let number = u32::from_be_bytes(hash.as_ref()[..4].try_into().expect("a SHA-256 has 32 bytes"));
        let shard = number % shards;
        Ok(Self {
            stream: stream(shard),
            log: format!("lodge.ev.{shard:02}.{word}"),
            bodies: format!("lodge.body.{shard:02}.{word}"),
            word,
        })
    }
}

/// A session's id as one word of a subject: whatever means something there, and `=`, becomes `=` and two digits.
pub(crate) fn word(session: &str) -> String {
    let mut word = String::with_capacity(session.len());
    for byte in session.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => word.push(char::from(byte)),
            _ => word.push_str(&format!("={byte:02x}")),
        }
    }
    word
}

/// The id that a word stands for.
pub(crate) fn session(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'=' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_one_word_of_a_subject_and_comes_back() {
        for id in [
            "plain-Id_9",
            "a.b",
            "*",
            ">",
            "with space",
            "=",
            "=41",
            "ümlaut",
            "\u{0}\r\n",
            "$JS.API",
        ] {
            let word = word(id);
            assert!(
                word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b)),
                "{word}"
            );
            assert_eq!(session(&word).as_deref(), Some(id));
        }
        assert_eq!(session("=4"), None);
        assert_eq!(session("=zz"), None);
    }

    #[test]
    fn ids_that_are_empty_or_too_long_are_refused() {
        assert!(Place::of("", 32).is_err());
        assert!(Place::of(&"x".repeat(201), 32).is_err());
    }

    #[test]
    fn a_session_stays_in_its_shard() {
        let place = Place::of("8f3c2a", 32).expect("a good id");
        assert_eq!(place.log, "lodge.ev.27.8f3c2a");
        assert_eq!(place.stream, "LODGE_EV_27");
    }
}
