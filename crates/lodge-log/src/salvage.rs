//! Finds whole events in a line, even in a damaged one.

use std::ops::Range;

use lodge_events::{Head, LodgeRewound};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::rewinds::first_hidden_by;

/// The envelope's fields: a whole event begins with one of them.
const FIELDS: &[&[u8]] = &[
    b"type",
    b"data",
    b"id",
    b"timestamp",
    b"parentId",
    b"agentId",
    b"ephemeral",
];
/// How many times its own length a damaged line may cost in attempts that lead nowhere.
const PATIENCE: usize = 64;

/// What the log must know of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) id: Uuid,
    pub(crate) parent: Option<Uuid>,
    pub(crate) place: Place,
}

/// An event's relation to the chain of parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The next event's parent.
    OnChain,
    /// Written, and nobody's parent.
    Beside,
    /// Beside, and its parent is the next event's, too.
    Rewind,
    /// Not meant for a log.
    Ephemeral,
}

impl Mark {
    fn parse(json: &[u8]) -> Option<Mark> {
        let head = Head::parse(json).ok()?;
        Some(Mark {
            id: head.id,
            parent: head.parent_id,
            place: match head.ephemeral {
                true => Place::Ephemeral,
                false if head.is_on_chain() => Place::OnChain,
                false if head.kind == LodgeRewound::NAME && first_hidden_by(head.data).is_some() => Place::Rewind,
                false => Place::Beside,
            },
        })
    }

    /// The last event of the chain after this one, if that is another than before it.
    pub(crate) fn new_last(&self) -> Option<Option<Uuid>> {
        match self.place {
            Place::OnChain => Some(Some(self.id)),
            Place::Rewind => Some(self.parent),
            Place::Beside | Place::Ephemeral => None,
        }
    }
}

/// A whole event found inside a damaged line.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where in the line.
    pub(crate) range: Range<usize>,
    pub(crate) mark: Mark,
    /// It was not whole: this is the line with U+FFFD in place of bytes that are no UTF-8.
    pub(crate) repaired_json: Option<String>,
}

/// What the line says of itself, if it is one event. Spaces around it, a carriage return and a byte order mark do no
/// harm.
pub(crate) fn whole(line: &[u8]) -> Option<Mark> {
    Mark::parse(line)
}

/// Whether there is nothing on the line.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    trim(line).is_empty()
}

/// The line without what may be around an event.
pub(crate) fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.trim_ascii()
}

/// The whole events inside a line that is not one, in order: behind a torn prefix, before garbage, several in a row.
/// `ended` says that the line ended with a line feed.
pub(crate) fn salvage(line: &[u8], ended: bool) -> Vec<Found> {
    let mut found = Vec::new();
    let mut patience = line.len().saturating_mul(PATIENCE);
    let mut from = 0;
    while let Some(start) = next_start(line, from) {
        match event_at(&line[start..]) {
            Ok((mark, len)) if stands_alone(line, start..start + len, ended) => {
                found.push(Found {
                    range: start..start + len,
                    mark,
                    repaired_json: None,
                });
                from = start + len;
            }
            Ok((_, cost)) | Err(cost) => {
                from = start + 1;
                match patience.checked_sub(cost) {
                    Some(left) => patience = left,
                    None => break,
                }
            }
        }
    }
    if found.is_empty() && std::str::from_utf8(line).is_err() {
        let text = String::from_utf8_lossy(trim(line)).into_owned();
        let mark = whole(text.as_bytes());
        found.extend(mark.map(|mark| Found {
            range: 0..line.len(),
            mark,
            repaired_json: Some(text),
        }));
    }
    found
}

/// The next place where an event could begin: a brace and one of the envelope's fields.
fn next_start(line: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'{', &line[from..]).map(|n| from + n).find(|&n| {
        let inside = line[n + 1..].trim_ascii_start();
        FIELDS.iter().any(|field| {
            let name = inside.strip_prefix(b"\"").and_then(|rest| rest.strip_prefix(*field));
            let colon = name
                .and_then(|rest| rest.strip_prefix(b"\""))
                .map(|rest| rest.trim_ascii_start());
            colon.is_some_and(|rest| rest.first() == Some(&b':'))
        })
    })
}

/// The event that begins here and its length, or how many bytes it took to see that there is none.
fn event_at(bytes: &[u8]) -> Result<(Mark, usize), usize> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    match values.next() {
        Some(Ok(raw)) => {
            let len = values.byte_offset();
            Mark::parse(raw.get().as_bytes()).map(|mark| (mark, len)).ok_or(len)
        }
        Some(Err(error)) => Err(error.column()),
        None => Err(1),
    }
}

/// Whether an event found inside a line was a line of its own once, rather than an object inside a torn event that only
/// looks like an event (a tool's argument, say). Such an object is followed by the rest of its container; if the tear is
/// right behind it, what comes before it gives it away.
fn stands_alone(line: &[u8], event: Range<usize>, ended: bool) -> bool {
    if event.start == 0 {
        return true;
    }
    let next = line[event.end..].trim_ascii_start().first();
    let inside = matches!(line[..event.start].trim_ascii_end().last(), Some(b':' | b',' | b'['));
    match next {
        Some(b',' | b'}' | b']') => false,
        Some(_) => !inside,
        None => !inside || ended,
    }
}
