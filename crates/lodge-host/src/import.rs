//! Imports sessions of the Copilot CLI, whose logs have the same form. The source is only read; importing again changes
//! nothing.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use lodge_events::{Event, Payload};
use lodge_log::{Home, LogError, Position, Store, without_rewound};

use crate::{Host, HostError, Lifecycle, fork::goes_along};

/// The log of a session.
const LOG: &str = "events.jsonl";
/// What else belongs to a session and is understood.
const BESIDE: [&str; 4] = ["plan.md", "workspace.yaml", "files", "checkpoints"];

/// What became of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its id.
    pub id: String,
    /// What was done.
    pub outcome: Outcome,
    /// Lines that are no events, and were left out.
    pub unreadable: usize,
}

/// What was done with a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is new, with so many events.
    New(usize),
    /// It was there, and so many events came after.
    Grown(usize),
    /// It was there already.
    Same,
    /// It went on differently here, and is left as it is.
    Differs,
}

/// The logs beneath a path: of one session, or of a directory of sessions (also in the older form, one file each).
pub fn find(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut found = Vec::new();
    for dir in [path.to_owned(), path.join("session-state")] {
        if dir.join(LOG).is_file() {
            found.push(dir.join(LOG));
            continue;
        }
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let entry = entry.path();
            if entry.join(LOG).is_file() {
                found.push(entry.join(LOG));
            } else if entry.extension().is_some_and(|extension| extension == "jsonl") && entry.is_file() {
                found.push(entry);
            }
        }
    }
    found.sort();
    found
}

impl Host {
    /// Brings one session in, and tells who watches. `None` when the file holds no session. Reads and writes files.
    pub fn import(&self, log: &Path) -> Result<Option<Imported>, HostError> {
        let mut opening = None;
        let imported = bring_in(self.home(), log, |id| {
            let gate = self.0.gate(id);
            opening = gate.try_lock_owned().ok();
            opening.is_some() && self.live(id).is_none()
        })?;
        if let Some(Imported { id, outcome, .. }) = &imported {
            let told = match outcome {
                Outcome::New(_) => Some(Lifecycle::Created(id.clone())),
                Outcome::Grown(_) => Some(Lifecycle::Updated(id.clone())),
                Outcome::Same | Outcome::Differs => None,
            };
            // Nobody may be there to be told.
            told.map(|told| self.0.lifecycle.send(told));
        }
        Ok(imported)
    }
}

/// Brings one session in. `None` when the file holds no session.
pub fn import(home: &Home, log: &Path) -> Result<Option<Imported>, HostError> {
    bring_in(home, log, |_| true)
}

/// `free` says whether nobody else writes to the session's log.
fn bring_in(home: &Home, log: &Path, free: impl FnOnce(&str) -> bool) -> Result<Option<Imported>, HostError> {
    let failed = |error: std::io::Error| HostError::Invalid(format!("{} cannot be read: {error}", log.display()));
    let (events, unreadable) = read(log).map_err(failed)?;
    let Some(id) = id_of(log, &events) else { return Ok(None) };
    let store = home.sessions();
    let done = |outcome| {
        Ok(Some(Imported {
            id: id.clone(),
            outcome,
            unreadable,
        }))
    };
    if !store.exists(&id)? {
        let mut to = match store.create(&id) {
            Err(LogError::Exists { .. }) => return done(Outcome::Same),
            other => other?,
        };
        to.append_all(&events)?;
        to.sync()?;
        copy_beside(log, to.dir()).map_err(failed)?;
        return done(Outcome::New(events.len()));
    }
    // What hangs beside the chain is no part of the conversation: it makes no difference between two.
    let (mut known, mut beside) = (Vec::new(), HashSet::new());
    for event in store.read(&id, Position::START, Position::END)?.events() {
        match event? {
            event if event.is_beside() => drop(beside.insert(event.id())),
            event => known.push(event.id()),
        }
    }
    let mut same = 0;
    let mut new = Vec::new();
    for event in &events {
        match event.is_beside() {
            true if !beside.contains(&event.id()) => new.push(event.clone()),
            true => {}
            false if new.iter().all(Event::is_beside) && known.get(same) == Some(&event.id()) => same += 1,
            false => new.push(event.clone()),
        }
    }
    if new.iter().all(Event::is_beside) {
        return done(Outcome::Same);
    }
    if same < known.len() {
        return done(Outcome::Differs);
    }
    if !free(&id) {
        return Err(HostError::Invalid(format!(
            "The session {id} is open. Import it again when it is closed."
        )));
    }
    let mut to = store.open(&id)?.log;
    to.append_all(&new)?;
    to.sync()?;
    done(Outcome::Grown(new.iter().filter(|event| !event.is_beside()).count()))
}

/// The events of a file, and how many of its lines are none.
fn read(path: &Path) -> std::io::Result<(Vec<Event>, usize)> {
    let (mut events, mut unreadable) = (Vec::new(), 0);
    let mut file = BufReader::new(fs::File::open(path)?);
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line)? > 0 {
        let text = line.trim_ascii();
        if !text.is_empty() {
            match Event::parse(text.to_vec().into()) {
                Ok(event) if event.is_ephemeral() => {}
                Ok(event) => events.push(event),
                Err(_) => unreadable += 1,
            }
        }
        line.clear();
    }
    let mut events = without_rewound(events);
    events.retain(goes_along);
    Ok((events, unreadable))
}

/// The id that the session calls itself by, or its file's name. Nothing when it has not begun.
fn id_of(path: &Path, events: &[Event]) -> Option<String> {
    let Payload::SessionStart(start) = events.first()?.payload() else {
        return None;
    };
    let named = match path.file_name()?.to_str()? {
        LOG => path.parent()?.file_name()?.to_str()?,
        file => file.strip_suffix(".jsonl").unwrap_or(file),
    };
    Some(match start.session_id.trim() {
        "" => named.to_owned(),
        id => id.to_owned(),
    })
}

/// Copies the plan and its like. Links are not followed: they may lead anywhere.
fn copy_beside(log: &Path, to: &Path) -> std::io::Result<()> {
    if log.file_name().is_none_or(|name| name != LOG) {
        return Ok(());
    }
    let Some(from) = log.parent() else { return Ok(()) };
    for name in BESIDE {
        copy(&from.join(name), &to.join(name), 8)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, depth: usize) -> std::io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(from) else {
        return Ok(());
    };
    if meta.is_file() {
        fs::copy(from, to)?;
    } else if meta.is_dir() && depth > 0 {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()), depth - 1)?;
        }
    }
    Ok(())
}
