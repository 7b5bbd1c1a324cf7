//! Several clients on one session, slow ones, and ones that go away.

use std::time::Duration;

use lodge_copilot::{ServerOptions, serve_tcp};
use lodge_host::ConnectionLimits;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::client::{Client, House};

async fn joined(house: &House, session: &str) -> Client {
    let mut client = house.client();
    client
        .call("session.resume", json!({"sessionId": session, "disableResume": true}))
        .await;
    client
}

#[tokio::test]
async fn every_delta_reaches_every_client_once_and_in_order() {
    let house = House::new();
    let mut first = house.client();
    let session = first.create(json!({"streaming": true})).await;
    let mut second = joined(&house, &session).await;
    first
        .call(
            "session.send",
            json!({"sessionId": session, "prompt": "stream 2000 chunks"}),
        )
        .await;
    let (a, b) = (
        first.events_until("session.idle").await,
        second.events_until("session.idle").await,
    );
    let deltas = |events: &[serde_json::Value]| -> Vec<String> {
        let deltas = events.iter().filter(|event| event["type"] == "assistant.message_delta");
        deltas
            .map(|event| event["data"]["deltaContent"].as_str().unwrap().to_owned())
            .collect()
    };
    let message = a.iter().find(|event| event["type"] == "assistant.message").unwrap();
    assert_eq!(deltas(&a).concat(), message["data"]["content"].as_str().unwrap());
    assert!(deltas(&a).len() >= 2000);
    assert_eq!(deltas(&a), deltas(&b));
}

#[tokio::test]
async fn tools_are_the_union_and_vanish_with_their_client() {
    let house = House::new();
    let mut first = house.client();
    let tool = |name: &str| json!([{"name": name, "description": "", "skipPermission": true}]);
    let session = first
        .create(json!({"tools": tool("one"), "availableTools": ["one", "two"]}))
        .await;
    let mut second = house.client();
    second
        .call("session.resume", json!({"sessionId": session, "tools": tool("two")}))
        .await;
    let names = async |client: &mut Client| {
        let tools = client
            .call("session.tools.getCurrentMetadata", json!({"sessionId": session}))
            .await;
        tools["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&mut first).await, ["one", "two"]);
    first
        .call(
            "session.send",
            json!({"sessionId": session, "prompt": "call two {} then say done"}),
        )
        .await;
    let called = second.event("external_tool.requested").await;
    let answer = json!({"sessionId": session, "requestId": called["data"]["requestId"], "result": "from two"});
    // Whoever is attached may answer; the first answer counts.
    assert_eq!(
        first.call("session.tools.handlePendingToolCall", answer.clone()).await["success"],
        true
    );
    assert_eq!(
        second.call("session.tools.handlePendingToolCall", answer).await["success"],
        false
    );
    first.event("session.idle").await;
    drop(second);
    first.event("session.tools_updated").await;
    assert_eq!(names(&mut first).await, ["one"]);
}

#[tokio::test]
async fn open_questions_outlive_the_client_that_was_asked() {
    let house = House::new();
    let mut first = house.client();
    let tool = json!([{"name": "slow", "description": "", "skipPermission": true}]);
    let session = first.create(json!({"tools": tool})).await;
    first
        .call(
            "session.send",
            json!({"sessionId": session, "prompt": "call slow {} then say done"}),
        )
        .await;
    let called = first.event("external_tool.requested").await;
    drop(first);
    let mut second = house.client();
    second
        .call(
            "session.resume",
            json!({"sessionId": session, "continuePendingWork": true}),
        )
        .await;
    let answer = json!({"sessionId": session, "requestId": called["data"]["requestId"], "result": "late"});
    assert_eq!(
        second.call("session.tools.handlePendingToolCall", answer).await["success"],
        true
    );
    let events = second.events_until("session.idle").await;
    assert!(events.iter().any(|event| event["data"]["result"]["content"] == "late"));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_and_nobody_else_notices() {
    let house = House::new();
    let mut reader = house.client();
    let session = reader.create(json!({"streaming": true})).await;
    let options = ServerOptions {
        queue_bytes: 64 * 1024,
        ..ServerOptions::default()
    };
    let mut sleeper = house.client_with(options, 8 * 1024);
    sleeper
        .call("session.resume", json!({"sessionId": session, "disableResume": true}))
        .await;
    reader
        .call(
            "session.send",
            json!({"sessionId": session, "prompt": "stream 3000 chunks"}),
        )
        .await;
    let events = reader.events_until("session.idle").await;
    assert!(events.len() > 3000);
    // What was in the pipe is there, and then the end.
    let mut left = 0;
    while sleeper.try_next().await.is_some() {
        left += 1;
    }
    assert!(left < 3000, "{left} events reached a client that was not reading");
    let counted = async {
        while house.host.metrics().counts().dropped_clients == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.unwrap();
    let events = reader.say(&session, "say still here").await;
    assert!(events.iter().any(|event| event["data"]["content"] == "still here"));
}

#[tokio::test]
async fn nobody_stands_on_the_doorstep_for_ever() {
    let house = House::new();
    let options = ServerOptions {
        connection_token: Some("sesame".into()),
        ..ServerOptions::default()
    };
    house.host.connections().set_limits(ConnectionLimits {
        authenticate_within: Duration::from_secs(2),
        ..ConnectionLimits::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_tcp(house.host.clone(), listener, options));
    let mut known = TcpStream::connect(address).await.unwrap();
    let frame = |id: u64, method: &str| {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"token": "sesame"}}).to_string();
        format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    known.write_all(&frame(1, "connect")).await.unwrap();
    let mut answer = [0; 1024];
    assert!(known.read(&mut answer).await.unwrap() > 0);
    // Those that say nothing, or not enough, are closed; who was let in stays.
    let mut strangers = Vec::new();
    for said in [&b""[..], b"Content-Length: 100\r\n\r\n{"] {
        let mut stranger = TcpStream::connect(address).await.unwrap();
        stranger.write_all(said).await.unwrap();
        strangers.push(stranger);
    }
    for mut stranger in strangers {
        assert_eq!(stranger.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
    known.write_all(&frame(2, "ping")).await.unwrap();
    assert!(known.read(&mut answer).await.unwrap() > 0);
}

#[tokio::test]
async fn everybody_learns_what_happens_to_sessions() {
    let house = House::new();
    let mut watcher = house.client();
    watcher.call("ping", json!({})).await;
    let mut client = house.client();
    let session = client.create(json!({"sessionId": "watched"})).await;
    let mut lifecycle = async || loop {
        let message = watcher.next().await;
        if message["method"] == "session.lifecycle" {
            assert_eq!(message["params"]["sessionId"], "watched");
            return message["params"]["type"].as_str().unwrap().to_owned();
        }
    };
    assert_eq!(lifecycle().await, "session.created");
    client
        .call("session.plan.update", json!({"sessionId": session, "content": "x"}))
        .await;
    assert_eq!(lifecycle().await, "session.updated");
    client.call("session.delete", json!({"sessionId": session})).await;
    loop {
        match lifecycle().await.as_str() {
            "session.deleted" => break,
            other => assert_eq!(other, "session.updated"),
        }
    }
}

#[tokio::test]
async fn commands_are_run_by_the_client_that_has_them() {
    let house = House::new();
    let mut first = house.client();
    let session = first.create(json!({})).await;
    // The clients share one server here, as they do over TCP.
    let commands = json!([{"name": "deploy", "description": "Deploys"}]);
    first
        .call(
            "session.resume",
            json!({"sessionId": session, "commands": commands, "disableResume": true}),
        )
        .await;
    let changed = first.event("commands.changed").await;
    assert_eq!(
        changed["data"]["commands"],
        json!([{"name": "deploy", "description": "Deploys"}])
    );
    let only = json!({"sessionId": session, "includeBuiltins": false, "includeSkills": false});
    let listed = first.call("session.commands.list", only).await;
    assert_eq!(listed["commands"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["commands"][0]["kind"], "client");
    let running = first
        .ask(
            "session.commands.execute",
            json!({"sessionId": session, "commandName": "deploy", "args": "now"}),
        )
        .await;
    let execute = first.event("command.execute").await;
    assert_eq!(execute["data"]["command"], "/deploy now");
    let done = json!({"sessionId": session, "requestId": execute["data"]["requestId"], "error": "it broke"});
    first.call("session.commands.handlePendingCommand", done).await;
    assert_eq!(first.answer(running).await["result"], json!({"error": "it broke"}));
    let unknown = json!({"sessionId": session, "commandName": "nope", "args": ""});
    assert_eq!(
        first.call("session.commands.execute", unknown).await["error"],
        "Unknown command: nope"
    );
}
