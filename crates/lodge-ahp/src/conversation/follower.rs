//! Shows what a session does, beside the driver: whatever the driver waits for, clients see what happens.

use std::sync::Arc;

use lodge_events::{Event, Payload};
use lodge_host::{Session, Subscription};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Effect, stream::Feed};
use crate::{
    customizations,
    face::Face,
    state::{Handle, Uri},
};

/// Follows the events of a session.
pub(super) struct Follower {
    face: Arc<Face>,
    chat: Uri,
    events: Subscription,
    /// Tells when it changed files.
    changed: watch::Receiver<u64>,
    /// Tells when commands in the background are others.
    background: watch::Receiver<u64>,
    effects: mpsc::WeakUnboundedSender<Effect>,
    waiters: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    /// The way of its deltas, once it is known.
    stream: Option<Handle<Feed>>,
}

/// Tells when everything is shown that a session did so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown(Option<mpsc::UnboundedSender<oneshot::Sender<()>>>);

impl Shown {
    /// Waits until clients were told of every event that is there now, or never will be.
    pub(crate) async fn caught_up(self) {
        let (told, heard) = oneshot::channel();
        // Where nobody follows any more, nothing more is shown.
        if self.0.is_some_and(|follower| follower.send(told).is_ok()) {
            let _ = heard.await;
        }
    }
}

impl Follower {
    pub(super) fn new(
        face: Arc<Face>,
        chat: Uri,
        session: &Session,
        events: Subscription,
        effects: mpsc::WeakUnboundedSender<Effect>,
    ) -> (Self, Shown) {
        let (shown, waiters) = mpsc::unbounded_channel();
        let follower = Self {
            face,
            chat,
            changed: session.files_changed(),
            background: session.background_changed(),
            events,
            effects,
            waiters,
            stream: None,
        };
        (follower, Shown(Some(shown)))
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
        self.face.background_changed(&self.chat);
        loop {
            tokio::select! {
                biased;
                batch = self.events.next_batch() => match batch {
                    Some(batch) if batch.is_empty() => {
                        tracing::warn!(chat = &*self.chat, "events were lost; the session is read anew");
                        return self.face.reload(&self.chat);
                    }
                    Some(batch) => self.show(&batch).await,
                    None => {
                        self.face.background_ended(&self.chat);
                        return self.tell(Effect::Ended);
                    }
                },
                // All events that were there come before it.
                Some(waiter) = self.waiters.recv() => drop(waiter.send(())),
                Ok(()) = self.changed.changed() => self.face.files_changed(&self.chat),
                Ok(()) = self.background.changed() => self.face.background_changed(&self.chat),
            }
        }
    }

    /// Shows events in slices, so that a burst neither keeps others from the state for long nor fills the queues of
    /// clients before their sockets had a chance to take anything.
    async fn show(&mut self, batch: &[Event]) {
        for events in batch.chunks(64) {
            let streamed = self.stream(events);
            if streamed < events.len() {
                self.stream = self.face.events(&self.chat, &events[streamed..]);
            }
            tokio::task::yield_now().await;
        }
        if batch.iter().any(customizations::is_news) {
            self.tell(Effect::Customized);
        }
        for event in batch {
            match event.payload() {
                Payload::LodgeMessageRemoved(removed) => self.tell(Effect::Withdrawn(removed.ids.clone())),
                Payload::UserMessage(said) => said
                    .message_id
                    .iter()
                    .for_each(|id| self.tell(Effect::Said(id.clone()))),
                _ => {}
            }
        }
    }

    /// Shows the deltas at the beginning, past everything that sessions share. How many these were.
    fn stream(&self, events: &[Event]) -> usize {
        let Some(stream) = &self.stream else { return 0 };
        let sending = self.face.sending();
        stream.with(|feed| feed.stream(&sending, events)).unwrap_or(0)
    }

    fn tell(&self, effect: Effect) {
        if let Some(effects) = self.effects.upgrade() {
            // The driver only ends when the conversation is closed, and then nobody waits for this.
            let _ = effects.send(effect);
        }
    }
}
