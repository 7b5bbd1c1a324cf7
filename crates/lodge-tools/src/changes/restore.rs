//! Puts files back as they were. Each is replaced in one step: whoever is interrupted leaves it old or new, never half.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use super::{
    blobs::Blobs,
    entry::{Entry, look, place},
    records::Delta,
};
use crate::paths::open_beneath;

/// What became of a restoration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Its own id: restoring that undoes it. None when nothing had to be done.
    pub id: Option<String>,
    /// Files that are again as they were.
    pub restored: Vec<PathBuf>,
    /// Files that were so already.
    pub already: Vec<PathBuf>,
    /// Files that were left alone, and why.
    pub skipped: Vec<(PathBuf, Skip)>,
}

impl Restored {
    /// Files that somebody else changed, and that were therefore left alone.
    pub fn conflicts(&self) -> impl Iterator<Item = &Path> {
        let changed = self.skipped.iter().filter(|(_, skip)| *skip == Skip::Changed);
        changed.map(|(path, _)| path.as_path())
    }
}

/// Why a file was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// It is not as it was left: somebody else changed it.
    Changed,
    /// What it was is not known: it was too large to be kept.
    NotKept,
    /// It did not work, and the text says why.
    Failed(String),
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed => f.write_str("it has been changed since"),
            Self::NotKept => f.write_str("its contents were not kept"),
            Self::Failed(error) => f.write_str(error),
        }
    }
}

/// One thing to do: from what is there to what was there.
pub(super) struct Step {
    pub(super) path: PathBuf,
    pub(super) now: Entry,
    pub(super) then: Entry,
}

/// Finds out what has to be done, touching nothing.
pub(super) fn plan(deltas: &[Delta], force: bool, blobs: &Blobs, report: &mut Restored) -> Vec<Step> {
    let mut steps = Vec::new();
    for delta in deltas {
        let skip = match look(&delta.path, blobs) {
            Err(error) => Some(Skip::Failed(error.to_string())),
            Ok(now) if now == delta.before && now.is_known() => {
                if delta.before.is_shown() || delta.after.is_shown() {
                    report.already.push(delta.path.clone());
                }
                continue;
            }
            Ok(_) if !delta.before.is_known() => Some(Skip::NotKept),
            Ok(now) if !force && (delta.disputed || now != delta.after || !now.is_known()) => Some(Skip::Changed),
            Ok(Entry::Other) => Some(Skip::Changed),
            Ok(now) => {
                steps.push(Step {
                    path: delta.path.clone(),
                    now,
                    then: delta.before.clone(),
                });
                None
            }
        };
        report.skipped.extend(skip.map(|skip| (delta.path.clone(), skip)));
    }
    steps
}

/// Does it. Removing goes from the inside out, making from the outside in.
pub(super) fn run(mut steps: Vec<Step>, blobs: &Blobs, report: &mut Restored) {
    steps.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let mut failed: Vec<PathBuf> = Vec::new();
    let mut note = |path: &Path, result: io::Result<()>| {
        if let Err(error) = result {
            failed.push(path.to_owned());
            report.skipped.push((path.to_owned(), Skip::Failed(error.to_string())));
        }
    };
    for step in steps.iter().rev() {
        let is_directory = matches!(step.now, Entry::Directory { .. });
        let stays = is_directory == matches!(step.then, Entry::Directory { .. }) && step.then != Entry::Absent;
        if step.now == Entry::Absent || stays {
            continue;
        }
        match remove(&step.path, is_directory) {
            // Somebody put something into it, so it stays.
            Err(error) if is_directory && step.then == Entry::Absent && error.raw_os_error() == not_empty() => {}
            result => note(&step.path, result),
        }
    }
    for step in &steps {
        note(&step.path, make(&step.path, &step.then, blobs));
    }
    // Modes of directories last: one that takes no files may still have had to.
    for step in steps.iter().rev() {
        if let Entry::Directory { mode } = step.then {
            note(&step.path, set_mode(&step.path, mode));
        }
    }
    let shown = |step: &&Step| step.now.is_shown() || step.then.is_shown();
    let done = steps.iter().filter(shown).map(|step| step.path.clone());
    report.restored.extend(done.filter(|path| !failed.contains(path)));
}

fn not_empty() -> Option<i32> {
    Some(Errno::NOTEMPTY.raw_os_error())
}

fn remove(path: &Path, is_directory: bool) -> io::Result<()> {
    let (parent, name) = place(path).parent(false)?;
    let flags = if is_directory {
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    };
    match rustix::fs::unlinkat(&parent, &name, flags) {
        Err(Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}

fn make(path: &Path, entry: &Entry, blobs: &Blobs) -> io::Result<()> {
    if matches!(entry, Entry::Absent | Entry::Other) {
        return Ok(());
    }
    let (parent, name) = place(path).parent(true)?;
    let temporary = format!(".lodge-{}", uuid::Uuid::new_v4().simple());
    let made = match entry {
        Entry::Directory { .. } => {
            return match rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o700)) {
                Err(Errno::EXIST) => Ok(()),
                other => Ok(other?),
            };
        }
        Entry::Link { target } => rustix::fs::symlinkat(target, &parent, &temporary).map_err(io::Error::from),
        Entry::File { content, mode, .. } => (|| {
            let hash = content.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let bytes = blobs.read(hash)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let file = open_beneath(&parent, Path::new(&temporary), flags, Mode::from_raw_mode(0o600))?;
            let mut file = File::from(file);
            file.write_all(&bytes)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))?;
            Ok(())
        })(),
        Entry::Absent | Entry::Other => unreachable!("returned above"),
    };
    let placed = made.and_then(|()| Ok(rustix::fs::renameat(&parent, &temporary, &parent, &name)?));
    if placed.is_err() {
        let _ = rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty());
    }
    placed
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let (parent, name) = place(path).parent(false)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = open_beneath(&parent, Path::new(&name), flags, Mode::empty())?;
    Ok(rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))?)
}
