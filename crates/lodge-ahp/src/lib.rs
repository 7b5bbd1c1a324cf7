//! The Agent Host Protocol face: sessions as synchronised state for any number of clients, over WebSocket.
//!
//! This room knows AHP: its dialects, channels, actions and replay, and how session events become actions. It may not know
//! the SDK's JSON-RPC, models, how an agent works, or how a client connects: it is given WebSockets of clients that were let in.
//! Sessions are the host's, and what they did is in their logs.
//!
//! Inside, everything is protocol 1.0.0, held in the official types and advanced by the official reducers, the same that
//! clients run. [`projection`] turns events into actions. The state applies, numbers and fans them out. Older dialects are
//! spelt at the edge of a connection.

mod access;
mod actions;
mod annotations;
mod attachments;
mod automations;
mod changesets;
mod chats;
mod config;
mod connection;
mod contents;
mod conversation;
mod customizations;
mod dialect;
mod face;
mod list;
mod load;
pub mod methods;
mod migrate;
pub mod projection;
mod reading;
mod relay;
pub mod rpc;
mod server;
mod session_config;
mod state;
mod telemetry;
mod terminals;
mod tool_content;
pub mod uri;
pub mod version;
mod watch;
pub mod wire;

pub use config::{AhpConfig, Limits, Policy};
pub use server::Ahp;
