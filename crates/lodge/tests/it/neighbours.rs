//! Agents that other people make, hosted by the built binary, with the rehearsal model behind them. They are installed by
//! `cargo xtask soak neighbours`, which names their directory in `LODGE_NEIGHBOURS`.
#![allow(clippy::print_stdout, reason = "a soak says how far it came")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use testkit::{Home, model_server::ModelServer};

use crate::{
    acp::{Editor, host, log_of},
    external::{allow_all, kinds_of, with_agent},
};

fn modules() -> PathBuf {
    PathBuf::from(std::env::var_os("LODGE_NEIGHBOURS").expect("where the agents are installed"))
}

/// What `lodge.toml` says of an agent.
fn opencode(modules: &Path, home: &Home, url: &str) -> String {
    let config = json!({
        "provider": { "rehearsal": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": url, "apiKey": "k" },
            "models": { "rehearsal": { "name": "Rehearsal", "tool_call": true } },
        } },
        "model": "rehearsal/rehearsal",
        "small_model": "rehearsal/rehearsal",
        "permission": { "bash": "ask", "edit": "ask" },
        "autoupdate": false,
        "share": "disabled",
    });
    let path = home.path().join("opencode.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let program = modules.join("opencode-linux-x64/bin/opencode");
    format!(
        "[agents.opencode]\ncommand = {program:?}\nargs = [\"acp\"]\nenv = {{ HOME = {:?}, OPENCODE_CONFIG = {path:?} }}\n",
        home.path().join("opencode-home"),
    )
}

fn copilot(modules: &Path, home: &Home, url: &str) -> String {
    let program = modules.join("@github/copilot-linux-x64/copilot");
    let own = home.path().join("copilot-home");
    format!(
        "[agents.copilot]\ncommand = {program:?}\nargs = [\"--acp\"]\nenv = {{ HOME = {own:?}, COPILOT_HOME = {own:?}, \
         COPILOT_PROVIDER_BASE_URL = {url:?}, COPILOT_PROVIDER_TYPE = \"openai\", COPILOT_PROVIDER_API_KEY = \"k\", \
         COPILOT_MODEL = \"rehearsal\", COPILOT_AUTO_UPDATE = \"false\" }}\n"
    )
}

/// Claude Code's adapter, with the server as the address of its model's provider.
fn claude(modules: &Path, home: &Home, url: &str) -> String {
    let program = modules.join("@agentclientprotocol/claude-agent-acp/dist/index.js");
    let own = home.path().join("claude-home");
    let url = url.trim_end_matches("/v1");
    format!(
        "[agents.claude]\ncommand = \"node\"\nargs = [{program:?}]\nenv = {{ HOME = {own:?}, CLAUDE_CONFIG_DIR = {own:?}, \
         ANTHROPIC_BASE_URL = {url:?}, ANTHROPIC_API_KEY = \"k\", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\" }}\n"
    )
}

/// The processes of an agent that work in this home's directory.
fn processes(home: &Home, name: &str) -> Vec<u32> {
    let work = home.work();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let here = std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == work);
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        here && String::from_utf8_lossy(&line).contains(name)
    })
    .collect()
}

fn until_gone(home: &Home, name: &str, gone: &[u32]) {
    while processes(home, name).iter().any(|pid| gone.contains(pid)) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// A prompt, a call that a person allows, a tool of an MCP server, a cancelled turn, `kill -9` of the agent and of the host, and
/// the agent as a sub-agent. `bash` is what it calls its tool for commands, and `echo` the tool `echo` of the server `everything`,
/// if it takes servers.
fn try_agent(name: &str, bash: &str, echo: Option<&str>, configure: fn(&Path, &Home, &str) -> String) {
    let modules = modules();
    let model = ModelServer::rehearsing();
    let home = Home::new();
    std::fs::create_dir_all(home.path()).unwrap();
    let server = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let config = configure(&modules, &home, &model.openai_url());
    let config = format!("{config}\n[mcp.servers.everything]\ncommand = \"node\"\nargs = [{server:?}, \"stdio\"]\n");
    std::fs::write(home.path().join("lodge.toml"), config).unwrap();
    let _ = home.run(["trust".into(), home.work()]).ok();
    let mut outer = host(&home);
    let mut editor = Editor::ready(&home);
    let session = with_agent(&mut editor, name);
    assert_eq!(editor.stops(&session, "say hello"), "end_turn");
    assert!(editor.text("agent_message_chunk").contains("hello"));
    println!("{name}: answers");
    let call = format!(r#"call {bash} {{"command":"touch made","description":"Make a file"}} then say done"#);
    let prompt = editor.prompt(&session, &call);
    let (answer, asked) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(home.work().join("made").exists());
    let asked: Vec<&Value> = asked
        .iter()
        .map(|asked| &asked["params"]["toolCall"]["title"])
        .collect();
    assert_eq!(asked, ["touch made"], "it asks for the command and nothing else");
    println!("{name}: asks before a command, and runs it");
    if let Some(echo) = echo {
        let call = format!(r#"call {echo} {{"message":"over there"}} then say done"#);
        let prompt = editor.prompt(&session, &call);
        let (answer, _) = allow_all(&mut editor, prompt);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        let log = log_of(&home, &session);
        let mut results = log.iter().filter(|event| event["type"] == "tool.execution_complete");
        let heard = results.next_back().unwrap()["data"].to_string();
        assert!(heard.contains("Echo: over there"), "{heard}");
        println!("{name}: calls a tool of the session's MCP server");
    }
    let sleep = format!(r#"call {bash} {{"command":"touch begun; sleep 100","description":"Sleep"}} then say done"#);
    let prompt = editor.prompt(&session, &sleep);
    let question = editor.question("session/request_permission");
    editor.answer(&question, crate::acp::selected("allow-once"));
    while !home.work().join("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.wait(prompt).unwrap()["stopReason"], "cancelled");
    println!("{name}: is cancelled");
    assert_eq!(editor.stops(&session, "say more"), "end_turn");
    let killed = processes(&home, name);
    assert!(!killed.is_empty(), "it runs");
    for pid in &killed {
        let pid = pid.to_string();
        let _ = std::process::Command::new("kill").args(["-9", &pid]).status();
    }
    until_gone(&home, name, &killed);
    // What died is started again, with its conversation. A message that came before the host knew of the death is not answered.
    let prompt = editor.prompt(&session, "say after the kill");
    if let Err(error) = editor.wait(prompt) {
        assert!(error.to_string().contains("The agent"), "{error}");
        assert_eq!(editor.stops(&session, "say after the kill"), "end_turn");
    }
    assert!(editor.text("agent_message_chunk").contains("after the kill"));
    let again = processes(&home, name);
    assert!(again.iter().all(|pid| !killed.contains(pid)), "{killed:?}, {again:?}");
    println!("{name}: goes on after a kill of the agent");
    outer.kill();
    outer.finish();
    drop(editor);
    until_gone(&home, name, &again);
    println!("{name}: ends with a host that is killed");
    let _host = host(&home);
    let mut editor = Editor::ready(&home);
    let cwd = editor.cwd.clone();
    editor.call(
        "session/load",
        json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }),
    );
    assert_eq!(editor.stops(&session, "say at last"), "end_turn");
    println!("{name}: goes on after a kill of the host");
    let log = log_of(&home, &session);
    let begun = kinds_of(&log).iter().filter(|kind| **kind == "lodge.program").count();
    assert_eq!(begun, 1, "it finds its conversation again");
    println!("{name}: finds its conversation again");
    let session = editor.new_session();
    editor.updates.clear();
    let task = json!({ "agent_type": "general-purpose", "name": "n", "description": "d", "model": name, "prompt": "say below" });
    let prompt = editor.prompt(&session, &format!("call task {task}"));
    let (answer, _) = allow_all(&mut editor, prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("task answered: below"), "{said}");
    println!("{name}: works as a sub-agent");
}

#[test]
#[ignore = "run by `cargo xtask soak neighbours`, which installs the agents"]
fn opencode_is_hosted() {
    try_agent("opencode", "bash", Some("everything_echo"), opencode);
}

#[test]
#[ignore = "run by `cargo xtask soak neighbours`, which installs the agents"]
fn copilot_is_hosted() {
    // It passes over the servers of `session/new` (copilot-cli #3889).
    try_agent("copilot", "bash", None, copilot);
}

#[test]
#[ignore = "run by `cargo xtask soak neighbours`, which installs the agents"]
fn claude_is_hosted() {
    // It calls tools of MCP servers, too, but repeats the message to its model after the result, so that the rehearsal begins again.
    try_agent("claude", "Bash", None, claude);
}

fn resume(modules: &Path, home: &Home, own: &Path, url: &str, id: &str, prompt: &str) -> String {
    let output = Command::new(modules.join("@github/copilot-linux-x64/copilot"))
        .args([&format!("--resume={id}"), "--allow-all-tools", "-p", prompt])
        .current_dir(home.work())
        .envs([("HOME", own), ("COPILOT_HOME", own)])
        .env("COPILOT_PROVIDER_BASE_URL", url)
        .env("COPILOT_PROVIDER_TYPE", "openai")
        .env("COPILOT_PROVIDER_API_KEY", "k")
        .env("COPILOT_MODEL", "rehearsal")
        .env("COPILOT_AUTO_UPDATE", "false")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs the Copilot CLI from npm: cargo xtask soak neighbours"]
fn copilot_resumes_a_log_that_was_rewound() {
    let modules = modules();
    let model = ModelServer::rehearsing();
    let home = Home::new();
    for prompt in ["say kept", "say open sesame"] {
        let begun = home.logs().first().map(|_| ["--resume", "last"]);
        let words = ["run"].into_iter().chain(begun.into_iter().flatten()).chain([prompt]);
        let _ = home.run(words).ok();
    }
    let log = home.logs().remove(0);
    let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let _ = home.run(["sessions", "rewind", &id]).ok();
    let _ = home.run(["run", "--resume", &id, "say went on"]).ok();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(
        !text.contains("open sesame") && !text.contains("lodge.rewound"),
        "{text}"
    );
    let own = home.path().join("copilot-home");
    let copy = own.join("session-state").join(&id);
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::copy(&log, copy.join("events.jsonl")).unwrap();
    let said = resume(&modules, &home, &own, &model.openai_url(), &id, "say back again");
    assert!(said.contains("back again"), "{said}");
    let asked = model.last_request().body.to_string();
    assert!(asked.contains("say kept") && asked.contains("say went on"), "{asked}");
    assert!(!asked.contains("open sesame"), "{asked}");
    println!("copilot: resumes a log that was rewound, and its model reads what is left");
    std::fs::copy(copy.join("events.jsonl"), &log).unwrap();
    let again = home.run(["run", "--resume", &id, "say here again"]).ok();
    assert!(again.stdout().contains("here again"), "{again:#?}");
    let shown = home.run(["sessions", "show", &id]).ok();
    let shown = shown.stdout();
    assert!(
        shown.contains("say kept") && shown.contains("say back again"),
        "{shown}"
    );
    println!("copilot: Lodge takes up what it wrote");
}
