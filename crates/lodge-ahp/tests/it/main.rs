//! Tests of the face over its socket.
#![allow(clippy::unwrap_used, missing_docs)]

mod access;
mod annotations;
mod attacks;
mod changesets;
mod chats;
mod configuration;
mod crash;
mod customizations;
mod docs;
mod edits;
mod hostile;
mod kit;
mod mirror;
mod obligations;
mod official;
mod projection;
mod resources;
mod restart;
mod seed_walk;
mod sync;
mod telemetry;
mod terminals;
mod tls;
mod turns;
mod watches;
