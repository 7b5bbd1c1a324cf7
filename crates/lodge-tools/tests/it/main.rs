//! Tests of the tools through their public face.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod bash_programs;
mod bench;
mod changes;
mod changes_odd;
mod fetch;
mod files;
mod jail;
mod jail_soak;
mod places;
mod processes;
mod requests;
mod scratch;
mod search;
mod terminal;
