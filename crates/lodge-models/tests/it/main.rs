//! The models as callers see them.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod rehearsal;
mod support;
