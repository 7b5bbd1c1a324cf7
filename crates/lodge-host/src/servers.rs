//! The MCP servers of a session before its clients supply theirs, and the host's sign-ins to servers.

use std::path::Path;

use lodge_mcp::{Configured, Logins};
use lodge_trust::Gate;

use crate::{McpFiles, host::Inner, plugins::Plugins, session::Session, trust::Trust};

impl Inner {
    /// The result of [`mcp_servers`] for this host.
    pub(crate) fn mcp_of_files(&self, files: &McpFiles, cwd: &Path) -> Vec<Configured> {
        let configured = self.mcp_servers.lock().clone();
        mcp_servers(self.home.path(), &Trust::of(&self.home), &configured, files, cwd)
    }
}

impl Session {
    /// The MCP servers from installed plugins and files for this session, if it uses any from files. Reads files.
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

    /// Sets which MCP servers from files the session has, and adds them.
    pub(crate) fn use_mcp_files(&self, files: McpFiles) {
        *self.0.mcp_files.lock() = files;
        self.add_mcp_servers(self.configured_servers());
    }
}

/// The MCP servers from the person's and the folder's files, for a session in this folder. Those of an untrusted folder
/// are listed, with the way to trust it.
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

/// The sign-ins of a home, shared by all who use it.
pub fn logins(home: &Path) -> Logins {
    Logins::new(home.join("mcp-oauth"))
}
