//! Rewinds. A log is only ever appended to: an event ([`LodgeRewound`]) says from which event on the chain no longer
//! counts. Readers skip what it hides and the event itself, so no crate above sees either. Events beside the chain are
//! not hidden, except for three kinds: the text of a queued message that was taken back (it would be queued again),
//! parts of streaming answers, and the note that a turn was resumed.
//!
//! Hidden bytes leave a file when [`SessionLog::compact`](crate::SessionLog::compact) rewrites it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lodge_events::{Event, EventType, LodgeRewound, Payload};
use uuid::Uuid;

use crate::disk::{DiskFile, read_full};
use crate::error::LogError;
use crate::reader::{Backwards, Forwards};
use crate::store::Recorded;

/// How much is read at once when looking for rewinds.
const CHUNK: usize = 64 * 1024;

/// Which event of the chain a rewind hides first; `None` for every other event.
pub(crate) fn first_hidden(event: &Event) -> Option<Uuid> {
    if event.event_type() != Some(EventType::LodgeRewound) {
        return None;
    }
    first_hidden_by(event.data_json())
}

/// Whether an event takes a part of the chain back.
pub fn is_rewind(event: &Event) -> bool {
    first_hidden(event).is_some()
}

/// The same for the data of such an event.
pub(crate) fn first_hidden_by(data: &str) -> Option<Uuid> {
    let data: LodgeRewound = serde_json::from_str(data).ok()?;
    data.up_to_event_id.parse().ok()
}

/// The messages that a rewind takes back.
fn messages_of(rewind: &Event) -> Vec<String> {
    let rewound = rewind.get::<LodgeRewound>();
    rewound
        .and_then(|rewound| rewound.message_ids.clone())
        .unwrap_or_default()
}

/// The message whose text an event beside the chain holds.
fn queued(event: &Event) -> Option<&str> {
    match event.payload() {
        Payload::LodgeMessageQueued(queued) => Some(&queued.message_id),
        Payload::LodgeMessageEdited(edited) => Some(&edited.message_id),
        Payload::LodgeMessageWritten(written) => Some(&written.message_id),
        _ => None,
    }
}

/// Whether an event is taken back with the part of the chain that it stands in: those of the chain, and those beside it that
/// say something about that part alone.
pub fn goes_with_chain(event: &Event) -> bool {
    let of_chain = [EventType::LodgePartial, EventType::LodgeTurnResumed];
    !event.is_beside() || event.event_type().is_some_and(|kind| of_chain.contains(&kind))
}

/// A stretch of a log of which only what hangs beside the chain counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Its first byte.
    from: u64,
    /// Where the rewind that hides it begins.
    until: u64,
    /// The last event of the chain that the rewind left.
    head: Option<Uuid>,
    /// The messages that the rewind takes back. They may have begun to wait before the stretch.
    messages: Vec<String>,
}

impl Stretch {
    /// What a rewind hides that begins at byte `at` of a log; `None` where nothing of it is there.
    pub(crate) fn hidden_by(
        rewind: &Event,
        at: u64,
        file: &Arc<dyn DiskFile>,
        path: &Path,
        longest: usize,
    ) -> Result<Option<Stretch>, LogError> {
        let Some(first) = first_hidden(rewind) else {
            return Ok(None);
        };
        let head = rewind.parent_id();
        let stretch = |from| Stretch {
            from,
            until: at,
            head,
            messages: messages_of(rewind),
        };
        let mut oldest = None;
        for recorded in Backwards::new(file.clone(), path.to_owned(), at, longest) {
            let Recorded { position, event } = recorded?;
            if event.is_ephemeral() || event.is_beside() {
                continue;
            }
            if event.id() == first {
                return Ok(Some(stretch(position.0)));
            }
            // The first event is lost: what is left of the rest begins behind the head.
            if Some(event.id()) == head {
                return Ok(oldest.map(stretch));
            }
            oldest = Some(position.0);
        }
        // With the head lost, too, nobody knows where it began; showing too much is better than hiding everything.
        Ok(oldest.filter(|_| head.is_none()).map(stretch))
    }
}

/// What rewinds hide of a log: a stretch for each rewind that the log has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hidden(Vec<Stretch>);

impl Hidden {
    /// What the rewinds from byte `from` to byte `end` hide, also before `from`.
    pub(crate) fn find(
        file: &Arc<dyn DiskFile>,
        path: &Path,
        from: u64,
        end: u64,
        longest: usize,
    ) -> Result<Hidden, LogError> {
        let mut hidden = Hidden::default();
        if !is_named(&**file, from, end).map_err(LogError::io("read", path))? {
            return Ok(hidden);
        }
        for recorded in Forwards::new(file.clone(), path.to_owned(), from, end, longest) {
            let Recorded { position, event } = recorded?;
            if first_hidden(&event).is_some() {
                let nothing = Stretch {
                    from: position.0,
                    until: position.0,
                    head: event.parent_id(),
                    messages: messages_of(&event),
                };
                let stretch = Stretch::hidden_by(&event, position.0, file, path, longest)?;
                hidden.0.push(stretch.unwrap_or(nothing));
            }
        }
        Ok(hidden)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, stretch: Stretch) {
        self.0.push(stretch);
    }

    /// Whether something before this byte is hidden.
    pub(crate) fn reaches_before(&self, at: u64) -> bool {
        self.0.iter().any(|stretch| stretch.from < at)
    }

    /// Leaves out of some events of the log what is hidden, and rewinds themselves.
    pub(crate) fn filter(
        self,
        events: impl Iterator<Item = Result<Recorded, LogError>>,
    ) -> impl Iterator<Item = Result<Recorded, LogError>> {
        events.filter_map(move |recorded| match recorded {
            Ok(recorded) => self.show(recorded).map(Ok),
            Err(error) => Some(Err(error)),
        })
    }

    fn show(&self, Recorded { position, event }: Recorded) -> Option<Recorded> {
        if first_hidden(&event).is_some() {
            return None;
        }
        let takes_back = |message: &str| {
            let mut later = self.0.iter().filter(|stretch| position.0 < stretch.until);
            later.any(|stretch| stretch.messages.iter().any(|taken| taken == message))
        };
        if queued(&event).is_some_and(takes_back) {
            return None;
        }
        let covers = |stretch: &&Stretch| (stretch.from..stretch.until).contains(&position.0);
        // The last that covers it is the one that knows what is left of the chain.
        let event = match self.0.iter().rfind(covers) {
            None => event,
            Some(stretch) if !goes_with_chain(&event) => event.with_parent(stretch.head),
            Some(_) => return None,
        };
        Some(Recorded { position, event })
    }
}

/// Whether the name of rewinds stands anywhere in these bytes of a file. Almost always it does not, and nothing more has to
/// be read.
fn is_named(file: &dyn DiskFile, from: u64, end: u64) -> io::Result<bool> {
    let name = memchr::memmem::Finder::new(LodgeRewound::NAME);
    let overlap = LodgeRewound::NAME.len() - 1;
    let mut buf = vec![0; CHUNK.min(end.saturating_sub(from) as usize)];
    let mut at = from;
    while at < end {
        let want = buf.len().min((end - at) as usize);
        let read = read_full(file, &mut buf[..want], at)?;
        if name.find(&buf[..read]).is_some() {
            return Ok(true);
        }
        if read < want || at + read as u64 >= end {
            break;
        }
        at += (read - overlap) as u64;
    }
    Ok(false)
}

/// Some events of a log from its beginning on, without what a rewind hides that comes after them.
pub fn hide(
    rewind: Option<Event>,
    events: impl Iterator<Item = Result<Event, LogError>>,
) -> impl Iterator<Item = Result<Event, LogError>> {
    let first = rewind.as_ref().and_then(first_hidden);
    let messages = rewind.as_ref().map(messages_of).unwrap_or_default();
    let head = rewind.and_then(|rewind| rewind.parent_id());
    let mut is_hidden = false;
    events.filter_map(move |event| {
        let event = match event {
            Ok(event) => event,
            error => return Some(error),
        };
        if queued(&event).is_some_and(|message| messages.iter().any(|taken| taken == message)) {
            return None;
        }
        is_hidden = is_hidden || Some(event.id()) == first;
        match is_hidden {
            false => Some(Ok(event)),
            true if goes_with_chain(&event) => None,
            true => Some(Ok(event.with_parent(head))),
        }
    })
}

/// Events of a whole log, oldest first, without what rewinds among them hide: for logs that are no store's.
pub fn without_rewound(events: impl IntoIterator<Item = Event>) -> Vec<Event> {
    let mut kept: Vec<Event> = Vec::new();
    for event in events {
        let Some(first) = first_hidden(&event) else {
            kept.push(event);
            continue;
        };
        let (head, messages) = (event.parent_id(), messages_of(&event));
        kept.retain(|kept| queued(kept).is_none_or(|message| !messages.iter().any(|taken| taken == message)));
        let first = kept.iter().rposition(|kept| kept.id() == first);
        // As for a log of a store: by the head, where the first event is lost.
        let first = first.or_else(|| match head {
            Some(head) => kept.iter().rposition(|kept| kept.id() == head).map(|at| at + 1),
            None => Some(0),
        });
        let Some(first) = first else { continue };
        let tail = kept.split_off(first);
        let beside = tail.iter().filter(|event| !goes_with_chain(event));
        kept.extend(beside.map(|event| event.with_parent(head)));
    }
    kept
}
