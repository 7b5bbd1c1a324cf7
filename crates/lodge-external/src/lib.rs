//! Other programs' agents: Lodge starts a program that speaks the Agent Client Protocol (ACP) over its standard streams, and is
//! its client.
//!
//! This room knows such programs, their processes and their wire, and passes on their messages as plain data. It may not know
//! sessions, events or other wires. A program that crashes, hangs, floods or lies harms only its own session: its output is
//! limited in size, requests to it are limited in time, and its whole process group ends with it.

mod program;
mod reader;
mod running;
mod said;
mod servers;

pub use program::{AgentEntry, PROVIDER, Program};
pub use running::{ExternalError, Running, Start, Stopped};
pub use said::{
    Block, CallContent, CallUpdate, Command, Location, NewTerminal, Others, PermissionOption, PlanEntry, Reply, Said,
    TerminalRequest, Variable, quoted, unknown,
};
pub use servers::{McpServer, McpTransport};
