//! `queue.json`, the message queue of earlier builds.

use std::{io, path::Path};

use lodge_events::{LodgeMessageQueued, MessageLane};
use serde::Deserialize;

use crate::{facts::Facts, session::Shared, settings::Prompt};

const FILE: &str = "queue.json";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kept {
    pid: u32,
    starting: Option<Prompt>,
    steering: Vec<Prompt>,
    waiting: Vec<Prompt>,
    accepted: Vec<Prompt>,
}

/// Brings messages from the file into the log, once. Returns a warning about an unreadable file.
pub(super) fn migrate(shared: &Shared) -> Option<String> {
    let path = shared.dir.join(FILE);
    let kept = match read(&path) {
        Ok(kept) => kept?,
        Err(error) => return Some(set_aside(&path, &error)),
    };
    // They belong to another process.
    if kept.pid != std::process::id() && lives(kept.pid) {
        return None;
    }
    let waiting = shared.recorder.facts(|facts| waiting(kept, facts));
    for (id, prompt) in waiting {
        let queued = LodgeMessageQueued {
            message_id: id,
            item: (&prompt).into(),
            lane: MessageLane::Next,
            ..LodgeMessageQueued::default()
        };
        if let Err(error) = shared.recorder.record(queued) {
            tracing::warn!(path = %path.display(), %error, "cannot write queued messages to the log");
            return None;
        }
    }
    if let Err(error) = std::fs::remove_file(&path) {
        tracing::warn!(path = %path.display(), %error, "the file of an earlier build stays");
    }
    None
}

/// In the order of the queue, without messages that are in the log.
fn waiting(kept: Kept, facts: &Facts) -> Vec<(String, Prompt)> {
    let last = facts.last_message_id.as_deref();
    let all = kept.starting.into_iter().chain(kept.steering).chain(kept.waiting);
    let left = all.chain(kept.accepted).filter_map(|mut prompt| {
        let id = prompt.message_id.take()?;
        let known = last == Some(id.as_str()) || facts.pending.get(&id).is_some() || facts.pending.was_said(&id);
        (!known).then_some((id, prompt))
    });
    left.map(|(id, mut prompt)| {
        let is_said = |earlier: &Prompt| last.is_some() && earlier.message_id.as_deref() == last;
        if let Some(at) = prompt.before.iter().position(is_said) {
            prompt.before.drain(..=at);
        }
        (id, prompt)
    })
    .collect()
}

fn read(path: &Path) -> io::Result<Option<Kept>> {
    match std::fs::read(path) {
        Ok(text) if text.trim_ascii().is_empty() => Ok(Some(Kept::default())),
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Accepted messages are not overwritten because they cannot be read.
fn set_aside(path: &Path, error: &io::Error) -> String {
    let aside = path.with_extension(format!("damaged-{}.json", uuid::Uuid::new_v4().simple()));
    let became = match std::fs::rename(path, &aside) {
        Ok(()) => format!("The file was saved as {}; send the messages again.", aside.display()),
        Err(error) => format!("The file could not be set aside ({error})."),
    };
    format!(
        "Messages that waited for their turn cannot be read from {}: {error}. {became}",
        path.display()
    )
}

#[cfg(unix)]
fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

#[cfg(not(unix))]
fn lives(_: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(json: &str, last: Option<&str>) -> Vec<String> {
        let facts = Facts {
            last_message_id: last.map(str::to_owned),
            ..Facts::default()
        };
        let kept = serde_json::from_str(json).unwrap();
        let ids = waiting(kept, &facts).into_iter();
        ids.map(|(id, prompt)| {
            let before = prompt.before.iter().filter_map(|earlier| earlier.message_id.clone());
            before.chain([id]).collect::<Vec<_>>().join(" ")
        })
        .collect()
    }

    #[test]
    fn messages_of_an_earlier_build_are_brought_over_in_order_and_not_twice() {
        let json = r#"{"pid":1,"starting":{"text":"a","messageId":"a"},
            "steering":[{"text":"b","messageId":"b","before":[{"messageId":"b0"},{"messageId":"b1"}]}],
            "waiting":[{"text":"c","messageId":"c","delivery":"enqueue"}],"accepted":[{"messageId":"d"}]}"#;
        for (last, expected) in [
            (None, vec!["a", "b0 b1 b", "c", "d"]),
            (Some("a"), vec!["b0 b1 b", "c", "d"]),
            (Some("b0"), vec!["a", "b1 b", "c", "d"]),
            (Some("x"), vec!["a", "b0 b1 b", "c", "d"]),
        ] {
            assert_eq!(ids(json, last), expected, "{last:?}");
        }
        assert!(ids("{}  ", None).is_empty());
    }
}
