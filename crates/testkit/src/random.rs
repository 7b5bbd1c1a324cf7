//! Random choices that can be replayed.

use std::time::{SystemTime, UNIX_EPOCH};

/// A small generator (SplitMix64). Its seed is printed by tests that use it; `LODGE_SEED` replays one.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The seed of `LODGE_SEED`, or a new one. Returned too, to be printed when something fails.
    ///
    /// # Panics
    /// When `LODGE_SEED` is no number.
    pub fn from_env() -> (Self, u64) {
        let seed = match std::env::var("LODGE_SEED") {
            Ok(text) => text.parse().expect("LODGE_SEED is a number"),
            Err(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |now| now.as_nanos() as u64),
        };
        (Self(seed), seed)
    }

    /// A generator that repeats itself for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any() % end
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}
