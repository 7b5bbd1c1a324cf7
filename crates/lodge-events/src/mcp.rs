//! MCP servers and what they ask for.

use serde_json::Value;

use crate::macros::events;
use crate::{McpServer, McpStatus, OauthChallenge, OauthClientConfig, OauthHttpResponse, OauthOutcome, OauthReason};

events! {
    "MCP";

    "session.mcp_servers_loaded" SessionMcpServersLoaded ephemeral newer
        "The MCP servers were loaded." {
        servers: Vec<McpServer> = "All current servers.",
    }

    "session.mcp_server_status_changed" SessionMcpServerStatusChanged ephemeral newer
        "The state of an MCP server changed." {
        server_name: String = "The server.",
        status: McpStatus = "Its state.",
        error? String = "The error, when it failed.",
    }

    "session.mcp_server_tools_loaded" SessionMcpServerToolsLoaded ephemeral newer
        "A connected MCP server listed its tools." {
        server_name: String = "The server.",
        tool_count: u64 = "How many it listed.",
    }

    "session.mcp_server_removed" SessionMcpServerRemoved ephemeral newer
        "An MCP server was removed." {
        server_name: String = "The server.",
    }

    "session.mcp_server_needs_reconnect" SessionMcpServerNeedsReconnect ephemeral newer
        "An MCP server must be connected again." {
        server_name: String = "The server.",
    }

    "mcp.tools.list_changed" McpToolsListChanged ephemeral newer
        "The tools of an MCP server changed." {
        server_name: String = "The server.",
    }

    "mcp.resources.list_changed" McpResourcesListChanged ephemeral newer
        "The resources of an MCP server changed." {
        server_name: String = "The server.",
    }

    "mcp.prompts.list_changed" McpPromptsListChanged ephemeral newer
        "The prompts of an MCP server changed." {
        server_name: String = "The server.",
    }

    "mcp.oauth_required" McpOauthRequired ephemeral newer
        "An MCP server wants the user to sign in." {
        request_id: String = "Used to answer.",
        server_name: String = "The server.",
        server_url: String = "Its address.",
        static_client_config? OauthClientConfig = "OAuth client the server names.",
        www_authenticate_params? OauthChallenge = "What its challenge said.",
        http_response? OauthHttpResponse = "The challenge as it came.",
        resource_metadata? String = "Its metadata document.",
        reason: OauthReason = "Why credentials are needed.",
    }

    "mcp.oauth_completed" McpOauthCompleted ephemeral newer
        "Signing in to an MCP server ended." {
        request_id: String = "Matches `mcp.oauth_required`.",
        outcome: OauthOutcome = "How.",
    }

    "sampling.requested" SamplingRequested ephemeral newer
        "An MCP server sends a prompt to the model." {
        request_id: String = "Used to answer.",
        server_name: String = "The server.",
        mcp_request_id: Value = "Its own id of the request.",
        request? Value = "What it asks: the parameters of MCP's `sampling/createMessage`.",
    }

    "sampling.completed" SamplingCompleted ephemeral newer
        "A sampling request was handled." {
        request_id: String = "Matches `sampling.requested`.",
    }
}
