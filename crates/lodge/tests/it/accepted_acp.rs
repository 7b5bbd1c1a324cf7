//! SIGKILL as soon as an editor sees that what it said or set was taken up: it is there afterwards, and once.
//!
//! `LODGE_ACCEPTED_ROUNDS` sets how many kills.

use serde_json::{Value, json};
use testkit::{Home, events};

use crate::{
    accepted::rounds,
    acp::{Editor, host, log_of, selected},
};

/// What an editor sees last before the host is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Last {
    /// The first words of an answer.
    Message,
    /// The same to a second message.
    NextMessage,
    Mode,
    Approval,
    /// That a call goes on which it allowed.
    Answer,
    /// That a call is over which it did not allow.
    Refusal,
}

const ALL: [Last; 6] = [
    Last::Message,
    Last::NextMessage,
    Last::Mode,
    Last::Approval,
    Last::Answer,
    Last::Refusal,
];

const LONG: &str = "slowly 20 ms, stream 500 chunks";
const CALL: &str = r#"call bash {"command":"echo ran >> ran"} then say done"#;

/// Says and sets things until the editor sees that the last of them was taken up. What was said.
fn act(editor: &mut Editor, session: &str, last: Last) -> Vec<&'static str> {
    let answers = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    match last {
        Last::Message => {
            editor.prompt(session, LONG);
            editor.until("an answer", answers);
            vec![LONG]
        }
        Last::NextMessage => {
            assert_eq!(editor.stops(session, "say first"), "end_turn");
            editor.updates.clear();
            editor.prompt(session, LONG);
            editor.until("an answer", answers);
            vec!["say first", LONG]
        }
        Last::Mode => {
            editor.call("session/set_mode", json!({ "sessionId": session, "modeId": "plan" }));
            Vec::new()
        }
        Last::Approval => {
            let all = json!({ "sessionId": session, "configId": "approval", "value": "all" });
            editor.call("session/set_config_option", all);
            Vec::new()
        }
        Last::Answer | Last::Refusal => {
            editor.prompt(session, CALL);
            let asked = editor.question("session/request_permission");
            let (option, seen): (_, &[&str]) = match last {
                Last::Answer => ("allow-once", &["in_progress", "completed", "failed"]),
                _ => ("deny", &["completed", "failed"]),
            };
            editor.updates.clear();
            editor.answer(&asked, selected(option));
            editor.until("the call", |update| {
                update["sessionUpdate"] == "tool_call_update" && seen.iter().any(|status| update["status"] == *status)
            });
            vec![CALL]
        }
    }
}

#[test]
fn what_an_editor_saw_taken_up_is_there_once_after_kill_9() {
    let rounds = rounds(12);
    for round in 0..rounds {
        let last = ALL[round % ALL.len()];
        println!("round {round}: {last:?}");
        let home = Home::new();
        let mut running = host(&home);
        let mut editor = Editor::ready(&home);
        let session = editor.new_session();
        let said = act(&mut editor, &session, last);
        // First, so that it starts no host of its own.
        editor.running.kill();
        running.kill();
        running.finish();
        let mut running = host(&home);
        let mut editor = Editor::ready(&home);
        let open = json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] });
        let loaded = editor.call("session/load", open);
        let mode = if last == Last::Mode { "plan" } else { "interactive" };
        assert_eq!(loaded["modes"]["currentModeId"], mode, "{last:?}");
        let options = loaded["configOptions"].as_array().unwrap().iter();
        let approval: Vec<&Value> = options
            .filter(|option| option["id"] == "approval")
            .map(|option| &option["currentValue"])
            .collect();
        assert_eq!(approval == [&json!("all")], last == Last::Approval, "{loaded}");
        let log = log_of(&home, &session);
        let messages = events::of_kind(&log, "user.message");
        let found: Vec<&str> = messages
            .iter()
            .filter_map(|event| event["data"]["content"].as_str())
            .collect();
        assert_eq!(found, said, "{last:?}");
        let answered = usize::from(matches!(last, Last::Answer | Last::Refusal));
        assert_eq!(events::of_kind(&log, "lodge.answered").len(), answered, "{last:?}");
        let ran = std::fs::read_to_string(home.work().join("ran")).unwrap_or_default();
        assert!(ran.lines().count() <= usize::from(last == Last::Answer), "{ran}");
        running.kill();
        running.finish();
        editor.running.kill();
    }
}
