//! A live session, as faces hold it.
//!
//! What can be done with a session is in four groups, by where it could be done. With several hosts on one log, any host
//! could follow a session and fold its state, commands would travel to the host that runs it, and only that one could
//! answer what no event says.
//!
//! | group | what it takes |
//! |---|---|
//! | `commands` | plain data; the log has the effect before the answer |
//! | `state`, `follow` | the log, and what is published beside it |
//! | `queries` | the process that runs the session |
//! | `clients` | a client that is connected to that process, and the objects it brings |
//!
//! The modules of this crate that know more than the agent does (`changes`, `commands`, `rewind`, `schedules`) add theirs.

mod clients;
mod commands;
mod follow;
mod queries;
mod state;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use lodge_agent::Agent;
use parking_lot::Mutex;

pub use self::{clients::Attachment, queries::SessionSettings};
use crate::{BroughtPlugin, Caller, Host, McpFiles, host::Inner, hub::Hub};

pub(crate) struct Live {
    pub(crate) agent: Agent,
    pub(crate) hub: Arc<Hub>,
    pub(crate) host: Weak<Inner>,
    /// The caller on whose behalf it was started.
    pub(crate) caller: Option<Arc<Caller>>,
    /// The MCP servers from files that it has.
    pub(crate) mcp_files: Mutex<McpFiles>,
    /// The plugins that a client brought to it.
    pub(crate) brought: Mutex<Vec<BroughtPlugin>>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.hub.close();
    }
}

/// A live session. It stays in memory while somebody holds it.
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Live>);

impl Session {
    /// Its id.
    pub fn id(&self) -> &str {
        self.agent().id()
    }

    /// Its own directory.
    pub fn dir(&self) -> &Path {
        self.agent().dir()
    }

    /// The name under which models and clients know its directory.
    pub fn shown_dir(&self) -> &Path {
        self.agent().shown_dir()
    }

    /// The path of the plan, whether or not there is one.
    pub fn plan_path(&self) -> PathBuf {
        self.agent().plan_path()
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.0.agent
    }

    /// The session's host.
    pub(crate) fn host(&self) -> Option<Host> {
        Some(Host(self.0.host.upgrade()?, self.0.caller.clone()))
    }

    /// The home's directory.
    pub(crate) fn home_path(&self) -> Option<PathBuf> {
        self.host().map(|host| host.home().path().to_owned())
    }
}
