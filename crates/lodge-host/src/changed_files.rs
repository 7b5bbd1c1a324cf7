//! Files that sessions changed, or that differ from git: both sides of them, and restoring them.

use std::{collections::BTreeSet, path::PathBuf};

use lodge_files::Private;
use lodge_tools::changes::{Against, Delta, Entry, Hash, Restored};

use crate::{ChangeCounts, Host, HostError, Session, Span, WorkTree, changes::with_git};

/// Of files that were left alone so many are named.
const NAMED: usize = 20;

/// A file that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// The file.
    pub path: PathBuf,
    /// What it was, if there was one.
    pub before: Option<FileSide>,
    /// What it is, if there is one.
    pub after: Option<FileSide>,
    /// Lines added and removed, where there are lines.
    pub lines: Option<(u64, u64)>,
}

/// One side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSide {
    /// The session that can tell the contents.
    pub session: String,
    /// Where these are.
    pub version: FileVersion,
    /// How many bytes they have.
    pub size: Option<u64>,
}

/// Where contents of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileVersion {
    /// Kept with the session.
    Kept(Hash),
    /// In git's store.
    Git(String),
    /// In the file itself. The stamp tells one state of the file from another.
    Current(String),
    /// Nowhere: it is a link to this path.
    Link(PathBuf),
    /// Nowhere: they were too large to be kept.
    Lost,
}

impl FileSide {
    fn of(session: &str, entry: Entry) -> Option<Self> {
        let (version, size) = match entry {
            Entry::File { content, size, .. } => (content.map_or(FileVersion::Lost, FileVersion::Kept), Some(size)),
            Entry::Link { target } => (FileVersion::Link(target), None),
            _ => return None,
        };
        Some(Self {
            session: session.to_owned(),
            version,
            size,
        })
    }
}

impl ChangeCounts {
    /// Those of changed files.
    pub fn of(files: &[ChangedFile]) -> Self {
        let sum = |count: fn((u64, u64)) -> u64| {
            let lines = files.iter().filter_map(|file| file.lines).map(count).sum::<u64>();
            i64::try_from(lines).unwrap_or(i64::MAX)
        };
        Self {
            added: sum(|(added, _)| added),
            removed: sum(|(_, removed)| removed),
            files: i64::try_from(files.len()).unwrap_or(i64::MAX),
        }
    }
}

impl Host {
    /// What turns of these sessions did, sorted by path. A file that several changed is told once, with the lines of all of them; one
    /// that a session made and a later one removed is not. A session that does not exist changed nothing.
    pub async fn changed_files(&self, sessions: &[String], span: &Span) -> Result<Vec<ChangedFile>, HostError> {
        let mut files: Vec<ChangedFile> = Vec::new();
        for session in self.existing(sessions).await? {
            let deltas = session.changes_of(span.clone()).await?;
            for (delta, lines) in session.lines_of(deltas).await? {
                let Delta {
                    path, before, after, ..
                } = delta;
                let after = FileSide::of(session.id(), after);
                match files.iter_mut().find(|known| known.path == path) {
                    Some(known) => {
                        known.after = after;
                        let both = known.lines.zip(lines);
                        known.lines = both.map(|(one, other)| (one.0 + other.0, one.1 + other.1));
                    }
                    None => files.push(ChangedFile {
                        before: FileSide::of(session.id(), before),
                        path,
                        after,
                        lines,
                    }),
                }
            }
        }
        files.retain(|file| file.before.is_some() || file.after.is_some());
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    /// Puts files back as they were before the turns of these sessions: what was done last is undone first.
    pub async fn restore_files(
        &self,
        sessions: &[String],
        span: &Span,
        only: Option<PathBuf>,
        force: bool,
    ) -> Result<Restored, HostError> {
        let only = only.map(|path| BTreeSet::from([path]));
        let mut report = Restored::default();
        for session in self.existing(sessions).await?.iter().rev() {
            let more = session.restore(span.clone(), only.clone(), force).await?;
            report.restored.extend(more.restored);
            report.already.extend(more.already);
            report.skipped.extend(more.skipped);
        }
        Ok(report)
    }

    async fn existing(&self, ids: &[String]) -> Result<Vec<Session>, HostError> {
        let mut sessions = Vec::new();
        for id in ids {
            match self.open_session(id).await {
                Ok(session) => sessions.push(session),
                Err(HostError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sessions)
    }
}

impl WorkTree {
    /// The files of a directory that differ from git, but for the host's own. A session that works there can tell their contents.
    pub async fn changed_files(
        directory: PathBuf,
        against: Against,
        session: String,
        private: Private,
    ) -> Result<Vec<ChangedFile>, HostError> {
        with_git(directory, move |git, directory| {
            let changes = git.changes(&directory, against)?.into_iter();
            let changes = changes.filter(|change| !private.covers(&change.path));
            let side = |version: FileVersion, size: Option<u64>| FileSide {
                session: session.clone(),
                version,
                size,
            };
            let file = |change: lodge_tools::changes::GitChange| {
                let current = || {
                    let (size, stamp) = lodge_files::stamp(&change.path).unzip();
                    side(FileVersion::Current(stamp.unwrap_or_default()), size)
                };
                ChangedFile {
                    before: change.before.clone().map(|oid| side(FileVersion::Git(oid), None)),
                    after: change.exists.then(current),
                    lines: change.lines,
                    path: change.path,
                }
            };
            Ok(changes.map(file).collect())
        })
        .await
    }
}

/// So many files, for people.
pub fn count_files(count: usize) -> String {
    match count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}

/// What became of a restoration, for people.
pub fn describe_restored(report: &Restored) -> String {
    let mut text = format!("Restored {}.", count_files(report.restored.len()));
    if report.skipped.is_empty() {
        return text;
    }
    text.push_str(" Left alone:");
    for (path, skip) in report.skipped.iter().take(NAMED) {
        text.push_str(&format!("\n- {}: {skip}", path.display()));
    }
    if report.skipped.len() > NAMED {
        text.push_str(&format!("\n- and {} more", report.skipped.len() - NAMED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_what_was_left_alone() {
        let mut report = Restored {
            restored: vec!["/a".into()],
            ..Restored::default()
        };
        assert_eq!(describe_restored(&report), "Restored 1 file.");
        report.restored.push("/b".into());
        report.skipped.push(("/c".into(), lodge_tools::changes::Skip::Changed));
        let told = "Restored 2 files. Left alone:\n- /c: it was changed since";
        assert_eq!(describe_restored(&report), told);
    }
}
