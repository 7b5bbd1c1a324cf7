//! Compaction: replaces the conversation with a summary for the model. The log keeps everything.

use std::{fmt::Write as _, future::ready, path::Path, sync::Arc, time::Instant};

use futures_util::StreamExt;
use lodge_events::{
    AssistantUsage, CompactionTokensUsed, CompactionTrigger, SessionCompactionComplete, SessionCompactionStart,
};
use lodge_log::LogError;
use lodge_models::{Chunk, Completion, Message, ModelError, ModelRequest, Part, ToolSpec};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    call,
    hooks::Step,
    session::{ContextSize, Shared},
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
    /// Makes room when the conversation nears the end of the model's window: beside the turn while there is some left,
    /// before the next call when there is not. What one beside the turn comes to counts when what is given here is let go of:
    /// the question that the model answers meanwhile is summarised with its answer in sight, however quick the summary is.
    pub(crate) async fn compact_if_needed(&self, tools: &[ToolSpec]) -> Result<Option<DropGuard>, Stop> {
        let compaction = self.shared.settings.lock().compaction;
        let fullness = self.fullness(tools)?;
        if !compaction.enabled || fullness <= compaction.threshold {
            return Ok(None);
        }
        if fullness <= compaction.exhaustion {
            return self.compact_beside();
        }
        self.shared.compacting.done().await;
        if self.fullness(tools)? > compaction.exhaustion {
            self.compact(CompactionTrigger::Threshold).await?;
        }
        Ok(None)
    }

    /// How much the conversation takes of what the model's window leaves for it.
    fn fullness(&self, tools: &[ToolSpec]) -> Result<f64, Stop> {
        let size = self.shared.context_size(self.system.len(), tools)?;
        let window = self.shared.settings.lock().model.info().prompt_limit();
        let room = window.saturating_sub(size.system + size.tools).max(1);
        Ok(size.conversation as f64 / room as f64)
    }

    /// Compacts now. Nothing, when the model could not summarise; clients have been told.
    pub(crate) async fn compact(&self, trigger: CompactionTrigger) -> Result<Option<Compacted>, Stop> {
        // What one beside the turn would come to stands for less.
        self.shared.compacting.cancel();
        self.shared.compacting.done().await;
        let begun = begin(&self.shared, &self.system, None, trigger)?;
        finish(&self.shared, begun, &self.cancel, ready(())).await
    }

    /// Compacts what was said so far while the turn goes on; what is said meanwhile stays as it is.
    fn compact_beside(&self) -> Result<Option<DropGuard>, Stop> {
        let Some(running) = self.shared.compacting.start() else {
            return Ok(None);
        };
        let shared = self.shared.clone();
        let begun = begin(&shared, &self.system, None, CompactionTrigger::Threshold)?;
        let held = CancellationToken::new();
        let hold = held.clone().drop_guard();
        tokio::spawn(async move {
            // Clients have been told of a failure; a log that cannot be written is told by whoever writes next.
            let _ = finish(&shared, begun, &running.cancel, held.cancelled()).await;
        });
        Ok(Some(hold))
    }
}

/// The compaction that runs beside the turns, if one does.
#[derive(Default)]
pub(crate) struct Compacting(Mutex<Option<(CancellationToken, CancellationToken)>>);

/// Held by the one that runs; letting it go says that it is done.
struct Running {
    cancel: CancellationToken,
    _done: DropGuard,
}

impl Compacting {
    /// Nothing while one runs.
    fn start(&self) -> Option<Running> {
        let mut current = self.0.lock();
        if current.as_ref().is_some_and(|(_, done)| !done.is_cancelled()) {
            return None;
        }
        let (cancel, done) = (CancellationToken::new(), CancellationToken::new());
        *current = Some((cancel.clone(), done.clone()));
        Some(Running {
            cancel,
            _done: done.drop_guard(),
        })
    }

    /// Waits for the one that runs.
    async fn done(&self) {
        let done = self.0.lock().as_ref().map(|(_, done)| done.clone());
        if let Some(done) = done {
            done.cancelled().await;
        }
    }

    /// Stops it. False when none ran.
    pub(crate) fn cancel(&self) -> bool {
        let current = self.0.lock();
        let running = current.as_ref().filter(|(_, done)| !done.is_cancelled());
        if let Some((cancel, _)) = running {
            cancel.cancel();
        }
        running.is_some()
    }
}

/// Compacts a session's conversation because somebody asked for it.
pub(crate) async fn compact(
    shared: &Shared,
    system: &Arc<str>,
    instructions: Option<&str>,
    cancel: &CancellationToken,
) -> Result<Option<Compacted>, Stop> {
    let begun = begin(shared, system, instructions, CompactionTrigger::Manual)?;
    finish(shared, begun, cancel, ready(())).await
}

/// What is to be summarised, as it was when the compaction began.
struct Begun {
    request: ModelRequest,
    before: ContextSize,
    instructions: Option<String>,
    trigger: CompactionTrigger,
}

/// Says that a compaction begins: the conversation up to here is what the summary will stand for.
fn begin(
    shared: &Shared,
    system: &Arc<str>,
    instructions: Option<&str>,
    trigger: CompactionTrigger,
) -> Result<Begun, LogError> {
    let recorder = &shared.recorder;
    let before = shared.context_size(system.len(), &shared.specs())?;
    let settings = shared.settings();
    let info = settings.model.info();
    let mut messages = recorder.messages(info.vision)?;
    let mut text = REQUEST.to_owned();
    if let Some(more) = instructions {
        let _ = write!(text, "\n\n{more}");
    }
    messages.push(Message::User(vec![Part::Text(text.into())]));
    recorder.record(SessionCompactionStart {
        model: Some(info.id.clone()),
        system_tokens: Some(before.system),
        conversation_tokens: Some(before.conversation),
        tool_definitions_tokens: Some(before.tools),
        current_tokens: Some(before.total()),
        token_limit: Some(info.prompt_limit()),
        trigger: Some(trigger.clone()),
    })?;
    Ok(Begun {
        request: ModelRequest {
            system: system.clone(),
            messages,
            headers: settings.headers.clone(),
            user_agent: settings.client_name.clone(),
            ..ModelRequest::default()
        },
        before,
        instructions: instructions.map(str::to_owned),
        trigger,
    })
}

/// Summarises, and has the summary count from `due` on.
async fn finish(
    shared: &Shared,
    begun: Begun,
    cancel: &CancellationToken,
    due: impl Future<Output = ()>,
) -> Result<Option<Compacted>, Stop> {
    let recorder = &shared.recorder;
    let by_person = begun.trigger == CompactionTrigger::Manual;
    let trigger = if by_person { "manual" } else { "auto" };
    shared.hook(Step::PreCompact { trigger }).await?;
    let started = Instant::now();
    let summarised = tokio::select! {
        biased;
        () = cancel.cancelled() => Err("The compaction was cancelled.".to_owned()),
        summarised = async {
            let summarised = summarise(shared, begun.request).await;
            due.await;
            summarised
        } => summarised.map_err(|error| error.message),
    };
    let completion = match summarised {
        Ok(completion) => completion,
        Err(error) => {
            recorder.record(SessionCompactionComplete {
                success: false,
                error: Some(error),
                trigger: Some(begun.trigger),
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
    // Checkpoints are the session's; what a sub-agent sums up ends with it.
    let checkpoint = shared.sub.is_none().then(|| {
        write_checkpoint(&shared.dir, number, &title, &summary)
            .map_err(|error| tracing::warn!(%error, "the checkpoint file could not be written"))
            .ok()
    });
    let usage = completion.usage;
    let settings = shared.settings();
    let info = settings.model.info();
    // Some providers do not count; then it is what was sent, as far as that is known here.
    let counted = usage.input_tokens.filter(|tokens| *tokens > 0);
    let sent = counted.unwrap_or(begun.before.system + begun.before.conversation);
    let tokens_used = CompactionTokensUsed {
        input: Some(sent),
        output: Some(usage.output_tokens.unwrap_or_default()),
        cached_input: Some(usage.cache_read_tokens.unwrap_or_default()),
        input_tokens: Some(sent),
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        duration: Some(started.elapsed().as_millis() as u64),
        model: Some(info.id.clone()),
        ..CompactionTokensUsed::default()
    };
    let mut compacted = Compacted {
        summary,
        messages_removed: 0,
        tokens_removed: 0,
    };
    recorder.record_from(|transcript| {
        let shrunk = transcript.with_summary(&compacted.summary, Some(info.prompt_limit()));
        compacted.messages_removed = shrunk.removed;
        compacted.tokens_removed = shrunk.before as i64 - shrunk.after as i64;
        SessionCompactionComplete {
            success: true,
            pre_compaction_tokens: Some(shrunk.before),
            post_compaction_tokens: Some(shrunk.after),
            pre_compaction_messages_length: Some(shrunk.messages),
            messages_removed: Some(compacted.messages_removed),
            tokens_removed: Some(compacted.tokens_removed),
            custom_instructions: begun.instructions,
            summary_content: Some(compacted.summary.clone()),
            checkpoint_number: checkpoint.is_some().then_some(number),
            checkpoint_path: checkpoint.flatten(),
            compaction_tokens_used: Some(tokens_used),
            request_id: completion.provider_call_id,
            system_tokens: Some(begun.before.system),
            conversation_tokens: Some(shrunk.after),
            tool_definitions_tokens: Some(begun.before.tools),
            token_limit: Some(info.prompt_limit()),
            trigger: Some(begun.trigger),
            ..SessionCompactionComplete::default()
        }
    })?;
    Ok(Some(compacted))
}

async fn summarise(shared: &Shared, request: ModelRequest) -> Result<Completion, ModelError> {
    let fail = |message: String| ModelError {
        kind: lodge_models::ErrorKind::Connection,
        message,
        status: None,
        retry_after: None,
        provider_call_id: None,
        code: None,
        retryable: false,
    };
    let model = shared.settings().model;
    let started = Instant::now();
    let mut stream = model.call(Arc::new(request));
    while let Some(chunk) = stream.next().await {
        if let Chunk::Done(completion) = chunk? {
            let used = AssistantUsage {
                initiator: Some("compaction".to_owned()),
                interaction_type: Some("conversation-compaction".to_owned()),
                ..call::usage(model.info().id.clone(), &completion, started.elapsed())
            };
            let recorded = call::account(&shared.recorder, used);
            recorded.map_err(|error| fail(format!("The session's log cannot be written: {error}")))?;
            return Ok(*completion);
        }
    }
    Err(fail("The model's summary ended before it was complete.".into()))
}

/// An index without entries.
const NO_CHECKPOINTS: &str = "| # | Title | File |\n|---|---|---|\n";

/// Makes the index of checkpoints in a session's directory before there is one, for those who look for it.
pub fn begin_checkpoints(dir: &Path) -> std::io::Result<()> {
    let folder = dir.join("checkpoints");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("index.md"), NO_CHECKPOINTS)
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
    let mut table = std::fs::read_to_string(&index).unwrap_or_else(|_| NO_CHECKPOINTS.into());
    let _ = writeln!(table, "| {number} | {} | {name} |", title.replace('|', "/"));
    std::fs::write(index, table)?;
    Ok(path.to_string_lossy().into_owned())
}
