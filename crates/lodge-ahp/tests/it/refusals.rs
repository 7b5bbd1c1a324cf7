//! Requests that say something that cannot be: each is refused with the code and the words of its dialect, and nothing of it is done.

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
    let table = [
        ("fetchTurns", with(turns.clone(), "limit", json!(-1)), -32602),
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
async fn a_client_that_comes_says_what_it_means() {
    let house = house().await;
    for locale in [
        json!(7),
        json!(""),
        json!("en_US"),
        json!("-"),
        json!("englishlanguage"),
    ] {
        let mut client = house.connect().await;
        let hello = json!({ "protocolVersions": ["0.1.0"], "clientId": "c", "locale": locale });
        assert_eq!(client.code("initialize", hello).await, -32602, "{locale}");
    }
    for locale in ["en", "ja", "en-US", "zh-Hant-TW", "de-CH-1996"] {
        let mut client = house.connect().await;
        let hello = json!({ "protocolVersions": ["0.1.0"], "clientId": "c", "locale": locale });
        client.request("initialize", hello).await.unwrap();
    }
    let back = json!({ "clientId": "c", "lastSeenServerSeq": 0 });
    assert_eq!(house.connect().await.code("reconnect", back.clone()).await, -32602);
    // Go writes an empty list so.
    let back = with(back, "subscriptions", Value::Null);
    house.connect().await.request("reconnect", back).await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection_with_a_reason() {
    let house = house().await;
    let mut client = house.client("a").await;
    let write = json!({ "channel": ROOT, "uri": "file:///x", "data": "x".repeat(17 << 20), "encoding": "utf-8" });
    client.start("resourceWrite", write).await;
    assert_eq!(client.close_code().await, Some(1009));
    // Everybody else goes on.
    house.client("b").await;
}
