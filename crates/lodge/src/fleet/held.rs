//! Which sessions this host is about to have, has, or is letting go.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Sessions whose owner's key somebody of this host is changing or goes by.
#[derive(Clone, Default)]
pub(super) struct HeldSessions {
    counts: Arc<Mutex<HashMap<String, usize>>>,
    tracker: TaskTracker,
}

/// While there is one, nobody else of this host gives the session up.
pub(super) struct Held {
    session: String,
    counts: Arc<Mutex<HashMap<String, usize>>>,
    _token: TaskTrackerToken,
}

impl HeldSessions {
    pub(super) fn hold(&self, session: &str) -> Held {
        *self.counts.lock().entry(session.to_owned()).or_default() += 1;
        Held {
            session: session.to_owned(),
            counts: self.counts.clone(),
            _token: self.tracker.token(),
        }
    }

    pub(super) fn has(&self, session: &str) -> bool {
        self.counts.lock().contains_key(session)
    }

    /// Waits until no session is held. Only when none is taken any more.
    pub(super) async fn all_gone(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.session);
            }
        }
    }
}
