//! `cargo xtask soak neighbours`: model servers, MCP servers, editors and agents of other people, installed below `target/neighbours`, with the
//! built binary in front of them. Says what each passes.

mod acp_clients;

use std::{
    fmt::Write as _,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::sh;

/// What is installed from npm.
const NPM: [&str; 9] = [
    "@modelcontextprotocol/server-everything",
    "@modelcontextprotocol/server-filesystem",
    "@modelcontextprotocol/server-memory",
    "@modelcontextprotocol/server-sequential-thinking",
    "@copilotkit/aimock",
    "opencode-ai@1.18.33",
    "@github/copilot@1.0.102",
    "@agentclientprotocol/claude-agent-acp@0.100.0",
    acp_clients::ACPX,
];
/// What the model servers are told to answer.
pub(crate) const ANSWER: &str = "Hello from next door.";
/// How long a model server may take to listen.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was tried, and whether it went well.
#[derive(Default)]
pub(crate) struct Report {
    lines: String,
    failed: usize,
}

impl Report {
    pub(crate) fn line(&mut self, name: &str, passed: bool, what: &str) {
        let mark = if passed { "✓" } else { "✗" };
        self.failed += usize::from(!passed);
        println!("{mark} {name}: {what}");
        let _ = writeln!(self.lines, "{mark} {name}: {what}");
    }
}

/// A server that ends with this.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Installs them and tries them all.
pub(crate) fn run() -> Result<()> {
    let dir = sh::target().join("neighbours");
    std::fs::create_dir_all(&dir)?;
    sh::run(sh::cargo().args(["build", "--locked", "--package", "lodge"]))?;
    sh::run(
        sh::command("npm")
            .args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(&dir)
            .args(NPM),
    )?;
    let mut report = Report::default();
    mcp_servers(&dir, &mut report)?;
    aimock(&dir, &mut report)?;
    litellm(&dir, &mut report)?;
    crate::llama_cpp::check(&dir, &mut report)?;
    acp_clients::run(&dir, &mut report)?;
    agents(&dir, &mut report);
    println!("\n{}", report.lines);
    match report.failed {
        0 => Ok(()),
        failed => bail!("{failed} neighbours did not get on with Lodge"),
    }
}

/// Other people's agents, hosted, and a log that one of them resumes. What each does is said by the test as it goes.
fn agents(dir: &Path, report: &mut Report) {
    let hosted = "works as an agent of this host, also after a kill of either side";
    for (name, test, what) in [
        ("opencode", "opencode_is_hosted", hosted),
        ("copilot", "copilot_is_hosted", hosted),
        ("claude", "claude_is_hosted", hosted),
        (
            "copilot",
            "copilot_resumes_a_log_that_was_rewound",
            "resumes a log that was rewound, and Lodge what it wrote",
        ),
    ] {
        let test = format!("neighbours::{test}");
        let passed = sh::run(
            sh::cargo()
                .args(["test", "--locked", "--package", "lodge", "--test", "it", &test])
                .args(["--", "--ignored", "--nocapture"])
                .env("LODGE_NEIGHBOURS", dir.join("node_modules")),
        );
        report.line(name, passed.is_ok(), what);
    }
}

/// The binary on a home of its own.
pub(crate) fn lodge(home: &Path, args: &[&str]) -> Command {
    let mut command = sh::command(sh::lodge("debug"));
    command
        .current_dir(home)
        .env("LODGE_HOME", home.join("home"))
        .args(args);
    command
}

pub(crate) fn output(command: &mut Command) -> Result<(bool, String)> {
    let output = command.output().context("the binary cannot be started")?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.success(), text))
}

fn mcp_servers(dir: &Path, report: &mut Report) -> Result<()> {
    let home = tempfile::tempdir()?;
    std::fs::create_dir_all(home.path().join("home"))?;
    let bin = |name: &str| dir.join("node_modules/.bin").join(format!("mcp-server-{name}"));
    let mut config = String::new();
    for name in ["everything", "filesystem", "memory", "sequential-thinking"] {
        let command = bin(name).display().to_string();
        writeln!(config, "[mcp.servers.{name}]\ncommand = {command:?}")?;
        if name == "filesystem" {
            writeln!(config, "args = [{:?}]", home.path().display().to_string())?;
        }
    }
    std::fs::write(home.path().join("home/lodge.toml"), config)?;
    let (_, text) = output(&mut lodge(home.path(), &["mcp", "check"]))?;
    for line in text.lines().filter(|line| line.starts_with(['✓', '✗'])) {
        report.line("mcp check", line.starts_with('✓'), line);
    }
    let tries = [
        ("everything-echo", r#"{"message":"hello"}"#, "Echo: hello"),
        ("filesystem-list_allowed_directories", "{}", "Allowed directories"),
        ("memory-read_graph", "{}", "entities"),
    ];
    for (tool, arguments, expected) in tries {
        let prompt = format!("call {tool} {arguments} then say what the tool said: {{{{result}}}}");
        let (_, text) = output(&mut lodge(home.path(), &["run", "--yolo", "--json", &prompt]))?;
        report.line(tool, text.contains(expected), &format!("answers with {expected:?}"));
    }
    let prompt = "/mcp__everything__simple-prompt";
    let (done, _) = output(&mut lodge(home.path(), &["run", prompt]))?;
    report.line("everything", done, "its prompt is a command from the first message on");
    Ok(())
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Starts a model server and waits until it listens.
pub(crate) fn listening(command: &mut Command, port: u16) -> Result<Running> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let running = Running(child.context("the model server cannot be started")?);
    let end = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > end {
            bail!("the model server did not listen within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(running)
}

/// One answer, the list of models, and a model that is not there.
fn model_server(name: &str, port: u16, model: &str, report: &mut Report) -> Result<()> {
    let home = tempfile::tempdir()?;
    let with = |args: &[&str], model: &str| {
        let mut command = lodge(home.path(), args);
        command
            .env("LODGE_PROVIDER_BASE_URL", format!("http://127.0.0.1:{port}/v1"))
            .env("LODGE_MODEL", model)
            .env("LODGE_PROVIDER_API_KEY", "sk-neighbour");
        output(&mut command)
    };
    let (done, text) = with(&["run", "hello"], model)?;
    report.line(name, done && text.contains(ANSWER), "answers a message");
    let (_, text) = with(&["models"], model)?;
    report.line(name, text.contains(model), "lists its models");
    let (done, _) = with(&["run", "hello"], "no-such-model")?;
    report.line(name, !done, "a model that is not there is an error");
    Ok(())
}

fn aimock(dir: &Path, report: &mut Report) -> Result<()> {
    let port = free_port()?;
    let fixtures = dir.join("fixtures.json");
    let json = serde_json::json!({"fixtures": [
        {"match": {"userMessage": "hello", "model": "gpt-4o"}, "response": {"content": ANSWER}},
    ]});
    std::fs::write(&fixtures, json.to_string())?;
    let mut command = sh::command(dir.join("node_modules/.bin/llmock"));
    command.arg("-f").arg(&fixtures).args(["-p", &port.to_string()]);
    let _running = listening(&mut command, port)?;
    model_server("aimock", port, "gpt-4o", report)
}

fn litellm(dir: &Path, report: &mut Report) -> Result<()> {
    let python = dir.join("python");
    if !python.join("bin/litellm").exists() {
        sh::run(sh::command("python3").args(["-m", "venv"]).arg(&python))?;
        sh::run(sh::command(python.join("bin/pip")).args(["install", "--quiet", "litellm[proxy]"]))?;
    }
    let config = dir.join("litellm.yaml");
    std::fs::write(
        &config,
        format!(
            "model_list:\n  - model_name: neighbour\n    litellm_params:\n      model: openai/neighbour\n      api_key: none\n      \
             mock_response: {ANSWER}\n"
        ),
    )?;
    let port = free_port()?;
    let mut command = sh::command(python.join("bin/litellm"));
    command
        .arg("--config")
        .arg(&config)
        // It only listens to this machine.
        .env("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true")
        .args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    let _running = listening(&mut command, port)?;
    model_server("LiteLLM", port, "neighbour", report)
}
