//! A turn run by another program (`lodge-external`): its messages become events, its requests become questions.
//!
//! Queue, hooks before a message, questions, log and recovery are those of every turn. The program keeps the conversation
//! itself, so there is no system prompt, no compaction and no model call.

mod approved;
mod calls;
mod delegated;
mod described;
mod forms;
mod messages;
mod requests;
mod servers;
mod terminals;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use lodge_events::{
    AssistantTurnStart, Attachment, BlobAttachment, CommandsChanged, LodgeProgram, SessionTodosChanged,
    SessionUsageInfo, SessionWarning,
};
use lodge_external::{
    Block, ExternalError, PlanEntry, Program, PromptCapabilities, Resource, ResourceContent, Running, Said, Start,
};
use lodge_log::LogError;
use lodge_models::{ErrorKind, ModelError};
use lodge_tools::changes::Touches;
use serde_json::json;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use self::{
    approved::Approved,
    calls::{Call, Tally},
    messages::{Answer, Thoughts},
    requests::Bounds,
    terminals::{Terminal, Terminals},
};
use crate::{
    context,
    redact::Secrets,
    transcript::INTERRUPTED,
    turn::{Stop, Turn},
};

/// The program of a session, while it runs.
pub(crate) type ProgramSlot = Arc<tokio::sync::Mutex<Option<Running>>>;

/// The one model call that the work of a program counts as.
const TURN_ID: &str = "0";
/// So many calls of a program may be open at once, and so many of its requests.
const MOST_OPEN: usize = 256;
/// So many titles of a program count in one turn.
const MOST_TITLES: usize = 8;
/// So much of one request, or of one result, is shown to people, in bytes. More does not fit into the queues of clients.
const LONGEST_SHOWN: usize = 512 << 10;
/// What is told of a call whose end the program did not tell.
const FORGOTTEN: &str = "The agent did not say how this call ended.";

impl From<ExternalError> for Stop {
    fn from(error: ExternalError) -> Self {
        let kind = match &error {
            ExternalError::SignIn { .. } => ErrorKind::Authentication,
            ExternalError::Refused { .. } => ErrorKind::Query,
            ExternalError::Start { .. } | ExternalError::Gone { .. } | ExternalError::NotContinued { .. } => {
                ErrorKind::Connection
            }
        };
        failed(kind, error.to_string())
    }
}

fn failed(kind: ErrorKind, message: String) -> Stop {
    Stop::Model(Box::new(ModelError {
        kind,
        code: None,
        message,
        status: None,
        retry_after: None,
        provider_call_id: None,
        retryable: false,
    }))
}

/// The program while a turn has it. Dropped in the middle, the program is told to stop, and ended if it does not.
struct Borrowed(Option<OwnedMutexGuard<Option<Running>>>);

impl Borrowed {
    fn running(&mut self) -> &mut Running {
        let slot = self.0.as_mut().expect("taken only when this is dropped");
        slot.as_mut().expect("filled before it is borrowed")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let Some(mut slot) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            *slot = None;
            return;
        };
        // The next turn waits for this: the slot stays locked.
        runtime.spawn(async move {
            let Some(mut running) = slot.take() else { return };
            if running.stop().await {
                *slot = Some(running);
            }
        });
    }
}

impl Turn {
    /// Has a program do what was asked for last.
    pub(crate) async fn work_by(&self, program: &Program) -> Result<(), Stop> {
        let shared = &self.shared;
        let mut slot = shared.program.clone().lock_owned().await;
        let settings = shared.settings();
        let is_of_use =
            |running: &Running| running.is_alive() && running.is_in(&settings.cwd, &settings.additional_directories);
        if !slot.as_ref().is_some_and(is_of_use) {
            *slot = None;
            shared.recorder.durable().await?;
            *slot = Some(self.start_program(program).await?);
        }
        let mut borrowed = Borrowed(Some(slot));
        shared.recorder.record(AssistantTurnStart {
            turn_id: TURN_ID.into(),
            interaction_id: Some(self.interaction_id.clone()),
            ..AssistantTurnStart::default()
        })?;
        let blocks = self.blocks(borrowed.running().takes())?;
        let looked = shared.files_before(Touches::Anything).await;
        shared.recorder.durable().await?;
        let mut work = Work::new(self, program);
        let running = borrowed.running();
        running.prompt(&blocks);
        // What it names from now on it says in the turn.
        work.name_commands(running.commands());
        let stopped = work.listen(running).await;
        // A program that failed may have left calls open.
        if !work.ended {
            work.end(FORGOTTEN)?;
        }
        drop(work);
        shared.files_after(looked).await;
        self.tell_stopped(&stopped?)
    }

    async fn start_program(&self, program: &Program) -> Result<Running, Stop> {
        let shared = &self.shared;
        let earlier = shared.recorder.facts(|facts| facts.program_session.clone());
        let settings = shared.settings();
        let had_conversation = earlier.is_some();
        let start = Start {
            cwd: settings.cwd,
            additional_directories: settings.additional_directories,
            mcp_servers: shared.servers_for_programs(),
            variables: shared.tool_state.environment().visible(),
            env: vec![shared.tool_state.program_mark()],
            earlier,
        };
        let name = &settings.model.info().name;
        // It obeys what it finds in the folder: its own settings, hooks and servers there.
        if let Err(untrusted) = shared.gate().enter(&start.cwd) {
            let why = format!("The agent {name} is not started: {untrusted}");
            return Err(failed(ErrorKind::Query, why));
        }
        let running = match Running::start(program, start.clone()).await {
            // Agents have no common word for a lost conversation, so one that fails again counts as lost.
            Err(ExternalError::NotContinued { .. }) if shared.program_not_continued.swap(true, Ordering::Relaxed) => {
                let earlier = None;
                Running::start(program, Start { earlier, ..start }).await?
            }
            started => started?,
        };
        shared.program_not_continued.store(false, Ordering::Relaxed);
        if had_conversation && !running.is_continued() {
            let message = format!(
                "{} was restarted and does not know the earlier conversation.",
                settings.model.info().name
            );
            shared.recorder.record(SessionWarning {
                warning_type: "agent_forgot".into(),
                message,
                ..SessionWarning::default()
            })?;
        }
        if !running.is_continued() {
            shared.recorder.record(LodgeProgram {
                agent: settings.model.info().id.clone(),
                session_id: running.session_id().to_owned(),
            })?;
        }
        Ok(running)
    }

    /// What was asked for, in blocks. People are told what the program cannot take.
    fn blocks(&self, takes: PromptCapabilities) -> Result<Vec<Block>, Stop> {
        let mut left_out = Vec::new();
        let mut blocks = vec![Block::Text {
            text: self.prompt.text.clone(),
        }];
        let link = |path: &str, name: &str, lines: Option<(u64, u64)>| Block::ResourceLink {
            name: name.to_owned(),
            uri: lodge_files::uri::file_lines(path, lines),
        };
        for attachment in &self.prompt.attachments {
            if let Attachment::Selection(selection) = attachment {
                let text = context::selected(selection).trim_end().to_owned();
                blocks.push(Block::Text { text });
            }
            let before = blocks.len();
            blocks.extend(match attachment {
                Attachment::File(file) => {
                    let lines = file.line_range.as_ref().map(|lines| (lines.start, lines.end));
                    Some(link(&file.path, &file.display_name, lines))
                }
                Attachment::Directory(directory) => Some(link(&directory.path, &directory.display_name, None)),
                Attachment::Selection(selection) => {
                    let lines = context::lines_of(selection);
                    Some(link(&selection.file_path, &selection.display_name, Some(lines)))
                }
                Attachment::Blob(blob) if takes.image && blob.mime_type.starts_with("image/") => {
                    blob.data.clone().map(|data| Block::Image {
                        data,
                        mime_type: blob.mime_type.clone(),
                    })
                }
                Attachment::Blob(blob) if takes.embedded_context && !blob.mime_type.starts_with("image/") => {
                    resource(blob)
                }
                Attachment::GithubReference(reference) => Some(Block::ResourceLink {
                    name: format!("#{} {}", reference.number, reference.title),
                    uri: reference.url.clone(),
                }),
                Attachment::Blob(_) | Attachment::Other(_) => None,
            });
            if blocks.len() == before {
                let name = match attachment {
                    Attachment::Blob(blob) => blob.display_name.as_deref().unwrap_or(&blob.mime_type),
                    _ => "an attachment of a kind that this version does not know",
                };
                left_out.push(name);
            }
        }
        if !left_out.is_empty() {
            let agent = self.shared.settings().model.info().name.clone();
            self.shared.recorder.record(SessionWarning {
                warning_type: "attachment_left_out".into(),
                message: format!(
                    "{agent} does not take these attachments, so it did not get them: {}.",
                    left_out.join(", ")
                ),
                ..SessionWarning::default()
            })?;
        }
        Ok(blocks)
    }

    /// Tells people when the program stopped early.
    fn tell_stopped(&self, stopped: &str) -> Result<(), Stop> {
        let (warning_type, message) = match stopped {
            "max_tokens" => (
                "answer_cut",
                "The answer is cut off: the agent's model reached its limit.",
            ),
            "max_turn_requests" => (
                "answer_cut",
                "The agent stopped: it reached its own limit of model calls.",
            ),
            "refusal" => ("answer_filtered", "The agent refused to continue."),
            "cancelled" => (
                "answer_cut",
                "The agent stopped although nobody asked it to: it reports that the turn was cancelled.",
            ),
            _ => return Ok(()),
        };
        self.shared.recorder.record(SessionWarning {
            warning_type: warning_type.into(),
            message: message.into(),
            ..SessionWarning::default()
        })?;
        Ok(())
    }
}

/// Attached data with an address that says its name.
fn resource(blob: &BlobAttachment) -> Option<Block> {
    let data = blob.data.as_ref()?;
    let text = blob.mime_type.starts_with("text/").then(|| STANDARD.decode(data).ok());
    let text = text.flatten().and_then(|bytes| String::from_utf8(bytes).ok());
    let name = blob.display_name.as_deref().unwrap_or("data");
    let path = lodge_files::uri::file(name);
    Some(Block::Resource {
        resource: Resource {
            uri: format!("attachment:{}", path.trim_start_matches("file://")),
            mime_type: blob.mime_type.clone(),
            content: text.map_or_else(|| ResourceContent::Blob(data.clone()), ResourceContent::Text),
        },
    })
}

/// What goes on with something that was looked at.
type Next = Box<dyn FnOnce(&mut Work<'_>) -> Result<(), Stop> + Send>;

/// What came of a wish.
enum Done {
    Nothing,
    /// What was to be looked at is known. This goes on with it.
    Found(Next),
    /// A question about this call of the program was answered. This may be done for the call without asking again.
    Answered(String, Vec<Approved>),
    /// A person ended the turn.
    Rejected,
    Started(Uuid, Arc<Terminal>),
}

/// Waits until a plan is noted, if one is being noted.
async fn noted(noting: &mut Option<BoxFuture<'static, ()>>) {
    match noting {
        Some(noting) => noting.await,
        None => std::future::pending().await,
    }
}

/// The work of a program on one message.
struct Work<'a> {
    turn: &'a Turn,
    agent: String,
    streaming: bool,
    secrets: Arc<Secrets>,
    answer: Answer,
    thoughts: Thoughts,
    /// By the program's ids.
    calls: HashMap<String, Call>,
    tally: Tally,
    terminals: Terminals,
    bounds: Bounds,
    requests: FuturesUnordered<BoxFuture<'static, Result<Done, LogError>>>,
    /// Its plan as it is being noted: one at a time, so that no earlier one comes after a later one.
    noting: Option<BoxFuture<'static, ()>>,
    /// The newest plan, until the one before is noted.
    plan: Option<Vec<PlanEntry>>,
    /// How many titles it gave.
    titles: usize,
    ended: bool,
}

impl<'a> Work<'a> {
    fn new(turn: &'a Turn, program: &Program) -> Self {
        Self {
            turn,
            agent: lodge_models::Model::info(program).id.clone(),
            streaming: turn.shared.settings.lock().streaming,
            secrets: turn.shared.recorder.secrets(),
            answer: Answer::default(),
            thoughts: Thoughts::default(),
            calls: HashMap::new(),
            tally: Tally::default(),
            terminals: Terminals::default(),
            bounds: Bounds::default(),
            requests: FuturesUnordered::new(),
            noting: None,
            plan: None,
            titles: 0,
            ended: false,
        }
    }

    /// Does what the program says and wants until its turn is over.
    async fn listen(&mut self, running: &mut Running) -> Result<String, Stop> {
        loop {
            tokio::select! {
                said = running.next() => match said {
                    Some(said) => self.hear(said)?,
                    None => {
                        while let Some(noting) = self.noting.take() {
                            noting.await;
                            self.note_plan();
                        }
                        return Ok(running.stopped().await?);
                    }
                },
                Some(done) = self.requests.next() => self.done(done?)?,
                () = noted(&mut self.noting) => self.note_plan(),
                () = self.terminals.printed.notified() => self.tell_printed(),
                () = self.answer.partial.due() => self.answer.partial.keep(self.turn, TURN_ID),
            }
        }
    }

    fn hear(&mut self, said: Said) -> Result<(), Stop> {
        self.take(said)?;
        self.within_limits()
    }

    fn take(&mut self, said: Said) -> Result<(), Stop> {
        match said {
            Said::Text(text, id) => self.text(text, id),
            Said::Thought(text, id) => self.thought(text, id),
            // A sub-agent's conversation has no title.
            Said::Title(_) if self.turn.shared.sub.is_some() => Ok(()),
            Said::Title(title) => {
                if self.titles < MOST_TITLES {
                    self.titles += 1;
                    let bytes = self.turn.shared.call_itself(title)?;
                    self.count_recorded(bytes);
                }
                Ok(())
            }
            Said::Call(update) => self.call(*update),
            // The to-do list and the context are the session's own.
            Said::Plan(_) | Said::Usage { .. } if self.turn.shared.sub.is_some() => Ok(()),
            Said::Plan(entries) => {
                self.plan = Some(entries);
                if self.noting.is_none() {
                    self.note_plan();
                }
                Ok(())
            }
            Said::Commands(commands) => {
                self.name_commands(commands);
                Ok(())
            }
            Said::Usage { used, size } => {
                let usage = SessionUsageInfo {
                    token_limit: size,
                    current_tokens: used,
                    ..SessionUsageInfo::default()
                };
                let shared = &self.turn.shared;
                *shared.program_usage.lock() = Some(usage.clone());
                shared.recorder.note(usage);
                Ok(())
            }
            request => self.request(request),
        }
    }

    fn done(&mut self, done: Done) -> Result<(), Stop> {
        match done {
            Done::Nothing => {}
            Done::Found(next) => next(self)?,
            Done::Answered(call, approved) => {
                self.answered(&call, approved)?;
            }
            Done::Started(id, terminal) => self.terminals.add(id, terminal),
            Done::Rejected => return Err(Stop::Rejected),
        }
        Ok(())
    }

    /// Tells clients which slash commands the program understands, if these are new. A sub-agent's are nobody's.
    fn name_commands(&self, commands: Vec<lodge_external::Command>) {
        let shared = &self.turn.shared;
        if shared.sub.is_some() || *shared.program_commands.lock() == commands {
            return;
        }
        *shared.program_commands.lock() = commands;
        let commands = shared.clients.lock().commands();
        shared.recorder.note(CommandsChanged { commands });
    }

    /// Notes the newest plan, where other agents note what they have to do.
    fn note_plan(&mut self) {
        self.noting = None;
        let Some(entries) = self.plan.take() else { return };
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''").replace('\0', ""));
        let mut query = "DELETE FROM todos;".to_owned();
        for (at, entry) in entries.iter().take(MOST_OPEN).enumerate() {
            let status = match entry.status.as_str() {
                "completed" => "done",
                "in_progress" => "in_progress",
                _ => "pending",
            };
            let title = quoted(&entry.content);
            query.push_str(&format!(
                "INSERT INTO todos (id, title, status) VALUES ('{}', {title}, '{status}');",
                at + 1
            ));
        }
        let shared = self.turn.shared.clone();
        let Some(sql) = shared.builtins.iter().find(|tool| tool.name() == "sql").cloned() else {
            return;
        };
        let cx = self.tool_call("plan", "sql").cx();
        self.noting = Some(Box::pin(async move {
            match sql.run(json!({ "query": query }), cx).await {
                Ok(_) => shared.recorder.note(SessionTodosChanged::default()),
                Err(error) => tracing::warn!(%error, "the plan of an agent cannot be noted"),
            }
        }));
    }

    /// The program has stopped: what it left open is closed, and this is told of it.
    fn end(&mut self, why: &str) -> Result<(), LogError> {
        self.ended = true;
        self.close_calls(why)?;
        self.record_message(None)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.end(INTERRUPTED)
        {
            tracing::warn!(%error, "cannot save the text of a stopped answer");
        }
    }
}
