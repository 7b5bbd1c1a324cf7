//! Empty sessions whose clients are gone. Some clients make a session over one connection and send its first message over the
//! next, so it is kept for a while. Meanwhile it is in no list. A register names such sessions, so that the next host deletes them,
//! too.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use lodge_agent::Ending;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    Clock, Host, HostError, Lifecycle, Session,
    host::Inner,
    registers::{Register, Registers},
};

/// How long an empty session is kept after its client left.
const KEPT: SignedDuration = SignedDuration::from_mins(10);
/// When one that something held is looked at again.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct UnusedSessions {
    /// When each of them was left, in milliseconds.
    left: Register<i64>,
    /// Held while the register is changed.
    changing: Mutex<()>,
    changed: Notify,
    clock: Clock,
}

impl UnusedSessions {
    pub(crate) fn new(registers: &Arc<dyn Registers>, clock: Clock) -> Self {
        Self {
            left: Register::new(registers, "unused"),
            changing: Mutex::default(),
            changed: Notify::new(),
            clock,
        }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.left.get(id).is_some()
    }

    fn add(&self, id: &str) -> bool {
        let _one = self.changing.lock();
        let kept = self.left.set(id, &self.clock.now().as_millisecond());
        self.changed.notify_one();
        kept.inspect_err(|error| tracing::warn!(session = id, %error, "cannot keep an empty session"))
            .is_ok()
    }

    /// Answers whether it was there.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let _one = self.changing.lock();
        let was_there = self.has(id);
        if was_there && let Err(error) = self.left.remove(id) {
            tracing::warn!(session = id, %error, "cannot record that an empty session is used again");
        }
        was_there
    }

    /// When each of them is to be deleted.
    fn due(&self) -> Vec<(String, Timestamp)> {
        let left = self.left.list().into_iter();
        left.filter_map(|(id, left)| Some((id, Timestamp::from_millisecond(left).ok()? + KEPT)))
            .collect()
    }
}

impl Session {
    /// Whether nothing was ever said in it and nobody has it open.
    pub fn is_unused(&self) -> bool {
        let facts = self.state();
        let is_empty = facts.user_messages == 0 && facts.first_command.is_none() && self.queue().0.is_empty();
        is_empty && self.clients() == 0
    }
}

impl Host {
    /// Takes an unused session off the lists, and deletes it after a while unless somebody opens it. Where other programs use
    /// the home or other hosts the sessions, it is deleted at once: they may have it by then.
    pub async fn leave_unused(&self, id: &str) -> Result<(), HostError> {
        let is_swept = self.home().is_exclusive() && !self.is_kept();
        if !is_swept || !self.0.unused.add(id) {
            return self.delete(id).await;
        }
        let _ = self.0.lifecycle.send(Lifecycle::Deleted {
            id: id.to_owned(),
            address: self.0.marks.get(id).address,
            chat_of: None,
        });
        Ok(())
    }

    /// Somebody opens a session: if it was unused, it is like others from now on.
    pub(crate) fn use_again(&self, id: &str) {
        if self.0.unused.remove(id) {
            let _ = self.0.lifecycle.send(Lifecycle::Created(id.to_owned()));
        }
    }

    /// Deletes a session that is still unused. Answers false if something holds it at this moment.
    async fn delete_unused(&self, id: &str) -> Result<bool, HostError> {
        let opened = self.open_unused(id).await;
        if !opened.as_ref().is_ok_and(Session::is_unused) {
            self.0.unused.remove(id);
            return opened.map(|_| true);
        }
        drop(opened);
        let gate = self.0.gate(id);
        let open = gate.lock().await;
        let live = {
            let mut all = self.0.live.lock();
            // Whoever opens it takes it out of the register first, and then looks here.
            if all.get(id).is_some_and(|live| Arc::strong_count(live) > 1) {
                return Ok(false);
            }
            if !self.0.unused.remove(id) {
                return Ok(true);
            }
            all.remove(id)
        };
        if let Some(live) = live {
            live.agent.close(Ending::Routine).await;
            live.hub.close();
        }
        self.delete_held(id, open).await.map(|()| true)
    }
}

/// Deletes unused sessions when it is time.
pub(crate) async fn delete_in_time(host: Weak<Inner>, stop: CancellationToken) {
    loop {
        let Some(inner) = host.upgrade() else { return };
        let host_now = Host(inner, None);
        let now = host_now.0.unused.clock.now();
        let (mut next, mut is_any_held) = (None, false);
        for (id, due) in host_now.0.unused.due() {
            if due > now {
                next = next.into_iter().chain([due]).min();
                continue;
            }
            match host_now.delete_unused(&id).await {
                Ok(is_over) => is_any_held |= !is_over,
                Err(error) => tracing::warn!(session = id, %error, "cannot delete an empty session"),
            }
        }
        let unused = host_now.0.unused.clone();
        drop(host_now);
        let time = async {
            match next {
                _ if is_any_held => tokio::time::sleep(PAUSE).await,
                Some(next) => unused.clock.reach(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time => {}
            () = unused.changed.notified() => {}
            () = stop.cancelled() => return,
        }
    }
}
