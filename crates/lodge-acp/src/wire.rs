//! The shapes of ACP version 1, as far as this face reads or writes them.
//!
//! The official crate of types builds thirteen more packages, most of them derive macros. These types are checked against the
//! protocol's own JSON schema and its official client instead (`tests/clients/node/acp.test.mjs`).

use std::path::PathBuf;

use lodge_rpc::{lenient, nullable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The one version that is spoken.
pub(crate) const PROTOCOL_VERSION: u16 = 1;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Initialize {
    /// There is only one version, so the requested one is ignored.
    #[serde(rename = "protocolVersion")]
    pub(crate) _protocol_version: Value,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) client_capabilities: ClientCapabilities,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) client_info: Option<Implementation>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Implementation {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClientCapabilities {
    #[serde(deserialize_with = "lenient")]
    pub(crate) auth: AuthCapabilities,
    #[serde(deserialize_with = "lenient")]
    pub(crate) elicitation: Option<ElicitationCapabilities>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) fs: FileCapabilities,
    #[serde(deserialize_with = "lenient")]
    pub(crate) session: SessionFeatures,
    /// The client's extensions to the protocol.
    #[serde(rename = "_meta")]
    meta: Value,
}

impl ClientCapabilities {
    /// Whether the client shows the agent's commands in terminals, as Zed does. This is not part of the protocol.
    pub(crate) fn shows_terminals(&self) -> bool {
        self.meta["terminal_output"] == true
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuthCapabilities {
    #[serde(deserialize_with = "lenient")]
    pub(crate) terminal: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FileCapabilities {
    #[serde(deserialize_with = "lenient")]
    pub(crate) read_text_file: bool,
    #[serde(deserialize_with = "lenient")]
    pub(crate) write_text_file: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ElicitationCapabilities {
    pub(crate) form: Option<Value>,
    pub(crate) url: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SessionFeatures {
    pub(crate) notices: Option<Value>,
    pub(crate) compaction: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSession {
    pub(crate) cwd: PathBuf,
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) additional_directories: Vec<PathBuf>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) mcp_servers: Vec<McpServer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenSession {
    pub(crate) session_id: String,
    pub(crate) cwd: PathBuf,
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) additional_directories: Vec<PathBuf>,
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) mcp_servers: Vec<McpServer>,
}

/// An MCP server that the client supplies. Without a type, it is a program.
#[derive(Debug, Deserialize)]
pub(crate) struct McpServer {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
    pub(crate) command: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) args: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) env: Vec<NameValue>,
    pub(crate) url: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) headers: Vec<NameValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NameValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionId {
    pub(crate) session_id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListSessions {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    pub(crate) session_id: String,
    pub(crate) prompt: Vec<ContentBlock>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetMode {
    pub(crate) session_id: String,
    pub(crate) mode_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetConfigOption {
    pub(crate) session_id: String,
    pub(crate) config_id: String,
    pub(crate) value: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Authenticate {
    pub(crate) method_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelRequest {
    pub(crate) request_id: Value,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ContentBlock {
    Text {
        text: String,
    },
    Image {
        data: String,
        mime_type: String,
    },
    Audio {
        data: String,
        mime_type: String,
    },
    ResourceLink {
        name: String,
        uri: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    Resource {
        resource: Resource,
    },
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::Text { text }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    pub(crate) uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blob: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionNotification<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) update: &'a Update,
}

/// An update of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(crate) enum Update {
    UserMessageChunk(Chunk),
    AgentMessageChunk(Chunk),
    AgentThoughtChunk(Chunk),
    ToolCall(ToolCall),
    #[serde(rename = "tool_call_update")]
    ToolCallChange(ToolCall),
    /// A rare update, with its tag.
    #[serde(untagged)]
    Other(Value),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chunk {
    pub(crate) content: ContentBlock,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<String>,
}

/// A tool call, or changes to one: then only the id is certain to be there.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCall {
    pub(crate) tool_call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Vec<ToolContent>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locations: Vec<Location>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_output: Option<Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(crate) meta: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ToolContent {
    Content {
        content: ContentBlock,
    },
    Diff {
        path: PathBuf,
        #[serde(skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        new_text: String,
    },
    Terminal {
        terminal_id: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
}
