//! The Agent Client Protocol (ACP), version 1: editors drive the sessions of this host by JSON-RPC, one message per line.
//!
//! This room turns a client's requests into commands to sessions, and a session's events into updates. It knows one wire and
//! keeps nothing beyond a connection: everything true of a session belongs to the session. It may not know other wires,
//! models, or how anything is started.

mod connection;
mod content;
mod driver;
mod editor;
mod mcp;
mod methods;
mod projection;
mod questions;
mod relay;
mod session_options;
mod sessions;
mod tools;
mod wire;

pub use connection::{Reload, SETUP_ARGUMENT, serve};
