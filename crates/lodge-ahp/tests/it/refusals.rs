//! Requests that say something that cannot be: each is refused with the code and the words of its dialect, and nothing of it is done.

use lodge_ahp::Limits;
use serde_json::{Value, json};

use crate::kit::*;

fn with(mut params: Value, key: &str, value: Value) -> Value {
    params[key] = value;
    params
}

#[tokio::test]
async fn what_a_request_cannot_mean_is_refused_and_not_ignored() {
    let house = house().await;
    std::fs::write(house.work().join("f"), "x").unwrap();
    let file = lodge_ahp::uri::file(house.work().join("f"));
    let mut old = house.client_of("old", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    old.request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    let turns = json!({ "session": session });
    let text = json!({ "kind": "userMessage", "session": session, "text": "@f", "offset": 2 });
    let write = json!({ "uri": file, "data": "y", "encoding": "utf-8" });
    let create = json!({ "session": format!("copilot:/{}", uuid(2)) });
    let terminal = json!({ "terminal": "ahp-terminal:/t", "claim": { "kind": "client", "clientId": "old" } });
    let table = [
        ("fetchTurns", with(turns.clone(), "limit", json!(-1)), -32602),
        ("fetchTurns", with(turns.clone(), "limit", json!(0)), -32602),
        ("fetchTurns", with(turns.clone(), "limit", json!(1.5)), -32602),
        ("fetchTurns", with(turns.clone(), "limit", json!("2")), -32602),
        ("listSessions", json!({ "limit": -1 }), -32602),
        ("listSessions", json!({ "limit": 0 }), -32602),
        ("listSessions", json!({ "limit": 0.5 }), -32602),
        ("listSessions", json!({ "filter": "all" }), -32602),
        ("completions", with(text.clone(), "offset", json!(-1)), -32602),
        ("completions", with(text.clone(), "offset", json!(0.5)), -32602),
        (
            "completions",
            with(text.clone(), "session", json!("copilot:/none")),
            -32001,
        ),
        ("resourceRead", json!({ "uri": file, "encoding": "utf-16" }), -32602),
        ("resourceRead", json!({ "uri": file, "encoding": 8 }), -32602),
        (
            "resourceWrite",
            with(write.clone(), "encoding", json!("latin-1")),
            -32602,
        ),
        ("resourceWrite", with(write.clone(), "contentType", json!(7)), -32602),
        ("createSession", with(create.clone(), "config", json!("plan")), -32602),
        (
            "createSession",
            with(create.clone(), "config", json!({ "mode": 7 })),
            -32602,
        ),
        (
            "createSession",
            with(create.clone(), "config", json!({ "autoApprove": true })),
            -32602,
        ),
        (
            "createSession",
            with(create.clone(), "config", json!({ "model": [] })),
            -32602,
        ),
        (
            "createSession",
            json!({ "session": format!("{session}/changeset/session") }),
            -32602,
        ),
        (
            "createSession",
            json!({ "session": format!("{session}/changeset/turn/t1") }),
            -32602,
        ),
        (
            "createSession",
            json!({ "session": format!("{session}/content/a-0") }),
            -32602,
        ),
        (
            "createSession",
            json!({ "session": format!("{session}/annotations") }),
            -32602,
        ),
        ("createSession", json!({ "session": "ahp-terminal:/x" }), -32602),
        ("createSession", json!({ "session": "ahp-resource-watch:/x" }), -32602),
        ("createSession", json!({ "session": "AHP-Chat:/x" }), -32602),
        ("createSession", json!({ "session": "virtual://old/x" }), -32602),
        ("createSession", json!({ "session": "ahp-canvas:/x" }), -32602),
        ("createSession", json!({ "session": "mcp://x" }), -32602),
        ("createSession", json!({ "session": "copilot:/" }), -32602),
        ("createSession", json!({ "session": "copilot:/a b" }), -32602),
        ("createSession", json!(["copilot:/x"]), -32602),
        (
            "createSession",
            with(create.clone(), "model", json!("rehearsal")),
            -32602,
        ),
        (
            "createSession",
            with(create.clone(), "model", json!(["rehearsal"])),
            -32602,
        ),
        (
            "createSession",
            with(create.clone(), "model", json!({ "id": "rehearsal", "config": 5 })),
            -32602,
        ),
        (
            "createSession",
            with(create.clone(), "fork", json!([session, "t1"])),
            -32602,
        ),
        ("listSessions", json!([]), -32602),
        (
            "completions",
            json!({ "session": session, "text": "@f", "offset": 2 }),
            -32602,
        ),
        ("resolveSessionConfig", json!({ "config": { "mode": 7 } }), -32602),
        (
            "sessionConfigCompletions",
            json!({ "property": "mode", "config": { "branch": [] } }),
            -32602,
        ),
        ("createTerminal", with(terminal.clone(), "cols", json!(80.5)), -32602),
        ("createTerminal", with(terminal.clone(), "rows", json!(-1)), -32602),
        ("authenticate", json!({ "resource": "https://api.github.com" }), -32602),
    ];
    for (method, params, expected) in table {
        let error = match old.request(method, params.clone()).await {
            Err(error) => error,
            Ok(result) => panic!("{method} {params} went well: {result}"),
        };
        assert_eq!(error["code"], expected, "{method} {params}: {error}");
        // Version 0.1.0 knows neither channels nor chats.
        let words = error["message"].as_str().unwrap();
        assert!(
            !words.contains("channel") && !words.contains("chat "),
            "{method}: {words}"
        );
    }
    assert_eq!(std::fs::read_to_string(house.work().join("f")).unwrap(), "x");
    let listed = old.request("listSessions", json!({})).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test]
async fn later_versions_refuse_what_a_request_cannot_mean_too() {
    for version in ["1.0.0", "0.9.0"] {
        let house = house().await;
        std::fs::write(house.work().join("f"), "x").unwrap();
        let file = lodge_ahp::uri::file(house.work().join("f"));
        let mut client = house.client_of("new", version).await;
        let (session, chat) = client.session(&uuid(1)).await;
        let text = json!({ "channel": chat, "kind": "userMessage", "text": "@f", "offset": 2 });
        let read = json!({ "channel": ROOT, "uri": file });
        let write = with(with(read.clone(), "data", json!("y")), "encoding", json!("utf-8"));
        let create = json!({ "channel": format!("copilot:/{}", uuid(2)) });
        let claim = json!({ "kind": "client", "clientId": "new" });
        let terminal = json!({ "channel": "ahp-terminal:/t", "claim": claim });
        let table = [
            ("fetchTurns", json!({ "channel": chat, "cursor": 5 }), -32602),
            ("fetchTurns", json!({ "channel": chat, "cursor": "of nobody" }), -32602),
            ("fetchTurns", json!({ "channel": "ahp-chat:/none" }), -32001),
            ("listSessions", json!({ "channel": ROOT, "limit": -1 }), -32602),
            ("listSessions", json!({ "channel": ROOT, "limit": 0 }), -32602),
            ("listSessions", json!({ "channel": ROOT, "limit": 0.5 }), -32602),
            ("completions", with(text.clone(), "offset", json!(-1)), -32602),
            ("completions", with(text.clone(), "offset", json!(0.5)), -32602),
            (
                "completions",
                with(text.clone(), "channel", json!("ahp-chat:/none")),
                -32001,
            ),
            ("resourceRead", with(read.clone(), "encoding", json!("utf-16")), -32602),
            ("resourceRead", with(read.clone(), "encoding", json!(8)), -32602),
            (
                "resourceWrite",
                with(write.clone(), "encoding", json!("latin-1")),
                -32602,
            ),
            ("resourceWrite", with(write.clone(), "contentType", json!(7)), -32602),
            ("createSession", with(create.clone(), "config", json!("plan")), -32602),
            (
                "createSession",
                with(create.clone(), "config", json!({ "mode": 7 })),
                -32602,
            ),
            (
                "createSession",
                with(create.clone(), "config", json!({ "autoApprove": true })),
                -32602,
            ),
            (
                "createSession",
                with(create.clone(), "config", json!({ "model": [] })),
                -32602,
            ),
            (
                "createSession",
                json!({ "channel": format!("{session}/changeset/session") }),
                -32602,
            ),
            (
                "createSession",
                json!({ "channel": format!("{session}/content/a-0") }),
                -32602,
            ),
            (
                "createSession",
                json!({ "channel": format!("{session}/annotations") }),
                -32602,
            ),
            ("createSession", json!({ "channel": "ahp-terminal:/x" }), -32602),
            ("createSession", json!({ "channel": "AHP-Chat:/x" }), -32602),
            ("createSession", json!({ "channel": "virtual://new/x" }), -32602),
            ("createSession", json!({ "channel": "copilot:/" }), -32602),
            ("createSession", json!(["copilot:/x"]), -32602),
            (
                "resolveSessionConfig",
                json!({ "channel": ROOT, "config": { "mode": 7 } }),
                -32602,
            ),
            ("createTerminal", with(terminal.clone(), "cols", json!(80.5)), -32602),
            ("createTerminal", with(terminal.clone(), "rows", json!(-1)), -32602),
        ];
        for (method, params, expected) in table {
            let error = match client.request(method, params.clone()).await {
                Err(error) => error,
                Ok(result) => panic!("{version} {method} {params} went well: {result}"),
            };
            assert_eq!(error["code"], expected, "{version} {method} {params}: {error}");
        }
        assert_eq!(std::fs::read_to_string(house.work().join("f")).unwrap(), "x");
        let listed = client
            .request("listSessions", json!({ "channel": ROOT }))
            .await
            .unwrap();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{version}: {listed}");
    }
}

#[tokio::test]
async fn a_client_that_comes_says_what_it_means() {
    for version in ["1.0.0", "0.9.0", "0.1.0"] {
        let house = house().await;
        let hello = |locale: Value| json!({ "channel": ROOT, "protocolVersions": [version], "clientId": "c", "locale": locale });
        for locale in [
            json!(7),
            json!(""),
            json!("en_US"),
            json!("-"),
            json!("englishlanguage"),
        ] {
            let mut client = house.connect().await;
            assert_eq!(
                client.code("initialize", hello(locale.clone())).await,
                -32602,
                "{locale}"
            );
        }
        for locale in ["en", "ja", "en-US", "zh-Hant-TW", "de-CH-1996"] {
            let mut client = house.connect().await;
            client.request("initialize", hello(json!(locale))).await.unwrap();
        }
        // It is kept with what is known of the client.
        let known = house.host.marks().client("c").unwrap();
        assert_eq!(known.locale.as_deref(), Some("de-CH-1996"));
        let back = json!({ "channel": ROOT, "clientId": "c", "lastSeenServerSeq": 0 });
        assert_eq!(
            house.connect().await.code("reconnect", back.clone()).await,
            -32602,
            "{version}"
        );
        // Go writes an empty list so.
        let back = with(back, "subscriptions", Value::Null);
        house.connect().await.request("reconnect", back).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_wrong_is_named_with_its_place() {
    let house = house().await;
    let mut client = house.client("a").await;
    for (method, params, expected) in [
        (
            "createSession",
            json!({ "channel": 5 }),
            "channel: invalid type: integer `5`, expected a string",
        ),
        ("createSession", json!([]), "params must be an object"),
        (
            "createSession",
            json!({ "channel": "ahp-terminal:/x" }),
            "a session cannot use the scheme ahp-terminal: choose another",
        ),
        (
            "createSession",
            json!({ "channel": "x:/1/changeset/session" }),
            "x:/1/changeset/session is reserved for parts of a session: choose another URI",
        ),
        (
            "createSession",
            json!({ "channel": "mine" }),
            "a session needs a URI of its own, such as \"copilot:/<uuid>\"",
        ),
        ("resourceRead", json!({ "channel": ROOT }), "missing field `uri`"),
        (
            "subscribe",
            json!({ "channel": ROOT, "view": { "turns": 1e300 } }),
            "view: 1e300 is not a whole number of 0 or more",
        ),
    ] {
        let error = client.request(method, params).await.unwrap_err();
        assert_eq!(error["message"], expected);
    }
}

/// A client of 0.1.0 is told of the action that it dispatched, not of what that is called today.
#[tokio::test]
async fn actions_are_refused_in_the_words_of_their_dialect() {
    let house = house().await;
    let mut old = house.client_of("old", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    old.request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    old.request("subscribe", json!({ "resource": session })).await.unwrap();
    let text = json!({ "text": "x" });
    for action in [
        json!({ "type": "session/turnStarted" }),
        json!({ "type": "session/turnStarted", "turnId": 5, "userMessage": text }),
        json!({ "type": "session/turnStarted", "turnId": "t", "userMessage": "x" }),
        json!({ "type": "session/turnStarted", "turnId": "t", "userMessage": { "text": 5 } }),
        json!({ "type": "session/turnCancelled" }),
        json!({ "type": "session/turnCancelled", "turnId": "none" }),
        json!({ "type": "session/permissionResolved" }),
        json!({ "type": "session/permissionResolved", "turnId": "t", "requestId": "r", "approved": true }),
        json!({ "type": "session/toolCallConfirmed", "turnId": "t", "toolCallId": "c", "approved": "yes" }),
        json!({ "type": "session/pendingMessageSet", "kind": "x", "id": "1", "userMessage": text }),
        json!({ "type": "session/pendingMessageRemoved", "kind": "queued", "id": "none" }),
        json!({ "type": "session/inputCompleted", "requestId": "none", "response": "accept" }),
        json!({ "type": "session/truncated", "turnId": "none" }),
        json!({ "type": "session/modelChanged", "model": { "id": 5 } }),
        json!({ "type": "session/titleChanged", "title": 5 }),
        json!({ "type": "session/bogus" }),
        json!({ "type": "chat/turnStarted" }),
    ] {
        let dispatched = with(action.clone(), "session", json!(session));
        let seq = old.dispatch_seed(dispatched.clone()).await;
        let answer = old.verdict(seq).await;
        let reason = answer["rejectionReason"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let own = action["type"] == "chat/turnStarted";
        assert!(own || !reason.contains("chat"), "{action}: {reason}");
        assert!(!reason.contains("channel"), "{action}: {reason}");
        assert_eq!(answer["action"], dispatched);
    }
}

/// Contents have one bound in both directions. What is beyond it is refused under its request; a message that can be no such
/// request is not read to its end.
#[tokio::test]
async fn what_is_too_large_is_refused_with_a_reason_in_both_directions() {
    const MOST: usize = 4 << 20;
    let house = house_with(Limits {
        resource_bytes: MOST as u64,
        frame_bytes: 1 << 20,
        ..Limits::default()
    })
    .await;
    let uri = lodge_ahp::uri::file(house.work().join("large"));
    for version in ["1.0.0", "0.1.0"] {
        let mut client = house.client_of(version, version).await;
        let write =
            |bytes: usize| json!({ "channel": ROOT, "uri": uri, "data": "x".repeat(bytes), "encoding": "utf-8" });
        client.request("resourceWrite", write(MOST)).await.unwrap();
        let read = json!({ "channel": ROOT, "uri": uri, "encoding": "base64" });
        let back = client.request("resourceRead", read.clone()).await.unwrap();
        let again = json!({ "channel": ROOT, "uri": uri, "data": back["data"], "encoding": "base64" });
        client.request("resourceWrite", again).await.unwrap();
        let error = client.request("resourceWrite", write(MOST + 1)).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        std::fs::write(house.work().join("large"), vec![b'x'; MOST + 1]).unwrap();
        assert_eq!(client.code("resourceRead", read).await, -32602);
        client.start("resourceWrite", write(2 * MOST)).await;
        assert_eq!(client.close_code().await, Some(1009));
    }
    // Everybody else goes on.
    house.client("b").await;
}

/// Clients in Go write `null` for what they have nothing to say about.
#[tokio::test]
async fn null_is_as_good_as_nothing_where_something_may_be_left_out() {
    let house = house().await;
    let mut a = house.connect().await;
    let hello = json!({
        "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "a", "initialSubscriptions": null,
        "clientInfo": { "name": null }, "locale": null,
    });
    a.request("initialize", hello).await.unwrap();
    let session = format!("lodge:/{}", uuid(1));
    let create = json!({
        "channel": session, "provider": null, "workingDirectories": null, "config": null, "activeClient": null,
        "_meta": null,
    });
    a.request("createSession", create).await.unwrap();
    let meta = json!({ "channel": format!("lodge:/{}", uuid(2)), "_meta": { "lodge.environment": null } });
    a.request("createSession", meta).await.unwrap();
    let chat = a.subscribe(&session).await["state"]["defaultChat"]
        .as_str()
        .unwrap()
        .to_owned();
    a.subscribe(&chat).await;
    a.turn(&chat, "t1", "say hello").await;
    let chat = json!({
        "channel": session, "chat": "ahp-chat:/other", "title": null, "initialMessage": null, "source": null,
        "workingDirectories": null,
    });
    a.request("createChat", chat).await.unwrap();
}
