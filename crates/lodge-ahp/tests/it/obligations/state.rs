//! 19–45: subscriptions, reconnecting, echo and rejection.

use serde_json::{Value, json};

use super::message;
use crate::{kit::*, mirror::Mirror};

/// 19–27: subscriptions, snapshots, order.
#[tokio::test]
async fn subscriptions_and_order() {
    let (house, mut a, session, chat) = at_home().await;
    for turn in ["t1", "t2", "t3"] {
        a.turn(&chat, turn, "say x").await;
    }
    a.drain().await;
    // A window, with a cursor to what is before it; without a wish all that is kept.
    let snapshot = a
        .request("subscribe", json!({ "channel": chat, "view": { "turns": 1 } }))
        .await
        .unwrap()["snapshot"]
        .clone();
    assert_eq!(snapshot["state"]["turns"].as_array().unwrap().len(), 1);
    assert!(snapshot["state"]["turnsNextCursor"].is_string());
    let snapshot = a.subscribe(&chat).await;
    assert_eq!(snapshot["state"]["turns"].as_array().unwrap().len(), 3);
    assert!(snapshot["state"].get("turnsNextCursor").is_none());
    // Later actions have higher numbers, one sequence for all channels, causes before effects.
    let from = snapshot["fromSeq"].as_u64().unwrap();
    a.say(&chat, "t4", "say y").await;
    a.ends(&chat, "t4").await;
    a.say(&chat, "t5", "say y").await;
    a.ends(&chat, "t5").await;
    let messages: Vec<Value> = a.drain().await;
    let seqs: Vec<u64> = messages
        .iter()
        .filter_map(|message| message["params"]["serverSeq"].as_u64())
        .collect();
    let seq_of = |fits: &dyn Fn(&Value) -> bool| {
        let found = messages.iter().rev().find(|message| fits(&message["params"]["action"]));
        found.unwrap_or_else(|| panic!("{messages:#?}"))["params"]["serverSeq"]
            .as_u64()
            .unwrap()
    };
    let began = seq_of(&|action| action["type"] == "chat/turnStarted" && action["turnId"] == "t5");
    let busy = seq_of(&|action| action["type"] == "session/chatUpdated" && action["changes"]["status"] == 8);
    let counted = seq_of(&|action| action["type"] == "root/activeSessionsChanged" && action["activeSessions"] == 1);
    assert!(began < busy && began < counted, "{messages:#?}");
    // The list hears of it with all chats of the session.
    let told = messages.iter().find(|message| {
        message["method"] == "root/sessionSummaryChanged" && message["params"]["changes"]["status"] == 8
    });
    let chats = told.unwrap()["params"]["changes"]["chats"].as_array().unwrap().clone();
    assert_eq!((chats.len(), &chats[0]["status"]), (1, &json!(8)));
    assert!(seqs.is_sorted() && seqs.iter().all(|seq| *seq > from), "{seqs:?}");
    // Who does not subscribe to a channel hears nothing of it; who leaves hears no more.
    let mut b = house.client("b").await;
    b.subscribe(&session).await;
    a.turn(&chat, "t6", "say z").await;
    let heard = b.drain().await;
    assert!(
        heard
            .iter()
            .all(|message| message["params"]["channel"] != chat.as_str()),
        "{heard:#?}"
    );
    assert!(
        heard
            .iter()
            .any(|message| message["params"]["action"]["type"] == "session/chatUpdated")
    );
    a.notify("unsubscribe", json!({ "channel": chat })).await;
    a.drain().await;
    b.say(&chat, "t7", "say w").await;
    b.subscribe(&chat).await;
    while b.subscribe(&chat).await["state"].get("activeTurn").is_some() {}
    assert!(
        a.drain()
            .await
            .iter()
            .all(|message| message["params"]["channel"] != chat.as_str())
    );
    assert_eq!(a.code("subscribe", json!({ "channel": "lodge:/none" })).await, -32001);
    // A dispatch that changes nothing is answered to its sender alone.
    let title = a.subscribe(&session).await["state"]["title"].clone();
    b.drain().await;
    let seq = a
        .dispatch(&session, json!({ "type": "session/titleChanged", "title": title }))
        .await;
    assert!(a.verdict(seq).await.get("rejectionReason").is_none());
    assert!(
        b.drain()
            .await
            .iter()
            .all(|message| message["params"]["action"]["type"] != "session/titleChanged")
    );
}

/// 28–36: coming back. (37, after a crash of the host, is `restart::…`.)
#[tokio::test]
async fn reconnect() {
    let (house, mut a, session, chat) = at_home().await;
    a.drain().await;
    let mut mirror = Mirror::default();
    let snapshot = a.subscribe(&chat).await;
    mirror.snapshot(&snapshot);
    drop(a);
    let mut b = house.client("b").await;
    b.subscribe(&chat).await;
    b.turn(&chat, "t1", "stream 50 chunks of 8 bytes").await;
    let mut back = house.connect().await;
    let params = json!({
        "clientId": "a", "lastSeenServerSeq": mirror.last_seq, "subscriptions": [chat, "lodge:/gone", session],
    });
    let result = back.request("reconnect", params).await.unwrap();
    assert!(back.inbox.is_empty(), "nothing comes before the response");
    assert_eq!(
        (&result["type"], &result["missing"]),
        (&json!("replay"), &json!(["lodge:/gone"]))
    );
    for envelope in result["actions"].as_array().unwrap() {
        mirror.envelope(envelope);
    }
    assert_eq!(mirror.state(&chat)["turns"][0]["id"], "t1");
    // It listens again.
    b.say(&chat, "t2", "say on").await;
    back.ends(&chat, "t2").await;
    // Who comes back without a session is not active in it any more.
    back.name = "a".to_owned();
    let mine = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "a", "tools": [] } });
    back.accepted(&session, mine).await;
    assert_eq!(
        b.subscribe(&session).await["state"]["activeClients"][0]["clientId"],
        "a"
    );
    drop(back);
    let mut elsewhere = house.connect().await;
    let params = json!({ "clientId": "a", "lastSeenServerSeq": mirror.last_seq, "subscriptions": [ROOT] });
    elsewhere.request("reconnect", params).await.unwrap();
    while b.subscribe(&session).await["state"]["activeClients"] != json!([]) {}
    // Somebody unknown, and somebody from the future.
    let mut unknown = house.connect().await;
    let params = json!({ "channel": ROOT, "clientId": "nobody", "lastSeenServerSeq": 1, "subscriptions": [] });
    assert_eq!(unknown.code("reconnect", params).await, -32008);
    let mut future = house.connect().await;
    let params = json!({ "channel": ROOT, "clientId": "a", "lastSeenServerSeq": 9_000_000_000_000u64, "subscriptions": [ROOT, chat] });
    let result = future.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "snapshot");
    assert_eq!(result["snapshots"].as_array().unwrap().len(), 2);
}

/// 38–45: echo, origin, rejection.
#[tokio::test]
async fn echo_and_rejection() {
    let (house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t0", "say hello").await;
    let mut b = house.client("b").await;
    b.subscribe(&session).await;
    b.subscribe(&chat).await;
    b.drain().await;
    let before = b.subscribe(&chat).await["state"].clone();
    let part = json!({ "kind": "markdown", "id": "x", "content": "forged" });
    let cases = [
        (&session, json!({ "type": "session/ready" })),
        (&session, json!({ "type": "session/bogus" })),
        (&session, json!({ "type": "session/chatAdded", "summary": {} })),
        (&session, json!({ "type": "session/titleChanged" })),
        (&session, json!({ "type": "session/titleChanged", "title": "  " })),
        (
            &session,
            json!({ "type": "session/workingDirectorySet", "directory": "file:///no/such/place" }),
        ),
        (
            &session,
            json!({ "type": "session/defaultChatChanged", "defaultChat": chat }),
        ),
        (
            &session,
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "b", "tools": [] } }),
        ),
        (
            &session,
            json!({ "type": "session/configChanged", "config": { "mode": "chaos" } }),
        ),
        (
            &session,
            json!({ "type": "session/configChanged", "config": { "branch": "x" } }),
        ),
        (
            &chat,
            json!({ "type": "chat/delta", "turnId": "t0", "partId": "x", "content": "forged" }),
        ),
        (
            &chat,
            json!({ "type": "chat/responsePart", "turnId": "t0", "part": part }),
        ),
        (
            &chat,
            json!({ "type": "chat/turnComplete", "turnId": "t0", "duration": 1 }),
        ),
        (&chat, json!({ "type": "chat/turnStarted", "turnId": "t1" })),
        (
            &chat,
            json!({ "type": "chat/turnStarted", "turnId": "t0", "startedAt": "2026-01-01T00:00:00Z", "message": message("again") }),
        ),
        (
            &chat,
            json!({ "type": "chat/turnStarted", "turnId": "t1", "startedAt": "yesterday", "message": message("x") }),
        ),
        (
            &chat,
            json!({ "type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-01-01T00:00:00Z",
            "message": { "text": "x", "origin": { "kind": "agent" } } }),
        ),
        (
            &chat,
            json!({ "type": "chat/draftChanged", "draft": { "text": "x", "origin": { "kind": "tool" } } }),
        ),
        (
            &chat,
            json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "none" }),
        ),
        (&chat, json!({ "type": "chat/truncated", "turnId": "none" })),
        (&chat, json!({ "type": "chat/turnResume", "turnId": "t0" })),
        (&ROOT.to_owned(), json!({ "type": "root/agentsChanged", "agents": [] })),
    ];
    for (channel, action) in cases {
        let reason = a.refused(channel, action.clone()).await;
        assert!(!reason.is_empty(), "{action}");
    }
    // Nobody else heard of any of it, and nothing changed.
    assert!(b.drain().await.is_empty());
    assert_eq!(b.subscribe(&chat).await["state"], before);
    // A channel that is not there: silence.
    a.dispatch("lodge:/none", json!({ "type": "session/titleChanged", "title": "x" }))
        .await;
    assert!(
        a.drain()
            .await
            .iter()
            .all(|message| message["params"]["channel"] != "lodge:/none")
    );
    // Accepted: everybody hears it with its origin, in order.
    let seqs = [
        a.dispatch(&session, json!({ "type": "session/titleChanged", "title": "One" }))
            .await,
        a.dispatch(&session, json!({ "type": "session/titleChanged", "title": "Two" }))
            .await,
    ];
    for (seq, title) in seqs.iter().zip(["One", "Two"]) {
        let heard = b.action("session/titleChanged").await;
        assert_eq!(heard["origin"], json!({ "clientId": "a", "clientSeq": seq }));
        assert_eq!(heard["action"]["title"], title);
    }
    // Editors rename by the chat: answered there, said on the session.
    a.accepted(&chat, json!({ "type": "session/titleChanged", "title": "Three" }))
        .await;
    assert_eq!(b.action("session/titleChanged").await["channel"], session.as_str());
}
