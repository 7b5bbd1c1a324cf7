//! Sessions of other hosts of the fleet: listing them here, and releasing a session of this host to another one.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use lodge_agent::Ending;
use lodge_events::AbortReason;
use lodge_log::{Listed, Store as _};
use serde::{Deserialize, Serialize};

use crate::{Host, HostError, Lifecycle};

/// How often the host tries to release a session, and the pause between attempts.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// A session as a host describes it to others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Described {
    /// What lists and searches show.
    pub listed: Listed,
    /// What its maker calls it, where that does not follow from its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether a turn runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub busy: bool,
    /// When something that it has scheduled is due next, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_due: Option<i64>,
}

/// What became of a session that another host asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// It is not in this host's memory, or not any more.
    Yes,
    /// A turn or a command runs, or clients have it open.
    InUse,
}

impl Host {
    /// Describes a session for other hosts; nothing when there is none.
    pub async fn describe(&self, id: &str) -> Result<Option<Described>, HostError> {
        let name = id.to_owned();
        let listed = self.look_up(move |catalogue| catalogue.describe(&name)).await?;
        let session = self.live(id);
        let next_due = self.0.schedules.next_due(id, session.as_ref());
        Ok(listed.map(|listed| Described {
            listed,
            address: self.marks().get(id).address,
            busy: session.is_some_and(|session| session.is_busy()),
            next_due: next_due.map(Timestamp::as_millisecond),
        }))
    }

    /// Lists a session as another host describes it.
    pub fn take_in_described(&self, described: Described, is_new: bool) {
        let Described {
            listed,
            address,
            busy,
            next_due,
        } = described;
        let id = listed.id.clone();
        if self.live(&id).is_some() {
            return;
        }
        let next_due = next_due.and_then(|due| Timestamp::from_millisecond(due).ok());
        self.0.schedules.said_elsewhere(&id, next_due);
        if let Some(address) = address
            && let Err(error) = self.marks().update(&id, |marks| marks.address = Some(address))
        {
            tracing::warn!(session = id, %error, "cannot save the name that its creator gave the session");
        }
        self.catalogue().take_in(listed);
        self.0.busy_elsewhere.lock().set(&id, busy);
        let _ = self.0.lifecycle.send(match is_new {
            true => Lifecycle::Created(id),
            false => Lifecycle::Updated(id),
        });
    }

    /// The host that ran a turn in this session is gone.
    pub fn interrupted_elsewhere(&self, id: &str) {
        if self.0.busy_elsewhere.lock().set(id, false) {
            let _ = self.0.lifecycle.send(Lifecycle::Updated(id.to_owned()));
        }
    }

    /// Whether another host runs a turn in this session.
    pub fn is_busy_elsewhere(&self, id: &str) -> bool {
        self.live(id).is_none() && self.0.busy_elsewhere.lock().has(id)
    }

    /// Another host deleted a session: the copy of it that is here goes, too, and its worktree. A session of this home that was never in the
    /// fleet, or was exported from it, stays. `is_deleted` is asked when nobody is making another one of this id.
    ///
    /// # Errors
    /// When the copy of its log cannot be removed.
    pub async fn deleted_elsewhere(&self, id: &str, is_deleted: impl FnOnce() -> bool) -> Result<(), HostError> {
        let about = self.find(id).await?.map(|line| line.about).unwrap_or_default();
        let gate = self.0.gate(id);
        let _open = gate.lock().await;
        if !is_deleted() {
            return Ok(());
        }
        let files = self.home().sessions();
        if files.exists(id)? && !files.is_copy(id)? {
            self.0.schedules.said_elsewhere(id, None);
            self.interrupted_elsewhere(id);
            return Ok(());
        }
        self.end(id, Ending::Routine).await;
        self.remove_here(id, &about, true).map(drop)
    }

    /// Lets a session go that nobody uses, so that another host can have it. What a client that just left was about may
    /// still hold it for a moment.
    pub async fn give_up(&self, id: &str) -> GivenUp {
        for _ in 0..TRIES {
            if self.try_to_give_up(id).await == GivenUp::Yes {
                return GivenUp::Yes;
            }
            if self.live(id).is_some_and(|session| session.agent().has_work()) {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        GivenUp::InUse
    }

    async fn try_to_give_up(&self, id: &str) -> GivenUp {
        let gate = self.0.gate(id);
        let _open = gate.lock().await;
        let mut live = self.0.live.lock();
        let Some(session) = live.get(id) else {
            return GivenUp::Yes;
        };
        // Nobody but this map holds it, and since the map is locked nobody can take hold of it now.
        if Arc::strong_count(session) > 1 || session.agent.has_work() {
            return GivenUp::InUse;
        }
        live.remove(id);
        GivenUp::Yes
    }

    /// Ends every session in which no turn runs, whoever has it open, as if this host stopped. Commands that were left in the background
    /// end with it: some never would. Answers how many sessions are left.
    pub async fn give_up_idle(&self) -> usize {
        let idle = |live: &Arc<crate::session::Live>| !live.agent.is_busy();
        let ids: Vec<String> = {
            let live = self.0.live.lock();
            let idle = live.iter().filter(|(_, live)| idle(live));
            idle.map(|(id, _)| id.clone()).collect()
        };
        for id in ids {
            // A turn may have begun since; the check and the removal are one step.
            let live = {
                let mut live = self.0.live.lock();
                let is_idle = live.get(&id).is_some_and(idle);
                is_idle.then(|| live.remove(&id)).flatten()
            };
            if let Some(live) = live {
                live.agent.close(Ending::HostStops(AbortReason::RemoteCommand)).await;
                live.hub.close();
            }
        }
        self.live_count()
    }
}

/// The sessions in which other hosts run a turn.
#[derive(Default)]
pub(crate) struct BusyElsewhere(std::collections::HashSet<String>);

impl BusyElsewhere {
    /// Answers whether that is news.
    fn set(&mut self, id: &str, busy: bool) -> bool {
        match busy {
            true => self.0.insert(id.to_owned()),
            false => self.0.remove(id),
        }
    }

    fn has(&self, id: &str) -> bool {
        self.0.contains(id)
    }
}
