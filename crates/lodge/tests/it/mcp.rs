//! MCP servers from the command line: one that has to be installed first, one that cannot list its tools, and a sound one.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testkit::Home;

/// `slow` installs itself until the file `go` is there.
const SERVER: &str = r#"#!/bin/sh
if [ "$1" = slow ]; then
  touch begun
  while [ ! -e go ]; do sleep 0.02; done
  touch whole
fi
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*)
      answer='"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}'
      if [ "$1" = broken ]; then answer='"error":{"code":-32000,"message":"not today"}'; fi ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

/// Each name is a server's, and what it is told to be.
fn with_servers(home: &Home, names: &[&str]) {
    let program = home.work().join("npx");
    fs::write(&program, SERVER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let server = |name: &&str| ((*name).to_owned(), json!({"command": program, "args": [name]}));
    let servers: serde_json::Map<_, _> = names.iter().map(server).collect();
    fs::create_dir_all(home.path()).unwrap();
    let config = json!({ "mcpServers": servers });
    fs::write(home.path().join("mcp-config.json"), config.to_string()).unwrap();
}

fn start(home: &Home, args: &[&str]) -> Child {
    let mut command = home.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads standard error until a line has this.
fn told(child: &mut Child, what: &str) {
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(what)), "{what} was not told");
}

fn until_there(path: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < end, "{} is missing", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_check_waits_for_an_installation_and_says_what_each_server_did() {
    let home = Home::new();
    with_servers(&home, &["slow", "broken", "good"]);
    let mut check = start(&home, &["mcp", "check"]);
    told(
        &mut check,
        "waiting for slow (a server may install itself when it first starts)",
    );
    fs::write(home.work().join("go"), "").unwrap();
    let output = check.wait_with_output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = page.lines().collect();
    lines.sort_unstable();
    let expected = [
        "✓ good answers and has 1 tool",
        "✓ slow answers and has 1 tool",
        "✗ broken: The server did not list its tools: not today",
    ];
    assert_eq!(lines, expected);
    assert_eq!(output.status.code(), Some(1));
    with_servers(&home, &["good"]);
    let sound = home.run(["mcp", "check"]).ok();
    assert_eq!(sound.lines, ["✓ good answers and has 1 tool"]);
}

#[test]
fn a_run_that_ends_leaves_no_half_installation_behind() {
    let home = Home::new();
    with_servers(&home, &["slow"]);
    let mut run = start(&home, &["run", "say hi"]);
    until_there(&home.work().join("begun"));
    kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    told(&mut run, "Waiting for MCP servers to finish installing");
    fs::write(home.work().join("go"), "").unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(home.work().join("whole").exists());
}
