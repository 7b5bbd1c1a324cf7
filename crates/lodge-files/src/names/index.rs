//! An index of the paths in a directory, cached for a while: completing each typed letter must not walk the tree every
//! time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ignore::WalkState;
use parking_lot::Mutex;

use super::fuzzy::{Word, letters};

/// Paths of one tree. What is beyond cannot be completed.
const MOST_PATHS: usize = 400_000;

/// Trees that are remembered.
const MOST_TREES: usize = 8;

/// A tree that is walked faster than this is walked each time.
const QUICK: Duration = Duration::from_millis(10);

/// A tree is walked again after so many times what that takes.
const PATIENCE: u32 = 20;

/// A path that fits.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Seen from the directory.
    pub path: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

struct Line {
    /// Where the path ends in the text; it begins where the one before it ends.
    end: u32,
    /// Where its last part begins, from its beginning.
    name: u16,
    is_dir: bool,
    letters: u64,
}

/// All paths of a tree, shallow ones first.
struct Index {
    text: String,
    /// The same in lower case, where that is as long.
    lower: String,
    lines: Vec<Line>,
    made: Instant,
    took: Duration,
}

impl Index {
    /// Walks a tree, without what git ignores and what is hidden.
    fn new(root: &Path, hidden: &Path) -> Self {
        let begun = Instant::now();
        let paths = Mutex::new(Vec::new());
        let real = root.canonicalize().unwrap_or_default();
        let hidden = hidden.strip_prefix(real).map(|below| root.join(below));
        let mut walk = crate::walk(root, move |entry| {
            entry.file_name() != ".git" && hidden.as_deref() != Ok(entry.path())
        });
        walk.hidden(false)
            .threads(std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4)));
        walk.build_parallel().run(|| {
            Box::new(|entry| {
                let Ok(entry) = entry else { return WalkState::Continue };
                let Some(kind) = entry.file_type().filter(|_| entry.depth() > 0) else {
                    return WalkState::Continue;
                };
                // What has no text for a name cannot be typed.
                let Some(path) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) else {
                    return WalkState::Continue;
                };
                let mut paths = paths.lock();
                paths.push((entry.depth(), path.to_owned(), kind.is_dir()));
                if paths.len() >= MOST_PATHS {
                    return WalkState::Quit;
                }
                WalkState::Continue
            })
        });
        let mut paths = paths.into_inner();
        paths.sort_unstable();
        let bytes = paths.iter().map(|(_, path, _)| path.len()).sum();
        let (mut text, mut lower) = (String::with_capacity(bytes), String::with_capacity(bytes));
        let mut lines = Vec::with_capacity(paths.len());
        for (_, path, is_dir) in &paths {
            let small = path.to_lowercase();
            let small = if small.len() == path.len() { &small } else { path };
            text.push_str(path);
            lower.push_str(small);
            let (Ok(end), Ok(name)) = (
                u32::try_from(text.len()),
                u16::try_from(path.rfind('/').map_or(0, |at| at + 1)),
            ) else {
                break;
            };
            lines.push(Line {
                end,
                name,
                is_dir: *is_dir,
                letters: letters(small.as_bytes()),
            });
        }
        Self {
            text,
            lower,
            lines,
            made: Instant::now(),
            took: begun.elapsed(),
        }
    }

    /// The paths that fit best, best first.
    fn find(&self, word: &str, most: usize) -> Vec<Found> {
        let word = Word::new(word);
        let mut best: BinaryHeap<Reverse<(i32, Reverse<usize>)>> = BinaryHeap::with_capacity(most + 1);
        let mut start = 0;
        for (at, line) in self.lines.iter().enumerate() {
            let end = line.end as usize;
            let path = &self.lower.as_bytes()[start..end];
            start = end;
            let Some(score) = word.score(path, line.letters, usize::from(line.name)) else {
                continue;
            };
            best.push(Reverse((score, Reverse(at))));
            if best.len() > most {
                best.pop();
            }
        }
        let sorted = best.into_sorted_vec().into_iter();
        let found = sorted.map(|Reverse((_, Reverse(at)))| Found {
            path: self.path(at).to_owned(),
            is_dir: self.lines[at].is_dir,
        });
        found.collect()
    }

    fn path(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.lines[before].end as usize);
        &self.text[start..self.lines[at].end as usize]
    }
}

/// A tree, and whether somebody is walking it again.
struct Tree {
    index: Arc<Index>,
    walking: bool,
    used: Instant,
}

/// The trees that were asked about lately.
pub struct Indexes {
    /// A directory that no tree is shown with: the host's own.
    hidden: PathBuf,
    trees: Mutex<HashMap<PathBuf, Tree>>,
    /// One at a time walks a tree that is not known yet.
    first: Mutex<()>,
}

impl Indexes {
    /// None yet. What is in `hidden` is never found.
    pub fn new(hidden: PathBuf) -> Self {
        Self {
            hidden,
            trees: Mutex::default(),
            first: Mutex::default(),
        }
    }

    /// The paths in a directory that fit a word best. Blocks: the first time for as long as it takes to walk the tree.
    pub fn find(self: &Arc<Self>, root: &Path, word: &str, most: usize) -> Vec<Found> {
        self.index(root).find(word, most)
    }

    /// Every file in a directory, shallow ones first, until somebody has enough.
    pub(super) fn each_file(self: &Arc<Self>, root: &Path, mut goes_on: impl FnMut(&str) -> bool) {
        let index = self.index(root);
        let files = (0..index.lines.len()).filter(|at| !index.lines[*at].is_dir);
        for at in files {
            if !goes_on(index.path(at)) {
                return;
            }
        }
    }

    fn index(self: &Arc<Self>, root: &Path) -> Arc<Index> {
        if let Some(index) = self.known(root) {
            return index;
        }
        let _one = self.first.lock();
        match self.known(root) {
            Some(index) => index,
            None => self.walk(root),
        }
    }

    /// The cached paths of a tree, if recent enough. An old cache is still used once, while it is refreshed in the background.
    fn known(self: &Arc<Self>, root: &Path) -> Option<Arc<Index>> {
        let mut trees = self.trees.lock();
        let tree = trees.get_mut(root)?;
        tree.used = Instant::now();
        let (age, took) = (tree.index.made.elapsed(), tree.index.took);
        if took < QUICK && age > took {
            return None;
        }
        if age > took * PATIENCE && !tree.walking {
            tree.walking = true;
            let (all, root) = (self.clone(), root.to_owned());
            // If there is no thread for it, the next who asks tries again.
            let walking = std::thread::Builder::new()
                .name("index".into())
                .spawn(move || drop(all.walk(&root)));
            tree.walking = walking.is_ok();
        }
        Some(tree.index.clone())
    }

    fn walk(&self, root: &Path) -> Arc<Index> {
        let index = Arc::new(Index::new(root, &self.hidden));
        let mut trees = self.trees.lock();
        let tree = Tree {
            index: index.clone(),
            walking: false,
            used: Instant::now(),
        };
        trees.insert(root.to_owned(), tree);
        if trees.len() > MOST_TREES
            && let Some(oldest) = trees
                .iter()
                .min_by_key(|(_, tree)| tree.used)
                .map(|(root, _)| root.clone())
        {
            trees.remove(&oldest);
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_ignores_is_passed_over_and_new_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(".gitignore", "out/\n*.log\n");
        write(".git/config", "");
        write(".github/ci.yml", "");
        write("src/main.rs", "");
        write("src/Other.rs", "");
        write("out/main.js", "");
        write("main.log", "");
        write("own/token", "");
        let indexes = Arc::new(Indexes::new(dir.path().join("own")));
        let find = |word: &str| -> Vec<String> {
            let found = indexes.find(dir.path(), word, 5).into_iter();
            found
                .map(|found| format!("{}{}", found.path, if found.is_dir { "/" } else { "" }))
                .collect()
        };
        assert_eq!(
            find(""),
            [".github/", ".gitignore", "src/", ".github/ci.yml", "src/Other.rs"]
        );
        assert_eq!(find("main"), ["src/main.rs"]);
        assert_eq!(find("OTHER"), ["src/Other.rs"]);
        assert_eq!(find("zzz"), Vec::<String>::new());
        write("src/zzz", "");
        // A tree that took long to walk is walked again beside, and is new a little later.
        while find("zzz") != ["src/zzz"] {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
