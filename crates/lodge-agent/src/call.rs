//! One model call: streamed to clients as it arrives, and retried where that may help.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use lodge_events::{
    AssistantIntent, AssistantMessage, AssistantMessageDelta, AssistantMessageStart, AssistantReasoning,
    AssistantReasoningDelta, AssistantStreamingDelta, AssistantToolCallDelta, AssistantTurnRetry, AssistantUsage,
    CallOutcome, CompactionTrigger, CopilotUsage, InterruptedActivity, LodgeUsage, ModelCallFailure, ModelCallFinished,
    ModelCallStart, QuotaSnapshot, ToolRequest, UsageTokenDetail,
};
use lodge_log::LogError;
use lodge_models::{Chunk, Completion, ErrorKind, Model, ModelError, ModelRequest, Quota, SubAgent, ToolSpec};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    hooks::Step,
    mcp::McpTool,
    partial::Partial,
    recorder::Recorder,
    redact::{Held, Secrets},
    session::{AnyTool, Shared},
    shortfall::Shortfall,
    streamed::{Piece, Streamed},
    turn::{Stop, Turn},
};

/// Number of attempts of a call.
const TRIES: u32 = 6;
/// The first wait after a broken connection, and after an error that the server reported. Each further wait is twice as long,
/// so that all of them take 6 and 31 seconds: as long as the Copilot CLI takes.
const AFTER_BREAK: Duration = Duration::from_millis(200);
const AFTER_REPORT: Duration = Duration::from_secs(1);
/// The longest wait that a server can impose on a turn; beyond it, the error is reported instead.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Progress in bytes is reported in these steps, not for every chunk: it is only a hint, and each event goes to every
/// client.
const BYTES_STEP: u64 = 2048;

/// The streamed part of a call.
struct Live<'a> {
    turn: &'a Turn,
    turn_id: &'a str,
    /// The call has ended, so its answer is recorded as a whole.
    ended: bool,
    streaming: bool,
    partial: Partial,
    reasoning_id: String,
    begun: bool,
    text: Streamed,
    reasoning: Streamed,
    /// How much of the reasoning is recorded.
    recorded_reasoning: usize,
    bytes_told: u64,
    first_chunk: Option<Instant>,
    secrets: Arc<Secrets>,
    held_text: Held,
    held_reasoning: Held,
    /// By the call's id, with the tool's name.
    held_calls: BTreeMap<String, (String, Held)>,
}

impl<'a> Live<'a> {
    /// A call with a new answer, or one that continues an answer that broke off when its turn failed or the host
    /// stopped.
    fn new(turn: &'a Turn, turn_id: &'a str) -> Self {
        let recorder = &turn.shared.recorder;
        let unfinished = recorder.facts(|facts| facts.unfinished.answer().cloned());
        let begun = unfinished.is_some();
        let (message_id, told) = match unfinished {
            Some(kept) => (kept.message_id, kept.content),
            None => (Uuid::new_v4().to_string(), String::new()),
        };
        Self {
            turn,
            turn_id,
            ended: false,
            streaming: false,
            reasoning_id: Uuid::new_v4().to_string(),
            begun,
            text: Streamed::from(told.clone()),
            partial: Partial::new(message_id, told),
            reasoning: Streamed::default(),
            recorded_reasoning: 0,
            bytes_told: 0,
            first_chunk: None,
            secrets: recorder.secrets(),
            held_text: Held::default(),
            held_reasoning: Held::default(),
            held_calls: BTreeMap::new(),
        }
    }

    /// Begins an attempt. Calls get new ids in each; text continues where clients saw it end.
    fn attempt(&mut self, request: &ModelRequest) {
        self.streaming = request.stream;
        self.text.restart();
        self.reasoning.restart();
        self.bytes_told = 0;
        self.first_chunk = None;
        self.held_calls.clear();
    }

    fn take(&mut self, chunk: Chunk) -> Option<Completion> {
        let recorder = &self.turn.shared.recorder;
        self.first_chunk
            .get_or_insert_with(|| self.turn.activity.lock().output_begins());
        match chunk {
            Chunk::Done(completion) => {
                if !self.streaming {
                    self.text.take_whole(&completion.message.text);
                }
                self.finish();
                self.ended = true;
                return Some(*completion);
            }
            _ if !self.streaming => {}
            Chunk::Bytes(total) => {
                if self.bytes_told == 0 || total >= self.bytes_told + BYTES_STEP {
                    self.bytes_told = total;
                    recorder.note(AssistantStreamingDelta {
                        total_response_size_bytes: total,
                    });
                }
            }
            Chunk::Text(text) => match self.text.take(text) {
                Piece::Seen => {}
                Piece::New(text) => self.pass_text(text),
                Piece::Other(text) => self.append_text(text),
            },
            Chunk::Reasoning(text) => {
                let recorded = self.recorded_reasoning > 0 && self.unrecorded_reasoning().is_empty();
                match self.reasoning.take(text) {
                    Piece::Seen => {}
                    Piece::New(text) => {
                        if recorded {
                            self.new_reasoning();
                        }
                        self.pass_reasoning(text);
                    }
                    // New reasoning stands by itself: the model was not asked to continue the first.
                    Piece::Other(text) => {
                        self.reasoning.replace(&text);
                        self.recorded_reasoning = 0;
                        self.new_reasoning();
                        self.pass_reasoning(text);
                    }
                }
            }
            Chunk::ToolCall { id, name, fragment } if !self.secrets.any() => self.tell_call(id, name, fragment),
            Chunk::ToolCall { id, name, fragment } => {
                let (name, held) = self.held_calls.entry(id.clone()).or_insert((name, Held::default()));
                let (fragment, name) = (self.secrets.pass(held, fragment), name.clone());
                self.tell_call(id, name, fragment);
            }
        }
        None
    }

    /// Adds text after what clients have seen.
    fn append_text(&mut self, text: String) {
        self.text.append(&text);
        self.pass_text(text);
    }

    fn pass_text(&mut self, text: String) {
        let text = self.secrets.pass(&mut self.held_text, text);
        self.tell_text(text);
    }

    fn pass_reasoning(&mut self, text: String) {
        let text = self.secrets.pass(&mut self.held_reasoning, text);
        self.tell_reasoning(text);
    }

    /// Reasoning after anything else begins a new block.
    fn new_reasoning(&mut self) {
        self.reasoning_id = Uuid::new_v4().to_string();
        self.held_reasoning = Held::default();
    }

    fn unrecorded_reasoning(&self) -> &str {
        &self.reasoning.text()[self.recorded_reasoning..]
    }

    /// Records reasoning as a whole once something else follows it. It stays recorded even if the attempt fails: the
    /// same reasoning in a later attempt adds nothing, and different reasoning adds a block.
    fn end_reasoning(&mut self) {
        self.finish_reasoning();
        let content = self.unrecorded_reasoning().to_owned();
        if content.is_empty() {
            return;
        }
        self.recorded_reasoning = self.reasoning.text().len();
        self.turn.shared.recorder.note(AssistantReasoning {
            reasoning_id: self.reasoning_id.clone(),
            content,
            ..AssistantReasoning::default()
        });
    }

    fn finish_reasoning(&mut self) {
        if let Some(rest) = self.held_reasoning.rest() {
            self.tell_reasoning(rest);
        }
    }

    /// The reasoning that is not recorded yet, with its id. An answer that was not streamed has all of it.
    fn rest_of_reasoning(&self, whole: Option<&str>) -> Option<(String, String)> {
        let rest = match self.reasoning.text() {
            "" => whole.unwrap_or_default(),
            _ => self.unrecorded_reasoning(),
        };
        (!rest.is_empty()).then(|| (self.reasoning_id.clone(), rest.to_owned()))
    }

    /// Publishes text that was held back.
    fn finish(&mut self) {
        if let Some(text) = self.text.finish() {
            self.append_text(text);
        }
        self.finish_reasoning();
        if let Some(text) = self.held_text.rest() {
            self.tell_text(text);
        }
        for (id, (name, mut held)) in std::mem::take(&mut self.held_calls) {
            held.rest()
                .into_iter()
                .for_each(|rest| self.tell_call(id.clone(), name.clone(), rest));
        }
    }

    fn tell_text(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        self.end_reasoning();
        let recorder = &self.turn.shared.recorder;
        if !self.begun {
            self.begun = true;
            recorder.note(AssistantMessageStart {
                message_id: self.partial.message_id.clone(),
                ..Default::default()
            });
        }
        self.partial.push(&text);
        recorder.note(AssistantMessageDelta {
            message_id: self.partial.message_id.clone(),
            delta_content: text,
            ..AssistantMessageDelta::default()
        });
        self.partial.keep_if_long(self.turn, self.turn_id);
    }

    fn keep(&mut self) {
        self.partial.keep(self.turn, self.turn_id);
    }

    fn tell_reasoning(&self, text: String) {
        if !text.is_empty() {
            self.turn.shared.recorder.note(AssistantReasoningDelta {
                reasoning_id: self.reasoning_id.clone(),
                delta_content: text,
            });
        }
    }

    fn tell_call(&mut self, id: String, name: String, fragment: String) {
        self.end_reasoning();
        self.turn.shared.recorder.note(AssistantToolCallDelta {
            tool_call_id: id,
            tool_name: Some(name),
            input_delta: fragment,
            ..AssistantToolCallDelta::default()
        });
    }
}

impl Drop for Live<'_> {
    /// A turn is stopped by dropping it. The part of the answer that people saw is kept, for them and for the model.
    fn drop(&mut self) {
        if !self.ended {
            self.end_reasoning();
            self.keep();
        }
    }
}

/// Built-in tools that edit files, and the version of this list.
const EDITING_TOOLS: [&str; 3] = ["create", "edit", "apply_patch"];
const EDIT_CLASSIFIER_VERSION: u64 = 1;

/// Reports the end of a call when it is dropped. A call that is dropped before its end was cancelled.
struct CallEnd<'a> {
    turn: &'a Turn,
    turn_id: &'a str,
    started: Instant,
    outcome: CallOutcome,
    edits: Option<bool>,
}

impl Drop for CallEnd<'_> {
    fn drop(&mut self) {
        self.turn.shared.recorder.note(ModelCallFinished {
            turn_id: self.turn_id.into(),
            interaction_id: Some(self.turn.interaction_id.clone()),
            dispatch_duration_ms: self.started.elapsed().as_secs_f64() * 1000.0,
            outcome: self.outcome.clone(),
            contains_built_in_file_edit_request: self.edits,
            edit_classifier_version: EDIT_CLASSIFIER_VERSION,
        });
    }
}

/// A finished call, with the ids of its deltas.
pub(crate) struct Called {
    pub(crate) completion: Completion,
    message_id: String,
    /// The reasoning that is not recorded yet, with its id.
    reasoning: Option<(String, String)>,
    model: String,
    /// Number of the attempt, from 0.
    attempt: u32,
    /// Of the request, by its size.
    estimated_tokens: u64,
    duration: Duration,
    to_first: Option<Duration>,
}

impl Turn {
    /// Calls the model, with retries.
    pub(crate) async fn call_model(&self, turn_id: &str, mut tools: Arc<[ToolSpec]>) -> Result<Called, Stop> {
        let mut compacted = false;
        let mut attempt = 0;
        let mut live = Live::new(self, turn_id);
        loop {
            if attempt > 0 {
                tools = self.shared.specs();
            }
            let (model, request) = self.request(attempt, tools.clone(), live.text.text())?;
            self.shared.recorder.durable().await?;
            let started = self.activity.lock().begin(InterruptedActivity::ModelCall);
            let error = match self.try_once(&model, request, turn_id, started, &mut live).await {
                Ok(called) => return Ok(called),
                Err(error) => error,
            };
            live.keep();
            self.shared.recorder.note(ModelCallFailure {
                source: self.shared.sub.as_ref().map_or("top_level", |_| "subagent").into(),
                model: Some(model.info().id.clone()),
                status_code: error.status.map(u64::from),
                duration_ms: Some(started.elapsed().as_millis() as u64),
                error_message: Some(error.message.clone()),
                error_code: error.code.clone().filter(|_| error.status == Some(400)),
                provider_call_id: error.provider_call_id.clone(),
                ..ModelCallFailure::default()
            });
            attempt += 1;
            let mut pause = Duration::ZERO;
            if self.switched_to_auto(&model, &error).await? {
                attempt = 0;
            } else if error.kind == ErrorKind::ContextLimit
                && !compacted
                && self.compact(CompactionTrigger::ContextLimitRetry).await?.is_ok()
            {
                compacted = true;
            } else {
                match pause_before(&error, attempt) {
                    Some(wait) => pause = wait,
                    None => return Err(Stop::Model(Box::new(error))),
                }
            }
            let step = Step::ErrorOccurred {
                error: &error.message,
                error_context: "model_call",
                recoverable: true,
            };
            self.shared.hook(step).await?;
            // Before the wait, so that people know why they wait.
            self.shared.recorder.note(AssistantTurnRetry {
                turn_id: turn_id.into(),
                model: Some(model.info().id.clone()),
                reason: Some(retry_reason(error.kind).into()),
            });
            self.activity.lock().begin(InterruptedActivity::RetryBackoff);
            self.wait(pause, attempt, &error).await;
        }
    }

    /// Waits for another attempt. People see the reason and the remaining time.
    async fn wait(&self, pause: Duration, attempt: u32, error: &ModelError) {
        let until = Instant::now() + pause;
        let attempt = format!("attempt {} of {TRIES}", attempt + 1);
        let tell = |intent: String| self.shared.recorder.note(AssistantIntent { intent });
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let seconds = left.as_millis().div_ceil(1000);
            tell(format!("Trying again in {seconds} s ({attempt}): {}", error.message));
            // Until the number changes.
            tokio::time::sleep(left - Duration::from_secs(seconds as u64 - 1).min(left)).await;
        }
        tell(format!("Trying again ({attempt})"));
    }

    /// The request for the next call, with the latest settings. `partial` is the part of the answer that clients saw
    /// before the connection broke.
    fn request(
        &self,
        attempt: u32,
        tools: Arc<[ToolSpec]>,
        partial: &str,
    ) -> Result<(Arc<dyn Model>, Arc<ModelRequest>), Stop> {
        let (settings, model) = (self.shared.settings(), self.model());
        let mut headers = settings.headers.clone();
        headers.extend(self.prompt.headers.clone());
        let mut messages = self.shared.recorder.messages(model.info().vision)?;
        messages.extend(self.limit_status());
        let mut request = ModelRequest {
            system: self.system.clone(),
            messages,
            tools,
            stream: settings.streaming,
            reasoning_effort: settings.reasoning_effort.clone(),
            reasoning_summary: settings.reasoning_summary.clone(),
            interaction_id: Some(self.interaction_id.clone()),
            required_tool: self.prompt.required_tool.clone(),
            response_format: self.prompt.response_format.clone(),
            citations: settings.citations,
            headers,
            user_agent: settings.client_name.clone(),
            attempt,
            partial: partial.into(),
            sub_agent: self.shared.sub.as_ref().map(|sub| SubAgent {
                id: sub.task.id.to_string(),
                parent: sub.task.parent.as_deref().map(str::to_owned),
            }),
            ..ModelRequest::default()
        };
        request.prompt_tokens = Some(self.shared.corrected(request.estimated_tokens()));
        Ok((model, Arc::new(request)))
    }

    async fn try_once(
        &self,
        model: &Arc<dyn Model>,
        request: Arc<ModelRequest>,
        turn_id: &str,
        started: Instant,
        live: &mut Live<'_>,
    ) -> Result<Called, ModelError> {
        self.shared.recorder.note(ModelCallStart {
            turn_id: turn_id.into(),
            model: Some(model.info().id.clone()),
            ..ModelCallStart::default()
        });
        let mut end = CallEnd {
            turn: self,
            turn_id,
            started,
            outcome: CallOutcome::Cancelled,
            edits: None,
        };
        let result = self.stream(model, request, started, live).await;
        match &result {
            Ok(called) => {
                let calls = &called.completion.message.tool_calls;
                end.edits = Some(calls.iter().any(|call| EDITING_TOOLS.contains(&call.name.as_str())));
                end.outcome = CallOutcome::Success;
            }
            Err(_) => end.outcome = CallOutcome::Error,
        }
        result
    }

    async fn stream(
        &self,
        model: &Arc<dyn Model>,
        request: Arc<ModelRequest>,
        started: Instant,
        live: &mut Live<'_>,
    ) -> Result<Called, ModelError> {
        live.attempt(&request);
        let (attempt, continued) = (request.attempt, !request.partial.is_empty());
        let estimated_tokens = request.estimated_tokens();
        let mut stream = model.call(request);
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = stream.next() => chunk,
                () = live.partial.due() => {
                    live.keep();
                    continue;
                }
            };
            let Some(chunk) = chunk else { break };
            if let Some(mut completion) = live.take(chunk?) {
                if continued {
                    completion.message.text = live.text.text().into();
                }
                return Ok(Called {
                    reasoning: live.rest_of_reasoning(completion.message.reasoning_text.as_deref()),
                    completion,
                    message_id: live.partial.message_id.clone(),
                    model: model.info().id.clone(),
                    attempt,
                    estimated_tokens,
                    duration: started.elapsed(),
                    to_first: live.first_chunk.map(|at| at - started),
                });
            }
        }
        Err(broken_off(&**model))
    }

    /// Records the model's answer: reasoning, message, usage. Returns the id of the message's event.
    pub(crate) fn record_answer(&self, called: Called, turn_id: &str) -> Result<Uuid, Stop> {
        let recorder = &self.shared.recorder;
        let Called {
            completion,
            message_id,
            reasoning,
            model,
            attempt,
            estimated_tokens,
            duration,
            to_first,
        } = called;
        let sub_agent = self.shared.sub.is_some();
        let used = AssistantUsage {
            initiator: sub_agent.then(|| AssistantUsage::SUB_AGENT.to_owned()),
            interaction_type: Some(
                if sub_agent {
                    "conversation-subagent"
                } else {
                    "conversation-agent"
                }
                .to_owned(),
            ),
            ..usage(model.clone(), &completion, duration)
        };
        // First of all: the call costs money, even if the answer cannot be used.
        recorder.record_usage(LodgeUsage {
            attempt: (attempt > 0).then(|| u64::from(attempt) + 1),
            estimated_input_tokens: Some(estimated_tokens),
            ..spent(&used)
        })?;
        let shortfall = Shortfall::of(&completion).map(|shortfall| shortfall.warning());
        let message = completion.message;
        if let Some((reasoning_id, content)) = reasoning {
            recorder.record(AssistantReasoning {
                reasoning_id,
                content,
                ..AssistantReasoning::default()
            })?;
        }
        self.tell_intents(&message.tool_calls);
        // Most answers call nothing.
        let tools = match message.tool_calls.is_empty() {
            true => Vec::new(),
            false => self.shared.tools(),
        };
        let requests = message.tool_calls.iter().map(|call| {
            let tool = tools.iter().find(|(spec, _)| spec.name == call.name);
            let tool = tool.and_then(|(_, tool)| match tool {
                AnyTool::Mcp(tool) => Some(tool),
                _ => None,
            });
            ToolRequest {
                tool_call_id: call.id.clone(),
                name: call.name.clone(),
                arguments: Some(match call.custom {
                    true => Value::String(call.arguments.to_string()),
                    false => parse_arguments(&call.arguments).unwrap_or_else(|_| Value::Object(Map::new())),
                }),
                type_: Some(if call.custom { "custom" } else { "function" }.into()),
                tool_title: tool.map(McpTool::title),
                mcp_server_name: tool.map(|tool| tool.server.to_string()),
                mcp_tool_name: tool.map(|tool| tool.tool.name.clone()),
                ..ToolRequest::default()
            }
        });
        recorder.keep_verbatim(&message.tool_calls)?;
        if let Some(sub) = &self.shared.sub
            && !message.text.trim().is_empty()
        {
            sub.task.activity.lock().response = Some(message.text.to_string());
        }
        let event = recorder.record(AssistantMessage {
            message_id,
            model: Some(completion.model.unwrap_or(model)),
            content: message.text.to_string(),
            tool_requests: Some(requests.collect()),
            reasoning_opaque: message.reasoning_opaque,
            reasoning_text: message.reasoning_text,
            encrypted_content: message.encrypted_content,
            phase: message.phase,
            output_tokens: completion.usage.output_tokens,
            interaction_id: Some(self.interaction_id.clone()),
            turn_id: Some(turn_id.into()),
            originating_message_id: self.message_id.clone(),
            request_id: completion.provider_call_id,
            api_call_id: completion.api_call_id,
            citations: completion.citations,
            ..AssistantMessage::default()
        })?;
        recorder.note(AssistantUsage {
            time_to_first_token_ms: to_first.map(|time| time.as_secs_f64() * 1000.0),
            ..used
        });
        if let Some(warning) = shortfall {
            recorder.record(warning)?;
        }
        Ok(event.id())
    }
}

/// The usage of a call.
pub(crate) fn usage(model: String, completion: &Completion, duration: Duration) -> AssistantUsage {
    let usage = &completion.usage;
    AssistantUsage {
        model,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cost: Some(usage.cost.unwrap_or_default()),
        copilot_usage: usage.copilot.as_ref().map(copilot_usage),
        duration: Some(duration.as_millis() as u64),
        api_call_id: completion.api_call_id.clone(),
        provider_call_id: completion.provider_call_id.clone(),
        api_endpoint: completion.endpoint.clone().map(Into::into),
        finish_reason: completion.finish_reason.clone(),
        quota_snapshots: Some(quotas(completion)).filter(|quotas| !quotas.is_empty()),
        ..AssistantUsage::default()
    }
}

fn quotas(completion: &Completion) -> BTreeMap<String, QuotaSnapshot> {
    let snapshot = |(kind, quota): (&String, &Quota)| {
        let unlimited = quota.entitlement < 0.0;
        let snapshot = QuotaSnapshot {
            is_unlimited_entitlement: unlimited,
            entitlement_requests: quota.entitlement as i64,
            used_requests: quota.used as u64,
            usage_allowed_with_exhausted_quota: quota.overage_allowed,
            overage: quota.overage,
            overage_allowed_with_exhausted_quota: quota.overage_allowed,
            remaining_percentage: quota.remaining_percentage,
            reset_date: quota.resets.clone(),
            ..QuotaSnapshot::default()
        };
        (kind.clone(), snapshot)
    };
    completion.quotas.iter().map(snapshot).collect()
}

fn copilot_usage(usage: &lodge_models::CopilotUsage) -> CopilotUsage {
    let details = usage.token_details.iter().map(|detail| UsageTokenDetail {
        batch_size: detail.batch_size,
        cost_per_batch: detail.cost_per_batch,
        token_count: detail.token_count,
        token_type: detail.token_type.clone(),
        ..UsageTokenDetail::default()
    });
    CopilotUsage {
        total_nano_aiu: usage.total_nano_aiu,
        token_details: Some(details.collect()).filter(|details: &Vec<_>| !details.is_empty()),
        ..CopilotUsage::default()
    }
}

/// Records and publishes the usage of a call outside the conversation.
pub(crate) fn account(recorder: &Recorder, used: AssistantUsage) -> Result<(), LogError> {
    recorder.record_usage(spent(&used))?;
    recorder.note(used);
    Ok(())
}

/// The recorded part of a call's usage.
pub(crate) fn spent(usage: &AssistantUsage) -> LodgeUsage {
    LodgeUsage {
        model: usage.model.clone(),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cost: usage.cost.filter(|cost| *cost != 0.0),
        total_nano_aiu: usage.copilot_usage.as_ref().map(|usage| usage.total_nano_aiu),
        duration: usage.duration,
        initiator: usage.initiator.clone(),
        attempt: None,
        estimated_input_tokens: None,
    }
}

/// Parses arguments as models write them: empty text means no arguments. The error says what is wrong.
pub(crate) fn parse_arguments(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(_) => Err("are not a JSON object".to_owned()),
        Err(error) => Err(format!("are not valid JSON ({error})")),
    }
}

/// The error of an answer that ends without saying so.
pub(crate) fn broken_off(model: &dyn Model) -> ModelError {
    let id = &model.info().id;
    ModelError {
        kind: ErrorKind::Connection,
        message: format!("The answer of the model {id} ended before it was complete."),
        status: None,
        retry_after: None,
        provider_call_id: None,
        code: None,
        retryable: true,
    }
}

/// What a call outside turns is for.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    pub(crate) initiator: &'static str,
    pub(crate) interaction_type: &'static str,
}

/// One attempt of a call outside turns. What it used is recorded, whatever the answer is worth.
pub(crate) async fn ask_once(
    shared: &Shared,
    model: &dyn Model,
    request: Arc<ModelRequest>,
    purpose: Purpose,
) -> Result<Result<Box<Completion>, ModelError>, LogError> {
    let started = Instant::now();
    let mut stream = model.call(request);
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(Chunk::Done(answer)) => {
                let used = AssistantUsage {
                    initiator: Some(purpose.initiator.to_owned()),
                    interaction_type: Some(purpose.interaction_type.to_owned()),
                    ..usage(model.info().id.clone(), &answer, started.elapsed())
                };
                account(&shared.recorder, used)?;
                return Ok(Ok(answer));
            }
            Ok(_) => {}
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Err(broken_off(model)))
}

/// The wait before the attempt of this number, counted from 1; nothing where another attempt would not help.
pub(crate) fn pause_before(error: &ModelError, attempt: u32) -> Option<Duration> {
    let asked = error.retry_after.map(|wait| wait.max(AFTER_BREAK));
    let wait = asked.unwrap_or_else(|| backoff(error, attempt));
    (error.retryable && attempt < TRIES && wait <= LONGEST_WAIT).then_some(wait)
}

/// The wait before an attempt, counted from 1, if the server does not name one.
fn backoff(error: &ModelError, attempt: u32) -> Duration {
    let reported = error.status.is_some() || error.kind == ErrorKind::RateLimit;
    let first = if reported { AFTER_REPORT } else { AFTER_BREAK };
    first * (1 << (attempt - 1))
}

fn retry_reason(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::RateLimit => "rate_limit",
        ErrorKind::ContextLimit => "context_limit",
        _ => "streaming_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_names_no_wait_is_not_asked_again_at_once() {
        let asked = |milliseconds| {
            let wait = Some(Duration::from_millis(milliseconds));
            let error = ModelError::new(ErrorKind::RateLimit, "no").with_retry_after(wait);
            pause_before(&error, 1).map(|wait| wait.as_millis())
        };
        assert_eq!(
            [0, 150, 3_000, 61_000].map(asked),
            [Some(200), Some(200), Some(3_000), None]
        );
    }

    #[test]
    fn all_waits_together_are_as_long_as_those_of_the_copilot_cli() {
        let error = |kind| ModelError::new(kind, "no");
        for (error, milliseconds) in [
            (error(ErrorKind::Connection), 6_200),
            (error(ErrorKind::Connection).with_status(503), 31_000),
            (error(ErrorKind::RateLimit), 31_000),
        ] {
            let waits: Duration = (1..TRIES).map(|attempt| backoff(&error, attempt)).sum();
            assert_eq!(waits, Duration::from_millis(milliseconds), "{error:?}");
        }
    }
}
