//! Nothing that a host started outlives it, however the host ends.

use std::{path::Path, time::Duration};

use serde_json::json;
use testkit::Home;

/// An MCP server that does not care for the end of its input.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) answer='{"tools":[]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
exec sleep "$1"
"#;

/// A number of seconds that no other process sleeps.
pub(crate) fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("9{:07}{number}", std::process::id())
}

/// How many processes have this word among their arguments.
pub(crate) fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let has = |path: &Path| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|argument| argument == word.as_bytes())
    };
    processes.filter(|process| has(&process.path())).count()
}

pub(crate) fn settle(what: &str, word: &str, expected: usize) {
    for _ in 0..12_000 {
        if running(word) == expected {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{} instead of {expected} processes of {what} are left", running(word));
}

/// A turn that has a shell in the background (with a descendant that left its group), an MCP server and a hook that runs.
fn busy(home: &Home, words: &[String; 3]) -> testkit::Running {
    let [shell, server, hook] = words;
    let hooks = home.path().join("hooks");
    std::fs::create_dir_all(&hooks).expect("a directory");
    let waits = json!({"version": 1, "hooks": {"postToolUse": [{"type": "command", "bash": format!("sleep {hook}"), "timeoutSec": 600}]}});
    std::fs::write(hooks.join("slow.json"), waits.to_string()).expect("a hook");
    // A file of its own: in the configuration, `$line` would be a variable to fill in.
    let program = home.path().join("server.sh");
    std::fs::write(&program, SERVER).expect("a program");
    let servers = json!({"mcpServers": {"stubborn": {"command": "sh", "args": [program, server]}}});
    std::fs::write(home.path().join("mcp-config.json"), servers.to_string()).expect("a server");
    let command = format!("setsid sleep {shell} & sleep {shell}");
    let prompt = format!(
        "call bash {}",
        json!({"command": command, "description": "Sleep", "mode": "async"})
    );
    let running = home.start(["run", "--yolo", "--json", &prompt]);
    settle("the shell", shell, 2);
    settle("the server", server, 1);
    settle("the hook", hook, 1);
    running
}

#[test]
fn kill_9_of_the_host_leaves_no_process_behind() {
    let home = Home::new();
    let words = [unique(), unique(), unique()];
    let mut host = busy(&home, &words);
    host.kill();
    for (what, word) in ["the shell", "the server", "the hook"].iter().zip(&words) {
        settle(what, word, 0);
    }
}

/// An agent that does not care for the end of its input, nor for a request to end.
const AGENT: &str = r#"
trap '' TERM HUP INT
say() { printf '%s\n' "$1"; }
read -r line; say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r line; say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read -r line
sleep "$1"
exit
"#;

#[test]
fn kill_9_of_the_host_ends_a_hosted_agent_that_does_not_listen() {
    let home = Home::new();
    let word = unique();
    crate::external::configure(&home, &[("stubborn", "/bin/sh", &["-c", AGENT, "agent", &word])]);
    let mut host = home.start(["run", "--yolo", "--json", "--model", "stubborn", "go"]);
    // The shell has the word among its arguments, too.
    settle("the agent", &word, 2);
    host.kill();
    settle("the agent", &word, 0);
}
