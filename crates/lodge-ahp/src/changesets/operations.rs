//! What can be done about changes.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use ahp_types::{
    StateAction,
    actions::ChangesetOperationStatusChangedAction,
    commands::ChangesetOperationTarget,
    common::StringOrMarkdown,
    state::{ChangesetOperation, ChangesetOperationScope, ChangesetOperationStatus, ChangesetState, ChangesetStatus},
};
use lodge_host::{HostError, Span, WorkTree, count_files, describe_restored};

use super::Kind;
use crate::{
    face::Face,
    projection::error_info,
    rpc::{RpcError, code},
    state::Service,
    uri,
};

const COMMIT: &str = "commit";
const DISCARD: &str = "discard-changes";
const REVERT: &str = "revert";
const REVERT_ALL: &str = "revert-all";
const STAGE: &str = "stage";
/// What a commit says that is made in a session without a title: git wants something.
const UNNAMED: &str = "Work in progress";

/// What is offered for a kind of changes. Without changes there is nothing to do.
pub(super) fn offered(kind: &Kind, has_files: bool, has_git: bool) -> Vec<ChangesetOperation> {
    use ChangesetOperationScope::{Changeset, Resource};
    let operation =
        |id: &str, label: &str, description: &str, scopes: &[ChangesetOperationScope], icon: &str| ChangesetOperation {
            id: id.to_owned(),
            label: label.to_owned(),
            description: Some(description.to_owned()),
            scopes: scopes.to_vec(),
            confirmation: None,
            icon: Some(icon.to_owned()),
            group: None,
            status: ChangesetOperationStatus::Idle,
            error: None,
        };
    let asked = |operation: ChangesetOperation, question: &str| ChangesetOperation {
        confirmation: Some(StringOrMarkdown::Plain(question.to_owned())),
        ..operation
    };
    if !has_files {
        return Vec::new();
    }
    match kind {
        Kind::Branch | Kind::Compare(..) => Vec::new(),
        Kind::Uncommitted => vec![
            operation(
                COMMIT,
                "Commit",
                "Commit all of these changes",
                &[Changeset],
                "git-commit",
            ),
            asked(
                operation(DISCARD, "Discard Changes", "Restore the file", &[Resource], "discard"),
                "This discards all changes to the file, whoever made them.",
            ),
        ],
        Kind::Session | Kind::Turn(_) => {
            let both = [Changeset, Resource];
            let mut operations = vec![
                operation(
                    REVERT,
                    "Undo Changes",
                    "Restore the files, except those changed since",
                    &both,
                    "discard",
                ),
                asked(
                    operation(
                        REVERT_ALL,
                        "Undo Changes and Later Edits",
                        "Restore the files, including those changed since",
                        &both,
                        "trash",
                    ),
                    "This also undoes later changes to these files.",
                ),
            ];
            if has_git {
                operations.push(operation(
                    STAGE,
                    "Stage Changes",
                    "Add these files to the next commit",
                    &both,
                    "add",
                ));
            }
            operations
        }
    }
}

/// The files that an operation is for: `None` means all.
fn target(
    state: &ChangesetState,
    operation: &ChangesetOperation,
    target: Option<&ChangesetOperationTarget>,
) -> Result<Option<PathBuf>, RpcError> {
    let (scope, resource) = match target {
        None => (ChangesetOperationScope::Changeset, None),
        Some(ChangesetOperationTarget::Resource { resource, .. }) => {
            (ChangesetOperationScope::Resource, Some(resource))
        }
        Some(ChangesetOperationTarget::Range { .. }) => (ChangesetOperationScope::Range, None),
        Some(_) => return Err(RpcError::params("the target is invalid")),
    };
    if !operation.scopes.contains(&scope) {
        return Err(RpcError::params(format!(
            "{} cannot be done to this target",
            operation.id
        )));
    }
    let Some(resource) = resource else { return Ok(None) };
    let sides = |file: &ahp_types::state::ChangesetFile| {
        let sides = [&file.edit.before, &file.edit.after];
        file.id == *resource || sides.into_iter().flatten().any(|side| side.uri == *resource)
    };
    let missing = || RpcError::new(code::NOT_FOUND, format!("{resource} is not among the changes"));
    let file = state.files.iter().find(|file| sides(file)).ok_or_else(missing)?;
    uri::path(&file.id).map(Some).ok_or_else(missing)
}

/// Does an operation. Answers with what there is to say about it.
pub(crate) async fn invoke(
    face: &Arc<Face>,
    channel: &str,
    id: &str,
    wanted: Option<&ChangesetOperationTarget>,
) -> Result<StringOrMarkdown, RpcError> {
    let no_changes = || RpcError::new(code::NOT_FOUND, format!("there are no changes at {channel}"));
    face.open(channel).await.map_err(|_| no_changes())?;
    let (session, kind) = Kind::parse(channel).ok_or_else(no_changes)?;
    first_look(face, channel).await;
    let only = {
        let mut inner = face.inner.lock();
        let Some(Service::Changeset(state)) = inner.core.service(channel) else {
            return Err(no_changes());
        };
        let known = state.operations.iter().flatten().find(|operation| operation.id == id);
        let operation = known.ok_or_else(|| RpcError::params(format!("there is no operation {id} here")))?;
        if operation.status == ChangesetOperationStatus::Running {
            return Err(RpcError::new(code::CONFLICT, format!("{id} is already in progress")));
        }
        let only = target(state, operation, wanted)?;
        let running = status(id, ChangesetOperationStatus::Running, None);
        inner.core.publish(channel, &running, None);
        only
    };
    let done = run(face, session, kind, id, only).await;
    let mut inner = face.inner.lock();
    let ended = match &done {
        Ok(_) => status(id, ChangesetOperationStatus::Idle, None),
        Err(error) => status(id, ChangesetOperationStatus::Error, Some(error.to_string())),
    };
    inner.core.publish(channel, &ended, None);
    inner.followers.wake(session);
    done.map_err(|error| match error {
        HostError::Agent(lodge_host::AgentError::Busy) => RpcError::new(code::TURN_IN_PROGRESS, error.to_string()),
        HostError::Git(error) => RpcError::new(code::INTERNAL_ERROR, error.to_string()),
        other => crate::methods::host_error(other),
    })
}

/// Waits until changes were looked at once: what can be done about them is not known before. A look ends, well or not.
async fn first_look(face: &Face, channel: &str) {
    loop {
        match face.inner.lock().core.service(channel) {
            Some(Service::Changeset(state)) if state.status == ChangesetStatus::Computing => {}
            _ => return,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn status(id: &str, status: ChangesetOperationStatus, error: Option<String>) -> StateAction {
    StateAction::ChangesetOperationStatusChanged(ChangesetOperationStatusChangedAction {
        operation_id: id.to_owned(),
        status,
        error: error.map(|message| error_info("operation", message)),
    })
}

async fn run(
    face: &Arc<Face>,
    session: &str,
    kind: Kind,
    id: &str,
    only: Option<PathBuf>,
) -> Result<StringOrMarkdown, HostError> {
    let gone = || HostError::NotFound(session.to_owned());
    let (source, title) = {
        let inner = face.inner.lock();
        let title = inner.core.sessions.get(session).map(|entry| entry.state.title.clone());
        (inner.source(session).ok_or_else(gone)?, title.unwrap_or_default())
    };
    let cwd = source.cwd.clone().ok_or_else(gone)?;
    match id {
        COMMIT => {
            let home = face.host.home().path().to_owned();
            let named = !title.trim().is_empty();
            let title = if named { title } else { UNNAMED.to_owned() };
            let said = WorkTree::commit(cwd, home, title.clone()).await?;
            return Ok(StringOrMarkdown::Markdown {
                markdown: format!("Committed changes with message: {title}\n\n`{said}`"),
            });
        }
        STAGE => {
            let files = face.changed_files(session, &kind).await?;
            let paths = files.iter().filter_map(|file| uri::path(&file.id));
            let paths: Vec<PathBuf> = paths
                .filter(|path| only.as_ref().is_none_or(|only| only == path))
                .collect();
            let count = WorkTree::stage(cwd, paths).await?;
            return Ok(StringOrMarkdown::Plain(format!("Staged {}.", count_files(count))));
        }
        _ => {}
    }
    let span = match &kind {
        Kind::Turn(turn) => Span::Turn(turn.clone()),
        _ => Span::Session,
    };
    let report = if id == DISCARD {
        // Whoever has not begun has nobody who could keep what is thrown away.
        let session = face.materialised(session).await?;
        session.discard(only.map(|path| BTreeSet::from([path]))).await?
    } else {
        face.host
            .restore_files(&source.ids, &span, only, id == REVERT_ALL)
            .await?
    };
    Ok(StringOrMarkdown::Plain(describe_restored(&report)))
}
