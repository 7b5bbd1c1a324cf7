//! Changes that sessions made to files: listing, comparing and undoing them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_events::UserMessage;
use lodge_tools::changes::{Changes, Delta, Git, GitChange, Hash, Restored, Scope};

use crate::{Against, HostError, Session, Trust};

/// Which changes are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Those of one turn (by its message's id or its event's), or of one restoration.
    Turn(String),
    /// Those of a turn and all turns after it, and of what was restored among them.
    Since(String),
    /// Those of the turns after the first up to the second.
    Between(String, String),
    /// All of the session.
    Session,
}

/// What git says about a worktree.
#[derive(Debug, Clone)]
pub struct WorkTree {
    /// The top of the worktree.
    pub root: PathBuf,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// The branch that this one left.
    pub base: Option<String>,
    /// Files that differ.
    pub changes: Vec<GitChange>,
}

impl WorkTree {
    /// What a directory has that git has not.
    pub async fn read(dir: PathBuf, against: Against) -> Result<Self, HostError> {
        with_git(dir, move |git, dir| {
            Ok(Self {
                root: git.root().to_owned(),
                branch: git.branch(),
                base: git.base().map(|(name, _)| name),
                changes: git.changes(&dir, against)?,
            })
        })
        .await
    }

    /// How each of these files differs, in unified form; nothing for one that is too long or no text.
    pub async fn patches(
        dir: PathBuf,
        changes: Vec<GitChange>,
        against: Against,
        ignore_space: bool,
    ) -> Result<Vec<Option<String>>, HostError> {
        with_git(dir, move |git, _| {
            let patch = |change: &GitChange| Ok(git.patch(change, against, ignore_space)?);
            changes.iter().map(patch).collect()
        })
        .await
    }

    /// Contents that git has.
    pub async fn content(dir: PathBuf, oid: String) -> Result<Vec<u8>, HostError> {
        with_git(dir, move |git, _| Ok(git.content(&oid)?)).await
    }

    /// Puts files as they are now into what git commits next, as far as they are git's; tells how many.
    pub async fn stage(dir: PathBuf, paths: Vec<PathBuf>) -> Result<usize, HostError> {
        with_git(dir, move |git, _| Ok(git.stage(&paths)?)).await
    }

    /// Commits everything in a directory but for what is below the home, as a person asked for. Hooks and programs of the
    /// repository run where it is trusted. Answers with the commit's line.
    pub async fn commit(dir: PathBuf, home: PathBuf, message: String) -> Result<String, HostError> {
        with_git(dir, move |git, dir| {
            let trusted = Trust::at(&home).covers(git.root());
            let except = lodge_tools::paths::real(&home).unwrap_or(home);
            if trusted {
                return Ok(git.with_programs().commit(&dir, &except, &message)?);
            }
            let said = git.commit(&dir, &except, &message)?;
            Ok(match has_hooks(git.root()) {
                true => format!(
                    "{said} (without its git hooks, because {} is not trusted)",
                    git.root().display()
                ),
                false => said,
            })
        })
        .await
    }
}

/// Whether a commit would run something that the repository brings.
fn has_hooks(root: &Path) -> bool {
    let hooks = std::fs::read_dir(root.join(".git/hooks"))
        .into_iter()
        .flatten()
        .flatten();
    hooks.into_iter().any(|hook| {
        let path = hook.path();
        path.extension().is_none_or(|extension| extension != "sample")
    })
}

pub(crate) async fn with_git<T: Send + 'static>(
    dir: PathBuf,
    run: impl FnOnce(Git, PathBuf) -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let done = tokio::task::spawn_blocking(move || {
        let dir = lodge_tools::paths::real(&dir).unwrap_or(dir);
        let git = Git::around(&dir).ok_or(lodge_tools::changes::ChangesError::NoGit)?;
        run(git, dir)
    });
    done.await.map_err(|_| HostError::Invalid("Cannot run git.".into()))?
}

impl Session {
    /// The files that changed, as they were before and after; sorted by path. Contents are read with
    /// [`Session::file_content`].
    pub async fn changes_of(&self, span: Span) -> Result<Vec<Delta>, HostError> {
        let scope = self.scope(span).await?;
        self.with_changes(move |changes| Ok(changes.of(&scope)?)).await
    }

    /// Puts files back as they were before the changes of a span: all of them, or those in `only`. Files that are not as
    /// these changes left them are left alone and told as conflicts, unless `force`. The restoration is recorded like a turn:
    /// restoring `Span::Turn(id)` of the report undoes it. Refused while a turn runs.
    pub async fn restore(
        &self,
        span: Span,
        only: Option<BTreeSet<PathBuf>>,
        force: bool,
    ) -> Result<Restored, HostError> {
        if self.is_busy() {
            return Err(lodge_agent::AgentError::Busy.into());
        }
        self.finish_interrupted().await?;
        let scope = self.scope(span).await?;
        self.with_changes(move |changes| Ok(changes.restore(&scope, only.as_ref(), force)?))
            .await
    }

    /// Lines added and removed by each change, where there are lines.
    pub async fn lines_of(&self, deltas: Vec<Delta>) -> Result<Vec<(Delta, Option<(u64, u64)>)>, HostError> {
        self.with_changes(move |changes| {
            let count = |delta: Delta| {
                let lines = changes.lines(&delta.before, &delta.after);
                (delta, lines)
            };
            Ok(deltas.into_iter().map(count).collect())
        })
        .await
    }

    /// Kept contents of a changed file.
    pub async fn file_content(&self, hash: Hash) -> Result<Vec<u8>, HostError> {
        self.with_changes(move |changes| {
            let missing = |_| HostError::Invalid(format!("no contents are kept under {hash}"));
            changes.content(&hash).map_err(missing)
        })
        .await
    }

    /// What was in a file before and after a change that comes to this difference, if it is kept.
    pub async fn sides_of(&self, path: PathBuf, difference: String) -> Result<Option<(Vec<u8>, Vec<u8>)>, HostError> {
        self.with_changes(move |changes| Ok(changes.sides_of(&path, &difference).unwrap_or_default()))
            .await
    }

    /// Makes files what they are in git's last commit: these, or all of the working directory. Can be restored.
    pub async fn discard(&self, only: Option<BTreeSet<PathBuf>>) -> Result<Restored, HostError> {
        if self.is_busy() {
            return Err(lodge_agent::AgentError::Busy.into());
        }
        let changes = self.agent().changes().clone();
        with_git(self.settings().cwd, move |git, cwd| {
            let mut differing = git.changes(&cwd, Against::Head)?;
            differing.retain(|change| only.as_ref().is_none_or(|only| only.contains(&change.path)));
            Ok(changes.discard(&git, &differing)?)
        })
        .await
    }

    pub(crate) async fn with_changes<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Changes) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let changes: Arc<Changes> = self.agent().changes().clone();
        let done = tokio::task::spawn_blocking(move || run(&changes)).await;
        done.map_err(|_| HostError::Invalid("The changes could not be read.".into()))?
    }

    /// The turns that a span means, in the order of the log.
    pub(crate) async fn scope(&self, span: Span) -> Result<Scope, HostError> {
        let (first, last) = match span {
            Span::Session => return Ok(Scope::Session),
            Span::Turn(id) => return Ok(Scope::Of(id)),
            Span::Since(first) => (first, None),
            Span::Between(first, last) => (first, Some(last)),
        };
        let reader = self.history()?;
        let turns = tokio::task::spawn_blocking(move || {
            let mut turns: Vec<[String; 2]> = Vec::new();
            for event in reader.events() {
                let event = event?;
                if let Some(message) = event.get::<UserMessage>() {
                    let id = event.id().to_string();
                    turns.push([message.message_id.clone().unwrap_or_else(|| id.clone()), id]);
                }
            }
            Ok::<_, HostError>(turns)
        });
        let turns = turns
            .await
            .map_err(|_| HostError::Invalid("The session's log could not be read.".into()))??;
        let find = |wanted: &String| {
            let at = turns.iter().position(|turn| turn.contains(wanted));
            at.ok_or_else(|| HostError::Invalid(format!("There is no turn {wanted}.")))
        };
        let (from, to) = match &last {
            Some(last) => (find(&first)? + 1, find(last)? + 1),
            None => (find(&first)?, usize::MAX),
        };
        let meant = turns.into_iter().take(to).skip(from);
        Ok(Scope::Turns(meant.map(|[id, _]| id).collect()))
    }
}
