//! Hooks that files describe, from the person's home and from the folder a session works in.

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use lodge_events::Payload;
use lodge_host::{Capabilities, ClientCalls, HookFiles, NewSession, Trust};
use serde_json::{Value, json};

use crate::kit::{Probe, house, log_of};

fn write(dir: &Path, hooks: Value) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(
        dir.join("hooks.json"),
        json!({"version": 1, "hooks": hooks}).to_string(),
    )
    .unwrap();
}

fn command(text: impl Into<String>) -> Value {
    json!([{"type": "command", "bash": text.into(), "timeoutSec": 20}])
}

fn printing(output: &Value) -> Value {
    command(format!("cat > /dev/null; echo '{output}'"))
}

/// What hooks were invoked, and whether each succeeded.
fn invoked(probe: &Probe) -> Vec<(String, bool)> {
    let ends = probe.seen.iter().filter_map(|event| match event.payload() {
        Payload::HookEnd(end) => Some((end.hook_type.clone(), end.success)),
        _ => None,
    });
    ends.collect()
}

fn warnings(probe: &Probe) -> Vec<String> {
    let all = probe.seen.iter().filter_map(|event| match event.payload() {
        Payload::SessionWarning(warning) => Some(warning.message.clone()),
        _ => None,
    });
    all.collect()
}

#[tokio::test]
async fn every_step_calls_its_hook_and_what_it_says_counts() {
    let house = house();
    let dir = house.dir.path().join("home/hooks");
    let cwd = house.cwd();
    write(
        &dir,
        json!({
            "sessionStart": printing(&json!({"additionalContext": "say nothing of this"})),
            "userPromptSubmitted": printing(&json!({"modifiedPrompt": "call bash {\"command\":\"echo one\"} then say done"})),
            "preToolUse": printing(&json!({"modifiedArgs": {"command": "echo two"}, "permissionDecision": "allow"})),
            "postToolUse": printing(&json!({"modifiedResult": {"textResultForLlm": "three"}, "additionalContext": "four"})),
            "agentStop": command("cat > stop.json"),
            "sessionEnd": command("cat > end.json"),
        }),
    );
    let mut probe = house.session().await;
    assert_eq!(probe.turn("say hello").await, "done");
    assert_eq!(probe.results(), ["three\n\nfour"]);
    let names = [
        "sessionStart",
        "userPromptSubmitted",
        "preToolUse",
        "postToolUse",
        "agentStop",
    ];
    let expected: Vec<_> = names.map(|name| (name.to_owned(), true)).into();
    assert_eq!(invoked(&probe), expected);
    log_of(&probe.session);
    let id = probe.session.id().to_owned();
    let stop: Value = serde_json::from_slice(&std::fs::read(cwd.join("stop.json")).unwrap()).unwrap();
    assert_eq!(stop["sessionId"], id);
    assert_eq!(stop["stopReason"], "end_turn");
    assert!(Path::new(stop["transcriptPath"].as_str().unwrap()).exists());
    house.host.close(&id).await;
    let end: Value = serde_json::from_slice(&std::fs::read(cwd.join("end.json")).unwrap()).unwrap();
    assert_eq!(end["reason"], "complete");
}

#[tokio::test]
async fn a_hook_can_deny_suppress_and_make_the_agent_go_on() {
    let house = house();
    let dir = house.dir.path().join("home/hooks");
    let guard = json!([{"bash": "echo not here >&2; exit 2", "matcher": "create"}]);
    write(&dir, json!({"preToolUse": guard}));
    let mut probe = house.session().await;
    let path = house.cwd().join("a.txt");
    probe
        .turn(&format!(
            r#"call create {{"path":"{}","file_text":"x"}} then say done"#,
            path.display()
        ))
        .await;
    assert_eq!(probe.results(), ["denied: Denied by preToolUse hook: not here"]);
    assert!(!path.exists());
    write(&dir, json!({"postToolUse": printing(&json!({"suppressOutput": true}))}));
    probe.turn(r#"call bash {"command":"echo secret"} then say done"#).await;
    assert!(!probe.results()[0].contains("secret"), "{:?}", probe.results());
    let once =
        "cat > /dev/null; if mkdir once 2> /dev/null; then echo '{\"decision\":\"block\",\"reason\":\"say more\"}'; fi";
    write(&dir, json!({"agentStop": command(once)}));
    assert_eq!(probe.turn("say enough").await, "more");
}

#[tokio::test]
async fn hooks_that_fail_or_hang_hold_nothing_up() {
    let house = house();
    let dir = house.dir.path().join("home/hooks");
    write(
        &dir,
        json!({
            "userPromptSubmitted": [{"bash": "exit 7"}, {"bash": "/no/such/program"}, {"bash": "sleep 1000", "timeoutSec": 0.2}],
            "preToolUse": [{"bash": "true", "cwd": "/no/such/directory"}],
            "nonsense": [{"bash": "true"}],
        }),
    );
    let mut probe = house.session().await;
    assert_eq!(
        probe.turn(r#"call bash {"command":"true"} then say done"#).await,
        "done"
    );
    assert_eq!(invoked(&probe).iter().filter(|(_, success)| !success).count(), 4);
    assert!(warnings(&probe)[0].contains("nonsense"), "{:?}", warnings(&probe));
    assert_eq!(probe.turn("say again").await, "again");
    assert!(warnings(&probe).is_empty(), "it is told once");
}

#[tokio::test]
async fn hooks_of_a_folder_run_when_it_is_trusted() {
    let house = house();
    let cwd = house.cwd();
    write(
        &cwd.join(".github/hooks"),
        json!({"userPromptSubmitted": command("touch ran")}),
    );
    let ran = cwd.join("ran");
    let mut probe = house.session().await;
    probe.turn("say hello").await;
    assert!(!ran.exists());
    assert!(warnings(&probe)[0].contains("lodge trust"), "{:?}", warnings(&probe));
    Trust::of(house.host.home()).set(&cwd, true).unwrap();
    probe.turn("say hello").await;
    assert!(ran.exists());
    std::fs::remove_file(&ran).unwrap();
    let without = NewSession {
        hook_files: HookFiles::Off,
        ..NewSession::default()
    };
    house.session_with(without).await.turn("say hello").await;
    assert!(!ran.exists());
}

struct Allowing;

impl ClientCalls for Allowing {
    fn hook(&self, hook_type: String, _: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let output = (hook_type == "preToolUse").then(|| json!({"permissionDecision": "allow"}));
        Box::pin(std::future::ready(Ok(output)))
    }
}

#[tokio::test]
async fn what_a_file_denies_no_client_allows() {
    let house = house();
    let deny = json!({"permissionDecision": "deny", "permissionDecisionReason": "never"});
    write(
        &house.dir.path().join("home/hooks"),
        json!({"preToolUse": printing(&deny)}),
    );
    let mut probe = house.session().await;
    let can = Capabilities {
        hooks: true,
        ..Capabilities::default()
    };
    let _client = probe.attach_with(can, Vec::new(), Arc::new(Allowing)).await;
    probe.turn(r#"call bash {"command":"true"} then say done"#).await;
    assert_eq!(probe.results(), ["denied: Denied by preToolUse hook: never"]);
}

/// The person's own hooks run first; what other hooks say after them lifts no denial.
#[tokio::test]
async fn a_later_hook_cannot_lift_the_denial_of_a_permission_request() {
    let house = house();
    write(
        &house.dir.path().join("home/hooks"),
        json!({"permissionRequest": [
            {"bash": "cat > /dev/null; echo never >&2; exit 2"},
            {"bash": "cat > /dev/null; echo '{\"behavior\": \"allow\"}'"},
        ]}),
    );
    let mut probe = house.session().await;
    probe
        .turn(r#"call bash {"command":"echo made it > made.txt"} then say done"#)
        .await;
    assert_eq!(invoked(&probe), vec![("permissionRequest".to_owned(), true); 2]);
    assert!(probe.results()[0].contains("never"), "{:?}", probe.results());
    assert!(!house.cwd().join("made.txt").exists());
}

/// Plugins of other agents are asked before a person is.
#[tokio::test]
async fn hooks_answer_questions_for_permission_before_a_person_is_asked() {
    for (behaviour, expected) in [("allow", "made it"), ("deny", "not today")] {
        let house = house();
        let said = json!({"hookSpecificOutput": {
            "hookEventName": "PermissionRequest", "decision": {"behavior": behaviour, "message": "not today"},
        }});
        write(
            &house.dir.path().join("home/hooks"),
            json!({"PermissionRequest": [{"matcher": "bash", "hooks": [
                {"type": "command", "command": format!("cat > asked.json; echo '{said}'")},
            ]}]}),
        );
        let mut probe = house.session().await;
        probe
            .turn(r#"call bash {"command":"echo made it > made.txt; cat made.txt"} then say done"#)
            .await;
        let results = probe.results();
        assert!(results[0].contains(expected), "{behaviour}: {results:?}");
        assert_eq!(house.cwd().join("made.txt").exists(), behaviour == "allow");
        assert!(invoked(&probe).contains(&("permissionRequest".to_owned(), true)));
        assert_eq!(warnings(&probe), Vec::<String>::new());
        let asked = std::fs::read_to_string(house.cwd().join("asked.json")).unwrap();
        let asked: Value = serde_json::from_str(&asked).unwrap();
        assert_eq!(asked["hook_event_name"], "PermissionRequest");
        assert_eq!(asked["tool_name"], "bash");
        assert!(asked["tool_input"]["command"].as_str().unwrap().contains("made.txt"));
    }
}
