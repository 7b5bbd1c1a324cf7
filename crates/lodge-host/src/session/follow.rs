//! Recorded events, and new ones as they happen.

use std::sync::Arc;

use lodge_agent::Publish;
use lodge_events::Event;
use lodge_log::{EventReader, LogError, Position};
use tokio::sync::mpsc;

use super::Session;
use crate::{
    HostError,
    blocking::run_blocking,
    hub::{Listening, Subscription},
};

/// Number of events read from a log at once.
const BATCH: usize = 256;

impl Session {
    /// The events recorded so far.
    pub fn history(&self) -> Result<EventReader, LogError> {
        self.agent().paused(|log| log.read(Position::START, log.end()))
    }

    /// Reads recorded events on a blocking thread.
    pub async fn read_history<T: Send + 'static>(
        history: EventReader,
        read: impl FnOnce(EventReader) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let done = run_blocking(move || read(history)).await;
        done.map_err(|_| HostError::Invalid("the session could not be read".to_owned()))?
    }

    /// The recorded events in batches, read no faster than they are consumed. Ends early with an error if the log
    /// cannot be read.
    pub fn history_in_batches(history: EventReader) -> mpsc::Receiver<Result<Vec<Event>, LogError>> {
        let (sender, batches) = mpsc::channel(2);
        tokio::task::spawn_blocking(move || {
            let mut events = history.events().peekable();
            while events.peek().is_some() {
                let batch = events.by_ref().take(BATCH).collect();
                // The receiver is gone.
                if sender.blocking_send(batch).is_err() {
                    break;
                }
            }
        });
        batches
    }

    /// The value that `find` gives for the last event for which it gives any.
    pub async fn find_last<T: Send + 'static>(&self, find: impl Fn(&Event) -> Option<T> + Send + 'static) -> Option<T> {
        let last = move |history: EventReader| {
            let events = history.events().filter_map(Result::ok);
            Ok(events.filter_map(|event| find(&event)).last())
        };
        Self::read_history(self.history().ok()?, last).await.ok()?
    }

    /// The events recorded from this number on, how many events there are in all, and the result of `meanwhile`:
    /// nothing is recorded or published between the three.
    pub fn history_from<T>(
        &self,
        number: u64,
        meanwhile: impl FnOnce() -> T,
    ) -> Result<(EventReader, u64, T), LogError> {
        self.agent().paused(|log| {
            let reader = log.read(log.seek(number)?, Position::END)?;
            Ok((reader, log.count(), meanwhile()))
        })
    }

    /// Live events from now on.
    pub fn subscribe(&self, queue_bytes: usize) -> Subscription {
        self.0.hub.subscribe(queue_bytes)
    }

    /// The events recorded so far, and live events from there on: every persisted event is in exactly one of the two.
    pub fn history_and_subscribe(&self, queue_bytes: usize) -> Result<(EventReader, Subscription), LogError> {
        let subscribe = |reader| (reader, self.subscribe(queue_bytes));
        self.agent()
            .paused(|log| log.read(Position::START, log.end()).map(subscribe))
    }

    /// Passes every event from now on to a listener as it is published. The listener must not block, because the
    /// session waits for it.
    pub fn listen(&self, listener: Arc<dyn Publish>) -> Listening {
        self.0.hub.listen(listener)
    }

    /// Like [`Session::history_and_subscribe`] for a listener.
    pub fn history_and_listen(&self, listener: Arc<dyn Publish>) -> Result<(EventReader, Listening), LogError> {
        let listen = |reader| (reader, self.listen(listener));
        self.agent()
            .paused(|log| log.read(Position::START, log.end()).map(listen))
    }

    /// Number of listeners.
    pub fn listeners(&self) -> usize {
        self.0.hub.listeners()
    }
}
