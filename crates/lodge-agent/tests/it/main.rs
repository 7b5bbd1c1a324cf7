//! The agent by itself, with a log that is stored elsewhere as well.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod lease;
