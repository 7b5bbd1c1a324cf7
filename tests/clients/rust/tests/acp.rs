//! Every method of the protocol, driven by the official crate.

mod editor;

use agent_client_protocol::v1::schema::{
    AuthenticateRequest, CancelNotification, CloseSessionRequest, DeleteSessionRequest, ListSessionsRequest,
    LoadSessionRequest, McpServer, NewSessionRequest, PromptRequest, ResumeSessionRequest,
    SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason,
};
use editor::{Person, Place, edit, typed};
use serde_json::{Value, json};

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The types of a log's events. Calls side by side start and end in any order, so those of one answer are sorted.
fn kinds(log: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = log.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let is_call = |kind: &str| kind.starts_with("tool.execution_");
    for calls in kinds.chunk_by_mut(|a, b| is_call(a) && is_call(b)) {
        calls.sort_unstable();
    }
    kinds
}

#[tokio::test]
async fn a_turn_is_streamed_and_leaves_the_same_log_as_elsewhere() {
    let place = Place::new();
    edit(&place, Person::default(), async |editor| {
        for script in [
            "stream 20 chunks",
            "think about doors then say They open.",
            r#"call bash {"command":"echo out"} then say done"#,
            r#"call view {"path":"."} and glob {"pattern":"*"} then say seen"#,
            "call an unknown tool",
            r#"start an agent "say below" then say above"#,
            "fail with server error 2 times then say ok",
        ] {
            let session = editor.new_session().await;
            editor.forget();
            assert_eq!(editor.say(&session, script).await, StopReason::EndTurn, "{script}");
            let log = place.log(&session.0);
            let said = log
                .iter()
                .filter(|event| event["type"] == "assistant.message" && event.get("agentId").is_none());
            let said: String = said.filter_map(|event| event["data"]["content"].as_str()).collect();
            assert_eq!(editor.text("agent_message_chunk"), said, "{script}");
            let expected = Place::new().log_of_a_run(script).await;
            let expected = kinds(&expected);
            // A program that ends closes its session; the host keeps it.
            let expected = expected.strip_suffix(&["session.shutdown"]).unwrap_or(&expected);
            assert_eq!(kinds(&log), expected, "{script}");
        }
        assert!(!editor.told("usage_update").is_empty());
    })
    .await;
}

#[tokio::test]
async fn sessions_are_made_listed_loaded_resumed_closed_and_deleted() {
    let place = Place::new();
    edit(&place, Person::default(), async |editor| {
        let info = editor.greeting.agent_info.as_ref().unwrap();
        assert_eq!((info.name.as_str(), editor.greeting.auth_methods.len()), ("lodge", 2));
        editor
            .call(AuthenticateRequest::new("lodge-configuration"))
            .await
            .unwrap();
        let unknown = editor.call(AuthenticateRequest::new("guess")).await.unwrap_err();
        assert_eq!(i32::from(unknown.code), -32602, "{unknown:?}");
        let session = editor.new_session().await;
        editor.say(&session, "say first").await;

        let listed = editor.call(ListSessionsRequest::new().cwd(place.work())).await.unwrap();
        let ids: Vec<_> = listed.sessions.iter().map(|listed| &listed.session_id).collect();
        assert_eq!(ids, [&session]);
        editor.forget();
        let load = LoadSessionRequest::new(session.clone(), place.work());
        editor.call(load).await.unwrap();
        assert_eq!(editor.text("user_message_chunk"), "say first");
        assert_eq!(editor.text("agent_message_chunk"), "first");
        editor.forget();
        editor
            .call(ResumeSessionRequest::new(session.clone(), place.work()))
            .await
            .unwrap();
        assert_eq!(editor.text("agent_message_chunk"), "", "nothing is told twice");
        assert_eq!(editor.say(&session, "say second").await, StopReason::EndTurn);
        editor.call(CloseSessionRequest::new(session.clone())).await.unwrap();
        let closed = editor.prompt(&session, "say third").block_task().await.unwrap_err();
        assert_eq!(i32::from(closed.code), -32002, "{closed:?}");
        editor.call(DeleteSessionRequest::new(session.clone())).await.unwrap();
        let listed = editor.call(ListSessionsRequest::new()).await.unwrap();
        assert!(listed.sessions.is_empty(), "{listed:?}");
    })
    .await;
}

#[tokio::test]
async fn every_kind_of_content_is_sent_and_audio_is_refused() {
    let place = Place::new();
    std::fs::write(place.work().join("linked.txt"), "linked").unwrap();
    edit(&place, Person::default(), async |editor| {
        let session = editor.new_session().await;
        let linked = format!("file://{}/linked.txt", place.work().display());
        let prompt = json!([
            { "type": "text", "text": "say seen" },
            { "type": "image", "data": PIXEL, "mimeType": "image/png" },
            { "type": "resource_link", "name": "linked.txt", "uri": linked },
            { "type": "resource", "resource": { "uri": "file:///buffer.rs", "text": "fn main() {}" } },
            { "type": "resource", "resource": { "uri": "file:///p.png", "blob": PIXEL, "mimeType": "image/png" } },
        ]);
        let stopped = editor
            .call(PromptRequest::new(session.clone(), typed(prompt)))
            .await
            .unwrap();
        assert_eq!(stopped.stop_reason, StopReason::EndTurn);
        let log = place.log(&session.0);
        let message = log.iter().find(|event| event["type"] == "user.message").unwrap();
        let attachments = message["data"]["attachments"].as_array().unwrap();
        let attached: Vec<&Value> = attachments.iter().map(|attachment| &attachment["type"]).collect();
        assert_eq!(attached, ["blob", "file", "blob"], "{message:#}");
        let read = message["data"]["transformedContent"].as_str().unwrap();
        assert!(read.contains("fn main() {}"), "{read}");
        let audio = json!([{ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" }]);
        let refused = editor
            .call(PromptRequest::new(session.clone(), typed(audio)))
            .await
            .unwrap_err();
        assert_eq!(i32::from(refused.code), -32602, "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn tool_calls_have_kinds_files_differences_live_output_and_permissions() {
    let place = Place::new();
    let file = place.work().join("a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let person = Person {
        choices: vec!["deny", "allow-once", "allow-session"],
        ..Person::default()
    };
    edit(&place, person, async |editor| {
        let session = editor.new_session().await;
        let script = r#"call edit {"path":"a.txt","old_str":"one","new_str":"two"} then say over"#;
        assert_eq!(editor.say(&session, script).await, StopReason::EndTurn);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n", "it was denied");
        editor.forget();
        assert_eq!(editor.say(&session, script).await, StopReason::EndTurn);
        let asked = &editor.asked()[0];
        let options = asked["options"].as_array().unwrap();
        let options: Vec<&Value> = options.iter().map(|option| &option["kind"]).collect();
        assert_eq!(options, ["allow_once", "allow_always", "allow_always", "reject_once"]);
        let call = &editor.told("tool_call")[0];
        assert_eq!((&call["kind"], &call["locations"]), (&json!("edit"), &json!([{ "path": file }])));
        let difference = json!([{ "type": "diff", "path": file, "oldText": "one", "newText": "two" }]);
        let updates = editor.told("tool_call_update");
        assert!(updates.iter().any(|update| update["content"] == difference), "{updates:#?}");
        editor.forget();
        let script = r#"call bash {"command":"echo begun; touch b; while [ ! -e go ]; do sleep 0.05; done; exit 4"} then say over"#;
        let turn = editor.prompt(&session, script);
        editor
            .until("output while the command runs", |editor| {
                let updates = editor.told("tool_call_update");
                let live = updates.iter().filter(|update| update["status"] != "completed");
                live.map(|update| update["content"].to_string()).any(|content| content.contains("begun"))
            })
            .await;
        std::fs::write(place.work().join("go"), "").unwrap();
        assert_eq!(turn.block_task().await.unwrap().stop_reason, StopReason::EndTurn);
        let updates = editor.told("tool_call_update");
        let exit = json!({ "exitCode": 4 });
        assert!(updates.iter().any(|update| update["rawOutput"] == exit), "{updates:#?}");
    })
    .await;
}

#[tokio::test]
async fn modes_options_plans_forms_and_commands() {
    let place = Place::new();
    let config = r#"
default_model = "rehearsal"

[[provider]]
name = "near"
type = "openai"
base_url = "http://127.0.0.1:1"

[[model]]
id = "thinker"
provider = "near"
name = "thinker"
reasoning_efforts = ["low", "high"]
"#;
    std::fs::write(place.home().join("lodge.toml"), config).unwrap();
    let person = Person {
        choices: vec!["interactive"],
        form: json!({ "answer": "blue" }),
        ..Person::default()
    };
    edit(&place, person, async |editor| {
        let session = editor.new_session().await;
        let set = async |id: &'static str, value: &'static str| {
            let request = SetSessionConfigOptionRequest::new(session.clone(), id, value);
            let set = editor.call(request).await.unwrap();
            let options = serde_json::to_value(set.config_options).unwrap();
            let find = |id: &str| options.as_array().unwrap().iter().find(|option| option["id"] == id).cloned();
            find(id).unwrap_or_else(|| panic!("{id}: {options:#}"))["currentValue"].clone()
        };
        assert_eq!(set("model", "thinker").await, "thinker");
        assert_eq!(set("reasoning_effort", "high").await, "high");
        assert_eq!(set("model", "rehearsal").await, "rehearsal");
        assert_eq!(set("approval", "edits").await, "edits");
        editor.until("commands", |editor| !editor.told("available_commands_update").is_empty()).await;
        assert_eq!(editor.say(&session, "/usage").await, StopReason::EndTurn);
        assert_eq!(editor.say(&session, r#"ask "Which colour?" choices red, blue"#).await, StopReason::EndTurn);
        assert!(editor.text("agent_message_chunk").contains("blue"));
        let sql = r#"call sql {"query":"INSERT INTO todos (id, title, status) VALUES ('a','Look','done')","description":"plan"} then say noted"#;
        editor.say(&session, sql).await;
        let plan = editor.told("plan");
        let entries = json!([{ "content": "Look", "priority": "medium", "status": "completed" }]);
        assert_eq!(plan.last().unwrap()["entries"], entries);

        editor.call(SetSessionModeRequest::new(session.clone(), "plan")).await.unwrap();
        let script = "write the plan 1. Look. 2. Leap. then present the plan Look, then leap. then say off";
        assert_eq!(editor.say(&session, script).await, StopReason::EndTurn);
        let asked = editor.asked();
        assert_eq!(asked.last().unwrap()["toolCall"]["kind"], "switch_mode", "{asked:#?}");
        editor
            .until("the mode after the plan", |editor| {
                let modes = editor.told("current_mode_update");
                modes.last().is_some_and(|mode| mode["currentModeId"] == "interactive")
            })
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_turn_is_cancelled_by_its_session_and_by_its_request() {
    let place = Place::new();
    edit(&place, Person::default(), async |editor| {
        let session = editor.new_session().await;
        let turn = editor.prompt(&session, "say begun then wait 50 s");
        editor
            .until("it has begun", |editor| editor.text("agent_message_chunk") == "begun")
            .await;
        editor
            .agent
            .send_notification(CancelNotification::new(session.clone()))
            .unwrap();
        assert_eq!(turn.block_task().await.unwrap().stop_reason, StopReason::Cancelled);
        editor.forget();
        let turn = editor.prompt(&session, "say again then wait 50 s");
        let cancellation = turn.cancellation_handle();
        editor
            .until("it has begun again", |editor| {
                editor.text("agent_message_chunk") == "again"
            })
            .await;
        cancellation.cancel().unwrap();
        let cancelled = turn.block_task().await.unwrap_err();
        assert_eq!(i32::from(cancelled.code), -32800, "{cancelled:?}");
        let failed = editor
            .prompt(&session, "fail with authentication")
            .block_task()
            .await
            .unwrap_err();
        assert_eq!(i32::from(failed.code), -32000, "{failed:?}");
        assert_eq!(editor.say(&session, "say alive").await, StopReason::EndTurn);
    })
    .await;
}

#[tokio::test]
async fn files_of_the_editor_are_used_and_its_servers_are_the_sessions() {
    let place = Place::new();
    let file = place.work().join("a.txt");
    std::fs::write(&file, "saved\n").unwrap();
    let person = Person {
        unsaved: Some("unsaved\n"),
        ..Person::default()
    };
    edit(&place, person, async |editor| {
        let server: McpServer = typed(json!({ "name": "broken", "command": "/bin/false", "args": [], "env": [] }));
        let made = editor
            .call(NewSessionRequest::new(place.work()).mcp_servers(vec![server]))
            .await
            .unwrap();
        let session = made.session_id;
        let script = r#"call edit {"path":"a.txt","old_str":"unsaved","new_str":"changed"} then say over"#;
        assert_eq!(editor.say(&session, script).await, StopReason::EndTurn);
        assert!(
            editor.asked().iter().any(|asked| asked["path"] == json!(file)),
            "{:?}",
            editor.asked()
        );
        assert_eq!(editor.written()[0]["content"], "changed\n");
        assert_eq!(editor.say(&session, "/mcp").await, StopReason::EndTurn);
        assert!(
            editor.text("agent_message_chunk").contains("broken"),
            "{}",
            editor.text("agent_message_chunk")
        );
    })
    .await;
}
