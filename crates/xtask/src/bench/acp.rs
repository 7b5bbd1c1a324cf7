//! ACP over standard streams: how soon an editor can speak to an agent, and how long a turn takes.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{
    client::{median, timed},
    measures::{Given, Numbers},
};

/// An agent, as an editor starts it.
struct Agent {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a program is started as an ACP agent; the native runtime is none.
fn command(given: &Given<'_>, arguments: &[&str]) -> Result<Command> {
    let work = given.home.join("work");
    std::fs::create_dir_all(&work)?;
    let mut command = Command::new(given.program);
    command
        .args(arguments)
        .current_dir(&work)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", given.home)
        .env("COPILOT_HOME", given.home)
        .env("LODGE_HOME", given.home.join("lodge"))
        .env("COPILOT_PROVIDER_BASE_URL", given.url)
        .env("COPILOT_PROVIDER_TYPE", "openai")
        .env("COPILOT_PROVIDER_API_KEY", "k")
        .env("COPILOT_MODEL", "m")
        .env("COPILOT_AUTO_UPDATE", "false");
    Ok(command)
}

impl Agent {
    fn start(given: &Given<'_>, arguments: &[&str]) -> Result<Self> {
        let mut child = command(given, arguments)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take().context("piped above")?;
        let stdout = BufReader::new(child.stdout.take().context("piped above")?);
        let mut agent = Self {
            child,
            stdin,
            stdout,
            next: 0,
        };
        agent.call("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
        Ok(agent)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        writeln!(self.stdin, "{request}")?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.stdout.read_line(&mut line)? == 0 {
                bail!("the agent ended before it answered `{method}`");
            }
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] != self.next || message.get("method").is_some() {
                continue;
            }
            return match message.get("error") {
                Some(error) => bail!("`{method}`: {error}"),
                None => Ok(message["result"].clone()),
            };
        }
    }
}

/// From nothing to initialized, then turns with the instant model. Lodge is measured beside a running host, as an editor finds
/// it, and once without.
pub(super) fn measure(given: &Given<'_>) -> Result<Numbers> {
    let is_lodge = given.program.file_name() == Path::new("lodge").file_name();
    let arguments: &[&str] = if is_lodge { &["acp"] } else { &["--acp"] };
    let (mut agent, first) = timed(|| Agent::start(given, arguments))?;
    let mut starts = Vec::new();
    for _ in 0..given.times(20) {
        starts.push(timed(|| Agent::start(given, arguments))?.1);
    }
    let place = json!({ "cwd": given.home.join("work"), "mcpServers": [] });
    let session = agent.call("session/new", &place)?["sessionId"].clone();
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "bench:say" }] });
    let mut turns = Vec::new();
    for _ in 0..given.times(50) {
        turns.push(timed(|| agent.call("session/prompt", &prompt))?.1);
    }
    drop(agent);
    if is_lodge {
        command(given, &["serve", "--stop"])?.output()?;
    }
    Ok(vec![
        ("acp_first_start_to_initialized_ms", first),
        ("acp_start_to_initialized_ms", median(starts)),
        ("acp_turn_ms", median(turns)),
    ])
}
