//! Shell commands that a person runs in a session.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use lodge_events::{ToolError, ToolExecutionComplete, ToolExecutionStart, ToolResult, ToolUserRequested};
use lodge_host::{OutputSink, ToolUpdate, UserCommand};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Capability, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static SHELL: Capability = Capability {
    title: "Shell",
    methods: &[
        method!(session "session.shell.exec", 2, "runs a command; its output comes as `shell.output`", exec),
        method!(session "session.shell.kill", 1, "sends a signal to such a command", kill),
        method!(session "session.shell.executeUserRequested", 2, "runs a command and tells the agent about it", execute),
        method!(session "session.shell.cancelUserRequested", 1, "stops such a command", cancel),
    ],
};

/// Commands of one client in one session, by the client's id. They end when the client leaves the session.
#[derive(Default)]
pub(crate) struct Running(Mutex<HashMap<String, Arc<UserCommand>>>);

impl Running {
    fn add(&self, id: String, command: UserCommand) -> Arc<UserCommand> {
        let command = Arc::new(command);
        self.0.lock().insert(id, command.clone());
        command
    }

    /// Removes a command; false if it is unknown.
    fn remove(&self, id: &str) -> bool {
        self.0.lock().remove(id).is_some()
    }

    /// Signals a command; false if it is unknown or has ended.
    fn signal(&self, id: &str, signal: &str) -> bool {
        self.0.lock().get(id).is_some_and(|command| command.signal(signal))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for command in self.0.lock().values() {
            command.signal("SIGKILL");
        }
    }
}

#[derive(Debug, Deserialize)]
struct ExecParams {
    command: String,
    #[serde(default)]
    cwd: Option<PathBuf>,
    /// Milliseconds.
    #[serde(default)]
    timeout: Option<u64>,
}

async fn exec(session: Arc<Attached>, params: ExecParams) -> Result<Value, RpcError> {
    let id = Uuid::new_v4().to_string();
    let (peer, process_id, session_id) = (session.peer(), id.clone(), session.id().to_owned());
    let out = OutputSink::new({
        let (peer, process_id, session_id) = (peer.clone(), process_id.clone(), session_id.clone());
        move |update| {
            if let ToolUpdate::Partial(data) = update {
                let output =
                    json!({"sessionId": session_id, "processId": process_id, "stream": "stdout", "data": data});
                peer.notify("shell.output", &output);
            }
        }
    });
    let command = session
        .session()
        .run_for_user(&params.command, params.cwd.as_deref(), out)
        .await?;
    let command = session.running().add(id.clone(), command);
    let watched = Arc::downgrade(&session);
    tokio::spawn(async move {
        let code = match params.timeout {
            None | Some(0) => command.exited().await,
            Some(limit) => match tokio::time::timeout(Duration::from_millis(limit), command.exited()).await {
                Ok(code) => code,
                Err(_) => {
                    command.signal("SIGKILL");
                    command.exited().await
                }
            },
        };
        if let Some(session) = watched.upgrade() {
            session.running().remove(&process_id);
        }
        peer.notify(
            "shell.exit",
            &json!({"sessionId": session_id, "processId": process_id, "exitCode": code}),
        );
    });
    Ok(json!({"processId": id}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KillParams {
    process_id: String,
    #[serde(default)]
    signal: Option<String>,
}

async fn kill(session: Arc<Attached>, params: KillParams) -> Result<Value, RpcError> {
    let signal = params.signal.as_deref().unwrap_or("SIGTERM");
    Ok(json!({"killed": session.running().signal(&params.process_id, signal)}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteParams {
    request_id: String,
    command: String,
}

/// The command is part of the conversation: its events are recorded like those of a call by the model.
async fn execute(session: Arc<Attached>, params: ExecuteParams) -> Result<Value, RpcError> {
    let id = Uuid::new_v4().to_string();
    let arguments = json!({"command": params.command, "description": "Asked for by the user"});
    let running = session
        .session()
        .run_for_user(&params.command, None, OutputSink::new(|_| {}))
        .await?;
    let running = session.running().add(params.request_id.clone(), running);
    let agent = session.session().clone();
    agent
        .record(ToolUserRequested {
            tool_call_id: id.clone(),
            tool_name: "bash".into(),
            arguments: Some(arguments.clone()),
        })
        .await?;
    agent
        .record(ToolExecutionStart {
            tool_call_id: id.clone(),
            tool_name: "bash".into(),
            arguments: Some(arguments),
            ..ToolExecutionStart::default()
        })
        .await?;
    let code = running.exited().await;
    let output = running.output();
    let cancelled = !session.running().remove(&params.request_id);
    let success = code == 0 && !cancelled;
    let error = match (cancelled, success) {
        (true, _) => Some("The command was cancelled.".to_owned()),
        (false, true) => None,
        (false, false) => Some(format!("The command ended with exit code {code}.")),
    };
    let content = format!("{output}\n<exited with exit code {code}>");
    agent
        .record(ToolExecutionComplete {
            tool_call_id: id.clone(),
            success,
            is_user_requested: Some(true),
            result: success.then(|| ToolResult {
                content: content.clone(),
                ..ToolResult::default()
            }),
            error: error.as_ref().map(|message| ToolError {
                message: format!("{message}\n{content}"),
                ..ToolError::default()
            }),
            ..ToolExecutionComplete::default()
        })
        .await?;
    let mut result = json!({"toolCallId": id, "success": success, "output": output, "exitCode": code});
    if let Some(error) = error {
        result["error"] = json!(error);
    }
    Ok(result)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams {
    request_id: String,
}

async fn cancel(session: Arc<Attached>, params: CancelParams) -> Result<Value, RpcError> {
    let cancelled = session.running().signal(&params.request_id, "SIGKILL");
    if cancelled {
        session.running().remove(&params.request_id);
    }
    Ok(json!({"cancelled": cancelled}))
}
