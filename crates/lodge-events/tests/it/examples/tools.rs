//! Tool calls.

use lodge_events::*;
use serde_json::json;

use super::text;

pub(super) fn tools() -> Vec<Payload> {
    let contents = vec![
        TextBlock { text: "a".into() }.into(),
        TerminalBlock {
            text: "a\n".into(),
            exit_code: Some(-1),
            cwd: text("/"),
        }
        .into(),
        ShellExitBlock {
            shell_id: "s".into(),
            exit_code: 0,
            ..Default::default()
        }
        .into(),
        ImageBlock {
            data: "AA==".into(),
            mime_type: "image/png".into(),
        }
        .into(),
        AudioBlock {
            data: "AA==".into(),
            mime_type: "audio/wav".into(),
        }
        .into(),
        ResourceLinkBlock {
            name: "n".into(),
            uri: "file:///n".into(),
            ..Default::default()
        }
        .into(),
        ResourceBlock {
            resource: ResourceContents {
                uri: "file:///n".into(),
                text: text("a"),
                ..Default::default()
            },
        }
        .into(),
        ResourceBlock {
            resource: ResourceContents {
                uri: "file:///n".into(),
                blob: text("AA=="),
                ..Default::default()
            },
        }
        .into(),
    ];
    let result = ToolResult {
        content: "a".into(),
        detailed_content: text("a"),
        contents: Some(contents),
        ..Default::default()
    };
    let error = ToolError {
        message: "no".into(),
        code: text("denied"),
        remediation: Some(Remediation::SignIn),
    };
    vec![
        ToolUserRequested {
            tool_call_id: "c".into(),
            tool_name: "bash".into(),
            arguments: Some(json!({})),
        }
        .into(),
        ToolExecutionStart {
            tool_call_id: "c".into(),
            tool_name: "bash".into(),
            arguments: Some(json!({"command": "ls"})),
            shell_tool_info: Some(ShellToolInfo {
                possible_paths: vec!["a".into()],
                ..Default::default()
            }),
            mcp_server_name: text("files"),
            mcp_tool_name: text("list"),
            mcp_transport: Some(McpTransport::Stdio),
            mcp_config_source: Some(McpSource::User),
            turn_id: text("0"),
            ..Default::default()
        }
        .into(),
        ToolExecutionPartialResult {
            tool_call_id: "c".into(),
            partial_output: "a".into(),
        }
        .into(),
        ToolShellOutput {
            tool_call_id: "c".into(),
            sequence: 0,
            text: "a".into(),
            stream: Some(ShellStream::Terminal),
        }
        .into(),
        ToolExecutionProgress {
            tool_call_id: "c".into(),
            progress_message: "half".into(),
        }
        .into(),
        ToolExecutionComplete {
            tool_call_id: "c".into(),
            success: true,
            result: Some(result),
            is_user_requested: Some(true),
            tool_telemetry: Some(json!({"properties": {"outcome": "answered"}})),
            shell_execution: Some(ShellExecution { exit_code: 0 }),
            ..Default::default()
        }
        .into(),
        ToolExecutionComplete {
            tool_call_id: "c".into(),
            error: Some(error),
            ..Default::default()
        }
        .into(),
    ]
}
