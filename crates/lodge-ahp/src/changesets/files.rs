//! The files of a changeset.

use std::path::PathBuf;

use ahp_types::state::{ChangesetFile, FileEdit, FileEditDiffStats, FileEditSide};
use lodge_host::{Against, ChangedFile, FileSide, HostError, Span, WorkTree};

use super::{Kind, content::reference};
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
        let first = self.conversations.get(&entry.default_chat)?;
        let others = self
            .conversations
            .iter()
            .filter(|(chat, _)| **chat != entry.default_chat);
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
        let conversations = self.conversations.iter().filter(|(_, talk)| &*talk.session == session);
        let mut with_stores = conversations.filter_map(|(chat, talk)| Some((self.core.chats.get(chat)?.store(), talk)));
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
        let of_turn = |turn: &str| {
            let id = self.inner.lock().session_of_turn(session, turn);
            id.ok_or_else(|| no_turn(turn))
        };
        let (ids, span) = match kind {
            Kind::Branch | Kind::Uncommitted => {
                let cwd = source.cwd.clone().ok_or_else(gone)?;
                let against = match kind {
                    Kind::Branch => Against::Base,
                    _ => Against::Head,
                };
                let files = WorkTree::changed_files(cwd, against, source.first, self.private()).await?;
                return Ok(shown(files, kind));
            }
            Kind::Session => (source.ids, Span::Session),
            Kind::Turn(turn) => (vec![of_turn(turn)?], Span::Turn(turn.clone())),
            Kind::Compare(first, last) => {
                let ids = [of_turn(first)?, of_turn(last)?];
                if ids[0] != ids[1] {
                    return Err(HostError::Invalid("The turns are of different chats.".into()));
                }
                (ids[..1].to_vec(), Span::Between(first.clone(), last.clone()))
            }
        };
        Ok(shown(self.host.changed_files(&ids, &span).await?, kind))
    }
}

/// Changed files as clients see them.
fn shown(files: Vec<ChangedFile>, kind: &Kind) -> Vec<ChangesetFile> {
    let file = |file: ChangedFile| ChangesetFile {
        id: uri::file(&file.path),
        reviewed: kind.is_reviewed().then_some(false),
        meta: None,
        edit: edit(file),
    };
    files.into_iter().map(file).collect()
}

/// A change of a file.
pub(super) fn edit(file: ChangedFile) -> FileEdit {
    let side = |side: FileSide| FileEditSide {
        uri: uri::file(&file.path),
        content: reference(&side, &file.path),
    };
    FileEdit {
        before: file.before.map(side),
        after: file.after.map(side),
        diff: file.lines.map(|(added, removed)| FileEditDiffStats {
            added: i64::try_from(added).ok(),
            removed: i64::try_from(removed).ok(),
        }),
    }
}
