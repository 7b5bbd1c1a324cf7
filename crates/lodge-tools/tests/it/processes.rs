use std::{sync::Arc, time::Duration};

use lodge_tools::{SessionTools, ToolUpdate};
use serde_json::{Value, json};

use crate::bench::Bench;

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "Test"})
}

/// A number of seconds to sleep that no other process has in its arguments.
fn unique_sleep() -> String {
    format!("9{}", uuid::Uuid::new_v4().as_u128() % 1_000_000_000)
}

/// How many processes have this word among their arguments.
fn running(word: &str) -> usize {
    let arguments = |pid: std::fs::DirEntry| std::fs::read(pid.path().join("cmdline")).unwrap_or_default();
    let has = |line: Vec<u8>| line.split(|b| *b == 0).any(|argument| argument == word.as_bytes());
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .map(arguments)
        .filter(|line| has(line.clone()))
        .count()
}

/// Waits until as many processes run as should.
async fn settle(word: &str, count: usize) {
    for _ in 0..500 {
        if running(word) == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} processes instead of {count}", running(word));
}

#[tokio::test]
async fn bash_tells_output_and_exit_code() {
    let bench = Bench::new();
    for (command, expected) in [
        ("echo hello && echo world", "hello\nworld\n<exited with exit code 0>"),
        (
            "echo error_msg >&2; echo ok",
            "error_msg\nok\n<exited with exit code 0>",
        ),
        ("printf no-newline", "no-newline\n<exited with exit code 0>"),
        ("true", "<exited with exit code 0>"),
        ("exit 7", "<exited with exit code 7>"),
        ("kill -9 $$", "<exited with exit code 137>"),
        ("pwd", "$W\n<exited with exit code 0>"),
        ("cat; echo $TERM", "dumb\n<exited with exit code 0>"),
        (
            "printf '\\033[31mred\\033[0m\\007\\377\\r\\nend'",
            "red\u{fffd}\nend\n<exited with exit code 0>",
        ),
        (
            "echo a\n# comment\nfor i in 1 2; do echo $i; done",
            "a\n1\n2\n<exited with exit code 0>",
        ),
        (
            "nonsense-program",
            "bash: line 1: nonsense-program: command not found\n<exited with exit code 127>",
        ),
        (
            "echo $LODGE_TEST_TOKEN$COPILOT_SDK_AUTH_TOKEN",
            "\n<exited with exit code 0>",
        ),
    ] {
        let text = bench
            .text("bash", bash(command))
            .await
            .replace("/bin/bash", "bash")
            .replace("/usr/bash", "bash");
        assert_eq!(text, expected, "{command}");
    }
    assert!(bench.streamed().starts_with("hello\nworld\nerror_msg\nok\n"));
    let block = &bench.call("bash", bash("exit 3")).await.unwrap().contents[0];
    let cwd = bench.work().display().to_string();
    assert_eq!(
        serde_json::to_value(block).unwrap(),
        json!({"type": "terminal", "text": "", "exitCode": 3, "cwd": cwd})
    );
    assert_eq!(
        bench.text("list_bash", json!({})).await,
        "No shells.",
        "what has ended is forgotten"
    );
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_error() {
    let bench = Bench::new();
    std::fs::remove_dir(bench.work()).unwrap();
    let text = bench.text("bash", bash("true")).await;
    assert_eq!(
        text,
        "ERROR: Could not start a shell in $W: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn a_slow_command_goes_on_in_the_background() {
    let bench = Bench::new();
    let command = "echo a; while [ ! -e go ]; do sleep 0.01; done; echo b; exit 4";
    let text = bench
        .text(
            "bash",
            json!({"command": command, "description": "x", "initial_wait": 0.3}),
        )
        .await;
    assert_eq!(
        text,
        "a\n<command with shellId: 0 is still running after 0.3 seconds. Use read_bash to wait for more output or stop_bash to end it.>"
    );
    assert_eq!(
        bench.text("list_bash", json!({})).await,
        format!("shellId: 0 (running)\n  {command}")
    );
    bench.file("go", "");
    assert_eq!(
        bench.text("read_bash", json!({"shellId": "0", "delay": 30})).await,
        "b\n<shellId: 0 completed with exit code 4>"
    );
    assert_eq!(
        bench.text("read_bash", json!({"shellId": "0", "delay": 0})).await,
        "<shellId: 0 completed with exit code 4>"
    );
    let text = bench.text("read_bash", json!({"shellId": "7", "delay": 0})).await;
    assert_eq!(
        text,
        "ERROR: There is no shell with shellId 7. Use list_bash to see the shells."
    );
}

#[tokio::test]
async fn a_background_shell_can_be_written_to_and_stopped() {
    let bench = Bench::new();
    let start = |command: &str| json!({"command": command, "description": "x", "mode": "async", "shellId": "mine"});
    assert_eq!(
        bench.text("bash", start("cat")).await,
        "<command started in background with shellId: mine>"
    );
    let text = bench.text("bash", start("cat")).await;
    assert_eq!(
        text,
        "ERROR: Shell mine is running a command. Use another shellId or stop it first."
    );
    let text = bench
        .text(
            "write_bash",
            json!({"shellId": "mine", "input": "grüße{enter}", "delay": 0.3}),
        )
        .await;
    assert!(
        text.starts_with("grüße\n<command with shellId: mine is still running after "),
        "{text}"
    );
    let text = bench
        .text(
            "write_bash",
            json!({"shellId": "mine", "input": "end{ctrl+d}", "delay": 30}),
        )
        .await;
    assert_eq!(text, "end\n<shellId: mine completed with exit code 0>");

    let word = unique_sleep();
    bench
        .text(
            "bash",
            start(&format!("trap 'echo caught; exit 9' INT; sleep {word} & wait")),
        )
        .await;
    // A signal that comes before the trap is set is not caught: the shell gets time to begin its sleep.
    settle(&word, 1).await;
    let text = bench
        .text(
            "write_bash",
            json!({"shellId": "mine", "input": "{ctrl+c}", "delay": 30}),
        )
        .await;
    assert_eq!(text, "caught\n<shellId: mine completed with exit code 9>");

    bench.text("bash", start(&format!("echo x; sleep {word}"))).await;
    let text = bench.text("stop_bash", json!({"shellId": "mine"})).await;
    assert_eq!(text, "<command with shellId: mine stopped>");
    settle(&word, 0).await;
    let text = bench
        .text("write_bash", json!({"shellId": "mine", "input": "x", "delay": 0}))
        .await;
    assert!(text.starts_with("ERROR: There is no shell"), "{text}");
}

/// Children, grandchildren, a session of its own, and one without environment.
fn family(word: &str) -> String {
    format!("sleep {word} & bash -c 'sleep {word} & sleep {word}' & setsid sleep {word} & env -i sleep {word} & wait")
}

#[tokio::test]
async fn everything_dies_with_a_dropped_call() {
    let bench = Bench::new();
    let word = unique_sleep();
    let (tool, cx, command) = (Bench::tool("bash"), bench.cx("call"), bash(&family(&word)));
    let call = tokio::spawn(async move { tool.run(command, cx).await.map(|_| ()) });
    settle(&word, 5).await;
    call.abort();
    settle(&word, 0).await;
}

#[tokio::test]
async fn everything_dies_with_a_cancelled_turn() {
    let bench = Bench::new();
    let word = unique_sleep();
    let (text, ()) = tokio::join!(bench.text("bash", bash(&family(&word))), async {
        settle(&word, 5).await;
        bench.cancel.cancel();
    });
    assert_eq!(
        text,
        "ERROR: The execution of this tool, or a previous tool was interrupted."
    );
    settle(&word, 0).await;
}

#[tokio::test]
async fn everything_dies_with_the_session_also_what_was_left_behind() {
    let mut bench = Bench::new();
    let word = unique_sleep();
    // The shell ends at once, its children do not.
    let text = bench
        .text(
            "bash",
            bash(&format!(
                "(setsid sleep {word} >/dev/null 2>&1 &) ; sleep {word} & echo left"
            )),
        )
        .await;
    assert_eq!(text, "left\n<exited with exit code 0>");
    bench
        .text(
            "bash",
            json!({"command": family(&word), "description": "x", "mode": "async"}),
        )
        .await;
    settle(&word, 7).await;
    bench.state.shutdown();
    settle(&word, 0).await;
    assert_eq!(bench.text("bash", bash("true")).await, "ERROR: The session has ended.");

    bench.state = Arc::new(SessionTools::new(bench.dir.path().join("other")));
    bench
        .text(
            "bash",
            json!({"command": family(&word), "description": "x", "mode": "async"}),
        )
        .await;
    settle(&word, 5).await;
    bench.state = Arc::new(SessionTools::new(bench.dir.path().join("third")));
    settle(&word, 0).await;
}

#[tokio::test]
async fn processes_of_living_hosts_are_not_swept() {
    let bench = Bench::new();
    let word = unique_sleep();
    bench
        .text(
            "bash",
            json!({"command": format!("sleep {word}"), "description": "x", "mode": "async"}),
        )
        .await;
    settle(&word, 1).await;
    // One whose host is gone: number 0 was never a process.
    let space: String = std::fs::read_link("/proc/self/ns/pid")
        .unwrap()
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let mut orphan = std::process::Command::new("sleep")
        .arg("3600")
        .env("LODGE_SHELL", format!("{space}.0.1.x.0"))
        .spawn()
        .unwrap();
    assert!(lodge_tools::sweep_orphans() >= 1);
    assert!(!orphan.wait().unwrap().success());
    assert_eq!(running(&word), 1);
}

#[tokio::test]
async fn large_output_is_kept_in_a_file_and_little_of_it_is_streamed() {
    let bench = Bench::new();
    let output = bench
        .call("bash", bash("head -c 3000000 /dev/zero | tr '\\0' 'x'; exit 5"))
        .await
        .unwrap()
        .content;
    let shown = bench.shown(&output);
    assert!(
        shown.starts_with("Output too large to read at once (2929.7 KB). Saved to: $B/session/temp/"),
        "{shown:.200}"
    );
    assert!(shown.ends_with("x\n<exited with exit code 5>"), "{shown:.200}");
    let path = output.split_once("Saved to: ").unwrap().1.lines().next().unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().len(), 3_000_000);
    let streamed = bench.streamed().len();
    assert!((1 << 20..(1 << 20) + (64 << 10)).contains(&streamed), "{streamed}");
    let updates = bench.updates.lock().unwrap();
    assert!(matches!(updates.last(), Some(ToolUpdate::Progress(_))));
}

#[tokio::test]
async fn many_calls_leave_no_file_open() {
    let bench = Bench::new();
    let open = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(bench.dir.path())))
            .count()
    };
    for _ in 0..20 {
        bench.text("bash", bash("echo x > f; cat f")).await;
        bench.text("view", json!({"path": "f"})).await;
        bench.text("grep", json!({"pattern": "x"})).await;
        bench
            .text("edit", json!({"path": "f", "old_str": "x", "new_str": "y"}))
            .await;
    }
    assert_eq!(open(), 0);
}

#[tokio::test]
async fn too_many_shells_are_refused() {
    let bench = Bench::new();
    let start = json!({"command": "sleep 1000", "description": "x", "mode": "async", "initial_wait": 0});
    for _ in 0..32 {
        bench.call("bash", start.clone()).await.unwrap();
    }
    let text = bench.text("bash", start).await;
    assert_eq!(
        text,
        "ERROR: 32 shells are already running. Stop one with stop_bash first."
    );
}

#[tokio::test]
async fn a_sandboxed_command_starts_through_the_launcher() {
    let mut bench = Bench::new();
    let exe = bench.dir.path().join("launcher");
    let script = "#!/bin/sh\necho \"$1 $2 $3\"\nshift 3\nexec \"$@\"\n";
    testkit::write_programs(bench.dir.path(), &["launcher"], script);
    let launcher = lodge_tools::sandbox::SandboxLauncher {
        exe,
        approved: true,
        network: false,
        write: vec!["/cache".into()],
        home: None,
    };
    bench.state = Arc::new(SessionTools::new(bench.dir.path().join("session")).with_sandbox(launcher));
    let text = bench.text("bash", bash("echo 'in it' > /nowhere/file")).await;
    let spec = r#"{"writable":{"write":["$W","$B/session/temp","$B/session/files","/cache"],"approved":["/nowhere/file"],"network":false}}"#;
    assert!(text.starts_with(&format!("__sandbox-exec {spec} --\n")), "{text}");
    assert!(text.ends_with("<exited with exit code 1>"), "{text}");
}
