//! Names that complete a word: of several directories, in one list.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Found, Indexes, Symbol, Symbols};
use crate::blocking::run_blocking;

/// Something that completes a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The file or the directory.
    pub path: PathBuf,
    /// What people read: the name of a file or a symbol, and the way to a directory. Files of the same name are shown with where
    /// they are.
    pub label: String,
    /// What it is.
    pub what: Completed,
}

/// What completes a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completed {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A name that a file defines.
    Symbol(Symbol),
}

impl Completion {
    fn file(root: &Path, found: &Found) -> Self {
        let name = found.path.rsplit('/').next().unwrap_or(&found.path);
        let (label, what) = match found.is_dir {
            true => (&*found.path, Completed::Directory),
            false => (name, Completed::File),
        };
        Self {
            path: root.join(&found.path),
            label: label.to_owned(),
            what,
        }
    }

    fn symbol(root: &Path, symbol: Symbol) -> Self {
        Self {
            path: root.join(&*symbol.path),
            label: symbol.name.clone(),
            what: Completed::Symbol(symbol),
        }
    }

    fn place(&self) -> (&Path, Option<(usize, usize)>) {
        match &self.what {
            Completed::Symbol(symbol) => (&self.path, Some((symbol.line, symbol.column))),
            Completed::File | Completed::Directory => (&self.path, None),
        }
    }
}

impl Symbols {
    /// What completes a word in these directories, the best first: at most `most`, of which at most half are symbols, where these
    /// are wanted.
    pub async fn complete(
        self: &Arc<Self>,
        files: &Arc<Indexes>,
        roots: Vec<PathBuf>,
        word: String,
        with_symbols: bool,
        most: usize,
    ) -> Vec<Completion> {
        let (symbols, indexes) = (self.clone(), files.clone());
        let of_root = move |root: &PathBuf| {
            let symbols = match with_symbols {
                true => symbols.find(&indexes, root, &word, most / 2),
                false => Vec::new(),
            };
            let files = indexes.find(root, &word, most - symbols.len());
            let symbols = symbols.into_iter().map(|symbol| Completion::symbol(root, symbol));
            let files = files.iter().map(|found| Completion::file(root, found));
            symbols.chain(files).collect()
        };
        let look = move || {
            let mut found = in_turn(roots.iter().map(of_root).collect(), most);
            tell_apart(&roots, &mut found);
            found
        };
        run_blocking(look).await.unwrap_or_default()
    }
}

/// The best of each directory, then the second best of each, and so on. What lies in two of them is one thing.
fn in_turn(lists: Vec<Vec<Completion>>, most: usize) -> Vec<Completion> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut found: Vec<Completion> = Vec::new();
    for _ in 0..longest {
        for next in lists.iter_mut().filter_map(Iterator::next) {
            if found.len() < most && !found.iter().any(|known| known.place() == next.place()) {
                found.push(next);
            }
        }
    }
    found
}

/// Files of the same name are shown with where they are.
fn tell_apart(roots: &[PathBuf], found: &mut [Completion]) {
    let mut named: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, one) in found.iter().enumerate().filter(|(_, one)| one.what == Completed::File) {
        named.entry(one.label.clone()).or_default().push(at);
    }
    for at in named.into_values().filter(|same| same.len() > 1).flatten() {
        let one = &mut found[at];
        // The innermost of the directories that it lies in.
        let owners = roots.iter().filter(|root| one.path.starts_with(root));
        if let Some(root) = owners.max_by_key(|root| root.as_os_str().len()) {
            let below = one.path.strip_prefix(root).unwrap_or(&one.path).display();
            one.label = format!("{} • {below}", short_name(roots, root));
        }
    }
}

/// A directory by the fewest of its last parts that no other directory ends with.
fn short_name(roots: &[PathBuf], root: &Path) -> String {
    let ends = |path: &Path, count: usize| -> PathBuf {
        let parts: Vec<_> = path.components().collect();
        parts[parts.len().saturating_sub(count)..].iter().collect()
    };
    let is_alone = |count: &usize| {
        let mut others = roots.iter().filter(|other| other.as_path() != root);
        others.all(|other| ends(other, *count) != ends(root, *count))
    };
    let count = (1..=root.components().count()).find(is_alone).unwrap_or(usize::MAX);
    ends(root, count).display().to_string()
}
