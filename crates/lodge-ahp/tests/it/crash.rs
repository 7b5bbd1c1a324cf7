//! Turns that fail, because of the model or because the host was killed, and going on with them.

use lodge_host::Prompt;
use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Reply};

use crate::kit::*;

fn resume(turn: &str) -> Value {
    json!({ "type": "chat/turnResume", "turnId": turn })
}

/// Waits until the log of a chat's session holds something.
async fn recorded(house: &House, id: &str, what: &str) {
    for _ in 0..1000 {
        let mut events = house.host.read(id).unwrap().events();
        if events.any(|event| event.unwrap().kind() == what) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no {what} came");
}

fn confirm(turn: &str, call: &Value) -> Value {
    json!({ "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call, "approved": true })
}

/// Says something whose turn is in the middle of a command when this returns.
async fn begin_call(client: &mut Client, house: &House, id: &str, chat: &str, turn: &str) {
    let text = "call bash {\"command\":\"touch here; sleep 30\"} then say after";
    client.say(chat, turn, text).await;
    let ready = client.action("chat/toolCallReady").await["action"].clone();
    client.accepted(chat, confirm(turn, &ready["toolCallId"])).await;
    recorded(house, id, "tool.execution_start").await;
}

#[tokio::test]
async fn a_question_that_was_open_when_the_host_was_killed_is_asked_again_and_who_approved_is_known() {
    let house = house().await;
    let mut a = house.client("a").await;
    let id = uuid(1);
    let (_, chat) = a.session(&id).await;
    // It works in a directory that is gone when it goes on.
    a.say(
        &chat,
        "t1",
        "call bash {\"command\":\"rm -f not-there\"} then say after",
    )
    .await;
    let asked = a.action("chat/toolCallReady").await["action"]["toolCallId"].clone();
    recorded(&house, &id, "lodge.question").await;
    let house = house.crash().await;
    let mut b = house.client("b").await;
    // The turn goes on as soon as somebody looks.
    let waits = loop {
        let state = b.subscribe(&chat).await["state"].clone();
        let parts = state["activeTurn"]["responseParts"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let call = parts
            .iter()
            .map(|part| part["toolCall"].clone())
            .find(|call| call["status"] == "pending-confirmation");
        if let Some(call) = call {
            break call;
        }
    };
    assert_eq!(waits["toolCallId"], asked);
    b.accepted(&chat, confirm("t1", &asked)).await;
    assert_eq!(b.ends(&chat, "t1").await["type"], "chat/turnComplete");
    let call = |state: &Value| state["turns"][0]["responseParts"][0]["toolCall"].clone();
    let before = call(&b.subscribe(&chat).await["state"]);
    assert_eq!(
        (&before["status"], &before["confirmed"]),
        (&json!("completed"), &json!("user-action"))
    );
    let house = house.crash().await;
    let mut c = house.client("c").await;
    let after = call(&c.subscribe(&chat).await["state"]);
    assert_eq!(
        (&after["status"], &after["confirmed"]),
        (&json!("completed"), &json!("user-action"))
    );
}

/// Editors ask for the list once, and after that believe what they are told.
#[tokio::test]
async fn no_list_shows_work_for_ever_that_a_killed_host_left() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let mut seen = Vec::new();
    for (name, version) in [("today", "1.0.0"), ("before", "0.9.0"), ("seed", "0.1.0")] {
        seen.push((name, version, house.client_of(name, version).await));
    }
    a.say(&chat, "t1", "slowly 60 s, stream 100 chunks").await;
    for (_, version, client) in &mut seen {
        let notified = client
            .until(|message| summary_of(message, version)["status"] == 8)
            .await;
        assert_eq!(session_in(&notified, version), session.as_str());
    }
    let house = house.crash().await;
    for (name, version, old) in seen {
        let mut back = house.connect().await;
        let root = if version == "0.1.0" { SEED_ROOT } else { ROOT };
        let params = json!({ "clientId": name, "lastSeenServerSeq": old.last_seq, "subscriptions": [root] });
        back.request("reconnect", params).await.unwrap();
        let told = back
            .until(|message| session_in(message, version) == session.as_str())
            .await;
        let changes = summary_of(&told, version);
        assert_eq!(changes["status"].as_u64().unwrap() & 8, 0, "{told}");
        assert_eq!(changes.get("activity"), Some(&Value::Null), "{told}");
        // Nor for who comes for the first time.
        let mut new = house.client_of(&format!("{name} anew"), version).await;
        let listed = new.request("listSessions", json!({ "channel": root })).await.unwrap();
        let line = &listed["items"][0];
        assert_eq!(line["resource"], session.as_str(), "{listed}");
        assert_eq!(line["status"].as_u64().unwrap() & 8, 0, "{listed}");
        assert_eq!(line.get("activity"), None, "{listed}");
    }
}

/// What a notification about the list says of a session.
fn summary_of<'a>(message: &'a Value, version: &str) -> &'a Value {
    match version {
        "0.1.0" => &message["params"]["notification"]["changes"],
        _ => &message["params"]["changes"],
    }
}

fn session_in<'a>(message: &'a Value, version: &str) -> &'a Value {
    match version {
        "0.1.0" => &message["params"]["notification"]["session"],
        _ if message["method"] == "root/sessionSummaryChanged" => &message["params"]["session"],
        _ => &Value::Null,
    }
}

#[tokio::test]
async fn a_turn_that_a_killed_host_did_not_finish_has_failed_and_can_be_resumed() {
    let house = house().await;
    let mut a = house.client("a").await;
    let id = uuid(1);
    let (session, chat) = a.session(&id).await;
    a.turn(&chat, "t1", "say before").await;
    begin_call(&mut a, &house, &id, &chat, "t2").await;
    let seen = a.last_seq;
    let house = house.crash().await;

    let mut b = house.connect().await;
    let params = json!({ "clientId": "a", "lastSeenServerSeq": seen, "subscriptions": [session, chat] });
    let result = b.request("reconnect", params).await.unwrap();
    b.name = "a".to_owned();
    assert_eq!(result["type"], "snapshot");
    let state = result["snapshots"][1]["state"].clone();
    assert!(state.get("activeTurn").is_none());
    assert_eq!(state["status"].as_u64().unwrap() & 31, 2, "the chat is in error");
    let turn = state["turns"][1].clone();
    assert_eq!((&turn["id"], &turn["state"]), (&json!("t2"), &json!("error")));
    let parts = turn["responseParts"].as_array().unwrap();
    let (call, error) = (&parts[parts.len() - 2]["toolCall"], &parts[parts.len() - 1]);
    assert_eq!(
        (&call["status"], &call["success"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(
        (&error["kind"], &error["error"]["errorType"], &error["resumable"]),
        (&json!("error"), &json!("interrupted"), &json!(true))
    );
    // Looking at it changed nothing: it is the same for who comes next, and after another crash.
    let house = house.crash().await;
    let mut b = house.client("a").await;
    b.subscribe(&session).await;
    assert_eq!(b.subscribe(&chat).await["state"]["turns"][1], turn);
    // Only the last turn, and only that.
    assert!(b.refused(&chat, resume("t1")).await.contains("last turn"));
    assert!(b.refused(&chat, resume("nope")).await.contains("last turn"));
    b.accepted(&chat, resume("t2")).await;
    b.refused(&chat, resume("t2")).await;
    let end = b.ends(&chat, "t2").await;
    assert_eq!(end["type"], "chat/turnComplete", "{end}");
    let state = b.subscribe(&chat).await["state"].clone();
    let turn = &state["turns"][1];
    assert_eq!(
        (turn["state"].as_str(), state["turns"].as_array().unwrap().len()),
        (Some("complete"), 2)
    );
    let parts = turn["responseParts"].as_array().unwrap();
    assert_eq!(
        parts.iter().filter(|part| part["kind"] == "error").count(),
        1,
        "what failed stays to be seen"
    );
    assert_eq!(parts.last().unwrap()["content"], "after");
    b.refused(&chat, resume("t2")).await;
    // The log alone tells the same.
    let house = house.crash().await;
    let mut c = house.client("c").await;
    let again = c.subscribe(&chat).await["state"]["turns"][1].clone();
    assert_eq!(again["responseParts"], turn["responseParts"]);
    assert_eq!(again["state"], "complete");
}

#[tokio::test]
async fn a_turn_that_is_followed_by_another_after_a_crash_stays_failed() {
    let house = house().await;
    let mut a = house.client("a").await;
    let id = uuid(1);
    let (_, chat) = a.session(&id).await;
    begin_call(&mut a, &house, &id, &chat, "t1").await;
    let house = house.crash().await;
    let mut a = house.client("a").await;
    let before = a.subscribe(&chat).await["state"]["turns"][0].clone();
    // Said by somebody else, so that nothing here announces it.
    let other = house.host.open_session(&id).await.unwrap();
    let prompt = Prompt {
        text: "say next".into(),
        message_id: Some("t2".into()),
        ..Prompt::default()
    };
    other.send(prompt).await.unwrap();
    a.ends(&chat, "t2").await;
    let state = a.subscribe(&chat).await["state"].clone();
    assert_eq!(state["turns"][0], before);
    assert_eq!(state["turns"].as_array().unwrap().len(), 2, "{state:#}");
    a.refused(&chat, resume("t1")).await;
    let house = house.crash().await;
    let mut c = house.client("c").await;
    let again = c.subscribe(&chat).await["state"].clone();
    assert_eq!(again["turns"][0], before);
    assert_eq!(again["turns"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_turn_that_the_model_failed_can_be_resumed_and_holds_up_the_queue() {
    let models = ModelServer::rehearsing();
    let house = house_of(&models).await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let failure = || Reply::error(400, "bad_request", "No.");
    let slow = failure().delay(std::time::Duration::from_millis(300));
    models.reply(slow).reply(failure()).reply(Reply::text("recovered"));
    a.say(&chat, "t1", "go").await;
    let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q1",
        "message": { "text": "say queued", "origin": { "kind": "user" } } });
    a.accepted(&chat, queued).await;
    let failed = a.ends(&chat, "t1").await;
    assert_eq!(
        (failed["type"].as_str(), &failed["part"]["resumable"]),
        (Some("chat/error"), &json!(true))
    );
    // Another client goes on with it. It fails once more, and then does not.
    b.subscribe(&session).await;
    let state = b.subscribe(&chat).await["state"].clone();
    assert_eq!(
        (&state["status"], &state["queuedMessages"][0]["id"]),
        (&json!(2), &json!("q1"))
    );
    b.accepted(&chat, resume("t1")).await;
    assert_eq!(a.ends(&chat, "t1").await["type"], "chat/error");
    a.accepted(&chat, resume("t1")).await;
    assert_eq!(a.ends(&chat, "t1").await["type"], "chat/turnComplete");
    // What waited comes now.
    a.ends(&chat, "q1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let parts = state["turns"][0]["responseParts"].as_array().unwrap();
    assert_eq!(parts.iter().filter(|part| part["kind"] == "error").count(), 2);
    assert_eq!(state["turns"].as_array().unwrap().len(), 2);
    assert_eq!(a.subscribe(&session).await["state"]["chats"][0]["status"], 1);
}

#[tokio::test]
async fn messages_that_wait_at_the_agent_are_shown_also_after_a_crash() {
    let house = house().await;
    let mut a = house.client("a").await;
    let id = uuid(1);
    let (_, chat) = a.session(&id).await;
    a.say(&chat, "t1", "slowly 50 ms, stream 1000 chunks").await;
    a.action("chat/delta").await;
    let other = house.host.open_session(&id).await.unwrap();
    for (id, text) in [("w1", "say first"), ("w2", "say second"), ("w3", "say third")] {
        let prompt = Prompt {
            text: text.into(),
            message_id: Some(id.into()),
            ..Prompt::default()
        };
        other.send(prompt).await.unwrap();
        assert_eq!(a.action("chat/pendingMessageSet").await["action"]["id"], id);
    }
    other
        .change_queue(lodge_host::QueueChange::Remove("w3".into()))
        .await
        .unwrap();
    assert_eq!(a.action("chat/pendingMessageRemoved").await["action"]["id"], "w3");
    drop(other);
    let house = house.crash().await;
    let mut b = house.client("b").await;
    let state = b.subscribe(&chat).await["state"].clone();
    assert_eq!(state["turns"][0]["state"], "error");
    let ids = |state: &Value| -> Vec<Value> {
        let queue = state["queuedMessages"].as_array().cloned().unwrap_or_default();
        queue.iter().map(|queued| queued["id"].clone()).collect()
    };
    assert_eq!(ids(&state), ["w1", "w2"]);
    assert_eq!(state["queuedMessages"][0]["message"]["text"], "say first");
    // It can be taken back; what is left comes before what is said next.
    let remove = json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "w1" });
    b.accepted(&chat, remove).await;
    b.say(&chat, "t2", "say fourth").await;
    b.ends(&chat, "t2").await;
    let state = b.subscribe(&chat).await["state"].clone();
    let turns: Vec<&Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["id"])
        .collect();
    assert_eq!(turns, ["t1", "w2", "t2"]);
    assert!(ids(&state).is_empty());
}
