//! Restoring files as a transaction.
//!
//! 1. **Plan.** The disk is compared with what is to be there. Nothing has happened yet.
//! 2. **Journal.** What is to become of which file, with the hashes of both sides, is brought to the disk, and before it the
//!    contents that it names. From here on the restoration is carried on after a crash.
//! 3. **Apply and verify.** Each path is brought to where it is to be and read back (`apply.rs`).
//! 4. **Whatever else belongs to it**: for a rewind, the session's log. That is done by whoever began the restoration; the
//!    journal carries a note for them.
//! 5. **Finish.** The restoration is written down like a turn, so that it can be undone, and the journal is removed.
//!
//! A step that fails turns the journal round: everything goes back to where it was, and the error names the file. Each part
//! looks at the disk and can be repeated, so that a crash during a recovery is one more crash. Nobody works on a journal
//! without the lock on the session's `changes` directory, which the system lets go when a process dies.

use std::{
    collections::BTreeSet,
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::{
    Changes, ChangesError, Inner,
    apply::{Apply, Failure},
    blobs::Hash,
    journal::{self, Direction, Journal, ReadError, Step},
    records::{Cause, Delta, Scope},
    restore::{self, Restored, Skip},
};

/// A restoration that was begun and is not finished. Whoever has it is alone with the session's journal.
pub struct Restoration {
    journal: Journal,
    direction: Direction,
    _lock: Lock,
}

/// Let go by name and not by closing: a child that is just being started may still have the file open, too.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Restoration {
    /// The note of the code that started it, for recovery.
    pub fn note(&self) -> Option<&str> {
        self.journal.note.as_deref()
    }

    /// Whether it may only be rolled back.
    pub fn goes_back(&self) -> bool {
        self.direction == Direction::Back
    }

    /// Its id, by which it can be undone later.
    pub fn id(&self) -> &str {
        &self.journal.id
    }
}

impl Changes {
    /// The names of the directories of sessions whose restoration of files was interrupted.
    pub fn interrupted_sessions(host_dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        journal::left_behind(host_dir)
    }

    /// Forgets the journal of a deleted session.
    pub fn forget_interrupted(session_dir: &Path, host_dir: &Path) -> io::Result<()> {
        match journal::directory(host_dir).try_exists()? {
            true => journal::Place::new(session_dir, host_dir).remove(&super::faults::Faults::default()),
            false => Ok(()),
        }
    }

    /// Puts files back as they were before the changes of a scope: all of them, or those in `only`. A file that is not as
    /// these changes left it is left alone, unless `force`. What is overwritten is kept: the restoration can be restored.
    pub fn restore(
        &self,
        scope: &Scope,
        only: Option<&BTreeSet<PathBuf>>,
        force: bool,
    ) -> Result<Restored, ChangesError> {
        if let Some(interrupted) = self.interrupted()? {
            if interrupted.note().is_some() {
                return Err(ChangesError::Interrupted);
            }
            self.complete(&interrupted)?;
        }
        let (begun, mut report) = self.begin_restoration(scope, only, force, None)?;
        if let Some(begun) = begun {
            let done = self.complete(&begun)?;
            report.id = done.id;
            report.restored = done.restored;
            report.skipped.extend(done.skipped);
        }
        Ok(report)
    }

    /// Plans a restoration and writes its journal. No restoration, when nothing has to be done.
    pub fn begin_restoration(
        &self,
        scope: &Scope,
        only: Option<&BTreeSet<PathBuf>>,
        force: bool,
        note: Option<String>,
    ) -> Result<(Option<Restoration>, Restored), ChangesError> {
        let inner = &mut *self.inner.lock();
        if !inner.running.is_empty() || !inner.files.is_empty() {
            return Err(ChangesError::Busy);
        }
        let mut targets = self.records(inner)?.targets(scope);
        if let Some(only) = only {
            // Directories that were made for a file go with it when nothing else is in them, and come back with it.
            targets.retain(|target| only.iter().any(|path| path.starts_with(&target.path)));
        }
        let mut report = Restored::default();
        let steps = restore::plan(&targets, force, &self.blobs, &mut report);
        if steps.is_empty() {
            return Ok((None, report));
        }
        let Some(lock) = self.lock()? else {
            return Err(ChangesError::Busy);
        };
        let journal = Journal {
            id: format!("restore-{}", uuid::Uuid::new_v4()),
            note,
            steps,
        };
        self.blobs.sync(contents(&journal.steps))?;
        self.journal.write(&journal, &self.faults)?;
        let begun = Restoration {
            journal,
            direction: Direction::Forward,
            _lock: lock,
        };
        Ok((Some(begun), report))
    }

    /// The restoration that a process began and did not finish. None, also when another process is at it.
    pub fn interrupted(&self) -> Result<Option<Restoration>, ChangesError> {
        // Asked before the lock is: nearly always there is none.
        if !self.journal.exists() {
            return Ok(None);
        }
        let Some(lock) = self.lock()? else { return Ok(None) };
        match self.journal.read() {
            Ok(found) => Ok(found.map(|(journal, direction)| Restoration {
                journal,
                direction,
                _lock: lock,
            })),
            Err(ReadError::Io(error)) => Err(error.into()),
            Err(ReadError::Damaged(path, error)) => Err(ChangesError::DamagedJournal { path, error }),
        }
    }

    /// Brings a restoration that nothing else belongs to to its end, whichever way it goes.
    pub fn complete(&self, restoration: &Restoration) -> Result<Restored, ChangesError> {
        if restoration.goes_back() {
            let skipped = self.roll_back(restoration)?;
            self.close(restoration)?;
            return Ok(Restored {
                skipped,
                ..Restored::default()
            });
        }
        let report = match self.apply(restoration) {
            Err(error @ ChangesError::RolledBack { .. }) => {
                self.close(restoration)?;
                return Err(error);
            }
            other => other?,
        };
        if let Err(error) = self.finish(restoration, &report) {
            // What cannot be written down cannot be undone later, so it is undone now.
            self.roll_back(restoration)?;
            self.close(restoration)?;
            return Err(error);
        }
        Ok(report)
    }

    /// Brings all files to where they are to be. When that cannot be done, all go back to where they were, and the error
    /// says why; what is left is [`Changes::close`].
    pub fn apply(&self, restoration: &Restoration) -> Result<Restored, ChangesError> {
        let inner = &mut *self.inner.lock();
        let steps = &restoration.journal.steps;
        match self.run(&restoration.journal.id, steps) {
            Ok(conflicts) => {
                let done = steps
                    .iter()
                    .filter(|step| step.is_shown() && !conflicts.contains(&step.path));
                Ok(Restored {
                    id: Some(restoration.journal.id.clone()),
                    restored: done.map(|step| step.path.clone()).collect(),
                    already: Vec::new(),
                    skipped: conflicts.into_iter().map(|path| (path, Skip::Changed)).collect(),
                })
            }
            Err(Failure { path, error }) => {
                self.undo(restoration, inner)?;
                Err(ChangesError::RolledBack { path, error })
            }
        }
    }

    /// Brings all files back to where they were before, as far as nobody else changed them. Answers with those that somebody
    /// did. Then [`Changes::close`].
    pub fn roll_back(&self, restoration: &Restoration) -> Result<Vec<(PathBuf, Skip)>, ChangesError> {
        let inner = &mut *self.inner.lock();
        let conflicts = self.undo(restoration, inner)?;
        Ok(conflicts.into_iter().map(|path| (path, Skip::Changed)).collect())
    }

    fn undo(&self, restoration: &Restoration, inner: &mut Inner) -> Result<Vec<PathBuf>, ChangesError> {
        let stuck = |Failure { path, error }| ChangesError::Stuck { path, error };
        let Journal { id, steps, .. } = &restoration.journal;
        self.journal.turn_round(&self.faults)?;
        let back: Vec<Step> = steps.iter().map(Step::reversed).collect();
        let conflicts = self.run(id, &back).map_err(stuck)?;
        let records = self.records(inner)?;
        if records.knows(id) {
            records.note(&cause(id), back.iter().map(delta).collect())?;
            records.sync()?;
        }
        self.touched();
        Ok(conflicts)
    }

    /// Forgets the journal of a restoration that is over.
    pub fn close(&self, _: &Restoration) -> Result<(), ChangesError> {
        Ok(self.journal.remove(&self.faults)?)
    }

    fn run(&self, id: &str, steps: &[Step]) -> Result<Vec<PathBuf>, Failure> {
        let apply = Apply {
            id,
            blobs: &self.blobs,
            faults: &self.faults,
        };
        apply.run(steps)
    }

    /// Writes down what was restored and forgets the journal.
    pub fn finish(&self, restoration: &Restoration, report: &Restored) -> Result<(), ChangesError> {
        let inner = &mut *self.inner.lock();
        let skipped: BTreeSet<&PathBuf> = report.skipped.iter().map(|(path, _)| path).collect();
        let steps = restoration.journal.steps.iter();
        let done = steps.filter(|step| !skipped.contains(&step.path)).map(delta).collect();
        self.faults.point()?;
        let records = self.records(inner)?;
        records.note(&cause(restoration.id()), done)?;
        self.faults.point()?;
        records.sync()?;
        self.journal.remove(&self.faults)?;
        self.look_again(inner);
        self.touched();
        Ok(())
    }

    /// What a command left running changes next is reported from here on.
    fn look_again(&self, inner: &mut Inner) {
        let roots: Vec<PathBuf> = inner.trees.iter().map(|tree| tree.root().to_owned()).collect();
        inner.trees = self.scan_trees(&roots, &mut inner.cache, &mut inner.too_large);
    }

    /// The lock on the journal; none when somebody else has it.
    fn lock(&self) -> io::Result<Option<Lock>> {
        let dir = self.records.parent().expect("the records are in a directory");
        crate::spill::make_private_dir(dir)?;
        let dir = File::open(dir)?;
        match dir.try_lock() {
            Ok(()) => Ok(Some(Lock(dir))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The contents that an unfinished restoration needs.
    pub(super) fn wanted_by_journal(&self) -> Option<Vec<Hash>> {
        match self.journal.read() {
            Ok(found) => Some(found.map_or(Vec::new(), |(journal, _)| contents(&journal.steps).cloned().collect())),
            Err(_) => None,
        }
    }
}

fn cause(id: &str) -> Cause {
    Cause {
        id: id.to_owned(),
        event: None,
    }
}

fn delta(step: &Step) -> Delta {
    Delta {
        path: step.path.clone(),
        before: step.now.clone(),
        after: step.then.clone(),
        disputed: false,
    }
}

fn contents(steps: &[Step]) -> impl Iterator<Item = &Hash> {
    let entries = steps.iter().flat_map(|step| [&step.now, &step.then]);
    entries.filter_map(super::Entry::content)
}
