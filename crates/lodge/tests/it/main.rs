//! The binary from outside: what a person at a terminal and a crash see.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod accepted;
mod accepted_sdk;
mod attach;
mod automations;
mod chat;
mod cli;
mod crash;
mod doctor;
mod door;
mod full_disk;
mod grants;
mod history;
mod jail;
mod join;
mod models;
mod orphans;
mod proxy;
mod sandbox;
#[cfg(target_os = "linux")]
mod strangers;
mod terminal;
