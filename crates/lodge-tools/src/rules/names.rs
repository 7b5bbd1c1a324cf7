//! What rules about tools call requests. Apps and MCP servers name their tools themselves, so no such name is ever enough for a
//! rule that allows something else: people who allow an app's tool `shell` do not allow commands.

use lodge_events::PermissionRequest;

use super::{RuleSubject, pattern::name_matches};

/// What begins rules about tools of apps alone.
const CLIENT: &str = "client/";
/// What begins rules about servers that ask the model.
const SAMPLING: &str = "mcp-sampling/";

const SHELL: &[&str] = &["shell", "bash"];
const READ: &[&str] = &["read"];
const WRITE: &[&str] = &["write"];
const URL: &[&str] = &["url", "web_fetch"];
const MEMORY: &[&str] = &["memory"];

/// What a request is called, by who chose the name.
pub(super) enum Name<'a> {
    /// A kind of Lodge's own requests.
    Kind(&'static [&'static str]),
    ClientTool(&'a str),
    /// Server and tool.
    ServerTool(String),
    /// The server.
    Sampling(&'a str),
}

impl<'a> Name<'a> {
    pub(super) fn of(request: &'a PermissionRequest) -> Option<Self> {
        Some(match request {
            PermissionRequest::Shell(_) => Self::Kind(SHELL),
            PermissionRequest::Read(_) => Self::Kind(READ),
            PermissionRequest::Write(_) => Self::Kind(WRITE),
            PermissionRequest::Url(_) => Self::Kind(URL),
            PermissionRequest::Memory(_) => Self::Kind(MEMORY),
            // Not a tool: who allows all tools of a server does not mean this.
            PermissionRequest::Mcp(mcp) if mcp.is_sampling() => Self::Sampling(&mcp.server_name),
            PermissionRequest::Mcp(mcp) => Self::ServerTool(format!("{}/{}", mcp.server_name, mcp.tool_name)),
            PermissionRequest::CustomTool(tool) => Self::ClientTool(&tool.tool_name),
            PermissionRequest::Hook(hook) => Self::ClientTool(&hook.tool_name),
            PermissionRequest::Other(_) => return None,
        })
    }

    /// Whether a rule that allows is about it.
    pub(super) fn is(&self, pattern: &str) -> bool {
        match self {
            Self::Kind(names) => names.iter().any(|name| name_matches(name, pattern)),
            Self::ClientTool(name) => match pattern.strip_prefix(CLIENT) {
                Some(pattern) => name_matches(name, pattern),
                None => is_free(name) && name_matches(name, pattern),
            },
            Self::ServerTool(name) => !is_of_family(pattern) && name_matches(name, pattern),
            Self::Sampling(server) => {
                (pattern.starts_with(SAMPLING) || pattern.starts_with('*'))
                    && name_matches(&sampling_of(server), pattern)
            }
        }
    }

    /// Whether a rule that forbids may be about it.
    pub(super) fn may_be(&self, pattern: &str) -> bool {
        let is_like = match self {
            Self::Kind(_) => false,
            Self::ClientTool(name) => name_matches(name, pattern),
            Self::ServerTool(name) => name_matches(name, pattern),
            Self::Sampling(server) => name_matches(&sampling_of(server), pattern),
        };
        is_like || self.is(pattern)
    }

    /// What is kept when people allow it for longer than once.
    pub(super) fn kept(&self) -> Option<RuleSubject> {
        Some(match self {
            Self::Kind(names) => RuleSubject::Tool((*names.first()?).to_owned()),
            Self::ClientTool(name) => client_tool(name),
            Self::ServerTool(name) => server_tools(&escaped(name)),
            Self::Sampling(server) => RuleSubject::Tool(escaped(&sampling_of(server))),
        })
    }
}

/// Whether a rule that names no family can be about an app's tool of this name.
fn is_free(name: &str) -> bool {
    let mut kinds = [SHELL, READ, WRITE, URL, MEMORY].into_iter().flatten();
    !name.contains('/') && !kinds.any(|kind| *kind == name)
}

fn is_of_family(pattern: &str) -> bool {
    [CLIENT, SAMPLING].iter().any(|family| pattern.starts_with(family))
}

/// What rules call it when a server asks the model.
pub fn sampling_of(server: &str) -> String {
    format!("{SAMPLING}{server}")
}

/// The app's tool of this name, and nothing else.
pub fn client_tool(name: &str) -> RuleSubject {
    client_tools(&escaped(name))
}

/// The apps' tools whose names match.
pub fn client_tools(pattern: &str) -> RuleSubject {
    RuleSubject::Tool(format!("{CLIENT}{pattern}"))
}

/// The tool of this MCP server, or all of them.
pub fn server_tool(server: &str, tool: Option<&str>) -> RuleSubject {
    let tool = tool.map_or_else(|| "*".to_owned(), escaped);
    server_tools(&format!("{}/{tool}", escaped(server)))
}

/// The tools of MCP servers that match `<server>/<tool>`, also if a server is called like a family.
pub fn server_tools(pattern: &str) -> RuleSubject {
    RuleSubject::Tool(match is_of_family(pattern) {
        true => format!("[{}]{}", &pattern[..1], &pattern[1..]),
        false => pattern.to_owned(),
    })
}

/// A pattern that only this name matches.
pub fn escaped(name: &str) -> String {
    globset::escape(name).replace('\\', "[\\]")
}

/// The app's tool that a pattern of [`client_tool`] is about.
pub(super) fn of_client(pattern: &str) -> Option<&str> {
    pattern.strip_prefix(CLIENT)
}
