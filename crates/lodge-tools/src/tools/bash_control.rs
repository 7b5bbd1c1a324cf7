//! `read_bash`, `write_bash`, `stop_bash`, `list_bash`: shells that run in the background.

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bash::{INTERRUPTED, finished, still, still_running};
use crate::{Need, Tool, ToolCx, ToolError, ToolOutput, changes::Touches, cx::arguments, request, shells::Shell};

const MAX_DELAY: f64 = 600.0;

/// Reads what a shell printed since it was last read.
pub(super) struct ReadBash;
/// Writes to a shell's input.
pub(super) struct WriteBash;
/// Ends a shell.
pub(super) struct StopBash;
/// Lists shells.
pub(super) struct ListBash;

#[derive(Deserialize)]
struct Arguments {
    #[serde(rename = "shellId", alias = "shell_id", alias = "sessionId")]
    shell_id: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    delay: Option<f64>,
}

fn schema(properties: Value, required: Value) -> Arc<Value> {
    Arc::new(json!({ "type": "object", "properties": properties, "required": required }))
}

fn shell_of(cx: &ToolCx, id: &str) -> Result<Arc<Shell>, ToolError> {
    cx.state.shell(id).ok_or_else(|| {
        ToolError(format!(
            "There is no shell with shellId {id}. Use list_bash to see the shells."
        ))
    })
}

/// Waits, then reports what is new.
async fn read(cx: &ToolCx, shell: &Arc<Shell>, delay: f64) -> Result<ToolOutput, ToolError> {
    let delay = Duration::from_secs_f64(delay.clamp(0.0, MAX_DELAY));
    let code = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(ToolError(INTERRUPTED.to_owned())),
        code = shell.exited_within(delay) => code,
    };
    let output = shell.take_output();
    Ok(match code {
        Some(code) => finished(
            shell,
            output,
            code,
            &format!("<shellId: {} completed with exit code {code}>", shell.id),
        ),
        None => still(
            output,
            &still_running(shell, Duration::from_secs(shell.started.elapsed().as_secs())),
        ),
    })
}

impl Tool for ReadBash {
    fn name(&self) -> &'static str {
        "read_bash"
    }

    fn description(&self) -> &'static str {
        "Reads what a background shell printed since it was last read. Waits up to delay seconds for the command to end."
    }

    fn parameters(&self) -> Arc<Value> {
        static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
            schema(
                json!({
                    "shellId": { "type": "string", "description": "The shellId that bash returned." },
                    "delay": { "type": "number", "description": "Seconds to wait for the command to end." }
                }),
                json!(["shellId", "delay"]),
            )
        });
        PARAMETERS.clone()
    }

    fn need(&self, _: &Value, _: &ToolCx) -> Result<Need, ToolError> {
        Ok(Need::Nothing)
    }

    fn touches(&self, _: &Value, _: &ToolCx) -> Touches {
        Touches::Anything
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Arguments = arguments("read_bash", &value)?;
            let shell = shell_of(&cx, &args.shell_id)?;
            read(&cx, &shell, args.delay.unwrap_or(0.0)).await
        })
    }
}

impl Tool for WriteBash {
    fn name(&self) -> &'static str {
        "write_bash"
    }

    fn description(&self) -> &'static str {
        "Writes to the input of a background shell that bash started with mode async, then reads what it printed. {enter} sends a line end, {ctrl+c} interrupts the command, {ctrl+d} ends its input."
    }

    fn parameters(&self) -> Arc<Value> {
        static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
            schema(
                json!({
                    "shellId": { "type": "string", "description": "The shellId that bash returned." },
                    "input": { "type": "string", "description": "What to write." },
                    "delay": { "type": "number", "description": "Seconds to wait for output afterwards." }
                }),
                json!(["shellId", "input", "delay"]),
            )
        });
        PARAMETERS.clone()
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        let shell = shell_of(cx, &args.shell_id)?;
        Ok(cx.need(
            Vec::new(),
            request::shell_input(&cx.call_id, &shell.command, &args.input),
        ))
    }

    fn touches(&self, _: &Value, _: &ToolCx) -> Touches {
        Touches::Anything
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Arguments = arguments("write_bash", &value)?;
            let shell = shell_of(&cx, &args.shell_id)?;
            if shell.exit_code().is_none() {
                for part in keys(&args.input) {
                    match part {
                        Key::Interrupt => shell.interrupt(),
                        Key::End => shell.close_input().await,
                        Key::Text(text) => {
                            if !shell.write(&text).await {
                                let id = &shell.id;
                                return Err(ToolError(format!(
                                    "Shell {id} does not accept input. To send input, start the command with mode async."
                                )));
                            }
                        }
                    }
                }
            }
            read(&cx, &shell, args.delay.unwrap_or(1.0)).await
        })
    }
}

enum Key {
    Text(String),
    Interrupt,
    End,
}

/// The input, cut where a key stands.
fn keys(input: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut text = String::new();
    let mut rest = input;
    while !rest.is_empty() {
        let found = [
            ("{enter}", None),
            ("{ctrl+c}", Some(Key::Interrupt)),
            ("{ctrl+d}", Some(Key::End)),
        ]
        .into_iter()
        .find_map(|(name, key)| Some((rest.strip_prefix(name)?, key)));
        match found {
            Some((after, None)) => {
                text.push('\n');
                rest = after;
            }
            Some((after, Some(key))) => {
                if !text.is_empty() {
                    keys.push(Key::Text(std::mem::take(&mut text)));
                }
                keys.push(key);
                rest = after;
            }
            None => {
                let c = rest.chars().next().unwrap_or_default();
                text.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    if !text.is_empty() {
        keys.push(Key::Text(text));
    }
    keys
}

impl Tool for StopBash {
    fn name(&self) -> &'static str {
        "stop_bash"
    }

    fn description(&self) -> &'static str {
        "Stops a background shell and everything it started."
    }

    fn parameters(&self) -> Arc<Value> {
        static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
            schema(
                json!({ "shellId": { "type": "string", "description": "The shellId that bash returned." } }),
                json!(["shellId"]),
            )
        });
        PARAMETERS.clone()
    }

    fn need(&self, _: &Value, _: &ToolCx) -> Result<Need, ToolError> {
        Ok(Need::Nothing)
    }

    fn touches(&self, _: &Value, _: &ToolCx) -> Touches {
        Touches::Anything
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: Arguments = arguments("stop_bash", &value)?;
            let shell = shell_of(&cx, &args.shell_id)?;
            let ended = shell.exit_code();
            shell.kill();
            let code = shell.exited().await;
            cx.state.forget(&shell);
            let id = &shell.id;
            let last_line = match ended {
                Some(_) => format!("<shellId: {id} completed with exit code {code}>"),
                None => format!("<command with shellId: {id} stopped>"),
            };
            Ok(still(shell.take_output(), &last_line))
        })
    }
}

impl Tool for ListBash {
    fn name(&self) -> &'static str {
        "list_bash"
    }

    fn description(&self) -> &'static str {
        "Lists the session's shells: those still running, and those that ended with unread output."
    }

    fn parameters(&self) -> Arc<Value> {
        static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| schema(json!({}), json!([])));
        PARAMETERS.clone()
    }

    fn need(&self, _: &Value, _: &ToolCx) -> Result<Need, ToolError> {
        Ok(Need::Nothing)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, _: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let mut content = String::new();
            for shell in cx.state.shells() {
                let state = match shell.exit_code() {
                    None => "running".to_owned(),
                    Some(code) => format!("completed with exit code {code}"),
                };
                let unread = if shell.has_output() { ", unread output" } else { "" };
                let _ = writeln!(
                    content,
                    "shellId: {} ({state}{unread})\n  {}",
                    shell.id,
                    shell.command.replace('\n', "\n  ")
                );
            }
            if content.is_empty() {
                content.push_str("No shells.");
            }
            Ok(ToolOutput {
                content: content.trim_end().to_owned(),
                ..ToolOutput::default()
            })
        })
    }
}
