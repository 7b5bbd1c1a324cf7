use std::time::Instant;

use serde_json::json;

use super::*;

fn hooks(files: &[(&str, &str)]) -> (tempfile::TempDir, FileHooks) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let mut hooks = FileHooks::default();
    hooks.read_own(dir.path(), dir.path());
    (dir, hooks)
}

fn one(entry: &str) -> (tempfile::TempDir, FileHook) {
    let (dir, hooks) = hooks(&[("a.json", &format!(r#"{{"version":1,"hooks":{{{entry}}}}}"#))]);
    assert_eq!(hooks.problems, Vec::<String>::new(), "{entry}");
    let hook = hooks.hooks[0].clone();
    (dir, hook)
}

#[test]
fn what_is_wrong_is_told_and_the_rest_is_in_force() {
    for (text, count, problem) in [
        (
            r#"{"version":1,"hooks":{"preToolUse":[{"type":"command","bash":"true"}]}}"#,
            1,
            None,
        ),
        (r#"{"hooks":{"PreToolUse":[{"command":"true","timeout":5}]}}"#, 1, None),
        (r#"{"version":1,"hooks":{"preToolUse":[{"powershell":"x"}]}}"#, 0, None),
        (
            r#"{"hooks":{"PreToolUse":[{"matcher":"bash","hooks":[{"type":"command","command":"true"},{"command":"true"}]}]}}"#,
            2,
            None,
        ),
        (
            r#"{"hooks":{"PreToolUse":[{"matcher":"bash","hooks":[{"type":"prompt"},{"command":"true"}]}]}}"#,
            1,
            Some("prompt"),
        ),
        (
            r#"{"version":1,"disableAllHooks":true,"hooks":{"preToolUse":[{"bash":"true"}]}}"#,
            0,
            None,
        ),
        ("{", 0, Some("EOF")),
        (r#"{"version":2}"#, 0, Some("version 2")),
        (
            r#"{"hooks":{"preTool":[{"bash":"true"}],"agentStop":[{"bash":"true"}]}}"#,
            1,
            Some("preTool"),
        ),
        (
            r#"{"hooks":{"agentStop":[{"type":"prompt","prompt":"x"},{"bash":"true"}]}}"#,
            1,
            Some("prompt"),
        ),
        (
            r#"{"hooks":{"agentStop":[{"type":"command"}]}}"#,
            0,
            Some("missing command"),
        ),
        (
            r#"{"hooks":{"agentStop":[{"bash":"true","timeoutSec":0}]}}"#,
            0,
            Some("time limit"),
        ),
        (
            r#"{"hooks":{"agentStop":[{"bash":"true","timeoutSec":-1}]}}"#,
            0,
            Some("time limit"),
        ),
        (
            r#"{"hooks":{"agentStop":[{"bash":"true","matcher":"("}]}}"#,
            0,
            Some("regular expression"),
        ),
        (r#"{"hooks":{"agentStop":[{"bash":5}]}}"#, 0, Some("string")),
        (r#"{"hooks":[]}"#, 0, Some("map")),
    ] {
        let (_dir, hooks) = hooks(&[("a.json", text), ("b.txt", "{")]);
        assert_eq!(hooks.len(), count, "{text}");
        match problem {
            None => assert!(hooks.problems.is_empty(), "{text}: {:?}", hooks.problems),
            Some(part) => assert!(hooks.problems[0].contains(part), "{text}: {:?}", hooks.problems),
        }
    }
}

#[test]
fn hooks_are_found_by_event_and_by_what_they_match() {
    let text =
        r#"{"hooks":{"preToolUse":[{"bash":"1","matcher":"bash|view"},{"bash":"2"}],"agentStop":[{"bash":"3"}]}}"#;
    let (_dir, hooks) = hooks(&[("a.json", text)]);
    for (event, tool, expected) in [
        ("preToolUse", Some("bash"), vec!["1", "2"]),
        ("preToolUse", Some("write_bash"), vec!["2"]),
        ("agentStop", None, vec!["3"]),
        ("sessionEnd", None, vec![]),
    ] {
        let found = hooks.of(event, &json!({"toolName": tool}));
        let commands: Vec<_> = found.iter().map(|hook| hook.command.as_str()).collect();
        assert_eq!(commands, expected, "{event} {tool:?}");
    }
}

#[tokio::test]
async fn what_a_hook_prints_and_how_it_ends_is_its_output() {
    let deny = |reason: &str| {
        Ok(Some(
            json!({"permissionDecision": "deny", "permissionDecisionReason": reason}),
        ))
    };
    for (entry, expected) in [
        (
            r#""preToolUse":[{"bash":"echo '{\"permissionDecision\":\"allow\"}'"}]"#,
            Ok(Some(json!({"permissionDecision": "allow"}))),
        ),
        (r#""preToolUse":[{"bash":"echo not json"}]"#, Ok(None)),
        (r#""preToolUse":[{"bash":"true"}]"#, Ok(None)),
        (r#""preToolUse":[{"bash":"echo no >&2; exit 2"}]"#, deny("no")),
        (
            r#""preToolUse":[{"bash":"echo broken >&2; exit 1"}]"#,
            Err("the command exited with code 1: broken"),
        ),
        (
            r#""agentStop":[{"bash":"echo go on >&2; exit 2"}]"#,
            Ok(Some(json!({"decision": "block", "reason": "go on"}))),
        ),
        (
            r#""postToolUseFailure":[{"bash":"echo try this >&2; exit 2"}]"#,
            Ok(Some(json!({"additionalContext": "try this"}))),
        ),
        (
            r#""preToolUse":[{"bash":"kill -9 $$"}]"#,
            Err("the command was killed by a signal"),
        ),
        (
            r#""PreToolUse":[{"bash":"echo '{\"hookSpecificOutput\":{\"permissionDecision\":\"deny\",\"updatedInput\":{\"a\":1}}}'"}]"#,
            Ok(Some(json!({"permissionDecision": "deny", "modifiedArgs": {"a": 1}}))),
        ),
        (
            r#""preToolUse":[{"bash":"sleep 25 & echo '{\"a\":1}'","timeoutSec":20}]"#,
            Ok(Some(json!({"a": 1}))),
        ),
        (r#""preToolUse":[{"bash":"head -c 3000000 /dev/zero"}]"#, Ok(None)),
        (
            r#""sessionStart":[{"bash":"echo \"{\\\"additionalContext\\\":\\\"$GREETING\\\"}\"","env":{"GREETING":"hello"}}]"#,
            Ok(Some(json!({"additionalContext": "hello"}))),
        ),
    ] {
        let (_dir, hook) = one(entry);
        assert_eq!(
            hook.run(&json!({}), &Environment::default()).await,
            expected.map_err(str::to_owned),
            "{entry}"
        );
    }
}

#[tokio::test]
async fn the_input_comes_in_the_words_of_the_events_name() {
    let input = json!({"sessionId": "s", "timestamp": 0, "toolName": "bash", "toolArgs": "{\"command\":\"ls\"}"});
    for (event, expected) in [
        (
            "preToolUse",
            json!({"sessionId": "s", "timestamp": 0, "toolName": "bash", "toolArgs": {"command": "ls"}}),
        ),
        (
            "PreToolUse",
            json!({
                "hook_event_name": "PreToolUse", "session_id": "s", "timestamp": "1970-01-01T00:00:00.000Z",
                "tool_name": "bash", "tool_input": {"command": "ls"},
            }),
        ),
    ] {
        let (dir, hook) = one(&format!(r#""{event}":[{{"bash":"cat > given.json"}}]"#));
        assert_eq!(hook.run(&input, &Environment::default()).await, Ok(None));
        let given: Value = serde_json::from_slice(&std::fs::read(dir.path().join("given.json")).unwrap()).unwrap();
        assert_eq!(given, expected);
    }
}

#[tokio::test]
async fn a_hook_that_hangs_is_ended_with_all_it_started() {
    let (dir, hook) = one(r#""agentStop":[{"bash":"sleep 1000 & echo $! > pid; wait","timeoutSec":0.3}]"#);
    let began = Instant::now();
    let error = hook.run(&json!({}), &Environment::default()).await.unwrap_err();
    assert!(error.contains("time limit of 0.3 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    let gone =
        || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z"));
    for _ in 0..200 {
        if gone() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the hook's process {pid} is still there");
}
