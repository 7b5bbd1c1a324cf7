//! The models as callers see them.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod catalogue;
mod failures;
mod rehearsal;
mod requests;
mod support;
mod wires;
