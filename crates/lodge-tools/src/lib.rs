//! Tools: what an agent can do on this machine, and what each of those things needs permission for.
//!
//! This room knows files, processes, shell grammar, permission rules and the sandbox. It may not know sessions, models
//! or any wire.

mod tool;

pub use tool::*;
