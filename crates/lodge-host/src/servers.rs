//! The MCP servers of a session before its clients supply theirs, and the host's sign-ins to servers.

use std::path::Path;

use lodge_mcp::{Configured, Logins};
use lodge_trust::Gate;

use crate::{McpFiles, host::Inner, plugins::Plugins, session::Session, trust::Trust};

impl Inner {
    /// What [`mcp_servers`] says of this host.
    pub(crate) fn mcp_of_files(&self, files: &McpFiles, cwd: &Path) -> Vec<Configured> {
        let configured = self.mcp_servers.lock().clone();
        mcp_servers(self.home.path(), &Trust::of(&self.home), &configured, files, cwd)
    }
}

impl Session {
    /// The MCP servers that installed plugins and files describe for this session now, if it is to have any of files. Reads
    /// files.
    pub fn configured_servers(&self) -> Vec<Configured> {
        let files = self.0.mcp_files.lock().clone();
        let settings = self.settings();
        let host = self.0.host.upgrade();
        let mut servers = host.map_or_else(Vec::new, |host| host.mcp_of_files(&files, &settings.cwd));
        for server in Plugins::servers(&settings.customization.installed_plugins) {
            if servers.iter().all(|known| known.name != server.name) {
                servers.push(server);
            }
        }
        servers
    }

    /// Says which MCP servers of files the session has, and gives it those.
    pub(crate) fn use_mcp_files(&self, files: McpFiles) {
        *self.0.mcp_files.lock() = files;
        self.add_mcp_servers(self.configured_servers());
    }
}

/// The MCP servers that the person and files describe for a session in this folder. What a folder describes that nobody
/// trusts is there to be seen, and says what it takes to be started.
pub fn mcp_servers(
    home: &Path,
    trust: &Trust,
    configured: &[Configured],
    files: &McpFiles,
    cwd: &Path,
) -> Vec<Configured> {
    let (home, gate) = match files {
        McpFiles::Off => return Vec::new(),
        McpFiles::Trusted => (home, trust.gate()),
        McpFiles::All(other) => (other.as_deref().unwrap_or(home), Gate::vouched_for()),
    };
    let mut servers = configured.to_vec();
    let own = lodge_mcp::files::of_user(home).into_iter();
    for server in own.chain(lodge_mcp::files::of_project(cwd, &gate)) {
        servers.retain(|known| known.name != server.name);
        servers.push(server);
    }
    servers
}

/// What a host has signed in to, for all who use its home.
pub fn logins(home: &Path) -> Logins {
    Logins::new(home.join("mcp-oauth"))
}
