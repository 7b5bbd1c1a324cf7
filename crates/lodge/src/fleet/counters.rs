//! What this host counts of its part in the fleet.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use lodge_host::{APPEND_BUCKETS, KeeperCounts};

/// Counters since the host started. They only grow.
#[derive(Default)]
pub(super) struct Counters {
    appends: [AtomicU64; APPEND_BUCKETS.len() + 1],
    append_micros: AtomicU64,
    taken: AtomicU64,
    released: AtomicU64,
    lost: AtomicU64,
}

impl Counters {
    pub(super) fn appended(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = APPEND_BUCKETS.iter().position(|bound| seconds <= *bound);
        self.appends[bucket.unwrap_or(APPEND_BUCKETS.len())].fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.append_micros.fetch_add(micros, Relaxed);
    }

    pub(super) fn taken(&self) {
        self.taken.fetch_add(1, Relaxed);
    }

    pub(super) fn released(&self) {
        self.released.fetch_add(1, Relaxed);
    }

    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    pub(super) fn now(&self, lag: Duration) -> KeeperCounts {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        KeeperCounts {
            appends: self.appends.iter().map(read).collect(),
            append_time: Duration::from_micros(read(&self.append_micros)),
            taken: read(&self.taken),
            released: read(&self.released),
            lost: read(&self.lost),
            lag,
        }
    }
}
