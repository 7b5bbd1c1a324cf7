//! Tools: what an agent can do on this machine, and what each of those things needs permission for.
//!
//! This room knows files, processes, shell grammar, permission rules and the sandbox. It may not know sessions, models
//! or any wire.
//!
//! A tool is one file in `tools/` that implements [`Tool`]: its words for the model, the permission it needs, what it
//! does. Call [`Tool::need`] and have it decided before [`Tool::run`]: `need` also notes which place was asked for, and
//! `run` touches no other.

pub mod agent_tools;
pub mod changes;
pub mod custom;
mod cx;
mod database;
mod diff;
mod editor;
mod environment;
mod external_files;
pub mod git_env;
mod git_files;
mod guard;
pub mod hooks;
mod html;
mod memory;
pub mod paths;
mod process;
mod request;
pub mod rules;
pub mod sandbox;
mod scratch;
pub mod shell;
mod shells;
pub mod spill;
mod state;
pub mod terminal;
pub mod text;
mod tool;
mod tools;
mod user_command;

pub use database::{Database, Statement, Table};
pub use editor::{Editor, Shown};
pub use environment::{Environment, hide_variables};
pub use external_files::difference;
pub use git_files::GitFiles;
pub use guard::{GUARD, Term, guard_until, guard_with, stand_guard};
pub use memory::{Memories, Memory};
pub use paths::Located;
pub use process::{hand_on_no_ignored_signals, sweep_orphans, unblock_signals};
pub use scratch::{Todo, TodoDependency, Todos};
pub use shells::{BackgroundShell, MAX_STREAMED, NO_LONGER_SHOWN};
pub use state::SessionTools;
pub use tool::*;
pub use tools::builtin;
pub use user_command::UserCommand;

/// The tool that keeps facts; it is offered where memory is wanted.
pub const STORE_MEMORY: &str = "store_memory";
