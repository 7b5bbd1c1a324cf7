//! The files of a changeset.

use std::path::{Path, PathBuf};

use ahp_types::state::{ChangesetFile, ContentRef, FileEdit, FileEditDiffStats, FileEditSide};
use lodge_host::{Against, Delta, GitChange, HostError, Span, WorkTree};

use super::{Kind, content::Content};
use crate::{
    face::{Face, Inner},
    uri,
};

/// The host's sessions whose turns a session shows, the default chat's first; and where it works. The host may not have
/// them yet.
pub(super) struct Source {
    pub(super) ids: Vec<String>,
    /// The one of the default chat.
    pub(super) first: String,
    pub(super) cwd: Option<PathBuf>,
}

impl Inner {
    pub(super) fn source(&self, session: &str) -> Option<Source> {
        let entry = self.core.sessions.get(session)?;
        let first = self.talks.get(&entry.default_chat)?;
        let others = self.talks.iter().filter(|(chat, _)| **chat != entry.default_chat);
        let others = others.map(|(_, talk)| talk).filter(|talk| &*talk.session == session);
        let all = std::iter::once(first).chain(others);
        Some(Source {
            ids: all.map(|talk| talk.host_id.clone()).collect(),
            first: first.host_id.clone(),
            cwd: entry
                .state
                .working_directories
                .iter()
                .flatten()
                .find_map(|dir| uri::path(dir)),
        })
    }

    /// The host's session that a turn is in.
    fn session_of_turn(&self, session: &str, turn: &str) -> Option<String> {
        let talks = self.talks.iter().filter(|(_, talk)| &*talk.session == session);
        let mut with_stores = talks.filter_map(|(chat, talk)| Some((self.core.chats.get(chat)?.store(), talk)));
        let found = with_stores.find(|(store, _)| {
            let active = store.head().active_turn.as_ref();
            store.position(turn).is_some() || active.is_some_and(|active| active.id == turn)
        });
        found.map(|(_, talk)| talk.host_id.clone())
    }
}

impl Face {
    /// The files that a changeset shows now, sorted by path.
    pub(super) async fn changed_files(&self, session: &str, kind: &Kind) -> Result<Vec<ChangesetFile>, HostError> {
        let gone = || HostError::NotFound(session.to_owned());
        let source = self.inner.lock().source(session).ok_or_else(gone)?;
        let no_turn = |turn: &str| HostError::Invalid(format!("There is no turn {turn}."));
        let mut files = match kind {
            Kind::Branch | Kind::Uncommitted => {
                let cwd = source.cwd.clone().ok_or_else(gone)?;
                let against = match kind {
                    Kind::Branch => Against::Base,
                    _ => Against::Head,
                };
                let tree = WorkTree::read(cwd, against).await?;
                let private = self.private();
                let changes = tree.changes.iter().filter(|change| !private.covers(&change.path));
                changes.map(|change| of_git(&source.first, change)).collect()
            }
            Kind::Session => self.edits(&source.ids, &Span::Session).await?,
            Kind::Turn(turn) => {
                let id = self.inner.lock().session_of_turn(session, turn);
                let id = id.ok_or_else(|| no_turn(turn))?;
                self.edits(&[id], &Span::Turn(turn.clone())).await?
            }
            Kind::Compare(first, last) => {
                let ids = [first, last].map(|turn| self.inner.lock().session_of_turn(session, turn));
                let [Some(id), Some(other)] = ids else {
                    return Err(no_turn(first));
                };
                if id != other {
                    return Err(HostError::Invalid("The turns are of different chats.".into()));
                }
                self.edits(&[id], &Span::Between(first.clone(), last.clone())).await?
            }
        };
        if kind.is_reviewed() {
            for file in &mut files {
                file.reviewed = Some(false);
            }
        }
        Ok(files)
    }

    /// What turns of these sessions did. A file that several changed is shown once.
    pub(super) async fn edits(&self, ids: &[String], span: &Span) -> Result<Vec<ChangesetFile>, HostError> {
        let mut files: Vec<ChangesetFile> = Vec::new();
        for id in ids {
            let session = match self.open_session(id).await {
                Ok(session) => session,
                Err(HostError::NotFound(_)) => continue,
                Err(error) => return Err(error),
            };
            let deltas = session.changes_of(span.clone()).await?;
            for (delta, lines) in session.lines_of(deltas).await? {
                let file = of_delta(id, &delta, lines);
                match files.iter_mut().find(|known| known.id == file.id) {
                    Some(known) => known.edit.after = file.edit.after,
                    None => files.push(file),
                }
            }
        }
        files.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(files)
    }
}

fn file(
    path: &Path,
    before: Option<ContentRef>,
    after: Option<ContentRef>,
    lines: Option<(u64, u64)>,
) -> ChangesetFile {
    let uri = uri::file(path);
    let side = |content: ContentRef| FileEditSide {
        uri: uri.clone(),
        content,
    };
    ChangesetFile {
        id: uri.clone(),
        edit: FileEdit {
            before: before.map(side),
            after: after.map(side),
            diff: lines.map(|(added, removed)| FileEditDiffStats {
                added: i64::try_from(added).ok(),
                removed: i64::try_from(removed).ok(),
            }),
        },
        reviewed: None,
        meta: None,
    }
}

fn of_delta(session: &str, delta: &Delta, lines: Option<(u64, u64)>) -> ChangesetFile {
    let side = |entry: &lodge_host::Entry| {
        let size = match entry {
            lodge_host::Entry::File { size, .. } => i64::try_from(*size).ok(),
            _ => None,
        };
        let content = Content::of(entry)?;
        Some(ContentRef {
            uri: content.uri(session, &delta.path),
            size_hint: size,
            content_type: None,
            nonce: match content {
                Content::Kept(hash) => Some(hash.to_string()),
                _ => None,
            },
        })
    };
    file(&delta.path, side(&delta.before), side(&delta.after), lines)
}

fn of_git(session: &str, change: &GitChange) -> ChangesetFile {
    let before = change.before.as_ref().map(|oid| ContentRef {
        uri: Content::Git(oid).uri(session, &change.path),
        size_hint: None,
        content_type: None,
        nonce: Some(oid.clone()),
    });
    // What is there now is in the file itself. Its address is not the file's: a browser's page can open no `file:`.
    let now = change.exists.then(|| {
        let (size, stamp) = lodge_files::stamp(&change.path).unzip();
        ContentRef {
            uri: Content::Now(stamp.clone().unwrap_or_default()).uri(session, &change.path),
            size_hint: size.and_then(|size| i64::try_from(size).ok()),
            content_type: None,
            nonce: stamp,
        }
    });
    file(&change.path, before, now, change.lines)
}
