//! The obligations of a server, group by group. The table in `docs/ahp.md` says which test shows which number.

use std::time::Duration;

use lodge_ahp::Limits;
use serde_json::{Value, json};

use crate::{kit::*, mirror::Mirror};

fn message(text: &str) -> Value {
    json!({ "text": text, "origin": { "kind": "user" } })
}

/// 1–8: framing, ids, errors, limits.
#[tokio::test]
async fn transport_and_json_rpc() {
    let house = house_with(Limits {
        json_depth: 16,
        outstanding: 8,
        ..Limits::default()
    })
    .await;
    let mut client = house.connect().await;
    // Before initialize: ping is answered, notifications are ignored, all else is not there.
    assert_eq!(client.request("ping", json!({})).await.unwrap(), Value::Null);
    client.notify("unsubscribe", json!({ "channel": ROOT })).await;
    client
        .dispatch(ROOT, json!({ "type": "root/configChanged", "config": {} }))
        .await;
    assert_eq!(client.code("listSessions", json!({})).await, -32601);
    client.send_text("{nonsense").await;
    let error = client.read().await.unwrap();
    assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(-32700)));
    client.send_text("[]").await;
    assert_eq!(client.read().await.unwrap()["error"]["code"], -32600);
    client
        .send_text(format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}1{}}}"#,
            "[".repeat(20),
            "]".repeat(20)
        ))
        .await;
    assert_eq!(client.read().await.unwrap()["error"]["code"], -32700);
    // A string id is echoed as it came; unknown fields are ignored.
    client
        .send_text(r#"{"jsonrpc":"2.0","id":"one","method":"ping","params":{"_meta":{"x":1},"y":2},"z":3}"#)
        .await;
    assert_eq!(
        client.read().await.unwrap(),
        json!({ "jsonrpc": "2.0", "id": "one", "result": null })
    );
    let params = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "a", "somethingNew": true });
    client.request("initialize", params.clone()).await.unwrap();
    assert_eq!(client.code("initialize", params).await, -32600);
    assert_eq!(client.code("noSuchMethod", json!({})).await, -32601);
    assert_eq!(client.code("mintCoins", json!({})).await, -32601);
    assert_eq!(client.code("subscribe", json!({ "channel": 7 })).await, -32602);
    // Each request has exactly one response, in whatever order.
    let ids = [
        client.start("listSessions", json!({})).await,
        client.start("resolveSessionConfig", json!({})).await,
    ];
    for id in ids {
        client.response(id).await.unwrap();
    }
    assert!(client.drain().await.is_empty());
}

/// 9–12: versions.
#[tokio::test]
async fn version_negotiation() {
    let house = house().await;
    let initialize = async |versions: Value| {
        let mut client = house.connect().await;
        let params = json!({ "channel": ROOT, "protocolVersions": versions, "clientId": "v" });
        client.request("initialize", params).await
    };
    for (offered, chosen) in [
        (json!(["0.9.0", "1.0.0"]), "1.0.0"),
        (json!(["1.4.2"]), "1.4.2"),
        (json!(["0.1.0", "0.9.0"]), "0.9.0"),
        (json!(["0.1.0"]), "0.1.0"),
    ] {
        assert_eq!(initialize(offered).await.unwrap()["protocolVersion"], chosen);
    }
    let error = initialize(json!(["3.0.0"])).await.unwrap_err();
    assert_eq!(
        (&error["code"], &error["data"]["supportedVersions"][0]),
        (&json!(-32005), &json!("1.0.0"))
    );
    assert_eq!(initialize(json!([])).await.unwrap_err()["code"], -32005);
    assert_eq!(initialize(json!(["one"])).await.unwrap_err()["code"], -32602);
}

/// 13–18: initialize.
#[tokio::test]
async fn initialize() {
    let house = house().await;
    let mut client = house.connect().await;
    let params = json!({
        "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "a", "locale": "de",
        "initialSubscriptions": [ROOT, "lodge:/nothing-there"],
    });
    let result = client.request("initialize", params).await.unwrap();
    assert_eq!(result["serverInfo"]["name"], "lodge");
    // What cannot be resolved is left out, not an error.
    assert_eq!(result["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(result["snapshots"][0]["fromSeq"], result["serverSeq"]);
    assert!(result.get("automations").is_none() && result.get("telemetry").is_none());
    let root = &result["snapshots"][0]["state"];
    assert_eq!(root["agents"][0]["provider"], "lodge");
    assert_eq!(root["agents"][0]["models"][0]["id"], "rehearsal");
    // The same client twice, as when a window reloads: both live.
    let mut again = house.client("a").await;
    assert_eq!(client.request("ping", json!({})).await.unwrap(), Value::Null);
    assert_eq!(again.request("ping", json!({})).await.unwrap(), Value::Null);
    let mut nobody = house.connect().await;
    let params = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "" });
    assert_eq!(nobody.code("initialize", params).await, -32602);
}

/// 19–27: subscriptions, snapshots, order.
#[tokio::test]
async fn subscriptions_and_order() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
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
    let mut seqs = Vec::new();
    a.ends(&chat, "t5").await;
    let messages: Vec<Value> = a.drain().await;
    let mut started = false;
    for message in &messages {
        let params = &message["params"];
        if let Some(seq) = params["serverSeq"].as_u64() {
            seqs.push(seq);
        }
        started |= params["action"]["turnId"] == "t5" && params["action"]["type"] == "chat/turnStarted";
        if params["action"]["changes"]["status"] == 8 && params["serverSeq"].as_u64() > seqs.first().copied() {
            assert!(started || params["serverSeq"].as_u64() < Some(seqs[0]) || seqs.len() < 40);
        }
    }
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
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
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
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
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
            json!({ "type": "session/workingDirectorySet", "directory": "file:///" }),
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
            json!({ "type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-01-01T00:00:00Z",
            "message": { "text": "x", "origin": { "kind": "user" }, "model": { "id": "no-such" } } }),
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
        (
            &ROOT.to_owned(),
            json!({ "type": "root/configChanged", "config": { "a": 1 } }),
        ),
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
    assert_eq!(keys, ["model", "mode", "autoApprove"]);
    // A draft is nobody's business until it is used.
    assert!(b.drain().await.is_empty());
    assert_eq!(
        b.request("listSessions", json!({ "channel": ROOT })).await.unwrap()["items"],
        json!([])
    );
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    a.subscribe(&chat).await;
    a.turn(&chat, "t1", "say one").await;
    a.turn(&chat, "t2", "say two").await;
    let added = b.notification("root/sessionAdded").await;
    assert_eq!(added["summary"]["resource"], session);
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
    // Removing is told to all; a draft goes silently.
    assert_eq!(
        a.request("disposeSession", json!({ "channel": session }))
            .await
            .unwrap(),
        Value::Null
    );
    assert_eq!(b.notification("root/sessionRemoved").await["session"], session);
    assert_eq!(a.code("disposeSession", json!({ "channel": session })).await, -32001);
    a.request("createSession", json!({ "channel": "x:/draft" }))
        .await
        .unwrap();
    b.drain().await;
    a.request("disposeSession", json!({ "channel": "x:/draft" }))
        .await
        .unwrap();
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
        json!({ "model": "rehearsal", "mode": "plan", "autoApprove": "default" })
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

/// 62–68: turns.
#[tokio::test]
async fn turns_and_paging() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    a.say(&chat, "t1", "slowly 20 ms, stream 30 chunks").await;
    let part = a.action("chat/responsePart").await;
    let delta = a.action("chat/delta").await;
    assert_eq!(part["action"]["part"]["id"], delta["action"]["partId"]);
    assert!(part["serverSeq"].as_u64() < delta["serverSeq"].as_u64());
    a.refused(&chat, turn_started("t2", "say too early")).await;
    a.ends(&chat, "t1").await;
    let error = a.turn(&chat, "t3", "fail with authentication").await;
    assert_eq!(error["turns"][1]["state"], "error");
    assert_eq!(error["status"], 2);
    let last = error["turns"][1]["responseParts"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(last["kind"], "error");
    assert!(error["turns"][1]["usage"].is_null() || error["turns"][1]["usage"].is_object());
    // Usage of a turn, added up.
    let state = a.turn(&chat, "t4", "report usage 100 in 20 out then say done").await;
    assert!(state["turns"][2]["usage"]["model"].is_string(), "{state:#}");
    // Paging: what is before a window comes as an action, before the response.
    for turn in 5..=9 {
        a.turn(&chat, &format!("t{turn}"), "say x").await;
    }
    let mut b = house.client("b").await;
    let snapshot = b
        .request("subscribe", json!({ "channel": chat, "view": { "turns": 2 } }))
        .await
        .unwrap()["snapshot"]
        .clone();
    let mut mirror = Mirror::default();
    mirror.snapshot(&snapshot);
    let cursor = snapshot["state"]["turnsNextCursor"].clone();
    assert_eq!(
        b.request("fetchTurns", json!({ "channel": chat, "cursor": cursor }))
            .await
            .unwrap(),
        json!({})
    );
    let loaded = b.inbox.pop_front().unwrap()["params"].clone();
    assert_eq!(loaded["action"]["type"], "chat/turnsLoaded");
    mirror.envelope(&loaded);
    assert_eq!(mirror.state(&chat)["turns"].as_array().unwrap().len(), 8);
    assert!(mirror.state(&chat).get("turnsNextCursor").is_none());
    assert_eq!(
        b.code("fetchTurns", json!({ "channel": chat, "cursor": "nonsense" }))
            .await,
        -32602
    );
    assert_eq!(
        b.code("fetchTurns", json!({ "channel": "ahp-chat:/none" })).await,
        -32001
    );
    // A cut beyond somebody's window loads what it names first.
    let mut c = house.client("c").await;
    let snapshot = c
        .request("subscribe", json!({ "channel": chat, "view": { "turns": 1 } }))
        .await
        .unwrap()["snapshot"]
        .clone();
    let mut mirror = Mirror::default();
    mirror.snapshot(&snapshot);
    a.accepted(&chat, json!({ "type": "chat/truncated", "turnId": "t3" }))
        .await;
    for message in c.drain().await {
        if message["method"] == "action" {
            mirror.envelope(&message["params"]);
        }
    }
    let turns: Vec<Value> = mirror.state(&chat)["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["id"].clone())
        .collect();
    assert_eq!(turns, ["t3"]);
    assert_eq!(
        a.turn(&chat, "t10", "what did I say").await["turns"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    a.accepted(&chat, json!({ "type": "chat/truncated" })).await;
    assert_eq!(a.subscribe(&chat).await["state"]["turns"], json!([]));
    assert_eq!(
        a.turn(&chat, "t11", "say fresh").await["turns"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // Attachments that this host cannot honour are refused.
    let mut foreign = turn_started("t12", "look");
    foreign["message"]["attachments"] = json!([{ "type": "chat", "label": "x", "resource": "ahp-chat:/x" }]);
    a.refused(&chat, foreign).await;
    let mut file = turn_started("t13", "say seen");
    std::fs::write(house.work().join("note.txt"), "note").unwrap();
    let uri = lodge_ahp::uri::file(house.work().join("note.txt"));
    file["message"]["attachments"] = json!([{ "type": "resource", "label": "note.txt", "uri": uri }]);
    a.accepted(&chat, file).await;
    a.ends(&chat, "t13").await;
}

/// 69–75: tool calls.
#[tokio::test]
async fn tool_calls() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
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

/// 78–80: queued and steering messages.
#[tokio::test]
async fn queue_and_steering() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    let set = |kind: &str, id: &str, text: &str| json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message(text) });
    // Queued while idle: it starts at once.
    a.accepted(&chat, set("queued", "q1", "slowly 20 ms, stream 100 chunks"))
        .await;
    let removed = a.action("chat/pendingMessageRemoved").await;
    let started = a.action("chat/turnStarted").await;
    assert_eq!(started["action"]["queuedMessageId"], "q1");
    assert!(removed["serverSeq"].as_u64() < started["serverSeq"].as_u64());
    // Queued while busy: it waits, can be reordered and taken back, and starts when its turn comes.
    for id in ["z", "a", "m"] {
        a.accepted(&chat, set("queued", id, "say queued")).await;
    }
    let order = a
        .accepted(&chat, json!({ "type": "chat/queuedMessagesReordered", "order": ["m"] }))
        .await["order"]
        .clone();
    assert_eq!(order, json!(["m", "z", "a"]));
    a.accepted(
        &chat,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "z" }),
    )
    .await;
    a.refused(
        &chat,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "z" }),
    )
    .await;
    // Steering: said into the running turn, as a turn of its own.
    a.accepted(&chat, set("steering", "s1", "say steered")).await;
    a.refused(
        &chat,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "steering", "id": "s1" }),
    )
    .await;
    a.ends(&chat, "a").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let turns: Vec<Value> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["id"].clone())
        .collect();
    assert_eq!(turns, ["q1", "s1", "m", "a"]);
    assert!(state.get("queuedMessages").is_none() && state.get("steeringMessage").is_none());
}

/// 81–82: questions.
#[tokio::test]
async fn input_requests() {
    let house = house().await;
    let mut a = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    a.say(&chat, "t1", "ask \"Which colour?\" choices red, blue").await;
    let request = a.action("chat/inputRequested").await["action"]["request"].clone();
    assert_eq!(request["questions"][0]["kind"], "single-select");
    let id = &request["id"];
    let answer = |value: Value| json!({ "answer": { "state": "submitted", "value": value } });
    let complete = |response: &str, answers: Value| json!({ "type": "chat/inputCompleted", "requestId": id, "response": response, "answers": answers });
    assert_eq!(
        a.action("session/inputNeededSet").await["action"]["request"]["kind"],
        "chatInput"
    );
    a.refused(&chat, complete("accept", json!({}))).await;
    a.refused(
        &chat,
        complete("accept", answer(json!({ "kind": "number", "value": 3 }))),
    )
    .await;
    a.refused(
        &chat,
        json!({ "type": "chat/inputCompleted", "requestId": "none", "response": "cancel" }),
    )
    .await;
    let draft = json!({ "state": "draft", "value": { "kind": "selected", "value": "blue" } });
    a.accepted(
        &chat,
        json!({ "type": "chat/inputAnswerChanged", "requestId": id, "questionId": "answer", "answer": draft }),
    )
    .await;
    a.refused(
        &chat,
        json!({ "type": "chat/inputAnswerChanged", "requestId": id, "questionId": "none", "answer": draft }),
    )
    .await;
    a.accepted(
        &chat,
        complete("accept", answer(json!({ "kind": "selected", "value": "red" }))),
    )
    .await;
    a.refused(&chat, complete("cancel", json!({}))).await;
    a.action("session/inputNeededRemoved").await;
    a.ends(&chat, "t1").await;
    let state = a.subscribe(&chat).await["state"].clone();
    let text = state.to_string();
    assert!(text.contains("red"), "{text}");
    assert!(a.subscribe(&session).await["state"].get("inputNeeded").is_none());
    // A question that nobody answered stays in the cancelled turn as it was.
    a.say(&chat, "t2", "ask \"Anything?\"").await;
    a.action("chat/inputRequested").await;
    a.accepted(
        &chat,
        json!({ "type": "chat/turnCancelled", "turnId": "t2", "duration": 5 }),
    )
    .await;
    let state = a.subscribe(&chat).await["state"].clone();
    let part = state["turns"][1]["responseParts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["kind"] == "inputRequest")
        .cloned();
    assert!(part.unwrap().get("response").is_none());
}

/// 83–87: files.
#[tokio::test]
async fn resources() {
    let house = house().await;
    let mut a = house.client("a").await;
    let uri = |name: &str| lodge_ahp::uri::file(house.work().join(name));
    let write = |extra: Value| {
        let mut params = json!({ "channel": ROOT, "uri": uri("a/f"), "data": "abc", "encoding": "utf-8" });
        for (key, value) in extra.as_object().unwrap() {
            params[key] = value.clone();
        }
        params
    };
    assert_eq!(a.code("resourceWrite", write(json!({}))).await, -32008);
    a.request("resourceMkdir", json!({ "channel": ROOT, "uri": uri("a/b/c") }))
        .await
        .unwrap();
    a.request("resourceMkdir", json!({ "channel": ROOT, "uri": uri("a/b/c") }))
        .await
        .unwrap();
    a.request("resourceWrite", write(json!({ "createOnly": true })))
        .await
        .unwrap();
    assert_eq!(
        a.code("resourceWrite", write(json!({ "createOnly": true }))).await,
        -32010
    );
    a.request("resourceWrite", write(json!({ "mode": "append" })))
        .await
        .unwrap();
    a.request(
        "resourceWrite",
        write(json!({ "mode": "insert", "position": 1, "data": "-" })),
    )
    .await
    .unwrap();
    let read = a
        .request(
            "resourceRead",
            json!({ "channel": ROOT, "uri": uri("a/f"), "encoding": "base64" }),
        )
        .await
        .unwrap();
    assert_eq!(read, json!({ "data": "YS1iY2FiYw==", "encoding": "base64" }));
    let facts = a
        .request("resourceResolve", json!({ "channel": ROOT, "uri": uri("a/f") }))
        .await
        .unwrap();
    assert_eq!((&facts["type"], &facts["size"]), (&json!("file"), &json!(7)));
    a.request("resourceWrite", write(json!({ "ifMatch": facts["etag"] })))
        .await
        .unwrap();
    assert_eq!(
        a.code("resourceWrite", write(json!({ "ifMatch": "other" }))).await,
        -32011
    );
    assert_eq!(
        a.code("resourceMkdir", json!({ "channel": ROOT, "uri": uri("a/f") }))
            .await,
        -32010
    );
    assert_eq!(
        a.code("resourceResolve", json!({ "channel": ROOT, "uri": uri("none") }))
            .await,
        -32008
    );
    assert_eq!(
        a.code("resourceDelete", json!({ "channel": ROOT, "uri": uri("a") }))
            .await,
        -32011
    );
    std::os::unix::fs::symlink("/etc", house.work().join("out")).unwrap();
    assert_eq!(
        a.code("resourceRead", json!({ "channel": ROOT, "uri": uri("out/passwd") }))
            .await,
        -32009
    );
    assert_eq!(
        a.code("resourceList", json!({ "channel": ROOT, "uri": "file:///" }))
            .await,
        -32009
    );
    let link = a
        .request(
            "resourceResolve",
            json!({ "channel": ROOT, "uri": uri("out"), "followSymlinks": false }),
        )
        .await
        .unwrap();
    assert_eq!(link["type"], "symlink");
    a.request(
        "resourceDelete",
        json!({ "channel": ROOT, "uri": uri("a"), "recursive": true }),
    )
    .await
    .unwrap();
}

/// 88–98: what this host does not do, it does not pretend to.
#[tokio::test]
async fn what_is_not_there_is_not_advertised() {
    let house = house().await;
    let mut a = house.client("a").await;
    for method in [
        "listAutomationTriggerDefinitions",
        "runAutomation",
        "fetchAutomationRuns",
        "createTcpConnection",
        "shutdown",
    ] {
        assert_eq!(a.code(method, json!({ "channel": ROOT })).await, -32601, "{method}");
    }
    for channel in [
        "ahp-automations://",
        "ahp-terminal:/1",
        "ahp-otlp:logs",
        "mcp://x",
        "ahp-canvas:/1",
    ] {
        assert_eq!(
            a.code("subscribe", json!({ "channel": channel })).await,
            -32001,
            "{channel}"
        );
    }
    let root = a.subscribe(ROOT).await["state"].clone();
    assert!(root.get("terminals").is_none());
    let capabilities = &root["agents"][0]["capabilities"];
    assert_eq!(
        capabilities,
        &json!({ "multipleChats": { "fork": true, "sideChat": true } })
    );
    assert_eq!(
        a.code(
            "authenticate",
            json!({ "channel": ROOT, "resource": "https://x", "token": "t" })
        )
        .await,
        -32602
    );
}

/// 99: what is not idempotent says so.
#[tokio::test]
async fn retries() {
    let house = house().await;
    let mut a = house.client("a").await;
    a.request("createSession", json!({ "channel": "x:/once" }))
        .await
        .unwrap();
    assert_eq!(a.code("createSession", json!({ "channel": "x:/once" })).await, -32003);
}

/// 6, 20: a client that does not read costs others nothing, and comes back to what it missed.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let house = house_with(Limits {
        queue_bytes: 200_000,
        replay_bytes: 50_000,
        ..Limits::default()
    })
    .await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    let mut slow = house.client("slow").await;
    slow.subscribe(&chat).await;
    let state = a.turn(&chat, "t1", "stream 20000 chunks of 800 bytes").await;
    assert_eq!(state["turns"][0]["state"], "complete");
    while slow.read().await.is_some() {}
    let mut back = house.connect().await;
    let params = json!({ "clientId": "slow", "lastSeenServerSeq": slow.last_seq, "subscriptions": [chat] });
    let result = back.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "snapshot");
    assert_eq!(result["snapshots"][0]["state"]["turns"][0]["state"], "complete");
}

/// 65: what is long past is not in memory, and still there for who asks for it, or cuts there.
#[tokio::test]
async fn turns_that_are_long_past_are_still_there() {
    let limits = Limits {
        kept_bytes: 1500,
        window_bytes: 1000,
        ..Limits::default()
    };
    let house = house_with(limits).await;
    let mut a = house.client("a").await;
    let (_, chat) = a.session(&uuid(1)).await;
    for turn in 1..=30 {
        a.say(
            &chat,
            &format!("t{turn}"),
            "say something that is not too short to count",
        )
        .await;
        a.ends(&chat, &format!("t{turn}")).await;
    }
    let mut b = house.client("b").await;
    let snapshot = b.subscribe(&chat).await;
    let mut mirror = Mirror::default();
    mirror.snapshot(&snapshot);
    assert!(snapshot["state"]["turns"].as_array().unwrap().len() < 10);
    while let Some(cursor) = mirror.state(&chat)["turnsNextCursor"].as_str().map(str::to_owned) {
        b.request("fetchTurns", json!({ "channel": chat, "cursor": cursor }))
            .await
            .unwrap();
        for message in b.inbox.drain(..) {
            mirror.envelope(&message["params"]);
        }
    }
    let turns = mirror.state(&chat)["turns"].clone();
    let ids: Vec<String> = turns
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, (1..=30).map(|turn| format!("t{turn}")).collect::<Vec<_>>());
    assert!(
        turns[0]["responseParts"][0]["content"]
            .as_str()
            .unwrap()
            .contains("too short")
    );
    // Forgotten again by the next turn, and still there to cut to.
    a.turn(&chat, "t31", "say one more").await;
    a.accepted(&chat, json!({ "type": "chat/truncated", "turnId": "t3" }))
        .await;
    for message in b.drain().await {
        if message["method"] == "action" {
            mirror.envelope(&message["params"]);
        }
    }
    assert_eq!(mirror.state(&chat)["turns"].as_array().unwrap().len(), 3);
    assert_eq!(
        a.turn(&chat, "t32", "say again").await["turns"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["id"],
        "t32"
    );
}
