//! Scans a tree: names, sizes and times of all files. Contents are read only where these may have changed and git does
//! not have them.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ignore::{DirEntry, WalkBuilder, WalkState};
use parking_lot::Mutex;

use super::{
    Limits,
    blobs::{Blobs, Hash},
    entry::{Entry, read_entry},
    git::Git,
    index::{Conversions, Index},
    records::Delta,
};
use crate::git_files::GitFiles;

/// A file that was changed so shortly before it was read may change again without its times showing it.
const TICK: Duration = Duration::from_millis(50);

/// The bits of a mode that say what it is, and what they say.
const KIND: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// What the file system says of a path without its being opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) inode: u64,
    /// Nanoseconds.
    mtime: i128,
    ctime: i128,
}

impl Stat {
    fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            mode: metadata.mode(),
            size: metadata.size(),
            inode: metadata.ino(),
            mtime: nanos(metadata.mtime(), metadata.mtime_nsec()),
            ctime: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub(super) fn is_file(&self) -> bool {
        self.mode & KIND == FILE
    }

    pub(super) fn mtime_parts(&self) -> (u32, u32) {
        ((self.mtime / 1_000_000_000) as u32, (self.mtime % 1_000_000_000) as u32)
    }

    /// Whether its times reveal a change after `read`.
    fn is_settled(&self, read: i128) -> bool {
        is_before(self.ctime, read)
    }
}

/// Whether a time of a file is certainly before another: clocks of file systems are late.
fn is_before(time: i128, other: i128) -> bool {
    time + i128::try_from(TICK.as_nanos()).unwrap_or(0) < other
}

/// Where the contents of a file are.
#[derive(Debug, Clone)]
enum Content {
    /// Kept.
    Kept(Hash),
    /// In git's store, of the repository with this number.
    Git(usize, String),
    /// Where a link leads.
    Link(PathBuf),
    /// Nowhere: too large, or not a file.
    Not,
}

#[derive(Debug, Clone)]
struct Seen {
    stat: Stat,
    content: Content,
}

/// Contents that were read before, and what their files looked like then.
#[derive(Default)]
pub(super) struct Cache {
    files: HashMap<PathBuf, (Stat, Hash)>,
    conversions: Conversions,
    /// How many entries the last scanned tree had.
    entries: usize,
}

/// All files of a tree at one time.
pub(super) struct Tree {
    root: PathBuf,
    files: HashMap<PathBuf, Seen>,
    repositories: Vec<PathBuf>,
    looked: i128,
}

/// The tree has too many files to scan.
pub(super) struct TooLarge;

impl Tree {
    /// Looks at everything below a directory that is not ignored.
    pub(super) fn scan(
        root: &Path,
        skipped: &Path,
        blobs: &Blobs,
        cache: &mut Cache,
        limits: &Limits,
    ) -> Result<Self, TooLarge> {
        let looked = now();
        let (found, mut repositories) = walk(root, skipped, limits, cache.entries)?;
        cache.entries = found.len();
        let around = root.parent().and_then(GitFiles::root_around);
        repositories.extend(around.map(Path::to_owned));
        let indexes: Vec<Index> = match Git::is_there() {
            true => repositories
                .iter()
                .filter_map(|root| Index::read(root, &mut cache.conversions))
                .collect(),
            false => Vec::new(),
        };
        let mut files: HashMap<PathBuf, Stat> = found.into_iter().collect();
        // Files that git has although they are ignored.
        for path in indexes.iter().flat_map(|index| index.files.keys()) {
            if !files.contains_key(path)
                && path.starts_with(root)
                && !path.starts_with(skipped)
                && let Ok(metadata) = path.symlink_metadata()
            {
                files.insert(path.clone(), Stat::from_metadata(&metadata));
            }
        }
        let mut known = HashMap::new();
        let files = files.into_iter().map(|(path, stat)| {
            let content = content_of(&path, &stat, &indexes, cache, blobs);
            if let Content::Kept(hash) = &content
                && stat.is_settled(looked)
            {
                known.insert(path.clone(), (stat.clone(), hash.clone()));
            }
            (path, Seen { stat, content })
        });
        let files = files.collect();
        cache.files.retain(|path, _| !path.starts_with(root));
        cache.files.extend(known);
        Ok(Self {
            root: root.to_owned(),
            files,
            repositories: indexes.into_iter().map(|index| index.root).collect(),
            looked,
        })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// What changed from this look to a later one of the same tree.
    pub(super) fn differences(&self, later: &Self, blobs: &Blobs) -> Vec<Delta> {
        let changed = self.files.iter().filter(|(path, seen)| {
            let same = match later.files.get(*path) {
                Some(now) => now.stat == seen.stat,
                // What is ignored from now on is still there.
                None => path
                    .symlink_metadata()
                    .is_ok_and(|now| Stat::from_metadata(&now) == seen.stat),
            };
            !same || (seen.stat.is_file() && !seen.stat.is_settled(self.looked))
        });
        let mut paths: Vec<&PathBuf> = changed.map(|(path, _)| path).collect();
        let mut new: Vec<&PathBuf> = later
            .files
            .keys()
            .filter(|path| !self.files.contains_key(*path))
            .collect();
        let ignores = |path: &PathBuf| path.ends_with(".gitignore") || path.ends_with(".ignore");
        let unknown = match paths.iter().chain(&new).any(|path| ignores(path)) {
            true => self.take_out_hidden(&mut new, later),
            false => HashSet::new(),
        };
        paths.extend(new);
        paths.sort_unstable();
        let befores = self.befores(&paths, &unknown, blobs);
        let mut deltas = Vec::new();
        for (path, before) in paths.into_iter().zip(befores) {
            let seen = later.files.get(path);
            let Some(after) = seen.and_then(Seen::entry).or_else(|| read_entry(path, blobs).ok()) else {
                continue;
            };
            if before != after && before != Entry::Other && after != Entry::Other {
                deltas.push(Delta {
                    path: path.clone(),
                    before,
                    after,
                    disputed: false,
                });
            }
        }
        deltas
    }

    /// What is no longer ignored was there before. Takes out what is as it was, and gives those that are not: what they
    /// were nobody knows.
    fn take_out_hidden(&self, new: &mut Vec<&PathBuf>, later: &Self) -> HashSet<PathBuf> {
        let seen: HashSet<u64> = self.files.values().map(|seen| seen.stat.inode).collect();
        let mut unknown = HashSet::new();
        new.retain(|path| {
            let stat = &later.files[*path].stat;
            if seen.contains(&stat.inode) {
                return true;
            }
            if stat.is_file() && self.is_older(path) {
                unknown.insert((*path).clone());
            }
            !stat.is_settled(self.looked)
        });
        unknown
    }

    /// Whether a file was made before the look. Where nobody can say, it was.
    fn is_older(&self, path: &Path) -> bool {
        let born = path.symlink_metadata().and_then(|metadata| metadata.created());
        let born = born.ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        born.is_none_or(|born| is_before(i128::try_from(born.as_nanos()).unwrap_or(0), self.looked))
    }

    /// What was at these paths, fetched from git where git has it. At those that are `unknown` there was something.
    fn befores(&self, paths: &[&PathBuf], unknown: &HashSet<PathBuf>, blobs: &Blobs) -> Vec<Entry> {
        let mut wanted: HashMap<usize, Vec<(&Path, &str, u64)>> = HashMap::new();
        for path in paths {
            if let Some(seen) = self.files.get(*path)
                && let Content::Git(repository, oid) = &seen.content
            {
                wanted.entry(*repository).or_default().push((path, oid, seen.stat.size));
            }
        }
        let mut fetched: HashMap<PathBuf, Hash> = HashMap::new();
        for (repository, files) in wanted {
            let git = Git::at(&self.repositories[repository]);
            git.contents(&files, |path, bytes| {
                if let Ok(Some(hash)) = blobs.keep(&bytes) {
                    fetched.insert(path.to_owned(), hash);
                }
            });
        }
        let before = |path: &&PathBuf| match self.files.get(*path) {
            None if unknown.contains(*path) => Entry::File {
                content: None,
                size: 0,
                mode: 0,
            },
            None => Entry::Absent,
            Some(seen) => seen.entry().unwrap_or_else(|| seen.file(fetched.get(*path).cloned())),
        };
        paths.iter().map(before).collect()
    }
}

impl Seen {
    fn file(&self, content: Option<Hash>) -> Entry {
        Entry::File {
            content,
            size: self.stat.size,
            mode: self.stat.mode & 0o7777,
        }
    }

    /// What is there, if that is known without another look.
    fn entry(&self) -> Option<Entry> {
        match (&self.content, self.stat.mode & KIND) {
            (Content::Git(..), _) => None,
            (Content::Link(target), _) => Some(Entry::Link { target: target.clone() }),
            (Content::Kept(hash), _) => Some(self.file(Some(hash.clone()))),
            (Content::Not, FILE) => Some(self.file(None)),
            (Content::Not, DIRECTORY) => Some(Entry::Directory {
                mode: self.stat.mode & 0o7777,
            }),
            (Content::Not, _) => Some(Entry::Other),
        }
    }
}

/// Finds the contents of a file, and keeps them if nobody has them yet.
fn content_of(path: &Path, stat: &Stat, indexes: &[Index], cache: &Cache, blobs: &Blobs) -> Content {
    match stat.mode & KIND {
        FILE => {}
        LINK => return std::fs::read_link(path).map_or(Content::Not, Content::Link),
        _ => return Content::Not,
    }
    if let Some((then, hash)) = cache.files.get(path)
        && then == stat
    {
        return Content::Kept(hash.clone());
    }
    for (number, index) in indexes.iter().enumerate() {
        if let Some(oid) = index.clean(path, stat) {
            return Content::Git(number, oid.to_owned());
        }
    }
    match read_entry(path, blobs) {
        Ok(Entry::File {
            content: Some(hash), ..
        }) => Content::Kept(hash),
        _ => Content::Not,
    }
}

type Found = Vec<(PathBuf, Stat)>;

/// From so many entries on it pays to walk a tree with several threads: they take longer to start than a small one takes.
const MANY: usize = 2000;

/// Everything below a directory that `.gitignore` and the like leave, and the repositories among it. `expected`: about how
/// many entries there are.
fn walk(root: &Path, skipped: &Path, limits: &Limits, expected: usize) -> Result<(Found, Vec<PathBuf>), TooLarge> {
    let repositories: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let (repos, skipped) = (repositories.clone(), skipped.to_owned());
    let mut builder = lodge_files::walk(root, move |entry| {
        if entry.file_name() == ".git" {
            repos.lock().extend(entry.path().parent().map(Path::to_owned));
            return false;
        }
        entry.path() != skipped && !is_ours(entry.file_name())
    });
    builder.hidden(false);
    let found = match expected < MANY {
        true => walk_alone(&builder, limits)?,
        false => walk_together(&mut builder, limits)?,
    };
    let repositories = std::mem::take(&mut *repositories.lock());
    Ok((found, repositories))
}

fn walk_alone(builder: &WalkBuilder, limits: &Limits) -> Result<Found, TooLarge> {
    let mut found = Vec::new();
    for (n, entry) in builder.build().flatten().filter(|entry| entry.depth() > 0).enumerate() {
        if n >= limits.entries {
            return Err(TooLarge);
        }
        found.extend(stated(entry));
    }
    Ok(found)
}

fn walk_together(builder: &mut WalkBuilder, limits: &Limits) -> Result<Found, TooLarge> {
    let found = Mutex::new(Vec::new());
    let (count, full) = (AtomicUsize::new(0), AtomicBool::new(false));
    builder.threads(std::thread::available_parallelism().map_or(1, usize::from).min(4));
    builder.build_parallel().run(|| {
        let mut mine = Collected {
            all: &found,
            mine: Vec::new(),
        };
        let (count, full) = (&count, &full);
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            if entry.depth() == 0 {
                return WalkState::Continue;
            }
            if count.fetch_add(1, Ordering::Relaxed) >= limits.entries {
                full.store(true, Ordering::Relaxed);
                return WalkState::Quit;
            }
            mine.mine.extend(stated(entry));
            WalkState::Continue
        })
    });
    match full.into_inner() {
        true => Err(TooLarge),
        false => Ok(found.into_inner()),
    }
}

fn stated(entry: DirEntry) -> Option<(PathBuf, Stat)> {
    let stat = Stat::from_metadata(&entry.metadata().ok()?);
    Some((entry.into_path(), stat))
}

/// What one thread of a walk found; given to the others when it is done.
struct Collected<'a> {
    all: &'a Mutex<Found>,
    mine: Found,
}

impl Drop for Collected<'_> {
    fn drop(&mut self) {
        self.all.lock().append(&mut self.mine);
    }
}

/// Files that are only there while another is written.
fn is_ours(name: &OsStr) -> bool {
    let id = name.to_str().and_then(|name| name.strip_prefix(".lodge-"));
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
