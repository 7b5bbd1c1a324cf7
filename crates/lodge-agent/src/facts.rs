//! A summary of a session's log: enough to resume without reading all of it. It is a fold over events, so a live session and
//! one that is read back have the same facts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use lodge_events::{
    AgentMode, ApprovalMode, AssistantMessage, AutoTier, COMMAND_SOURCE, CodeChanges, Event, LodgeDirectories,
    LodgeUsage, Payload, SessionCanvasRecorded, SessionRule, SessionShutdown, Unfinished, UserMessage,
    WorkingDirectoryContext,
};
use lodge_log::About;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    schedules::{OpenSchedule, Schedules},
    totals::{ModelTotals, Totals},
};
use crate::{questions::Questions, queue::PendingMessages, session::GitContext};

mod schedules;
mod totals;

/// `infoType` of the `session.info` that closes a turn which the host did not live to finish.
pub const INTERRUPTED_INFO: &str = "interrupted";

/// `errorType` of the `session.error` that ends the turn of a message which could not be prepared. Going on with it would be
/// saying it unprepared, so it cannot be resumed.
pub const PREPARATION_FAILED: &str = "sendFailed";

/// What the event of an interrupted turn says to people.
pub const INTERRUPTED_TURN: &str = "The host stopped in the middle of the last turn; it counts as interrupted.";

/// The facts. They are kept beside the log with the position they are valid for, and folded on from there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Which events these facts know of, once they are kept. See [`Facts::is_current`].
    pub(crate) format: u32,
    /// When the session began, in milliseconds since 1970.
    pub started_ms: i64,
    /// The model that was last chosen.
    pub model: Option<String>,
    /// The effort that was last chosen.
    pub reasoning_effort: Option<String>,
    /// What automatic model choice prefers.
    pub auto_tier: Option<AutoTier>,
    /// The mode it is in.
    pub mode: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Where git said it belongs, when that was last told.
    pub git: Option<GitContext>,
    /// The first thing a person said.
    pub first_prompt: Option<String>,
    /// The first command that a person ran for themselves.
    pub first_command: Option<String>,
    /// The id of the last message.
    pub last_message_id: Option<String>,
    /// The turn that the last message of a person began: the message's id and its event's.
    pub last_turn: Option<(String, String)>,
    /// How many messages of persons there are.
    pub user_messages: u64,
    /// The system prompt that was last recorded.
    pub system_prompt: Option<String>,
    /// How often the conversation was compacted.
    pub compactions: u64,
    /// The turn that is not finished, if there is one.
    pub open_turn: Option<OpenTurn>,
    /// The model call whose `assistant.turn_end` is still to come, as `turnId`.
    pub open_model_call: Option<String>,
    /// The turn that failed, or that the host did not live to finish, while nothing was said since: it can be resumed.
    pub failed_turn: Option<OpenTurn>,
    /// The answer that streams, or that broke off and is no message yet.
    pub unfinished: Unfinished,
    /// The custom agent that was chosen.
    pub agent: Option<String>,
    /// Sub-agents that have begun and not ended, by their id.
    pub open_agents: BTreeMap<String, OpenAgent>,
    /// The ids of all sub-agents there were: none is used twice.
    pub agent_ids: BTreeSet<String>,
    /// What the session may spend.
    pub limit: Option<f64>,
    /// What is asked before tools run, once somebody chose.
    pub approval: Option<ApprovalMode>,
    /// The session's own permission rules.
    pub rules: Vec<SessionRule>,
    /// Messages that were accepted and are no part of the conversation yet.
    pub pending: PendingMessages,
    /// Questions of the turn under way.
    pub questions: Questions,
    /// The message whose turn was taken up after the host had gone down, and how often, while it came no further.
    pub retried: Option<(String, u32)>,
    /// The conversation of the program that works for the session, by the program's id.
    pub program_session: Option<String>,
    /// Where the worktree begins that is still to be made for the session.
    pub worktree_wanted: Option<String>,
    /// The prompts that are sent at set times.
    pub schedules: Schedules,
    /// The canvases that are open, by the names of these.
    pub canvases: BTreeMap<String, SessionCanvasRecorded>,
    /// What people arranged about the session as a whole.
    pub about: About,
    /// What was turned on and off for this session alone.
    pub switches: BTreeMap<String, bool>,
    /// What was done so far, for `session.shutdown`.
    pub totals: Totals,
    /// Why this build must not go on with the log: a newer one has written what it does not understand.
    pub newer: Option<String>,
}

/// A turn that has begun and not ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenTurn {
    /// The model call that runs, as `turnId`.
    pub turn_id: Option<String>,
    /// The interaction it belongs to.
    pub interaction_id: Option<String>,
    /// The event of the assistant message whose tool calls are open.
    pub message_event: Option<String>,
    /// Tool calls that have no result yet, in order.
    pub calls: Vec<OpenCall>,
    /// Whether the person runs a command: no model was asked, and there is nothing to continue.
    pub command: bool,
}

/// A tool call without a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Whether it had begun to run.
    pub started: bool,
    /// Whether clients were asked to run it.
    #[serde(default)]
    pub asked: bool,
    /// The model that made it, where one did.
    #[serde(default)]
    pub model: Option<String>,
    /// What it was called with.
    #[serde(default)]
    pub arguments: Option<Value>,
    /// The MCP server that has the tool, and the tool's name there.
    #[serde(default)]
    pub mcp: Option<(String, String)>,
    /// The interaction it belongs to.
    #[serde(default)]
    pub interaction_id: Option<String>,
    /// The model call that asked for it, as `turnId`.
    #[serde(default)]
    pub turn_id: Option<String>,
}

/// A sub-agent that has begun and not ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenAgent {
    /// The tool call that started it.
    pub tool_call_id: String,
    /// Its kind.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
    /// Whether nobody waited for it.
    pub background: bool,
    /// Its tool calls that have no result yet.
    pub calls: Vec<OpenCall>,
    /// Its model call whose `assistant.turn_end` is still to come, as `turnId`.
    pub open_model_call: Option<String>,
    /// Its answer that streams, or that broke off and is no message yet.
    pub unfinished: Unfinished,
}

/// What this program calls itself in `session.start`.
pub const PRODUCER: &str = "lodge";
/// Version of the events that this build writes and understands.
pub const EVENTS_VERSION: u64 = 1;

/// What an event says of itself to builds that do not know its type.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Critical {
    critical: bool,
}

/// Goes up with every event type that facts begin to take into account.
const FORMAT: u32 = 9;

impl Facts {
    /// Whether kept facts took every event into account that they should. Those of another build may not have: a build that
    /// does not know an event passes over it, and what it keeps then lacks it.
    pub(crate) fn is_current(&self) -> bool {
        self.format == FORMAT
    }

    /// The facts as they are kept.
    pub(crate) fn encode(&mut self) -> serde_json::Result<Vec<u8>> {
        self.format = FORMAT;
        serde_json::to_vec(self)
    }

    /// Takes one event into account. Ephemeral ones count where they say something that no persisted one says.
    pub fn fold(&mut self, event: &Event) {
        match event.agent_id() {
            Some(agent) => self.fold_agent(agent, event),
            None => self.fold_own(event),
        }
    }

    /// What an event of a sub-agent means for the session.
    fn fold_agent(&mut self, agent: &str, event: &Event) {
        match event.payload() {
            Payload::SubagentStarted(started) => {
                self.agent_ids.insert(agent.to_owned());
                let open = OpenAgent {
                    tool_call_id: started.tool_call_id.clone(),
                    name: started.agent_name.clone(),
                    display_name: started.agent_display_name.clone(),
                    background: started.execution_mode.as_deref() == Some("background"),
                    ..OpenAgent::default()
                };
                self.open_agents.insert(agent.to_owned(), open);
            }
            Payload::SubagentCompleted(_) | Payload::SubagentFailed(_) => drop(self.open_agents.remove(agent)),
            Payload::LodgeUsage(usage) => self.totals.add(usage),
            payload => {
                if let Some(open) = self.open_agents.get_mut(agent) {
                    open.fold(payload);
                }
            }
        }
    }

    /// Builds that do not know a type of Lodge's own pass over it. Where they must not, its data says `critical: true`.
    fn fold_newer(&mut self, event: &Event) {
        match event.payload() {
            Payload::SessionStart(start) if start.producer == PRODUCER && start.version > EVENTS_VERSION => {
                self.newer = Some(format!("its events are of version {}", start.version));
            }
            Payload::Unknown(unknown) if event.is_beside() => {
                let data: Critical = serde_json::from_str(unknown.data()).unwrap_or_default();
                if data.critical {
                    self.newer = Some(format!(
                        "it holds `{}`, which this one does not understand",
                        unknown.kind()
                    ));
                }
            }
            _ => {}
        }
    }

    /// What an event of the agent that these facts are about means.
    pub(crate) fn fold_own(&mut self, event: &Event) {
        self.pending.fold(event.payload());
        self.questions.fold(event.payload());
        self.unfinished.fold(event.payload());
        self.fold_retried(event.payload());
        self.about.fold(event.payload());
        self.fold_newer(event);
        self.schedules.fold(event.payload(), event.timestamp().as_millisecond());
        if event.is::<UserMessage>() {
            // In logs of others a call may never have ended.
            self.open_model_call = None;
        }
        match event.payload() {
            Payload::SessionCanvasRecorded(open) => {
                drop(self.canvases.insert(open.instance_id.clone(), (**open).clone()));
            }
            Payload::SessionCanvasRemoved(removed) => drop(self.canvases.remove(&removed.instance_id)),
            Payload::SessionSessionLimitsChanged(changed) => {
                self.limit = changed.session_limits.as_ref().and_then(|limits| limits.max_ai_credits);
            }
            Payload::SessionStart(start) => {
                self.auto_tier = start.auto_tier.clone();
                self.limit = start.session_limits.as_ref().and_then(|limits| limits.max_ai_credits);
                self.started_ms = event.timestamp().as_millisecond();
                self.model = start.selected_model.clone().or(self.model.take());
                self.reasoning_effort = start.reasoning_effort.clone().or(self.reasoning_effort.take());
                self.fold_context(start.context.as_ref());
            }
            Payload::SessionResume(resume) => {
                self.auto_tier = resume.auto_tier.clone().or(self.auto_tier.take());
                self.fold_context(resume.context.as_ref());
            }
            Payload::SessionContextChanged(context) => {
                self.cwd = Some(context.cwd.clone());
                self.git = Some(GitContext {
                    root: context.git_root.clone(),
                    repository: context.repository.clone(),
                    branch: context.branch.clone(),
                });
            }
            Payload::SessionModelChange(change) => {
                self.model = Some(change.new_model.clone());
                if change.auto_tier.is_some() || change.previous_auto_tier.is_some() {
                    self.auto_tier = change.auto_tier.clone();
                }
                if change.reasoning_effort.is_some() || change.previous_reasoning_effort.is_some() {
                    self.reasoning_effort = change.reasoning_effort.clone();
                }
            }
            Payload::SessionModeChanged(change) => self.mode = Some(change.new_mode.to_string()),
            Payload::SystemMessage(message) => self.system_prompt = Some(message.content.clone()),
            Payload::UserMessage(message) if message.source.as_deref() == Some(COMMAND_SOURCE) => {
                self.last_message_id = message.message_id.clone();
                if message.agent_mode == Some(AgentMode::Shell) {
                    if self.first_command.is_none() {
                        self.first_command = Some(beginning(&message.content));
                    }
                    self.failed_turn = None;
                    self.last_turn = Some(turn_of(message, event));
                    self.open_turn = Some(OpenTurn {
                        interaction_id: message.interaction_id.clone(),
                        command: true,
                        ..OpenTurn::default()
                    });
                }
            }
            Payload::UserMessage(message) => {
                self.user_messages += 1;
                self.failed_turn = None;
                self.last_message_id = message.message_id.clone();
                if message.source.as_deref().is_none_or(|source| source == "user") || self.last_turn.is_none() {
                    self.last_turn = Some(turn_of(message, event));
                }
                if self.first_prompt.is_none() && message.source.is_none() {
                    self.first_prompt = Some(beginning(&message.content));
                }
                self.open_turn.get_or_insert_default().interaction_id = message.interaction_id.clone();
            }
            Payload::AssistantTurnStart(start) => {
                let resumed = self.failed_turn.take().unwrap_or_default();
                let turn = self.open_turn.get_or_insert(resumed);
                turn.turn_id = Some(start.turn_id.clone());
                self.open_model_call = Some(start.turn_id.clone());
            }
            Payload::AssistantTurnEnd(_) => self.open_model_call = None,
            Payload::AssistantMessage(message) => {
                let turn = self.open_turn.get_or_insert_default();
                turn.message_event = Some(event.id().to_string());
                let before = std::mem::replace(&mut turn.calls, calls_of(message));
                // Another program's agent may ask for more while its calls run.
                if !turn.calls.is_empty() {
                    turn.calls.splice(..0, before);
                }
                if turn.calls.is_empty() {
                    // The answer is whole: only the turn_end is missing, and nobody misses that after a crash.
                    self.open_turn = None;
                }
            }
            // One that runs beside a turn is looked after by who started it.
            Payload::ToolUserRequested(request) => {
                if let Some(turn) = self.open_turn.as_mut().filter(|turn| turn.command) {
                    turn.calls.push(OpenCall {
                        id: request.tool_call_id.clone(),
                        name: request.tool_name.clone(),
                        started: false,
                        asked: false,
                        model: None,
                        arguments: request.arguments.clone(),
                        mcp: None,
                        interaction_id: turn.interaction_id.clone(),
                        turn_id: None,
                    });
                }
            }
            Payload::ToolExecutionStart(start) => {
                if let Some(call) = self.open_call(&start.tool_call_id) {
                    call.started = true;
                }
            }
            Payload::ExternalToolRequested(request) => {
                if let Some(call) = self.open_call(&request.tool_call_id) {
                    call.asked = true;
                }
            }
            Payload::ToolExecutionComplete(complete) => {
                if let Some(turn) = &mut self.open_turn {
                    turn.calls.retain(|call| call.id != complete.tool_call_id);
                    if turn.command && turn.calls.is_empty() {
                        self.open_turn = None;
                    }
                }
            }
            Payload::Abort(_) => self.open_turn = None,
            // A turn that a person or a tool ended on purpose asked for tools last, and wants no more of them.
            Payload::AssistantIdle(_) => self.open_turn = None,
            Payload::SessionError(error) if error.error_type == PREPARATION_FAILED => self.open_turn = None,
            Payload::LodgeWorktreeWanted(wanted) => self.worktree_wanted = Some(wanted.base.clone()),
            Payload::LodgeWorktree(_) => self.worktree_wanted = None,
            Payload::LodgeTurnResumed(resumed) => {
                let is_last = |(id, _): &(String, String)| *id == resumed.message_id;
                if self.last_turn.as_ref().is_some_and(is_last) {
                    self.open_turn = self.failed_turn.take();
                }
            }
            Payload::SessionError(_) => self.failed_turn = self.open_turn.take().filter(|turn| !turn.command),
            Payload::SessionInfo(info) if info.info_type == INTERRUPTED_INFO => {
                self.failed_turn = self.open_turn.take().filter(|turn| !turn.command);
            }
            Payload::SessionCompactionComplete(done) if done.success => self.compactions += 1,
            Payload::SubagentSelected(selected) => self.agent = Some(selected.agent_name.clone()),
            Payload::SubagentDeselected(_) => self.agent = None,
            Payload::LodgeProgram(program) => self.program_session = Some(program.session_id.clone()),
            Payload::LodgeUsage(usage) => self.fold_usage(usage),
            Payload::LodgeUsageCarried(carried) => {
                self.totals.raise(&carried.model_metrics, carried.total_api_duration_ms);
                self.totals.recorded = true;
            }
            // For logs of builds that recorded no usage, and of the Copilot CLI. It is never more than what was recorded.
            Payload::SessionShutdown(shutdown) => {
                self.totals
                    .raise(&shutdown.model_metrics, shutdown.total_api_duration_ms);
            }
            Payload::LodgeApproval(approval) => self.approval = Some(approval.mode.clone()),
            Payload::LodgeRules(rules) => self.rules.clone_from(&rules.rules),
            Payload::LodgeSwitched(switched) => self.switches.clone_from(&switched.switches),
            _ => {}
        }
    }

    /// A turn that ended, or came to where it waits for somebody, did not bring the host down.
    fn fold_retried(&mut self, payload: &Payload) {
        match payload {
            Payload::LodgeTurnRetried(retried) => {
                let same = self
                    .retried
                    .take()
                    .filter(|(message, _)| *message == retried.message_id);
                let times = same.map_or(0, |(_, times)| times) + 1;
                self.retried = Some((retried.message_id.clone(), times));
            }
            Payload::UserMessage(_)
            | Payload::ExternalToolRequested(_)
            | Payload::LodgeQuestion(_)
            | Payload::AssistantIdle(_) => self.retried = None,
            _ => {}
        }
    }

    fn fold_context(&mut self, context: Option<&WorkingDirectoryContext>) {
        if let Some(context) = context {
            self.cwd = Some(context.cwd.clone());
            self.git = Some(GitContext {
                root: context.git_root.clone(),
                repository: context.repository.clone(),
                branch: context.branch.clone(),
            });
        }
    }

    fn fold_usage(&mut self, usage: &LodgeUsage) {
        self.totals.correct(usage);
        // What others asked the model says nothing about the conversation.
        if usage.initiator.is_none() {
            self.totals.last_input = usage.input_tokens.unwrap_or_default();
            self.totals.last_output = usage.output_tokens.unwrap_or_default();
        }
        self.totals.add(usage);
    }

    /// Whether a turn is under way that waits for an answer, or has one that it did not come to use.
    pub fn waits_for_people(&self) -> bool {
        let mut calls = self.open_turn.iter().flat_map(|turn| &turn.calls);
        calls.any(|call| self.questions.holds_up(call))
    }

    fn open_call(&mut self, id: &str) -> Option<&mut OpenCall> {
        self.open_turn.as_mut()?.calls.iter_mut().find(|call| call.id == id)
    }

    /// The sums, as `session.shutdown` tells them.
    pub(crate) fn shutdown(&self) -> SessionShutdown {
        let totals = &self.totals;
        SessionShutdown {
            // Requests of a subscription. Models are paid for in other units, which `cost` is in.
            total_premium_requests: 0.0,
            total_nano_aiu: Some(totals.nano_aiu()),
            total_api_duration_ms: totals.api_ms,
            session_start_time: self.started_ms.max(0) as u64,
            code_changes: CodeChanges {
                lines_added: totals.lines_added,
                lines_removed: totals.lines_removed,
                files_modified: totals.files.iter().cloned().collect(),
            },
            model_metrics: totals.metrics(),
            ..SessionShutdown::default()
        }
    }

    /// A title for people, from the first thing that was said, until then from the first command: no model is asked for it.
    pub fn title(&self) -> Option<String> {
        crate::title_of(self.first_prompt.as_deref().or(self.first_command.as_deref())?)
    }
}

impl OpenAgent {
    fn fold(&mut self, payload: &Payload) {
        self.unfinished.fold(payload);
        match payload {
            Payload::AssistantTurnStart(start) => self.open_model_call = Some(start.turn_id.clone()),
            Payload::AssistantTurnEnd(_) => self.open_model_call = None,
            Payload::AssistantMessage(message) => self.calls = calls_of(message),
            Payload::ToolExecutionStart(start) => {
                for call in self.calls.iter_mut().filter(|call| call.id == start.tool_call_id) {
                    call.started = true;
                }
            }
            Payload::ToolExecutionComplete(done) => self.calls.retain(|call| call.id != done.tool_call_id),
            _ => {}
        }
    }
}

/// Where an agent works beside the directory that it runs in.
pub fn further_directories(directories: &LodgeDirectories) -> Vec<PathBuf> {
    let all = match &directories.chosen {
        Some(chosen) => chosen.get(1..).unwrap_or_default(),
        None => &directories.further,
    };
    all.iter().map(PathBuf::from).collect()
}

/// The message that opens a turn, and its event.
fn turn_of(message: &UserMessage, event: &Event) -> (String, String) {
    let event = event.id().to_string();
    (message.message_id.clone().unwrap_or_else(|| event.clone()), event)
}

fn calls_of(message: &AssistantMessage) -> Vec<OpenCall> {
    let requests = message.tool_requests.iter().flatten();
    requests
        .map(|call| OpenCall {
            id: call.tool_call_id.clone(),
            name: call.name.clone(),
            started: false,
            asked: false,
            model: message.model.clone(),
            arguments: call.arguments.clone(),
            mcp: call.mcp_server_name.clone().zip(call.mcp_tool_name.clone()),
            interaction_id: message.interaction_id.clone(),
            turn_id: message.turn_id.clone(),
        })
        .collect()
}

/// So much of a message as a title could need.
fn beginning(text: &str) -> String {
    text.chars().take(400).collect()
}
