//! Applies the steps of a journal. It can be repeated after any interruption with the same result: each step checks the
//! disk first and does what is missing.
//!
//! A file is replaced in one move, so it is old or new and never half-written. Directories are created from the outside
//! in; removals come last, from the inside out. Two states in between are neither old nor new but still ours: nothing,
//! where a directory and a file replace each other, and a directory that is writable for us and gets its mode at the
//! end.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use ring::digest::{SHA256, digest};
use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use super::{
    blobs::Blobs,
    entry::{Entry, place, read_entry},
    faults::Faults,
    journal::Step,
};
use crate::paths::open_beneath;

/// Bits without which nothing can be put into a directory.
const OPEN: u32 = 0o700;

/// What could not be done, and why.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

/// Carries out steps.
pub(super) struct Apply<'a> {
    /// The restoration's id; names of temporary files are made of it, so that whoever comes after a crash finds them.
    pub(super) id: &'a str,
    pub(super) blobs: &'a Blobs,
    pub(super) faults: &'a Faults,
}

/// What one step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    /// Somebody changed it meanwhile, so it is left alone.
    Conflict,
}

impl Apply<'_> {
    /// Brings every path of the steps, which are sorted by path, to where it is to be, and makes sure of it by reading it
    /// back. Answers with the paths that somebody else changed meanwhile and that were left alone for it.
    pub(super) fn run(&self, steps: &[Step]) -> Result<Vec<PathBuf>, Failure> {
        let mut states = vec![State::Done; steps.len()];
        let mut each = |at: usize, result: io::Result<State>| match result {
            Ok(state) => {
                states[at] = state;
                Ok(())
            }
            // Something stands in the way that was not there before.
            Err(error) if is_obstacle(&error) => {
                states[at] = State::Conflict;
                Ok(())
            }
            Err(error) => Err(Failure {
                path: steps[at].path.clone(),
                error,
            }),
        };
        for (at, step) in steps.iter().enumerate() {
            self.clear(at, step);
            each(at, self.open_directory(step))?;
        }
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| !is_last(step)) {
            each(at, self.make(at, step))?;
        }
        for (at, step) in steps.iter().enumerate().rev().filter(|(_, step)| is_last(step)) {
            each(at, self.remove(at, step))?;
        }
        self.sync_directories(steps)?;
        // Modes of directories come after everything that is done and seen in them.
        let directory = |step: &Step| matches!(step.then, Entry::Directory { .. });
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| !directory(step)) {
            if states[at] == State::Done {
                states[at] = self.verify(step)?;
            }
        }
        for (at, step) in steps.iter().enumerate().rev() {
            if let (Entry::Directory { mode }, State::Done) = (&step.then, states[at]) {
                self.set_mode(&step.path, *mode).map_err(|error| step.failure(error))?;
                states[at] = self.verify(step)?;
            }
        }
        let conflicts = steps
            .iter()
            .zip(&states)
            .filter(|(_, state)| **state == State::Conflict);
        Ok(conflicts.map(|(step, _)| step.path.clone()).collect())
    }

    /// Reads back what a step left.
    fn verify(&self, step: &Step) -> Result<State, Failure> {
        let found = read_entry(&step.path, self.blobs).map_err(|error| step.failure(error))?;
        // A directory that somebody put something into stays.
        let stays = step.then == Entry::Absent && matches!(found, Entry::Directory { .. });
        if found == step.then || stays {
            Ok(State::Done)
        } else if found == step.now {
            Err(step.failure(io::Error::other("it is still as it was")))
        } else {
            Ok(State::Conflict)
        }
    }

    /// Removes what a process that died left half written.
    fn clear(&self, at: usize, step: &Step) {
        if let Ok((parent, _)) = place(&step.path).parent(false) {
            let _ = rustix::fs::unlinkat(&parent, self.temporary(at), AtFlags::empty());
        }
    }

    fn temporary(&self, at: usize) -> String {
        let digest = digest(&SHA256, format!("{} {at}", self.id).as_bytes());
        let hex = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}"));
        format!(".lodge-{}", hex.collect::<String>())
    }

    fn open_directory(&self, step: &Step) -> io::Result<State> {
        if [&step.now, &step.then]
            .iter()
            .any(|entry| matches!(entry, Entry::Directory { .. }))
            && let Entry::Directory { mode } = read_entry(&step.path, self.blobs)?
            && mode & OPEN != OPEN
        {
            self.set_mode(&step.path, mode | OPEN)?;
        }
        Ok(State::Done)
    }

    fn make(&self, at: usize, step: &Step) -> io::Result<State> {
        let found = read_entry(&step.path, self.blobs)?;
        if found == step.then {
            return Ok(State::Done);
        }
        if !step.is_ready(&found) {
            return Ok(State::Conflict);
        }
        match (&found, &step.then) {
            (Entry::Directory { .. }, Entry::Directory { .. }) => {}
            (Entry::Absent, Entry::Directory { .. }) => self.make_directory(&step.path)?,
            (_, Entry::Directory { .. }) => {
                self.unlink(&step.path, AtFlags::empty())?;
                self.make_directory(&step.path)?;
            }
            _ => self.put(at, step)?,
        }
        Ok(State::Done)
    }

    fn remove(&self, at: usize, step: &Step) -> io::Result<State> {
        let found = read_entry(&step.path, self.blobs)?;
        if found == step.then {
            return Ok(State::Done);
        }
        if !step.is_ready(&found) {
            return Ok(State::Conflict);
        }
        match found {
            Entry::Absent => {}
            Entry::Directory { .. } => match self.unlink(&step.path, AtFlags::REMOVEDIR) {
                Err(error) if step.then == Entry::Absent && is_not_empty(&error) => {
                    if let Entry::Directory { mode } = step.now {
                        self.set_mode(&step.path, mode)?;
                    }
                }
                other => other?,
            },
            _ => self.unlink(&step.path, AtFlags::empty())?,
        }
        if step.then != Entry::Absent {
            self.put(at, step)?;
        }
        Ok(State::Done)
    }

    fn unlink(&self, path: &Path, flags: AtFlags) -> io::Result<()> {
        let (parent, name) = place(path).parent(false)?;
        self.faults.point()?;
        Ok(rustix::fs::unlinkat(&parent, &name, flags)?)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = place(path).parent(false)?;
        self.faults.point()?;
        Ok(rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(OPEN))?)
    }

    /// Puts a file or a link in its place, whatever is there.
    fn put(&self, at: usize, step: &Step) -> io::Result<()> {
        let (parent, name) = place(&step.path).parent(false)?;
        let temporary = self.temporary(at);
        self.faults.point()?;
        let made = match &step.then {
            Entry::Link { target } => rustix::fs::symlinkat(target, &parent, &temporary).map_err(io::Error::from),
            Entry::File { content, mode, .. } => (|| {
                let hash = content.as_ref().ok_or(io::ErrorKind::NotFound)?;
                let bytes = self.blobs.read(hash)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
                let file = open_beneath(&parent, Path::new(&temporary), flags, Mode::from_raw_mode(0o600))?;
                let mut file = File::from(file);
                let (first, rest) = bytes.split_at(bytes.len() / 2);
                file.write_all(first)?;
                self.faults.point()?;
                file.write_all(rest)?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))?;
                file.sync_all()
            })(),
            Entry::Absent | Entry::Directory { .. } | Entry::Other => Err(io::ErrorKind::InvalidInput.into()),
        };
        let placed = made.and_then(|()| {
            self.faults.point()?;
            Ok(rustix::fs::renameat(&parent, &temporary, &parent, &name)?)
        });
        if placed.is_err() {
            let _ = rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty());
        }
        placed
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (parent, name) = place(path).parent(false)?;
        self.faults.point()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = File::from(open_beneath(&parent, Path::new(&name), flags, Mode::empty())?);
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))?;
        directory.sync_all()
    }

    /// Brings the new names to the disk.
    fn sync_directories(&self, steps: &[Step]) -> Result<(), Failure> {
        let parents: BTreeSet<&Path> = steps.iter().filter_map(|step| step.path.parent()).collect();
        for parent in parents {
            self.faults.point().map_err(|error| Failure {
                path: parent.to_owned(),
                error,
            })?;
            match File::open(parent).and_then(|dir| dir.sync_all()) {
                // It went with what was in it.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => {
                    return Err(Failure {
                        path: parent.to_owned(),
                        error,
                    });
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

impl Step {
    fn failure(&self, error: io::Error) -> Failure {
        Failure {
            path: self.path.clone(),
            error,
        }
    }

    /// Whether what is found is what the step begins with, or a state in between.
    fn is_ready(&self, found: &Entry) -> bool {
        let directory = |entry: &Entry| matches!(entry, Entry::Directory { .. });
        let involved = directory(&self.now) || directory(&self.then);
        let swapped = directory(&self.now) != directory(&self.then) && self.now != Entry::Absent;
        *found == self.now || (involved && directory(found)) || (swapped && *found == Entry::Absent)
    }
}

/// Whether a step comes after those that make something: it removes, or what it replaces must be emptied first.
fn is_last(step: &Step) -> bool {
    let replaces_directory =
        matches!(step.now, Entry::Directory { .. }) && !matches!(step.then, Entry::Directory { .. });
    step.then == Entry::Absent || replaces_directory
}

fn is_not_empty(error: &io::Error) -> bool {
    [Errno::NOTEMPTY, Errno::EXIST]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether an error says that something else is where it was to be done.
fn is_obstacle(error: &io::Error) -> bool {
    let errnos = [Errno::NOTEMPTY, Errno::EXIST, Errno::LOOP, Errno::NOTDIR, Errno::ISDIR];
    errnos
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
