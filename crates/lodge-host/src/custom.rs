//! Where the user's skills, agents and MCP servers come from.

use std::{collections::BTreeSet, path::Path};

use lodge_mcp::Configured;
use lodge_tools::custom::Places;

use crate::{Host, HostError, McpFiles};

impl Host {
    /// Where the user's skills and agents are.
    pub fn places(&self) -> Places {
        Places::of_user(self.home().path())
    }

    /// The MCP servers that files describe for a new session in this folder. Reads files.
    pub fn configured_servers(&self, cwd: &Path) -> Vec<Configured> {
        self.inner().mcp_of_files(&McpFiles::default(), cwd)
    }

    /// What was signed in to, for all sessions.
    pub fn mcp_logins(&self) -> &lodge_mcp::Logins {
        self.inner().mcp_logins()
    }

    /// Names of skills that are off in new sessions.
    pub fn disabled_skills(&self) -> BTreeSet<String> {
        self.decisions().disabled_skills()
    }

    /// Says which skills are off in new sessions.
    pub fn set_disabled_skills(&self, names: &BTreeSet<String>) -> Result<(), HostError> {
        self.home().ensure()?;
        let decided = self.decisions().set_disabled_skills(names);
        decided.map_err(|error| HostError::Invalid(error.to_string()))
    }
}
