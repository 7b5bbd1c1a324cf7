//! Facts about a session: state, activity, tokens, usage.

use std::sync::Arc;

use jiff::Timestamp;
use lodge_events::{Payload, timestamp_text};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Capability, Nothing, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static METADATA: Capability = Capability {
    title: "Metadata and usage",
    methods: &[
        method!(session "session.metadata.snapshot", 4, "an overview of the session", snapshot),
        method!(session "session.metadata.isProcessing", 1, "whether a turn is running", is_processing),
        method!(session "session.metadata.activity", 1, "whether work is in progress, and whether it can be aborted", activity),
        method!(session "session.metadata.contextInfo", 1, "how full the context is", context_info),
        method!(session "session.metadata.recomputeContextTokens", 1, "tokens of the conversation", recompute),
        method!(session "session.metadata.getContextAttribution", 1, "what fills the context", attribution),
        method!(session "session.metadata.getContextHeaviestMessages", 1, "the longest messages", heaviest),
        method!(session "session.usage.getMetrics", 1, "tokens, time and changes so far", usage),
        method!(session "session.workspaces.getWorkspace", 2, "where the session works and keeps its files", get_workspace),
        method!(session "session.workspaces.ensure", 0, "the same: every session has its own files", get_workspace),
    ],
};

fn started(session: &Attached) -> String {
    timestamp_text(Timestamp::from_millisecond(session.session().state().started_ms).unwrap_or_default())
}

async fn modified(session: &Arc<Attached>) -> String {
    let session = session.clone();
    let summary = tokio::task::spawn_blocking(move || session.session().summary())
        .await
        .ok()
        .flatten();
    timestamp_text(summary.map_or_else(Timestamp::now, |summary| summary.modified))
}

/// The data that the CLI keeps in `workspace.yaml`.
async fn workspace(session: &Arc<Attached>) -> Value {
    let settings = session.session().settings();
    let git = lodge_host::git_context(settings.cwd.clone()).await;
    let facts = session.session().state();
    let mut workspace = json!({
        "id": session.id(),
        "cwd": settings.cwd,
        "user_named": session.session().is_named_by_person(),
        "summary_count": facts.compactions,
        "created_at": started(session),
        "updated_at": modified(session).await,
    });
    for (key, value) in [
        ("client_name", settings.client_name),
        ("name", settings.name.or_else(|| facts.title())),
        ("git_root", git.root),
        ("repository", git.repository),
        ("branch", git.branch),
    ] {
        if let Some(value) = value {
            workspace[key] = json!(value);
        }
    }
    workspace
}

async fn get_workspace(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"workspace": workspace(&session).await, "path": session.session().shown_dir()}))
}

async fn snapshot(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let settings = session.session().settings();
    let mut snapshot = json!({
        "sessionId": session.id(),
        "startTime": started(&session),
        "modifiedTime": modified(&session).await,
        "isRemote": false,
        "alreadyInUse": session.session().clients() > 1,
        "workspacePath": session.session().shown_dir(),
        "workingDirectory": settings.cwd,
        "currentMode": settings.mode.as_str(),
        "selectedModel": settings.model.id,
        "sessionLimits": lodge_host::limits(session.session().settings().limit),
        "workspace": workspace(&session).await,
    });
    if let Some(name) = settings.client_name {
        snapshot["clientName"] = json!(name);
    }
    if let Some(summary) = settings.name.or_else(|| session.session().state().title()) {
        snapshot["summary"] = json!(summary);
    }
    Ok(snapshot)
}

async fn is_processing(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"processing": session.session().is_busy()}))
}

async fn activity(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let busy = session.session().is_busy();
    Ok(json!({"abortable": busy, "hasActiveWork": busy}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextInfoParams {
    prompt_token_limit: u64,
    output_token_limit: u64,
    #[serde(default)]
    selected_model: Option<String>,
}

async fn context_info(session: Arc<Attached>, params: ContextInfoParams) -> Result<Value, RpcError> {
    let size = session.session().context_size()?;
    let settings = session.session().settings();
    let info = &settings.model;
    // 0 means the model's own limit.
    let or = |given: u64, default: u64| if given == 0 { default } else { given };
    let prompt_limit = or(params.prompt_token_limit, info.prompt_limit());
    let output_limit = or(params.output_token_limit, info.max_output_tokens);
    let threshold = (prompt_limit as f64 * settings.compaction.threshold) as u64;
    Ok(json!({"contextInfo": {
        "modelName": params.selected_model.unwrap_or_else(|| info.id.clone()),
        "systemTokens": size.system,
        "conversationTokens": size.conversation,
        "toolDefinitionsTokens": size.tools,
        "mcpToolsTokens": size.mcp_tools,
        "totalTokens": size.total(),
        "promptTokenLimit": prompt_limit,
        "compactionThreshold": threshold,
        "limit": prompt_limit.saturating_add(output_limit),
        "bufferTokens": output_limit,
    }}))
}

async fn recompute(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let size = session.session().context_size()?;
    Ok(json!({
        "totalTokens": size.system + size.conversation,
        "messagesTokenCount": size.conversation,
        "systemTokenCount": size.system,
    }))
}

async fn attribution(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let size = session.session().context_size()?;
    let settings = session.session().settings();
    let info = &settings.model;
    let limit = info.context_window;
    let entry = |kind: &str, id: &str, label: &str, tokens: u64| json!({"kind": kind, "id": id, "label": label, "tokens": tokens});
    let mut entries = vec![
        entry("system", "systemPrompt", "System prompt", size.system),
        entry("system", "toolDefinitions", "Tool definitions", size.tools),
    ];
    for tool in session.session().tools() {
        let bytes = tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
        let mut one = entry(
            "toolDefinition",
            &format!("toolDefinition:{}", tool.name),
            &tool.name,
            bytes as u64 / 4,
        );
        one["parentId"] = json!("toolDefinitions");
        entries.push(one);
    }
    entries.push(entry("messages", "messages", "Messages", size.conversation));
    Ok(json!({"contextAttribution": {
        "totalTokens": size.total(),
        "modelId": info.id,
        "modelSource": "selected",
        "promptTokenLimit": limit.saturating_sub(info.max_output_tokens),
        "limit": limit,
        "bufferTokens": info.max_output_tokens,
        "compactionThreshold": (limit as f64 * settings.compaction.threshold) as u64,
        "categories": {
            "systemPrompt": size.system,
            "customInstructions": 0,
            "systemTools": size.tools,
            "mcpTools": 0,
            "messages": size.conversation,
            "freeSpace": limit.saturating_sub(size.total() + info.max_output_tokens),
            "buffer": info.max_output_tokens,
        },
        "entries": entries,
        "compactions": {"count": session.session().state().compactions},
    }}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LimitParams {
    limit: Option<usize>,
}

async fn heaviest(session: Arc<Attached>, params: LimitParams) -> Result<Value, RpcError> {
    let total = session.session().context_size()?.total();
    let history = session.session().history()?;
    let mut messages = tokio::task::spawn_blocking(move || {
        let mut messages = Vec::new();
        for event in history.events() {
            let event = event?;
            let (role, text) = match event.payload() {
                Payload::UserMessage(message) => {
                    ("user", message.transformed_content.as_ref().unwrap_or(&message.content))
                }
                Payload::AssistantMessage(message) => ("assistant", &message.content),
                _ => continue,
            };
            let start: String = text.chars().take(40).collect();
            let label = format!("{role}: {start}{}", if start.len() < text.len() { "…" } else { "" });
            messages.push((
                text.len() / 4,
                json!({
                    "id": event.id().to_string(), "label": label, "role": role, "tokens": text.len() / 4,
                }),
            ));
        }
        Ok::<_, lodge_host::LogError>(messages)
    })
    .await
    .map_err(RpcError::failed)??;
    messages.sort_by_key(|(tokens, _)| std::cmp::Reverse(*tokens));
    let messages: Vec<_> = messages
        .into_iter()
        .take(params.limit.unwrap_or(10))
        .map(|(_, message)| message)
        .collect();
    Ok(json!({"totalTokens": total, "messages": messages}))
}

async fn usage(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let facts = session.session().state();
    let totals = &facts.totals;
    let models: Map<String, Value> = totals
        .models
        .iter()
        .map(|(name, model)| {
            let metric = json!({
                "requests": {"count": model.requests, "cost": model.cost},
                "totalNanoAiu": model.nano_aiu,
                "usage": {
                    "inputTokens": model.input,
                    "outputTokens": model.output,
                    "cacheReadTokens": model.cache_read,
                    "cacheWriteTokens": model.cache_write,
                    "reasoningTokens": model.reasoning,
                },
            });
            (name.clone(), metric)
        })
        .collect();
    let files: Vec<&String> = totals.files.iter().collect();
    Ok(json!({
        // Premium requests belong to subscriptions; costs in other units are listed per model.
        "totalPremiumRequestCost": 0,
        "totalNanoAiu": totals.nano_aiu(),
        "totalUserRequests": facts.user_messages,
        "totalApiDurationMs": totals.api_ms,
        "sessionStartTime": started(&session),
        "codeChanges": {
            "linesAdded": totals.lines_added,
            "linesRemoved": totals.lines_removed,
            "filesModifiedCount": files.len(),
            "filesModified": files,
        },
        "modelMetrics": models,
        "currentModel": session.session().settings().model.id,
        "lastCallInputTokens": totals.last_input,
        "lastCallOutputTokens": totals.last_output,
    }))
}
