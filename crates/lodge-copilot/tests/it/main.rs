//! The face from outside: raw frames against a host in this process, with the rehearsal model.

mod client;
mod docs;
mod frames;
mod many;
mod sessions;
mod state;
