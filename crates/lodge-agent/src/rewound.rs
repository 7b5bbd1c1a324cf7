//! What was taken out of a log when a session was taken back, kept until something else is taken back.

use std::path::PathBuf;

use lodge_events::{COMMAND_SOURCE, Event, Payload};
use lodge_log::{LogError, Position, SessionLog};

use crate::AgentError;

fn path(log: &dyn SessionLog) -> PathBuf {
    log.dir().join("rewound.jsonl")
}

/// Keeps the events from a position on.
pub(crate) fn keep(log: &dyn SessionLog, from: Position) -> Result<(), AgentError> {
    let mut text = Vec::new();
    for event in log.read(from, Position::END)?.events() {
        text.extend_from_slice(event?.json());
        text.push(b'\n');
    }
    let (path, new) = (path(log), log.dir().join("rewound.jsonl.new"));
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, &path))
        .map_err(|error| AgentError::Refused(format!("{} cannot be written: {error}", path.display())))
}

/// What was kept.
pub(crate) fn kept(log: &dyn SessionLog) -> Result<Option<Vec<Event>>, LogError> {
    let Ok(text) = std::fs::read(path(log)) else {
        return Ok(None);
    };
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // One that cannot be read makes all of it useless: only all of it is what was there.
    Ok(lines.map(|line| Event::parse(line.to_vec().into()).ok()).collect())
}

/// It is back.
pub(crate) fn forget(log: &dyn SessionLog) {
    let _ = std::fs::remove_file(path(log));
}

/// Whether an event is no loss when what was taken back is put back: commands and their answers, and what tells of people
/// coming and going.
pub fn may_go(event: &Event) -> bool {
    match event.payload() {
        Payload::UserMessage(message) => message.source.as_deref() == Some(COMMAND_SOURCE),
        Payload::SessionInfo(_) | Payload::SessionResume(_) | Payload::SessionShutdown(_) => true,
        _ => false,
    }
}
