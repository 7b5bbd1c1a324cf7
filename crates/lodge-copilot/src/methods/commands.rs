//! Slash commands: of the host, from files, and of clients.

use std::sync::Arc;

use lodge_events::{CommandCompleted, CommandQueued};
use lodge_host::{AgentError, Answer, CommandInfo, CommandSource, Invoked, builtin_commands};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{connection::Ctx, rpc::RpcError, session::Attached};

pub(crate) static COMMANDS: Capability = Capability {
    title: "Commands",
    methods: &[
        method!(session "session.commands.list", 3, "commands of the host, of files and of clients", list),
        method!(
            "commands.list",
            0,
            "commands of the host, which every session has",
            list_builtin
        ),
        method!(session "session.commands.invoke", 1, "runs a command: returns text, a prompt for the agent, or nothing", invoke),
        method!(session "session.commands.execute", 1, "has a client run its command", execute),
        method!(session "session.commands.handlePendingCommand", 2, "reports that the client ran it", handle_pending),
        method!(session "session.commands.enqueue", 2, "offers clients a command to handle", enqueue),
        method!(session "session.commands.respondToQueuedCommand", 2, "reports that a client handled it", respond),
    ],
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListParams {
    include_builtins: Option<bool>,
    include_skills: Option<bool>,
    include_client_commands: Option<bool>,
}

async fn list(session: Arc<Attached>, params: ListParams) -> Result<Value, RpcError> {
    let mut commands = Vec::new();
    for command in session.session().commands().await {
        let (kind, wanted) = match command.source {
            CommandSource::Builtin => ("builtin", params.include_builtins),
            CommandSource::File(_) | CommandSource::McpPrompt { .. } | CommandSource::Agent => {
                ("skill", params.include_skills)
            }
            CommandSource::Client => ("client", params.include_client_commands),
        };
        if wanted == Some(false) {
            continue;
        }
        commands.push(shown(command, kind));
    }
    Ok(json!({"commands": commands}))
}

async fn list_builtin(_: Ctx, _: Nothing) -> Result<Value, RpcError> {
    let commands = builtin_commands().into_iter().map(|command| shown(command, "builtin"));
    Ok(json!({"commands": commands.collect::<Vec<_>>()}))
}

fn shown(command: CommandInfo, kind: &str) -> Value {
    let mut info = json!({
        "name": command.name,
        "description": command.description,
        "kind": kind,
        "allowDuringAgentExecution": command.while_busy,
    });
    if let Some(hint) = command.hint {
        info["input"] = json!({"hint": hint});
    }
    info
}

#[derive(Debug, Deserialize)]
struct InvokeParams {
    name: String,
    #[serde(default)]
    input: Option<String>,
}

/// A prompt for the agent is returned to the client, which decides how to send it.
async fn invoke(session: Arc<Attached>, params: InvokeParams) -> Result<Value, RpcError> {
    let name = params.name.trim_start_matches('/').to_owned();
    let input = params.input.unwrap_or_default();
    let invoked = session.session().invoke(&name, &input).await?;
    Ok(
        match invoked.ok_or_else(|| RpcError::failed(format!("Unknown command: /{name}")))? {
            Invoked::Ran => json!({"kind": "completed"}),
            Invoked::Done(text) => json!({"kind": "text", "text": text, "markdown": true}),
            Invoked::Prompt { text, mode } => {
                let mut result = json!({
                    "kind": "agent-prompt",
                    "prompt": text,
                    "displayPrompt": format!("/{name} {input}").trim_end(),
                });
                if let Some(mode) = mode {
                    result["mode"] = json!(mode.as_str());
                }
                result
            }
        },
    )
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteParams {
    command_name: String,
    #[serde(default)]
    args: String,
}

async fn execute(session: Arc<Attached>, params: ExecuteParams) -> Result<Value, RpcError> {
    let ran = session
        .session()
        .run_client_command(&params.command_name, &params.args)
        .await;
    match ran {
        Ok(()) => Ok(json!({})),
        Err(AgentError::Refused(error)) => Ok(json!({"error": error})),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HandleParams {
    request_id: String,
    #[serde(default)]
    error: Option<String>,
}

/// Every client is notified of a command, and those that do not have it respond, too; only the first response counts,
/// and the others are not errors.
async fn handle_pending(session: Arc<Attached>, params: HandleParams) -> Result<Value, RpcError> {
    let unknown = params
        .error
        .as_deref()
        .is_some_and(|error| error.starts_with("Unknown command"));
    if !unknown {
        let answer = Answer::Command(params.error);
        session.answer(&params.request_id, answer).await?;
    }
    Ok(json!({"success": true}))
}

#[derive(Debug, Deserialize)]
struct EnqueueParams {
    command: String,
}

async fn enqueue(session: Arc<Attached>, params: EnqueueParams) -> Result<Value, RpcError> {
    let id = session.board().queue_command(params.command);
    next(session).await?;
    Ok(json!({"queued": true, "queueId": id}))
}

/// Notifies clients of the oldest waiting command, if no turn runs and no other command is being handled.
async fn next(session: Arc<Attached>) -> Result<(), RpcError> {
    if session.session().is_busy() {
        tokio::spawn(async move {
            session.session().tasks_settled().await;
            tell_next(&session).await
        });
        return Ok(());
    }
    tell_next(&session).await
}

async fn tell_next(session: &Attached) -> Result<(), RpcError> {
    if let Some((request_id, command)) = session.board().next_command() {
        session.session().record(CommandQueued { request_id, command }).await?;
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RespondParams {
    request_id: String,
    #[serde(default)]
    result: CommandOutcome,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CommandOutcome {
    stop_processing_queue: bool,
}

async fn respond(session: Arc<Attached>, params: RespondParams) -> Result<Value, RpcError> {
    let RespondParams { request_id, result } = params;
    let waited = session
        .board()
        .command_dealt_with(&request_id, result.stop_processing_queue);
    if waited {
        session.session().record(CommandCompleted { request_id }).await?;
        next(session).await?;
    }
    Ok(json!({"success": waited}))
}
