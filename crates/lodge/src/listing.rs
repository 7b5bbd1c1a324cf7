//! The lines of `lodge sessions list`, cut to the terminal's width.

use std::{
    fs::{File, TryLockError},
    io::{IsTerminal, Read, Seek, SeekFrom},
    path::Path,
};

use lodge_events::{Event, LodgeRewound, Payload};
use lodge_host::Progress;

use crate::view::{plain, shorten};

/// How much of an id is shown. Commands accept the beginning of an id.
const SHORT_ID: usize = 8;
/// How much of the end of a log is searched for its last event.
const TAIL: u64 = 64 << 10;
/// Titles are cut to this length, even if there is more room.
const LONGEST_TITLE: usize = 60;

/// One session in the list.
pub(crate) struct Row<'a> {
    pub(crate) id: &'a str,
    pub(crate) state: &'static str,
    pub(crate) age: String,
    pub(crate) directory: String,
    pub(crate) title: &'a str,
}

impl Row<'_> {
    /// The line, at most `width` columns wide.
    pub(crate) fn line(&self, width: usize) -> String {
        let id: String = self.id.chars().take(SHORT_ID).collect();
        let head = format!("{id:<SHORT_ID$}  {:<12}  {:>4}  ", self.state, self.age);
        let room = width.saturating_sub(head.chars().count());
        let directory = end_of(&self.directory, (room * 2 / 5).clamp(8, 40));
        let column = (room * 2 / 5).clamp(8, 24);
        let title_room = room
            .saturating_sub(column.max(directory.chars().count()) + 2)
            .min(LONGEST_TITLE);
        let line = format!("{head}{directory:<column$}  {}", shorten(self.title, title_room));
        shorten(line.trim_end(), width)
    }
}

/// The width of the terminal; output to anything else is not cut.
pub(crate) fn width() -> usize {
    if !std::io::stdout().is_terminal() {
        return usize::from(u16::MAX);
    }
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.map_or(80, |size| usize::from(size.ws_col)).max(20)
}

/// How long ago something happened.
pub(crate) fn age(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let minutes = now.duration_since(then).as_mins();
    match minutes {
        ..1 => "now".to_owned(),
        1..60 => format!("{minutes}m"),
        60..1440 => format!("{}h", minutes / 60),
        1440..14400 => format!("{}d", minutes / 1440),
        14400..525_600 => format!("{}w", minutes / 10_080),
        _ => format!("{}y", minutes / 525_600),
    }
}

/// A directory, with `~` for the home.
pub(crate) fn directory(cwd: Option<&str>) -> String {
    let cwd = plain(cwd.unwrap_or("-")).replace('\n', " ");
    let home = std::env::var("HOME").unwrap_or_default();
    match cwd.strip_prefix(&home).filter(|_| home.len() > 1) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => cwd,
    }
}

/// The end of a text. The end of a path says most.
fn end_of(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    match length <= longest {
        true => text.to_owned(),
        false => std::iter::once('…')
            .chain(text.chars().skip(length - longest + 1))
            .collect(),
    }
}

/// The state of a session according to the last event of its log, and whether some process runs a turn in it.
pub(crate) fn state(dir: &Path, progress: Progress) -> &'static str {
    let last = last_event(&dir.join("events.jsonl"));
    let within = last.is_some_and(|event| match (event.payload(), event.kind()) {
        // A person's own command ends the work.
        (Payload::ToolExecutionComplete(done), _) => done.is_user_requested != Some(true),
        (_, "user.message" | "assistant.turn_start" | "assistant.message" | "assistant.reasoning") => true,
        (_, kind) => kind.starts_with("tool.") || kind.ends_with(".requested"),
    });
    match (within, is_leased(dir), progress) {
        (false, ..) => "idle",
        (true, false, _) => "interrupted",
        (true, true, Progress::Asking) => "needs answer",
        (true, true, _) => "working",
    }
}

/// Whether a process runs a turn in a session: it holds a lock on the session's directory meanwhile.
fn is_leased(dir: &Path) -> bool {
    File::open(dir).is_ok_and(|dir| matches!(dir.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The last event of the chain near the end of a log.
fn last_event(log: &Path) -> Option<Event> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).ok()?;
    let mut lines = tail.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.find_map(|line| {
        let event = Event::parse(line.to_vec().into()).ok()?;
        let kind = event.kind();
        // Events that a rewind hides do not count, and nothing runs during a rewind.
        let counts = !event.is_beside() || event.is::<LodgeRewound>();
        let counts = counts && !kind.starts_with("session.") && !kind.starts_with("hook.");
        counts.then_some(event)
    })
}

/// A number with its noun, in the plural if needed.
pub(crate) fn count(number: impl std::fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_at_any_width_and_always_says_which_session() {
        let row = Row {
            id: "bd53e31c-f924-419b-88f6-2138a754a108",
            state: "interrupted",
            age: "12m".to_owned(),
            directory: "~/projects/a-long-name/and/deeper".to_owned(),
            title: "Mend the parser so that nested quotes are read",
        };
        for width in [20, 40, 60, 80, 100, 160, 65_535] {
            let line = row.line(width);
            assert!(line.chars().count() <= width, "{width}: {line}");
            assert!(line.starts_with("bd53e31c"), "{line}");
        }
        for part in ["interrupted", "12m", "and/deeper", "nested quotes"] {
            assert!(row.line(100).contains(part), "{part}: {}", row.line(100));
        }
        assert!(row.line(60).contains("deeper  Mend"), "{}", row.line(60));
    }

    #[test]
    fn an_age_is_one_number() {
        let now = jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(100_000);
        for (minutes, expected) in [
            (-5, "now"),
            (0, "now"),
            (59, "59m"),
            (60, "1h"),
            (1439, "23h"),
            (3000, "2d"),
            (30_000, "2w"),
            (600_000, "1y"),
        ] {
            let then = now - jiff::SignedDuration::from_mins(minutes);
            assert_eq!(age(then, now), expected, "{minutes}");
        }
    }
}
