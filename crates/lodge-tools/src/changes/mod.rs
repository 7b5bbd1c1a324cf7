//! What an agent did to files: before and after, turn by turn, exact enough to be undone.
//!
//! Before a call that may change files, [`Changes::before`] looks; after it, [`Changes::after`] looks again, and what differs
//! is written down beside the session's log with the contents of both sides. A call that says which files it changes costs a
//! look at these; one that may change anything (a shell command) costs a look at the tree. [`Changes::restore`] puts files
//! back as a transaction (`transaction.rs`) and leaves alone what somebody else changed since.
//!
//! Everything here blocks: call it where that is allowed.

mod apply;
mod blobs;
mod entry;
mod faults;
mod git;
mod index;
mod journal;
mod lines;
mod records;
mod restore;
mod scan;
#[cfg(test)]
mod tests;
mod transaction;
mod worktree;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use self::{
    blobs::Blobs,
    entry::read_entry,
    faults::Faults,
    records::Records,
    scan::{Cache, Tree},
};
pub use self::{
    blobs::Hash,
    entry::Entry,
    git::{Git, GitError},
    records::{Cause, Delta, Scope},
    restore::{Restored, Skip},
    transaction::Restoration,
    worktree::{Against, GitChange},
};

/// How much is scanned and stored.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most files and directories of a tree. A larger one is not scanned completely.
    pub entries: usize,
    /// Length of a file whose contents are kept.
    pub file_bytes: u64,
    /// All kept contents of a session, since it came to memory.
    pub total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 250_000,
            file_bytes: 16 << 20,
            total_bytes: 512 << 20,
        }
    }
}

/// What a call may do to files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touches {
    /// Nothing.
    Nothing,
    /// These files, and no others.
    Files(Vec<PathBuf>),
    /// Whatever is below the working directories.
    Anything,
}

/// The state before a call, for [`Changes::after`].
#[derive(Debug)]
pub struct Looked {
    touches: Touches,
    call: u64,
}

/// Why changes cannot be reported or undone.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    /// A call that may change files is under way.
    #[error("a running turn is changing files; wait until it ends")]
    Busy,
    /// Nothing is known of such a turn.
    #[error("no recorded changes for {0}")]
    Unknown(String),
    /// The working directory is in no git repository.
    #[error("the working directory is not in a git repository")]
    NoGit,
    /// A rewind was interrupted and is finished first.
    #[error("an interrupted rewind of this session must be finished first; open the session again")]
    Interrupted,
    /// The journal of an interrupted restoration cannot be read.
    #[error(
        "files may be half restored: the journal of an interrupted restore cannot be read ({error}). It was set aside as {}",
        path.display()
    )]
    DamagedJournal {
        /// Where it is now.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// A file could not be restored, so none was.
    #[error("cannot restore {}, so no file was changed: {error}", path.display())]
    RolledBack {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file could neither be restored nor put back.
    #[error(
        "files are half restored: cannot restore {}: {error}. Lodge tries again when the session is next opened or rewound",
        path.display()
    )]
    Stuck {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Git refused.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The disk failed.
    #[error("cannot read or write the record of changed files: {0}")]
    Io(#[from] io::Error),
}

/// The changes that one session made.
pub struct Changes {
    blobs: Blobs,
    limits: Limits,
    /// What belongs to the host and not to the session.
    skipped: PathBuf,
    records: PathBuf,
    journal: journal::Place,
    faults: Faults,
    inner: Mutex<Inner>,
    /// Whether `inner` knows of calls under way; to be asked without waiting for a look.
    open: AtomicBool,
    changed: watch::Sender<u64>,
    counted: Mutex<Counted>,
}

/// Lines added and removed between two contents.
type Counted = HashMap<(Option<Hash>, Option<Hash>), Option<(u64, u64)>>;

#[derive(Default)]
struct Inner {
    cause: Option<Cause>,
    records: Option<Records>,
    /// The trees as they were before the calls under way.
    trees: Vec<Tree>,
    /// Files of calls under way that said which they are.
    files: HashMap<PathBuf, Entry>,
    /// Calls under way that may change anything.
    running: BTreeSet<u64>,
    /// Calls so far.
    calls: u64,
    cache: Cache,
    too_large: HashSet<PathBuf>,
}

impl Changes {
    /// The changes of the session that lives in `session_dir`. Nothing is read or made until it is needed. What is in
    /// `host_dir` is never looked at.
    pub fn new(session_dir: &Path, host_dir: &Path, limits: Limits) -> Self {
        let dir = session_dir.join("changes");
        Self {
            blobs: Blobs::new(dir.join("contents"), limits.clone()),
            limits,
            skipped: crate::paths::real(host_dir).unwrap_or_else(|_| host_dir.to_owned()),
            records: dir.join("changes.jsonl"),
            journal: journal::Place::new(session_dir, host_dir),
            faults: Faults::default(),
            inner: Mutex::default(),
            open: AtomicBool::new(false),
            changed: watch::Sender::new(0),
            counted: Mutex::default(),
        }
    }

    /// Gives a copy of a session what its own turns changed: those begun by these events.
    pub fn copy(session_dir: &Path, copy_dir: &Path, events: &HashSet<String>) -> io::Result<()> {
        let [from, to] = [session_dir, copy_dir].map(|dir| dir.join("changes"));
        let records = Records::open(from.join("changes.jsonl"))?;
        if records.copy(to.join("changes.jsonl"), events)? {
            Blobs::new(from.join("contents"), Limits::default()).link(&to.join("contents"), &wanted(&records))?;
        }
        Ok(())
    }

    /// Says who is responsible for what comes.
    pub fn begin(&self, cause: Cause) {
        self.inner.lock().cause = Some(cause);
    }

    /// Counts up whenever something was changed.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Says that something changed that is not written down here, such as what git has.
    pub fn touched(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Looks before a call. Every one must be followed by [`Changes::after`] or, in the end, [`Changes::settle`].
    pub fn before(&self, touches: Touches, roots: &[PathBuf]) -> Looked {
        if touches != Touches::Nothing {
            self.open.store(true, Ordering::Release);
        }
        let inner = &mut *self.inner.lock();
        inner.calls += 1;
        match &touches {
            Touches::Nothing => {}
            Touches::Files(paths) => {
                for path in paths.iter().flat_map(|path| with_missing_parents(path)) {
                    if inner.files.contains_key(path) {
                        continue;
                    }
                    match read_entry(path, &self.blobs) {
                        Ok(entry) => drop(inner.files.insert(path.to_owned(), entry)),
                        Err(error) => tracing::debug!(%error, path = %path.display(), "a file cannot be looked at"),
                    }
                }
            }
            Touches::Anything => {
                inner.running.insert(inner.calls);
                if inner.trees.is_empty() {
                    inner.trees = self.scan_trees(roots, &mut inner.cache, &mut inner.too_large);
                }
            }
        }
        Looked {
            touches,
            call: inner.calls,
        }
    }

    /// Looks after a call and writes down what it changed, unless [`Changes::settle`] has done so. `lingers`: something that
    /// it started goes on changing files.
    pub fn after(&self, looked: &Looked, lingers: bool) {
        let inner = &mut *self.inner.lock();
        match looked.touches {
            Touches::Nothing => {}
            Touches::Files(_) => self.note_files(inner),
            Touches::Anything => {
                if inner.running.remove(&looked.call) {
                    self.note_trees(inner, lingers || !inner.running.is_empty());
                }
            }
        }
        self.update_open(inner);
    }

    /// Records the changes of calls whose end was not reported: an aborted turn, a command left running.
    pub fn settle(&self, lingers: bool) {
        let inner = &mut *self.inner.lock();
        inner.running.clear();
        if !inner.files.is_empty() {
            self.note_files(inner);
        }
        if !inner.trees.is_empty() {
            self.note_trees(inner, lingers);
        }
        self.update_open(inner);
    }

    /// Whether the end of a call was not reported yet, or something is still changing files.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    fn update_open(&self, inner: &Inner) {
        let open = !inner.running.is_empty() || !inner.files.is_empty() || !inner.trees.is_empty();
        self.open.store(open, Ordering::Release);
    }

    fn scan_trees(&self, roots: &[PathBuf], cache: &mut Cache, too_large: &mut HashSet<PathBuf>) -> Vec<Tree> {
        let mut trees: Vec<Tree> = Vec::new();
        for root in roots {
            let Ok(root) = crate::paths::real(root) else { continue };
            if !is_a_project(&root)
                || too_large.contains(&root)
                || self.skipped == root
                || trees.iter().any(|tree| root.starts_with(tree.root()))
            {
                continue;
            }
            match Tree::scan(&root, &self.skipped, &self.blobs, cache, &self.limits) {
                Ok(tree) => trees.push(tree),
                Err(scan::TooLarge) => {
                    tracing::info!(root = %root.display(), "too many files to see what commands change there");
                    too_large.insert(root);
                }
            }
        }
        trees
    }

    fn note_trees(&self, inner: &mut Inner, keep: bool) {
        let before = std::mem::take(&mut inner.trees);
        let roots: Vec<PathBuf> = before.iter().map(|tree| tree.root().to_owned()).collect();
        let after = self.scan_trees(&roots, &mut inner.cache, &mut inner.too_large);
        let mut deltas = Vec::new();
        for (before, after) in before
            .iter()
            .filter_map(|tree| Some((tree, find(&after, tree.root())?)))
        {
            deltas.extend(before.differences(after, &self.blobs));
        }
        if keep {
            inner.trees = after;
        }
        self.note(inner, deltas);
    }

    fn note_files(&self, inner: &mut Inner) {
        let mut deltas = Vec::new();
        for (path, before) in std::mem::take(&mut inner.files) {
            let Ok(after) = read_entry(&path, &self.blobs) else {
                continue;
            };
            if before != after {
                deltas.push(Delta {
                    path,
                    before,
                    after,
                    disputed: false,
                });
            }
        }
        self.note(inner, deltas);
    }

    fn note(&self, inner: &mut Inner, deltas: Vec<Delta>) {
        if deltas.is_empty() {
            return;
        }
        let Some(cause) = inner.cause.clone() else { return };
        let noted = self.records(inner).and_then(|records| records.note(&cause, deltas));
        if let Err(error) = noted {
            tracing::warn!(%error, "what changed could not be written down");
        }
        self.touched();
    }

    fn records<'a>(&self, inner: &'a mut Inner) -> io::Result<&'a mut Records> {
        if inner.records.is_none() {
            inner.records = Some(Records::open(self.records.clone())?);
        }
        Ok(inner.records.as_mut().expect("it was just put there"))
    }

    /// What the changes of a scope come to, directories left out.
    pub fn of(&self, scope: &Scope) -> Result<Vec<Delta>, ChangesError> {
        let mut deltas = self.sum(scope)?;
        deltas.retain(|delta| delta.before.is_shown() || delta.after.is_shown());
        Ok(deltas)
    }

    fn sum(&self, scope: &Scope) -> Result<Vec<Delta>, ChangesError> {
        let inner = &mut *self.inner.lock();
        Ok(self.records(inner)?.sum(scope))
    }

    /// Whether a turn or restoration changed anything.
    pub fn knows(&self, id: &str) -> Result<bool, ChangesError> {
        let inner = &mut *self.inner.lock();
        Ok(self.records(inner)?.knows(id))
    }

    /// Makes files of a worktree what they are in git's last commit. Like a restoration, it can be restored.
    pub fn discard(&self, git: &Git, changes: &[GitChange]) -> Result<Restored, ChangesError> {
        let inner = &mut *self.inner.lock();
        let mut report = Restored::default();
        let mut kept = Vec::new();
        for change in changes {
            match read_entry(&change.path, &self.blobs) {
                Ok(before) if before.is_known() => kept.push((change, before)),
                // It could not be brought back.
                Ok(_) => report.skipped.push((change.path.clone(), Skip::NotKept)),
                Err(error) => report
                    .skipped
                    .push((change.path.clone(), Skip::Failed(error.to_string()))),
            }
        }
        if kept.is_empty() {
            return Ok(report);
        }
        let id = format!("restore-{}", uuid::Uuid::new_v4());
        let cause = Cause {
            id: id.clone(),
            event: None,
        };
        let delta = |path: &Path, before: Entry, after: Entry| Delta {
            path: path.to_owned(),
            before,
            after,
            disputed: false,
        };
        // Written down before git does anything: what it overwrites can be brought back, also when this is cut short.
        self.blobs
            .sync(kept.iter().filter_map(|(_, before)| before.content()))?;
        let befores = kept
            .iter()
            .map(|(change, before)| delta(&change.path, before.clone(), before.clone()));
        let befores = befores.collect();
        let records = self.records(inner)?;
        records.note(&cause, befores)?;
        records.sync()?;
        let mut deltas = Vec::new();
        for (change, before) in kept {
            match git.discard(change) {
                Ok(()) => report.restored.push(change.path.clone()),
                Err(error) => report
                    .skipped
                    .push((change.path.clone(), Skip::Failed(error.to_string()))),
            }
            if let Ok(after) = read_entry(&change.path, &self.blobs)
                && after != before
            {
                deltas.push(delta(&change.path, before, after));
            }
        }
        if !deltas.is_empty() {
            self.records(inner)?.note(&cause, deltas)?;
            report.id = Some(id);
        }
        self.touched();
        Ok(report)
    }

    /// Kept contents.
    pub fn content(&self, hash: &Hash) -> io::Result<Vec<u8>> {
        self.blobs.read(hash)
    }

    /// What was in a file before and after the last change of it that comes to this difference, if both are kept.
    pub fn sides_of(&self, path: &Path, difference: &str) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let steps = {
            let inner = &mut *self.inner.lock();
            self.records(inner)?.steps(path)?
        };
        let text = |entry: &Entry| match entry {
            Entry::File { content, .. } => String::from_utf8(self.content(content.as_ref()?).ok()?).ok(),
            _ => Some(String::new()),
        };
        let sides = steps.iter().rev().find_map(|(before, after)| {
            let (old, new) = (text(before)?, text(after)?);
            let known = Some(old.as_str()).filter(|_| matches!(before, Entry::File { .. }));
            (crate::diff::unified(path, known, &new).0 == difference).then(|| (old.into_bytes(), new.into_bytes()))
        });
        Ok(sides)
    }

    /// Lines added and removed. `None` where there are no lines to count.
    pub fn lines(&self, before: &Entry, after: &Entry) -> Option<(u64, u64)> {
        let pair = (kept_hash(before)?, kept_hash(after)?);
        if let Some(counted) = self.counted.lock().get(&pair) {
            return *counted;
        }
        let counted = self.both(&pair).and_then(|(old, new)| lines::count(&old, &new));
        let mut known = self.counted.lock();
        if known.len() > 10_000 {
            known.clear();
        }
        known.insert(pair, counted);
        counted
    }

    /// The hunks of a unified diff between two states of a file. `None` where [`Changes::lines`] has no lines to count.
    pub fn hunks(&self, before: &Entry, after: &Entry) -> Option<String> {
        let (old, new) = self.both(&(kept_hash(before)?, kept_hash(after)?))?;
        lines::hunks(&old, &new)
    }

    fn both(&self, (before, after): &(Option<Hash>, Option<Hash>)) -> Option<(Vec<u8>, Vec<u8>)> {
        let bytes = |hash: &Option<Hash>| match hash {
            Some(hash) => self.content(hash).ok(),
            None => Some(Vec::new()),
        };
        bytes(before).zip(bytes(after))
    }

    /// Removes kept contents that no change refers to. For when the session leaves memory.
    pub fn tidy(&self) {
        let inner = &mut *self.inner.lock();
        if !self.records.parent().is_some_and(Path::exists) {
            return;
        }
        let Some(unfinished) = self.wanted_by_journal() else {
            return;
        };
        let Ok(records) = self.records(inner) else { return };
        let mut wanted = wanted(records);
        wanted.extend(&unfinished);
        self.blobs.retain(|hash| wanted.contains(hash));
        inner.cache = Cache::default();
        inner.trees = Vec::new();
    }
}

/// The contents that changes refer to.
fn wanted(records: &Records) -> HashSet<&Hash> {
    records.entries().filter_map(Entry::content).collect()
}

fn find<'a>(trees: &'a [Tree], root: &Path) -> Option<&'a Tree> {
    trees.iter().find(|tree| tree.root() == root)
}

/// A path and the directories on the way to it that are not there yet: made for it, they belong to its change.
fn with_missing_parents(path: &Path) -> impl Iterator<Item = &Path> {
    let parents = path
        .ancestors()
        .skip(1)
        .take_while(|dir| dir.symlink_metadata().is_err());
    std::iter::once(path).chain(parents)
}

/// The hash of the content to compare; an absent file is empty. `None`: not kept, or without lines.
fn kept_hash(entry: &Entry) -> Option<Option<Hash>> {
    match entry {
        Entry::File { content, .. } => content.clone().map(Some),
        Entry::Link { .. } => None,
        _ => Some(None),
    }
}

/// Whether a directory is one that people work in, rather than one that holds everything they have.
fn is_a_project(root: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    root.parent().is_some() && home.is_none_or(|home| !home.starts_with(root))
}
