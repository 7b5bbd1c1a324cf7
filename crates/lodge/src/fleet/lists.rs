//! Lists over the whole fleet: what this host tells the others of its sessions, and what it hears of theirs.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use lodge_fleet::{Entry, FleetError, Listed, Listing};
use lodge_host::{Described, Lifecycle};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use super::keeper::FleetKeeper;

/// How long changes of a session are gathered before the others are told.
const GATHER: Duration = Duration::from_millis(300);
/// How often the others are told of a session in which a turn runs: each time, of all its newest text.
const WORKING: Duration = Duration::from_secs(3);
/// How long to wait before something that failed is tried again, and how often turns are looked at.
const AGAIN: Duration = Duration::from_secs(1);

/// Tells the others what became of this host's sessions, at last what is recorded when it stops.
pub(super) async fn publish(
    keeper: Arc<FleetKeeper>,
    host: lodge_host::Host,
    mut changes: Receiver<Lifecycle>,
    stop: CancellationToken,
) {
    let mut changed: HashSet<String> = HashSet::new();
    // Others were told then that a turn runs in them.
    let mut working: HashMap<String, Instant> = HashMap::new();
    // Others could not be told of them yet, or need not.
    let mut untold: HashSet<String> = HashSet::new();
    let mut again = interval(AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // However much changes, what is untold is looked at.
            biased;
            // That a turn has ended is not always recorded.
            _ = again.tick(), if !(working.is_empty() && untold.is_empty()) => {
                changed.extend(working.extract_if(|id, _| !is_busy(&host, id)).map(|(id, _)| id));
                changed.extend(untold.drain());
            }
            change = changes.recv() => {
                if !note(change, &keeper, &mut changed) {
                    return;
                }
                tokio::select! {
                    () = sleep(GATHER) => {}
                    () = stop.cancelled() => {}
                }
            }
            () = stop.cancelled() => {}
        }
        while !changes.is_empty() {
            note(changes.recv().await, &keeper, &mut changed);
        }
        if stop.is_cancelled() {
            changed.extend(untold.drain());
        }
        for session in changed.drain() {
            let told = working.get(&session).filter(|_| is_busy(&host, &session));
            if told.is_some_and(|told| told.elapsed() < WORKING) && !stop.is_cancelled() {
                untold.insert(session);
                continue;
            }
            match describe(&keeper, &host, &session).await {
                Told::Working => drop(working.insert(session, Instant::now())),
                Told::Resting => {}
                Told::Nothing => drop(untold.insert(session)),
            }
        }
        if stop.is_cancelled() {
            return;
        }
    }
}

fn is_busy(host: &lodge_host::Host, id: &str) -> bool {
    host.live(id).is_some_and(|session| session.is_busy())
}

/// Notes what changed. False when nothing will change any more.
fn note(change: Result<Lifecycle, RecvError>, keeper: &FleetKeeper, changed: &mut HashSet<String>) -> bool {
    match change {
        Ok(Lifecycle::Created(id) | Lifecycle::Updated(id)) => drop(changed.insert(id)),
        // Whoever deletes a session says so when it is done.
        Ok(Lifecycle::Deleted { .. }) => {}
        Err(RecvError::Lagged(_)) => changed.extend(keeper.sessions()),
        Err(RecvError::Closed) => return false,
    }
    true
}

/// What the others were told of a session.
pub(super) enum Told {
    Working,
    /// No turn runs in it, or it is not this host's to speak of.
    Resting,
    /// Nothing, because the servers did not take it.
    Nothing,
}

/// Tells the others how a session is now.
pub(super) async fn describe(keeper: &FleetKeeper, host: &lodge_host::Host, session: &str) -> Told {
    let Some(epoch) = keeper.epoch(session) else {
        return Told::Resting;
    };
    let described = match host.describe(session).await {
        Ok(None) => return Told::Resting,
        Ok(Some(described)) => described,
        Err(error) => {
            tracing::warn!(session, %error, "other hosts are not notified of a session");
            return Told::Resting;
        }
    };
    let busy = described.busy;
    match keeper.describe(session, epoch, Some(described)).await {
        Ok(()) if busy => Told::Working,
        Ok(()) => Told::Resting,
        Err(error) => {
            tracing::warn!(session, %error, "other hosts list a session with outdated data");
            Told::Nothing
        }
    }
}

/// Takes in what the others say of their sessions.
pub(super) async fn follow(keeper: Arc<FleetKeeper>, host: lodge_host::Host, mut listing: Listing) {
    // The sessions of others that are listed, with the hosts that run a turn in them.
    let mut known: HashMap<String, Option<String>> = HashMap::new();
    let mut openings = host.catalogue().openings();
    loop {
        match listing.next().await {
            Ok(Listed::Session(session, entry)) => take_in(&keeper, &host, &mut known, session, entry).await,
            Ok(Listed::Nothing) => {
                if let Err(error) = mark_interrupted(&keeper, &host, &mut known).await {
                    tracing::warn!(%error, "cannot tell which other hosts are alive");
                }
                // A catalogue that was made anew knows nothing of what others said.
                let now = host.catalogue().openings();
                if std::mem::replace(&mut openings, now) != now {
                    listing.restart();
                }
            }
            Err(error) => {
                tracing::warn!(%error, "lists do not show changes on other hosts");
                sleep(AGAIN).await;
            }
        }
    }
}

async fn take_in(
    keeper: &Arc<FleetKeeper>,
    host: &lodge_host::Host,
    known: &mut HashMap<String, Option<String>>,
    session: String,
    entry: Entry,
) {
    if entry.host == keeper.host.id() {
        return;
    }
    if keeper.described_elsewhere(&session, entry.epoch) && !entry.deleted {
        // Who has it open here is told so now, and not with what they do next.
        let (keeper, host, session) = (keeper.clone(), host.clone(), session.clone());
        tokio::spawn(async move {
            host.end_lost(&session, || keeper.epoch(&session).is_none()).await;
        });
    }
    if entry.deleted {
        known.remove(&session);
        // Somebody may have made another session of this id here.
        let is_deleted = || keeper.epoch(&session).is_none_or(|ours| ours <= entry.epoch);
        if let Err(error) = host.deleted_elsewhere(&session, is_deleted).await {
            tracing::warn!(session, %error, "cannot remove the copy of a deleted session");
        }
        return;
    }
    let Ok(mut described) = serde_json::from_value::<Described>(entry.about) else {
        return tracing::warn!(session, host = entry.host, "a description of a session cannot be read");
    };
    // Its key says which session it is about.
    described.listed.id.clone_from(&session);
    let busy = described.busy.then_some(entry.host);
    let is_new = known.insert(session, busy).is_none();
    host.take_in_described(described, is_new);
}

/// Turns of hosts that are gone do not go on.
async fn mark_interrupted(
    keeper: &FleetKeeper,
    host: &lodge_host::Host,
    known: &mut HashMap<String, Option<String>>,
) -> Result<(), FleetError> {
    if known.values().all(Option::is_none) {
        return Ok(());
    }
    let alive: HashSet<String> = keeper
        .host
        .fleet()
        .hosts()
        .await?
        .into_iter()
        .map(|host| host.id)
        .collect();
    for (session, busy) in known {
        if busy.take_if(|owner| !alive.contains(owner)).is_some() {
            host.interrupted_elsewhere(session);
        }
    }
    Ok(())
}
