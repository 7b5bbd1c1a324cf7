//! The record of changes: one line per changed file, written as it happens.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::entry::{Entry, path_text};

/// Who changed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The turn's id as clients know it (its message's), or the id of a restoration.
    pub id: String,
    /// The event that began the turn; none for a restoration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

impl Cause {
    /// Whether a client means this one.
    pub(super) fn is(&self, id: &str) -> bool {
        self.id == id || self.event.as_deref() == Some(id)
    }

    fn is_restoration(&self) -> bool {
        self.event.is_none()
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    cause: Cause,
    #[serde(with = "path_text")]
    path: PathBuf,
    before: Entry,
    after: Entry,
}

/// A file that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// Where.
    pub path: PathBuf,
    /// What was there before.
    pub before: Entry,
    /// What was there after.
    pub after: Entry,
    /// Whether somebody else changed it between two of the changes that this one sums up.
    pub disputed: bool,
}

/// A path that changed, and what was there first.
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// What was there before the first change: what is to be there again.
    pub(super) then: Entry,
    /// What may be there without anybody else having changed it: what the last turn left, and what restorations after it
    /// began and ended with. A restoration is what was meant; the disk says what was done.
    pub(super) left: Vec<Entry>,
    /// Whether somebody else changed it between two of the changes.
    pub(super) disputed: bool,
}

impl Target {
    fn last(&self) -> &Entry {
        self.left.last().expect("a target begins with one")
    }

    pub(super) fn is_shown(&self) -> bool {
        self.then.is_shown() || self.last().is_shown()
    }
}

struct Record {
    cause: Cause,
    files: BTreeMap<PathBuf, (Entry, Entry)>,
}

/// The changes of a session, in their order.
pub(super) struct Records {
    path: PathBuf,
    records: Vec<Record>,
}

/// Which changes are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of one turn or restoration.
    Of(String),
    /// Those of these turns and of what was restored between them.
    Turns(Vec<String>),
    /// All.
    Session,
}

impl Records {
    /// Reads what was written down. A line that was cut off by a crash is no line.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut this = Self {
            path,
            records: Vec::new(),
        };
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Line>(line) {
                Ok(line) => this.fold(line),
                Err(error) => tracing::warn!(%error, "a line in the record of changed files is unreadable"),
            }
        }
        Ok(this)
    }

    fn fold(&mut self, line: Line) {
        let Line {
            cause,
            path,
            before,
            after,
        } = line;
        let at = match self.records.iter().rposition(|record| record.cause.id == cause.id) {
            Some(at) => at,
            None => {
                let files = BTreeMap::new();
                self.records.push(Record { cause, files });
                self.records.len() - 1
            }
        };
        self.records[at]
            .files
            .entry(path)
            .and_modify(|(_, last)| last.clone_from(&after))
            .or_insert((before, after));
    }

    /// Writes changes down, all of them in one piece. Doing so again changes nothing.
    pub(super) fn note(&mut self, cause: &Cause, deltas: Vec<Delta>) -> io::Result<()> {
        let lines: Vec<Line> = deltas
            .into_iter()
            .map(|delta| Line {
                cause: cause.clone(),
                path: delta.path,
                before: delta.before,
                after: delta.after,
            })
            .collect();
        let mut text = Vec::new();
        for line in &lines {
            // A line that a crash cut off must not swallow this one.
            text.push(b'\n');
            serde_json::to_writer(&mut text, line)?;
        }
        text.push(b'\n');
        if let Some(dir) = self.path.parent() {
            crate::spill::make_private_dir(dir)?;
        }
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)?
            .write_all(&text)?;
        for line in lines {
            self.fold(line);
        }
        Ok(())
    }

    /// Each change of a file, one by one.
    pub(super) fn steps(&self, path: &Path) -> io::Result<Vec<(Entry, Entry)>> {
        let text = std::fs::read(&self.path)?;
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let steps = lines.filter(|line| line.path == path);
        Ok(steps.map(|line| (line.before, line.after)).collect())
    }

    /// Brings what was written down to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        self.path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }

    /// What the changes of a scope come to, by path.
    pub(super) fn sum(&self, scope: &Scope) -> Vec<Delta> {
        let targets = self.targets(scope).into_iter();
        let deltas = targets.map(|target| Delta {
            after: target.last().clone(),
            path: target.path,
            before: target.then,
            disputed: target.disputed,
        });
        deltas.filter(|delta| delta.before != delta.after).collect()
    }

    /// Every path that the changes of a scope touched, also where they come to nothing.
    pub(super) fn targets(&self, scope: &Scope) -> Vec<Target> {
        let first = match scope {
            Scope::Of(id) => self.records.iter().position(|record| record.cause.is(id)),
            Scope::Turns(ids) => self
                .records
                .iter()
                .position(|record| ids.iter().any(|id| record.cause.is(id))),
            Scope::Session => Some(0),
        };
        let later = self.records.iter().skip(first.unwrap_or(self.records.len()));
        let meant = later.filter(|record| match scope {
            Scope::Of(id) => record.cause.is(id),
            Scope::Turns(ids) => record.cause.is_restoration() || ids.iter().any(|id| record.cause.is(id)),
            Scope::Session => true,
        });
        let mut targets: BTreeMap<&Path, Target> = BTreeMap::new();
        for record in meant {
            for (path, (before, after)) in &record.files {
                let target = targets.entry(path).or_insert_with(|| Target {
                    path: path.clone(),
                    then: before.clone(),
                    left: vec![before.clone()],
                    disputed: false,
                });
                target.disputed |= !target.left.contains(before);
                if !record.cause.is_restoration() {
                    target.left.clear();
                }
                target.left.push(after.clone());
            }
        }
        targets.into_values().collect()
    }

    /// Writes down elsewhere what is known of turns that these events began, and of what was restored among them. False when
    /// nothing is.
    pub(super) fn copy(&self, path: PathBuf, events: &HashSet<String>) -> io::Result<bool> {
        let mut copy = Self {
            path,
            records: Vec::new(),
        };
        for record in &self.records {
            let wanted = match &record.cause.event {
                Some(event) => events.contains(event),
                None => !copy.records.is_empty(),
            };
            if wanted {
                let deltas = record.files.iter().map(|(path, (before, after))| Delta {
                    path: path.clone(),
                    before: before.clone(),
                    after: after.clone(),
                    disputed: false,
                });
                copy.note(&record.cause, deltas.collect())?;
            }
        }
        Ok(!copy.records.is_empty())
    }

    /// Whether anything is known of a turn or restoration.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.records.iter().any(|record| record.cause.is(id))
    }

    /// Everything that was ever at a changed path.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let files = self.records.iter().flat_map(|record| record.files.values());
        files.flat_map(|(before, after)| [before, after])
    }
}
