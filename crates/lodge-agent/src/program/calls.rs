//! Tool calls that a program makes itself, as it reports them.

use lodge_events::{
    PermissionRequest, ToolError, ToolExecutionComplete, ToolExecutionPartialResult, ToolExecutionStart, ToolRequest,
    ToolResult,
};
use lodge_external::{CallContent, CallUpdate};
use lodge_log::LogError;
use serde_json::Value;
use uuid::Uuid;

use super::{
    MOST_OPEN, TURN_ID, Work,
    approved::Approved,
    described::{Action, Recorded},
};
use crate::{tool_call, turn::Stop};

/// So much may be known of all calls of a turn.
const MOST_BYTES: usize = 64 << 20;

/// A call that has not ended.
pub(super) struct Call {
    /// Ours: a program may use its own twice.
    pub(super) id: String,
    pub(super) known: CallUpdate,
    /// What the log says of it, once it has begun.
    recorded: Option<Recorded>,
    /// Questions about it that nobody has answered. What the program says of it meanwhile is recorded after the answer.
    asked: usize,
    /// What people allowed for it, until it ends.
    approved: Vec<Approved>,
    started: bool,
    ended: bool,
    /// What of its output is told.
    told: usize,
    /// What is known of it, in bytes.
    size: usize,
}

impl Call {
    fn new(known: CallUpdate) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            recorded: None,
            asked: 0,
            approved: Vec::new(),
            started: false,
            ended: false,
            told: 0,
            size: known.size(),
            known,
        }
    }

    /// Takes something away that was allowed for it, if it was.
    pub(super) fn use_up(&mut self, what: &Approved) -> bool {
        let at = self.approved.iter().position(|allowed| allowed == what);
        at.map(|at| self.approved.swap_remove(at)).is_some()
    }
}

impl<'a> Work<'a> {
    /// A call as the tools of this host know theirs.
    pub(super) fn tool_call<'b>(&self, id: &'b str, name: &'b str) -> tool_call::Call<'b>
    where
        'a: 'b,
    {
        tool_call::Call {
            turn: self.turn,
            id,
            name,
            message: Uuid::nil(),
            turn_id: TURN_ID,
            mcp: None,
        }
    }

    pub(super) fn call(&mut self, update: CallUpdate) -> Result<(), Stop> {
        let id = update.tool_call_id.clone();
        self.learn(update)?;
        Ok(self.follow_call(&id)?)
    }

    /// Records how far a call is, unless a question about it is open.
    fn follow_call(&mut self, id: &str) -> Result<(), LogError> {
        let Some(call) = self.calls.get(id).filter(|call| call.asked == 0) else {
            return Ok(());
        };
        match call.known.status.clone().as_deref() {
            Some("in_progress") => {
                self.start_call(id)?;
                self.tell_output(id);
            }
            Some(status @ ("completed" | "failed")) => {
                let success = status == "completed";
                self.start_call(id)?;
                self.end_call(id, success.then_some(()).ok_or(""))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The questions as people get them. One names the call only if the log says of the call what the question asks for.
    /// Otherwise it stands alone, so no face can show what the program said of the call before.
    pub(super) fn ask_about_call(&mut self, id: &str, actions: &[Action]) -> Result<Vec<PermissionRequest>, LogError> {
        let asked = Recorded::of(actions);
        if let Some(call) = self.calls.get_mut(id) {
            call.asked += 1;
            if call.recorded.is_none() {
                self.record_call(id, asked.clone())?;
            }
        }
        let call = self.calls.get(id).filter(|call| call.recorded.as_ref() == Some(&asked));
        let name = call.filter(|_| actions.len() == 1).map(|call| call.id.clone());
        Ok(actions.iter().map(|action| action.question(name.clone())).collect())
    }

    /// A question about a call is answered: what the program said of the call meanwhile is recorded.
    pub(super) fn answered(&mut self, id: &str, approved: Vec<Approved>) -> Result<(), LogError> {
        if let Some(call) = self.calls.get_mut(id) {
            call.asked = call.asked.saturating_sub(1);
            call.approved.extend(approved);
        }
        self.follow_call(id)
    }

    /// Forgets a call that has ended: what is said of its id from now on is about another one.
    pub(super) fn forget_ended(&mut self, id: &str) {
        if self.calls.get(id).is_some_and(|call| call.ended) {
            self.calls.remove(id);
        }
    }

    /// Takes in what is new about a call. One that has ended is not spoken of any more.
    pub(super) fn learn(&mut self, update: CallUpdate) -> Result<(), Stop> {
        if let Some(call) = self.calls.get_mut(&update.tool_call_id) {
            if !call.ended {
                call.known.update(update);
                call.size = call.size.max(call.known.size());
            }
            return self.check_size();
        }
        if self.calls.values().filter(|call| !call.ended).count() >= MOST_OPEN {
            let why = format!(
                "The agent {} has more than {MOST_OPEN} calls open and was stopped.",
                self.agent
            );
            return Err(super::failed(lodge_models::ErrorKind::Connection, why));
        }
        let call = Call::new(update);
        self.calls.insert(call.known.tool_call_id.clone(), call);
        self.check_size()
    }

    fn check_size(&self) -> Result<(), Stop> {
        if self.calls.values().map(|call| call.size).sum::<usize>() <= MOST_BYTES {
            return Ok(());
        }
        let why = format!(
            "The agent {} has more than {MOST_BYTES} bytes in its calls and was stopped.",
            self.agent
        );
        Err(super::failed(lodge_models::ErrorKind::Connection, why))
    }

    /// Records that the program wants a call.
    fn record_call(&mut self, id: &str, recorded: Recorded) -> Result<(), LogError> {
        let Some(call) = self.calls.get_mut(id) else {
            return Ok(());
        };
        let request = ToolRequest {
            tool_call_id: call.id.clone(),
            name: recorded.name.clone(),
            arguments: Some(recorded.arguments.clone()),
            tool_title: recorded.title.clone(),
            ..ToolRequest::default()
        };
        call.recorded = Some(recorded);
        self.record_message(Some(request))
    }

    fn start_call(&mut self, id: &str) -> Result<(), LogError> {
        if let Some(call) = self.calls.get(id).filter(|call| call.recorded.is_none() && !call.ended) {
            let claimed = Recorded::claimed(&call.known);
            self.record_call(id, claimed)?;
        }
        let Some(call) = self.calls.get_mut(id).filter(|call| !call.started && !call.ended) else {
            return Ok(());
        };
        let Some(recorded) = call.recorded.clone() else {
            return Ok(());
        };
        call.started = true;
        let start = ToolExecutionStart {
            tool_call_id: call.id.clone(),
            tool_name: recorded.name,
            arguments: Some(recorded.arguments),
            turn_id: Some(TURN_ID.into()),
            model: Some(self.agent.clone()),
            ..ToolExecutionStart::default()
        };
        self.turn.shared.recorder.record(start)?;
        Ok(())
    }

    /// Tells what a running call printed, as far as that only grew.
    fn tell_output(&mut self, id: &str) {
        let Some(output) = self.calls.get(id).map(|call| self.output(call)) else {
            return;
        };
        let Some(call) = self.calls.get_mut(id) else { return };
        if let Some(new) = output.get(call.told..).filter(|new| !new.is_empty()) {
            self.turn.shared.recorder.note(ToolExecutionPartialResult {
                tool_call_id: call.id.clone(),
                partial_output: new.to_owned(),
            });
            call.told = output.len();
        }
    }

    /// What a call brought, in words.
    fn output(&self, call: &Call) -> String {
        let mut said = Vec::new();
        for content in call.known.content.iter().flatten() {
            match content {
                CallContent::Content { content, .. } => said.extend(content["text"].as_str().map(str::to_owned)),
                CallContent::Terminal { terminal_id, .. } => {
                    said.extend(self.terminals.output(terminal_id));
                }
                CallContent::Diff { .. } | CallContent::Other(_) => {}
            }
        }
        said.join("\n")
    }

    /// Records how a call ended; the error says why where the program does not.
    fn end_call(&mut self, id: &str, ended: Result<(), &str>) -> Result<(), LogError> {
        let Some(call) = self.calls.get(id).filter(|call| !call.ended) else {
            return Ok(());
        };
        let mut content = self.output(call);
        if content.is_empty() {
            content = match &call.known.raw_output {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Object(output)) if output.get("output").is_some_and(Value::is_string) => {
                    output["output"].as_str().unwrap_or_default().to_owned()
                }
                Some(Value::Null) | None => String::new(),
                Some(other) => other.to_string(),
            };
        }
        let changes = call.known.changes();
        let changes = changes.map(|(path, old, new)| lodge_tools::difference(path, old, new));
        let changes = changes.collect::<Vec<_>>().join("\n");
        let success = ended.is_ok();
        let complete = ToolExecutionComplete {
            tool_call_id: call.id.clone(),
            success,
            model: Some(self.agent.clone()),
            interaction_id: Some(self.turn.interaction_id.clone()),
            turn_id: Some(TURN_ID.into()),
            result: success.then(|| ToolResult {
                content: content.clone(),
                detailed_content: (!changes.is_empty()).then_some(changes),
                ..ToolResult::default()
            }),
            error: (!success).then(|| ToolError {
                message: match ended {
                    Err("") | Ok(()) if content.is_empty() => "The call failed.".to_owned(),
                    Err("") | Ok(()) => content,
                    Err(why) => why.to_owned(),
                },
                code: Some("failure".into()),
                ..ToolError::default()
            }),
            ..ToolExecutionComplete::default()
        };
        if let Some(sub) = &self.turn.shared.sub {
            sub.task.activity.lock().call_ended(call.known.tool_name(), success);
        }
        self.turn.shared.recorder.record(complete)?;
        if let Some(call) = self.calls.get_mut(id) {
            call.ended = true;
            call.approved.clear();
            // Only that it was there matters from now on.
            call.known = CallUpdate::default();
            call.recorded = None;
            call.size = id.len();
        }
        Ok(())
    }

    /// Ends the calls whose end the program did not tell. Questions about them that are open have nobody to wait for the answer.
    pub(super) fn close_calls(&mut self, why: &str) -> Result<(), LogError> {
        let open = |call: &Call| call.recorded.is_some() && !call.ended;
        let ids: Vec<String> = self
            .calls
            .iter()
            .filter(|(_, call)| open(call))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            if let Some(call) = self.calls.get_mut(&id) {
                call.asked = 0;
            }
            self.follow_call(&id)?;
            self.start_call(&id)?;
            self.end_call(&id, Err(why))?;
        }
        Ok(())
    }
}
