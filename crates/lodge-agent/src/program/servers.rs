//! The session's MCP servers, in the form in which a program gets them.

use lodge_external::{McpServer, McpTransport};
use lodge_mcp::Transport;

use crate::session::Shared;

/// Starts what follows in a directory, which the protocol has no word for.
const IN_DIRECTORY: &str = r#"cd -- "$0" && exec "$@""#;

impl Shared {
    /// What a program may connect to by itself. All of it has passed the gate.
    pub(super) fn servers_for_programs(&self) -> Vec<McpServer> {
        let around = self.settings.lock().cwd.clone();
        let servers = self.mcp.shareable().into_iter();
        servers
            .map(|(name, config)| McpServer {
                name,
                transport: match config.transport {
                    Transport::Stdio {
                        command,
                        args,
                        env,
                        cwd: None,
                    } => McpTransport::Stdio { command, args, env },
                    Transport::Stdio {
                        command,
                        args,
                        env,
                        cwd: Some(cwd),
                    } => {
                        let cwd = around.join(cwd).to_string_lossy().into_owned();
                        let before = ["-c".to_owned(), IN_DIRECTORY.to_owned(), cwd, command];
                        McpTransport::Stdio {
                            command: "/bin/sh".to_owned(),
                            args: before.into_iter().chain(args).collect(),
                            env,
                        }
                    }
                    Transport::Http(remote) => McpTransport::Http {
                        url: remote.url,
                        headers: remote.headers,
                    },
                    Transport::Sse(remote) => McpTransport::Sse {
                        url: remote.url,
                        headers: remote.headers,
                    },
                },
            })
            .collect()
    }
}
