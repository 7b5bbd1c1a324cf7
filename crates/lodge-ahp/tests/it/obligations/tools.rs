//! 69–77: tool calls, and the tools of clients.

use std::time::Duration;

use lodge_ahp::Limits;
use serde_json::{Value, json};

use crate::kit::*;

/// 69–75: tool calls.
#[tokio::test]
async fn tool_calls() {
    let (house, mut a, session, chat) = at_home().await;
    // What may run runs, and is never shown as waiting.
    a.say(&chat, "t1", "call bash {\"command\":\"echo harmless\"} then say done")
        .await;
    let start = a.action("chat/toolCallStart").await;
    assert_eq!(start["action"]["_meta"]["toolKind"], "terminal");
    let ready = a.action("chat/toolCallReady").await;
    assert_eq!(ready["action"]["confirmed"], "not-needed");
    let complete = a.action("chat/toolCallComplete").await;
    assert_eq!(complete["action"]["result"]["success"], true);
    assert!(
        complete["action"]["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("harmless")
    );
    a.ends(&chat, "t1").await;
    // What must be asked is asked, once; the first answer wins.
    a.say(&chat, "t2", "call bash {\"command\":\"touch asked\"} then say done")
        .await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    assert!(ready.get("confirmed").is_none());
    assert_eq!(ready["options"][0]["id"], "allow-once");
    let confirm = |extra: Value| {
        let mut action = json!({ "type": "chat/toolCallConfirmed", "turnId": "t2", "toolCallId": ready["toolCallId"], "approved": true });
        for (key, value) in extra.as_object().unwrap() {
            action[key] = value.clone();
        }
        action
    };
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(state["status"].as_u64().unwrap() & 31, 24);
    assert_eq!(state["chats"][0]["status"].as_u64().unwrap() & 31, 24);
    assert_eq!(state["inputNeeded"][0]["kind"], "toolConfirmation");
    a.refused(&chat, confirm(json!({ "selectedOptionId": "deny" }))).await;
    a.refused(&chat, confirm(json!({ "selectedOptionId": "none" }))).await;
    a.refused(&chat, confirm(json!({ "toolCallId": "none" }))).await;
    a.refused(&chat, confirm(json!({ "turnId": "t1" }))).await;
    a.accepted(&chat, confirm(json!({ "selectedOptionId": "allow-session" })))
        .await;
    a.refused(&chat, confirm(json!({}))).await;
    a.ends(&chat, "t2").await;
    let turn = a.subscribe(&chat).await["state"]["turns"][1].clone();
    let call = turn["responseParts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["kind"] == "toolCall")
        .unwrap()["toolCall"]
        .clone();
    assert_eq!(
        (&call["confirmed"], &call["selectedOption"]["id"]),
        (&json!("user-action"), &json!("allow-session"))
    );
    // A no is a no.
    a.say(&chat, "t3", "call bash {\"command\":\"rm asked\"} then say done")
        .await;
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    let deny = json!({
        "type": "chat/toolCallConfirmed", "turnId": "t3", "toolCallId": ready["toolCallId"], "approved": false,
        "reasonMessage": "not now",
    });
    a.accepted(&chat, deny).await;
    a.ends(&chat, "t3").await;
    assert!(house.work().join("asked").exists());
    let state = a.subscribe(&session).await["state"].clone();
    assert!(state.get("inputNeeded").is_none());
}

/// 73–77: clients and the tools they bring.
#[tokio::test]
async fn active_clients() {
    let house = house_with(Limits {
        client_grace: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let (session, chat) = a.session(&uuid(1)).await;
    let tools = json!([{ "name": "weather", "description": "Tells the weather", "inputSchema": { "type": "object", "properties": {} } }]);
    let announce = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "a", "displayName": "A", "tools": tools } });
    a.accepted(&session, announce.clone()).await;
    // The same again is no news, to nobody: an echo would be answered by the same again.
    a.dispatch(&session, announce).await;
    assert!(a.drain().await.iter().all(|message| message["method"] != "action"));
    b.subscribe(&session).await;
    b.subscribe(&chat).await;
    a.refused(
        &session,
        json!({ "type": "session/activeClientRemoved", "clientId": "b" }),
    )
    .await;
    a.say(&chat, "t1", "call weather {\"city\":\"Oslo\"} then say done")
        .await;
    let start = a.action("chat/toolCallStart").await["action"].clone();
    assert_eq!(start["contributor"], json!({ "kind": "client", "clientId": "a" }));
    let ready = a.action("chat/toolCallReady").await["action"].clone();
    assert_eq!(ready["confirmed"], "not-needed");
    let needed = b.action("session/inputNeededSet").await["action"]["request"].clone();
    assert_eq!(
        (&needed["kind"], &needed["clientId"]),
        (&json!("toolClientExecution"), &json!("a"))
    );
    let result =
        json!({ "success": true, "pastTenseMessage": "Looked", "content": [{ "type": "text", "text": "sunny" }] });
    let done =
        json!({ "type": "chat/toolCallComplete", "turnId": "t1", "toolCallId": start["toolCallId"], "result": result });
    b.refused(&chat, done.clone()).await;
    let content = json!({ "type": "chat/toolCallContentChanged", "turnId": "t1", "toolCallId": start["toolCallId"],
        "content": [{ "type": "text", "text": "looking" }] });
    b.refused(&chat, content.clone()).await;
    a.accepted(&chat, content).await;
    a.accepted(&chat, done).await;
    let state = {
        a.ends(&chat, "t1").await;
        a.subscribe(&chat).await["state"].clone()
    };
    assert_eq!(state["turns"][0]["state"], "complete");
    let answer = state["turns"][0]["responseParts"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(answer["content"], "done");
    // The owner may want the result looked at first.
    a.say(&chat, "t2", "call weather {} then say done").await;
    let start = a.action("chat/toolCallStart").await["action"].clone();
    a.until(|m| {
        m["params"]["action"]["toolCallId"] == start["toolCallId"]
            && m["params"]["action"]["type"] == "chat/toolCallReady"
    })
    .await;
    let held = json!({ "type": "chat/toolCallComplete", "turnId": "t2", "toolCallId": start["toolCallId"], "result": result, "requiresResultConfirmation": true });
    a.accepted(&chat, held).await;
    let confirm = json!({ "type": "chat/toolCallResultConfirmed", "turnId": "t2", "toolCallId": start["toolCallId"], "approved": false });
    b.accepted(&chat, confirm).await;
    a.ends(&chat, "t2").await;
    // The owner goes while its tool runs: after a while the call has failed, and the turn goes on.
    a.drain().await;
    a.say(&chat, "t3", "call weather {} then say on my own").await;
    a.action("session/inputNeededSet").await;
    drop(a);
    let failed = b
        .until(|m| m["params"]["action"]["turnId"] == "t3" && m["params"]["action"]["type"] == "chat/toolCallComplete")
        .await;
    assert_eq!(failed["params"]["action"]["result"]["success"], false);
    b.action("session/activeClientRemoved").await;
    b.ends(&chat, "t3").await;
    // Who leaves the session takes its tools along.
    let mine = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "b", "tools": [] } });
    b.accepted(&session, mine).await;
    b.notify("unsubscribe", json!({ "channel": session })).await;
    b.drain().await;
    assert_eq!(b.subscribe(&session).await["state"]["activeClients"], json!([]));
}
