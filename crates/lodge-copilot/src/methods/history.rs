//! The conversation as a whole: compacting, rewinding and clearing it.

use std::{fmt::Write as _, sync::Arc};

use lodge_events::{Event, Payload, SessionIdle};
use lodge_host::{AgentError, Entry, Prompt, Publish, Session, Skip, Span};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{Capability, Nothing, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static HISTORY: Capability = Capability {
    title: "History",
    methods: &[
        method!(session "session.history.compact", 3, "replaces the conversation with a summary", compact),
        method!(session "session.history.truncate", 3, "rewinds the session to before an event", truncate),
        method!(session "session.history.summarizeForHandoff", 2, "a summary of the conversation, to hand it over", handoff),
        method!(session "session.history.clearContext", 0, "forgets the conversation, keeps the session", clear_context),
        method!(session "session.history.listRewindPoints", 1, "messages that the session can be rewound to", rewind_points),
        method!(session "session.history.previewRewind", 1, "what a rewind would change", preview_rewind),
        method!(session "session.history.rewind", 1, "rewinds the conversation and files", rewind),
        method!(session "session.history.abortManualCompaction", 1, "stops a compaction", abort_compaction),
        method!(session "session.history.cancelBackgroundCompaction", 1, "stops a compaction", cancel_compaction),
    ],
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CompactParams {
    custom_instructions: Option<String>,
}

async fn compact(session: Arc<Attached>, params: CompactParams) -> Result<Value, RpcError> {
    let done = session.session().compact(params.custom_instructions).await?;
    Ok(json!({
        "success": true,
        "tokensRemoved": done.tokens_removed,
        "messagesRemoved": done.messages_removed,
        "summaryContent": done.summary,
    }))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventParams {
    event_id: String,
}

fn event_id(params: &EventParams) -> Result<Uuid, RpcError> {
    params
        .event_id
        .parse()
        .map_err(|_| RpcError::failed(format!("Event {} not found", params.event_id)))
}

async fn truncate(session: Arc<Attached>, params: EventParams) -> Result<Value, RpcError> {
    let removed = session.session().truncate(event_id(&params)?).await?;
    Ok(json!({"eventsRemoved": removed, "checkpointCleanupFailed": false}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClearParams {
    prompt: Option<String>,
}

/// Clears the conversation and starts again with a prompt. If a turn runs (one of the client's tools may have called
/// this), the clearing waits for its end, but the response does not.
async fn clear_context(attached: Arc<Attached>, params: ClearParams) -> Result<Value, RpcError> {
    let session = attached.session().clone();
    let messages = session.context_size()?.messages;
    if session.is_busy() {
        let idle = Arc::new(Idle::default());
        let listening = session.listen(idle.clone());
        tokio::spawn(async move {
            if session.is_busy() {
                idle.0.notified().await;
            }
            drop(listening);
            if let Err(error) = begin_anew(&session, params.prompt).await {
                tracing::warn!(%error, "the context could not be cleared");
            }
        });
    } else {
        begin_anew(&session, params.prompt).await?;
    }
    Ok(json!({"messagesCleared": messages}))
}

async fn begin_anew(session: &Session, prompt: Option<String>) -> Result<(), AgentError> {
    let prompt = prompt.filter(|text| !text.trim().is_empty());
    session.clear_context(prompt.clone()).await?;
    if let Some(text) = prompt {
        session
            .send(Prompt {
                text,
                ..Prompt::default()
            })
            .await?;
    }
    Ok(())
}

/// Waits for `session.idle`.
#[derive(Default)]
struct Idle(Notify);

impl Publish for Idle {
    fn publish(&self, event: &Event) {
        if event.is::<SessionIdle>() {
            self.0.notify_one();
        }
    }
}

async fn rewind_points(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let session = session.session();
    let mut points = Vec::new();
    for point in session.rewind_points().await? {
        let event = point.event.to_string();
        let turn = session.changes_of(Span::Turn(event.clone())).await.unwrap_or_default();
        let since = session.changes_of(Span::Since(event.clone())).await.unwrap_or_default();
        let (mut added, mut removed) = (0, 0);
        for (_, lines) in session.lines_of(turn.clone()).await? {
            let (more, less) = lines.unwrap_or_default();
            (added, removed) = (added + more, removed + less);
        }
        points.push(json!({
            "eventId": event,
            "userMessage": point.text,
            "timestamp": lodge_events::timestamp_text(point.time),
            "canRestoreFiles": !since.is_empty(),
            "fileCount": since.len(),
            "turnChangedFiles": !turn.is_empty(),
            "linesAdded": added,
            "linesRemoved": removed,
            "isAutopilotContinuation": point.is_continuation,
        }));
    }
    Ok(json!({"fileChangeTrackingEnabled": true, "points": points}))
}

async fn preview_rewind(session: Arc<Attached>, params: EventParams) -> Result<Value, RpcError> {
    let event = event_id(&params)?.to_string();
    let session = session.session();
    if session.is_busy() {
        return Ok(json!({"available": false, "reason": "session-busy", "fileCount": 0, "files": []}));
    }
    let deltas = session.changes_of(Span::Since(event)).await?;
    let mut files = Vec::new();
    for (delta, lines) in session.lines_of(deltas).await? {
        let change = match (&delta.before, &delta.after) {
            (Entry::Absent, _) => "created",
            (_, Entry::Absent) => "deleted",
            _ => "modified",
        };
        let (added, removed) = lines.unwrap_or_default();
        files.push(json!({"path": delta.path, "changeType": change, "linesAdded": added, "linesRemoved": removed}));
    }
    Ok(json!({"available": true, "fileCount": files.len(), "files": files}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RewindParams {
    event_id: String,
    mode: String,
}

async fn rewind(session: Arc<Attached>, params: RewindParams) -> Result<Value, RpcError> {
    let files = match params.mode.as_str() {
        "conversation" => false,
        "conversation-and-files" => true,
        other => return Err(RpcError::params(format!("Unknown mode: {other}"))),
    };
    if session.session().is_busy() {
        return Ok(json!({"outcome": "session-busy", "restoredFiles": [], "skippedFiles": []}));
    }
    let event = event_id(&EventParams {
        event_id: params.event_id,
    })?;
    let rewound = session.session().rewind(event, files).await?;
    let skipped = rewound.left_alone().into_iter().map(|(path, why)| {
        let reason = match why {
            Skip::Changed => "user-modified",
            Skip::NotKept | Skip::Failed(_) => "skipped-capture",
        };
        json!({"path": path, "reason": reason})
    });
    Ok(json!({
        "outcome": "success",
        "eventsRemoved": rewound.events,
        "restoredFiles": rewound.files.restored,
        "skippedFiles": skipped.collect::<Vec<_>>(),
    }))
}

async fn abort_compaction(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"aborted": session.session().cancel_compaction().await?}))
}

async fn cancel_compaction(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"cancelled": session.session().cancel_compaction().await?}))
}

/// From the log alone, without a model call.
async fn handoff(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let history = session.session().history()?;
    let title = session.session().state().title();
    let read = move || summary(title.as_deref(), history.events().filter_map(Result::ok));
    let summary = tokio::task::spawn_blocking(read).await.map_err(RpcError::failed)?;
    Ok(json!({"summary": summary}))
}

fn summary(title: Option<&str>, events: impl Iterator<Item = Event>) -> String {
    let (mut asked, mut answered, mut before) = (String::new(), None, None);
    for event in events.filter(|event| event.agent_id().is_none()) {
        match event.payload() {
            Payload::UserMessage(message) if message.source.is_none() => {
                let _ = writeln!(asked, "- {}", message.content.trim().replace('\n', "\n  "));
            }
            Payload::AssistantMessage(message) if !message.content.trim().is_empty() => {
                answered = Some(message.content.trim().to_owned());
            }
            Payload::SessionCompactionComplete(done) if done.success => before = done.summary_content.clone(),
            _ => {}
        }
    }
    if asked.is_empty() {
        return String::new();
    }
    let mut text = format!("# {}\n\n## Asked\n\n{asked}", title.unwrap_or("Session"));
    for (heading, part) in [("Summary of earlier work", before), ("Last answer", answered)] {
        if let Some(part) = part {
            let _ = write!(text, "\n## {heading}\n\n{part}\n");
        }
    }
    text
}
