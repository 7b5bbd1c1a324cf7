//! One turn, from the arrival of a message to idle: model call, tools, model call, … until nothing is left to do.
//!
//! It runs as a task beside the actor. Dropping its future aborts the turn: the model's connection and the tools' processes
//! end with it, and [`run`] records what was left unfinished.

mod activity;
mod system;

use std::sync::{Arc, atomic::AtomicBool};

use lodge_events::{
    Abort, AbortReason, AssistantIdle, AssistantTurnEnd, AssistantTurnStart, COMMAND_SOURCE, Delivery,
    InterruptedActivity, PendingMessagesModified, SessionAutopilotStopped, SessionError, SessionInfo,
    SessionTitleChanged, SessionUsageInfo, ToolError, ToolExecutionComplete, ToolExecutionStart, UserMessage,
};
use lodge_external::Program;
use lodge_log::LogError;
use lodge_models::{Model, ModelError, ModelInfo, ToolCall, ToolSpec};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use self::activity::Activity;
use crate::{
    context,
    facts::{OpenCall, PREPARATION_FAILED},
    hooks::{HookOutput, Step},
    images,
    modes::{AUTOPILOT, Autopilot},
    recorder::Recorder,
    session::Shared,
    settings::{Mode, Outcome, Prompt},
    transcript::INTERRUPTED,
};

/// What sets a turn off.
pub(crate) enum Start {
    /// A message, and how it came to be the next one.
    Prompt(Box<Prompt>, Delivery),
    /// Tool calls that were open when the host went down.
    Continue,
    /// The model call at which the last turn failed.
    Resume,
    /// Something that the model must be told, such as the end of a sub-agent in the background.
    Notices,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The agent said what it had to say.
    Finished,
    /// Somebody stopped it.
    Aborted,
    /// It failed, and clients have been told.
    Failed,
}

/// How a turn is to be stopped.
pub(crate) struct Halt {
    /// What the log says of it.
    pub(crate) reason: AbortReason,
    /// Whether sub-agents in the background go on.
    pub(crate) spare_background: bool,
    /// Whether a message that was not said yet waits on.
    pub(crate) keeps_unsaid: bool,
}

impl Default for Halt {
    fn default() -> Self {
        Self {
            reason: AbortReason::UserInitiated,
            spare_background: false,
            keeps_unsaid: false,
        }
    }
}

/// Why a turn stops before its end.
pub(crate) enum Stop {
    /// The log cannot be written.
    Log(LogError),
    /// The model failed for good.
    Model(Box<ModelError>),
    /// A person said no.
    Rejected,
    /// The message could not be prepared.
    Unprepared(String),
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

/// A turn under way.
pub(crate) struct Turn {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cancel: CancellationToken,
    pub(crate) interaction_id: String,
    pub(crate) message_id: Option<String>,
    pub(crate) prompt: Prompt,
    pub(crate) system: Arc<str>,
    /// The mode that the system prompt speaks of.
    pub(crate) mode: Mode,
    pub(crate) autopilot: Autopilot,
    /// Whether the model said that the whole task is done.
    pub(crate) task_done: AtomicBool,
    /// How often hooks kept the agent from stopping.
    pub(crate) blocked_stops: u32,
    /// The model of the agent that a person chose, where it wants one of its own.
    pub(crate) own_model: Option<Arc<dyn Model>>,
    /// What it is doing, for whoever interrupts it.
    pub(crate) activity: parking_lot::Mutex<Activity>,
}

/// A hook that never lets the agent stop is not asked any more after this often.
pub(crate) const MOST_BLOCKED_STOPS: u32 = 8;

/// Runs a turn to its end, whatever that is.
pub(crate) async fn run(
    shared: Arc<Shared>,
    start: Start,
    cancel: CancellationToken,
    halt: Arc<parking_lot::Mutex<Halt>>,
) -> Ended {
    let mut turn = Turn::new(shared.clone(), cancel.clone());
    let result = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        result = turn.go(start) => Some(result),
    };
    shared.withdraw_questions();
    shared.files_settled().await;
    shared.permissions.end_loan();
    let mut stopped = 0;
    if result.is_none() {
        let spare = halt.lock().spare_background;
        // They record their own ends before this one's.
        stopped = shared.agents.stop(|task| !spare || task.is_waited_for()).await;
    }
    let recorder = &shared.recorder;
    let alone = match &result {
        None => "aborted",
        Some(Ok(())) if turn.autopilot.gave_up => "continuation_limit",
        Some(Ok(())) => "task_complete",
        Some(Err(Stop::Rejected)) => "rejected",
        Some(Err(Stop::Model(_) | Stop::Log(_) | Stop::Unprepared(_))) => "error",
    };
    let ended = match result {
        Some(Ok(()) | Err(Stop::Rejected)) => Ended::Finished,
        None => {
            let reason = halt.lock().reason.clone();
            // People saw the turn begin, and somebody stopped it: the message is part of the conversation.
            let unsaid = shared.queue.starting_unsaid(recorder);
            let unsaid = unsaid.filter(|_| !halt.lock().keeps_unsaid);
            let kept = unsaid.map_or(Ok(()), |prompt| record_unsaid(&shared, prompt));
            let closed = kept
                .and_then(|()| close_open_calls(&shared))
                .and_then(|()| recorder.settle_answer())
                .and_then(|()| {
                    if reason == AbortReason::UserInitiated {
                        recorder.note(turn.interruption(stopped));
                    }
                    recorder.record(Abort { reason }).map(drop)
                });
            if let Err(error) = closed {
                tell_log_error(&shared, &error);
            }
            Ended::Aborted
        }
        Some(Err(Stop::Model(error))) => {
            let told = recorder.record(SessionError {
                error_type: error.kind.as_str().into(),
                error_code: error.code.clone(),
                message: error.message.clone(),
                status_code: error.status.map(u64::from),
                provider_call_id: error.provider_call_id.clone(),
                ..SessionError::default()
            });
            if let Err(error) = told {
                tell_log_error(&shared, &error);
            }
            let step = Step::ErrorOccurred {
                error: &error.message,
                error_context: "model_call",
                recoverable: false,
            };
            let _ = shared.hook(step).await;
            Ended::Failed
        }
        Some(Err(Stop::Log(error))) => {
            tell_log_error(&shared, &error);
            Ended::Failed
        }
        // What waits did not wait for this message's answer.
        Some(Err(Stop::Unprepared(message))) => {
            let error = SessionError {
                error_type: PREPARATION_FAILED.into(),
                message,
                ..SessionError::default()
            };
            if let Err(error) = recorder.record(error) {
                tell_log_error(&shared, &error);
            }
            Ended::Finished
        }
    };
    // What the log could not take has been told.
    let _ = end_model_call(recorder);
    if shared.sub.is_none() && shared.mode() == Mode::Autopilot {
        recorder.note(SessionAutopilotStopped {
            reason: alone.into(),
            request_id: turn.message_id.clone(),
        });
    }
    recorder.note(AssistantIdle {
        aborted: (ended == Ended::Aborted).then_some(true),
    });
    recorder.sync_and_save();
    ended
}

/// Why a tool call ends without having come to its end.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    /// The turn was stopped, or the host was.
    Interrupted,
    /// The turn panicked.
    Crashed,
}

impl Cut {
    fn error(self) -> ToolError {
        let (code, message) = match self {
            Self::Interrupted => ("interrupted", INTERRUPTED),
            Self::Crashed => ("internal", CRASHED_CALL),
        };
        ToolError {
            message: message.into(),
            code: Some(code.into()),
            ..ToolError::default()
        }
    }
}

/// What the model reads of a call that a crash of its turn cut off.
const CRASHED_CALL: &str = "Internal error: the turn crashed before this call ended. It may have had effects.";

/// Records the end of the model call under way, whatever came of it.
pub(crate) fn end_model_call(recorder: &Recorder) -> Result<(), LogError> {
    if let Some(turn_id) = recorder.facts(|facts| facts.open_model_call.clone()) {
        recorder.record(AssistantTurnEnd {
            turn_id,
            ..AssistantTurnEnd::default()
        })?;
    }
    Ok(())
}

/// Takes a message into the conversation whose turn is over before it began.
pub(crate) fn record_unsaid(shared: &Shared, prompt: Prompt) -> Result<(), LogError> {
    let recorder = &shared.recorder;
    let id = prompt.message_id.clone().unwrap_or_default();
    let untitled = recorder.facts(|facts| facts.first_prompt.is_none());
    recorder.record(UserMessage {
        content: prompt.display_text.unwrap_or(prompt.text),
        attachments: Some(prompt.attachments).filter(|list| !list.is_empty()),
        source: prompt.source,
        message_id: prompt.message_id,
        delivery: Some(Delivery::Idle),
        ..UserMessage::default()
    })?;
    shared.queue.concluded(&id);
    if untitled && shared.settings.lock().name.is_none() {
        tell_title(recorder);
    }
    Ok(())
}

/// Tells what the first message calls the session.
pub(crate) fn tell_title(recorder: &Recorder) {
    if let Some(title) = recorder.facts(crate::facts::Facts::title) {
        recorder.note(SessionTitleChanged { title });
    }
}

/// Gives every open tool call the result that it was interrupted.
pub(crate) fn close_open_calls(shared: &Shared) -> Result<(), LogError> {
    cut_open_calls(shared, Cut::Interrupted)
}

/// Gives every open tool call a result that says why it has no other.
pub(crate) fn cut_open_calls(shared: &Shared, why: Cut) -> Result<(), LogError> {
    let open = shared
        .recorder
        .facts(|facts| facts.open_turn.clone())
        .map(|turn| turn.calls)
        .unwrap_or_default();
    for call in open {
        cut_call(&shared.recorder, &call, why)?;
    }
    Ok(())
}

/// Gives an open tool call the result that it was interrupted.
pub(crate) fn interrupt_call(recorder: &Recorder, call: &OpenCall) -> Result<(), LogError> {
    cut_call(recorder, call, Cut::Interrupted)
}

fn cut_call(recorder: &Recorder, call: &OpenCall, why: Cut) -> Result<(), LogError> {
    if !call.started {
        recorder.record(start_of(call))?;
    }
    recorder.record(ToolExecutionComplete {
        tool_call_id: call.id.clone(),
        success: false,
        error: Some(why.error()),
        model: call.model.clone(),
        interaction_id: call.interaction_id.clone(),
        turn_id: call.turn_id.clone(),
        ..ToolExecutionComplete::default()
    })?;
    Ok(())
}

/// The beginning of a call that ends before it began to run.
fn start_of(call: &OpenCall) -> ToolExecutionStart {
    let (server, tool) = call.mcp.clone().unzip();
    ToolExecutionStart {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        arguments: call.arguments.clone(),
        model: call.model.clone(),
        turn_id: call.turn_id.clone(),
        mcp_config_server_name: server.clone(),
        mcp_server_name: server,
        mcp_tool_name: tool,
        ..ToolExecutionStart::default()
    }
}

/// Leaves a session in order whose turn panicked: every call has one result, nothing is asked any more, and clients know.
pub(crate) async fn crashed(shared: &Shared) {
    shared.withdraw_questions();
    shared.files_settled().await;
    shared.permissions.end_loan();
    // Nobody waits for their answers any more. They record their own ends.
    shared.agents.stop(|task| task.is_waited_for()).await;
    let recorder = &shared.recorder;
    let told = cut_open_calls(shared, Cut::Crashed).and_then(|()| {
        recorder.record(SessionError {
            error_type: "internal".into(),
            message:
                "Internal error: the turn crashed. What it did until then is kept; send a message to continue. Please \
                      report this with the host's log."
                    .into(),
            ..SessionError::default()
        })
    });
    if let Err(error) = told.and_then(|_| end_model_call(recorder)) {
        tell_log_error(shared, &error);
    }
    recorder.note(AssistantIdle::default());
    recorder.sync_and_save();
}

/// The log cannot take it, so clients are told by an event that is only for them.
fn tell_log_error(shared: &Shared, error: &LogError) {
    tracing::error!(session = %shared.id, %error, "the session's log cannot be written");
    shared.recorder.publish_unrecorded(SessionError {
        error_type: "storage".into(),
        message: format!(
            "The session's log cannot be written: {error}. Free some space or fix the disk, then send again."
        ),
        ..SessionError::default()
    });
}

/// Tells how full the session's context is; that of a sub-agent is nobody's concern.
pub(crate) fn tell_usage(
    shared: &Shared,
    model: &ModelInfo,
    system_bytes: usize,
    tools: &[ToolSpec],
) -> Result<(), LogError> {
    if shared.sub.is_some() {
        return Ok(());
    }
    let size = shared.context_size(system_bytes, tools)?;
    shared.recorder.note(usage_info(model, &size));
    Ok(())
}

pub(crate) fn usage_info(model: &ModelInfo, size: &crate::ContextSize) -> SessionUsageInfo {
    SessionUsageInfo {
        token_limit: model.prompt_limit(),
        current_tokens: size.total(),
        messages_length: size.messages,
        system_tokens: Some(size.system),
        conversation_tokens: Some(size.conversation),
        tool_definitions_tokens: Some(size.tools),
        ..SessionUsageInfo::default()
    }
}

impl Turn {
    /// One that has not begun.
    pub(crate) fn new(shared: Arc<Shared>, cancel: CancellationToken) -> Self {
        Self {
            shared,
            cancel,
            interaction_id: Uuid::new_v4().to_string(),
            message_id: None,
            prompt: Prompt::default(),
            system: "".into(),
            mode: Mode::default(),
            autopilot: Autopilot::default(),
            task_done: AtomicBool::new(false),
            blocked_stops: 0,
            own_model: None,
            activity: parking_lot::Mutex::default(),
        }
    }

    async fn go(&mut self, mut start: Start) -> Result<(), Stop> {
        if matches!(start, Start::Prompt(..) | Start::Notices) {
            self.shared.recorder.settle_answer()?;
        }
        if let Start::Prompt(prompt, delivery) = &mut start
            && let Some(outcome) = prompt.outcome.take()
        {
            return self
                .conclude(std::mem::take(&mut **prompt), outcome, delivery.clone())
                .await;
        }
        if let Start::Prompt(prompt, delivery) = &start
            && let Some(command) = prompt.command.clone()
        {
            return crate::tool_call::run_for_person(self, prompt, &command, delivery.clone()).await;
        }
        let model = self.shared.settings.lock().model.clone();
        if let Some(program) = Program::behind(&*model) {
            return self.go_with_program(program, start).await;
        }
        self.shared.mcp_ready().await;
        self.shared.tell_tools();
        match start {
            Start::Prompt(prompt, delivery) => {
                self.let_provider_choose().await?;
                self.begin(*prompt, delivery).await?;
                self.work(0).await
            }
            Start::Continue => {
                self.interaction_id = self
                    .shared
                    .recorder
                    .facts(|facts| facts.open_turn.as_ref().and_then(|turn| turn.interaction_id.clone()))
                    .unwrap_or_else(|| self.interaction_id.clone());
                self.prepare_system().await?;
                let turn_id = self
                    .shared
                    .recorder
                    .facts(|facts| facts.open_turn.as_ref()?.turn_id.as_ref()?.parse().ok());
                let turn_id: u32 = turn_id.unwrap_or(0);
                crate::tool_call::interrupt_begun(&self.shared)?;
                self.shared.read_earlier_answers();
                let mut ended = false;
                if let Some((event, calls)) = self.shared.recorder.open_calls()? {
                    ended = self.run_tools(event, &calls, &turn_id.to_string()).await?;
                }
                self.shared.recorder.record(AssistantTurnEnd {
                    turn_id: turn_id.to_string(),
                    ..Default::default()
                })?;
                if ended {
                    return Ok(());
                }
                self.work(turn_id + 1).await
            }
            Start::Resume => {
                let failed = self.shared.recorder.facts(|facts| facts.open_turn.clone());
                let failed = failed.unwrap_or_default();
                self.interaction_id = failed.interaction_id.unwrap_or_else(|| self.interaction_id.clone());
                self.prepare_system().await?;
                let last: Option<u32> = failed.turn_id.and_then(|turn| turn.parse().ok());
                self.work(last.map_or(0, |last| last + 1)).await
            }
            Start::Notices => {
                self.prepare_system().await?;
                self.work(0).await
            }
        }
    }

    /// The same where another program does the work.
    async fn go_with_program(&mut self, program: &Program, start: Start) -> Result<(), Stop> {
        match start {
            Start::Prompt(prompt, delivery) => {
                self.begin(*prompt, delivery).await?;
                self.work_by(program).await
            }
            // Nobody knows how far it came, and the program is not there any more that would know what to do.
            Start::Continue => Ok(close_open_calls(&self.shared)?),
            Start::Resume => Err(Stop::Model(Box::new(
                program.refusal("continue a turn that has failed; send the message again"),
            ))),
            Start::Notices => Ok(()),
        }
    }

    /// Records a message and what came of it before a model was asked.
    async fn conclude(&mut self, prompt: Prompt, outcome: Outcome, delivery: Delivery) -> Result<(), Stop> {
        let shared = self.shared.clone();
        match outcome {
            Outcome::Answered(answer) => {
                shared.recorder.record(UserMessage {
                    content: prompt.display_text.unwrap_or(prompt.text),
                    message_id: prompt.message_id,
                    source: Some(COMMAND_SOURCE.into()),
                    delivery: Some(delivery),
                    ..UserMessage::default()
                })?;
                shared.queue.begun();
                shared.recorder.record(SessionInfo {
                    info_type: COMMAND_SOURCE.into(),
                    message: answer,
                    ..SessionInfo::default()
                })?;
                Ok(())
            }
            Outcome::Failed(reason) => {
                self.add_user_message(prompt, None, delivery).await?;
                shared.queue.begun();
                Err(Stop::Unprepared(reason))
            }
        }
    }

    /// Everything before the first model call.
    async fn begin(&mut self, mut prompt: Prompt, delivery: Delivery) -> Result<(), Stop> {
        let shared = self.shared.clone();
        shared.read_hooks().await?;
        if let Some(mode) = prompt.agent_mode.as_deref().and_then(Mode::parse) {
            shared.set_mode(mode)?;
        }
        let greeting = self.greet(&prompt).await?;
        let submitted = shared.hook(Step::UserPromptSubmitted { prompt: &prompt.text }).await?;
        if let Some(text) = submitted.modified_prompt {
            prompt.text = text;
        }
        let added = submitted.additional_context;
        let is_program = Program::behind(&*shared.settings.lock().model).is_some();
        if !is_program {
            self.prepare_system().await?;
        }
        if let Some(text) = greeting.additional_context {
            self.add_user_message(Prompt::of_hook(text), None, delivery.clone())
                .await?;
        }
        for earlier in std::mem::take(&mut prompt.before) {
            self.add_user_message(earlier, None, delivery.clone()).await?;
        }
        self.add_user_message(prompt, added, delivery).await?;
        shared.queue.begun();
        shared.recorder.sync();
        Ok(())
    }

    /// Tells hooks, once in the life of a session in memory, that it begins or goes on.
    async fn greet(&self, prompt: &Prompt) -> Result<HookOutput, Stop> {
        if self.shared.greeted.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return Ok(HookOutput::default());
        }
        let new = self.shared.recorder.facts(|facts| facts.user_messages == 0);
        let step = Step::SessionStart {
            source: if new { "new" } else { "resume" },
            initial_prompt: &prompt.text,
        };
        Ok(self.shared.hook(step).await?)
    }

    /// Records a message of the person as the next thing in the conversation.
    pub(crate) async fn add_user_message(
        &mut self,
        mut prompt: Prompt,
        added: Option<String>,
        delivery: Delivery,
    ) -> Result<(), Stop> {
        let shared = &self.shared;
        self.keep_images(&mut prompt).await?;
        let cwd = shared.settings.lock().cwd.clone();
        let attachments = prompt.attachments.clone();
        let text = prompt.text.clone();
        let notice = shared.notice.lock().take();
        let reads_files = !attachments.is_empty();
        let transform = move || context::transform(&text, &attachments, &cwd, notice.as_deref(), added.as_deref());
        let mut transformed = match reads_files {
            true => tokio::task::spawn_blocking(transform).await,
            false => Ok(transform()),
        }
        .unwrap_or_else(|_| prompt.text.clone());
        if shared.sub.is_none() {
            let step = Step::UserPromptTransformed {
                prompt: &prompt.text,
                transformed_prompt: &transformed,
            };
            if let Some(text) = shared.hook(step).await?.modified_transformed_prompt {
                transformed = text;
            }
        }
        let first = shared.sub.is_none()
            && prompt.source.is_none()
            && shared.recorder.facts(|facts| facts.first_prompt.is_none());
        let named = shared.settings.lock().name.is_some();
        let message_id = prompt.message_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        shared.recorder.record(UserMessage {
            content: prompt.display_text.clone().unwrap_or_else(|| prompt.text.clone()),
            transformed_content: Some(transformed),
            attachments: (!prompt.attachments.is_empty()).then(|| prompt.attachments.clone()),
            source: prompt.source.clone(),
            agent_mode: (prompt.agent_mode.clone().or_else(|| shared.other_mode())).map(Into::into),
            is_autopilot_continuation: (prompt.source.as_deref() == Some(AUTOPILOT)).then_some(true),
            interaction_id: Some(self.interaction_id.clone()),
            message_id: Some(message_id.clone()),
            delivery: Some(delivery),
            ..UserMessage::default()
        })?;
        if first && !named {
            tell_title(&shared.recorder);
        }
        // What a hook adds is part of what the person asked for: its answer answers that.
        if self.message_id.is_none() || prompt.source.as_deref() != Some("hook") {
            self.message_id = Some(message_id);
        }
        self.prompt.follow_with(prompt);
        Ok(())
    }

    /// Keeps the images among the attached files, for a model that can see them.
    async fn keep_images(&self, prompt: &mut Prompt) -> Result<(), Stop> {
        let sees = self.model().info().vision;
        let cwd = self.shared.settings.lock().cwd.clone();
        if prompt.attachments.is_empty() || !sees {
            return Ok(());
        }
        let mut attachments = prompt.attachments.clone();
        let read = tokio::task::spawn_blocking(move || (images::read(&mut attachments, &cwd), attachments)).await;
        if let Ok((assets, attachments)) = read {
            prompt.attachments = attachments;
            for asset in assets {
                self.shared.recorder.record(asset)?;
            }
        }
        Ok(())
    }

    /// The model that answers: the one that the agent wants, the one that the provider chose, or the session's.
    pub(crate) fn model(&self) -> Arc<dyn Model> {
        let settings = self.shared.settings.lock();
        let own = self.own_model.as_ref().or(settings.auto.model.as_ref());
        own.unwrap_or(&settings.model).clone()
    }

    /// Model call after model call until the model asks for no more tools.
    pub(crate) async fn work(&mut self, first: u32) -> Result<(), Stop> {
        for number in first.. {
            let turn_id = number.to_string();
            if self.mode != self.shared.mode() {
                self.prepare_system().await?;
            }
            self.take_steering().await?;
            self.within_limit().await?;
            let recorder = &self.shared.recorder;
            recorder.record(AssistantTurnStart {
                turn_id: turn_id.clone(),
                interaction_id: Some(self.interaction_id.clone()),
                ..AssistantTurnStart::default()
            })?;
            self.shared.mcp.revive().await;
            self.shared.mcp.lists_read().await;
            let tools = self.shared.specs();
            let compacting = self.compact_if_needed(&tools).await?;
            self.tell_usage(&tools)?;
            let called = self.call_model(&turn_id, tools).await?;
            let calls = called.completion.message.tool_calls.clone();
            let event = self.record_answer(called, &turn_id)?;
            drop(compacting);
            if !calls.is_empty() {
                self.activity.lock().begin(InterruptedActivity::ToolCall);
            }
            let (rejected, ended) = match self.run_tools(event, &calls, &turn_id).await {
                Err(Stop::Rejected) => (true, true),
                other => (false, other?),
            };
            self.unless_cancelled().await;
            self.shared.recorder.record(AssistantTurnEnd {
                turn_id,
                ..AssistantTurnEnd::default()
            })?;
            if rejected {
                return Err(Stop::Rejected);
            }
            if ended {
                return Ok(());
            }
            self.autopilot.answered(!calls.is_empty());
            let complete = std::mem::take(self.task_done.get_mut());
            if (calls.is_empty() || complete)
                && !self.has_steering()
                && (self.shared.sub.is_some() || !self.shared.agents.has_notices())
                && (complete || !self.goes_on_alone().await?)
                && self.agent_may_stop().await?
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Never returns once the turn is cancelled. Tools hear of that, too, and may answer before whoever runs the turn has
    /// ended it: no model is to be asked what it makes of such an answer.
    pub(crate) async fn unless_cancelled(&self) {
        if self.cancel.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// In autopilot: tells the model to go on, as long as the bounds allow it.
    async fn goes_on_alone(&mut self) -> Result<bool, Stop> {
        if self.shared.sub.is_some() || self.shared.mode() != Mode::Autopilot {
            return Ok(false);
        }
        match self.autopilot.next() {
            Ok(prompt) => {
                self.add_user_message(prompt, None, Delivery::Steering).await?;
                Ok(true)
            }
            Err(message) => {
                self.shared.recorder.record(SessionInfo {
                    info_type: AUTOPILOT.into(),
                    message,
                    ..SessionInfo::default()
                })?;
                Ok(false)
            }
        }
    }

    /// Asks hooks whether the agent may stop here; what blocks it is said to the model as the next message.
    async fn agent_may_stop(&mut self) -> Result<bool, Stop> {
        if self.shared.sub.is_some() {
            return self.sub_agent_may_stop().await;
        }
        let transcript = self.shared.dir.join("events.jsonl");
        let step = Step::AgentStop {
            stop_reason: "end_turn",
            transcript_path: transcript.to_string_lossy(),
            was_blocked: self.blocked_stops > 0,
        };
        let output = self.shared.hook(step).await?;
        if self.blocked_stops < MOST_BLOCKED_STOPS
            && let Some(why) = output.blocks_stop()
        {
            self.blocked_stops += 1;
            self.add_user_message(Prompt::of_hook(why), None, Delivery::Steering)
                .await?;
            return Ok(false);
        }
        Ok(true)
    }

    async fn take_steering(&mut self) -> Result<(), Stop> {
        while self.shared.sub.is_none()
            && let Some(notice) = self.shared.agents.take_notice()
        {
            self.shared.recorder.record(notice)?;
        }
        while let Some(prompt) = self.shared.interjections.next() {
            self.add_user_message(prompt, None, Delivery::Steering).await?;
        }
        while let Some(prompt) = self.shared.next_steering() {
            for said in prompt.before.iter().chain([&prompt]) {
                self.add_user_message(said.clone(), None, Delivery::Steering).await?;
            }
            self.shared.queue.steered(prompt.message_id.as_ref());
            self.shared.recorder.note(PendingMessagesModified::default());
        }
        Ok(())
    }

    fn has_steering(&self) -> bool {
        !self.shared.interjections.is_empty() || self.shared.next_steering().is_some()
    }

    fn tell_usage(&self, tools: &[ToolSpec]) -> Result<(), Stop> {
        Ok(tell_usage(&self.shared, self.model().info(), self.system.len(), tools)?)
    }

    /// Runs the tool calls of one message. True when the turn ends with one of them.
    async fn run_tools(&self, message: Uuid, calls: &[ToolCall], turn_id: &str) -> Result<bool, Stop> {
        crate::tool_call::run_all(self, message, calls, turn_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;

    #[test]
    fn a_call_that_never_began_is_told_with_all_that_was_known_of_it() {
        let line = r#"{"id":"00000000-0000-4000-8000-000000000001","timestamp":"2026-01-01T00:00:00.000Z","parentId":null,"type":"assistant.message","data":{"messageId":"m","content":"","model":"some-model","interactionId":"i","turnId":"2","toolRequests":[{"toolCallId":"c","name":"docs-search","arguments":{"q":1},"mcpServerName":"docs","mcpToolName":"search"}]}}"#;
        let mut facts = Facts::default();
        facts.fold(&lodge_events::Event::parse(line.as_bytes().to_vec().into()).unwrap());
        let start = start_of(&facts.open_turn.unwrap().calls[0]);
        let told = [
            start.mcp_server_name,
            start.mcp_config_server_name,
            start.mcp_tool_name,
            start.model,
            start.turn_id,
        ];
        assert_eq!(told.map(Option::unwrap), ["docs", "docs", "search", "some-model", "2"]);
        assert_eq!(start.arguments, Some(serde_json::json!({"q": 1})));
    }
}
