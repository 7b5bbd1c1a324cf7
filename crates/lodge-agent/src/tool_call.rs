//! Runs the tool calls of one message: hooks, permission, the tool, its result. Independent calls run in parallel; every call
//! ends with exactly one result.

mod builtin;
mod external;
mod outcome;
mod person;

use std::collections::HashMap;

use futures_util::future::{BoxFuture, join_all};
use lodge_events::{
    AssistantIntent, PermissionRequest, ToolError, ToolExecutionComplete, ToolExecutionStart, ToolResult,
};
use lodge_models::ToolCall;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) use self::{
    outcome::{Outcome, Success},
    person::run_for_person,
};
use crate::{
    agent_tools::AgentTool,
    answer::request_id,
    call::parse_arguments,
    client::ClientTool,
    facts::{Facts, OpenCall},
    hooks::{Decision, HookOutput, Step, TextResult},
    mcp::McpTool,
    permission::Verdict,
    session::{AnyTool, Shared},
    settings::Prompt,
    turn::{self, Stop, Turn},
};

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
    /// The model that wrote the message.
    pub(crate) model: Option<&'a str>,
    pub(crate) turn_id: &'a str,
    /// Set when an MCP server has the tool.
    pub(crate) mcp: Option<&'a McpTool>,
}

/// Runs them all. Stops with [`Stop::Rejected`] when a person said no to one of them.
pub(crate) async fn run_all(turn: &Turn, message: Uuid, calls: &[ToolCall], turn_id: &str) -> Result<bool, Stop> {
    if calls.is_empty() {
        return Ok(false);
    }
    let tools = turn.shared.tools();
    let asked = asked_before(turn, calls);
    // People may switch models while calls run.
    let asking = |facts: &Facts| {
        let mut open = facts.open_turn.as_ref()?.calls.iter();
        open.find(|open| open.id == calls[0].id)?.model.clone()
    };
    let model = turn.shared.recorder.facts(asking);
    let find = |call: &ToolCall| {
        let known = tools
            .iter()
            .find(|(spec, _)| spec.name == call.name)
            .map(|(_, tool)| tool);
        known.or_else(|| asked.get(&call.id))
    };
    let side_by_side = |call: &ToolCall| match find(call) {
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
                model: model.as_deref(),
                turn_id,
                mcp: match find(call) {
                    Some(AnyTool::Mcp(tool)) => Some(tool),
                    _ => None,
                },
            };
            run_one(this, &call.arguments, find(call), &names)
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
    let only_reads = |call: &ToolCall| matches!(find(call), Some(AnyTool::Builtin(tool)) if tool.parallel());
    if !calls.iter().all(only_reads) {
        turn.shared.tell_context()?;
    }
    if rejected {
        turn::close_open_calls(&turn.shared)?;
        return Err(Stop::Rejected);
    }
    Ok(terminal)
}

impl Turn {
    /// Tells what the calls of an answer are about, as they say of themselves.
    pub(crate) fn tell_intents(&self, calls: &[ToolCall]) {
        if calls.is_empty() {
            return;
        }
        let tools = self.shared.tools();
        for call in calls {
            let tool = tools.iter().find(|(spec, _)| spec.name == call.name);
            let Ok(arguments) = parse_arguments(&call.arguments) else {
                continue;
            };
            let intent = match tool {
                Some((_, AnyTool::Builtin(tool))) => tool.intent(&arguments),
                Some((_, AnyTool::Agent(AgentTool::Task))) => arguments["description"].as_str().map(str::to_owned),
                _ => None,
            };
            let Some(intent) = intent.filter(|intent| !intent.trim().is_empty()) else {
                continue;
            };
            if let Some(sub) = &self.shared.sub {
                sub.task.activity.lock().intent = Some(intent.clone());
            }
            self.shared.recorder.note(AssistantIntent { intent });
        }
    }
}

/// Tells the model of calls that had begun when the host went down, where nobody knows how far they came: what may have
/// changed something is not begun a second time. What only waited for an answer is asked again.
pub(crate) fn interrupt_begun(shared: &Shared) -> Result<(), Stop> {
    let tools = shared.tools();
    let again = |call: &OpenCall| match tools.iter().find(|(spec, _)| spec.name == call.name) {
        Some((_, AnyTool::Client(_))) => true,
        Some((_, AnyTool::Agent(tool))) => *tool != AgentTool::Task,
        Some((_, AnyTool::Mcp(tool))) => tool.tool.read_only,
        Some((_, AnyTool::Builtin(_))) => false,
        None => call.asked,
    };
    let open = shared.recorder.facts(|facts| facts.open_turn.clone());
    for call in open.into_iter().flat_map(|turn| turn.calls) {
        if call.started && !again(&call) {
            turn::interrupt_call(&shared.recorder, &call)?;
        }
    }
    Ok(())
}

/// Tools that clients were asked to run before the session was taken up again: whoever knows the question may answer it,
/// also when nobody who has the tool is back.
fn asked_before(turn: &Turn, calls: &[ToolCall]) -> HashMap<String, AnyTool> {
    let open = |facts: &Facts| facts.open_turn.as_ref().map(|turn| turn.calls.clone());
    let open = turn.shared.recorder.facts(open).unwrap_or_default();
    let asked = calls
        .iter()
        .filter(|call| open.iter().any(|open| open.asked && open.id == call.id));
    let tool = |call: &ToolCall| ClientTool {
        name: call.name.clone(),
        description: String::new(),
        parameters: Value::Null.into(),
        overrides_builtin: false,
        skip_permission: true,
        read_only: false,
        terminal: false,
    };
    asked
        .map(|call| (call.id.clone(), AnyTool::Client(tool(call))))
        .collect()
}

/// How much of malformed arguments the model reads again, in characters.
const LONGEST_MALFORMED: usize = 2_000;

/// Runs one call and records its end.
async fn run_one(call: Call<'_>, arguments: &str, tool: Option<&AnyTool>, names: &[&str]) -> Result<End, Stop> {
    let shared = &call.turn.shared;
    let mut args = match parse_arguments(arguments) {
        Ok(args) => args,
        Err(error) => {
            call.start(json!({})).await?;
            // Events have no place for arguments that are none, so they are told here.
            let written: String = arguments.chars().take(LONGEST_MALFORMED).collect();
            let text = format!(
                "The arguments of `{}` {error}. Send them again. They were: {written}",
                call.name
            );
            return call.complete(Outcome::failed(text, "failure")).map(|()| End::GoesOn);
        }
    };
    let step = Step::PreToolUse {
        tool_name: call.name,
        tool_args: args.to_string(),
    };
    let before = shared.hook(step).await?;
    if let Some(changed) = &before.modified_args {
        // Hooks get the arguments as text, and some give them back as text.
        args = match changed.as_str().and_then(|text| serde_json::from_str(text).ok()) {
            Some(parsed) => parsed,
            None => changed.clone(),
        };
    }
    let written = args.clone();
    let outcome = if before.call.decision() == Some(Decision::Deny) {
        let reason = before.call.reason().unwrap_or("No reason provided");
        call.start(args.clone()).await?;
        Outcome::failed(format!("Denied by preToolUse hook: {reason}"), "denied")
    } else {
        let allowed = before.call.decision() == Some(Decision::Allow);
        match tool {
            Some(AnyTool::Builtin(tool)) => call.builtin(tool, &mut args, allowed).await?,
            Some(AnyTool::Client(tool)) => call.external(tool, &mut args, allowed).await?,
            Some(AnyTool::Agent(tool)) => call.own(*tool, args.clone()).await?,
            Some(AnyTool::Mcp(tool)) => call.mcp(tool, &mut args, allowed).await?,
            None => {
                call.start(args).await?;
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

/// What came of asking for permission.
pub(crate) enum Asked {
    Allowed {
        /// Whether somebody, a rule or the mode approved it; otherwise it only looks harmless.
        approved: bool,
    },
    /// The arguments are others now.
    Edited {
        /// Whether what the call became is allowed from now on.
        for_session: bool,
    },
    Refused(Outcome),
}

fn asked(verdict: Verdict, args: &mut Value) -> Asked {
    match verdict {
        Verdict::Allowed { approved } => Asked::Allowed { approved },
        Verdict::Edited { arguments, for_session } => {
            *args = arguments;
            Asked::Edited { for_session }
        }
        Verdict::Denied(text) => Asked::Refused(Outcome::failed(text, "denied")),
        Verdict::Rejected(text) => Asked::Refused(Outcome::failed(text, "rejected")),
    }
}

impl Call<'_> {
    pub(crate) fn request_id(&self, about: &str) -> String {
        request_id(&self.turn.shared.id, &format!("{}:{}", self.message, self.id), about)
    }

    /// Records that the call begins; it may begin when this returns.
    pub(crate) async fn start(&self, arguments: Value) -> Result<(), Stop> {
        let shared = &self.turn.shared;
        if let Some(sub) = &shared.sub {
            sub.task.activity.lock().line(format!("▸ {}", self.name));
        }
        shared.recorder.record(ToolExecutionStart {
            tool_call_id: self.id.into(),
            tool_name: self.name.into(),
            arguments: Some(arguments),
            turn_id: Some(self.turn_id.into()),
            model: self.model.map(str::to_owned),
            ..self.mcp.map(|tool| shared.mcp_start(tool)).unwrap_or_default()
        })?;
        Ok(shared.recorder.durable().await?)
    }

    fn complete(&self, outcome: Outcome) -> Result<(), Stop> {
        let shared = &self.turn.shared;
        let mut complete = ToolExecutionComplete {
            tool_call_id: self.id.into(),
            model: self.model.map(str::to_owned),
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
                    citable_sources: (!done.citable.is_empty()).then_some(done.citable),
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
            sub.task.activity.lock().call_ended(self.name, complete.success);
        }
        shared.recorder.record(complete)?;
        Ok(())
    }

    /// Asks for permission for a tool that is allowed whatever its arguments are; an outcome means that there is none.
    /// Whoever gives it may change the arguments.
    pub(crate) async fn permit(&self, request: PermissionRequest, args: &mut Value) -> Result<Option<Outcome>, Stop> {
        Ok(match self.ask(request.clone(), args).await? {
            Asked::Allowed { .. } => None,
            Asked::Edited { for_session } => {
                if for_session {
                    self.turn.shared.allow_for_session(&request);
                }
                None
            }
            Asked::Refused(refused) => Some(refused),
        })
    }

    /// Asks for permission. Whoever gives it may change the arguments.
    pub(crate) async fn ask(&self, request: PermissionRequest, args: &mut Value) -> Result<Asked, Stop> {
        let (shared, request) = (&self.turn.shared, request.with_tool_call_id(Some(self.id.to_owned())));
        if shared.would_ask(&request)
            && let Some(verdict) = self.answered_by_hook(&request, args).await?
        {
            return Ok(asked(verdict, args));
        }
        let verdict = shared.permit(&self.request_id("permission"), request).await?;
        Ok(asked(verdict, args))
    }

    /// What hooks say to a question before a person is asked. They cannot allow what policy wants a person to answer.
    async fn answered_by_hook(&self, request: &PermissionRequest, args: &Value) -> Result<Option<Verdict>, Stop> {
        let shared = &self.turn.shared;
        let step = Step::PermissionRequest {
            tool_name: self.name,
            tool_args: args,
            tool_call_id: self.id,
        };
        let answer = shared.hook(step).await?.permission;
        match answer.decision() {
            Some(Decision::Deny) => {
                let why = answer.reason().unwrap_or("A hook refused it.");
                return Ok(Some(Verdict::Denied(why.to_owned())));
            }
            Some(Decision::Allow) if !shared.is_governed(request) => {
                return Ok(Some(Verdict::Allowed { approved: true }));
            }
            _ => {}
        }
        let (shared, name) = (shared.clone(), self.name.to_owned());
        tokio::spawn(async move {
            let message = format!("Lodge needs your permission to use {name}");
            let step = Step::Notification {
                message: &message,
                notification_type: "permission_prompt",
                tool_name: Some(&name),
            };
            // A log that cannot be written is told by whoever writes next.
            let _ = shared.hook(step).await;
        });
        Ok(None)
    }

    /// Asks a person, although rules would have let it pass: it needs more than they allow.
    pub(crate) async fn ask_person(&self, request: PermissionRequest, args: &mut Value) -> Result<Asked, Stop> {
        let (shared, request) = (&self.turn.shared, request.with_tool_call_id(Some(self.id.to_owned())));
        let verdict = shared.ask_permission(&self.request_id("permission"), request).await?;
        Ok(asked(verdict, args))
    }

    fn own(&self, tool: AgentTool, args: Value) -> BoxFuture<'_, Result<Outcome, Stop>> {
        Box::pin(async move {
            self.start(args.clone()).await?;
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
    async fn after(&self, outcome: Outcome, args: &Value, before: &HookOutput) -> Result<Outcome, Stop> {
        let shared = &self.turn.shared;
        let context = before.additional_context.clone();
        match outcome {
            Outcome::Done(mut done) => {
                let step = Step::PostToolUse {
                    tool_name: self.name,
                    tool_args: args,
                    tool_result: TextResult {
                        text_result_for_llm: &done.content,
                        result_type: "success",
                    },
                };
                let output = shared.hook(step).await?;
                if let Some(text) = output.modified_result() {
                    done.content = text.to_owned();
                }
                if before.suppresses_output() || output.suppresses_output() {
                    *done = Success {
                        content: "(The output is suppressed by a hook.)".into(),
                        ..Success::default()
                    };
                }
                for more in context.into_iter().chain(output.additional_context) {
                    done.content = format!("{}\n\n{more}", done.content);
                }
                Ok(Outcome::Done(done))
            }
            Outcome::Failed {
                mut text,
                code,
                telemetry,
            } => {
                let step = Step::PostToolUseFailure {
                    tool_name: self.name,
                    tool_args: args,
                    error: &text,
                };
                let output = shared.hook(step).await?;
                if let Some(more) = context {
                    text = format!("{text}\n\n{more}");
                }
                // The result stays what it was; the hook's advice is a message of its own.
                if let Some(advice) = output.additional_context {
                    let text = format!(
                        "Tool \"{}\" failed. Additional guidance from postToolUseFailure hook:\n{advice}",
                        self.name
                    );
                    shared.interjections.add(Prompt::of_hook(text));
                }
                Ok(Outcome::Failed { text, code, telemetry })
            }
        }
    }
}
