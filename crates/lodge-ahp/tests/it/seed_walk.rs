//! The seed's document of commands, walked from its first line to its last, over a raw socket.

use serde_json::{Value, json};

use crate::kit::*;

async fn turn(client: &mut Client, session: &str, turn: &str, text: &str) {
    let action =
        json!({ "type": "session/turnStarted", "session": session, "turnId": turn, "userMessage": { "text": text } });
    client.dispatch_seed(action).await;
    client
        .until(|message| {
            message["params"]["action"]["type"] == "session/turnComplete"
                && message["params"]["action"]["turnId"] == turn
        })
        .await;
}

#[tokio::test]
async fn initialize() {
    let house = house().await;
    let mut client = house.connect().await;
    // "The server selects one entry … If it cannot speak any of the offered versions, it MUST return -32005."
    let result = client
        .request(
            "initialize",
            json!({ "protocolVersions": ["0.1.0"], "clientId": "seed", "initialSubscriptions": [SEED_ROOT], "locale": "en-US" }),
        )
        .await
        .unwrap();
    assert_eq!(result["protocolVersion"], "0.1.0");
    assert!(result["serverSeq"].is_u64());
    assert_eq!(result["snapshots"][0]["resource"], SEED_ROOT);
    assert_eq!(result["snapshots"][0]["state"]["agents"][0]["provider"], "lodge");
    assert!(
        result["snapshots"][0]["state"]["agents"][0]
            .get("capabilities")
            .is_none()
    );
    assert!(result["defaultDirectory"].as_str().unwrap().starts_with("file:///"));
    assert!(
        result["completionTriggerCharacters"]
            .as_array()
            .unwrap()
            .contains(&json!("/"))
    );

    let mut other = house.connect().await;
    let error = other
        .request("initialize", json!({ "protocolVersions": ["0.2.0"], "clientId": "x" }))
        .await
        .unwrap_err();
    assert_eq!(error["code"], -32005);
    assert_eq!(error["data"]["supportedVersions"], json!(["1.0.0", "0.9.0", "0.1.0"]));
    assert_eq!(other.close_code().await, Some(1002));

    // Before versions were text there was the number 1.
    let mut oldest = house.connect().await;
    let result = oldest
        .request("initialize", json!({ "protocolVersion": 1, "clientId": "oldest" }))
        .await
        .unwrap();
    assert_eq!(result["protocolVersion"], 1);
}

#[tokio::test]
async fn reconnect() {
    let house = house().await;
    let mut client = house.client_of("seed", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    client
        .request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    client
        .request("subscribe", json!({ "resource": session }))
        .await
        .unwrap();
    client.drain().await;
    let seen = client.last_seq;
    turn(&mut client, &session, "t1", "say one").await;
    drop(client);

    // "Result (replay): when the server can replay from the requested sequence."
    let mut back = house.connect().await;
    let gone = "copilot:/never-was-there";
    let params = json!({ "clientId": "seed", "lastSeenServerSeq": seen, "subscriptions": [SEED_ROOT, session, gone] });
    let result = back.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "replay");
    assert_eq!(result["missing"], json!([gone]));
    let actions = result["actions"].as_array().unwrap();
    let types: Vec<&str> = actions
        .iter()
        .map(|envelope| envelope["action"]["type"].as_str().unwrap())
        .collect();
    assert_eq!(types.first(), Some(&"session/turnStarted"));
    assert!(types.contains(&"session/turnComplete"), "{types:?}");
    assert!(actions.iter().all(|envelope| envelope.get("channel").is_none()));
    let seqs: Vec<u64> = actions
        .iter()
        .map(|envelope| envelope["serverSeq"].as_u64().unwrap())
        .collect();
    assert!(seqs.is_sorted() && seqs[0] > seen);
    drop(back);

    // "Result (snapshot): when the gap exceeds the replay buffer."
    let mut late = house.connect().await;
    let params = json!({ "clientId": "seed", "lastSeenServerSeq": 0, "subscriptions": [session] });
    let result = late.request("reconnect", params).await.unwrap();
    assert_eq!(result["type"], "snapshot");
    assert_eq!(result["snapshots"][0]["state"]["turns"][0]["id"], "t1");
}

#[tokio::test]
async fn create_session_and_dispose_session() {
    let house = house().await;
    let mut client = house.client_of("seed", "0.1.0").await;
    let mut other = house.client_of("other", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    let directory = lodge_ahp::uri::file(house.work());
    // "Result: null on success."
    let result = client
        .request(
            "createSession",
            json!({
                "session": session,
                "provider": "lodge",
                "model": { "id": "rehearsal" },
                "workingDirectory": directory,
                "config": { "mode": "interactive" },
                "activeClient": { "clientId": "seed", "tools": [] },
            }),
        )
        .await
        .unwrap();
    assert_eq!(result, Value::Null);
    let added = other.notification("notification").await["notification"].clone();
    assert_eq!(added["type"], "notify/sessionAdded");
    assert_eq!(added["summary"]["resource"], session.as_str());
    assert_eq!(added["summary"]["workingDirectory"], directory.as_str());
    assert!(added["summary"]["createdAt"].is_i64());
    let state = client
        .request("subscribe", json!({ "resource": session }))
        .await
        .unwrap()["snapshot"]["state"]
        .clone();
    assert_eq!(state["lifecycle"], "ready");
    assert_eq!(state["activeClient"]["clientId"], "seed");
    assert_eq!(state["summary"]["model"]["id"], "rehearsal");
    assert_eq!(state["turns"], json!([]));

    assert_eq!(
        client.code("createSession", json!({ "session": session })).await,
        -32003
    );
    assert_eq!(
        client
            .code("createSession", json!({ "session": "x:/1", "provider": "nobody" }))
            .await,
        -32002
    );
    let wrong = json!({ "session": "x:/2", "activeClient": { "clientId": "somebody else", "tools": [] } });
    assert_eq!(client.code("createSession", wrong).await, -32602);

    // "fork: the new session is populated with content from the source session up to and including the turn."
    turn(&mut client, &session, "t1", "say one").await;
    turn(&mut client, &session, "t2", "say two").await;
    let fork = format!("copilot:/{}", uuid(2));
    let params = json!({ "session": fork, "fork": { "session": session, "turnId": "t1" } });
    assert_eq!(client.request("createSession", params).await.unwrap(), Value::Null);
    let state = client.request("subscribe", json!({ "resource": fork })).await.unwrap()["snapshot"]["state"].clone();
    let turns: Vec<_> = state["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["id"].clone())
        .collect();
    assert_eq!(turns, ["t1"]);
    turn(&mut client, &fork, "t3", "say three").await;
    let bad = json!({ "session": "copilot:/bad", "fork": { "session": session, "turnId": "t9" } });
    assert_eq!(client.code("createSession", bad).await, -32602);

    // "The server broadcasts a notify/sessionRemoved notification to all clients."
    assert_eq!(
        client
            .request("disposeSession", json!({ "session": session }))
            .await
            .unwrap(),
        Value::Null
    );
    let removed = other
        .until(|message| message["params"]["notification"]["type"] == "notify/sessionRemoved")
        .await["params"]["notification"]
        .clone();
    assert_eq!(removed["session"], session.as_str());
    assert_eq!(
        client.code("disposeSession", json!({ "session": session })).await,
        -32001
    );
    assert_eq!(client.code("subscribe", json!({ "resource": session })).await, -32001);
}

#[tokio::test]
async fn list_sessions() {
    let house = house().await;
    let mut client = house.client_of("seed", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    client
        .request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    let listed = client.request("listSessions", json!({ "filter": {} })).await.unwrap();
    assert_eq!(listed["items"][0]["resource"], session.as_str());
    client
        .request("subscribe", json!({ "resource": session }))
        .await
        .unwrap();
    turn(&mut client, &session, "t1", "say one").await;
    let listed = client.request("listSessions", json!({})).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(listed["items"][0]["resource"], session.as_str());
    assert!(listed["items"][0]["modifiedAt"].is_i64());
    assert_eq!(listed["items"][0]["model"], json!({ "id": "rehearsal" }));
}

#[tokio::test]
async fn resources() {
    let house = house().await;
    let mut client = house.client_of("seed", "0.1.0").await;
    let uri = |name: &str| lodge_ahp::uri::file(house.work().join(name));
    let ok = json!({});
    // "resourceWrite … { "uri": …, "data": "SGVsbG8=", "encoding": "base64", "contentType": "text/plain" }"
    let write =
        json!({ "uri": uri("hello.txt"), "data": "SGVsbG8=", "encoding": "base64", "contentType": "text/plain" });
    assert_eq!(client.request("resourceWrite", write.clone()).await.unwrap(), ok);
    let mut only = write;
    only["createOnly"] = true.into();
    assert_eq!(client.code("resourceWrite", only).await, -32010);
    let read = client
        .request("resourceRead", json!({ "uri": uri("hello.txt") }))
        .await
        .unwrap();
    assert_eq!(
        read,
        json!({ "data": "Hello", "encoding": "utf-8", "contentType": "text/plain" })
    );
    std::fs::write(house.work().join("img.png"), [0x89, b'P', 0xff]).unwrap();
    let read = client
        .request("resourceRead", json!({ "uri": uri("img.png") }))
        .await
        .unwrap();
    assert_eq!(
        read,
        json!({ "data": "iVD/", "encoding": "base64", "contentType": "image/png" })
    );
    assert_eq!(
        client
            .code(
                "resourceRead",
                json!({ "uri": format!("copilot:/{}/content/img-1", uuid(1)) })
            )
            .await,
        -32006
    );
    assert_eq!(client.code("resourceRead", json!({ "uri": uri("none") })).await, -32006);

    let copy = json!({ "source": uri("hello.txt"), "destination": uri("copy.txt"), "failIfExists": true });
    assert_eq!(client.request("resourceCopy", copy.clone()).await.unwrap(), ok);
    assert_eq!(client.code("resourceCopy", copy).await, -32010);
    let rename = json!({ "source": uri("copy.txt"), "destination": uri("moved.txt") });
    assert_eq!(client.request("resourceMove", rename).await.unwrap(), ok);
    let listed = client.request("resourceList", json!({ "uri": uri("") })).await.unwrap();
    let names: Vec<_> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].clone())
        .collect();
    assert_eq!(names, ["hello.txt", "img.png", "moved.txt"]);
    assert_eq!(
        client.code("resourceList", json!({ "uri": uri("hello.txt") })).await,
        -32602
    );
    std::fs::create_dir_all(house.work().join("full/er")).unwrap();
    assert_eq!(
        client.code("resourceDelete", json!({ "uri": uri("full") })).await,
        -32011
    );
    assert_eq!(
        client
            .request("resourceDelete", json!({ "uri": uri("full"), "recursive": true }))
            .await
            .unwrap(),
        ok
    );
    assert_eq!(
        client
            .request("resourceDelete", json!({ "uri": uri("moved.txt") }))
            .await
            .unwrap(),
        ok
    );

    assert_eq!(
        client
            .request("resourceRequest", json!({ "uri": uri("hello.txt"), "write": true }))
            .await
            .unwrap(),
        ok
    );
    let denied = client
        .request("resourceRequest", json!({ "uri": "file:///etc/passwd" }))
        .await
        .unwrap_err();
    assert_eq!(denied["code"], -32009);
    assert_eq!(denied["data"]["request"]["uri"], "file:///etc/passwd");
    assert_eq!(denied["data"]["request"]["read"], true);
    assert_eq!(
        client
            .code("resourceRead", json!({ "uri": "file:///etc/passwd" }))
            .await,
        -32009
    );
}

#[tokio::test]
async fn fetch_turns() {
    let house = house().await;
    let mut client = house.client_of("seed", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    client
        .request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    client
        .request("subscribe", json!({ "resource": session }))
        .await
        .unwrap();
    for number in 1..=3 {
        turn(&mut client, &session, &format!("t{number}"), "say x").await;
    }
    // "Client → Server (fetch the most recent turns)"
    let page = client
        .request("fetchTurns", json!({ "session": session, "limit": 2 }))
        .await
        .unwrap();
    let ids = |page: &Value| {
        page["turns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|turn| turn["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&page), ["t2", "t3"]);
    assert_eq!(page["hasMore"], true);
    assert_eq!(page["turns"][0]["userMessage"]["text"], "say x");
    // "(fetch turns before t2)"
    let page = client
        .request("fetchTurns", json!({ "session": session, "before": "t2", "limit": 20 }))
        .await
        .unwrap();
    assert_eq!(ids(&page), ["t1"]);
    assert_eq!(page["hasMore"], false);
    assert_eq!(
        client
            .code("fetchTurns", json!({ "session": session, "before": "t9" }))
            .await,
        -32602
    );
    assert_eq!(
        client.code("fetchTurns", json!({ "session": "copilot:/none" })).await,
        -32001
    );
}

#[tokio::test]
async fn completions() {
    let house = house().await;
    std::fs::write(house.work().join("readme.md"), "x").unwrap();
    let mut client = house.client_of("seed", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    client
        .request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    let text = "look at @read";
    let params = json!({ "kind": "userMessage", "session": session, "text": text, "offset": text.len() });
    let items = client.request("completions", params).await.unwrap()["items"].clone();
    assert_eq!(items[0]["insertText"], "@readme.md");
    assert_eq!(items[0]["rangeStart"], 8);
    assert_eq!(items[0]["rangeEnd"], 13);
    assert_eq!(items[0]["attachment"]["type"], "resource");
    let outside = json!({ "kind": "userMessage", "session": session, "text": text, "offset": 99 });
    assert_eq!(client.code("completions", outside).await, -32602);
}

/// "Clients interact with the server by dispatching actions": the four of the table, and their effects.
#[tokio::test]
async fn client_dispatched_actions() {
    let house = house().await;
    let mut client = house.client_of("seed", "0.1.0").await;
    let session = format!("copilot:/{}", uuid(1));
    client
        .request("createSession", json!({ "session": session }))
        .await
        .unwrap();
    client
        .request("subscribe", json!({ "resource": session }))
        .await
        .unwrap();

    // session/turnStarted: begins agent processing for the new turn. The echo carries the origin.
    let text = "call bash {\"command\":\"touch permitted\"} then say done";
    let action =
        json!({ "type": "session/turnStarted", "session": session, "turnId": "t1", "userMessage": { "text": text } });
    let seq = client.dispatch_seed(action).await;
    let echo = client.verdict(seq).await;
    assert_eq!(echo["action"]["userMessage"]["text"], text);
    assert_eq!(echo["action"]["session"], session.as_str());
    assert!(echo["serverSeq"].is_u64());

    // session/permissionResolved: unblocks the pending tool execution.
    let ready = client.action("session/toolCallReady").await["action"].clone();
    assert_eq!(ready["session"], session.as_str());
    let resolved = json!({
        "type": "session/permissionResolved", "session": session, "turnId": "t1",
        "requestId": ready["toolCallId"], "approved": true,
    });
    let seq = client.dispatch_seed(resolved).await;
    let echo = client.verdict(seq).await;
    assert_eq!(echo.get("rejectionReason"), None, "{echo}");
    assert_eq!(echo["action"]["type"], "session/toolCallConfirmed");
    client.action("session/turnComplete").await;
    assert!(house.work().join("permitted").exists());

    // session/turnCancelled: aborts the in-progress turn.
    let slow = json!({ "type": "session/turnStarted", "session": session, "turnId": "t2", "userMessage": { "text": "slowly 20 ms, stream 2000 chunks" } });
    client.dispatch_seed(slow).await;
    client.action("session/delta").await;
    let seq = client
        .dispatch_seed(json!({ "type": "session/turnCancelled", "session": session, "turnId": "t2" }))
        .await;
    let echo = client.verdict(seq).await;
    assert_eq!(
        echo["action"],
        json!({ "type": "session/turnCancelled", "session": session, "turnId": "t2" })
    );

    // session/modelChanged: changes the model for subsequent turns.
    let changed = json!({ "type": "session/modelChanged", "session": session, "model": { "id": "rehearsal" } });
    let seq = client.dispatch_seed(changed.clone()).await;
    let echo = client.verdict(seq).await;
    assert_eq!(echo["action"], changed);
    let unknown = json!({ "type": "session/modelChanged", "session": session, "model": { "id": "no-such-model" } });
    let seq = client.dispatch_seed(unknown).await;
    assert!(client.verdict(seq).await["rejectionReason"].is_string());

    // What is the server's to say is refused, and only its sender hears of it.
    let seq = client
        .dispatch_seed(json!({ "type": "session/ready", "session": session }))
        .await;
    assert!(client.verdict(seq).await["rejectionReason"].is_string());
}
