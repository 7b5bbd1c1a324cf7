//! `bash`: runs a command.

mod unapproved;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Attempt, Need, Tool, ToolCx, ToolError, ToolOutput, changes::Touches, cx::arguments, request, shell, shells::Shell,
    spill::Taken, state::How,
};

/// Runs a command in a shell of its own.
pub(super) struct Bash;

const DEFAULT_WAIT: f64 = 30.0;
const MAX_WAIT: f64 = 24.0 * 3600.0;

#[derive(Deserialize, Clone)]
struct Arguments {
    command: String,
    #[serde(default)]
    description: String,
    #[serde(default, rename = "shellId", alias = "shell_id", alias = "sessionId")]
    shell_id: Option<String>,
    #[serde(default)]
    mode: Mode,
    #[serde(default, alias = "initialWait")]
    initial_wait: Option<f64>,
}

#[derive(Deserialize, Default, Clone, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Sync,
    Async,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "command": { "type": "string", "description": "The command to run. It may span several lines." },
            "description": { "type": "string", "description": "What the command does, in at most ten words." },
            "shellId": { "type": "string", "description": "A name for the shell, to refer to it in read_bash, write_bash and stop_bash. If omitted, the shell gets a number." },
            "mode": { "type": "string", "enum": ["sync", "async"], "description": "sync (default): wait for the command. async: leave it running in the background; write_bash can write to its input." },
            "initial_wait": { "type": "number", "description": "Seconds to wait for a sync command before it continues in the background. Default 30." }
        },
        "required": ["command", "description"]
    }))
});

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command in bash and returns what it printed (standard output and error together) and its exit code. Every call is a new shell in the session's working directory: variables and `cd` do not carry over, so chain commands that need them. Standard input is empty; there is no terminal. A sync command that takes longer than initial_wait seconds continues in the background: read its output with read_bash, stop it with stop_bash. Use async for servers, watchers and programs that need input. Everything a shell started is stopped when the session ends."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn intent(&self, value: &Value) -> Option<String> {
        value
            .get("description")?
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        let (request, places) = request::shell(cx, &args.command, &args.description);
        Ok(cx.need(places, request))
    }

    fn touches(&self, value: &Value, _cx: &ToolCx) -> Touches {
        let args = arguments::<Arguments>(self.name(), value);
        match args.is_ok_and(|args| shell::analyse(&args.command).only_reads()) {
            true => Touches::Nothing,
            false => Touches::Anything,
        }
    }

    fn try_unasked(&self, value: &Value, cx: &ToolCx) -> Option<BoxFuture<'static, Attempt>> {
        let attempt = unapproved::UnapprovedCommand::prepare(value, cx);
        Some(Box::pin(async move {
            match attempt {
                Some(attempt) => attempt.run().await,
                None => Attempt::NotEnough,
            }
        }))
    }

    fn needed_approval(&self, value: &Value, cx: &ToolCx) {
        if let Ok(args) = arguments::<Arguments>(self.name(), value) {
            cx.state.jail_is_not_enough(unapproved::programs(&args.command));
        }
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Arguments = arguments("bash", &value)?;
            let background = args.mode == Mode::Async;
            let how = How::Approved { stdin: background };
            let shell = cx.state.start(&cx, args.shell_id.clone(), &args.command, &how)?;
            let guard = KillOnDrop(Some(shell.clone()));
            let (code, wait) = (ended(&cx, &shell, args.wait()).await?, args.wait());
            guard.release();
            Ok(result(&cx, &shell, code, |output| match background {
                true => still(
                    output,
                    &format!("<command started in background with shellId: {}>", shell.id),
                ),
                false => still(output, &still_running(&shell, wait)),
            }))
        })
    }
}

impl Arguments {
    fn wait(&self) -> Duration {
        // The first output of a background command shows whether it started at all.
        let usual = if self.mode == Mode::Async { 0.5 } else { DEFAULT_WAIT };
        Duration::from_secs_f64(self.initial_wait.unwrap_or(usual).clamp(0.0, MAX_WAIT))
    }
}

/// How a shell ended, if it did in time.
async fn ended(cx: &ToolCx, shell: &Shell, time: Duration) -> Result<Option<i32>, ToolError> {
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(ToolError(INTERRUPTED.to_owned())),
        code = shell.exited_within(time) => Ok(code),
    }
}

/// The result of a call whose command has ended, or continues in the background.
fn result(cx: &ToolCx, shell: &Arc<Shell>, code: Option<i32>, goes_on: impl FnOnce(Taken) -> ToolOutput) -> ToolOutput {
    shell.detach();
    let output = shell.take_output();
    match code {
        Some(code) => {
            cx.state.forget(shell);
            finished(shell, output, code, &format!("<exited with exit code {code}>"))
        }
        None => {
            cx.state.continues_in_background(shell);
            goes_on(output)
        }
    }
}

/// The result of an interrupted call, for the model.
pub(super) const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

/// Ends the shell when the call is dropped before it is done.
struct KillOnDrop(Option<Arc<Shell>>);

impl KillOnDrop {
    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(shell) = self.0.take() {
            shell.kill();
        }
    }
}

/// The result of a command that has ended.
pub(super) fn finished(shell: &Shell, output: Taken, code: i32, last_line: &str) -> ToolOutput {
    let block = request::terminal_block(output.text.clone(), code, &shell.cwd);
    ToolOutput {
        contents: vec![block],
        ..still(output, last_line)
    }
}

/// The result of a command that is still running.
pub(super) fn still(output: Taken, last_line: &str) -> ToolOutput {
    let with_last_line = |mut text: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(last_line);
        text
    };
    ToolOutput {
        content: with_last_line(output.text),
        detailed: output.shown.map(with_last_line),
        ..ToolOutput::default()
    }
}

/// Says that a command is still running, and what the model can do.
pub(super) fn still_running(shell: &Shell, waited: Duration) -> String {
    let (id, seconds) = (&shell.id, waited.as_secs_f64());
    format!(
        "<command with shellId: {id} is still running after {seconds} seconds. Use read_bash to wait for more output or stop_bash to end it.>"
    )
}
