//! 46–61: sessions and chats.

use serde_json::{Value, json};

use super::message;
use crate::kit::*;

/// 46–61: sessions and chats.
#[tokio::test]
async fn sessions_and_chats() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let session = "anything+at.all://host/some/path?q#f";
    assert_eq!(
        a.request("createSession", json!({ "channel": session, "provider": "lodge" }))
            .await
            .unwrap(),
        Value::Null
    );
    assert_eq!(a.code("createSession", json!({ "channel": session })).await, -32003);
    assert_eq!(
        a.code("createSession", json!({ "channel": "x:/1", "provider": "nobody" }))
            .await,
        -32002
    );
    let foreign = json!({ "channel": "x:/1", "activeClient": { "clientId": "b", "tools": [] } });
    assert_eq!(a.code("createSession", foreign).await, -32602);
    assert_eq!(a.code("createSession", json!({ "channel": "no uri" })).await, -32602);
    let nowhere = json!({ "channel": "x:/1", "workingDirectories": ["file:///no/such/place"] });
    assert_eq!(a.code("createSession", nowhere).await, -32602);
    let state = a.subscribe(session).await["state"].clone();
    assert_eq!(state["lifecycle"], "ready");
    assert_eq!(state["chats"][0]["resource"], state["defaultChat"]);
    let keys: Vec<&String> = state["config"]["schema"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(keys, ["model", "thinkingLevel", "mode", "autoApprove"]);
    // It is told to all and in the list before anything is said in it.
    let added = b.notification("root/sessionAdded").await;
    assert_eq!(added["summary"]["resource"], session);
    let listed = b.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    a.subscribe(&chat).await;
    a.turn(&chat, "t1", "say one").await;
    a.turn(&chat, "t2", "say two").await;
    let listed = b.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(listed["items"][0]["resource"], session);
    assert_eq!(listed["items"][0]["defaultChat"], chat.as_str());
    // What changes in a summary is told, without what identifies it.
    a.accepted(session, json!({ "type": "session/titleChanged", "title": "Named" }))
        .await;
    let changed = b.until(|m| m["params"]["changes"]["title"] == "Named").await["params"].clone();
    assert!(changed["changes"].get("resource").is_none() && changed["changes"].get("createdAt").is_none());
    // A further chat, from a turn of the first.
    let fork = json!({ "channel": session, "chat": "ahp-chat:/fork", "source": { "kind": "fork", "chat": chat, "turnId": "t1" } });
    assert_eq!(a.request("createChat", fork.clone()).await.unwrap(), Value::Null);
    let added = a.action("session/chatAdded").await;
    assert_eq!(
        added["action"]["summary"]["origin"],
        json!({ "kind": "fork", "chat": chat, "turnId": "t1" })
    );
    let forked = a.subscribe("ahp-chat:/fork").await["state"].clone();
    assert_eq!(forked["turns"].as_array().unwrap().len(), 1);
    a.turn("ahp-chat:/fork", "t3", "say three").await;
    assert_eq!(a.subscribe(&chat).await["state"]["turns"].as_array().unwrap().len(), 2);
    a.request("createChat", fork)
        .await
        .expect("the same again is no mistake");
    for bad in [
        json!({ "channel": session, "chat": "ahp-chat:/x", "source": { "kind": "fork", "chat": chat, "turnId": "t9" } }),
        json!({ "channel": session, "chat": "ahp-chat:/x", "source": { "kind": "fork", "chat": "ahp-chat:/foreign", "turnId": "t1" } }),
        json!({ "channel": session, "chat": "ahp-chat:/x", "source": { "kind": "dream", "chat": chat, "turnId": "t1" } }),
        json!({ "channel": session, "chat": "ahp-chat:/x", "source": { "kind": "sideChat", "chat": chat, "turnId": "t1", "selection": { "text": "" } } }),
        json!({ "channel": session, "chat": "ahp-chat:/x", "workingDirectories": ["file:///elsewhere"] }),
        json!({ "channel": "lodge:/none", "chat": "ahp-chat:/x" }),
    ] {
        a.request("createChat", bad).await.unwrap_err();
    }
    // A side chat knows what was said, and shows nothing of it.
    let aside = json!({
        "channel": session, "chat": "ahp-chat:/aside",
        "source": { "kind": "sideChat", "chat": chat, "turnId": "t1" },
    });
    a.request("createChat", aside).await.unwrap();
    assert_eq!(a.subscribe("ahp-chat:/aside").await["state"]["turns"], json!([]));
    let said = a.turn("ahp-chat:/aside", "t4", "what did I say").await;
    assert_eq!(said["turns"].as_array().unwrap().len(), 1);
    assert!(
        said["turns"][0]["responseParts"][0]["content"]
            .as_str()
            .unwrap()
            .contains("say one"),
        "{said:#}"
    );
    a.accepted("ahp-chat:/aside", json!({ "type": "chat/truncated" })).await;
    assert_eq!(
        a.turn("ahp-chat:/aside", "t5", "say x").await["turns"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let about = json!({
        "channel": session, "chat": "ahp-chat:/about", "initialMessage": message("hello"),
        "source": { "kind": "sideChat", "chat": chat, "turnId": "t1", "selection": { "text": "that word" } },
    });
    a.request("createChat", about).await.unwrap();
    while a.subscribe("ahp-chat:/about").await["state"]["turns"] == json!([]) {}
    let about = a.subscribe("ahp-chat:/about").await["state"]["turns"][0].clone();
    assert_eq!(about["message"]["text"], "hello");
    let logs = std::fs::read_dir(house.dir.path().join("home/session-state")).unwrap();
    let mut logs = logs.map(|log| std::fs::read_to_string(log.unwrap().path().join("events.jsonl")).unwrap());
    assert!(logs.any(|log| log.contains("This is about:") && log.contains("that word")));
    // A chat is not a session of its own in the list.
    let listed = b.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    a.code("disposeChat", json!({ "channel": chat })).await;
    assert_eq!(
        a.request("disposeChat", json!({ "channel": "ahp-chat:/fork" }))
            .await
            .unwrap(),
        Value::Null
    );
    a.action("session/chatRemoved").await;
    assert_eq!(
        a.code("subscribe", json!({ "channel": "ahp-chat:/fork" })).await,
        -32001
    );
    // Flags of the person survive.
    a.accepted(
        session,
        json!({ "type": "session/isArchivedChanged", "isArchived": true }),
    )
    .await;
    a.accepted(
        session,
        json!({ "type": "session/configChanged", "config": { "mode": "plan" } }),
    )
    .await;
    let listed = b.request("listSessions", json!({})).await.unwrap();
    assert_eq!(listed["items"][0]["status"].as_u64().unwrap() & 64, 64);
    // Paging: newest first, an opaque cursor, a bad one is refused.
    for number in 2..=4 {
        let (_, chat) = a.session(&uuid(number)).await;
        a.turn(&chat, "t", "say x").await;
    }
    house.host.catalogue().flush();
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = if cursor.is_null() {
            json!({ "limit": 2 })
        } else {
            json!({ "limit": 2, "cursor": cursor })
        };
        let page = b.request("listSessions", params).await.unwrap();
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["resource"].clone()),
        );
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[0], format!("lodge:/{}", uuid(4)));
    assert_eq!(b.code("listSessions", json!({ "cursor": "nonsense" })).await, -32602);
    // Removing is told to all; an editor's draft comes and goes silently.
    assert_eq!(
        a.request("disposeSession", json!({ "channel": session }))
            .await
            .unwrap(),
        Value::Null
    );
    assert_eq!(b.notification("root/sessionRemoved").await["session"], session);
    assert_eq!(a.code("disposeSession", json!({ "channel": session })).await, -32001);
    b.drain().await;
    let mut editor = house.editor("e").await;
    let draft = json!({ "channel": "x:/draft" });
    editor.request("createSession", draft.clone()).await.unwrap();
    let listed = b.request("listSessions", json!({ "channel": ROOT })).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    editor.request("disposeSession", draft).await.unwrap();
    assert!(b.drain().await.is_empty());
    let resolved = a
        .request(
            "resolveSessionConfig",
            json!({ "config": { "mode": "plan", "branch": "x" } }),
        )
        .await
        .unwrap();
    assert_eq!(
        resolved["values"],
        json!({ "model": "rehearsal", "thinkingLevel": "default", "mode": "plan", "autoApprove": "default" })
    );
    let items = a
        .request(
            "sessionConfigCompletions",
            json!({ "property": "mode", "query": "auto" }),
        )
        .await
        .unwrap();
    assert_eq!(items["items"][0]["value"], "autopilot");
}
