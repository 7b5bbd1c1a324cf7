//! How sessions leave memory: closed, deleted, idle, or because the host stops.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, join_all};
use lodge_agent::Ending;
use lodge_events::AbortReason;
use lodge_log::{About, LogError, Store};
use lodge_tools::changes::Changes;

use super::{Host, Inner};
use crate::{HostError, Lifecycle, Worktree};

/// How often a session whose clients are gone is tried to be put to rest, and how long is waited in between.
const REST_TRIES: u32 = 100;
const REST_PAUSE: Duration = Duration::from_millis(20);

/// How long all sessions together may take to end when the host stops. With what the faces may take, that is less than
/// `lodge serve --stop` waits, and than service managers wait before they kill.
const STOP_LIMIT: Duration = Duration::from_secs(15);

impl Host {
    /// Removes a session and everything kept with it, its chats too.
    pub fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), HostError>> {
        Box::pin(async move {
            let chats = self.chats_of(id).await?;
            if let Some(keeper) = &self.0.keeper {
                // Nothing is deleted where not everything can be.
                for id in std::iter::once(id).chain(chats.iter().map(|chat| chat.id.as_str())) {
                    keeper.check_unused(id).await?;
                }
            }
            for chat in chats {
                match self.delete(&chat.id).await {
                    Err(HostError::NotFound(_)) => {}
                    other => other?,
                }
            }
            let gate = self.0.gate(id);
            let open = gate.lock().await;
            let live = self.0.live.lock().remove(id);
            if let Some(live) = live {
                live.agent.close(Ending::Routine).await;
                live.hub.close();
            }
            self.delete_held(id, open).await
        })
    }

    /// Removes a session that is not in memory, while its gate is held.
    pub(crate) async fn delete_held(&self, id: &str, _open: tokio::sync::MutexGuard<'_, ()>) -> Result<(), HostError> {
        let about = self.find(id).await?.map(|line| line.about).unwrap_or_default();
        let kept = match &self.0.keeper {
            Some(keeper) => keeper.delete(id).await?,
            None => false,
        };
        match self.remove_here(id, &about, kept)? {
            true => Ok(()),
            false => Err(HostError::NotFound(id.to_owned())),
        }
    }

    /// Removes what this home has of a session that is not in memory, and tells everybody. Answers false when nobody had it.
    pub(crate) fn remove_here(&self, id: &str, about: &About, kept: bool) -> Result<bool, HostError> {
        self.0.forget_environment(id);
        let sessions = self.0.home.sessions();
        let dir = sessions.exists(id).is_ok_and(|there| there).then(|| sessions.dir(id));
        if let Some(Ok(dir)) = &dir {
            lodge_tools::sandbox::remove_jails(dir);
        }
        match sessions.delete(id) {
            Err(LogError::NotFound { .. }) if !kept => return Ok(false),
            Err(LogError::NotFound { .. }) => self.catalogue().forget(id),
            other => other?,
        }
        let _ = std::fs::remove_file(crate::written_messages::earlier(self.0.home_path(), id));
        if let Some(Ok(dir)) = dir
            && let Err(error) = Changes::forget_interrupted(&dir, self.0.home_path())
        {
            tracing::warn!(session = id, %error, "cannot remove the journal of an interrupted rewind");
        }
        self.0.automations.session_removed(id);
        self.0.schedules.removed(id);
        self.0.unused.remove(id);
        let address = self.0.marks.get(id).address;
        self.0.marks.forget(id);
        if let Some(worktree) = &about.worktree {
            Worktree::from(worktree).remove_later();
        }
        let _ = self.0.lifecycle.send(Lifecycle::Deleted {
            id: id.to_owned(),
            address,
            chat_of: about.chat_of().map(str::to_owned),
        });
        Ok(true)
    }

    /// Ends a session's life in memory; it stays on disk.
    pub async fn close(&self, id: &str) -> bool {
        self.end(id, Ending::Routine).await
    }

    /// Like [`Host::close`], for this reason.
    pub async fn end(&self, id: &str, ending: Ending) -> bool {
        let Some(live) = self.0.live.lock().remove(id) else {
            return false;
        };
        live.agent.close(ending).await;
        live.hub.close();
        true
    }

    /// Unloads a session whose turn waits for disconnected clients. Whoever resumes it decides what to do with open calls.
    pub async fn rest(&self, id: &str) {
        for _ in 0..REST_TRIES {
            let gate = self.0.gate(id);
            let open = gate.lock().await;
            let Some(live) = self.0.live.lock().remove(id) else {
                return;
            };
            // Nobody else holds it, and since it is not in the map nobody can take hold of it now.
            let alone = Arc::strong_count(&live) == 1;
            if alone && live.agent.rest().await {
                live.hub.close();
                return;
            }
            self.0.live.lock().insert(id.to_owned(), live);
            drop(open);
            // A shutdown that came meanwhile did not find it.
            if self.0.stop.is_cancelled() {
                self.close(id).await;
                return;
            }
            if alone {
                return;
            }
            // What a client that just left was about still holds it for a moment.
            tokio::time::sleep(REST_PAUSE).await;
            if self
                .live(id)
                .is_none_or(|session| session.clients() > 0 || !session.is_busy())
            {
                return;
            }
        }
    }

    /// Ends every session's life in memory, because something told the program to end.
    pub async fn shutdown(&self) {
        self.shutdown_because(AbortReason::RemoteCommand).await;
    }

    /// Like [`Host::shutdown`], where it is known who wants it.
    pub async fn shutdown_because(&self, reason: AbortReason) {
        self.0.stop.cancel();
        let all: Vec<_> = self.0.live.lock().drain().map(|(_, live)| live).collect();
        let ends = all.iter().map(|live| async {
            live.agent.close(Ending::HostStops(reason.clone())).await;
            live.hub.close();
        });
        if tokio::time::timeout(STOP_LIMIT, join_all(ends)).await.is_err() {
            tracing::warn!("some sessions did not end within {} s", STOP_LIMIT.as_secs());
        }
        self.catalogue().flush();
        self.0.marks.settle();
        let registers = self.0.registers.clone();
        let synced = tokio::task::spawn_blocking(move || registers.sync()).await;
        if let Ok(Err(error)) = synced {
            tracing::warn!(%error, "cannot sync the host's registers to the disk");
        }
    }
}

/// Puts sessions out of memory that nobody holds and that do nothing. Their logs stay, and they come back when somebody
/// asks.
pub(super) async fn evict_idle(host: Weak<Inner>, idle_after: Duration) {
    let mut idle_since: HashMap<String, Instant> = HashMap::new();
    let mut tick = tokio::time::interval((idle_after / 2).max(Duration::from_millis(50)));
    loop {
        tick.tick().await;
        let Some(host) = host.upgrade() else { return };
        let mut live = host.live.lock();
        idle_since.retain(|id, _| live.contains_key(id));
        live.retain(|id, session| {
            // Nobody but this map holds it, and since the map is locked nobody can take hold of it now.
            let idle = Arc::strong_count(session) == 1 && !session.agent.has_work();
            if !idle {
                idle_since.remove(id);
                return true;
            }
            let since = *idle_since.entry(id.clone()).or_insert_with(Instant::now);
            since.elapsed() < idle_after
        });
    }
}
