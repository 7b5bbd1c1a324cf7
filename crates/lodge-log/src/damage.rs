//! Damage found in a log, and how it is described to people.

use std::fmt;
use std::path::PathBuf;

/// Most findings are listed one by one up to this many; the rest is only counted.
const LISTED: usize = 100;

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Damage {
    /// The log's last line is not complete.
    TornEnd,
    /// Bytes that are no event.
    Garbage,
    /// Zero bytes: a stretch that the disk never got.
    Zeros,
    /// A line longer than any event may be.
    TooLong,
    /// An event that is there already.
    Duplicate,
    /// Text that is not UTF-8; the event was kept with U+FFFD in its place.
    NotUtf8,
    /// An event's parent is not the event before it: something between them is missing.
    Gap,
    /// The bytes are events, but not those that were written (by their checksum).
    Changed,
    /// The last event is whole and only its line feed is missing. Nothing is lost.
    NoNewline,
}

impl Damage {
    fn describe(self, count: u64, bytes: u64) -> String {
        let bytes = many(bytes, "byte");
        match self {
            Damage::TornEnd => format!("the last line is incomplete ({bytes})"),
            Damage::Garbage => format!("{} ({bytes})", many(count, "unreadable place")),
            Damage::Zeros => format!("zeros where events should be ({bytes})"),
            Damage::TooLong => format!("{} too long to be an event ({bytes})", many(count, "line")),
            Damage::Duplicate => format!("{} written twice", many(count, "event")),
            Damage::NotUtf8 => format!(
                "{} with unreadable characters, replaced by \u{fffd}",
                many(count, "event")
            ),
            Damage::Gap => format!("events missing in {}", many(count, "place")),
            Damage::Changed => format!("{} changed after writing", many(count, "place")),
            Damage::NoNewline => "the last line has no line feed".to_owned(),
        }
    }
}

fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub damage: Damage,
    /// At which byte of the log as it was.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
}

/// All that was found wrong with a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    listed: Vec<Finding>,
    /// Per kind: how often, how many bytes.
    totals: Vec<(Damage, u64, u64)>,
}

impl Findings {
    pub(crate) fn add(&mut self, damage: Damage, at: u64, len: u64) {
        // A line that is too long arrives in pieces.
        let mut more = false;
        if let Some(last) = self.listed.last_mut()
            && last.damage == damage
            && last.at + last.len == at
            && damage == Damage::TooLong
        {
            last.len += len;
            more = true;
        } else if self.listed.len() < LISTED {
            self.listed.push(Finding { damage, at, len });
        }
        match self.totals.iter_mut().find(|(kind, ..)| *kind == damage) {
            Some((_, count, bytes)) => {
                *count += u64::from(!more);
                *bytes += len;
            }
            None => self.totals.push((damage, 1, len)),
        }
    }

    /// The damaged places, the first hundred of them.
    pub fn places(&self) -> &[Finding] {
        &self.listed
    }

    /// How often this kind was found.
    pub fn count(&self, damage: Damage) -> u64 {
        self.totals
            .iter()
            .find(|(kind, ..)| *kind == damage)
            .map_or(0, |(_, count, _)| *count)
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }

    /// Whether something is lost or in doubt, so that people should hear of it.
    pub fn is_loss(&self) -> bool {
        self.totals.iter().any(|(kind, ..)| *kind != Damage::NoNewline)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (damage, count, bytes)) in self.totals.iter().enumerate() {
            write!(
                f,
                "{}{}",
                if n == 0 { "" } else { "; " },
                damage.describe(*count, *bytes)
            )?;
        }
        Ok(())
    }
}

/// A repair that was done when a log was opened. Its [`Display`](fmt::Display) form is what clients should be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// What was wrong.
    pub findings: Findings,
    /// How many events the log has now.
    pub kept: u64,
    /// The file with the damaged bytes, if there were any worth keeping.
    pub set_aside: Option<PathBuf>,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (findings, kept) = (&self.findings, many(self.kept, "whole event"));
        write!(f, "The log of this session was damaged: {findings}. {kept} kept")?;
        match self.set_aside.as_deref().and_then(|path| path.file_name()) {
            Some(name) => write!(f, "; the damaged bytes are in {}.", name.display()),
            None => f.write_str("."),
        }
    }
}

/// What a check of a log found; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How many whole events there are.
    pub events: u64,
    /// How long the log is.
    pub bytes: u64,
    /// What is wrong.
    pub findings: Findings,
}
