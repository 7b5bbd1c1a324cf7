//! Annotations: remarks that persons put on files, kept with a session, seen by everybody who works in it, and given to the
//! agent with a message that refers to them.

use ahp_types::{
    StateAction,
    common::StringOrMarkdown,
    state::{
        Annotation, AnnotationEntry, AnnotationOrigin, AnnotationsState, AnnotationsSummary,
        MessageAnnotationsAttachment, TextPosition, TextRange,
    },
};
use lodge_host::{AnnotationError, HostError, quote_annotations};

use crate::{
    actions::Write,
    face::{Face, Inner},
    state::{Core, Service, Uri},
};

/// Why an action on annotations is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnnotationRefusal {
    #[error("there is no annotation {0:?}")]
    NoAnnotation(String),
    #[error("there is no entry {0:?}")]
    NoEntry(String),
    #[error("say what changes about the annotation")]
    NoChange,
    #[error("this is the annotation's last entry: remove the annotation instead")]
    LastEntry,
    #[error("this is not an action for annotations")]
    NotForAnnotations,
    #[error(transparent)]
    Host(#[from] AnnotationError),
}

/// The channel of a session's annotations.
pub(crate) fn channel(session: &str) -> String {
    format!("{session}/annotations")
}

/// The session that such a channel belongs to.
pub(crate) fn session_of(channel: &str) -> Option<&str> {
    channel
        .strip_suffix("/annotations")
        .filter(|session| !session.is_empty())
}

/// What lists say of a session with these annotations.
pub(crate) fn counted(session: &str, kept: &[lodge_host::Annotation]) -> Option<AnnotationsSummary> {
    (!kept.is_empty()).then(|| AnnotationsSummary {
        resource: channel(session),
        annotation_count: kept.len() as i64,
        entry_count: kept.iter().map(|one| one.entries.len() as i64).sum(),
    })
}

/// An annotation as the host keeps it.
fn kept(one: &Annotation) -> lodge_host::Annotation {
    let place = |position: &TextPosition| (position.line, position.character);
    let entries = one.entries.iter().map(|entry| lodge_host::AnnotationEntry {
        id: entry.id.clone(),
        text: text(&entry.text).to_owned(),
        markdown: matches!(entry.text, StringOrMarkdown::Markdown { .. }),
        notes: entry.meta.clone(),
    });
    lodge_host::Annotation {
        id: one.id.clone(),
        session: one.origin.session.clone(),
        chat: one.origin.chat.clone(),
        turn: one.origin.turn_id.clone(),
        file: one.resource.clone(),
        range: one.range.as_ref().map(|range| [place(&range.start), place(&range.end)]),
        resolved: one.resolved,
        entries: entries.collect(),
        notes: one.meta.clone(),
    }
}

/// An annotation that the host keeps, as clients see it.
fn shown(one: lodge_host::Annotation) -> Annotation {
    let place = |(line, character)| TextPosition { line, character };
    let entries = one.entries.into_iter().map(|entry| AnnotationEntry {
        id: entry.id,
        text: match entry.markdown {
            true => StringOrMarkdown::Markdown { markdown: entry.text },
            false => StringOrMarkdown::Plain(entry.text),
        },
        meta: entry.notes,
    });
    Annotation {
        id: one.id,
        origin: AnnotationOrigin {
            session: one.session,
            chat: one.chat,
            turn_id: one.turn,
        },
        resource: one.file,
        range: one.range.map(|[start, end]| TextRange {
            start: place(start),
            end: place(end),
        }),
        resolved: one.resolved,
        entries: entries.collect(),
        meta: one.notes,
    }
}

fn summary(session: &str, state: &AnnotationsState) -> AnnotationsSummary {
    AnnotationsSummary {
        resource: channel(session),
        annotation_count: state.annotations.len() as i64,
        entry_count: state.annotations.iter().map(|one| one.entries.len() as i64).sum(),
    }
}

/// Checks that an action is about what is there. The host checks what annotations may be.
fn check(state: &AnnotationsState, action: &StateAction) -> Result<(), AnnotationRefusal> {
    let find = |id: &str| {
        let found = state.annotations.iter().find(|known| known.id == id);
        found.ok_or_else(|| AnnotationRefusal::NoAnnotation(id.to_owned()))
    };
    match action {
        StateAction::AnnotationsSet(_) => Ok(()),
        StateAction::AnnotationsUpdated(updated) => {
            find(&updated.annotation_id)?;
            let nothing = updated.resource.is_none()
                && updated.range.is_none()
                && updated.resolved.is_none()
                && updated.origin.is_none();
            match nothing {
                true => Err(AnnotationRefusal::NoChange),
                false => Ok(()),
            }
        }
        StateAction::AnnotationsRemoved(removed) => find(&removed.annotation_id).map(drop),
        StateAction::AnnotationsEntrySet(set) => find(&set.annotation_id).map(drop),
        StateAction::AnnotationsEntryRemoved(removed) => {
            let known = find(&removed.annotation_id)?;
            if known.entries.iter().all(|entry| entry.id != removed.entry_id) {
                return Err(AnnotationRefusal::NoEntry(removed.entry_id.clone()));
            }
            match known.entries.len() {
                1 => Err(AnnotationRefusal::LastEntry),
                _ => Ok(()),
            }
        }
        _ => Err(AnnotationRefusal::NotForAnnotations),
    }
}

fn text(text: &StringOrMarkdown) -> &str {
    match text {
        StringOrMarkdown::Plain(text) => text,
        StringOrMarkdown::Markdown { markdown } => markdown,
    }
}

impl Core {
    /// The annotations that a message refers to, for the agent. It reads which of them are not there: somebody may have
    /// removed them while the message was written.
    pub(crate) fn quote_annotations(&self, attached: &MessageAnnotationsAttachment) -> String {
        let known = match self.service(&attached.resource) {
            Some(Service::Annotations(state)) => state.annotations.as_slice(),
            _ => &[],
        };
        let wanted = attached.annotation_ids.as_ref();
        let is_wanted = |one: &&Annotation| wanted.is_none_or(|ids| ids.contains(&one.id));
        let all: Vec<_> = known.iter().filter(is_wanted).map(kept).collect();
        let is_missing = |id: &&String| known.iter().all(|one| one.id != **id);
        let missing: Vec<String> = wanted.into_iter().flatten().filter(is_missing).cloned().collect();
        let quoted = quote_annotations(&all);
        match missing.is_empty() {
            true => quoted,
            false => format!(
                "{quoted}\n(These annotations are not there any more: {}.)",
                missing.join(", ")
            ),
        }
    }
}

impl Face {
    /// Opens the annotations of an open session.
    pub(crate) fn open_annotations(&self, uri: &str, session: &str) -> Result<(), HostError> {
        let missing = || HostError::NotFound(uri.to_owned());
        let mut inner = self.inner.lock();
        let id = inner.host_id(session).ok_or_else(missing)?;
        let annotations = self.host.marks().annotations(&id).into_iter().map(shown).collect();
        let state = AnnotationsState { annotations };
        let session = inner.core.session_of(session).ok_or_else(missing)?;
        if inner.core.service(uri).is_none() {
            let service = Service::Annotations(state);
            inner.core.insert_service(uri.into(), Some(session), service);
        }
        Ok(())
    }

    /// Tells the list of sessions what was said.
    pub(crate) fn annotated(&self, inner: &mut Inner, uri: &Uri) {
        let Some(session) = session_of(uri).and_then(|session| inner.core.session_of(session)) else {
            return;
        };
        let Some(Service::Annotations(state)) = inner.core.service(uri) else {
            return;
        };
        let summary = summary(&session, state);
        if let Some(entry) = inner.core.sessions.get_mut(&session) {
            entry.annotations = (summary.annotation_count > 0).then_some(summary);
            entry.dirty = true;
        }
    }
}

impl Inner {
    /// The annotations as they are after an action, to be saved before anybody sees them.
    pub(crate) fn new_annotations(
        &self,
        uri: &Uri,
        state: &AnnotationsState,
        action: &StateAction,
    ) -> Result<Option<Write>, AnnotationRefusal> {
        check(state, action)?;
        let session = session_of(uri).and_then(|session| self.core.session_of(session));
        let Some(id) = session.and_then(|session| self.host_id(&session)) else {
            return Ok(None);
        };
        let mut after = state.clone();
        ahp::reducers::apply_action_to_annotations(&mut after, action);
        let annotations = after.annotations.iter().map(kept).collect();
        Ok(Some(Write::Annotations(id, annotations)))
    }

    /// The host's id of an open session.
    fn host_id(&self, session: &str) -> Option<String> {
        let entry = self.core.sessions.get(session)?;
        Some(self.conversations.get(&entry.default_chat)?.host_id.clone())
    }
}
