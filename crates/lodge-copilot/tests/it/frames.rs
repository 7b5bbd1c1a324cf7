//! Frames, requests, answers and errors.

use lodge_copilot::{ServerOptions, frame::MAX_BODY};
use serde_json::{Value, json};

use crate::client::House;

#[tokio::test]
async fn ids_come_back_exactly_as_they_went() {
    let mut client = House::new().client();
    for id in [
        json!(0),
        json!("0a-b"),
        json!(9_007_199_254_740_993_u64),
        json!(-1),
        json!("ünïcode \"quoted\""),
    ] {
        client
            .message(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
            .await;
        let answer = client.next().await;
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"]["message"], "pong");
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_and_the_connection_lives_on() {
    let mut client = House::new().client();
    for (sent, code, words) in [
        (frame("{"), -32700, "not JSON"),
        (frame("[]"), -32600, "a method or an id"),
        (frame("{\"jsonrpc\":\"2.0\"}"), -32600, "a method or an id"),
        (frame("\"text\""), -32600, "not a JSON-RPC message"),
        (b"Content-Length: x\r\n\r\n".to_vec(), -32700, "not a number"),
        (b"Nonsense\r\n\r\n".to_vec(), -32700, "without Content-Length"),
        (
            frame(&request("no.such.method", json!({}))),
            -32601,
            "Unhandled method no.such.method",
        ),
        (
            frame(&request("session.send", json!({"sessionId": 7}))),
            -32602,
            "Invalid parameters",
        ),
        (
            frame(&request("session.send", json!({"sessionId": "x", "prompt": ""}))),
            -32603,
            "Session not found for sessionId: x",
        ),
        (
            frame(&request("session.getMessages", json!({"sessionId": "x"}))),
            -32603,
            "Request session.getMessages failed with message: Session not found: x",
        ),
        (
            frame(&request("session.resume", json!({"sessionId": "x"}))),
            -32603,
            "Session not found: x",
        ),
        (
            frame(&request("session.create", json!({"sessionId": ""}))),
            -32603,
            "cannot be empty",
        ),
        (frame("{\"id\":1,\"method\":4}"), -32600, "not a JSON-RPC message"),
        (frame("[{\"id\": 1,\"method\":\"ping\"}]"), -32600, "batches"),
        (
            frame("{\"jsonrpc\":\"2.0\",\"id\":1}"),
            -32600,
            "a request has a method",
        ),
    ] {
        client.raw(&sent).await;
        let answer = client.next().await;
        let shown = String::from_utf8_lossy(&sent).into_owned();
        assert_eq!(answer["id"] == 1, shown.contains("\"id\":1"), "{shown}: {answer}");
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert!(
            answer["error"]["message"].as_str().unwrap().contains(words),
            "{shown}: {answer}"
        );
    }
    assert_eq!(client.call("ping", json!({"message": "x"})).await["message"], "pong: x");
}

#[tokio::test]
async fn a_frame_over_64_mib_is_refused_and_the_sessions_live_on() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(json!({})).await;
    client
        .raw(format!("Content-Length: {}\r\n\r\n", MAX_BODY + 1).as_bytes())
        .await;
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..64 {
        client.raw(&chunk).await;
    }
    client.raw(b" ").await;
    loop {
        let message = client.next().await;
        if message.get("error").is_some() {
            assert_eq!(message["error"]["code"], -32600);
            assert_eq!(message["id"], Value::Null);
            break;
        }
    }
    let events = client.say(&session, "say still here").await;
    assert!(events.iter().any(|event| event["data"]["content"] == "still here"));
}

#[tokio::test]
async fn a_frame_that_claims_more_than_anybody_has_is_refused_at_once() {
    let mut client = House::new().client();
    client.raw(b"Content-Length: 99999999999999\r\n\r\n{").await;
    let answer = client.next().await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
}

#[tokio::test]
async fn without_the_right_token_nothing_is_served() {
    let house = House::new();
    let options = || ServerOptions {
        connection_token: Some("secret".into()),
        ..ServerOptions::default()
    };
    let refused = (-32002, "AUTHENTICATION_FAILED".to_owned());
    let mut client = house.client_with(options(), 1 << 20);
    assert_eq!(client.fail("ping", json!({})).await, refused);
    assert_eq!(client.fail("session.create", json!({})).await, refused);
    for token in [
        json!({}),
        json!({"token": "wrong"}),
        json!({"token": "secre"}),
        json!({"token": "secret2"}),
    ] {
        assert_eq!(client.fail("connect", token).await, refused);
    }
    let hello = client
        .call("connect", json!({"token": "secret", "clientInfo": {"name": "me"}}))
        .await;
    assert_eq!((&hello["ok"], &hello["protocolVersion"]), (&json!(true), &json!(3)));
    assert_eq!(client.call("ping", json!({})).await["protocolVersion"], 3);
}

#[tokio::test]
async fn while_a_callback_is_open_everything_else_is_served() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(json!({"hooks": true})).await;
    client
        .call("session.send", json!({"sessionId": session, "prompt": "say hi"}))
        .await;
    let hook = client.request("hooks.invoke").await;
    assert_eq!(hook["params"]["hookType"], "sessionStart");
    assert!(hook["id"].is_u64());
    assert_eq!(
        client.call("session.mode.get", json!({"sessionId": session})).await,
        "interactive"
    );
    assert_eq!(
        client
            .call("session.metadata.isProcessing", json!({"sessionId": session}))
            .await["processing"],
        true
    );
    client
        .message(&json!({"jsonrpc": "2.0", "id": hook["id"], "result": {}}))
        .await;
    // Every other hook is answered with an error, which counts as nothing to say.
    loop {
        let message = client.next().await;
        if message["method"] == "hooks.invoke" {
            let error = json!({"code": -32603, "message": "no"});
            client
                .message(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
                .await;
        } else if message["params"]["event"]["type"] == "session.idle" {
            break;
        }
    }
}

fn request(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

fn frame(body: &str) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
