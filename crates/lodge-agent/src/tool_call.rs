//! Running the tool calls of one message: hooks, permission, the tool itself, its result. Calls that may run side by
//! side do; every call ends with exactly one result.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use lodge_events::{
    AssistantIntent, ContentBlock, CustomToolPermission, ExternalToolCompleted, ExternalToolRequested, FileOperation,
    ImageBlock, PermissionRequest, SessionPlanChanged, SessionTodosChanged, ToolError, ToolExecutionComplete,
    ToolExecutionPartialResult, ToolExecutionProgress, ToolExecutionStart, ToolResult,
};
use lodge_models::ToolCall;
use lodge_tools::{Need, OutputSink, Tool, ToolCx, ToolUpdate, changes::Touches};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    agent_tools::AgentTool,
    answer::{Answer, ExternalResult, QuestionKind, ToolAnswer, request_id},
    call::parse_arguments,
    client::ClientTool,
    mcp::McpTool,
    permission::Verdict,
    session::AnyTool,
    settings::Prompt,
    turn::{Stop, Turn},
};

/// How a call ended.
pub(crate) enum Outcome {
    /// It ran.
    Done(Box<Success>),
    /// It did not do what was asked; the model reads the text.
    Failed {
        text: String,
        code: &'static str,
        telemetry: Option<Value>,
    },
}

#[derive(Default)]
pub(crate) struct Success {
    pub(crate) content: String,
    pub(crate) detailed: Option<String>,
    pub(crate) contents: Vec<ContentBlock>,
    pub(crate) telemetry: Option<Value>,
    pub(crate) structured: Option<Value>,
    pub(crate) mcp_meta: Option<Value>,
}

impl Outcome {
    pub(crate) fn text(content: impl Into<String>) -> Self {
        let content = content.into();
        Self::Done(Box::new(Success {
            detailed: Some(content.clone()),
            content,
            ..Success::default()
        }))
    }

    pub(crate) fn failed(text: impl Into<String>, code: &'static str) -> Self {
        Self::Failed {
            text: text.into(),
            code,
            telemetry: None,
        }
    }

    /// Tells the model something before the result itself.
    fn preceded_by(mut self, told: &str) -> Self {
        let text = match &mut self {
            Self::Done(done) => &mut done.content,
            Self::Failed { text, .. } => text,
        };
        *text = format!("{told}\n\n{text}");
        self
    }

    fn rejects(&self) -> bool {
        matches!(self, Self::Failed { code: "rejected", .. })
    }
}

/// What a call means for the turn.
enum End {
    /// The model reads the result.
    GoesOn,
    /// The turn ends here: the tool is one that ends it.
    Terminal,
    /// The turn ends here: a person said no.
    Rejected,
}

/// One call on its way.
pub(crate) struct Call<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) message: Uuid,
    pub(crate) turn_id: &'a str,
    /// Set when an MCP server has the tool.
    pub(crate) mcp: Option<&'a McpTool>,
}

/// Runs them all. Stops with [`Stop::Rejected`] when a person said no to one of them.
pub(crate) async fn run_all(turn: &Turn, message: Uuid, calls: &[ToolCall], turn_id: &str) -> Result<bool, Stop> {
    let tools = turn.shared.tools();
    let find = |name: &str| tools.iter().find(|(spec, _)| spec.name == name).map(|(_, tool)| tool);
    let side_by_side = |call: &ToolCall| match find(&call.name) {
        Some(AnyTool::Builtin(tool)) => tool.parallel(),
        Some(AnyTool::Client(_) | AnyTool::Mcp(_)) => true,
        Some(AnyTool::Agent(tool)) => tool.parallel(),
        None => false,
    };
    let (mut rejected, mut terminal) = (false, false);
    let mut rest = calls;
    while let Some((first, _)) = rest.split_first() {
        let run = if side_by_side(first) {
            rest.iter().take_while(|call| side_by_side(call)).count()
        } else {
            1
        };
        let (group, later) = rest.split_at(run);
        rest = later;
        if rejected {
            break;
        }
        let names: Vec<&str> = tools.iter().map(|(spec, _)| spec.name.as_str()).collect();
        let ends = join_all(group.iter().map(|call| {
            let this = Call {
                turn,
                id: &call.id,
                name: &call.name,
                message,
                turn_id,
                mcp: match find(&call.name) {
                    Some(AnyTool::Mcp(tool)) => Some(tool),
                    _ => None,
                },
            };
            run_one(this, &call.arguments, find(&call.name), &names)
        }))
        .await;
        for end in ends {
            match end? {
                End::Rejected => rejected = true,
                End::Terminal => terminal = true,
                End::GoesOn => {}
            }
        }
    }
    if rejected {
        crate::turn::close_open_calls(&turn.shared)?;
        return Err(Stop::Rejected);
    }
    Ok(terminal)
}

/// Runs one call and records its end.
async fn run_one(call: Call<'_>, arguments: &str, tool: Option<&AnyTool>, names: &[&str]) -> Result<End, Stop> {
    let shared = &call.turn.shared;
    let mut args = match parse_arguments(arguments) {
        Ok(args) => args,
        Err(error) => {
            call.start(Value::String(arguments.to_owned()))?;
            let text = format!(
                "The arguments of `{}` are not valid JSON ({error}). Send them again.",
                call.name
            );
            return call.complete(Outcome::failed(text, "failure")).map(|()| End::GoesOn);
        }
    };
    let before = shared
        .hook(
            "preToolUse",
            json!({"toolName": call.name, "toolArgs": args.to_string()}),
        )
        .await?;
    if let Some(changed) = before.get("modifiedArgs").filter(|changed| !changed.is_null()) {
        // Hooks get the arguments as text, and some give them back as text.
        args = match changed.as_str().and_then(|text| serde_json::from_str(text).ok()) {
            Some(parsed) => parsed,
            None => changed.clone(),
        };
    }
    let written = args.clone();
    let outcome = if before["permissionDecision"] == "deny" {
        let reason = before["permissionDecisionReason"]
            .as_str()
            .unwrap_or("No reason provided");
        call.start(args.clone())?;
        Outcome::failed(format!("Denied by preToolUse hook: {reason}"), "denied")
    } else {
        let allowed = before["permissionDecision"] == "allow";
        match tool {
            Some(AnyTool::Builtin(tool)) => call.builtin(tool, &mut args, allowed).await?,
            Some(AnyTool::Client(tool)) => call.external(tool, &mut args, allowed).await?,
            Some(AnyTool::Agent(tool)) => call.own(*tool, args.clone()).await?,
            Some(AnyTool::Mcp(tool)) => call.mcp(tool, &mut args, allowed).await?,
            None => {
                call.start(args)?;
                let text = format!(
                    "Tool '{}' does not exist. Available tools that can be called are {}.",
                    call.name,
                    names.join(", ")
                );
                return call.complete(Outcome::failed(text, "failure")).map(|()| End::GoesOn);
            }
        }
    };
    let outcome = call.after(outcome, &args, &before).await?;
    let end = match (&outcome, tool) {
        (outcome, _) if outcome.rejects() => End::Rejected,
        // A failure is for the model to deal with.
        (Outcome::Done(_), Some(AnyTool::Client(tool))) if tool.terminal => End::Terminal,
        _ => End::GoesOn,
    };
    // The model has to know what its call became, or it takes the result for that of another one.
    let edited = (args != written).then(|| format!("The user changed this call before it ran. What ran was: {args}"));
    call.complete(match edited {
        Some(told) => outcome.preceded_by(&told),
        None => outcome,
    })?;
    Ok(end)
}

impl Call<'_> {
    pub(crate) fn request_id(&self, about: &str) -> String {
        request_id(&self.turn.shared.id, &format!("{}:{}", self.message, self.id), about)
    }

    pub(crate) fn start(&self, arguments: Value) -> Result<(), Stop> {
        let shared = &self.turn.shared;
        if let Some(sub) = &shared.sub {
            sub.task.activity.lock().line(format!("▸ {}", self.name));
        }
        shared.recorder.record(ToolExecutionStart {
            tool_call_id: self.id.into(),
            tool_name: self.name.into(),
            arguments: Some(arguments),
            turn_id: Some(self.turn_id.into()),
            model: Some(shared.settings.lock().model.info().id.clone()),
            ..self.mcp.map(|tool| shared.mcp_start(tool)).unwrap_or_default()
        })?;
        Ok(())
    }

    fn complete(&self, outcome: Outcome) -> Result<(), Stop> {
        let shared = &self.turn.shared;
        let mut complete = ToolExecutionComplete {
            tool_call_id: self.id.into(),
            model: Some(shared.settings.lock().model.info().id.clone()),
            interaction_id: Some(self.turn.interaction_id.clone()),
            turn_id: Some(self.turn_id.into()),
            ..ToolExecutionComplete::default()
        };
        match outcome {
            Outcome::Done(done) => {
                complete.success = true;
                complete.tool_telemetry = done.telemetry;
                complete.mcp_meta.clone_from(&done.mcp_meta);
                complete.result = Some(ToolResult {
                    content: done.content,
                    detailed_content: done.detailed,
                    contents: (!done.contents.is_empty()).then_some(done.contents),
                    structured_content: done.structured,
                    mcp_meta: done.mcp_meta,
                    ..ToolResult::default()
                });
            }
            Outcome::Failed { text, code, telemetry } => {
                complete.tool_telemetry = telemetry;
                complete.error = Some(ToolError {
                    message: text,
                    code: Some(code.into()),
                    ..ToolError::default()
                });
            }
        }
        if let Some(sub) = &shared.sub {
            let mut activity = sub.task.activity.lock();
            activity.tool_calls += 1;
            activity.line(format!("{} {}", if complete.success { "✓" } else { "✗" }, self.name));
        }
        shared.recorder.record(complete)?;
        Ok(())
    }

    /// Asks for permission; an outcome means that there is none. Whoever gives it may change the arguments.
    pub(crate) async fn permit(&self, request: PermissionRequest, args: &mut Value) -> Result<Option<Outcome>, Stop> {
        let request = request.with_tool_call_id(self.id);
        Ok(
            match self.turn.shared.permit(&self.request_id("permission"), request).await? {
                Verdict::Allowed => None,
                Verdict::Edited(edited) => {
                    *args = edited;
                    None
                }
                Verdict::Denied(text) => Some(Outcome::failed(text, "denied")),
                Verdict::Rejected(text) => Some(Outcome::failed(text, "rejected")),
            },
        )
    }

    async fn builtin(&self, tool: &Arc<dyn Tool>, args: &mut Value, allowed: bool) -> Result<Outcome, Stop> {
        let shared = self.turn.shared.clone();
        let call_id: Arc<str> = self.id.into();
        let (cwd, max_output_bytes, number_lines) = {
            let settings = shared.settings.lock();
            let number_lines = wants_line_numbers(&settings.model.info().id);
            (settings.cwd.clone(), settings.max_tool_output, number_lines)
        };
        let out = {
            let (shared, call_id) = (shared.clone(), call_id.clone());
            OutputSink::new(move |update| match update {
                ToolUpdate::Partial(output) => shared.recorder.note(ToolExecutionPartialResult {
                    tool_call_id: call_id.to_string(),
                    partial_output: output,
                }),
                ToolUpdate::Progress(message) => shared.recorder.note(ToolExecutionProgress {
                    tool_call_id: call_id.to_string(),
                    progress_message: message,
                }),
            })
        };
        let cx = ToolCx {
            session_id: shared.id.clone(),
            call_id,
            cwd,
            roots: shared.writable_roots(),
            session_dir: shared.dir.clone(),
            max_output_bytes,
            number_lines,
            out,
            state: shared.tool_state.clone(),
            cancel: self.turn.cancel.clone(),
        };
        if let Some(intent) = tool.intent(args) {
            if let Some(sub) = &shared.sub {
                sub.task.activity.lock().intent = Some(intent.clone());
            }
            shared.recorder.note(AssistantIntent { intent });
        }
        let refused = match tool.need(args, &cx) {
            Ok(need) => self.refusal(tool, need, args, &cx, allowed).await?,
            Err(error) => Some(Outcome::failed(error.0, "failure")),
        };
        self.start(args.clone())?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
        let had_plan = shared.plan_path().exists();
        let touches = tool.touches(args, &cx);
        shared.files_before(&touches).await;
        let result = tool.run(args.clone(), cx).await;
        shared.files_after(touches).await;
        Ok(match result {
            Ok(output) => {
                if output.changes.iter().any(|change| shared.is_plan_file(&change.path)) {
                    let operation = match had_plan {
                        true => FileOperation::Update,
                        false => FileOperation::Create,
                    };
                    shared.recorder.record(SessionPlanChanged { operation })?;
                }
                shared.recorder.count(|facts| {
                    for change in &output.changes {
                        facts.totals.lines_added += change.added;
                        facts.totals.lines_removed += change.removed;
                        facts.totals.files.insert(change.path.to_string_lossy().into_owned());
                    }
                });
                if output.todos_changed {
                    shared.recorder.note(SessionTodosChanged::default());
                }
                let images = output
                    .images
                    .into_iter()
                    .map(|(mime_type, data)| image_block(mime_type, data));
                let contents = output.contents.into_iter().chain(images).collect();
                Outcome::Done(Box::new(Success {
                    content: output.content,
                    detailed: output.detailed,
                    contents,
                    ..Success::default()
                }))
            }
            Err(error) => Outcome::failed(error.0, "failure"),
        })
    }

    /// Why a built-in tool may not run. Asks where that is to be asked, and then its arguments may have changed.
    async fn refusal(
        &self,
        tool: &Arc<dyn Tool>,
        need: Need,
        args: &mut Value,
        cx: &ToolCx,
        allowed: bool,
    ) -> Result<Option<Outcome>, Stop> {
        let shared = &self.turn.shared;
        let only_looks = shared.only_looks(tool.name(), &need);
        if let Some(refused) = shared.plan_refusal(only_looks) {
            return Ok(Some(refused));
        }
        let Need::Ask(request) = need else { return Ok(None) };
        if allowed || shared.is_plan(&request) {
            return Ok(None);
        }
        let asked = args.clone();
        if let Some(refused) = self.permit(*request, args).await? {
            return Ok(Some(refused));
        }
        if *args == asked {
            // The mode may have changed while somebody thought about it.
            return Ok(shared.plan_refusal(only_looks));
        }
        Ok(match tool.need(args, cx) {
            Err(error) => Some(Outcome::failed(error.0, "failure")),
            Ok(need) => shared
                .plan_refusal(shared.only_looks(tool.name(), &need))
                .or_else(|| match &need {
                    Need::Ask(request) => shared.forbidden(request).map(|why| Outcome::failed(why, "denied")),
                    _ => None,
                }),
        })
    }

    /// A tool that a client runs. The question outlives the client: one that comes back can still answer.
    async fn external(&self, tool: &ClientTool, args: &mut Value, allowed: bool) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let mut refused = shared.plan_refusal(tool.read_only);
        if refused.is_none() && !allowed && !tool.skip_permission {
            let request = PermissionRequest::CustomTool(CustomToolPermission {
                tool_name: tool.name.clone(),
                tool_description: tool.description.clone(),
                args: Some(args.clone()),
                ..CustomToolPermission::default()
            });
            refused = self
                .permit(request, args)
                .await?
                .or_else(|| shared.plan_refusal(tool.read_only));
        }
        if let Some(refused) = refused {
            self.start(args.clone())?;
            return Ok(refused);
        }
        self.start(args.clone())?;
        // Whoever runs it may do so on these files.
        let touches = match tool.read_only {
            true => Touches::Nothing,
            false => Touches::Anything,
        };
        shared.files_before(&touches).await;
        let request_id = self.request_id("tool");
        let waiting = shared.pending.open(&request_id, QuestionKind::Tool);
        let cwd = shared.settings.lock().cwd.to_string_lossy().into_owned();
        let event = shared.recorder.record(ExternalToolRequested {
            request_id: request_id.clone(),
            session_id: shared.id.to_string(),
            tool_call_id: self.id.into(),
            tool_name: self.name.into(),
            arguments: Some(args.clone()),
            working_directory: Some(cwd),
            ..ExternalToolRequested::default()
        })?;
        shared.pending.asked(&request_id, event);
        let answer = waiting.await;
        shared.files_after(touches).await;
        shared.recorder.record(ExternalToolCompleted { request_id })?;
        Ok(match answer {
            Ok(Answer::Tool(ToolAnswer::Result(result))) => external_outcome(result),
            // The reason is the client's own affair and may hold what the model must not see.
            _ => Outcome::failed(
                format!(
                    "Failed to execute `{}` tool with arguments: {{}} due to error: Error: Tool execution failed",
                    self.name
                ),
                "failure",
            ),
        })
    }

    fn own(&self, tool: AgentTool, args: Value) -> BoxFuture<'_, Result<Outcome, Stop>> {
        Box::pin(async move {
            self.start(args.clone())?;
            match tool {
                AgentTool::AskUser => self.ask_user(args).await,
                AgentTool::ExitPlanMode => self.exit_plan_mode(args).await,
                AgentTool::TaskComplete => self.task_complete(args),
                AgentTool::Skill => self.skill(args).await,
                AgentTool::Task => self.task(args).await,
                AgentTool::ReadAgent => self.read_agent(args).await,
            }
        })
    }

    /// Lets hooks see, and change, what came of it.
    async fn after(&self, outcome: Outcome, args: &Value, before: &Value) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let context = before["additionalContext"].as_str();
        let said = |output: &Value| output["additionalContext"].as_str().map(str::to_owned);
        match outcome {
            Outcome::Done(mut done) => {
                let result = json!({"textResultForLlm": done.content, "resultType": "success"});
                let input = json!({"toolName": self.name, "toolArgs": args, "toolResult": result});
                let output = shared.hook("postToolUse", input).await?;
                let changed = &output["modifiedResult"];
                if let Some(text) = changed.as_str().or_else(|| changed["textResultForLlm"].as_str()) {
                    done.content = text.to_owned();
                }
                if before["suppressOutput"] == true || output["suppressOutput"] == true {
                    *done = Success {
                        content: "(The output is suppressed by a hook.)".into(),
                        ..Success::default()
                    };
                }
                for more in context.map(str::to_owned).into_iter().chain(said(&output)) {
                    done.content = format!("{}\n\n{more}", done.content);
                }
                Ok(Outcome::Done(done))
            }
            Outcome::Failed {
                mut text,
                code,
                telemetry,
            } => {
                let input = json!({"toolName": self.name, "toolArgs": args, "error": text});
                let output = shared.hook("postToolUseFailure", input).await?;
                if let Some(more) = context {
                    text = format!("{text}\n\n{more}");
                }
                // The result stays what it was; the hook's advice is a message of its own.
                if let Some(advice) = said(&output) {
                    let text = format!(
                        "Tool \"{}\" failed. Additional guidance from postToolUseFailure hook:\n{advice}",
                        self.name
                    );
                    shared
                        .queue
                        .change(|lists| lists.steering.push_back(Prompt::of_hook(text)));
                }
                Ok(Outcome::Failed { text, code, telemetry })
            }
        }
    }
}

/// Whether a model is one of those that the Copilot CLI numbered the lines of files for: Claude up to its fourth generation.
/// Later models and those of others get the text alone, as it shows it today.
fn wants_line_numbers(model: &str) -> bool {
    let Some((_, version)) = model.split_once("claude-") else {
        return false;
    };
    let generation = version.split(['-', '.']).find_map(|part| part.parse::<u32>().ok());
    generation.is_some_and(|generation| generation < 5)
}

fn image_block(mime_type: String, data: String) -> ContentBlock {
    ContentBlock::Image(ImageBlock { mime_type, data })
}

fn external_outcome(result: ExternalResult) -> Outcome {
    let ExternalResult {
        text,
        result_type,
        error,
        session_log,
        telemetry,
        binaries,
        contents,
    } = result;
    let code = match result_type.as_str() {
        "" | "success" => {
            let images = binaries.into_iter().filter(|(mime, _)| mime.starts_with("image/"));
            let contents = contents
                .into_iter()
                .chain(images.map(|(mime, data)| image_block(mime, data)))
                .collect();
            let detailed = Some(session_log.unwrap_or_else(|| text.clone()));
            return Outcome::Done(Box::new(Success {
                content: text,
                detailed,
                contents,
                telemetry,
                ..Success::default()
            }));
        }
        "rejected" => "rejected",
        "denied" => "denied",
        _ => "failure",
    };
    let text = if text.is_empty() {
        error.unwrap_or_else(|| "Tool execution failed".into())
    } else {
        text
    };
    Outcome::Failed { text, code, telemetry }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_for_the_models_that_were_used_to_it() {
        for (model, expected) in [
            ("claude-sonnet-4.5", true),
            ("claude-3-5-haiku", true),
            ("anthropic/claude-opus-4-20250514", true),
            ("claude-sonnet-5", false),
            ("claude-next", false),
            ("gpt-4.1", false),
        ] {
            assert_eq!(wants_line_numbers(model), expected, "{model}");
        }
    }
}
