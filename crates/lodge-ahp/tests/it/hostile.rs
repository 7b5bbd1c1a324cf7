//! Bad input is normal input: a clear error to whoever caused it, everybody else unharmed.

use std::time::Duration;

use lodge_ahp::{Limits, methods::METHODS};
use lodge_host::ConnectionLimits;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::kit::*;

#[tokio::test]
async fn nonsense_for_every_method_is_answered_and_harms_nobody() {
    let house = house().await;
    let mut good = house.client("good").await;
    let mut bad = house.client("bad").await;
    let nonsense = [
        json!(null),
        json!([]),
        json!("x"),
        json!(7),
        json!({}),
        json!({ "channel": 7, "uri": 7, "session": [], "clientId": {}, "cursor": 1, "resource": false }),
        json!({ "channel": null, "uri": null, "subscriptions": 7, "lastSeenServerSeq": "x" }),
        json!({ "channel": "nothing:/here", "uri": "nothing:/here", "chat": "x", "destination": {}, "kind": "userMessage", "text": "x", "offset": -5 }),
        json!({ "channel": "\u{0}\n", "uri": "file:///\u{0}", "chat": "", "resource": "", "token": "", "data": 1 }),
        json!({ "channel": "a".repeat(5000), "uri": "file://other/host", "source": "file:///..", "destination": "file:///" }),
    ];
    for method in METHODS {
        for params in &nonsense {
            let answer = bad.request(method.name, params.clone()).await;
            if let Err(error) = answer {
                let code = error["code"].as_i64().unwrap();
                assert!(code != -32603, "{} {params}: {error}", method.name);
                assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
            }
        }
    }
    // Things that are no requests at all.
    for text in [
        "",
        " ",
        "null",
        "7",
        "\"x\"",
        "{}",
        "[{}]",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"noSuchThing","params":{}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
        "\u{feff}{}",
    ] {
        bad.send_text(text).await;
    }
    bad.inbox.clear();
    assert_eq!(bad.request("ping", json!({})).await.unwrap(), Value::Null);
    let (_, chat) = good.session(&uuid(1)).await;
    assert_eq!(
        good.turn(&chat, "t1", "say fine").await["turns"][0]["state"],
        "complete"
    );
}

#[tokio::test]
async fn odd_dispatches_are_refused_or_ignored_one_by_one() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut b = house.client("a").await;
    let (session, chat) = a.session(&uuid(1)).await;
    b.subscribe(&session).await;
    // What cannot be read, or is about nothing, has no answer.
    for params in [
        json!(null),
        json!([]),
        json!({}),
        json!({ "channel": chat }),
        json!({ "channel": chat, "clientSeq": "x", "action": {} }),
        json!({ "channel": "x:/none", "clientSeq": 1, "action": { "type": "chat/turnStarted" } }),
    ] {
        a.notify("dispatchAction", params).await;
    }
    assert!(a.drain().await.iter().all(|message| message["method"] != "action"));
    // What can be answered is.
    for action in [
        json!({}),
        json!([]),
        json!("x"),
        json!({ "type": 7 }),
        json!({ "type": "chat/bogus" }),
        json!({ "type": "session/ready" }),
        json!({ "type": "chat/turnStarted" }),
        json!({ "type": "chat/turnStarted", "turnId": 7, "message": "x" }),
        json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": "x" }),
        json!({ "type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": "c", "approved": true }),
        json!({ "type": "chat/turnResume", "turnId": "t" }),
        json!({ "type": "chat/inputCompleted", "requestId": "r", "response": "accept" }),
        json!({ "type": "root/configChanged", "config": {} }),
        json!({ "type": "terminal/input", "data": "x" }),
    ] {
        assert!(!a.refused(&chat, action).await.is_empty());
    }
    // The same number twice, by two connections of one client: each is answered where it was asked.
    for title in ["one", "two"] {
        let action = json!({ "type": "session/titleChanged", "title": title });
        for client in [&mut a, &mut b] {
            let params = json!({ "channel": session, "clientSeq": 77, "action": action });
            client.notify("dispatchAction", params).await;
            let answer = client.verdict(77).await;
            assert_eq!(answer.get("rejectionReason"), None, "{answer}");
        }
    }
    assert_eq!(a.subscribe(&session).await["state"]["title"], "two");
    // A channel that it does not listen to can be spoken to all the same.
    let mut c = house.client("c").await;
    c.accepted(&session, json!({ "type": "session/titleChanged", "title": "three" }))
        .await;
}

/// The official client for Go writes a list that its user left alone as `null`.
#[tokio::test]
async fn a_list_that_is_null_is_an_empty_one() {
    let house = house().await;
    let mut a = house.client("a").await;
    let session = format!("ahp-session:/{}", uuid(1));
    let nobody = json!({ "clientId": "a", "tools": null });
    let params = json!({ "channel": session, "activeClient": nobody });
    a.request("createSession", params).await.unwrap();
    let state = a.subscribe(&session).await["state"].clone();
    assert_eq!(state["activeClients"][0]["tools"], json!([]), "{state}");
    let action = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "a", "displayName": "A", "tools": null } });
    let told = a.accepted(&session, action).await;
    assert_eq!(told["activeClient"]["tools"], json!([]), "{told}");
    let chat = state["defaultChat"].as_str().unwrap().to_owned();
    a.subscribe(&chat).await;
    let order = json!({ "type": "chat/queuedMessagesReordered", "order": null });
    a.accepted(&chat, order).await;
    let mut back = house.connect().await;
    let params = json!({ "clientId": "a", "lastSeenServerSeq": 0, "subscriptions": null });
    assert_eq!(back.request("reconnect", params).await.unwrap()["missing"], json!([]));
}

#[tokio::test]
async fn coming_back_with_odd_numbers_gives_snapshots() {
    let (house, mut a, session, chat) = at_home().await;
    a.turn(&chat, "t1", "say x").await;
    let channels = json!([ROOT, session, chat]);
    for seen in [json!(1u64 << 60), json!(-3), json!(1e300), json!(0.5), json!(0)] {
        let mut back = house.connect().await;
        let params = json!({ "clientId": "a", "lastSeenServerSeq": seen, "subscriptions": channels });
        let result = back.request("reconnect", params.clone()).await.unwrap();
        assert_eq!(result["type"], "snapshot", "{seen}");
        assert_eq!(result["snapshots"].as_array().unwrap().len(), 3);
        // Once is enough.
        assert_eq!(back.code("reconnect", params).await, -32600);
        let again = json!({ "protocolVersions": ["1.0.0"], "clientId": "a" });
        assert_eq!(back.code("initialize", again).await, -32600);
    }
    for params in [
        json!({ "clientId": "a" }),
        json!({ "clientId": 7, "lastSeenServerSeq": 1, "subscriptions": [] }),
        json!({ "clientId": "a", "lastSeenServerSeq": 1, "subscriptions": [7] }),
    ] {
        let mut back = house.connect().await;
        assert_eq!(back.code("reconnect", params).await, -32602);
    }
    let mut stranger = house.connect().await;
    let params = json!({ "clientId": "nobody", "lastSeenServerSeq": 1, "subscriptions": [] });
    assert_eq!(stranger.code("reconnect", params).await, -32008);
    // After that it may still introduce itself.
    let params = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": "nobody" });
    stranger.request("initialize", params).await.unwrap();
}

/// A frame of a client, masked with nothing.
fn frame(opcode: u8, last: bool, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![opcode | if last { 0x80 } else { 0 }];
    match payload.len() {
        short @ 0..126 => bytes.push(0x80 | short as u8),
        long => {
            bytes.push(0x80 | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

async fn upgraded(house: &House) -> TcpStream {
    let address = house.server.as_ref().unwrap().local_addr();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /?tkn={TOKEN} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    // As slowly as a bad line would bring it.
    for piece in request.as_bytes().chunks(40) {
        socket.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(socket.read_u8().await.unwrap());
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    socket
}

/// The next frame of the host: opcode and payload.
async fn next(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let opcode = socket.read_u8().await.unwrap() & 0x0f;
    let length = match socket.read_u8().await.unwrap() & 0x7f {
        126 => usize::from(socket.read_u16().await.unwrap()),
        127 => usize::try_from(socket.read_u64().await.unwrap()).unwrap(),
        short => usize::from(short),
    };
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload).await.unwrap();
    (opcode, payload)
}

#[tokio::test]
async fn nobody_stands_on_the_doorstep_for_ever() {
    let house = house().await;
    house.host.connections().set_limits(ConnectionLimits {
        authenticate_within: Duration::from_secs(2),
        ..ConnectionLimits::default()
    });
    let mut good = house.client("good").await;
    let address = house.server.as_ref().unwrap().local_addr();
    // One that says nothing, one that never finishes, one that was refused and stays.
    let refused = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut waiting = Vec::new();
    for said in ["", "GET / HTTP/1.1\r\nHost: loc", refused] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(said.as_bytes()).await.unwrap();
        waiting.push((said, socket));
    }
    for (said, mut socket) in waiting {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{said:?} is waited for");
    }
    // Who was let in is there longer than that.
    good.request("ping", json!({})).await.unwrap();
    let (_, chat) = good.session(&uuid(1)).await;
    assert_eq!(
        good.turn(&chat, "t1", "say fine").await["turns"][0]["state"],
        "complete"
    );
}

#[tokio::test]
async fn frames_may_come_in_pieces_and_connections_half_open() {
    let house = house_with(Limits {
        frame_bytes: 10_000,
        resource_bytes: 10_000,
        ..Limits::default()
    })
    .await;
    let mut good = house.client("good").await;
    // One that never finishes its request, and one that says nothing more.
    let address = house.server.as_ref().unwrap().local_addr();
    let mut unfinished = TcpStream::connect(address).await.unwrap();
    unfinished.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
    let silent = upgraded(&house).await;
    // A message in three pieces with a ping between, byte by byte.
    let mut socket = upgraded(&house).await;
    let message = br#"{"jsonrpc":"2.0","id":"pieces","method":"ping","params":{"_meta":{"x":"y"}}}"#;
    let (one, rest) = message.split_at(20);
    let (two, three) = rest.split_at(20);
    let pieces = [
        frame(1, false, one),
        frame(9, true, b"are you there"),
        frame(0, false, two),
        frame(0, true, three),
    ]
    .concat();
    for byte in pieces {
        socket.write_all(&[byte]).await.unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (opcode, payload) = next(&mut socket).await;
        seen.push((opcode, String::from_utf8(payload).unwrap()));
    }
    seen.sort();
    assert_eq!(seen[0].0, 1);
    assert_eq!(
        serde_json::from_str::<Value>(&seen[0].1).unwrap(),
        json!({ "jsonrpc": "2.0", "id": "pieces", "result": null })
    );
    assert_eq!(seen[1], (10, "are you there".to_owned()));
    // JSON in a binary frame is taken; what is no text is said to be none.
    socket
        .write_all(&frame(2, true, br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#))
        .await
        .unwrap();
    assert!(
        String::from_utf8(next(&mut socket).await.1)
            .unwrap()
            .contains(r#""id":2"#)
    );
    socket.write_all(&frame(2, true, &[0xff, 0xfe, 0x00])).await.unwrap();
    assert!(String::from_utf8(next(&mut socket).await.1).unwrap().contains("-32700"));
    // Text that is not UTF-8 and frames that are too long end their own connection.
    socket.write_all(&frame(1, true, &[0xff, 0xfe])).await.unwrap();
    let mut long = upgraded(&house).await;
    long.write_all(&frame(1, true, &vec![b' '; 2 << 20])).await.unwrap();
    let mut told = Vec::new();
    for socket in [&mut socket, &mut long] {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the connection goes on");
        told.push(rest);
    }
    let code = 1002_u16.to_be_bytes();
    assert!(
        told[0].windows(2).any(|part| part == code),
        "it is said why: {:?}",
        told[0]
    );
    // One that closes its half in the middle of a message.
    let mut half = upgraded(&house).await;
    half.write_all(&frame(1, false, one)).await.unwrap();
    half.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), half.read_to_end(&mut rest))
        .await
        .unwrap();
    let (_, chat) = good.session(&uuid(1)).await;
    assert_eq!(
        good.turn(&chat, "t1", "say fine").await["turns"][0]["state"],
        "complete"
    );
    drop((unfinished, silent));
}
