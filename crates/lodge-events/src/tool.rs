//! Tool calls: requested, started, running, finished.

use serde_json::Value;

use crate::macros::events;
use crate::{McpSource, McpTransport, ShellExecution, ShellStream, ShellToolInfo, ToolError, ToolResult};

events! {
    "Tools";

    "tool.user_requested" ToolUserRequested persisted seed
        "The user asked for a tool call, not the model." {
        tool_call_id: String = "Identifier of this call.",
        tool_name: String = "Name of the tool.",
        arguments? Value = "Arguments of the call.",
    }

    "tool.execution_start" ToolExecutionStart persisted seed
        "A tool begins to run." {
        tool_call_id: String = "Identifier of this call.",
        tool_name: String = "Name of the tool.",
        arguments? Value = "Arguments of the call.",
        shell_tool_info? ShellToolInfo = "Paths a shell command may touch.",
        model? String = "Model that asked for the call.",
        rte? bool = "Eligibility signal of the Copilot API.",
        mcp_server_name? String = "MCP server that has the tool.",
        mcp_config_server_name? String = "Name of that server in the configuration.",
        mcp_tool_name? String = "Name of the tool on that server.",
        mcp_transport? McpTransport = "How that server is reached.",
        mcp_config_source? McpSource = "Where that server was configured.",
        turn_id? String = "Turn the call belongs to.",
        display_verbatim? bool = "Show the output in full.",
        tool_description? Value = "Definition of an MCP tool that brings its own interface.",
        parent_tool_call_id? String = "Set when a sub-agent makes the call.",
    }

    "tool.execution_partial_result" ToolExecutionPartialResult ephemeral seed
        "A piece of a running tool's output." {
        tool_call_id: String = "Matches `tool.execution_start`.",
        partial_output: String = "Output to append.",
    }

    "tool.shell_output" ToolShellOutput ephemeral newer
        "A piece of what a running shell command prints. Newer SDKs show it instead of partial results." {
        tool_call_id: String = "Matches `tool.execution_start`.",
        sequence: u64 = "Counts the pieces of the call from 0.",
        text: String = "Output to append.",
        stream? ShellStream = "Where it comes from; standard output when absent.",
    }

    "tool.execution_progress" ToolExecutionProgress ephemeral seed
        "A running tool reports its progress." {
        tool_call_id: String = "Matches `tool.execution_start`.",
        progress_message: String = "Progress, for people.",
    }

    "tool.execution_complete" ToolExecutionComplete persisted seed
        "A tool finished, successfully or with an error." {
        tool_call_id: String = "Matches `tool.execution_start`.",
        success: bool = "Whether it succeeded.",
        model? String = "Model that asked for the call.",
        mcp_meta? Value = "Labels an MCP server put on its answer.",
        interaction_id? String = "Joins all turns of one user message.",
        rte? bool = "Eligibility signal of the Copilot API.",
        is_user_requested? bool = "True when the user asked for the call.",
        result? ToolResult = "The result, when it succeeded.",
        error? ToolError = "The error, when it did not.",
        tool_telemetry? Value = "Measurements of the tool's own.",
        turn_id? String = "Turn the call belongs to.",
        tool_description? Value = "Definition of an MCP tool that brings its own interface.",
        sandboxed? bool = "Whether the tool ran in a sandbox.",
        shell_execution? ShellExecution = "How a shell command ended.",
        parent_tool_call_id? String = "Set when a sub-agent made the call.",
    }
}
