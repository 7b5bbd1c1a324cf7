//! Models: one trait, the wires that implement it, and the offline rehearsal model.
//!
//! This room knows how to turn a conversation into a request and a response stream into chunks. It may not know
//! sessions, events, tools' insides or who is asking.

mod error;
mod rehearsal;
mod types;

pub use rehearsal::Rehearsal;
pub use types::*;
