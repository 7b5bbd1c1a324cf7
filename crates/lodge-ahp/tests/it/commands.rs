//! Commands that a person types in place of a message: they run in a turn without a model.

use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::kit::*;

/// The only tool call of a turn.
fn call(turn: &Value) -> Value {
    let parts = turn["responseParts"].as_array().unwrap();
    assert_eq!(parts.len(), 1, "{turn}");
    parts[0]["toolCall"].clone()
}

fn texts(call: &Value) -> String {
    let parts = call["content"].as_array().unwrap().iter();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

#[tokio::test]
async fn a_command_runs_at_once_and_its_terminal_can_be_looked_at_also_after_a_restart() {
    let mut house = house().await;
    let mut a = house.connect().await;
    let hello = json!({ "protocolVersions": ["1.0.0"], "clientId": "a", "initialSubscriptions": [ROOT] });
    assert_eq!(
        a.request("initialize", hello).await.unwrap()["terminalCommandPrefix"],
        "!"
    );
    a.name = "a".to_owned();
    let (session, chat) = a.session(&uuid(1)).await;
    a.say(&chat, "t1", "!echo one; pwd; echo x > made").await;
    // Until something is said, the session is called by it.
    let title = "!echo one; pwd; echo x > made";
    assert_eq!(a.action("session/titleChanged").await["action"]["title"], title);
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    assert_eq!(
        (&ready["turnId"], &ready["confirmed"]),
        (&json!("t1"), &json!("not-needed"))
    );
    let done = a.action("chat/toolCallComplete").await["action"]["result"].clone();
    assert_eq!(done["success"], true);
    assert_eq!(a.ends(&chat, "t1").await["type"], "chat/turnComplete");
    // What it did to files is what its turn did.
    let changes = format!("{session}/changeset/turn/t1");
    loop {
        let state = a.subscribe(&changes).await["state"].clone();
        if state["status"] == "ready" && state["files"].as_array().is_some_and(|files| !files.is_empty()) {
            assert!(state["files"].to_string().contains("/made"), "{state}");
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let printed = format!("one\n{}\n", house.work().display());
    for restarted in [false, true] {
        if restarted {
            house.restart().await;
            a = house.client("a").await;
        }
        assert_eq!(a.subscribe(&session).await["state"]["title"], title);
        let state = a.subscribe(&chat).await["state"].clone();
        let turn = &state["turns"][0];
        assert_eq!(
            (
                &turn["state"],
                &turn["message"]["text"],
                &turn["message"]["origin"]["kind"]
            ),
            (
                &json!("complete"),
                &json!("!echo one; pwd; echo x > made"),
                &json!("user")
            )
        );
        let call = call(turn);
        assert_eq!(
            (&call["status"], &call["toolInput"]),
            (&json!("completed"), &json!("echo one; pwd; echo x > made"))
        );
        assert!(texts(&call).contains(&printed), "{call}");
        let parts = call["content"].as_array().unwrap();
        let terminal = parts.iter().find(|part| part["type"] == "terminal").unwrap();
        assert_eq!(terminal["result"]["exitCode"], 0);
        let shown = a.subscribe(terminal["resource"].as_str().unwrap()).await["state"].clone();
        let content: String = shown["content"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|part| part["value"].as_str().or(part["output"].as_str()))
            .collect();
        assert!(content.replace('\r', "").contains(&printed), "{shown}");
        assert_eq!(shown["cwd"], lodge_ahp::uri::file(house.work()));
    }
}

#[tokio::test]
async fn a_command_that_fails_says_how_and_the_turn_is_over() {
    let (_house, mut a, session, chat) = at_home().await;
    let peer = "ahp-chat:/peer";
    a.request("createChat", json!({ "channel": session, "chat": peer }))
        .await
        .unwrap();
    a.subscribe(peer).await;
    for chat in [chat.as_str(), peer] {
        a.say(chat, "t1", "!echo bad >&2; exit 7").await;
        let done = a.action("chat/toolCallComplete").await["action"]["result"].clone();
        assert_eq!(
            (&done["success"], &done["pastTenseMessage"]),
            (&json!(true), &json!("Ran `echo bad >&2; exit 7` (exit code 7)"))
        );
        assert!(done["error"].is_null(), "the command ran: {done}");
        assert_eq!(a.ends(chat, "t1").await["type"], "chat/turnComplete");
        let state = a.subscribe(chat).await["state"].clone();
        let call = call(&state["turns"][0]);
        assert_eq!((&call["status"], &call["success"]), (&json!("completed"), &json!(true)));
        assert!(texts(&call).contains("bad"), "{call}");
    }
    // Nothing to run: a message like any other.
    a.turn(&chat, "t2", "! ").await;
    let state = a.subscribe(&chat).await["state"].clone();
    assert_eq!(state["turns"][1]["responseParts"][0]["kind"], "markdown", "{state}");
}

#[tokio::test]
async fn the_model_reads_of_commands_with_the_next_message() {
    let models = ModelServer::start();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    a.say(&chat, "t1", "!echo from the shell").await;
    a.ends(&chat, "t1").await;
    // One that is stopped takes nothing of what came before with it.
    a.say(&chat, "t2", "!echo begun; sleep 1000").await;
    a.until(|message| {
        let action = &message["params"]["action"];
        action["type"] == "chat/toolCallContentChanged" && action["turnId"] == "t2"
    })
    .await;
    a.accepted(
        &chat,
        json!({ "type": "chat/turnCancelled", "turnId": "t2", "duration": 1 }),
    )
    .await;
    assert!(
        models
            .requests()
            .iter()
            .all(|request| request.body.get("messages").is_none())
    );
    models.reply(Reply::text("I see."));
    a.say(&chat, "t3", "What did I run?").await;
    a.ends(&chat, "t3").await;
    let request = models.last_request().body.to_string();
    assert!(request.contains("echo from the shell") && request.contains("What did I run?"));
    let state = a.subscribe(&chat).await["state"].clone();
    assert!(request.contains("sleep 1000"), "{state:#}");
    let states: Vec<&Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["state"])
        .collect();
    assert_eq!(states, ["complete", "cancelled", "complete"]);
}

#[tokio::test]
async fn a_command_waits_for_the_turn_that_runs_and_goes_before_what_waits_when_it_steers() {
    let (_house, mut a, _, chat) = at_home().await;
    let set = |kind: &str, id: &str, text: &str| json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": { "text": text, "origin": { "kind": "user" } } });
    a.say(&chat, "t1", "ask \"Which colour?\" choices red, blue").await;
    let asked = a.action("chat/inputRequested").await["action"]["request"].clone();
    a.accepted(&chat, set("queued", "q1", "!echo queued")).await;
    a.accepted(&chat, set("steering", "s1", "!echo steering")).await;
    let question = asked["questions"][0]["id"].as_str().unwrap();
    let answer = json!({ "state": "submitted", "value": { "kind": "selected", "value": "red" } });
    let answers = json!({ question: answer });
    a.accepted(
        &chat,
        json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept", "answers": answers }),
    )
    .await;
    a.ends(&chat, "t1").await;
    a.ends(&chat, "s1").await;
    a.ends(&chat, "q1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let said: Vec<&Value> = state["turns"].as_array().unwrap()[1..]
        .iter()
        .map(|turn| &turn["message"]["text"])
        .collect();
    assert_eq!(said, ["!echo steering", "!echo queued"]);
    assert!(
        state.get("steeringMessage").is_none() && state.get("queuedMessages").is_none(),
        "{state}"
    );
}

#[tokio::test]
async fn a_command_that_a_killed_host_did_not_finish_has_failed_and_is_not_run_again() {
    let (house, mut a, session, chat) = at_home().await;
    a.say(&chat, "t1", "!echo x >> ran; sleep 1000").await;
    a.action("chat/toolCallContentChanged").await;
    let ran = house.work().join("ran");
    while std::fs::read_to_string(&ran).unwrap_or_default() != "x\n" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let house = house.crash().await;
    let mut b = house.client("a").await;
    b.subscribe(&session).await;
    let state = b.subscribe(&chat).await["state"].clone();
    let turn = &state["turns"][0];
    assert_eq!(turn["state"], "error", "{turn}");
    let parts = turn["responseParts"].as_array().unwrap();
    assert_eq!(
        (&parts[0]["toolCall"]["success"], &parts[1]["error"]["errorType"]),
        (&json!(false), &json!("interrupted"))
    );
    assert!(parts[1].get("resumable").is_none(), "{turn}");
    b.refused(&chat, json!({ "type": "chat/turnResume", "turnId": "t1" }))
        .await;
    b.turn(&chat, "t2", "say on").await;
    let state = b.subscribe(&chat).await["state"].clone();
    assert_eq!(
        (&state["turns"][0]["state"], &state["turns"][1]["state"]),
        (&json!("error"), &json!("complete"))
    );
    assert_eq!(std::fs::read_to_string(house.work().join("ran")).unwrap(), "x\n");
}

#[tokio::test]
async fn clients_of_the_seed_are_told_nothing_of_commands_and_run_none() {
    let house = house().await;
    let mut old = house.connect().await;
    let hello = json!({ "protocolVersions": ["0.1.0"], "clientId": "old", "initialSubscriptions": [SEED_ROOT] });
    let hello = old.request("initialize", hello).await.unwrap();
    assert!(hello.get("terminalCommandPrefix").is_none());
    let session = format!("copilot:/{}", uuid(1));
    old.request("createSession", json!({ "session": session, "provider": "copilot" }))
        .await
        .unwrap();
    old.request("subscribe", json!({ "resource": session })).await.unwrap();
    let said = json!({ "type": "session/turnStarted", "session": session, "turnId": "t1", "userMessage": { "text": "!touch here" } });
    old.notify("dispatchAction", json!({ "clientSeq": 1, "action": said }))
        .await;
    old.action("session/turnComplete").await;
    assert!(!house.work().join("here").exists());
}
