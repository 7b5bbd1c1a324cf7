//! Rewound events, kept as long as they can be restored.

use std::path::PathBuf;

use lodge_events::{COMMAND_SOURCE, Event, Payload};
use lodge_log::{LogError, SessionLog, goes_with_chain};

use crate::AgentError;

fn path(log: &dyn SessionLog) -> PathBuf {
    log.dir().join("rewound.jsonl")
}

/// Keeps some events of the chain, and what goes with them.
pub(crate) fn keep(log: &dyn SessionLog, events: &[Event]) -> Result<(), AgentError> {
    let mut text = Vec::new();
    for event in events {
        text.extend_from_slice(event.json());
        text.push(b'\n');
    }
    let path = path(log);
    lodge_files::replace(&path, &text)
        .map_err(|error| AgentError::Refused(format!("{} cannot be written: {error}", path.display())))
}

pub(crate) fn kept(log: &dyn SessionLog) -> Result<Option<Vec<Event>>, LogError> {
    let Ok(text) = std::fs::read(path(log)) else {
        return Ok(None);
    };
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // Nothing at all, if the conversation went on. One that cannot be read makes all of it useless: only all of it is what was there.
    let events: Option<Vec<Event>> = lines.map(|line| Event::parse(line.to_vec().into()).ok()).collect();
    // Earlier builds kept all that hangs beside the chain, too, most of which was never gone.
    Ok(events.map(|events| events.into_iter().filter(goes_with_chain).collect()))
}

pub(crate) fn is_kept(log: &dyn SessionLog) -> bool {
    path(log).metadata().is_ok_and(|about| about.len() > 0)
}

/// Forgets what was kept because it cannot be put back any more. That something was is still to be seen.
pub(crate) fn give_up(log: &dyn SessionLog) {
    let path = path(log);
    if let Err(error) = std::fs::write(&path, "") {
        tracing::warn!(path = %path.display(), %error, "cannot remove rewound events");
    }
}

pub(crate) fn forget(log: &dyn SessionLog) {
    let _ = std::fs::remove_file(path(log));
}

/// Whether an event is no loss when what was taken back is put back: commands and their answers, and what tells of people
/// coming and going, and their canvases: those are put back with the rest.
pub fn may_go(event: &Event) -> bool {
    match event.payload() {
        Payload::UserMessage(message) => message.source.as_deref() == Some(COMMAND_SOURCE),
        Payload::SessionInfo(_) | Payload::SessionResume(_) | Payload::SessionShutdown(_) => true,
        Payload::SessionCanvasRecorded(_) | Payload::SessionCanvasRemoved(_) => true,
        _ => false,
    }
}
