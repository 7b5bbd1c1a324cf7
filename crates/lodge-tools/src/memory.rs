//! Facts that agents remember about a project from one session to the next. They are in the home, one file per project,
//! where the person can see and delete them.

use std::{
    io,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::git_files::GitFiles;

/// The most that is kept of a project. The model reads all of it.
pub(crate) const MOST: usize = 100;
/// The longest fact, in characters.
pub(crate) const LONGEST_FACT: usize = 500;
/// Longer files lead to no repository, in bytes.
const LONGEST_POINTER: u64 = 16 << 10;

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What it is about, in a word or two.
    pub subject: String,
    /// The fact.
    pub fact: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citations: Option<String>,
    /// When it was kept.
    pub kept_at: String,
}

/// The file of a project.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    /// For whoever looks at the file.
    project: String,
    memories: Vec<Memory>,
}

/// The facts of all projects.
pub struct Memories {
    dir: PathBuf,
    /// Held while a file is changed.
    changing: Mutex<()>,
}

/// The project that a directory is part of: the repository around it, whichever of its worktrees that is, or itself.
fn project(cwd: &Path) -> PathBuf {
    let worktree = GitFiles::root_around(cwd).unwrap_or(cwd);
    repository_of(worktree).unwrap_or_else(|| worktree.canonicalize().unwrap_or_else(|_| worktree.to_owned()))
}

/// The repository that a worktree belongs to, where git keeps the worktree's own data in the repository's. The repository
/// must name the worktree, too: no folder can say of itself that it belongs to a repository, so only what lies where a repository
/// keeps its worktrees counts as the repository's word.
fn repository_of(worktree: &Path) -> Option<PathBuf> {
    let text = pointer(worktree, ".git")?;
    let git_dir = worktree.join(text.strip_prefix("gitdir: ")?).canonicalize().ok()?;
    let common = git_dir.join(pointer(&git_dir, "commondir")?).canonicalize().ok()?;
    if git_dir.parent() != Some(&common.join("worktrees")) {
        return None;
    }
    let named = git_dir.join(pointer(&git_dir, "gitdir")?);
    if named.canonicalize().ok()? != worktree.join(".git").canonicalize().ok()? {
        return None;
    }
    match common.file_name()? == ".git" {
        true => common.parent().map(Path::to_owned),
        false => Some(common),
    }
}

/// A path that git keeps in a file. The folder may be anybody's.
fn pointer(folder: &Path, name: &str) -> Option<String> {
    let text = lodge_files::text_in_folder(folder, name, LONGEST_POINTER).ok()?;
    Some(text.trim().to_owned())
}

impl Memories {
    /// Those of a home.
    pub fn of_home(home: &Path) -> Self {
        Self {
            dir: home.join("memories"),
            changing: Mutex::default(),
        }
    }

    fn file(&self, cwd: &Path) -> PathBuf {
        let name = project(cwd).to_string_lossy().into_owned();
        let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).simple();
        self.dir.join(format!("{id}.json"))
    }

    fn read(&self, cwd: &Path) -> io::Result<Kept> {
        match std::fs::read(self.file(cwd)) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, cwd: &Path, mut kept: Kept) -> io::Result<()> {
        kept.project = project(cwd).display().to_string();
        std::fs::create_dir_all(&self.dir)?;
        lodge_files::replace(&self.file(cwd), &serde_json::to_vec_pretty(&kept)?)
    }

    /// What is kept of the project that a directory is part of, the oldest first.
    pub fn list(&self, cwd: &Path) -> io::Result<Vec<Memory>> {
        Ok(self.read(cwd)?.memories)
    }

    /// Keeps a fact. One that is known already takes its new words; of too many the oldest goes.
    pub fn keep(&self, cwd: &Path, memory: Memory) -> io::Result<()> {
        let _changing = self.changing.lock();
        let mut kept = self.read(cwd)?;
        kept.memories
            .retain(|known| (&known.subject, &known.fact) != (&memory.subject, &memory.fact));
        if kept.memories.len() >= MOST {
            kept.memories.remove(0);
        }
        kept.memories.push(memory);
        self.write(cwd, kept)
    }

    /// Forgets the fact at a place in the list, and says which it was.
    pub fn forget(&self, cwd: &Path, at: usize) -> io::Result<Option<Memory>> {
        let _changing = self.changing.lock();
        let mut kept = self.read(cwd)?;
        if at >= kept.memories.len() {
            return Ok(None);
        }
        let gone = kept.memories.remove(at);
        self.write(cwd, kept)?;
        Ok(Some(gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(subject: &str, fact: &str) -> Memory {
        Memory {
            subject: subject.to_owned(),
            fact: fact.to_owned(),
            citations: None,
            kept_at: String::new(),
        }
    }

    #[test]
    fn facts_belong_to_the_repository_and_the_oldest_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("repo");
        std::fs::create_dir_all(repository.join(".git")).unwrap();
        std::fs::write(repository.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::create_dir_all(repository.join("src")).unwrap();
        let memories = Memories::of_home(&dir.path().join("home"));
        for number in 0..=MOST {
            memories
                .keep(&repository.join("src"), memory("n", &number.to_string()))
                .unwrap();
        }
        memories.keep(&repository, memory("n", "5")).unwrap();
        let facts: Vec<String> = memories
            .list(&repository)
            .unwrap()
            .into_iter()
            .map(|it| it.fact)
            .collect();
        assert_eq!(
            (facts.len(), facts[0].as_str(), facts[MOST - 1].as_str()),
            (MOST, "1", "5")
        );
        assert_eq!(memories.forget(&repository, 0).unwrap().unwrap().fact, "1");
        assert!(memories.forget(&repository, MOST).unwrap().is_none());
        assert!(memories.list(dir.path()).unwrap().is_empty(), "another project");
    }

    #[test]
    fn facts_of_a_worktree_are_those_of_its_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (repository, worktree, stranger) = (root.join("repo"), root.join("tree"), root.join("stranger"));
        let own = repository.join(".git/worktrees/tree");
        for path in [&own, &worktree.join("src"), &stranger] {
            std::fs::create_dir_all(path).unwrap();
        }
        std::fs::write(repository.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::write(own.join("gitdir"), format!("{}\n", worktree.join(".git").display())).unwrap();
        for tree in [&worktree, &stranger] {
            std::fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        }
        let memories = Memories::of_home(&root.join("home"));
        memories.keep(&worktree.join("src"), memory("n", "kept")).unwrap();
        assert_eq!(memories.list(&repository).unwrap().len(), 1);
        assert_eq!(memories.list(&worktree).unwrap().len(), 1);
        assert!(
            memories.list(&stranger).unwrap().is_empty(),
            "the repository does not know it"
        );

        // It says what a repository would say of it.
        std::fs::create_dir_all(stranger.join("own")).unwrap();
        std::fs::write(
            stranger.join("own/commondir"),
            repository.join(".git").display().to_string(),
        )
        .unwrap();
        std::fs::write(stranger.join("own/gitdir"), stranger.join(".git").display().to_string()).unwrap();
        std::fs::write(stranger.join(".git"), "gitdir: own\n").unwrap();
        assert!(memories.list(&stranger).unwrap().is_empty(), "it only says so itself");
        std::fs::remove_file(stranger.join(".git")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", stranger.join(".git")).unwrap();
        assert!(
            memories.list(&stranger).unwrap().is_empty(),
            "nothing is read without end"
        );

        let link = root.join("link");
        std::os::unix::fs::symlink(&repository, &link).unwrap();
        assert_eq!(memories.list(&link).unwrap().len(), 1, "a repository has one name");
    }
}
