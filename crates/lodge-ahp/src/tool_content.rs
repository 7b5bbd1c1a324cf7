//! What tool calls said or did that is too much for the state: read at addresses beneath the session's, from its log and from
//! the contents that it keeps of changed files.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use lodge_host::{Session, tool_calls::DiffSide};

use crate::{
    face::Face,
    projection::{ContentKind, Proposed, Side, difference_in, said_in, side_named},
};

pub(crate) struct ToolContent {
    pub(crate) bytes: Vec<u8>,
    /// Its kind, where it is told.
    pub(crate) kind: Option<String>,
}

impl ToolContent {
    fn file(bytes: Vec<u8>) -> Self {
        Self { bytes, kind: None }
    }
}

/// The content of this name in a session.
pub(crate) async fn read(face: &Arc<Face>, session: &str, name: &str) -> Option<ToolContent> {
    face.open_born(session).await.ok()?;
    if let Some(Side { call, side, at: 0 }) = side_named(name)
        && let Some(found) = proposed(face, session, call, side).await
    {
        return Some(found);
    }
    let ids: Vec<String> = {
        let inner = face.inner.lock();
        let conversations = inner.conversations.values().filter(|talk| *talk.born == *session);
        conversations.map(|talk| talk.host_id.clone()).collect()
    };
    for id in ids {
        let Ok(session) = face.host.open_session(&id).await else {
            continue;
        };
        let found = match side_named(name) {
            Some(side) => edited(&session, side).await,
            None => said(&session, name).await,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// What a call would make of a file that a person is asked about.
async fn proposed(face: &Face, session: &str, call: &str, side: DiffSide) -> Option<ToolContent> {
    let proposed = {
        let inner = face.inner.lock();
        let mut conversations = inner.conversations.values().filter(|talk| *talk.born == *session);
        conversations.find_map(|talk| talk.projector().proposed(call).cloned())?
    };
    let Proposed { diff, new } = proposed;
    match (side, diff.makes_the_file()) {
        (DiffSide::Before, true) => return None,
        // All of it is in the question.
        (DiffSide::After, true) => return Some(ToolContent::file(new.into_bytes())),
        (_, false) => {}
    }
    let limit = face.config.limits.resource_bytes;
    let whole = face.shared_files().whole(diff.path.clone(), limit).await.ok();
    Some(ToolContent::file(match (side, whole) {
        (DiffSide::Before, Some(old)) => old,
        (DiffSide::After, Some(_)) => new.into_bytes(),
        // A file that clients may not read: what the person is asked about, and no more.
        (side, None) => diff.excerpt(side).into_bytes(),
    }))
}

/// What a call made of a file. What is not kept any more is shown as far as the log tells.
async fn edited(session: &Session, Side { call, side, at }: Side<'_>) -> Option<ToolContent> {
    let call = call.to_owned();
    let diff = session.find_last(move |event| difference_in(event, &call, at)).await?;
    let sides = session.sides_of(diff.path.clone(), diff.text.clone()).await.ok()?;
    Some(ToolContent::file(match (sides, side) {
        (Some((before, _)), DiffSide::Before) => before,
        (Some((_, after)), DiffSide::After) => after,
        (None, side) => diff.excerpt(side).into_bytes(),
    }))
}

/// One part of what a call said, or all of it.
async fn said(session: &Session, name: &str) -> Option<ToolContent> {
    let (call, part) = name.rsplit_once('-')?;
    let (call, part) = (call.to_owned(), part.to_owned());
    let (said, kind) = session.find_last(move |event| said_in(event, &call, &part)).await?;
    let bytes = match said {
        ContentKind::Text(text) => text.into_bytes(),
        ContentKind::Bytes(data) => STANDARD.decode(data).ok()?,
    };
    Some(ToolContent {
        bytes,
        kind: Some(kind),
    })
}
