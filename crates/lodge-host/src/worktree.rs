//! Git worktrees: a session may work in its own, on its own branch, apart from the person's files.

use std::{
    io,
    path::{Path, PathBuf},
};

use lodge_events::LodgeWorktree;
use lodge_log::Home;

use crate::{AgentError, Change, GitContext, HostError, Session, blocking::run_blocking};

/// A worktree created for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Where it is.
    pub path: PathBuf,
    /// The root of the original worktree.
    pub repository: PathBuf,
    /// Its own branch.
    pub branch: String,
    /// The branch from which it was created.
    pub base: String,
}

impl From<&LodgeWorktree> for Worktree {
    fn from(event: &LodgeWorktree) -> Self {
        Self {
            path: PathBuf::from(&event.path),
            repository: PathBuf::from(&event.repository),
            branch: event.branch.clone(),
            base: event.base.clone(),
        }
    }
}

/// Why a worktree cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The directory is not in a repository.
    #[error("{0} is not in a git repository")]
    NoRepository(String),
    /// The branch does not exist.
    #[error("there is no branch {0:?}")]
    NoBranch(String),
    /// Git refused.
    #[error("git: {0}")]
    Git(String),
    /// Git could not be run.
    #[error("cannot run git: {0}")]
    Io(#[from] io::Error),
}

fn git(directory: &Path, args: &[&str]) -> Result<String, WorktreeError> {
    // The repository need not be trusted: creating a worktree starts nothing that its configuration names.
    let mut command = lodge_tools::git_env::command(directory).map_err(WorktreeError::Git)?;
    let output = command.args(args).output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(WorktreeError::Git(error));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The branches of a repository: the current one, the default one, then local and remote ones, newest first. Empty
/// without a repository.
pub async fn branches(directory: PathBuf) -> Vec<String> {
    run_blocking(move || branches_of(&directory)).await.unwrap_or_default()
}

fn branches_of(directory: &Path) -> Vec<String> {
    let list = |place: &str| {
        let args = ["for-each-ref", "--sort=-committerdate", "--format=%(refname)", place];
        git(directory, &args).unwrap_or_default()
    };
    let short = |list: String, prefix: &str| -> Vec<String> {
        let names = list.lines().filter_map(|name| name.strip_prefix(prefix));
        names
            .filter(|name| !name.ends_with("/HEAD"))
            .map(str::to_owned)
            .collect()
    };
    let mut all = short(list("refs/heads"), "refs/heads/");
    all.extend(short(list("refs/remotes"), "refs/remotes/"));
    let head = |of: &str| git(directory, &["symbolic-ref", "--quiet", "--short", of]).ok();
    let default = head("refs/remotes/origin/HEAD");
    let default = default.and_then(|name| name.strip_prefix("origin/").map(str::to_owned));
    // The last one here becomes the first.
    for first in [default, head("HEAD")].into_iter().flatten() {
        if let Some(at) = all.iter().position(|name| *name == first) {
            all[..=at].rotate_right(1);
        }
    }
    all
}

/// The commit of a branch.
fn commit(directory: &Path, branch: &str) -> Result<String, WorktreeError> {
    let places = match branch {
        "HEAD" => vec!["HEAD".to_owned()],
        _ => vec![format!("refs/heads/{branch}"), format!("refs/remotes/{branch}")],
    };
    let found = places.iter().find_map(|place| {
        git(
            directory,
            &["rev-parse", "--verify", "--quiet", &format!("{place}^{{commit}}")],
        )
        .ok()
    });
    found.ok_or_else(|| WorktreeError::NoBranch(branch.to_owned()))
}

/// Whether a worktree can be created from this branch.
pub async fn can_begin(directory: PathBuf, base: String) -> Result<(), WorktreeError> {
    let look = move || {
        if GitContext::of(&directory).root.is_none() {
            return Err(WorktreeError::NoRepository(directory.display().to_string()));
        }
        commit(&directory, &base).map(drop)
    };
    run_blocking(look).await?
}

/// Git's description of a directory.
pub async fn git_context(directory: PathBuf) -> GitContext {
    run_blocking(move || GitContext::of(&directory))
        .await
        .unwrap_or_default()
}

/// Whether the worktree with this root was created beneath `place` for a session.
fn is_of_session(root: &Path, place: &Path, id: &str) -> bool {
    let place = std::fs::canonicalize(place);
    root.ends_with(id) && place.is_ok_and(|place| root.starts_with(place))
}

impl Worktree {
    /// Creates a worktree for a session beneath `place`, from the current commit of `base`. Blocks.
    pub fn create(place: &Path, directory: &Path, base: &str, id: &str) -> Result<Self, WorktreeError> {
        let root = GitContext::of(directory).root;
        let root = PathBuf::from(root.ok_or_else(|| WorktreeError::NoRepository(directory.display().to_string()))?);
        if is_of_session(&root, place, id) {
            // The host was killed after it had moved the session, before that was recorded.
            return Self::made_before(root, base);
        }
        let commit = commit(&root, base)?;
        let name = root.file_name().unwrap_or("repository".as_ref());
        let path = place.join(name).join(id);
        std::fs::create_dir_all(path.parent().unwrap_or(place))?;
        let short: String = id.chars().take(8).collect();
        let named = |number: u32| match number {
            1 => format!("lodge/{short}"),
            _ => format!("lodge/{short}-{number}"),
        };
        let free = |branch: &String| self::commit(&root, branch).is_err();
        let branch = (1..100).map(named).find(free).unwrap_or_else(|| format!("lodge/{id}"));
        let target = path.to_string_lossy().into_owned();
        if path.exists() {
            // The host was killed before the worktree was recorded: nobody has worked in it.
            let _ = git(&root, &["worktree", "remove", &target]);
        }
        git(&root, &["worktree", "add", "--quiet", "-b", &branch, &target, &commit])?;
        Ok(Self {
            path,
            repository: root,
            branch,
            base: base.to_owned(),
        })
    }

    /// The existing worktree at this path.
    fn made_before(path: PathBuf, base: &str) -> Result<Self, WorktreeError> {
        let common = git(&path, &["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        let repository = Path::new(&common).parent().unwrap_or(Path::new(&common));
        Ok(Self {
            repository: repository.to_owned(),
            branch: git(&path, &["symbolic-ref", "--short", "HEAD"])?,
            base: base.to_owned(),
            path,
        })
    }

    /// The directory in it that corresponds to one in the repository.
    pub fn directory(&self, of: &Path) -> PathBuf {
        if of.starts_with(&self.path) {
            return of.to_owned();
        }
        let below = of.strip_prefix(&self.repository).unwrap_or(Path::new(""));
        let inside = self.path.join(below);
        if inside.is_dir() { inside } else { self.path.clone() }
    }

    /// Creates one for a session, in the home.
    async fn make(home: &Home, directory: &Path, base: &str, session: &str) -> Result<Self, HostError> {
        let (place, directory) = (home.path().join("worktrees"), directory.to_owned());
        let (base, session) = (base.to_owned(), session.to_owned());
        let made = tokio::task::spawn_blocking(move || Self::create(&place, &directory, &base, &session));
        let made = made.await.map_err(|error| HostError::Invalid(error.to_string()))?;
        made.map_err(|error| HostError::Invalid(format!("cannot create the worktree: {error}")))
    }

    /// The event that records it.
    fn event(&self) -> LodgeWorktree {
        LodgeWorktree {
            path: self.path.to_string_lossy().into_owned(),
            repository: self.repository.to_string_lossy().into_owned(),
            branch: self.branch.clone(),
            base: self.base.clone(),
        }
    }

    /// Removes it in the background, if this machine has it and it has no uncommitted work.
    pub(crate) fn remove_later(self) {
        tokio::task::spawn_blocking(move || {
            if self.path.exists()
                && let Err(error) = self.remove()
            {
                tracing::warn!(path = %self.path.display(), %error, "cannot remove a worktree");
            }
        });
    }

    /// Removes it, unless it has uncommitted work. A branch with commits that exist nowhere else stays. Git decides
    /// both: nothing is forced. Blocks.
    pub fn remove(&self) -> Result<(), WorktreeError> {
        let path = self.path.to_string_lossy();
        git(&self.repository, &["worktree", "remove", &path])?;
        if let Err(error) = git(&self.repository, &["branch", "--quiet", "-d", &self.branch]) {
            tracing::info!(branch = self.branch, %error, "cannot remove a branch");
        }
        Ok(())
    }
}

impl Session {
    /// Creates the session's worktree, if that is still to be done, and moves the session there.
    pub async fn make_worktree(&self) -> Result<Option<PathBuf>, HostError> {
        let Some(base) = self.state().worktree_wanted else {
            return Ok(None);
        };
        let host = self.host().ok_or(AgentError::Gone)?;
        let cwd = self.settings().cwd;
        let made = Worktree::make(host.home(), &cwd, &base, self.id()).await?;
        let directory = made.directory(&cwd);
        if let Err(error) = self.configure(Change::Cwd(directory.clone())).await {
            made.remove_later();
            return Err(error.into());
        }
        self.agent().record_beside(made.event())?.done().await?;
        Ok(Some(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/file"), "one").unwrap();
        for args in [
            &["init", "--quiet", "-b", "main"][..],
            &["config", "user.name", "T"],
            &["config", "user.email", "t@example.com"],
            &["add", "."],
            &["commit", "--quiet", "-m", "one"],
            &["branch", "feature/x"],
        ] {
            git(&root, args).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn a_session_gets_a_work_tree_of_its_own_and_loses_no_work_with_it() {
        let (dir, root) = repository();
        let place = dir.path().canonicalize().unwrap().join("worktrees");
        assert_eq!(branches_of(&root), ["main", "feature/x"]);
        let one = Worktree::create(&place, &root.join("sub"), "feature/x", "0123456789").unwrap();
        assert_eq!(
            (one.branch.as_str(), one.base.as_str()),
            ("lodge/01234567", "feature/x")
        );
        assert_eq!(one.directory(&root.join("sub")), one.path.join("sub"));
        assert_eq!(std::fs::read_to_string(one.path.join("sub/file")).unwrap(), "one");
        // Killed before the move was recorded: it is the same worktree.
        let again = Worktree::create(&place, &one.path.join("sub"), "feature/x", "0123456789").unwrap();
        assert_eq!(again, one);
        assert_eq!(again.directory(&one.path.join("sub")), one.path.join("sub"));
        let two = Worktree::create(&place, &root, "HEAD", "01234567-other").unwrap();
        assert_eq!(two.branch, "lodge/01234567-2");
        // Neither changed nor new files are removed.
        std::fs::write(one.path.join("sub/file"), "two").unwrap();
        assert!(one.remove().is_err());
        git(&one.path, &["checkout", "--quiet", "."]).unwrap();
        std::fs::write(one.path.join("new"), "new").unwrap();
        assert!(one.remove().is_err());
        assert!(one.path.join("new").exists());
        // Committed work stays on its branch.
        git(&one.path, &["add", "."]).unwrap();
        git(&one.path, &["commit", "--quiet", "-m", "two"]).unwrap();
        one.remove().unwrap();
        two.remove().unwrap();
        assert!(!one.path.exists() && !two.path.exists());
        let left = branches_of(&root);
        assert!(left.contains(&one.branch) && !left.contains(&two.branch), "{left:?}");
    }

    #[test]
    fn the_branch_at_hand_comes_first_and_then_the_one_that_others_begin_at() {
        let (_dir, root) = repository();
        for args in [
            &["branch", "aaa"] as &[&str],
            &["update-ref", "refs/remotes/origin/main", "HEAD"],
            &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"],
            &["checkout", "--quiet", "feature/x"],
        ] {
            git(&root, args).unwrap();
        }
        assert_eq!(branches_of(&root), ["feature/x", "main", "aaa", "origin/main"]);
        git(&root, &["checkout", "--quiet", "--detach"]).unwrap();
        assert_eq!(branches_of(&root)[0], "main");
    }

    #[test]
    fn what_is_no_branch_or_no_repository_is_refused() {
        let (dir, root) = repository();
        let create =
            |directory: &Path, base: &str| Worktree::create(dir.path(), directory, base, "0123456789").unwrap_err();
        for base in ["none", "--force", "-b", "main..feature/x", "", "main^{tree}"] {
            assert!(matches!(create(&root, base), WorktreeError::NoBranch(_)), "{base}");
        }
        assert!(matches!(create(dir.path(), "main"), WorktreeError::NoRepository(_)));
        assert_eq!(branches_of(dir.path()), Vec::<String>::new());
    }
}
