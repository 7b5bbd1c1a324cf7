//! The face from outside: raw frames against a host in this process, with the rehearsal model.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod accounts;
mod client;
mod docs;
mod frames;
mod many;
mod models;
mod plugins;
mod roles;
mod sessions;
mod state;
