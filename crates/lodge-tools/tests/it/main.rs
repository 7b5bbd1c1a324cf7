//! Tests of the tools through their public face.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod bench;
mod files;
mod processes;
mod scratch;
mod search;
