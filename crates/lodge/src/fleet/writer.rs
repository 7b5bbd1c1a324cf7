//! The way of one session's events, and of what it keeps beside them, to the fleet.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use lodge_events::{Event, LodgePartial};
use lodge_fleet::{Host, SessionFiles, Writer};
use lodge_host::RemoteLog;

use super::{counters::Counters, held::Held};

/// Writes the events of one session to the fleet, and what it keeps beside them. When it goes, the session is free for others.
pub(super) struct SessionWriter {
    pub(super) host: Arc<Host>,
    pub(super) taken: Option<(Writer, SessionFiles, Held)>,
    pub(super) counters: Arc<Counters>,
}

impl RemoteLog for SessionWriter {
    fn append<'a>(&'a mut self, events: &'a [Event]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let lines: Vec<Bytes> = events.iter().map(|event| event.json().clone()).collect();
            let (writer, files, _) = self.taken.as_mut().ok_or("the session was released")?;
            let began = Instant::now();
            let stored = async {
                // Before the events that may speak of them. Parts of an answer speak of none, and there are many.
                if !events.iter().all(Event::is::<LodgePartial>) {
                    files.sync(writer, false).await?;
                }
                writer.append(&lines).await
            };
            match stored.await {
                Ok(_) => {
                    self.counters.appended(began.elapsed());
                    Ok(())
                }
                Err(error) => {
                    self.counters.lost();
                    Err(error.to_string())
                }
            }
        })
    }

    fn verify(&mut self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let (writer, ..) = self.taken.as_ref().ok_or("the session was released")?;
            let verified = writer.verify().await;
            if verified.is_err() {
                self.counters.lost();
            }
            verified.map_err(|error| error.to_string())
        })
    }
}

impl Drop for SessionWriter {
    fn drop(&mut self) {
        let (Some(taken), Ok(runtime)) = (self.taken.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let ((mut writer, mut files, held), host) = (taken, self.host.clone());
        let counters = self.counters.clone();
        runtime.spawn(async move {
            let session = writer.log().session().to_owned();
            // A writer that failed has nothing more to say: another host has the session, or will have it.
            if !writer.has_failed()
                && let Err(error) = files.sync(&mut writer, true).await
            {
                tracing::warn!(session, %error, "files of the session may not move with it");
            }
            match host.release(writer).await {
                Ok(()) => counters.released(),
                Err(error) => {
                    tracing::warn!(session, %error, "the session stays with this host until its lease expires");
                }
            }
            drop(held);
        });
    }
}
