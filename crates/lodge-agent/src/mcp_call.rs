//! A call of an MCP server's tool: permission, the hook before it, the call, its result.

use std::sync::Arc;

use lodge_events::{
    AudioBlock, ContentBlock, ImageBlock, McpPermission, PermissionRequest, ResourceBlock, ResourceLinkBlock,
    TextBlock, ToolExecutionProgress,
};
use lodge_mcp::{CallResult, McpError};
use lodge_tools::spill::{Collected, Taken};
use serde_json::Value;

use crate::{
    hooks::Step,
    mcp::McpTool,
    tool_call::{Call, Outcome, Success},
    turn::Stop,
};

impl Call<'_> {
    /// A tool of an MCP server.
    pub(crate) async fn mcp(&self, tool: &McpTool, args: &mut Value, allowed: bool) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let mut refused = shared.plan_refusal(tool.tool.read_only);
        let request = PermissionRequest::Mcp(McpPermission {
            server_name: tool.server.to_string(),
            tool_name: tool.tool.name.clone(),
            tool_title: tool.title(),
            args: Some(args.clone()),
            read_only: tool.tool.read_only,
            ..McpPermission::default()
        });
        if refused.is_none() && (!allowed || shared.is_governed(&request)) {
            refused = self
                .permit(request, args)
                .await?
                .or_else(|| shared.plan_refusal(tool.tool.read_only));
        }
        if let Some(refused) = refused {
            self.start(args.clone()).await?;
            return Ok(refused);
        }
        self.start(args.clone()).await?;
        let step = Step::PreMcpToolCall {
            tool_call_id: self.id,
            server_name: &tool.server,
            tool_name: &tool.tool.name,
            arguments: args,
        };
        let meta = shared.hook(step).await?.meta_to_use;
        let progress = {
            let (recorder, id) = (Arc::downgrade(shared), self.id.to_owned());
            Arc::new(move |progress_message| {
                if let Some(shared) = recorder.upgrade() {
                    shared.recorder.note(ToolExecutionProgress {
                        tool_call_id: id.clone(),
                        progress_message,
                    });
                }
            })
        };
        let call = lodge_mcp::Call {
            id: self.id.to_owned(),
            tool: tool.tool.name.clone(),
            arguments: args.as_object().cloned(),
            meta,
            progress,
        };
        let mut result = shared.mcp.call(&tool.server, call.clone()).await;
        if matches!(result, Err(McpError::NeedsAuth(_))) && self.sign_in(&tool.server).await? {
            result = shared.mcp.call(&tool.server, call).await;
        }
        Ok(match result {
            Ok(result) => self.mcp_outcome(result),
            Err(McpError::Refused(text)) => Outcome::failed(format!("MCP server '{}': {text}", tool.server), "failure"),
            Err(error) => Outcome::failed(error.to_string(), "failure"),
        })
    }

    fn mcp_outcome(&self, result: CallResult) -> Outcome {
        let shared = &self.turn.shared;
        let limit = shared.settings.lock().max_tool_output;
        let contents: Vec<ContentBlock> = result.content.iter().filter_map(block).collect();
        let mut collected = Collected::new(shared.tool_state.temp(), limit);
        collected.push(&text_of(&contents, result.structured.as_ref()));
        let Taken { text, shown } = collected.take();
        if result.is_error {
            let text = if text.is_empty() {
                "The tool failed without saying why.".into()
            } else {
                text
            };
            return Outcome::failed(text, "failure");
        }
        // Text stands in `content` already; what it cannot say stands beside it.
        let beside = contents.iter().any(|block| !matches!(block, ContentBlock::Text(_)));
        Outcome::Done(Box::new(Success {
            detailed: Some(shown.unwrap_or_else(|| text.clone())),
            content: text,
            contents: if beside { contents } else { Vec::new() },
            structured: result.structured,
            mcp_meta: result.meta,
            ..Success::default()
        }))
    }
}

/// What the model reads.
fn text_of(contents: &[ContentBlock], structured: Option<&Value>) -> String {
    let texts = contents.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.clone()),
        ContentBlock::Resource(resource) => match (&resource.resource.text, &resource.resource.blob) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(_)) => Some(format!("[resource {}]", resource.resource.uri)),
            (None, None) => None,
        },
        ContentBlock::ResourceLink(link) => Some(format!("[{}]({})", link.name, link.uri)),
        ContentBlock::Audio(audio) => Some(format!("[audio of type {}]", audio.mime_type)),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    match structured {
        Some(structured) if text.is_empty() && contents.is_empty() => structured.to_string(),
        _ => text,
    }
}

/// A block of MCP, or of ACP, as events have it; nothing for kinds that nobody knows.
pub(crate) fn block(value: &Value) -> Option<ContentBlock> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    Some(match value["type"].as_str()? {
        "text" => ContentBlock::Text(TextBlock { text: text("text")? }),
        "image" => ContentBlock::Image(ImageBlock {
            data: text("data")?,
            mime_type: text("mimeType")?,
        }),
        "audio" => ContentBlock::Audio(AudioBlock {
            data: text("data")?,
            mime_type: text("mimeType")?,
        }),
        "resource_link" => ContentBlock::ResourceLink(ResourceLinkBlock {
            name: text("name")?,
            uri: text("uri")?,
            title: text("title"),
            description: text("description"),
            mime_type: text("mimeType"),
            size: value["size"].as_u64(),
            icons: value["icons"].as_array().cloned(),
        }),
        "resource" => ContentBlock::Resource(ResourceBlock {
            resource: serde_json::from_value(value["resource"].clone()).ok()?,
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(content: Value, structured: Option<Value>, expected: &str) {
        let contents: Vec<ContentBlock> = content.as_array().into_iter().flatten().filter_map(block).collect();
        assert_eq!(text_of(&contents, structured.as_ref()), expected, "{content}");
    }

    #[test]
    fn the_model_reads_what_can_be_read() {
        check(
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            None,
            "a\nb",
        );
        check(
            json!([{"type": "image", "data": "eA==", "mimeType": "image/png"}]),
            None,
            "",
        );
        check(json!([]), Some(json!({"a": 1})), r#"{"a":1}"#);
        check(json!([{"type": "text", "text": "a"}]), Some(json!({"a": 1})), "a");
        check(
            json!([{"type": "resource", "resource": {"uri": "x://y", "text": "t"}}, {"type": "resource_link", "name": "n", "uri": "x://z"}]),
            None,
            "t\n[n](x://z)",
        );
        check(json!([{"type": "hologram", "data": "?"}, {"type": "text"}]), None, "");
    }
}
