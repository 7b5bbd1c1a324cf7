//! Commands that nobody approved, and what approved ones cannot see, through the built binary.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use testkit::{Finished, Home, Running, events};

/// Events of tools and of permission, in order.
fn steps(events: &[Value]) -> Vec<&str> {
    let mut steps = events::kinds(events);
    steps.retain(|kind| kind.starts_with("tool.execution") || kind.starts_with("permission."));
    steps
}

fn result(events: &[Value]) -> &Value {
    &events::of_kind(events, "tool.execution_complete")[0]["data"]
}

fn has_jail() -> bool {
    let has = lodge_tools::sandbox::can_jail();
    if !has {
        testkit::skip("there is no jail here");
    }
    has
}

/// A program of that name that comes before the machine's own.
fn shadow(home: &Home, name: &str, script: &str) -> String {
    let bin = home.work().join("bin");
    fs::create_dir_all(&bin).unwrap();
    testkit::write_programs(&bin, &[name], &format!("#!/bin/bash\n{script}\n"));
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

fn finish(command: &mut Command) -> Finished {
    Running::start(command).finish()
}

#[test]
fn an_unasked_command_begins_and_ends_without_a_question() {
    // The second prints more than is held back.
    for (command, expected) in [("ls", "a.txt"), ("cat many.txt", "line 19999")] {
        let home = Home::new();
        fs::write(home.work().join("a.txt"), "hello").unwrap();
        let many: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        fs::write(home.work().join("many.txt"), many).unwrap();
        let prompt = format!(r#"call bash {{"command":"{command}","description":"Look"}}"#);
        let done = home.run(["run", "--json", &prompt]).ok().events();
        let steps = steps(&done);
        assert_eq!(steps.first(), Some(&"tool.execution_start"), "{steps:?}");
        assert_eq!(steps.last(), Some(&"tool.execution_complete"), "{steps:?}");
        assert!(
            steps[1..steps.len() - 1]
                .iter()
                .all(|step| ["tool.shell_output", "tool.execution_partial_result"].contains(step))
        );
        let shown = events::of_kind(&done, "tool.execution_partial_result");
        let shown: String = shown
            .iter()
            .filter_map(|part| part["data"]["partialOutput"].as_str())
            .collect();
        assert!(shown.contains(expected), "{command}");
        assert_eq!(result(&done)["success"], true);
    }
}

#[test]
fn a_reader_that_writes_becomes_a_question_and_writes_nothing() {
    if !has_jail() {
        return;
    }
    for config in ["", "sandbox = \"off\""] {
        let home = Home::new();
        fs::create_dir_all(home.path()).unwrap();
        fs::write(home.path().join("lodge.toml"), config).unwrap();
        let path = shadow(&home, "ls", "echo pwned > pwned.txt");
        let prompt = r#"call bash {"command":"ls","description":"Look"}"#;
        let done = finish(home.command(["run", "--json", prompt]).env("PATH", path));
        let events = done.events();
        assert!(!home.work().join("pwned.txt").exists(), "{config}: {done:#?}");
        // Nobody is there to be asked, so it is denied; and it has not begun before that.
        let expected = [
            "permission.requested",
            "permission.completed",
            "tool.execution_start",
            "tool.execution_complete",
        ];
        assert_eq!(steps(&events), expected, "{config}");
        assert_eq!(result(&events)["success"], false, "{config}");
        let text = result(&events).to_string();
        assert!(!text.contains("pwned.txt"), "the first try is not seen: {text}");
    }
}

#[test]
fn what_the_jail_refused_runs_once_a_person_said_yes() {
    if !has_jail() {
        return;
    }
    let home = Home::new();
    let path = shadow(&home, "ls", "echo once >> done.txt");
    let mut host = Running::start(&mut home.command(["--port", "0", "--sdk-port", "0"]));
    host.line_with("Ctrl-C stops");
    // Programs of a session are found as in the terminal that began it.
    let mut attach = home.command(["attach", "--new"]);
    let mut person = Running::start(attach.env("PATH", path).stdin(std::process::Stdio::piped()));
    for times in 1..=2 {
        person.say(r#"call bash {"command":"ls","description":"Look"} then say finished"#);
        // The second time it is asked at once, because the program is known to need it.
        person.line_with("? Run this command?");
        let done = fs::read_to_string(home.work().join("done.txt")).unwrap_or_default();
        assert_eq!(done, "once\n".repeat(times - 1), "not before the answer");
        person.say("y");
        person.line_with("finished");
        let done = fs::read_to_string(home.work().join("done.txt")).unwrap_or_default();
        assert_eq!(done, "once\n".repeat(times), "once for each yes");
    }
    let _ = person.finish().ok();
    host.kill();
}

#[test]
fn plan_mode_holds_readers_to_reading() {
    if !has_jail() {
        return;
    }
    let home = Home::new();
    let path = shadow(&home, "ls", "echo pwned > pwned.txt");
    let prompt = r#"call bash {"command":"ls","description":"Look"}"#;
    let done = finish(
        home.command(["run", "--json", "--mode", "plan", "--yolo", prompt])
            .env("PATH", path),
    );
    assert!(!home.work().join("pwned.txt").exists(), "{done:#?}");
    let events = done.events();
    assert!(result(&events).to_string().contains("Plan mode"), "{done:#?}");
}

/// What a command said that was approved, on a host that knows secrets.
fn approved(home: &Home, command: &str) -> String {
    let prompt = format!(
        "call bash {}",
        serde_json::json!({"command": command, "description": "Look"})
    );
    let mut host = home.command(["run", "--json", "--yolo", &prompt]);
    host.env("LODGE_PROVIDER_API_KEY", "CANARY-1")
        .env("MY_OWN_KEY", "CANARY-2");
    let done = finish(&mut host).ok().events();
    result(&done)["result"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn approved_commands_see_no_secrets_of_the_host() {
    if !lodge_tools::sandbox::available() {
        return testkit::skip("there is no sandbox here");
    }
    let home = Home::new();
    let other = home.path().join("session-state/other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("events.jsonl"), "CANARY-3").unwrap();
    fs::write(home.path().join("host.json"), "CANARY-4").unwrap();
    let config = r#"
# CANARY-5
default_model = "rehearsal"
[[provider]]
name = "mine"
base_url = "http://127.0.0.1:9/v1"
api_key_env = "MY_OWN_KEY"
"#;
    fs::write(home.path().join("lodge.toml"), config).unwrap();
    std::os::unix::fs::symlink(home.path(), home.work().join("way")).unwrap();
    let shown = |path: &Path| path.display().to_string();
    let lodge = shown(&home.path());
    for command in [
        "env".to_owned(),
        "cat /proc/$PPID/environ".to_owned(),
        "grep -las CANARY- /proc/[0-9]*/environ; cat /proc/[0-9]*/environ".to_owned(),
        format!("cat {lodge}/host.json"),
        format!("cat {lodge}/lodge.toml"),
        format!("cat {lodge}/session-state/other/events.jsonl"),
        format!("grep -rs CANARY {lodge}"),
        "cat way/host.json".to_owned(),
        "cd .. && cat home/host.json".to_owned(),
        format!("cp -r {lodge} copy; cat copy/*"),
        format!("mv {lodge}/host.json stolen; ln {lodge}/host.json linked; cat stolen linked"),
        format!("bash -c 'python3 -c \"print(open(\\\"{lodge}/host.json\\\").read())\"'"),
    ] {
        let said = approved(&home, &command);
        assert!(!said.contains("CANARY-"), "{command}: {said}");
    }
    assert_eq!(fs::read_to_string(home.path().join("host.json")).unwrap(), "CANARY-4");
    // What is the command's own business goes on as ever.
    let own = "echo x > a.txt && cat a.txt && t=$(mktemp) && echo y > $t && cat $t && mkdir -p b/c && ls -d b/c && head -1 /etc/passwd";
    let said = approved(&home, own);
    assert!(said.contains("exit code 0") && said.contains("b/c"), "{said}");
}

/// Signals that a process ignores or blocks, as its `/proc/self/status` says.
fn withheld(status: &str) -> Vec<u64> {
    let mut lines = status.lines().filter_map(|line| {
        let mask = line.strip_prefix("SigIgn:").or_else(|| line.strip_prefix("SigBlk:"))?;
        // Those above 31 are the C library's own.
        Some(u64::from_str_radix(mask.trim(), 16).unwrap() & 0x7fff_ffff)
    });
    let found: Vec<u64> = lines.by_ref().collect();
    assert_eq!(found.len(), 2, "{status}");
    found
}

/// The agent's commands, hooks and MCP servers of a host that ignores and blocks signals: as it is when a script starts it in the
/// background, or a program that forgot its own mask.
#[test]
fn children_of_a_host_begin_with_default_signals_and_an_empty_mask() {
    let home = Home::new();
    let look = "grep -E '^Sig(Ign|Blk):' /proc/self/status";
    let work = home.work();
    fs::create_dir_all(home.path().join("hooks")).unwrap();
    let hook = serde_json::json!({ "version": 1, "hooks": { "sessionStart": [
        { "bash": format!("{look} > {}/hook", work.display()) },
    ] } });
    fs::write(home.path().join("hooks/look.json"), hook.to_string()).unwrap();
    let servers = serde_json::json!({ "mcpServers": { "looks": {
        "command": "sh", "args": ["-c", format!("{look} > {}/server", work.display())], "tools": ["*"],
    } } });
    fs::write(home.path().join("mcp-config.json"), servers.to_string()).unwrap();
    let prompt = serde_json::json!({ "command": look, "description": "Look" });
    let like = home.command(["run", "--json", "--yolo", &format!("call bash {prompt}")]);
    let mut script = Command::new("bash");
    script
        .args([
            "-c",
            "trap '' INT QUIT HUP; env --block-signal=USR1,USR2,WINCH \"$@\" & wait $!",
            "bash",
        ])
        .arg(like.get_program())
        .args(like.get_args())
        .current_dir(&work)
        .env_clear()
        .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = finish(&mut script).ok().events();
    let command = result(&done)["result"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let file = |name: &str| fs::read_to_string(work.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    for (child, status) in [("command", command), ("hook", file("hook")), ("server", file("server"))] {
        assert_eq!(withheld(&status), [0, 0], "{child}: {status}");
    }
}
