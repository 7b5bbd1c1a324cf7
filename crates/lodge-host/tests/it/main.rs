//! The host with its agent, driven as a face drives it, with the rehearsal model.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod agents;
mod asking;
mod broken_off;
mod changes;
mod commands;
mod compaction;
mod contract;
mod hooks;
mod import;
mod kit;
mod ledger;
mod life;
mod migrate;
mod modes;
mod plugins;
mod questions;
mod queue;
mod rewind_killed;
mod schedules;
mod soak;
mod storage;
mod trust;
mod truth;
mod turns;
