//! MCP servers: their configuration, processes and connections, their tools, resources and prompts.
//!
//! This crate knows the servers of one session at a time and what they offer. It may not know sessions, models, events
//! or any wire of Lodge's own. A server that crashes, hangs, floods or lies harms only itself: what it sends is limited
//! in size and rate, requests to it are limited in time, and its whole process group ends with it.

mod call;
mod config;
mod connection;
mod credentials;
pub mod files;
mod handler;
mod http;
mod info;
mod loopback;
mod oauth;
mod owner;
mod rate_limit;
mod servers;
mod sse;
mod stdio;
mod surroundings;
mod tasks;

pub use call::{Call, CallResult, Progress};
pub use config::{OauthClient, Remote, ServerConfig, Source, Transport, check_name};
pub use credentials::{AuthReason, AuthRequest, Challenge, Secret};
pub use info::{Configured, Prompt, ServerInfo, Status, Tool};
pub use lodge_trust::Admitted;
pub use oauth::{Login, LoginOptions, Logins};
pub use owner::{Elicitation, ElicitationAnswer, List, Owner, Sampling};
pub use servers::{Servers, installations};
pub use surroundings::Surroundings;

/// Why a server did not do what was asked of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum McpError {
    /// It is not connected.
    #[error("MCP server \"{0}\" is not connected")]
    NotConnected(String),
    /// There is none of this name.
    #[error("MCP server \"{0}\" is not configured")]
    NotConfigured(String),
    /// It answered with an error, and this is its text.
    #[error("{0}")]
    Refused(String),
    /// It did not answer in time.
    #[error("MCP server \"{server}\" did not answer within {seconds} s")]
    TimedOut {
        /// The server.
        server: String,
        /// The time it had.
        seconds: u64,
    },
    /// It went away while it was asked.
    #[error("MCP server \"{0}\" closed the connection")]
    Closed(String),
    /// Somebody has to sign in first.
    #[error("MCP server \"{0}\" requires authentication")]
    NeedsAuth(String),
    /// It could not be reached or did not behave, and the text says how.
    #[error("{0}")]
    Failed(String),
}
