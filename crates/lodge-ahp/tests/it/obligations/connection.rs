//! 1–18: framing, versions, initialize.

use lodge_ahp::Limits;
use serde_json::{Value, json};

use crate::kit::*;

/// 1–8: framing, ids, errors, limits.
#[tokio::test]
async fn transport_and_json_rpc() {
    let house = house_with(Limits {
        json_depth: 16,
        waiting_bytes: 1000,
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
        // What VS Code offers: up to 1.139, from 1.0 of the protocol on, and a next one.
        (json!(["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"]), "0.9.0"),
        (json!(["1.0.0", "0.9.0"]), "1.0.0"),
        (json!(["1.1.0", "1.0.0", "0.9.0"]), "1.1.0"),
        (json!(["2.0.0", "1.1.0"]), "1.1.0"),
        (json!(["0.1.0", "0.9.0"]), "0.9.0"),
        (json!(["0.1.0"]), "0.1.0"),
    ] {
        assert_eq!(initialize(offered).await.unwrap()["protocolVersion"], chosen);
    }
    // An editor shows these words to its person: they say what to do.
    for (offered, advice) in [
        (
            json!(["3.0.0"]),
            "Update Lodge on this machine, or use an older client.",
        ),
        (json!(["0.8.0", "0.7.0"]), "Update the client."),
    ] {
        let error = initialize(offered).await.unwrap_err();
        assert_eq!(
            (&error["code"], &error["data"]["supportedVersions"][0]),
            (&json!(-32005), &json!("1.0.0"))
        );
        assert!(error["message"].as_str().unwrap().ends_with(advice), "{error}");
    }
    // And then there is nothing more to say.
    let mut stranger = house.connect().await;
    let params = json!({ "channel": ROOT, "protocolVersions": ["3.0.0"], "clientId": "v" });
    assert_eq!(stranger.code("initialize", params).await, -32005);
    assert!(stranger.read().await.is_none());
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
    let automations = json!({ "create": {}, "schedules": {}, "runCancellation": {}, "runHistoryLimit": 50 });
    assert_eq!(result["automations"], automations);
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
    assert_eq!(house.host.metrics().counts().dropped_clients, 1);
    let mut back = house.connect().await;
    let params = json!({ "clientId": "slow", "lastSeenServerSeq": slow.last_seq, "subscriptions": [chat] });
    let result = back.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "snapshot");
    assert_eq!(result["snapshots"][0]["state"]["turns"][0]["state"], "complete");
}
