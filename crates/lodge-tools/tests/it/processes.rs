use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::Bench;

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "Test"})
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
    ] {
        assert_eq!(bench.text("bash", bash(command)).await, expected, "{command}");
    }
    assert!(bench.streamed().starts_with("hello\nworld\nerror_msg\nok\n"));
}
