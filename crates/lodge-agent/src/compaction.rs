//! Making room: the conversation so far becomes a summary. The log keeps everything.

use std::{fmt::Write as _, path::Path, sync::Arc, time::Instant};

use futures_util::StreamExt;
use lodge_events::{CompactionTokensUsed, SessionCompactionComplete, SessionCompactionStart};
use lodge_models::{Chunk, Completion, Message, ModelError, ModelRequest, Part};

use crate::{
    session::Shared,
    turn::{Stop, Turn},
};

const REQUEST: &str = "Please create a detailed summary of the conversation so far. The history is being compacted, so whatever \
is not in the summary is lost to you. Keep: what the person wants, what was decided and why, which files were read or changed \
and how, what was tried, what failed, and what is left to do.";

/// What a compaction achieved.
#[derive(Debug, Clone)]
pub struct Compacted {
    /// The summary.
    pub summary: String,
    /// Messages that it stands for.
    pub messages_removed: u64,
    /// Tokens saved; less than nothing when the conversation was short.
    pub tokens_removed: i64,
}

impl Turn {
    /// Compacts when the conversation nears the end of the model's window.
    pub(crate) async fn compact_if_needed(&self) -> Result<(), Stop> {
        let (compaction, window) = {
            let settings = self.shared.settings.lock();
            (settings.compaction, settings.model.info().context_window)
        };
        let (_, tokens) = self.shared.recorder.size()?;
        let tokens = tokens + self.system.len() as u64 / 4;
        if compaction.enabled && tokens as f64 > window as f64 * compaction.threshold {
            self.compact(None).await?;
        }
        Ok(())
    }

    /// Compacts now. Nothing, when the model could not summarise; clients have been told.
    pub(crate) async fn compact(&self, instructions: Option<&str>) -> Result<Option<Compacted>, Stop> {
        compact(&self.shared, &self.system, instructions).await
    }
}

/// Compacts a session's conversation.
pub(crate) async fn compact(
    shared: &Shared,
    system: &Arc<str>,
    instructions: Option<&str>,
) -> Result<Option<Compacted>, Stop> {
    let recorder = &shared.recorder;
    let (messages, before) = recorder.size()?;
    recorder.record(SessionCompactionStart {
        conversation_tokens: Some(before),
        system_tokens: Some(system.len() as u64 / 4),
        ..SessionCompactionStart::default()
    })?;
    let _ = shared
        .hook("preCompact", serde_json::json!({"trigger": "auto"}))
        .await?;
    let started = Instant::now();
    let completion = match summarise(shared, system, instructions).await {
        Ok(completion) => completion,
        Err(error) => {
            recorder.record(SessionCompactionComplete {
                success: false,
                error: Some(error.message),
                ..SessionCompactionComplete::default()
            })?;
            return Ok(None);
        }
    };
    let summary = completion.message.text.to_string();
    let number = recorder.facts(|facts| facts.compactions) + 1;
    let title = recorder
        .facts(crate::facts::Facts::title)
        .unwrap_or_else(|| "checkpoint".into());
    let checkpoint = write_checkpoint(&shared.dir, number, &title, &summary)
        .map_err(|error| tracing::warn!(%error, "the checkpoint file could not be written"))
        .ok();
    let after = summary.len() as u64 / 4;
    let usage = completion.usage;
    recorder.record(SessionCompactionComplete {
        success: true,
        pre_compaction_tokens: Some(before),
        post_compaction_tokens: Some(after),
        pre_compaction_messages_length: Some(messages as u64),
        messages_removed: Some(messages as u64),
        tokens_removed: Some(before as i64 - after as i64),
        summary_content: Some(summary.clone()),
        checkpoint_number: Some(number),
        checkpoint_path: checkpoint,
        compaction_tokens_used: Some(CompactionTokensUsed {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            duration: Some(started.elapsed().as_millis() as u64),
            model: Some(shared.settings.lock().model.info().id.clone()),
            ..CompactionTokensUsed::default()
        }),
        request_id: completion.provider_call_id,
        ..SessionCompactionComplete::default()
    })?;
    Ok(Some(Compacted {
        summary,
        messages_removed: messages as u64,
        tokens_removed: before as i64 - after as i64,
    }))
}

async fn summarise(shared: &Shared, system: &Arc<str>, instructions: Option<&str>) -> Result<Completion, ModelError> {
    let fail = |message: String| ModelError {
        kind: lodge_models::ErrorKind::Connection,
        message,
        status: None,
        retry_after: None,
        provider_call_id: None,
        retryable: false,
    };
    let mut messages = shared
        .recorder
        .messages(shared.settings().model.info().vision)
        .map_err(|error| fail(error.to_string()))?;
    let mut text = REQUEST.to_owned();
    if let Some(more) = instructions {
        let _ = write!(text, "\n\n{more}");
    }
    messages.push(Message::User(vec![Part::Text(text.into())]));
    let settings = shared.settings();
    let request = ModelRequest {
        system: system.clone(),
        messages,
        headers: settings.headers.clone(),
        user_agent: settings.client_name.clone(),
        ..ModelRequest::default()
    };
    let mut stream = settings.model.call(Arc::new(request));
    while let Some(chunk) = stream.next().await {
        if let Chunk::Done(completion) = chunk? {
            return Ok(*completion);
        }
    }
    Err(fail("The model's summary ended before it was complete.".into()))
}

/// Keeps the summary as a file of its own, and a line about it in the index.
fn write_checkpoint(dir: &Path, number: u64, title: &str, summary: &str) -> std::io::Result<String> {
    let folder = dir.join("checkpoints");
    std::fs::create_dir_all(&folder)?;
    let slug: String = title
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(6)
        .collect::<Vec<_>>()
        .join("-");
    let name = format!("{number:03}-{slug}.md");
    let path = folder.join(&name);
    std::fs::write(&path, summary)?;
    let index = folder.join("index.md");
    let mut table = std::fs::read_to_string(&index).unwrap_or_else(|_| "| # | Title | File |\n|---|---|---|\n".into());
    let _ = writeln!(table, "| {number} | {} | {name} |", title.replace('|', "/"));
    std::fs::write(index, table)?;
    Ok(path.to_string_lossy().into_owned())
}
