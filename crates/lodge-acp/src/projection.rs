//! Projects a session's events to updates for its client.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use lodge_events::{
    AssistantMessage, COMMAND_SOURCE, Event, Payload, PermissionRequest, SessionCompactionComplete, SessionUsageInfo,
    UserMessage,
};
use lodge_host::{StreamedText, is_from_person, tool_calls::is_hidden};
use serde_json::{Value, json};

use crate::{
    content,
    tools::{COMPLETED, Call, FAILED, PENDING, RUNNING, fenced, text},
    wire::{Chunk, ClientCapabilities, ContentBlock, ToolCall, ToolContent, Update},
};

/// The fold of one session's events, for the log and for live events alike.
#[derive(Default)]
pub(crate) struct Projector {
    /// Whether the client shows notices and compactions; otherwise they become part of the conversation.
    notices: bool,
    compaction: bool,
    /// Whether the client shows commands in terminals.
    terminals: bool,
    /// The base of relative paths.
    cwd: PathBuf,
    /// Messages that the client sent itself and does not need back.
    pub(crate) own: HashSet<String>,
    /// Whether the beginning of a streaming text was missed: then it is shown when it is complete.
    pub(crate) joined_late: bool,
    calls: HashMap<String, Call>,
    answer: StreamedText,
    thought: StreamedText,
    compaction_id: Option<String>,
    out: Vec<Update>,
}

impl Projector {
    pub(crate) fn new(client: &ClientCapabilities, cwd: PathBuf) -> Self {
        Self {
            notices: client.session.notices.is_some(),
            compaction: client.session.compaction.is_some(),
            terminals: client.shows_terminals(),
            cwd,
            ..Self::default()
        }
    }

    /// The updates for an event.
    pub(crate) fn project(&mut self, event: &Event) -> Vec<Update> {
        match event.agent_id() {
            None => self.main(event),
            Some(_) => self.of_call(event),
        }
        std::mem::take(&mut self.out)
    }

    fn main(&mut self, event: &Event) {
        match event.payload() {
            Payload::SessionStart(start) => self.work_in(start.context.as_ref().map(|context| &context.cwd)),
            Payload::SessionResume(resumed) => self.work_in(resumed.context.as_ref().map(|context| &context.cwd)),
            Payload::SessionContextChanged(changed) => self.work_in(Some(&changed.cwd)),
            Payload::UserMessage(message) => self.user_message(message),
            Payload::AssistantTurnStart(_) => self.joined_late = false,
            Payload::AssistantMessageDelta(delta) if delta.parent_tool_call_id.is_none() => {
                let chunk = self.delta(&delta.message_id, &delta.delta_content, |this| &mut this.answer);
                self.out.extend(chunk.map(Update::AgentMessageChunk));
            }
            // For the log: live listeners have already seen it.
            Payload::LodgePartial(piece) => {
                if let Some(rest) = self.answer.rest_of_piece(piece) {
                    let chunk = self.append(&piece.message_id, rest, |this| &mut this.answer);
                    self.out.push(Update::AgentMessageChunk(chunk));
                }
            }
            Payload::AssistantReasoningDelta(delta) => {
                let chunk = self.delta(&delta.reasoning_id, &delta.delta_content, |this| &mut this.thought);
                self.out.extend(chunk.map(Update::AgentThoughtChunk));
            }
            Payload::AssistantReasoning(thought) => {
                let rest = rest(&mut self.thought, &thought.reasoning_id, &thought.content);
                self.out.extend(rest.map(Update::AgentThoughtChunk));
            }
            Payload::AssistantMessage(message) => self.message(message),
            Payload::SessionModeChanged(changed) => self.tell(json!({
                "sessionUpdate": "current_mode_update",
                "currentModeId": changed.new_mode.as_str(),
            })),
            Payload::SessionTitleChanged(changed) => self.tell(json!({
                "sessionUpdate": "session_info_update",
                "title": changed.title,
            })),
            Payload::SessionUsageInfo(info) => self.out.push(usage(info)),
            Payload::SessionInfo(info) if info.info_type == COMMAND_SOURCE => {
                let said = chunk(&info.message, &event.id().to_string());
                self.out.push(Update::AgentMessageChunk(said));
            }
            Payload::SessionInfo(info) => self.notice("info", &info.message, event),
            Payload::SessionWarning(warning) => self.notice("warning", &warning.message, event),
            Payload::SessionError(error) => self.notice("error", &error.message, event),
            Payload::SessionSnapshotRewind(_) => {
                let told = "The session was rewound to an earlier point. Load it again to see the current state.";
                self.notice("warning", told, event);
            }
            Payload::SessionCompactionStart(_) => self.compaction_began(event),
            Payload::SessionCompactionComplete(done) => self.compaction_ended(event, done),
            _ => self.of_call(event),
        }
    }

    /// Events about tool calls. Of a sub-agent's calls, people see only those that they were asked about.
    fn of_call(&mut self, event: &Event) {
        let is_main = event.agent_id().is_none();
        match event.payload() {
            Payload::ToolUserRequested(asked) if is_main => {
                self.begin(
                    &asked.tool_call_id,
                    Call::new(&asked.tool_name, None, asked.arguments.as_ref()),
                );
            }
            Payload::ToolExecutionStart(start) => {
                if is_main {
                    let call = Call::new(&start.tool_name, None, start.arguments.as_ref());
                    self.begin(&start.tool_call_id, call);
                }
                let shows_terminals = self.terminals;
                let call = self.calls.get_mut(&start.tool_call_id).filter(|_| shows_terminals);
                match call.and_then(|call| call.open_terminal(&start.tool_call_id, &self.cwd)) {
                    Some(opened) => self.out.push(Update::ToolCallChange(opened)),
                    None => self.status(&start.tool_call_id, RUNNING),
                }
            }
            Payload::ToolExecutionPartialResult(partial) => {
                let id = &partial.tool_call_id;
                let call = self.calls.get_mut(id);
                let shown = call.and_then(|call| call.more_output(id, &partial.partial_output, event.timestamp()));
                self.out.extend(shown.map(Update::ToolCallChange));
            }
            Payload::ToolExecutionComplete(done) => {
                if let Some(call) = self.calls.remove(&done.tool_call_id) {
                    self.out.push(Update::ToolCallChange(call.ended(done, &self.cwd)));
                }
            }
            // A question without a call was shown as a call.
            Payload::PermissionCompleted(done) if self.calls.contains_key(&done.request_id) => {
                let status = if done.result.is_approved() { COMPLETED } else { FAILED };
                self.status(&done.request_id, status);
                self.calls.remove(&done.request_id);
            }
            _ => {}
        }
    }

    fn tell(&mut self, update: Value) {
        self.out.push(Update::Other(update));
    }

    fn work_in(&mut self, cwd: Option<&String>) {
        if let Some(cwd) = cwd {
            self.cwd = cwd.into();
        }
    }

    fn user_message(&mut self, message: &UserMessage) {
        self.joined_late = false;
        let is_own = message.message_id.as_ref().is_some_and(|id| self.own.contains(id));
        // Hooks, autopilot and the like write to the model, not to people.
        if is_own || !is_from_person(message) {
            return;
        }
        let chunk = |content| {
            Update::UserMessageChunk(Chunk {
                content,
                message_id: message.message_id.clone(),
            })
        };
        self.out.extend(content::blocks(message).into_iter().map(chunk));
    }

    fn delta(&mut self, id: &str, text: &str, shown: fn(&mut Self) -> &mut StreamedText) -> Option<Chunk> {
        (!self.joined_late).then(|| self.append(id, text, shown))
    }

    fn append(&mut self, id: &str, text: &str, shown: fn(&mut Self) -> &mut StreamedText) -> Chunk {
        shown(self).append(id, text);
        chunk(text, id)
    }

    /// A complete message: the parts that were not streamed, and its tool calls.
    fn message(&mut self, message: &AssistantMessage) {
        if message.parent_tool_call_id.is_some() {
            return;
        }
        self.joined_late = false;
        let thought = std::mem::take(&mut self.thought);
        if let Some(text) = message.reasoning_text.as_ref().filter(|_| thought.id.is_empty()) {
            let rest = rest(&mut StreamedText::default(), &message.message_id, text);
            self.out.extend(rest.map(Update::AgentThoughtChunk));
        }
        let mut answer = std::mem::take(&mut self.answer);
        let rest = rest(&mut answer, &message.message_id, &message.content);
        self.out.extend(rest.map(Update::AgentMessageChunk));
        for asked in message.tool_requests.iter().flatten() {
            let call = Call::new(&asked.name, asked.tool_title.as_deref(), asked.arguments.as_ref());
            self.begin(&asked.tool_call_id, call);
        }
    }

    fn begin(&mut self, id: &str, call: Call) {
        if is_hidden(&call.name) || self.calls.contains_key(id) {
            return;
        }
        self.out.push(Update::ToolCall(call.shown(id, PENDING, &self.cwd)));
        self.calls.insert(id.to_owned(), call);
    }

    fn status(&mut self, id: &str, status: &'static str) {
        if self.calls.contains_key(id) {
            self.out.push(Update::ToolCallChange(ToolCall {
                tool_call_id: id.to_owned(),
                status: Some(status),
                ..ToolCall::default()
            }));
        }
    }

    /// The call of a permission request, announced if it is new.
    pub(crate) fn asked(&mut self, request_id: &str, request: &PermissionRequest) -> (Vec<Update>, ToolCall) {
        let id = request.tool_call_id().unwrap_or(request_id);
        // A hook may have changed the call: people are asked about the request.
        let call = Call::of_request(request, &self.cwd);
        self.begin(id, call.clone());
        let mut shown = call.shown(id, PENDING, &self.cwd);
        let details = details(request);
        if !details.is_empty() {
            shown.content.get_or_insert_default().splice(..0, details);
        }
        (std::mem::take(&mut self.out), shown)
    }

    /// The host stopped while these ran or waited; nothing continues them.
    pub(crate) fn interrupt_calls(&mut self) -> Vec<Update> {
        let open = self.calls.drain().map(|(id, _)| {
            Update::ToolCallChange(ToolCall {
                tool_call_id: id,
                status: Some(FAILED),
                content: Some(vec![text(lodge_host::INTERRUPTED)]),
                ..ToolCall::default()
            })
        });
        open.collect()
    }

    fn notice(&mut self, severity: &'static str, message: &str, event: &Event) {
        if self.notices {
            return self.tell(json!({ "sessionUpdate": "notice", "severity": severity, "title": message }));
        }
        let word = match severity {
            "error" => "Error",
            "warning" => "Warning",
            // Nothing to act on, and no place to show it.
            _ => return,
        };
        let quoted = format!("\n\n> {word}: {}\n\n", message.replace('\n', "\n> "));
        let said = chunk(&quoted, &event.id().to_string());
        self.out.push(Update::AgentMessageChunk(said));
    }

    fn compaction_began(&mut self, event: &Event) {
        if self.compaction {
            let id = event.id().to_string();
            self.tell(json!({ "sessionUpdate": "compaction_update", "compactionId": id, "status": RUNNING }));
            self.compaction_id = Some(id);
        }
    }

    fn compaction_ended(&mut self, event: &Event, done: &SessionCompactionComplete) {
        if !self.compaction {
            return;
        }
        let id = self.compaction_id.take().unwrap_or_else(|| event.id().to_string());
        let status = if done.success { COMPLETED } else { FAILED };
        let mut update = json!({ "sessionUpdate": "compaction_update", "compactionId": id, "status": status });
        if let Some(summary) = &done.summary_content {
            update["summary"] = json!([ContentBlock::from(summary.clone())]);
        }
        if let Some(error) = &done.error {
            update["error"] = error.as_str().into();
        }
        self.tell(update);
    }
}

/// How full the context is.
pub(crate) fn usage(info: &SessionUsageInfo) -> Update {
    let (used, size) = (info.current_tokens, info.token_limit);
    Update::Other(json!({ "sessionUpdate": "usage_update", "used": used, "size": size }))
}

fn chunk(text: &str, id: &str) -> Chunk {
    Chunk {
        content: text.to_owned().into(),
        message_id: Some(id.to_owned()),
    }
}

/// The part of a complete text that was not streamed.
fn rest(shown: &mut StreamedText, id: &str, whole: &str) -> Option<Chunk> {
    shown.complete(id, whole).map(|(rest, _)| chunk(rest, id))
}

/// What a person must see of a request before answering it, even if the title leaves it out: the whole command, the
/// real target of a path, and all arguments of a tool.
fn details(request: &PermissionRequest) -> Vec<ToolContent> {
    let arguments = |arguments: &Option<Value>| {
        let given = arguments.as_ref().filter(|arguments| **arguments != json!({}));
        let written = given.and_then(|arguments| serde_json::to_string_pretty(arguments).ok());
        written.map(|written| fenced(&written, "json")).into_iter().collect()
    };
    let leads = |path: &Option<String>| path.as_ref().map(|path| text(&format!("Leads to {path}")));
    match request {
        PermissionRequest::Shell(shell) => {
            let warning = shell.warning.as_deref().map(text);
            [fenced(&shell.full_command_text, "sh")]
                .into_iter()
                .chain(warning)
                .collect()
        }
        PermissionRequest::Write(write) => {
            // A change without a diff is described in words.
            let unknown = write.diff.is_empty().then(|| text(&write.intention));
            leads(&write.resolved_path).into_iter().chain(unknown).collect()
        }
        PermissionRequest::Read(read) => leads(&read.resolved_path).into_iter().collect(),
        PermissionRequest::CustomTool(tool) => arguments(&tool.args),
        PermissionRequest::Mcp(mcp) => arguments(&mcp.args),
        PermissionRequest::Hook(hook) => arguments(&hook.tool_args),
        _ => Vec::new(),
    }
}
