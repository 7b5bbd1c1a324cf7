//! Compaction: replaces the conversation with a summary for the model. The log keeps everything.

mod shrink;
mod summary;

use std::{fmt::Write as _, future::ready, path::Path, sync::Arc, time::Instant};

use lodge_events::{CompactionTokensUsed, CompactionTrigger, SessionCompactionComplete, SessionCompactionStart};
use lodge_log::LogError;
use lodge_models::{Completion, Message, Model, ModelRequest, Part, ToolSpec};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::summary::{Failure, summarise};
use crate::{
    hooks::Step,
    session::{ContextSize, Shared},
    turn::{self, Stop, Turn},
};

const REQUEST: &str = "Please create a detailed summary of the conversation so far. The history is being compacted, so whatever \
is not in the summary is lost to you. Keep: what the person wants, what was decided and why, which files were read or changed \
and how, what was tried, what failed, and what is left to do. Answer with the summary alone: tools do not run now.";

/// Tokens that a summary may be long.
const LONGEST_SUMMARY: u64 = 16_000;

/// A twentieth of a small window is less than one message: after a compaction that came to nothing, the conversation changes by
/// at least so many tokens before the next one.
const LEAST_CHANGE: u64 = 1_000;

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
        if !compaction.enabled || !self.is_fuller_than(compaction.threshold, tools)? {
            return Ok(None);
        }
        if !self.is_fuller_than(compaction.exhaustion, tools)? {
            return self.compact_beside();
        }
        self.shared.compacting.done().await;
        if self.is_fuller_than(compaction.exhaustion, tools)? {
            let _ = self.compact(CompactionTrigger::Threshold).await?;
        }
        Ok(None)
    }

    /// Whether the conversation takes more than this part of what the model's window leaves for it. It does not for a while
    /// after a compaction that left too much.
    fn is_fuller_than(&self, part: f64, tools: &[ToolSpec]) -> Result<bool, Stop> {
        let size = self.shared.context_size(self.system.len(), tools)?;
        let room = size.room(self.model().info().prompt_limit());
        let full = size.conversation as f64 / room as f64 > part;
        Ok(full && !self.shared.compacting.is_paused(size.conversation, room))
    }

    /// Compacts now. Why the model could not summarise, where it could not; clients have been told.
    pub(crate) async fn compact(&self, trigger: CompactionTrigger) -> Result<Result<Compacted, String>, Stop> {
        self.compact_alone(None, trigger).await
    }

    /// Compacts because somebody asked for it.
    pub(crate) async fn compact_for_person(
        &self,
        instructions: Option<&str>,
    ) -> Result<Result<Compacted, String>, Stop> {
        self.compact_alone(instructions, CompactionTrigger::Manual).await
    }

    /// Compacts instead of the one beside the turns, if one runs: what that would come to stands for less. Of two that run at
    /// once, the summary of the first would stand for what only the second saw.
    async fn compact_alone(
        &self,
        instructions: Option<&str>,
        trigger: CompactionTrigger,
    ) -> Result<Result<Compacted, String>, Stop> {
        self.shared.compacting.cancel();
        self.shared.compacting.done().await;
        let begun = self.begin_compaction(instructions, trigger)?;
        finish(&self.shared, begun, &self.cancel, ready(())).await
    }

    /// Compacts what was said so far while the turn goes on; what is said meanwhile stays as it is.
    fn compact_beside(&self) -> Result<Option<DropGuard>, Stop> {
        let Some(running) = self.shared.compacting.start() else {
            return Ok(None);
        };
        let shared = self.shared.clone();
        let begun = self.begin_compaction(None, CompactionTrigger::Threshold)?;
        let held = CancellationToken::new();
        let hold = held.clone().drop_guard();
        tokio::spawn(async move {
            // All of it: a block that names one field takes only that, and the one that runs would be done at once.
            let running = running;
            // Clients have been told of a failure; a log that cannot be written is told by whoever writes next.
            let _ = finish(&shared, begun, &running.cancel, held.cancelled()).await;
        });
        Ok(Some(hold))
    }
}

/// The compaction that runs beside the turns, if one does, and what the last automatic one could not make smaller.
#[derive(Default)]
pub(crate) struct Compacting {
    running: Mutex<Option<(CancellationToken, CancellationToken)>>,
    /// The tokens of a conversation that the model could not summarise, or whose summary still takes too much room.
    stuck_at: Mutex<Option<u64>>,
}

/// Held by the one that runs; letting it go says that it is done.
struct Running {
    cancel: CancellationToken,
    _done: DropGuard,
}

impl Compacting {
    /// Nothing while one runs.
    fn start(&self) -> Option<Running> {
        let mut current = self.running.lock();
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
        let done = self.running.lock().as_ref().map(|(_, done)| done.clone());
        if let Some(done) = done {
            done.cancelled().await;
        }
    }

    /// Stops it. False when none ran.
    pub(crate) fn cancel(&self) -> bool {
        let current = self.running.lock();
        let running = current.as_ref().filter(|(_, done)| !done.is_cancelled());
        if let Some((cancel, _)) = running {
            cancel.cancel();
        }
        running.is_some()
    }

    /// Whether another attempt is to wait until the conversation has changed by a twentieth of its room: what came to nothing a
    /// moment ago would most likely come to nothing before every call. Estimates are corrected meanwhile, so it may seem to
    /// have become smaller.
    fn is_paused(&self, conversation: u64, room: u64) -> bool {
        let change = (room / 20).max(LEAST_CHANGE);
        let stuck_at = *self.stuck_at.lock();
        stuck_at.is_some_and(|stuck| stuck.abs_diff(conversation) < change)
    }
}

/// What is to be summarised, as it was when the compaction began.
struct Begun {
    model: Arc<dyn Model>,
    request: ModelRequest,
    before: ContextSize,
    instructions: Option<String>,
    trigger: CompactionTrigger,
}

impl Turn {
    /// Says that a compaction begins: the conversation up to here is what the summary will stand for. The request has the
    /// system prompt and the tools of the conversation: providers refuse calls of tools that they do not know, and have the
    /// beginning of the request in their cache.
    fn begin_compaction(&self, instructions: Option<&str>, trigger: CompactionTrigger) -> Result<Begun, LogError> {
        let shared = &self.shared;
        let (settings, model, tools) = (shared.settings(), self.model(), shared.specs());
        let before = shared.context_size(self.system.len(), &tools)?;
        let info = model.info();
        let mut messages = shared.recorder.messages(info.vision)?;
        let mut text = REQUEST.to_owned();
        if let Some(more) = instructions {
            let _ = write!(text, "\n\n{more}");
        }
        messages.push(Message::User(vec![Part::Text(text.into())]));
        shared.recorder.record(SessionCompactionStart {
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
                system: self.system.clone(),
                messages,
                tools,
                // A summary that fills a small window leaves no room for what follows.
                longest_answer: Some(LONGEST_SUMMARY.min(info.prompt_limit() / 4)),
                headers: settings.headers.clone(),
                user_agent: settings.client_name.clone(),
                ..ModelRequest::default()
            },
            model,
            before,
            instructions: instructions.map(str::to_owned),
            trigger,
        })
    }
}

/// Summarises, and has the summary count from `due` on.
async fn finish(
    shared: &Shared,
    begun: Begun,
    cancel: &CancellationToken,
    due: impl Future<Output = ()>,
) -> Result<Result<Compacted, String>, Stop> {
    let recorder = &shared.recorder;
    let by_person = begun.trigger == CompactionTrigger::Manual;
    let trigger = if by_person { "manual" } else { "auto" };
    shared.hook(Step::PreCompact { trigger }).await?;
    let Begun {
        model,
        request,
        before,
        instructions,
        trigger,
    } = begun;
    let (system_bytes, tools) = (request.system.len(), request.tools.clone());
    let info = model.info();
    let started = Instant::now();
    let summarised = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        summarised = async {
            let summarised = summarise(shared, &*model, request).await;
            due.await;
            summarised
        } => Some(summarised),
    };
    let used = |completion: &Completion| {
        let usage = &completion.usage;
        // Some providers do not count; then it is what was sent, as far as that is known here.
        let counted = usage.input_tokens.filter(|tokens| *tokens > 0);
        let sent = counted.unwrap_or(before.system + before.conversation);
        CompactionTokensUsed {
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
        }
    };
    let summary = match summarised {
        Some(Ok(summary)) => summary,
        failed => {
            let failure = match failed {
                Some(Err(failure)) => {
                    if !by_person {
                        *shared.compacting.stuck_at.lock() = Some(before.conversation);
                    }
                    failure
                }
                _ => Failure::told("The compaction was cancelled.".to_owned()),
            };
            let error = failure.message.clone();
            recorder.record(SessionCompactionComplete {
                success: false,
                error: Some(failure.message),
                status_code: failure.status.map(u64::from),
                request_id: failure.request_id,
                compaction_tokens_used: failure.answer.as_deref().map(used),
                pre_compaction_tokens: Some(before.conversation),
                pre_compaction_messages_length: Some(before.messages),
                token_limit: Some(info.prompt_limit()),
                trigger: Some(trigger),
                ..SessionCompactionComplete::default()
            })?;
            return Ok(Err(error));
        }
    };
    // What was refused until it was shorter than this tells more of the limit than what is known of the model.
    let limit = summary
        .fitted
        .map_or(info.prompt_limit(), |fitted| fitted.min(info.prompt_limit()));
    let (completion, tokens_used) = (&summary.answer, used(&summary.answer));
    let text = completion.message.text.to_string();
    let number = recorder.facts(|facts| facts.compactions) + 1;
    let title = recorder
        .facts(crate::facts::Facts::title)
        .unwrap_or_else(|| "checkpoint".into());
    // Checkpoints are the session's; what a sub-agent sums up ends with it.
    let checkpoint = shared.sub.is_none().then(|| {
        write_checkpoint(&shared.dir, number, &title, &text)
            .map_err(|error| tracing::warn!(%error, "the checkpoint file could not be written"))
            .ok()
    });
    let mut compacted = Compacted {
        summary: text,
        messages_removed: 0,
        tokens_removed: 0,
    };
    let mut left = 0;
    let tokens = shared.estimator();
    recorder.record_from(|transcript| {
        let shrunk = transcript.with_summary(&compacted.summary, Some(limit));
        let (before_it, after_it) = (tokens(shrunk.before), tokens(shrunk.after));
        compacted.messages_removed = shrunk.removed;
        compacted.tokens_removed = before_it as i64 - after_it as i64;
        left = after_it;
        SessionCompactionComplete {
            success: true,
            pre_compaction_tokens: Some(before_it),
            post_compaction_tokens: Some(after_it),
            pre_compaction_messages_length: Some(shrunk.messages),
            messages_removed: Some(compacted.messages_removed),
            tokens_removed: Some(compacted.tokens_removed),
            custom_instructions: instructions,
            summary_content: Some(compacted.summary.clone()),
            checkpoint_number: checkpoint.is_some().then_some(number),
            checkpoint_path: checkpoint.flatten(),
            compaction_tokens_used: Some(tokens_used),
            request_id: completion.provider_call_id.clone(),
            system_tokens: Some(before.system),
            conversation_tokens: Some(after_it),
            tool_definitions_tokens: Some(before.tools),
            token_limit: Some(limit),
            trigger: Some(trigger),
            ..SessionCompactionComplete::default()
        }
    })?;
    let most = before.room(info.prompt_limit()) as f64 * shared.settings.lock().compaction.threshold;
    *shared.compacting.stuck_at.lock() = (left as f64 > most).then_some(left);
    turn::tell_usage(shared, info, system_bytes, &tools)?;
    Ok(Ok(compacted))
}

/// An index without entries.
const NO_CHECKPOINTS: &str = "| # | Title | File |\n|---|---|---|\n";

/// Makes the index of checkpoints in a session's directory before there is one, for those who look for it.
pub fn begin_checkpoints(dir: &Path) -> std::io::Result<()> {
    let folder = dir.join("checkpoints");
    std::fs::create_dir_all(&folder)?;
    lodge_files::replace(&folder.join("index.md"), NO_CHECKPOINTS.as_bytes())
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
    lodge_files::replace(&path, summary.as_bytes())?;
    let index = folder.join("index.md");
    let mut table = std::fs::read_to_string(&index).unwrap_or_else(|_| NO_CHECKPOINTS.into());
    let _ = writeln!(table, "| {number} | {} | {name} |", title.replace('|', "/"));
    lodge_files::replace(&index, table.as_bytes())?;
    Ok(path.to_string_lossy().into_owned())
}
