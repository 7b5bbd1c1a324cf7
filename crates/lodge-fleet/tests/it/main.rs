//! A fleet on real NATS servers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod access;
mod copies;
mod damage;
mod faults;
mod files;
mod kit;
mod links;
mod listing;
mod logs;
mod owners;
mod servers;
mod worker;
