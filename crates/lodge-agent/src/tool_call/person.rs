//! A command that a person runs: a turn without a model. The model learns of it with the next message.

use lodge_events::{
    AgentMode, COMMAND_SOURCE, Delivery, SessionTitleChanged, ToolError, ToolExecutionComplete, ToolExecutionStart,
    ToolResult, ToolUserRequested, UserMessage,
};
use serde_json::json;
use uuid::Uuid;

use super::{Call, Outcome};
use crate::{
    facts::Facts,
    settings::Prompt,
    turn::{Stop, Turn},
};

const TOOL: &str = "bash";
/// Seconds. It is waited for as long as it takes, or until somebody stops it.
const WAIT: u32 = 24 * 3600;

/// Runs the command. Whoever typed it needs no permission, but where commands are sandboxed, this one is too.
pub(crate) async fn run_for_person(
    turn: &Turn,
    prompt: &Prompt,
    command: &str,
    delivery: Delivery,
) -> Result<(), Stop> {
    let shared = &turn.shared;
    let has_title = shared.recorder.facts(|facts| facts.title().is_some()) || shared.settings.lock().name.is_some();
    shared.recorder.record(UserMessage {
        content: prompt.display_text.clone().unwrap_or_else(|| prompt.text.clone()),
        message_id: prompt.message_id.clone(),
        source: Some(COMMAND_SOURCE.into()),
        agent_mode: Some(AgentMode::Shell),
        interaction_id: Some(turn.interaction_id.clone()),
        delivery: Some(delivery),
        ..UserMessage::default()
    })?;
    if let Some(title) = shared.recorder.facts(Facts::title).filter(|_| !has_title) {
        shared.recorder.note(SessionTitleChanged { title });
    }
    shared.queue.begun();
    shared.recorder.sync();
    let id = Uuid::new_v4().to_string();
    let mut arguments = json!({"command": command, "description": "Asked for by the user"});
    let requested = shared.recorder.record(ToolUserRequested {
        tool_call_id: id.clone(),
        tool_name: TOOL.into(),
        arguments: Some(arguments.clone()),
    })?;
    shared.recorder.record(ToolExecutionStart {
        tool_call_id: id.clone(),
        tool_name: TOOL.into(),
        arguments: Some(arguments.clone()),
        ..ToolExecutionStart::default()
    })?;
    shared.recorder.durable().await?;
    let call = Call {
        turn,
        id: &id,
        name: TOOL,
        message: requested.id(),
        model: None,
        turn_id: "0",
        mcp: None,
    };
    arguments["initial_wait"] = WAIT.into();
    let outcome = match shared.builtins.iter().find(|tool| tool.name() == TOOL) {
        Some(tool) => call.execute(tool, arguments, call.cx()).await?,
        None => Outcome::failed("This host runs no commands.", "failure"),
    };
    turn.unless_cancelled().await;
    let mut complete = ToolExecutionComplete {
        tool_call_id: id.clone(),
        is_user_requested: Some(true),
        interaction_id: Some(turn.interaction_id.clone()),
        ..ToolExecutionComplete::default()
    };
    match outcome {
        // Whatever its exit code is: that is in the result, as for a command of the model.
        Outcome::Done(done) => {
            complete.success = true;
            complete.result = Some(ToolResult {
                content: done.content,
                detailed_content: done.detailed,
                contents: (!done.contents.is_empty()).then_some(done.contents),
                ..ToolResult::default()
            });
        }
        Outcome::Failed { text, .. } => {
            complete.error = Some(ToolError {
                message: text,
                code: Some("failure".into()),
                ..ToolError::default()
            });
        }
    }
    shared.recorder.record(complete)?;
    shared.tell_context()?;
    Ok(())
}
