//! JSON-RPC 2.0 between two programs, one message per line, requests in both directions.
//!
//! This crate knows messages, their limits, who waits for which answer, and programs that communicate over their
//! standard streams. It may not know any method.

mod lines;
mod message;
mod peer;
mod process;

pub use lines::{LONGEST, Line, Lines};
pub use message::{
    AUTH_REQUIRED, CANCELLED, Error, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message,
    NOT_FOUND, PARSE_ERROR, lenient, nullable, params,
};
pub use peer::{Peer, PeerRequest};
pub use process::{Launch, Process};
