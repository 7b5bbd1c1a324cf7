//! Tool calls: asked for by the model, permitted by a person, run, finished.

use ahp_types::{
    StateAction, StringOrMarkdown,
    actions::{
        ChatToolCallCompleteAction, ChatToolCallConfirmedAction, ChatToolCallContentChangedAction,
        ChatToolCallDeltaAction, ChatToolCallReadyAction, ChatToolCallStartAction,
    },
    state::{
        ConfirmationOption, ConfirmationOptionKind, ToolCallCancellationReason, ToolCallClientContributor,
        ToolCallConfirmationReason, ToolCallContributor, ToolCallMcpContributor, ToolCallResult, ToolInput,
        ToolResultContent, ToolResultEmbeddedResourceContent, ToolResultResourceContent, ToolResultSubagentContent,
        ToolResultTextContent,
    },
};
use lodge_events::{
    AskedKind, AssistantToolCallDelta, ContentBlock, Event, LodgeAnswered, Payload, PermissionDecisionSource,
    PermissionRequested, SubagentStarted, ToolExecutionComplete, ToolExecutionPartialResult, ToolExecutionStart,
    ToolRequest, ToolResult,
};
use lodge_host::{
    SpillPointer, server_key,
    tool_calls::{
        OutputTail, PermissionChoice, RequestedCall, Tense, ToolKind, confirmation, correct_arguments, display_name,
        edited_arguments, input_text, is_hidden, sentence,
    },
};
use serde_json::{Value, json};

use super::{
    Projector, Question, Scope, Step,
    edits::{self, Proposed},
    object,
};
use crate::uri;

/// Why a person cannot change the input of a call so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error("the input of this tool call cannot be edited")]
    NotEditable,
    #[error("{0}")]
    Invalid(String),
}

/// A call, as far as later events need to know it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) scope: Scope,
    pub(super) name: String,
    pub(super) arguments: Value,
    output: OutputTail,
    /// Whether clients know that it runs.
    runs: bool,
    /// Whether somebody said that it must not run.
    pub(super) denied: bool,
    /// What a person was asked about it, where only the log tells: the question, and what it was for.
    asked: Option<(String, String)>,
    /// The option that somebody chose who was asked.
    chosen: Option<PermissionChoice>,
    /// Whether one of them is to run it.
    is_clients: bool,
    /// What it wants to write, while a person is asked about it.
    pub(super) proposed: Option<Proposed>,
    /// The MCP server that has the tool.
    server: Option<String>,
    /// Other content, such as the sub-agent's chat, that stays while output comes and goes.
    pub(super) pinned: Vec<ToolResultContent>,
}

/// A call's tool, as far as an event tells.
struct Named<'a> {
    name: &'a str,
    intention: Option<&'a str>,
    server: Option<&'a str>,
}

impl<'a> Named<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            intention: None,
            server: None,
        }
    }
}

impl Call {
    /// The MCP server that has the tool.
    fn server(&self) -> Option<ToolCallContributor> {
        let customization_id = server_key(self.server.as_deref()?);
        Some(ToolCallContributor::Mcp(ToolCallMcpContributor { customization_id }))
    }

    /// What a sub-agent is asked to do.
    pub(super) fn prompt(&self) -> Option<&str> {
        self.arguments
            .get("prompt")
            .or_else(|| self.arguments.get("description"))?
            .as_str()
    }
}

impl Projector {
    /// Takes an event about tools. False when it is about something else.
    pub(super) fn tool_event(&mut self, event: &Event) -> bool {
        match event.payload() {
            Payload::AssistantToolCallDelta(delta) => {
                let scope = self.scope(event, None);
                self.tool_streams(scope, delta);
            }
            Payload::PermissionRequested(request) => {
                let scope = self.scope(event, None);
                self.permission_requested(scope, request);
            }
            Payload::PermissionCompleted(done) => {
                let source = done.decision_source.as_ref();
                let rule = source.is_some_and(|source| *source != PermissionDecisionSource::HumanResponse);
                self.permission_completed(
                    &done.request_id,
                    done.result.is_approved(),
                    rule,
                    done.result.feedback.as_deref(),
                );
            }
            Payload::LodgeQuestion(asked) if asked.kind == AskedKind::Permission => {
                let lasting = PermissionChoice::lasting(asked).map(str::to_owned);
                self.lasting
                    .extend(lasting.map(|lasting| (asked.request_id.clone(), lasting)));
                let call = asked.tool_call_id.as_ref().and_then(|id| self.calls.get_mut(id));
                if let Some(call) = call {
                    call.asked = Some((asked.request_id.clone(), asked.message.clone()));
                }
            }
            Payload::LodgeAnswered(answered) if answered.kind == AskedKind::Permission => {
                self.permission_answered(answered);
            }
            Payload::ToolUserRequested(request) => {
                let scope = self.scope(event, None).unwrap_or(Scope::Main);
                let named = Named::new(&request.tool_name);
                self.start(&scope, &request.tool_call_id, named, request.arguments.clone());
            }
            Payload::ToolExecutionStart(start) => {
                let scope = self.scope(event, start.parent_tool_call_id.as_deref());
                self.tool_starts(scope, start);
            }
            Payload::ToolExecutionPartialResult(partial) => self.tool_output(partial),
            Payload::ToolExecutionComplete(done) => {
                let scope = self.scope(event, done.parent_tool_call_id.as_deref());
                self.tool_done(scope, done);
            }
            Payload::ExternalToolRequested(request) => {
                let question = Question::Tool {
                    tool_call_id: request.tool_call_id.clone(),
                };
                self.questions.insert(request.request_id.clone(), question);
                self.ready(&request.tool_call_id);
                if self.left_tools.contains(&request.tool_name) {
                    let call = self.calls.get(&request.tool_call_id);
                    let scope = call.map_or(Scope::Main, |call| call.scope.clone());
                    let tool_call_id = request.tool_call_id.clone();
                    self.out.push(Step::Orphaned { scope, tool_call_id });
                }
            }
            Payload::ExternalToolCompleted(done) => {
                self.questions.remove(&done.request_id);
            }
            Payload::McpOauthRequired(asked) => self.sign_in_needed(asked),
            Payload::McpOauthCompleted(done) => self.sign_in_over(done),
            Payload::SkillInvoked(skill) => {
                let Some(scope) = self.scope(event, None) else {
                    return true;
                };
                let id = event.id().to_string();
                self.start(&scope, &id, Named::new("skill"), Some(json!({ "name": skill.name })));
                self.ready(&id);
                let text = format!("Loaded the skill {}.", skill.name);
                self.complete(&id, true, vec![text_content(text)], None, None);
            }
            _ => return false,
        }
        true
    }

    fn tool_streams(&mut self, scope: Option<Scope>, delta: &AssistantToolCallDelta) {
        let Some(scope) = scope.filter(|_| !self.joined_late) else {
            return;
        };
        if let Some(name) = &delta.tool_name {
            self.start(&scope, &delta.tool_call_id, Named::new(name), None);
        }
        if self.calls.contains_key(&delta.tool_call_id)
            && let Some(turn_id) = self.running_turn(&scope)
        {
            let action = ChatToolCallDeltaAction {
                turn_id,
                tool_call_id: delta.tool_call_id.clone(),
                meta: None,
                content: Some(delta.input_delta.clone()),
                invocation_message: None,
            };
            self.act(&scope, StateAction::ChatToolCallDelta(action));
        }
    }

    pub(super) fn tool_requested(&mut self, scope: &Scope, request: &ToolRequest) {
        let named = Named {
            name: &request.name,
            intention: request.intention_summary.as_deref(),
            server: request.mcp_server_name.as_deref(),
        };
        self.start(scope, &request.tool_call_id, named, request.arguments.clone());
        // It may be tried in the jail or wait for others, and people see meanwhile what it is.
        let Some(call) = self.calls.get(&request.tool_call_id).filter(|call| !call.runs) else {
            return;
        };
        let told = sentence(&call.name, &call.arguments, Tense::Present);
        if let Some(turn_id) = self.running_turn(scope).filter(|_| request.arguments.is_some()) {
            let action = ChatToolCallDeltaAction {
                turn_id,
                tool_call_id: request.tool_call_id.clone(),
                meta: None,
                // Clients of the first version want one.
                content: Some(String::new()),
                invocation_message: Some(told.into()),
            };
            self.act(scope, StateAction::ChatToolCallDelta(action));
        }
    }

    /// Makes the call known and shows it. Known already: only what is new about it is kept.
    fn start(&mut self, scope: &Scope, id: &str, named: Named<'_>, arguments: Option<Value>) {
        let name = named.name;
        if is_hidden(name) {
            return;
        }
        if let Some(call) = self.calls.get_mut(id) {
            call.arguments = arguments.unwrap_or(std::mem::take(&mut call.arguments));
            call.server = named.server.map(str::to_owned).or(call.server.take());
            return;
        }
        let Some(turn_id) = self.running_turn(scope) else {
            return;
        };
        let arguments = arguments.unwrap_or_default();
        let call = Call {
            scope: scope.clone(),
            name: name.to_owned(),
            arguments,
            output: OutputTail::default(),
            runs: false,
            denied: false,
            asked: None,
            chosen: None,
            is_clients: self.client_tools.contains_key(name),
            proposed: None,
            server: named.server.map(str::to_owned),
            pinned: Vec::new(),
        };
        let client = self.client_tools.get(name).cloned();
        let client = client.map(|client_id| ToolCallContributor::Client(ToolCallClientContributor { client_id }));
        let contributor = client.or_else(|| call.server());
        self.calls.insert(id.to_owned(), call);
        let action = ChatToolCallStartAction {
            turn_id,
            tool_call_id: id.to_owned(),
            meta: icon(name).map(|kind| object(json!({ "toolKind": kind }))),
            tool_name: name.to_owned(),
            // A title that a server gives the tool comes with the whole message, when clients know the call already.
            display_name: display_name(name),
            intention: named.intention.map(str::to_owned),
            contributor,
        };
        self.act(scope, StateAction::ChatToolCallStart(action));
    }

    fn permission_requested(&mut self, scope: Option<Scope>, asked: &PermissionRequested) {
        let request = &asked.permission_request;
        let id = request.tool_call_id().unwrap_or(&asked.request_id).to_owned();
        let RequestedCall {
            tool,
            arguments,
            intention,
            ..
        } = RequestedCall::new(request, &self.directory);
        if !self.calls.contains_key(&id) {
            let Some(scope) = scope else { return };
            let named = Named {
                intention,
                ..Named::new(tool)
            };
            self.start(&scope, &id, named, Some(arguments.clone()));
        }
        let question = Question::Permission {
            tool_call_id: id.clone(),
        };
        self.questions.insert(asked.request_id.clone(), question);
        let (edits, proposed) = edits::proposed(request, &id).unzip();
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        call.proposed = proposed;
        // A hook may have changed what the call said: people see what they are asked about.
        correct_arguments(&mut call.arguments, &arguments, &self.directory);
        let mut call = call.clone();
        let Some(turn_id) = self.running_turn(&call.scope) else {
            return;
        };
        let is_known = !call.arguments.is_null();
        if !is_known {
            call.arguments = arguments;
        }
        let lasting = self.lasting.get(&asked.request_id).cloned();
        let action = ChatToolCallReadyAction {
            intention: intention.filter(|text| !text.is_empty()).map(str::to_owned),
            confirmation_title: Some(confirmation(request).into()),
            edits,
            editable: is_known.then_some(true),
            confirmed: None,
            options: Some(options(lasting.as_deref())),
            ..ready_action(turn_id, &id, &call)
        };
        self.act(&call.scope, StateAction::ChatToolCallReady(action));
    }

    /// What a call would get whose input a person changed.
    pub(crate) fn edited(&self, call: &str, input: &str) -> Result<Value, EditError> {
        let call = self.calls.get(call).filter(|call| !call.arguments.is_null());
        let call = call.ok_or(EditError::NotEditable)?;
        edited_arguments(&call.arguments, input).map_err(EditError::Invalid)
    }

    /// The log has the question and its answer, and not what live clients were shown of them: that is made from both.
    fn permission_answered(&mut self, answered: &LodgeAnswered) {
        let Some(id) = &answered.tool_call_id else { return };
        let by_rule = answered.by.rule == Some(true);
        let Some(call) = self.calls.get_mut(id) else { return };
        call.chosen = PermissionChoice::of_answer(&answered.answer).filter(|_| !by_rule);
        let Some((_, intention)) = call.asked.take_if(|(request, _)| *request == answered.request_id) else {
            return;
        };
        if self.questions.contains_key(&answered.request_id) {
            return;
        }
        // The question said what was to run; what a person made of it came after.
        let asked = sentence(&call.name, &call.arguments, Tense::Present);
        if let Some(edited) = answered.answer.get("arguments") {
            call.arguments = edited.clone();
        }
        let call = call.clone();
        let Some(turn_id) = self.running_turn(&call.scope) else {
            return;
        };
        let lasting = self.lasting.get(&answered.request_id).cloned();
        let action = ChatToolCallReadyAction {
            intention: Some(intention).filter(|text| !KINDS.contains(&text.as_str())),
            invocation_message: asked.into(),
            options: Some(options(lasting.as_deref())),
            confirmed: None,
            ..ready_action(turn_id, id, &call)
        };
        self.act(&call.scope, StateAction::ChatToolCallReady(action));
        let question = Question::Permission {
            tool_call_id: id.clone(),
        };
        self.questions.insert(answered.request_id.clone(), question);
        let approved = answered.answer["decision"]
            .as_str()
            .is_some_and(|decision| decision.starts_with("approve"));
        let feedback = answered.answer["feedback"].as_str();
        self.permission_completed(&answered.request_id, approved, by_rule, feedback);
    }

    fn permission_completed(&mut self, request_id: &str, approved: bool, by_rule: bool, feedback: Option<&str>) {
        self.lasting.remove(request_id);
        let Some(Question::Permission { tool_call_id }) = self.questions.remove(request_id) else {
            return;
        };
        let Some(call) = self.calls.get_mut(&tool_call_id) else {
            return;
        };
        call.proposed = None;
        call.runs |= approved;
        call.denied |= !approved;
        let (scope, call_chosen) = (call.scope.clone(), call.chosen);
        let Some(turn_id) = self.running_turn(&scope) else {
            return;
        };
        let selected_option_id = call_chosen.map(|choice| choice.id().to_owned());
        let how = if by_rule {
            ToolCallConfirmationReason::Setting
        } else {
            ToolCallConfirmationReason::UserAction
        };
        let action = ChatToolCallConfirmedAction {
            turn_id,
            tool_call_id,
            meta: None,
            approved,
            confirmed: approved.then_some(how),
            reason: (!approved).then_some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: feedback.map(StringOrMarkdown::from),
            selected_option_id,
        };
        let id = action.tool_call_id.clone();
        self.act(&scope, StateAction::ChatToolCallConfirmed(action));
        // A question that belongs to no call was shown as one, and that is over.
        if id == request_id {
            match approved {
                true => self.complete(&id, true, Vec::new(), None, None),
                false => drop(self.calls.remove(&id)),
            }
        }
    }

    fn tool_starts(&mut self, scope: Option<Scope>, start: &ToolExecutionStart) {
        let Some(scope) = scope else { return };
        let named = Named {
            server: start.mcp_server_name.as_deref(),
            ..Named::new(&start.tool_name)
        };
        self.start(&scope, &start.tool_call_id, named, start.arguments.clone());
        // A client may be quicker than the agent: its call runs when the agent waits for it.
        if self.calls.get(&start.tool_call_id).is_some_and(|call| !call.is_clients) {
            self.ready(&start.tool_call_id);
        }
        self.open_terminal(&start.tool_call_id);
    }

    /// The call runs. Where a person was asked it runs already.
    fn ready(&mut self, id: &str) {
        let Some(call) = self.calls.get_mut(id).filter(|call| !call.runs) else {
            return;
        };
        call.runs = true;
        let call = call.clone();
        let Some(turn_id) = self.running_turn(&call.scope) else {
            return;
        };
        let action = ready_action(turn_id, id, &call);
        self.act(&call.scope, StateAction::ChatToolCallReady(action));
    }

    fn tool_output(&mut self, partial: &ToolExecutionPartialResult) {
        let now = self.now;
        self.terminal_output(&partial.tool_call_id, &partial.partial_output);
        let Some(call) = self.calls.get_mut(&partial.tool_call_id) else {
            return;
        };
        if call.output.push(&partial.partial_output, now) {
            self.show_content(&partial.tool_call_id);
        }
    }

    pub(super) fn show_content(&mut self, id: &str) {
        let Some(call) = self.calls.get(id) else { return };
        let (scope, mut content) = (call.scope.clone(), call.pinned.clone());
        if !call.output.last().is_empty() {
            content.push(text_content(call.output.last().to_owned()));
        }
        // Output of what outlived its turn belongs to no other one.
        let Some(turn_id) = self.chat(&scope).turn.as_ref().map(|turn| turn.id.clone()) else {
            return;
        };
        let action = ChatToolCallContentChangedAction {
            turn_id,
            tool_call_id: id.to_owned(),
            meta: None,
            content,
        };
        self.act(&scope, StateAction::ChatToolCallContentChanged(action));
    }

    /// Shows, on the call that started a sub-agent, where its chat is. The state fills in the chat's address.
    pub(super) fn show_subagent(&mut self, id: &str, started: &SubagentStarted) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.pinned.push(ToolResultContent::Subagent(ToolResultSubagentContent {
            resource: id.to_owned(),
            title: started.agent_display_name.clone(),
            agent_name: Some(started.agent_name.clone()),
            description: Some(started.agent_description.clone()).filter(|text| !text.is_empty()),
        }));
        self.show_content(id);
    }

    fn tool_done(&mut self, scope: Option<Scope>, done: &ToolExecutionComplete) {
        let id = &done.tool_call_id;
        self.forms_end(id);
        if !self.calls.contains_key(id) {
            let Some(scope) = scope.filter(|_| done.is_user_requested == Some(true)) else {
                return;
            };
            self.start(&scope, id, Named::new("tool"), None);
        }
        self.ready(id);
        let mut content = Vec::new();
        let mut structured = None;
        if let Some(result) = &done.result {
            let blocks = result.contents.iter().flatten().enumerate();
            let detailed = result.detailed_content.as_deref();
            content.extend(blocks.flat_map(|(at, part)| block(part, &format!("{id}-{at}"), detailed)));
            let shown = for_people(result);
            let said = content.iter().any(|part| matches!(part, ToolResultContent::Text(_)));
            if !said && !shown.is_empty() {
                content.splice(..0, printed(shown, &format!("{id}-{OUTPUT}"), PLAIN, detailed));
            }
            structured = result.structured_content.clone();
            if let Some(large) = structured
                .as_ref()
                .map(Value::to_string)
                .filter(|json| json.len() > TEXT)
            {
                structured = None;
                content.push(named(&format!("{id}-{STRUCTURED}"), large.len(), JSON));
            }
        }
        let tool = self.calls.get(id).map_or("", |call| &call.name);
        content.extend(edits::done(tool, self.is_program, done));
        let error = done.error.as_ref().map(|error| {
            let message = match error.message.len() > TEXT {
                true => {
                    content.push(named(&format!("{id}-{OUTPUT}"), error.message.len(), PLAIN));
                    beginning(&error.message)
                }
                false => error.message.clone(),
            };
            match &error.code {
                Some(code) => json!({ "message": message, "code": code }),
                None => json!({ "message": message }),
            }
        });
        self.terminal_result(id, Some(done));
        let code = done.error.as_ref().and_then(|error| error.code.as_deref());
        if let (Some("denied" | "rejected"), Some(call)) = (code, self.calls.get_mut(id)) {
            // What was not run has no terminal.
            call.pinned
                .retain(|part| !matches!(part, ToolResultContent::Terminal(_)));
        }
        self.complete(id, done.success, content, structured, error);
    }

    /// The host went down while the call ran, or waited to.
    pub(super) fn interrupt_call(&mut self, id: &str) {
        self.ready(id);
        // A server that asked is gone. What the agent asks itself it asks again.
        if self.calls.get(id).is_some_and(|call| call.server.is_some()) {
            self.forms_end(id);
        }
        let error = json!({ "message": lodge_host::INTERRUPTED, "code": "interrupted" });
        self.terminal_result(id, None);
        self.complete(id, false, Vec::new(), None, Some(error));
    }

    fn complete(
        &mut self,
        id: &str,
        success: bool,
        mut content: Vec<ToolResultContent>,
        structured: Option<Value>,
        error: Option<Value>,
    ) {
        let Some(call) = self.calls.remove(id) else { return };
        self.questions.retain(|_, question| question.tool_call_id() != Some(id));
        let Some(turn_id) = self.running_turn(&call.scope) else {
            return;
        };
        let mut past_tense = sentence(&call.name, &call.arguments, Tense::Past);
        if let Some(code) = super::shells::failed(&call.pinned) {
            past_tense.push_str(&format!(" (exit code {code})"));
        }
        content.extend(call.pinned);
        let result = ToolCallResult {
            success,
            past_tense_message: past_tense.into(),
            content: (!content.is_empty()).then_some(content),
            structured_content: structured.and_then(|value| value.as_object().cloned()),
            error,
        };
        let action = ChatToolCallCompleteAction {
            turn_id,
            tool_call_id: id.to_owned(),
            meta: None,
            result,
            requires_result_confirmation: None,
        };
        self.act(&call.scope, StateAction::ChatToolCallComplete(action));
    }
}

/// A call that runs without a question.
fn ready_action(turn_id: String, id: &str, call: &Call) -> ChatToolCallReadyAction {
    ChatToolCallReadyAction {
        turn_id,
        tool_call_id: id.to_owned(),
        meta: None,
        contributor: call.server(),
        intention: None,
        invocation_message: sentence(&call.name, &call.arguments, Tense::Present).into(),
        tool_input: input_text(&call.arguments).map(ToolInput::Inline),
        confirmation_title: None,
        risk_assessment: None,
        edits: None,
        editable: None,
        confirmed: Some(ToolCallConfirmationReason::NotNeeded),
        options: None,
    }
}

/// What questions say that are for nothing in particular.
const KINDS: [&str; 8] = ["shell", "write", "read", "mcp", "url", "memory", "custom-tool", "hook"];

/// What a person can choose.
fn options(lasting: Option<&str>) -> Vec<ConfirmationOption> {
    let option = |(choice, label): (PermissionChoice, String)| {
        let (kind, group) = match choice {
            PermissionChoice::Deny => (ConfirmationOptionKind::Deny, 1),
            _ => (ConfirmationOptionKind::Approve, 0),
        };
        ConfirmationOption {
            id: choice.id().to_owned(),
            label,
            kind,
            group: Some(group),
        }
    };
    PermissionChoice::offered(lasting).into_iter().map(option).collect()
}

/// The word that editors show an icon for.
fn icon(tool: &str) -> Option<&'static str> {
    match ToolKind::of(tool) {
        ToolKind::Command => Some("terminal"),
        ToolKind::Read => Some("read"),
        ToolKind::Search | ToolKind::Find => Some("search"),
        ToolKind::Subagent => Some("subagent"),
        _ => None,
    }
}

fn text_content(text: String) -> ToolResultContent {
    ToolResultContent::Text(ToolResultTextContent { text })
}

/// What is too much for the state, as an event has it.
pub(crate) enum ContentKind {
    Text(String),
    /// In base64.
    Bytes(String),
}

/// What a call said under this name, and of which kind, when this event is its end.
pub(crate) fn said_in(event: &Event, call: &str, name: &str) -> Option<(ContentKind, String)> {
    let Payload::ToolExecutionComplete(done) = event.payload() else {
        return None;
    };
    if done.tool_call_id != call {
        return None;
    }
    let text = |text: &str, kind: &str| Some((ContentKind::Text(text.to_owned()), kind.to_owned()));
    let bytes = |data: &str, kind: &str| Some((ContentKind::Bytes(data.to_owned()), kind.to_owned()));
    match (name, &done.result, &done.error) {
        (OUTPUT, Some(result), _) => return text(for_people(result), PLAIN),
        (OUTPUT, None, Some(error)) => return text(&error.message, PLAIN),
        (STRUCTURED, Some(result), _) => return text(&result.structured_content.as_ref()?.to_string(), JSON),
        _ => {}
    }
    match done
        .result
        .as_ref()?
        .contents
        .as_ref()?
        .get(name.parse::<usize>().ok()?)?
    {
        ContentBlock::Text(block) => text(&block.text, PLAIN),
        ContentBlock::Terminal(block) => text(&block.text, PLAIN),
        ContentBlock::Image(block) => bytes(&block.data, &block.mime_type),
        ContentBlock::Audio(block) => bytes(&block.data, &block.mime_type),
        ContentBlock::Resource(block) => {
            let kind = block.resource.mime_type.as_deref();
            match (&block.resource.text, &block.resource.blob) {
                (Some(said), _) => text(said, kind.unwrap_or(PLAIN)),
                (None, Some(blob)) => bytes(blob, kind.unwrap_or(BYTES)),
                (None, None) => None,
            }
        }
        _ => None,
    }
}

/// What people are shown of a result that is one text.
fn for_people(result: &ToolResult) -> &str {
    match SpillPointer::parse(&result.content) {
        Some(_) => &result.content,
        None => result.detailed_content.as_ref().unwrap_or(&result.content),
    }
}

/// How names of contents call all that a call said, and its data.
const OUTPUT: &str = "output";
const STRUCTURED: &str = "structured";

/// The kinds of contents that have none.
const BYTES: &str = "application/octet-stream";
const PLAIN: &str = "text/plain";
const JSON: &str = "application/json";

/// Contents beyond this are named in the state, and read when somebody wants to see them.
const EMBEDDED: usize = 32 << 10;

/// The same for text: what a model reads whole, people see whole.
const TEXT: usize = 64 << 10;

/// So much of a longer text is in the state, in characters.
const PREVIEW: usize = 500;

/// So much of the beginning and of the end of a command's longer output, in bytes each.
const END: usize = 8 << 10;

fn beginning(text: &str) -> String {
    let preview: String = text.chars().take(PREVIEW).collect();
    format!("{preview}\n…")
}

/// Something that is read under a name of its own.
fn named(name: &str, size: usize, kind: &str) -> ToolResultContent {
    ToolResultContent::Resource(ToolResultResourceContent {
        uri: uri::content("", name),
        size_hint: i64::try_from(size).ok(),
        content_type: Some(kind.to_owned()),
        nonce: None,
    })
}

/// Its beginning and its end, where it is longer than both.
fn ends(text: &str) -> String {
    let (head, tail) = (
        text.floor_char_boundary(END),
        text.ceil_char_boundary(text.len().saturating_sub(END)),
    );
    match head < tail {
        true => format!("{}\n…\n{}", &text[..head], &text[tail..]),
        false => text.to_owned(),
    }
}

/// What a tool printed. Of what is too large, the beginning, the end if `detailed` has it, and where all of it is: some
/// clients show only this text of a call that has ended.
fn printed(text: &str, name: &str, kind: &str, detailed: Option<&str>) -> Vec<ToolResultContent> {
    match SpillPointer::parse(text) {
        Some(pointer) => vec![
            text_content(detailed.map_or_else(|| format!("{}\n…", pointer.preview), ends)),
            ToolResultContent::Resource(ToolResultResourceContent {
                uri: uri::file(pointer.path),
                size_hint: None,
                content_type: Some(PLAIN.to_owned()),
                nonce: None,
            }),
        ],
        None if text.len() > TEXT => vec![text_content(beginning(text)), named(name, text.len(), kind)],
        None => vec![text_content(text.to_owned())],
    }
}

/// One part of what a tool said. `name` is what it is called when it is too large for the state.
fn block(block: &ContentBlock, name: &str, detailed: Option<&str>) -> Vec<ToolResultContent> {
    let embedded = |data: &str, mime: &str| {
        if data.len() > EMBEDDED {
            return vec![named(name, data.len() / 4 * 3, mime)];
        }
        let content = ToolResultEmbeddedResourceContent {
            data: data.to_owned(),
            content_type: mime.to_owned(),
        };
        vec![ToolResultContent::EmbeddedResource(content)]
    };
    match block {
        ContentBlock::Text(block) => printed(&block.text, name, PLAIN, None),
        ContentBlock::Terminal(block) => printed(&block.text, name, PLAIN, detailed),
        ContentBlock::ShellExit(block) => block.output_preview.clone().map(text_content).into_iter().collect(),
        ContentBlock::Image(block) => embedded(&block.data, &block.mime_type),
        ContentBlock::Audio(block) => embedded(&block.data, &block.mime_type),
        ContentBlock::ResourceLink(link) => vec![ToolResultContent::Resource(ToolResultResourceContent {
            uri: link.uri.clone(),
            size_hint: link.size.and_then(|size| size.try_into().ok()),
            content_type: link.mime_type.clone(),
            nonce: None,
        })],
        ContentBlock::Resource(block) => {
            let kind = block.resource.mime_type.as_deref();
            match (&block.resource.text, &block.resource.blob) {
                (Some(text), _) => printed(text, name, kind.unwrap_or(PLAIN), None),
                (None, Some(blob)) => embedded(blob, kind.unwrap_or(BYTES)),
                (None, None) => Vec::new(),
            }
        }
        ContentBlock::Other(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use lodge_events::UserMessage;

    use super::*;

    /// What programs of others say, and why they fail, has no bound but that of their log.
    #[test]
    fn what_a_program_said_at_length_is_named_and_not_repeated() {
        let long = "wörds ".repeat(40_000);
        let result = ToolResult {
            content: long.clone(),
            ..ToolResult::default()
        };
        let error = lodge_events::ToolError {
            message: long.clone(),
            ..lodge_events::ToolError::default()
        };
        for (result, error) in [(Some(result), None), (None, Some(error))] {
            let mut projector = Projector::default();
            let user = UserMessage {
                message_id: Some("t1".into()),
                ..UserMessage::default()
            };
            projector.event(&Event::new(None, None, user));
            let start = ToolExecutionStart {
                tool_call_id: "c".into(),
                tool_name: "Search".into(),
                ..ToolExecutionStart::default()
            };
            projector.event(&Event::new(None, None, start));
            let done = ToolExecutionComplete {
                tool_call_id: "c".into(),
                success: error.is_none(),
                result,
                error,
                ..ToolExecutionComplete::default()
            };
            let done = Event::new(None, None, done);
            let steps = projector.event(&done);
            let shown = format!("{steps:?}");
            assert!(shown.len() < 10_000 && shown.contains("/content/c-output"), "{shown}");
            match said_in(&done, "c", "output") {
                Some((ContentKind::Text(said), kind)) => assert_eq!((said, kind.as_str()), (long.clone(), PLAIN)),
                _ => panic!("nothing is named so"),
            }
        }
    }
}
