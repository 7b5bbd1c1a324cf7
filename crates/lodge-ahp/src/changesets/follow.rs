//! Keeps changesets up to date while a client is subscribed.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ahp_types::{
    StateAction,
    actions::{
        ChangesetContentChangedAction, ChangesetFilesReviewChangedAction, ChangesetStatusChangedAction,
        SessionChangesetsChangedAction,
    },
    state::{ChangesetFile, ChangesetOperation, ChangesetOperationStatus, ChangesetState, ChangesetStatus, ErrorInfo},
};
use lodge_host::{ChangeCounts, HostError, Span};
use tokio::sync::Notify;

use super::{Kind, catalogue, files::edit, operations};
use crate::{
    actions::{Reviewed, Write},
    chats,
    face::{Face, Inner},
    projection::error_info,
    state::{Service, Uri},
};

/// How long to wait for more changes: they come in bursts.
const BURST: Duration = Duration::from_millis(60);
/// How often to check a work tree that other programs may change.
const LOOK: Duration = Duration::from_secs(4);
/// Checks may take at most one fiftieth of the time.
const SHARE: u32 = 50;
/// How long to keep a channel without subscribers. A client that lost its connection comes back.
const FORGET: Duration = Duration::from_secs(30);

/// The tasks that follow the changes of sessions, by channel. The address of the session itself is the key of the task that
/// counts its changes.
#[derive(Default)]
pub(crate) struct Followers(HashMap<Uri, (Uri, Arc<Notify>)>);

impl Followers {
    /// Wakes all tasks that follow a session.
    pub(crate) fn wake(&self, session: &str) {
        for (_, wake) in self.0.values().filter(|(of, _)| &**of == session) {
            wake.notify_one();
        }
    }

    /// Ends all tasks that follow a session.
    pub(crate) fn end(&mut self, session: &str) {
        self.wake(session);
        self.0.retain(|_, (of, _)| &**of != session);
    }

    fn begin(&mut self, channel: &Uri, session: &Uri) -> Option<Arc<Notify>> {
        let wake = Arc::new(Notify::new());
        let old = self.0.insert(channel.clone(), (session.clone(), wake.clone()));
        debug_assert!(old.is_none(), "a channel is followed once");
        Some(wake)
    }

    fn is_followed(&self, channel: &str, wake: &Arc<Notify>) -> bool {
        self.0.get(channel).is_some_and(|(_, known)| Arc::ptr_eq(known, wake))
    }
}

impl Face {
    /// Opens the channel of a changeset whose session is open.
    pub(crate) fn open_changeset(self: &Arc<Self>, channel: &str, session: &str, kind: Kind) -> Result<(), HostError> {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if inner.core.services.contains_key(channel) {
            return Ok(());
        }
        let Some((session, _)) = inner.core.sessions.get_key_value(session) else {
            return Err(HostError::NotFound(session.to_owned()));
        };
        let (channel, session): (Uri, Uri) = (channel.into(), session.clone());
        let state = ChangesetState {
            status: ChangesetStatus::Computing,
            error: None,
            files: Vec::new(),
            operations: None,
        };
        let service = Service::Changeset(Box::new(state));
        inner
            .core
            .insert_service(channel.clone(), Some(session.clone()), service);
        if let Some(wake) = inner.followers.begin(&channel, &session) {
            let follow = Follow {
                face: self.clone(),
                channel,
                session,
                kind,
                wake,
            };
            self.tasks.spawn(follow.run());
        }
        Ok(())
    }

    /// Counts the changes of a session, now and after each further change.
    pub(crate) fn count_changes(self: &Arc<Self>, inner: &mut Inner, session: &Uri) {
        let Some(wake) = inner.followers.begin(session, session) else {
            return;
        };
        let (face, session) = (self.clone(), session.clone());
        self.tasks.spawn(async move {
            loop {
                face.count(&session).await;
                tokio::select! {
                    () = wake.notified() => tokio::time::sleep(BURST).await,
                    () = face.stop.cancelled() => return,
                }
                if !face.inner.lock().followers.is_followed(&session, &wake) {
                    return;
                }
            }
        });
    }

    async fn count(&self, session: &Uri) {
        let Some(source) = self.inner.lock().source(session) else {
            return;
        };
        let files = match self.host.changed_files(&source.ids, &Span::Session).await {
            Ok(files) => files,
            Err(error) => return tracing::debug!(%error, "changes cannot be counted"),
        };
        let mut inner = self.inner.lock();
        let Some(entry) = inner.core.sessions.get_mut(session) else {
            return;
        };
        let counts = ChangeCounts::of(&files);
        let edits: Vec<_> = files.into_iter().map(edit).collect();
        let counted = chats::changes(counts);
        // A session that never changed anything says nothing about it.
        if edits.is_empty() && entry.changes.is_none()
            || entry.changes.as_ref() == Some(&counted) && entry.diffs == edits
        {
            return;
        }
        entry.changes = Some(counted);
        entry.diffs = edits;
        entry.dirty = true;
        inner.core.publish_diffs(session);
        inner.core.settle(session);
        drop(inner);
        let kept = self
            .host
            .marks()
            .update(&source.first, |marks| marks.changes = Some(counts));
        if let Err(error) = kept {
            tracing::warn!(session = source.first, %error, "what a session changed in numbers is counted anew after a restart");
        }
    }

    /// A conversation changed files.
    pub(crate) fn files_changed(&self, chat: &str) {
        let inner = self.inner.lock();
        if let Some((_, talk)) = inner.conversation(chat) {
            inner.followers.wake(&talk.session);
        }
    }

    /// Publishes the changesets of a session that has begun.
    pub(crate) fn offer_changesets(&self, inner: &mut Inner, session: &Uri) {
        let Some(entry) = inner.core.sessions.get(session) else {
            return;
        };
        let offered = catalogue(session, entry.state.project.is_some(), true);
        if entry.state.changesets.as_ref() != Some(&offered) {
            let action = SessionChangesetsChangedAction {
                changesets: Some(offered),
            };
            inner
                .core
                .publish(session, &StateAction::SessionChangesetsChanged(action), None);
        }
    }

    /// Lets the other changesets of a session show the same review marks.
    pub(crate) fn reviewed(&self, inner: &Inner, channel: &str) {
        if let Some((session, _)) = Kind::parse(channel) {
            inner.followers.wake(session);
        }
    }
}

impl Inner {
    /// Which files of a changeset are reviewed after an action, to be saved before anybody sees it.
    pub(crate) fn new_review_marks(
        &self,
        channel: &str,
        state: &ChangesetState,
        changed: &ChangesetFilesReviewChangedAction,
    ) -> Option<Write> {
        let source = Kind::parse(channel).and_then(|(session, _)| self.source(session))?;
        let is_reviewed = |file: &&ChangesetFile| match changed.files.contains(&file.id) {
            true => changed.reviewed,
            false => file.reviewed == Some(true),
        };
        let reviewed = state.files.iter().filter(is_reviewed);
        let reviewed = Reviewed {
            prefix: mark_prefix(channel),
            files: reviewed
                .map(|file| (mark_of(channel, file), fingerprint(file)))
                .collect(),
        };
        Some(Write::Reviewed(source.first, reviewed))
    }
}

fn mark_prefix(channel: &str) -> String {
    let kind = channel.rsplit_once(super::SEGMENT).map_or("", |(_, kind)| kind);
    format!("{kind} ")
}

fn mark_of(channel: &str, file: &ChangesetFile) -> String {
    format!("{}{}", mark_prefix(channel), file.id)
}

/// The version of a file that was reviewed. A file that changes needs another review.
fn fingerprint(file: &ChangesetFile) -> String {
    let content = |side: &Option<ahp_types::state::FileEditSide>| {
        let side = side.as_ref().map(|side| &side.content);
        side.map(|content| content.nonce.clone().unwrap_or_else(|| content.uri.clone()))
            .unwrap_or_default()
    };
    format!("{} {}", content(&file.edit.before), content(&file.edit.after))
}

struct Follow {
    face: Arc<Face>,
    channel: Uri,
    session: Uri,
    kind: Kind,
    wake: Arc<Notify>,
}

impl Follow {
    async fn run(self) {
        let mut woken = true;
        let mut heard = Instant::now();
        loop {
            let began = Instant::now();
            let found = self.face.changed_files(&self.session, &self.kind).await;
            if !self.show(found, woken) {
                return;
            }
            let look = LOOK.max(began.elapsed() * SHARE);
            woken = loop {
                tokio::select! {
                    () = self.wake.notified() => {
                        tokio::time::sleep(BURST).await;
                        break true;
                    }
                    () = tokio::time::sleep(look) => {}
                    () = self.face.stop.cancelled() => return,
                }
                if self.face.inner.lock().core.is_heard(&self.channel) {
                    heard = Instant::now();
                    if self.kind.is_of_git() {
                        break false;
                    }
                } else if heard.elapsed() > FORGET {
                    return self.close();
                }
            };
            if woken && !self.say_recomputing() {
                return;
            }
        }
    }

    /// Closes the channel.
    fn close(&self) {
        let mut inner = self.face.inner.lock();
        if inner.followers.is_followed(&self.channel, &self.wake) {
            inner.followers.0.remove(&self.channel);
            inner.core.remove_service(&self.channel);
        }
    }

    fn say_recomputing(&self) -> bool {
        let mut inner = self.face.inner.lock();
        let followed = inner.followers.is_followed(&self.channel, &self.wake);
        if followed {
            self.say(&mut inner, ChangesetStatus::Recomputing, None);
        }
        followed
    }

    fn say(&self, inner: &mut Inner, status: ChangesetStatus, error: Option<ErrorInfo>) {
        let action = ChangesetStatusChangedAction { status, error };
        inner
            .core
            .publish(&self.channel, &StateAction::ChangesetStatusChanged(action), None);
    }

    /// Publishes the files; after a mere check, only if something changed. False when the channel is closed.
    fn show(&self, found: Result<Vec<ChangesetFile>, HostError>, woken: bool) -> bool {
        let mut guard = self.face.inner.lock();
        let inner = &mut *guard;
        if !inner.followers.is_followed(&self.channel, &self.wake) {
            return false;
        }
        let mut files = match found {
            Ok(files) => files,
            Err(error) => {
                let error = error_info("changes", error);
                let known = match inner.core.service(&self.channel) {
                    Some(Service::Changeset(state)) => state.error.as_ref() == Some(&error),
                    _ => true,
                };
                if woken || !known {
                    self.say(inner, ChangesetStatus::Error, Some(error));
                }
                return true;
            }
        };
        if self.kind.is_reviewed()
            && let Some(source) = inner.source(&self.session)
        {
            let marks = self.face.host.marks().reviewed(&source.first);
            for file in &mut files {
                let mark = marks.get(&mark_of(&self.channel, file));
                file.reviewed = Some(mark == Some(&fingerprint(file)));
            }
        }
        let has_git = inner
            .core
            .sessions
            .get(&self.session)
            .is_some_and(|entry| entry.state.project.is_some());
        let mut operations = operations::offered(&self.kind, !files.is_empty(), has_git);
        let Some(Service::Changeset(state)) = inner.core.service(&self.channel) else {
            return false;
        };
        carry_status(&mut operations, state.operations.as_deref().unwrap_or_default());
        let news = state.files != files || state.operations.as_ref() != Some(&operations);
        let ready = state.status == ChangesetStatus::Ready;
        if woken || news || !ready {
            let action = ChangesetContentChangedAction {
                files,
                operations: Some(operations),
            };
            inner.core.publish(
                &self.channel,
                &StateAction::ChangesetContentChanged(Box::new(action)),
                None,
            );
            self.say(inner, ChangesetStatus::Ready, None);
        }
        true
    }
}

/// Keeps the status of operations that run or failed.
fn carry_status(operations: &mut [ChangesetOperation], known: &[ChangesetOperation]) {
    for operation in operations {
        if let Some(old) = known.iter().find(|old| old.id == operation.id)
            && old.status != ChangesetOperationStatus::Disabled
        {
            operation.status = old.status.clone();
            operation.error.clone_from(&old.error);
        }
    }
}
