//! Shows what a session does, beside the driver: whatever the driver waits for, clients see what happens.

use std::sync::Arc;

use lodge_events::{Event, Payload};
use lodge_host::{Session, Subscription};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Effect;
use crate::{customizations, face::Face, state::Uri};

/// Follows the events of a session.
pub(super) struct Follower {
    face: Arc<Face>,
    chat: Uri,
    events: Subscription,
    /// Tells when it changed files.
    changed: watch::Receiver<u64>,
    effects: mpsc::WeakUnboundedSender<Effect>,
}

impl Follower {
    pub(super) fn new(
        face: Arc<Face>,
        chat: Uri,
        session: &Session,
        events: Subscription,
        effects: mpsc::WeakUnboundedSender<Effect>,
    ) -> Self {
        Self {
            face,
            chat,
            changed: session.changes().changed(),
            events,
            effects,
        }
    }

    /// Follows until the session leaves memory, or the guard is dropped.
    pub(super) fn start(self) -> DropGuard {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        self.face.clone().tasks.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = self.run() => {}
            }
        });
        stop.drop_guard()
    }

    async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                batch = self.events.next_batch() => match batch {
                    Some(batch) if batch.is_empty() => {
                        tracing::warn!(chat = &*self.chat, "events were lost; the session is read anew");
                        return self.face.reload(&self.chat);
                    }
                    Some(batch) => self.show(&batch).await,
                    None => return self.tell(Effect::Ended),
                },
                Ok(()) = self.changed.changed() => self.face.files_changed(&self.chat),
            }
        }
    }

    /// Shows events in slices, so that a burst neither keeps others from the state for long nor fills the queues of
    /// clients before their sockets had a chance to take anything.
    async fn show(&self, batch: &[Event]) {
        for events in batch.chunks(64) {
            self.face.events(&self.chat, events);
            tokio::task::yield_now().await;
        }
        if batch.iter().any(customizations::is_news) {
            self.tell(Effect::Customized);
        }
        for event in batch {
            if let Payload::LodgeMessageRemoved(removed) = event.payload() {
                self.tell(Effect::Withdrawn(removed.ids.clone()));
            }
        }
    }

    fn tell(&self, effect: Effect) {
        if let Some(effects) = self.effects.upgrade() {
            // The driver only ends when the conversation is closed, and then nobody waits for this.
            let _ = effects.send(effect);
        }
    }
}
