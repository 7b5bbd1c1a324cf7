//! Other programs' agents: Lodge starts a program that speaks the Agent Client Protocol (ACP) over its standard streams, and is
//! its client.
//!
//! This room knows such programs, their processes and their wire, and passes on their messages as plain data. It may not know
//! sessions, events or other wires. A program that crashes, hangs, floods or lies harms only its own session: its output is
//! limited in size, requests to it are limited in time, and its whole process group ends with it.

mod failure;
mod greeting;
mod program;
mod reader;
mod reply;
mod running;
mod said;
mod servers;

pub use failure::ExternalError;
pub use greeting::PromptCapabilities;
pub use program::{AgentEntry, PROVIDER, Program};
pub use reply::{PermissionOption, Reply, Ways};
pub use running::{Running, Start, Stopped};
pub use said::{
    Block, CallContent, CallUpdate, Command, Elicitation, Location, NewTerminal, Others, PlanEntry, Resource,
    ResourceContent, Said, TerminalRequest, Variable, quoted, unknown, words,
};
pub use servers::{McpServer, McpTransport};
